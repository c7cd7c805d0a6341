"""When the number of instances changes: not for one slow batch or noise; soon for a real change; at once for room.

The batches are crafted reports that go through `decide` as the driver's do. The time that tasks take is given; what is
stored is much, so that a move is no trifle.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import evenjoin
from evenjoin.load.intake import Intake
from evenjoin.load.report import InstanceLoad, LoadReport
from evenjoin.runtime.rebalance import decide
from evenjoin.strategies import resolve
from evenjoin.strategies.base import Past
from evenjoin.strategies.elastic import elastic
from evenjoin.strategies.patience import Patience
from evenjoin.strategies.scaling import Scaling, Used

EACH = ["auto", "hash", "djb"]


def report_of(batch, table, work, stored):
    """A batch whose tasks took `work` intervals of a second together, with so many tuples stored evenly."""
    n = table.instances
    cells = tuple(
        (side, cell, 3200 // table.buckets, stored // 2 // table.buckets, 0)
        for side in (0, 1) for cell in range(table.buckets)
    )  # fmt: skip
    loads = tuple(
        InstanceLoad(i, (stored // 2 // n,) * 2, (800 // n,) * 2, (0, 0), 0, 1e3 * work / n, elapsed_ms=1e3 * work / n)
        for i in range(n)
    )
    return LoadReport(batch, loads, (), cells, (Intake(), Intake()), cores=n, trigger_ms=1000.0, interval_ms=1000.0)


def sizes(name, works, room=1e8, stored=12_800_000, begin=4, **limits):
    """The number of instances after each batch; the tasks of batch n take `works[n]` intervals together."""
    strategy = elastic(resolve(name), Scaling(room, 2, 16, **limits))
    table, memory, rebalanced, out = strategy.initial(begin, 2, "shared"), None, None, []
    amounts = [stored] * len(works) if isinstance(stored, int) else stored
    for batch, (work, many) in enumerate(zip(works, amounts, strict=True)):
        report = report_of(batch, table, work, many)
        decision = decide(
            strategy, report, table, evenjoin.Guards(), rebalanced, lambda: 0.0, None, Past(memory, None)
        )  # fmt: skip
        memory = json.loads(json.dumps(decision.memory))
        rebalanced, table = decision.verdict.rebalanced, decision.table
        out.append(table.instances)
    return out


def changes(found):
    return sum(a != b for a, b in zip([4, *found], found, strict=False))


@pytest.mark.parametrize("name", EACH)
@pytest.mark.parametrize("slow", [2.5, 50.0])
def test_one_slow_batch_changes_nothing(name, slow):
    """However slow: 65 % of four instances, and once ten or two hundred intervals of work."""
    assert changes(sizes(name, [2.6] * 8 + [4 * slow] + [2.6] * 12)) == 0


@pytest.mark.parametrize("name", EACH)
def test_one_idle_batch_in_three_changes_nothing(name):
    assert changes(sizes(name, [2.6, 2.6, 0.4] * 10)) == 0


@pytest.mark.parametrize("seed", range(20))
def test_noise_changes_nothing(seed):
    """Lognormal, 0.15, around 65 %: 60 batches in each of twenty streams."""
    noise = np.exp(0.15 * np.random.default_rng(seed).standard_normal(60))
    assert changes(sizes("hash", (2.6 * noise).tolist())) == 0


def test_much_noise_changes_little():
    """Lognormal, 0.3: it was sixteen changes in 60 batches. In twenty streams it is less than one each."""
    streams = [2.6 * np.exp(0.3 * np.random.default_rng(seed).standard_normal(60)) for seed in range(20)]
    assert sum(changes(sizes("hash", works.tolist())) for works in streams) < 20


@pytest.mark.parametrize("name", EACH)
def test_twice_the_load_is_seen_within_a_few_batches(name):
    """65 % of four instances, then 130 %: within four batches there are eight, or nearly, and they stay."""
    found = sizes(name, [2.6] * 6 + [5.2] * 14)
    assert found[5] == 4
    assert found[9] >= 7
    assert len(set(found[9:])) == 1


@pytest.mark.parametrize("name", EACH)
def test_a_tenth_of_the_load_is_seen_too(name):
    """It waits longer than for more of them, and needs a number that is within the limits then."""
    found = sizes(name, [5.2] * 6 + [0.5] * 14, begin=8, stored=128_000)
    assert found[5] == 8
    assert found[-1] == 2


@pytest.mark.parametrize("name", EACH)
def test_room_does_not_wait(name):
    """What is stored is beyond the room of four instances: the very next table has more."""
    found = sizes(name, [1.0] * 6, room=1e6, stored=[2_600_000] * 3 + [5_200_000] * 3, scale_in=0)
    assert found[2] == 4
    assert found[3] >= 8


def test_a_swing_is_left_alone_after_a_few_changes():
    """Ten batches at 130 % of four instances, ten at 15 %, twelve times. Each change that is taken back doubles the
    patience: of the 23 changes that would follow the load, most are soon left out."""
    found = sizes("hash", ([5.2] * 10 + [0.6] * 10) * 12, stored=128_000)
    assert 2 <= changes(found[:80]) <= 6
    assert changes(found) - changes(found[:80]) <= 4


def test_fewer_wait_longer_the_more_would_move():
    """A million tuples on one core are 0.7 intervals, a hundred million are 70: twice the evidence, and 71 times."""
    seen = Patience(4, fewer=1.7)
    used = Used(0.1, 0.1, True)
    assert not seen.waits(2, used, Scaling(1e6), 0.7)
    assert seen.waits(2, used, Scaling(1e6), 70)
    assert Patience(4, fewer=1.7, undone=1).waits(2, used, Scaling(1e6), 0.7)


@pytest.mark.parametrize("name", ["hash", "auto"])
def test_what_it_waits_for_is_said(name):
    """In words: what is used, how many would do, what would move, and how sure that is."""
    strategy = elastic(resolve(name), Scaling(1e8, 2, 16))
    table = strategy.initial(8, 2, "shared")
    seen = Patience(8, fewer=0.9, times=(0.8, 0.8, 0.8))
    memory = {"scaling": seen.to_json()}
    decision = decide(
        strategy, report_of(9, table, 0.8, 64_000_000), table, evenjoin.Guards(), 1, lambda: 0.0, None, Past(memory)
    )
    assert decision.table is table
    said = decision.verdict.sentence
    assert said.startswith("tasks take 10% of the trigger's interval on 8 instances: 2 would do and ")
    assert "tuples would move; waiting until that is sure, " in said
