"""A restart with another number of instances goes on with the table that there is, and with what the planner knows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.placement import Biclique, Keys, Region, check
from evenjoin.placement.table import Succession
from evenjoin.runtime.rebalance import decide
from evenjoin.runtime.restart import following
from evenjoin.spec import build_spec
from evenjoin.strategies import resolve
from evenjoin.strategies.edit import keys_of
from evenjoin.testing import brute_force, multiset

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("v", pa.int64())])
SCHEMAS = {"l": SCHEMA, "r": SCHEMA}
ON = "l.k = r.k AND r.t BETWEEN l.t - 1000 AND l.t + 1000 AND abs(l.v - r.v) < 3"
OPTIONS = {"event_time": "t", "watermark": 0, "select": ["l.v AS a", "r.v AS b"]}


def batch(number, rows=2000):
    """Uniform keys on both sides."""
    rng = np.random.default_rng(number)
    columns = [[rng.integers(0, 5000, rows), number * 10 + np.arange(rows) % 10, rng.integers(0, 10**4, rows)]
               for _ in "lr"]  # fmt: skip
    return {alias: pa.table(columns[side], schema=SCHEMA) for side, alias in enumerate("lr")}


def run(folder, strategy, instances, batches, **more):
    """Some batches of a join; what it found, and the join after them."""
    with evenjoin.local(
        SCHEMAS, ON, strategy=strategy, instances=instances, checkpoint=folder, **OPTIONS, **more
    ) as join:
        return [join.process(batch(n)) for n in batches], join


def stored(join):
    return sum(sum(load.stored) for load in join.load().instances)


@pytest.mark.parametrize("strategy", ["auto", "hash", "djb"])
@pytest.mark.parametrize(
    ("before", "after", "least", "most"), [(8, 9, 0.07, 0.15), (9, 8, 0.07, 0.15), (16, 17, 0.03, 0.09)]
)
def test_another_size_moves_what_the_new_instance_gets(strategy, before, after, least, most, tmp_path):
    """8 -> 9 about a ninth, 9 -> 8 likewise, 16 -> 17 about 6 %; and the answer is that of the whole input."""
    found, join = run(tmp_path, strategy, before, range(2))
    had = stored(join)
    more, join = run(tmp_path, strategy, after, range(2, 4))
    moved = [event.tuples for event in join.migrations() if event.batch == 2]
    assert join.table().instances == after
    assert least * had < sum(moved) < most * had
    whole = {a: pa.concat_tables(batch(n)[a] for n in range(4)) for a in "lr"}
    assert multiset(pa.concat_tables([*found, *more])) == brute_force(build_spec(SCHEMAS, ON, **OPTIONS), whole)


REGIONS = (Region(Keys((7,)), Biclique(((3,), (4,)))), Region(Keys((9,)), Biclique(((1, 2, 5), (1,)))))
"""Key 7 with its sides apart; key 9 divided on one side."""


@pytest.fixture
def learned(monkeypatch):
    """In the first batch the planner finds the two keys; later it leaves the table as it is. What it remembers is its
    own."""

    def planted(strategy, report, table, *arguments):
        decision = decide(strategy, report, table, *arguments)
        made = table if report.batch else check(table.with_regions((*table.regions, *REGIONS)))
        return replace(decision, table=made)

    monkeypatch.setattr("evenjoin.runtime.advance.decide", planted)


@pytest.mark.parametrize("strategy", ["auto", "hash", "djb"])
def test_moved_and_divided_keys_stay(strategy, tmp_path, learned):
    """8 -> 9 -> 8: a key on an instance of its own and one over three of them keep their regions, on instances that go
    on with the same state. `hash` has no planner that could have found them, so only its buckets are looked at."""
    had = set() if strategy == "hash" else {7, 9}
    run(tmp_path, strategy, 8, range(2))
    _, grown = run(tmp_path, strategy, 9, range(2, 3))
    assert set(keys_of(grown.table())) == had
    assert [keys_of(grown.table())[key] for key in sorted(had)] == [region.topology for region in REGIONS][: len(had)]
    _, shrunk = run(tmp_path, strategy, 8, range(3, 4))
    assert set(keys_of(shrunk.table())) == had
    assert shrunk.table().instances == 8


@pytest.mark.parametrize("strategy", ["auto", "hash", "djb", "random", "square"])
@pytest.mark.parametrize(("limits", "size"), [((2, 16), 6), ((2, 4), 4), ((8, 16), 8)])
def test_auto_begins_with_the_size_that_there_was(strategy, limits, size, tmp_path):
    """6 -> "auto": the table is kept as it is, unless its size is outside of the limits. Then it is the nearest."""
    run(tmp_path, strategy, 6, range(1))
    scaling = evenjoin.Scaling(5500, *limits, scale_in=0, scale_out=1)
    options = {"checkpoint": tmp_path, "scaling": scaling, **OPTIONS}
    with evenjoin.local(SCHEMAS, ON, strategy=strategy, instances="auto", **options) as join:
        assert join.table().instances == size
        assert (join.table().version == 0) == (size == 6)
        join.process(batch(1))
        assert [event.batch for event in join.migrations()] == [1] * (size != 6)


def test_auto_that_is_fixed_at_its_size_keeps_its_table(tmp_path):
    """Scaling has arrived at some number, and the user writes that number: nothing changes."""
    _, join = run(tmp_path, "hash", "auto", range(2), scaling=evenjoin.Scaling(1500, 2, 16))
    table = join.table()
    assert table.instances > 2
    with evenjoin.local(
        SCHEMAS, ON, strategy="hash", instances=table.instances, checkpoint=tmp_path, **OPTIONS
    ) as join:
        assert join.table() == table


def test_the_planner_remembers(tmp_path):
    """What tasks took in earlier batches is known after a restart with another size, and not to another strategy."""
    run(tmp_path, "auto", 8, range(3))
    _, join = run(tmp_path, "auto", 9, range(3, 4))
    assert len(join._driver.last.memory["seen"]) == 4
    run(tmp_path, "djb", 9, range(4, 5))
    _, join = run(tmp_path, "auto", 9, range(5, 6))
    assert len(join._driver.last.memory["seen"]) == 1


@pytest.mark.parametrize(
    ("planned", "made", "of"),
    [
        (None, None, None),
        (None, (0, 3, 2), (0, 3, 2)),
        ((0, -1, 1, 2), None, (0, -1, 1)),
        ((0, -1, 1, 2), (0, 3, 2), (0, 2, 1)),
    ],
    ids=["nobody is renumbered", "by the new size", "by the plan", "by both"],
)
def test_a_size_after_a_plan_that_was_never_made(planned, made, of):
    """The last batch ran under table A and a plan B was to follow; the restart makes C of B. The state is A's, so C
    says whose state of A its instances go on with."""
    table = resolve("hash").initial(4, 2, "shared")
    plan = replace(table, version=1, follows=None if planned is None else Succession(table.name, planned))
    third = replace(resolve("hash").initial(3, 2, "shared"), version=2)
    third = replace(third, follows=None if made is None else Succession(plan.name, made))
    found = following(third, plan, table).follows
    assert found == (None if of is None else Succession(table.name, of))
