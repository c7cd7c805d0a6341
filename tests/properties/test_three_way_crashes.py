"""Joins of three sides that die at every step, of the driver and of an instance at each hop: no difference.

In each run every step is died at once, each in a batch of its own, and the tables change under way. The results of each
batch are compared with those of a run that nobody killed, and so is what is kept in the end.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from three_sides import SCHEMA, Case, cases, streams, whole
from three_tables import cubes_of, is_where_it_says, tables_of

import evenjoin
from evenjoin.placement import Biclique
from evenjoin.state.files import MemoryFolder
from evenjoin.testing import Crash, Fixed, brute_force, multiset, run_stream

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

SELECT = ["r.id AS a", "s.id AS b", "t.id AS c"]
CHAIN = Case("rst", "r.a = s.a AND abs(s.b - t.b) <= 1 AND r.v <> t.v", {"select": SELECT})
CYCLE = Case("rst", "r.a = s.a AND s.n = t.n AND r.b < t.a", {"select": SELECT})
TIMED = Case(
    "rst",
    "r.a = s.a AND s.b = t.b AND s.ts BETWEEN r.ts - 4 AND r.ts + 4 AND t.ts BETWEEN s.ts - 4 AND s.ts + 4",
    {"select": SELECT, "event_time": "ts", "watermark": 3},
)
DRIVER = [Crash(step) for step in ("begin", "migrated", "executed", "receipts", "commit", "committed", "collected")]
WORKER = [Crash(step, instance) for step in ("moved", "joined", "sealed", "receipt") for instance in (0, 1)]
AT_HOP_1 = [Crash(f"{step} at hop 1", instance) for step in ("joined", "sealed", "receipt") for instance in (0, 1)]
STEPS = DRIVER + WORKER + AT_HOP_1

TRIPLES = [Biclique(((0, 1), (1,), (0, 2))), Biclique(((2,), (0, 1), (1, 2)), ((1.0,), (3.0, 1.0), (1.0, 1.0)))]
PAIRED = [Biclique((*topology.units, (0, 1))) for topology in TRIPLES]


def tables(case: Case, program: str, count: int) -> Any:
    """So many tables of a program; none is like the one before."""
    if program == "direct":
        return cubes_of(case.spec, [((1, 2, 2), (2, 2, 1))[n % 2] for n in range(count)])
    shapes = PAIRED if program.startswith("tree") else TRIPLES
    return tables_of(case.spec, program, [(3, shapes[n % 2]) for n in range(count)])


def rows(batch: int, count: int = 4) -> dict[str, pa.Table]:
    """Rows of each side. Times go on by 3 a batch."""
    out = {}
    for number, name in enumerate("rst"):
        ids = [batch * count + i for i in range(count)]
        mixed = [(i * 2654435761 + number * 40503) % 2**32 >> 7 for i in ids]
        columns: dict[str, Any] = {"id": ids, "a": [m % 3 for m in mixed], "b": [m // 3 % 3 for m in mixed]}
        columns |= {"n": ["xyz"[m // 9 % 3] for m in mixed], "m": ["x"] * count, "v": [m // 27 % 3 for m in mixed]}
        out[name] = pa.table({**columns, "ts": [batch * 3 + m % 4 for m in mixed]}, schema=SCHEMA)
    return out


class Runs:
    """A join that can be started again and again on one checkpoint. `late` are the late rows that it told of."""

    def __init__(self, case: Case, drawn: Any) -> None:
        self.case, self.drawn, self.folder = case, drawn, MemoryFolder()

    def __call__(self, hooks: Any = None) -> Any:
        return evenjoin.local(
            self.case.schemas, self.case.on, strategy=Fixed(self.drawn), instances=self.drawn[0].instances,
            checkpoint=self.folder, merge_budget=12, hooks=hooks, **self.case.options,
        )  # fmt: skip

    def kept(self) -> Any:
        """What is kept at last, by store and instance."""
        with self() as join:
            copies = join.table().program == "direct"
            is_where_it_says(join, copies)
            report = join.load()
            packs = [[(p.name, p.alive, p.alive_pairs) for p in load.packs] for load in report.instances]
            return [load.stored for load in report.instances], packs, join.progress().total


PROGRAMS = [
    ("trijoin packed", CHAIN),
    ("trijoin paired 2", CHAIN),
    ("trijoin packed", CYCLE),
    ("trijoin packed", TIMED),
    ("tree 2", CHAIN),
    ("tree 0", TIMED),
    ("direct", CYCLE),
    ("direct", TIMED),
]


@pytest.mark.parametrize(("program", "case"), PROGRAMS)
def test_a_crash_at_every_step_makes_no_difference(program, case):
    """Each step is the end of one batch; the batch is replayed by a new start."""
    hops = 2 if program.startswith("tree") or (program != "direct" and case is not CYCLE) else 1
    steps = STEPS if hops == 2 else DRIVER + WORKER
    batches = len(steps) + 1
    drawn, every = tables(case, program, batches), [rows(n) for n in range(batches)]
    undisturbed, killed = Runs(case, drawn), Runs(case, drawn)
    expected = run_stream(undisturbed, every)
    armed = [every[0], *(item for crash, batch in zip(steps, every[1:], strict=True) for item in (crash, batch))]
    sunk = run_stream(killed, armed)
    assert sum(table.num_rows for table in sunk.values()) > 20
    assert {n: multiset(table) for n, table in sunk.items()} == {n: multiset(table) for n, table in expected.items()}
    assert killed.kept() == undisturbed.kept()
    assert not [name for name in killed.folder.files if name.startswith(("receipts/", "late/"))]
    if "watermark" not in case.options:
        assert sum(map(multiset, sunk.values()), Counter()) == brute_force(case.spec, whole(every))


def test_every_step_of_a_hop_is_passed():
    """The names of the steps are those that a join of two hops calls; a crash at a step that nobody passes is none."""
    passed = set()
    hooks = evenjoin.testing.Hooks(
        step=lambda name, _: passed.add(Crash(name)), worker_step=lambda name, i: passed.add(Crash(name, i))
    )
    join = Runs(CHAIN, tables(CHAIN, "trijoin packed", 4))(hooks)
    for n in range(4):
        join.process(rows(n))
    join.close()
    assert set(STEPS) <= passed


def survives(case: Case, more: Any) -> None:
    """Crashes at random steps, several in a batch."""
    stream = more.draw(streams("rst", batches=4))
    driven = [edge for edge in case.spec.edges if edge.drive != "none"]
    program = more.draw(st.sampled_from(["direct", "tree", *["trijoin packed", "trijoin paired"] * (len(driven) > 1)]))
    if program == "tree" and case.spec.between(*case.spec.edges[0].sides) is not None:
        program = f"tree {({0, 1, 2} - set(case.spec.edges[0].sides)).pop()}"
    armed = [i for batch in stream for i in (*more.draw(st.lists(st.sampled_from(STEPS), max_size=3)), batch)]
    sunk = run_stream(Runs(case, tables(case, program, 4)), armed)
    assert sum(map(multiset, sunk.values()), Counter()) == brute_force(case.spec, whole(stream))


def random_crashes(examples: int) -> Any:
    profile = settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    return profile(given(cases(("cyclic", "chain", "class", "apart")), st.data())(survives))


def test_random_crashes():
    """Any join, any steps, several deaths of one batch."""
    random_crashes(15)()


@pytest.mark.slow
def test_random_crashes_many_times():
    random_crashes(1000)()
