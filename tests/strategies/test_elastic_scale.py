"""`instances="auto"`: as many instances as the state needs, without a restart, and the same answer."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.errors import SpecError
from evenjoin.load.intake import Intake
from evenjoin.load.items import Items, items_of
from evenjoin.load.refined import comparable
from evenjoin.load.report import InstanceLoad, LoadReport
from evenjoin.placement import Biclique, Keys, Region, check
from evenjoin.runtime.rebalance import decide
from evenjoin.spec import build_spec
from evenjoin.strategies import resolve
from evenjoin.strategies.bistream import hash_table
from evenjoin.strategies.edit import keys_of
from evenjoin.strategies.elastic import elastic
from evenjoin.testing import brute_force, multiset
from strategies.counted import counted

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("t", pa.int64())])
SCHEMAS = {"l": SCHEMA, "r": SCHEMA}
SELECT = ["l.id AS a", "r.id AS b"]
BOUNDED = "l.k = r.k AND r.t BETWEEN l.t - 5 AND l.t + 5"
BAND = "r.k BETWEEN l.k - 1 AND l.k + 1 AND r.t BETWEEN l.t - 5 AND l.t + 5"
KEYED = ["hash", "random", "fastjoin", "djb", "lsstream", "square", "adsp"]
ANY = ["random", "square", "adsp"]


@pytest.mark.parametrize(
    ("stored", "now", "wanted"),
    [(50, 1, 1), (80, 1, 1), (81, 1, 2), (650, 1, 10), (10_000, 1, 16), (640, 8, 8), (399, 8, 7), (0, 8, 1)],
)
def test_how_many(stored, now, wanted):
    """V = 100: between 50 % and 80 % nothing changes; else as many as leave each 65 % full, within the limits."""
    scaling = evenjoin.Scaling(100, 1, 16)
    used = scaling.used(items_with(stored), now)
    assert scaling.instances_for(used, now) == wanted
    assert (scaling.pressure(used, now) > 1) == (wanted != now)


def items_with(stored, sizes=(), busy=0.0, cores=0):
    """One bucket in which so many tuples of side 0 are stored."""
    none = np.zeros((2, 1))
    return Items(
        np.zeros(1, np.int64), np.zeros(1, bool), np.zeros(1, np.int64), np.array([[stored], [0.0]]), none, none,
        sizes=sizes, busy=busy, cores=cores,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("stored", "busy", "cores", "wanted"),
    [
        (240, 2.4, 4, 4),
        (240, 3.6, 4, 6),
        (240, 3.6, 3, 4),
        (100, 2.4, 4, 4),
        (100, 1.2, 4, 2),
        (100, 0.0, 4, 2),
        (390, 3.9, 2, 6),
        (100, 3.9, 2, 4),
    ],
    ids=[
        "four tasks that are 60 % busy are left",
        "four that are 90 % busy become six",
        "unless they waited for each other: the processors are what is scarce",
        "room for half as many, but the time of all four is needed",
        "neither the room nor the time of four is needed",
        "without a trigger only the room counts",
        "room decides where it is scarcer, whatever the processors do",
        "busy tasks are no reason for fewer",
    ],
)
def test_time_and_room(stored, busy, cores, wanted):
    """V = 100, four instances; `busy` is in intervals of the trigger."""
    scaling = evenjoin.Scaling(100)
    used = scaling.used(items_with(stored, busy=busy, cores=cores), 4)
    assert scaling.instances_for(used, 4) == wanted
    assert (scaling.pressure(used, 4) > 1) == (wanted != 4)


@pytest.mark.parametrize(
    ("scaling", "sizes", "capacity"),
    [
        ({"task_capacity": 100}, (50.0, 10.0), 100),
        ({"task_memory": 1000}, (50.0, 10.0), 20),
        ({"task_capacity": 100, "task_memory": 1000}, (50.0, 10.0), 20),
        ({"task_capacity": 10, "task_memory": 1000}, (50.0, 10.0), 10),
        ({"task_memory": 1000}, (), float("inf")),
    ],
)
def test_room_is_tuples_or_bytes(scaling, sizes, capacity):
    """Whichever is less; the tuples alive are all of side 0. If nothing is known of bytes, they limit nothing."""
    scaling = evenjoin.Scaling(**scaling)
    assert scaling.capacity(items_with(300, sizes)) == capacity
    if capacity == float("inf"):
        assert scaling.instances_for(scaling.used(items_with(300, sizes), 5), 5) == 5


def test_busy_time_is_told_by_the_report():
    """Of a stream with a trigger; without one it is not known."""
    table = hash_table("t", 0, 2, 2, "shared")
    loads = tuple(InstanceLoad(i, (0, 0), (0, 0), (0, 0), 0, 1.0, elapsed_ms=450.0) for i in range(2))
    report = LoadReport(1, loads, (), (), (), cores=2, interval_ms=500.0)
    assert items_of(report, table).busy == 0
    items = items_of(replace(report, trigger_ms=500.0), table)
    assert (items.busy, items.cores) == (1.8, 2)
    strategy = elastic(resolve("hash"), evenjoin.Scaling(1e6))
    assert strategy.imbalance(items, table) > 1
    assert strategy.plan(report, items, table).instances == 3


@pytest.mark.parametrize("name", ["auto", "djb"])
def test_scaling_is_judged_by_what_moves(name):
    """8 instances that are full become 12: a third of the state moves if the budget allows it, and the verdict says
    how much. The moved key keeps its region."""
    strategy = elastic(resolve(name), evenjoin.Scaling(1000))
    table = strategy.initial(8, 2, "shared")
    table = check(table.with_regions((*table.regions, Region(Keys((7,)), Biclique(((3,), (3,)))))))
    cells = tuple((side, cell, 50, 30, 0) for side in (0, 1) for cell in range(table.buckets))
    loads = tuple(InstanceLoad(i, (480, 480), (0, 0), (0, 0), 0, 1.0) for i in range(8))
    report = LoadReport(9, loads, (), cells, (Intake(), Intake()), recent=((960,) * 8,))

    def judged(**guards):
        return decide(strategy, report, table, evenjoin.Guards(**guards), None, lambda: 0.0)

    decision = judged()
    stored = 2 * 30 * table.buckets
    assert decision.table.instances == 12
    assert decision.verdict.moves == pytest.approx(stored / 3, rel=0.1)
    assert keys_of(decision.table) == keys_of(table)
    refused = judged(budget=stored // 4)
    assert refused.table is table
    assert "tuples would move" in refused.verdict.sentence
    assert judged(budget=stored // 2).table.instances == 12


def test_a_table_with_finer_buckets_is_judged_too():
    """`hash` has four buckets an instance: they are made finer, and the moves of the plan are known all the same."""
    strategy = elastic(resolve("hash"), evenjoin.Scaling(1000))
    table = strategy.initial(8, 2, "shared")
    cells = tuple((side, cell, 50, 120, 0) for side in (0, 1) for cell in range(table.buckets))
    report = LoadReport(9, (), (), cells, (Intake(), Intake()))
    decision = decide(strategy, report, table, evenjoin.Guards(), None, lambda: 0.0)
    assert (decision.table.instances, decision.table.buckets % table.buckets) == (12, 0)
    assert decision.verdict.moves == pytest.approx(2 * 120 * table.buckets / 3, rel=0.1)
    tight = decide(strategy, report, table, evenjoin.Guards(budget=1000), None, lambda: 0.0)
    assert tight.verdict.sentence.startswith("over budget")


@pytest.mark.parametrize(("name", "most"), [("fastjoin", 1.8), ("hash", None)])
def test_fastjoin_hands_over_what_it_balances(name, most):
    """One bucket in ten finds nearly all results, and all store the same. FastJoin's L knows no results, so it divides
    the tuples: LI is within its bound. Without a planner the instances that find most store least."""
    strategy = elastic(resolve(name), evenjoin.Scaling(4000))
    table = strategy.initial(20, 2, "shared")
    cells = tuple(
        (side, cell, 50, 500, 20_000 if cell % 10 == 0 else 0) for side in (0, 1) for cell in range(table.buckets)
    )
    report = LoadReport(9, (), (), cells, (Intake(), Intake()))
    made = check(strategy.plan(report, items_of(report, table), table))
    seen = comparable(items_of(report, table), table, made)
    assert made.instances > 20
    found = resolve("fastjoin").imbalance(seen.items, seen.new)
    assert found <= most if most else found > 2.2


@pytest.mark.parametrize("strategy", [None, "hash", "djb", "contrand(groups=2)", "adsp", "random"])
def test_auto_needs_no_limits(strategy, monkeypatch):
    """Without `scaling=` an instance has room for its part of a quarter of the machine's memory. On a machine with very
    little the join scales out, in again, and the answer is that of any other."""
    monkeypatch.setattr("evenjoin.runtime.settings.machine_memory", lambda: 8_000 * (os.cpu_count() or 1))
    found, sizes = Counter(), []
    options = {"event_time": "t", "watermark": 0, "select": SELECT}
    with evenjoin.local(SCHEMAS, BOUNDED, strategy=strategy, instances="auto", **options) as join:
        for batch in batches():
            found += multiset(join.process(batch))
            sizes.append(join.table().instances)
    whole = {a: pa.concat_tables(batch[a] for batch in batches()) for a in "lr"}
    assert found == brute_force(build_spec(SCHEMAS, BOUNDED, **options), whole)
    assert max(sizes) > sizes[0]
    assert sizes[-1] < max(sizes)


def batches():
    """Few rows, then many, then few: ten time units apart, so that each batch expires the one before the last."""
    first = 0
    for number, rows in enumerate([20, 20, 200, 200, 200, 20, 20, 20, 20]):
        ids = range(first, first + rows)
        columns = [ids, [i * 7 % 40 for i in ids], [number * 10 + i % 10 for i in range(rows)]]
        yield {alias: pa.table(columns, schema=SCHEMA) for alias in "lr"}
        first += rows


@pytest.mark.parametrize(
    ("strategy", "condition"), [*((name, BOUNDED) for name in KEYED), *((name, BAND) for name in ANY)]
)
def test_scales_out_and_in(strategy, condition):
    """The number of instances follows the state up and down again; nothing is lost or repeated."""
    found, sizes = Counter(), []
    options = {"event_time": "t", "watermark": 0, "select": SELECT}
    with evenjoin.local(
        SCHEMAS, condition, strategy=strategy, instances="auto",
        scaling=evenjoin.Scaling(100, max_instances=8), guards=evenjoin.Guards(cooldown=0, min_work=0), **options,
    ) as join:  # fmt: skip
        for batch in batches():
            found += multiset(join.process(batch))
            sizes.append(join.table().instances)
        events = join.migrations()
    whole = {a: pa.concat_tables(batch[a] for batch in batches()) for a in "lr"}
    assert found == brute_force(build_spec(SCHEMAS, condition, **options), whole)
    assert max(sizes) > 2
    assert sizes[-1] < max(sizes)
    assert events


@pytest.mark.parametrize(
    ("instances", "scaling", "says"),
    [
        (4, {"task_capacity": 10}, 'only with instances="auto"'),
        ("auto", {"task_capacity": 0}, "above 0"),
        ("auto", {"task_capacity": 9, "min_instances": 5, "max_instances": 4}, "min <= max"),
        ("auto", {"task_capacity": 9, "scale_in": 0.9}, "scale_in"),
        ("auto", {"task_capacity": 9, "scale_to": 0.9}, "scale_to"),
        ("many", None, "whole number"),
        ("auto", {"task_capacity": "much"}, "above 0"),
    ],
)
def test_wrong_settings(instances, scaling, says):
    """Refused at definition."""
    with pytest.raises(SpecError, match=says):
        evenjoin.local(
            SCHEMAS, BOUNDED, event_time="t", watermark=0, instances=instances,
            scaling=None if scaling is None else evenjoin.Scaling(**scaling),
        )  # fmt: skip


@pytest.mark.parametrize("layout", ["shared", "split"])
@pytest.mark.parametrize("strategy", ["hash", "djb", "lsstream"])
def test_a_migration_moves_what_was_foreseen(strategy, layout):
    """From 8 instances out to 10 or more and in again: each change moves about what its verdict said, which is what new
    instances get or dissolved ones had, and no more than a third of all; the answer is right."""
    found, seen = Counter(), []
    options = {"event_time": "t", "watermark": 0, "select": ["l.id AS a", "r.id AS b"]}
    counts, first, parts = [1000, 1000, 1350, 1350, *[850] * 7], 0, []
    for number, rows in enumerate(counts):
        ids = np.arange(first, first + rows)
        columns = [ids, ids * 7919 % 3000, number * 10 + ids % 10]
        parts.append({alias: pa.table(columns, schema=SCHEMA) for alias in "lr"})
        first += rows
    with evenjoin.local(
        SCHEMAS, BOUNDED, strategy=strategy, instances="auto", layout=layout,
        scaling=evenjoin.Scaling(215, min_instances=8, max_instances=16, scale_in=0.6), **options,
    ) as join:  # fmt: skip
        for part in parts:
            stored = sum(sum(load.stored) for load in join.load().instances) if seen else 0
            found += multiset(join.process(part))
            seen.append((join.table().instances, stored))
        events = join.migrations()
    whole = {a: pa.concat_tables(part[a] for part in parts) for a in "lr"}
    assert found == brute_force(build_spec(SCHEMAS, BOUNDED, **options), whole)
    sizes = [size for size, _ in seen]
    assert sizes[0] == 8
    assert max(sizes) >= 10
    assert sizes[-1] < max(sizes)
    for event in events:
        assert event.tuples == pytest.approx(event.forecast_tuples, rel=0.15, abs=20)
        assert 0 < event.tuples < 0.34 * seen[event.batch][1]


def test_room_is_made_though_the_new_instance_has_nothing_to_do():
    """All that is stored is one key's. A third instance is empty, so FastJoin's LI would be worse than before, but the
    room of two is used up: that is no reason to refuse it, or the join would never grow again."""
    strategy = elastic(resolve("fastjoin"), evenjoin.Scaling(task_capacity=100, max_instances=8))
    table = strategy.initial(2, 2, "shared")
    report = counted(table, {1: (50, 50, 150, 150, 10, 10)})
    items = items_of(report, table)
    decided = decide(strategy, replace(report, batch=9), table, evenjoin.Guards(), None, lambda: 0.0, items)
    assert decided.verdict.sentence == "300 tuples take 150% of the room of 2 instances: going to 5"
    assert decided.table.instances > 2
