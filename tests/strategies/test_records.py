"""Records of cold keys leave the table with the next change, and it never has more than its bound."""

from __future__ import annotations

from dataclasses import replace

import pytest

import evenjoin
from evenjoin.placement import Biclique, Keys, Region, check
from evenjoin.runtime.rebalance import decide
from evenjoin.sim import Scenario, Scripted, simulate
from evenjoin.sim.cluster import Cluster
from evenjoin.strategies import resolve
from evenjoin.strategies.edit import RECORDS, bounded, keys_of
from strategies.counted import counted

INSTANCES = 4


def recorded(codes, name="readj"):
    """A table with a record for each of these keys, whose sides are on two instances."""
    table = resolve(name).initial(INSTANCES, 2, "shared")
    regions = tuple(Region(Keys((code,)), Biclique(((code % 4,), ((code + 1) % 4,)))) for code in codes)
    return check(table.with_regions((*table.regions, *regions)))


def placed(table, code):
    """A plan that gives this key a record."""
    return table.with_regions((*table.regions, Region(Keys((code,)), Biclique(((0,), (1,))))))


def test_a_key_without_tuples_loses_its_record_and_nothing_moves():
    """Key 1 is gone; key 2 still stores something, key 3 has just come, key 4 is new in the plan."""
    table = recorded([1, 2, 3])
    report = counted(table, {1: (0, 0, 0, 0, 0, 0), 2: (0, 0, 0, 1, 0, 0), 3: (1, 0, 0, 0, 0, 0)})
    made = bounded(table, placed(table, 4), report)
    assert set(keys_of(made)) == {2, 3, 4}
    assert made.version == table.version + 1
    assert check(made) is made


def test_a_plan_of_records_in_use_stays_the_same_object():
    table = recorded([1, 2])
    plan = placed(table, 4)
    assert bounded(table, plan, counted(table, {1: (1, 0, 1, 0, 0, 0), 2: (0, 0, 0, 1, 0, 0)})) is plan


@pytest.mark.parametrize("more", [0, 1, 9])
def test_the_lightest_records_make_room(more):
    """16 an instance and some more: the lightest of the old ones go, never the one that the plan has just placed."""
    most = RECORDS * INSTANCES
    codes = list(range(1, most + more))
    table = recorded(codes)
    report = counted(table, {code: (1, 1, code, code, 0, 0) for code in codes})
    made = bounded(table, placed(table, 1000), report)
    assert set(keys_of(made)) == {1000, *codes[more:]}


def test_what_is_dropped_is_part_of_the_plan_that_guards_judge():
    """Through `decide`: the table that comes out has no record of the cold key, and the verdict knows what moves."""
    table = recorded([1])
    hot = dict.fromkeys(range(100, 104), (900, 900, 900, 900, 900, 900))
    light = dict.fromkeys(range(200, 260), (9, 9, 9, 9, 1, 1))
    report = replace(counted(table, {1: (0, 0, 0, 0, 0, 0), **hot, **light}), batch=9)
    decision = decide(resolve("readj"), report, table, evenjoin.Guards(min_gain=0, min_work=0), None, lambda: 0.0)
    assert decision.verdict.calls_for_rebalance
    assert 1 not in keys_of(decision.table)


def test_hot_keys_that_are_renewed_do_not_pile_up():
    """A new hot key every few batches: FastJoin would have 180 records after 45 batches, and ever more."""
    script = Scripted("renewed", keys=2000, rows=(6000, 6000), window=2, batches=45)
    lines = list(simulate(Scenario(script, "fastjoin", 8, cluster=Cluster((1.0,), 8))))
    assert sum(line.changes for line in lines) > 15, "the premise: it keeps planning"
    assert max(line.records for line in lines) == RECORDS * 8
