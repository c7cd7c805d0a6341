"""State of joins of three sides is bounded: a run ten times as long has the same peak. Nothing expires too early."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from three_sides import SCHEMA, Case, Way, started, whole

import evenjoin
from evenjoin.instance.programs import program_of
from evenjoin.state.files import MemoryFolder
from evenjoin.testing import brute_force, multiset

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

SELECT = ["r.id AS a", "s.id AS b", "t.id AS c"]
CYCLE, CHAIN = "r.a = s.a AND s.b = t.b AND r.b = t.a", "r.a = s.a AND s.b = t.b"
NEAR = "s.ts BETWEEN r.ts - 3 AND r.ts + 3 AND t.ts BETWEEN s.ts - 3 AND s.ts + 3"
ENDS_NEAR = "r.m = s.m AND s.n = t.n AND t.ts BETWEEN r.ts - 3 AND r.ts + 3"
"""Says nothing of the time of s: packs whose hub is s expire by their members. Tuples never do, but match only
those of the same batch, so that pairs do not grow with them."""


def case(on: str, **options: Any) -> Case:
    return Case("rst", on, {"select": SELECT, "event_time": "ts", "watermark": 1, **options})


BOUNDED, WINDOWED = case(f"{CHAIN} AND {NEAR}"), case(CHAIN, window=evenjoin.sliding(6, 3))
JOINS = {
    "trijoin cyclic": (case(f"{CYCLE} AND {NEAR}"), Way("trijoin", instances=2)),
    "trijoin cyclic in windows": (case(CYCLE, window=evenjoin.tumbling(4)), Way("trijoin", instances=2)),
    "trijoin chain": (BOUNDED, Way("trijoin", instances=2)),
    "trijoin chain, paired": (BOUNDED, Way("trijoin(packing=paired)", instances=2)),
    "trijoin chain in windows": (WINDOWED, Way("trijoin(forward=t)", instances=2)),
    "trijoin chain by members": (case(ENDS_NEAR), Way("trijoin", instances=2)),
    "tree": (BOUNDED, Way("tree", instances=2)),
    "tree in windows": (WINDOWED, Way("tree(last=r)", instances=2)),
    "tree by members": (case(ENDS_NEAR), Way("tree(last=t)", instances=2)),
    "hypercube": (BOUNDED, Way("hypercube", instances=4)),
    "hypercube in windows": (WINDOWED, Way("hypercube", instances=4)),
}
UNBOUNDED = ("trijoin chain by members", "tree by members")
"""Joins whose tuples never expire, though their packs do."""
QUICK = ("trijoin cyclic", "trijoin chain in windows", "trijoin chain by members", "tree")


def rows(batch: int) -> dict[str, pa.Table]:
    """Three rows a side; times go on by 2 a batch, and keys repeat every four batches."""
    out = {}
    for number, name in enumerate("rst"):
        again = [(batch % 4) * 3 + i + number for i in range(3)]
        columns: dict[str, Any] = {"id": [batch * 3 + i for i in range(3)], "a": [k % 2 for k in again]}
        columns |= {"b": [k // 2 % 2 for k in again], "n": [str(batch)] * 3, "m": [str(batch)] * 3, "v": [0] * 3}
        out[name] = pa.table({**columns, "ts": [batch * 2 + (k + number) % 2 for k in again]}, schema=SCHEMA)
    return out


def peaks(name: str, batches: int) -> tuple[dict[str, int], Counter, int]:
    """The most that was kept after any batch, all results, and how many packs were made."""
    join_case, way = JOINS[name]
    folder, most, found, made = MemoryFolder(), Counter(), Counter(), 0
    with started(join_case, way, checkpoint=folder) as join:
        for number in range(batches):
            found += multiset(join.process(rows(number)))
            progress = join.progress()
            now = {"packs": progress.packs[2], "pairs": progress.packs[3]}
            if name not in UNBOUNDED:
                now["tuples"] = sum(progress.stored)
                now["files"] = sum(file.startswith("segments/") for file in folder.files)
            most |= Counter(now)
            made += progress.packs[0]
        assert progress.total.late == (0, 0, 0)
        assert progress.total.expired > 0
    return most, found, made


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in JOINS]
)
def test_a_longer_run_keeps_no_more(name):
    """The peaks of tuples, packs, pairs and files are those of the first tenth; the answer of that tenth is the
    brute-force one, so nothing expired that could still match."""
    short, found, made = peaks(name, 6)
    most, _, _ = peaks(name, 60)
    assert found == brute_force(JOINS[name][0].spec, whole([rows(n) for n in range(6)]))
    assert sum(found.values()) > 5
    for what, peak in most.items():
        assert peak <= 1.2 * short[what] + 2, what
    if name.startswith("tri"):
        assert made > short["packs"] > 0


def test_packs_that_expire_by_their_members():
    """The clock of a pack is its member where the third side says nothing of the hub's time."""
    spec = JOINS["trijoin chain by members"][0].spec
    stores = [store for store in program_of(spec, "trijoin").stores if store.packs]
    assert {(store.covers[0], store.clock) for store in stores} == {(1, 0), (1, 2)}
    assert [store.horizon for store in stores] == [3] * 4
    spec = BOUNDED.spec
    assert all(store.clock == store.covers[0] for store in program_of(spec, "trijoin").stores if store.packs)


def test_a_silent_side_holds_the_watermark():
    """Packs grow while one side sends nothing; once it does, they go at once."""
    join_case, way = JOINS["trijoin chain"]
    alive = []
    with started(join_case, way) as join:
        for number in range(24):
            batch = rows(number)
            join.process(batch if number < 4 or number > 20 else {name: batch[name] for name in "rs"})
            alive.append(join.progress().packs[2])
    assert alive[20] > 3 * alive[3]
    assert alive[23] < alive[20] / 2
