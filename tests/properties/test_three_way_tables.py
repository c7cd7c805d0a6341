"""Tables that change under joins of three sides: packs, pairs and copies move, are masked, and leave; none is lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from three_sides import SCHEMA, Case, Way, cases, started, streams, whole
from three_tables import bicliques, cubes_of, is_where_it_says, tables_of

import evenjoin
from evenjoin.errors import SpecError
from evenjoin.placement import Biclique
from evenjoin.state.files import MemoryFolder
from evenjoin.testing import Fixed, brute_force, multiset

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")


def profile(examples: int) -> Any:
    return settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))


def programs(case: Case) -> list[str]:
    """The programs with intermediate results that can run the join."""
    spec, out = case.spec, []
    driven = [edge.sides for edge in spec.edges if edge.drive != "none"]
    if len(driven) == 3:
        out += ["trijoin packed", "trijoin paired"]
    if len(driven) == 2:
        (middle,) = set(driven[0]) & set(driven[1])
        out += [f"trijoin {how} {end}" for how in ("packed", "paired") for end in {0, 1, 2} - {middle}]
    return out + [f"tree {c}" for c in range(3) if spec.between(*sorted({0, 1, 2} - {c})) is not None]


def start(case: Case, tables: Any, **more: Any) -> Any:
    return evenjoin.local(
        case.schemas, case.on, strategy=Fixed(tables), instances=tables[0].instances, **case.options, **more
    )


def changes(case: Case, more: Any) -> None:
    """Units, their shares, and how many instances there are change before every batch."""
    stream = more.draw(streams("rst", batches=5))
    program = more.draw(st.sampled_from(programs(case)))
    note(f"{program}: {case.on}")
    drawn = more.draw(st.lists(bicliques(4 if program.startswith("tree") else 3), min_size=2, max_size=5))
    budget = more.draw(st.sampled_from([6, 2**20]))
    with start(case, tables_of(case.spec, program, drawn), merge_budget=budget) as join:
        found: Counter = Counter()
        for batch in stream:
            found += multiset(join.process(batch))
            is_where_it_says(join)
    assert found == brute_force(case.spec, whole(stream))


def test_the_answer_and_the_places_while_tables_change():
    """After each commit every tuple and every pack is where the table puts it (packs by their anchor), each pair is
    there once, and the answer is the brute-force one."""
    profile(25)(given(cases(("cyclic", "chain", "class"), ids="always"), st.data())(changes))()


@pytest.mark.slow
def test_the_answer_and_the_places_while_tables_change_many_times():
    profile(2000)(given(cases(("cyclic", "chain", "class", "apart"), ids="always"), st.data())(changes))()


def cubes_change(case: Case, more: Any) -> None:
    """Cubes that divide the sides by position change before every batch."""
    stream = more.draw(streams("rst", batches=4))
    sizes = more.draw(st.lists(st.tuples(*[st.integers(1, 2)] * 3), min_size=2, max_size=4))
    with start(case, cubes_of(case.spec, sizes)) as join:
        found: Counter = Counter()
        for batch in stream:
            found += multiset(join.process(batch))
            is_where_it_says(join, copies=True)
    assert found == brute_force(case.spec, whole(stream))


def test_cubes_that_change():
    """Every copy is where the cube puts it, and no result comes twice."""
    profile(12)(given(cases(("cyclic", "chain", "apart"), ids="always"), st.data())(cubes_change))()


@pytest.mark.slow
def test_cubes_that_change_many_times():
    profile(500)(given(cases(("cyclic", "chain", "apart"), ids="always"), st.data())(cubes_change))()


SELECT = ["r.id AS a", "s.id AS b", "t.id AS c"]
CHAIN = Case("rst", "r.a = s.a AND s.b = t.b", {"select": SELECT})
CYCLE = Case("rst", "r.a = s.a AND s.b = t.b AND r.b = t.a", {"select": SELECT})
CLASS = Case("rst", "r.a = s.a AND s.a = t.a", {"select": SELECT})


def plain(first: int, count: int, keys: tuple[int, int] = (5, 4)) -> dict[str, pa.Table]:
    """Rows of every side, with two keys of few values that no two rows share in both."""
    ids, (of_a, of_b) = range(first, first + count), keys
    columns = {"id": ids, "a": [i % of_a for i in ids], "b": [i // of_a % of_b for i in ids], "n": ["x"] * count}
    columns |= {"m": ["x"] * count, "v": [i % 3 for i in ids], "ts": list(ids)}
    return dict.fromkeys("rst", pa.table({name: list(values) for name, values in columns.items()}, schema=SCHEMA))


@pytest.mark.parametrize("case", [CHAIN, CYCLE], ids=["chain", "cycle"])
@pytest.mark.parametrize("packing", ["packed", "paired"])
def test_packs_are_masked_and_come_back(case, packing):
    """A small share of a group moves away and returns: runs of packs are masked, and their dead copies stay dead."""
    program = f"trijoin {packing}"
    home = Biclique(((0,), (0,), (0,)))
    slightly = Biclique(((0, 1),) * 3, ((12.0, 1.0),) * 3)
    tables = tables_of(case.spec, program, [(2, home), (2, slightly), (2, slightly), (2, home), (2, slightly)])
    keys, many = ((11, 13), 143) if (case, packing) == (CYCLE, "packed") else ((5, 4), 40)
    stream = [plain(n * many, many if n < 2 else 15, keys) for n in range(5)]
    masked = 0
    with start(case, tables) as join:
        found: Counter = Counter()
        for batch in stream:
            found += multiset(join.process(batch))
            is_where_it_says(join)
            masked += sum(run.mask is not None for _, store, run in join._driver.last.manifest if store > 2)
    assert found == brute_force(case.spec, whole(stream))
    assert masked


# --- another strategy on the same checkpoint --------------------------------------------------------------------------

ALLOWED = [
    (CLASS, Way("hash"), Way("hypercube")),
    (CLASS, Way("hypercube"), Way("hash", instances=2)),
    (CLASS, Way("trijoin"), Way("hash")),
    (CLASS, Way("tree"), Way("hash")),
    (CHAIN, Way("trijoin"), Way("hypercube", instances=6)),
    (CYCLE, Way("trijoin(packing=paired)", "split"), Way("hypercube")),
    (CHAIN, Way("tree", "split"), Way("hypercube")),
    (CHAIN, Way("trijoin"), Way("trijoin(packing=paired)", "split", 6)),
    (CYCLE, Way("trijoin(packing=paired)"), Way("trijoin", "split", 5)),
    (CHAIN, Way("trijoin(forward=r)"), Way("trijoin(forward=t)")),
    (CHAIN, Way("tree(last=t)"), Way("tree(last=t, units=1:2:1:2)", "split", 6)),
]


@pytest.mark.parametrize(("case", "first", "second"), ALLOWED, ids=lambda x: getattr(x, "strategy", ""))
def test_another_strategy_on_the_same_checkpoint(case, first, second):
    """It goes on where the other stopped, back again where that is allowed; packs that it does not need leave."""
    folder, stream = MemoryFolder(), [plain(n * 8, 8) for n in range(4)]
    found: Counter = Counter()
    for way, batches in ((first, stream[:2]), (second, stream[2:])):
        with started(case, way, checkpoint=folder) as join:
            for batch in batches:
                found += multiset(join.process(batch))
            stores = {store for _, store, _ in join._driver.last.manifest}
            is_where_it_says(join, copies=True)
    assert found == brute_force(case.spec, whole(stream))
    if second.strategy in ("hash", "hypercube"):
        assert stores == {0, 1, 2}


REFUSED = [
    (CLASS, Way("hash"), Way("trijoin")),
    (CHAIN, Way("hypercube"), Way("trijoin")),
    (CHAIN, Way("hypercube"), Way("tree")),
    (CHAIN, Way("trijoin"), Way("tree")),
    (CHAIN, Way("tree"), Way("trijoin")),
    (CYCLE, Way("tree(last=t)"), Way("tree(last=r)")),
]


@pytest.mark.parametrize(("case", "first", "second"), REFUSED, ids=lambda x: getattr(x, "strategy", ""))
def test_a_strategy_whose_packs_are_not_there_is_refused(case, first, second):
    """In words; and the checkpoint is as good as before."""
    folder, stream = MemoryFolder(), [plain(n * 8, 8) for n in range(2)]
    with started(case, first, checkpoint=folder) as join:
        found = multiset(join.process(stream[0]))
    wanted = second.strategy.split("(")[0]
    with started(case, second, checkpoint=folder) as join, pytest.raises(SpecError, match=f"keeps no .*{wanted}"):
        join.process(stream[1])
    with started(case, first, checkpoint=folder) as join:
        found += multiset(join.process(stream[1]))
    assert found == brute_force(case.spec, whole(stream))


def test_windows_and_times_are_kept_when_packs_move():
    """Masks and moves of packs whose clock is a member."""
    on = "r.a = s.a AND s.b = t.b AND t.ts BETWEEN r.ts AND r.ts + 30"
    case = Case("rst", on, {"select": SELECT, "event_time": "ts", "watermark": 0})
    stream = [plain(n * 10, 10) for n in range(8)]
    for way in (Way("trijoin", "split", 5), Way("trijoin(packing=paired)", "split", 3)):
        folder = MemoryFolder()
        found: Counter = Counter()
        for n, batch in enumerate(stream):
            with started(case, replace(way, instances=3 + n % 3), checkpoint=folder) as join:
                found += multiset(join.process(batch))
                is_where_it_says(join)
        assert found == brute_force(case.spec, whole(stream))
