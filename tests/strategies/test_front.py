"""Codes that always grow: few rebalances, no task above its capacity, and tables that `check` accepts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.load.intake import Intake
from evenjoin.load.report import InstanceLoad, LoadReport, sampled
from evenjoin.load.samples import Picked, Slice
from evenjoin.placement import EVERYTHING, Grid, Ranges, Reach, Region, RoutingTable, check
from evenjoin.placement.pieces import moved_volume, stored_volume
from evenjoin.placement.ranges import Interval
from evenjoin.runtime.rebalance import decide
from evenjoin.runtime.settings import Guards
from evenjoin.strategies import Adsp
from evenjoin.strategies.adsp.front import Front, Room, extended, front_of, in_rows
from evenjoin.strategies.elastic import fixed
from thorough import examples

BAND = Reach(-2, 2)
RISE = 10_000


class Stream:
    """A band join whose codes grow by RISE a batch, with some disorder; `window` batches stay alive (None: all do)."""

    def __init__(self, strategy, rows, window=None, disorder=0):
        self.strategy, self.rows, self.window, self.disorder = strategy, rows, window, disorder
        self.rng, self.batches, self.last = np.random.default_rng(1), [], None
        self.table = replace(strategy.initial(1, 2, "shared"), reach=BAND)
        self.rebalances, self.moved, self.fullest, self.rebalanced = 0, 0.0, [], None

    def batch(self):
        number = 0 if self.last is None else self.last.batch + 1
        new = [self.rng.integers(number * RISE - self.disorder, (number + 1) * RISE, self.rows) for _ in range(2)]
        self.batches.append(new)
        dead = self.batches.pop(0) if self.window and len(self.batches) > self.window else ()
        gone = (number - self.window,) * 2 if dead else ()
        alive = [np.unique(np.concatenate(side), return_counts=True) for side in zip(*self.batches, strict=True)]
        points = tuple((codes, counts.astype(float)) for codes, counts in alive)
        held = np.rint(stored_volume(self.table, points)).astype(int)
        loads = tuple(InstanceLoad(i, tuple(held[:, i].tolist()), (0, 0), (0, 0), 0, 0.0) for i in range(held.shape[1]))
        intake = tuple(Intake(self.rows, sample=self.sample(side, number)) for side in new)
        report = LoadReport(number, loads, (), (), intake, expired=sum(map(len, dead)))
        self.last = sampled(report, [], self.last, gone, self.strategy.grain)
        decision = decide(self.strategy, self.last, self.table, Guards(cooldown=0), self.rebalanced, lambda: 0.0)
        self.fullest.append(held.sum(axis=0).max() / self.strategy.task_capacity)
        self.rebalances += decision.table.regions != self.table.regions
        self.moved += moved_volume(self.table, decision.table, points)
        self.table, self.rebalanced = decision.table, decision.verdict.rebalanced

    def sample(self, codes, number):
        picked = Picked(self.strategy.grain, 1 if self.window else None)
        picked.add(
            self.rng.integers(0, 2**64, self.rows, dtype=np.uint64), codes, times=np.full(self.rows, number)
        )  # fmt: skip
        return picked.slices()


@pytest.mark.parametrize(
    ("rows", "window", "disorder", "rebalances"),
    [
        pytest.param(1000, None, 0, 5, id="a batch is V, and everything stays"),
        pytest.param(250, None, 0, 2, id="a batch is V / 4, and everything stays"),
        pytest.param(1000, 8, 0, 4, id="a batch is V, and eight stay"),
        pytest.param(250, 8, 3000, 3, id="a batch is V / 4, and eight stay; some codes come late"),
    ],
)
def test_growing_codes_rebalance_seldom(rows, window, disorder, rebalances):
    """40 batches. Once there are some tasks, none is above V, and there are more than one."""
    stream = Stream(Adsp(task_capacity=2000), rows, window, disorder)
    for _ in range(40):
        stream.batch()
    assert stream.rebalances <= rebalances
    assert max(stream.fullest[4:]) <= 1
    total = 2 * rows * min(window or 40, 40)
    assert total / 2000 < stream.table.instances <= 3 * total / (0.65 * 2000)
    assert stream.moved < 2 * 2 * rows * 40


@pytest.mark.parametrize("window", [None, 8], ids=["everything stays", "eight batches stay"])
@pytest.mark.parametrize("seed", range(5))
def test_growing_codes_on_a_fixed_number_of_tasks(window, seed):
    """40 batches on eight tasks, some codes late: they stay eight, rebalance seldom, and none comes to store a third of
    everything. Where stripes end, one batch lands on one task, which calls for the next plan."""
    strategy = fixed(Adsp(), 8)
    stream = Stream(strategy, 250, window, 3000)
    stream.rng = np.random.default_rng(seed)
    stream.table = replace(strategy.initial(8, 2, "shared"), reach=BAND)
    for _ in range(40):
        stream.batch()
    alive = 500 * np.minimum(np.arange(1, 41), window or 40)
    assert stream.rebalances <= 5
    assert stream.table.instances == 8
    assert (np.array(stream.fullest) * strategy.task_capacity <= alive / 3)[8:].all()


def test_an_expired_task_is_used_again():
    """Tasks 0 and 1 have the codes up to 999 and from 1000 on, 25 tuples each, and 2,000 codes stay alive. When codes
    up to 2,999 have come, task 0 is empty: with room for 50 in a task two are enough for ever, and nothing moves."""
    regions = tuple(
        Region(Ranges(rows, BAND.columns_of(rows)), Grid(1, 1, (n,)))
        for n, rows in enumerate((Interval(None, 1000), Interval(1000, None)))
    )
    table = check(RoutingTable(3, 2, 2, 0, regions, reach=BAND))
    points = tuple((np.arange(0, 2000, 20), np.full(100, 0.25)) for _ in range(2))
    made = check(extended(table, points, Front(1999, 500.0, 0.025, 2000.0), Room(50.0, 60.0, 9)))
    hosts = [region.topology.cells[0] for region in made.regions]
    assert made.version == 4
    assert hosts[:2] == [0, 1]
    assert set(hosts) == {0, 1}
    assert len(hosts) > 6
    assert moved_volume(table, made, points) == 0


@settings(max_examples=examples(40), deadline=None)
@given(
    st.integers(1, 4), st.integers(1, 3), st.integers(-3, 3), st.integers(0, 6), st.floats(1, 500), st.integers(1, 12),
    st.booleans(),
)  # fmt: skip
def test_stripes_behind_any_areas_are_valid(rows, columns, low, width, rise, most, split):
    """Behind one area or two, of one task or a grid: every pair within reach meets once, whatever comes."""
    reach, cells = Reach(low, low + width), rows * columns
    ranges = (Interval(None, 40), Interval(40, None)) if split else (Interval(),)
    regions = tuple(
        Region(Ranges(some, reach.columns_of(some)), Grid(rows, columns, tuple(range(n * cells, (n + 1) * cells))))
        for n, some in enumerate(ranges)
    )
    table = check(RoutingTable(0, len(ranges) * cells, 2, 0, regions, reach=reach))
    points = tuple((np.arange(0, 100, 5), np.ones(20)) for _ in range(2))
    assert in_rows(table)
    made = check(extended(table, points, Front(95, rise, 0.5, 120.0), Room(15.0, 20.0, most)))
    assert made.instances >= table.instances


def test_a_front_is_most_of_a_batch_on_both_sides():
    """Literals: two thirds of the tuples lie beyond 100, which rises to 160; on a reach without ends nobody looks."""
    old = Slice(0, None, ((50, 3.0), (100, 3.0)))
    last = LoadReport(0, (), (), (), (), samples=(old.points,) * 2, slices=((old,),) * 2)
    new = (Slice(0, None, ((90, 1.0), (120, 1.0), (160, 1.0))),)
    report = sampled(LoadReport(1, (), (), (), (Intake(3, sample=new),) * 2), [], last)
    assert report.rise == (60, 60)
    points = ((np.array([50, 160]), np.ones(2)),) * 2
    assert front_of(report, points, points, BAND) == Front(160, 60.0, 0.1, np.inf)
    assert front_of(report, points, points, EVERYTHING) is None
    few = (Slice(0, None, ((90, 2.0), (160, 1.0))),)
    still = sampled(LoadReport(1, (), (), (), (Intake(3, sample=few), Intake(3, sample=new))), [], last)
    assert still.rise == (0, 60)
    assert front_of(still, points, points, BAND) is None


def test_a_batch_without_tuples_has_no_front():
    """Codes rose before it, but nothing says how many tuples come with them."""
    points = ((np.array([5]), np.array([3.0])),) * 2
    report = LoadReport(4, (), (), (), (Intake(), Intake()), rise=(10.0, 10.0))
    assert front_of(report, points, points, BAND) is None
    assert front_of(replace(report, intake=(Intake(4), Intake(4))), points, points, BAND) == Front(5, 10.0, 0.8, np.inf)
