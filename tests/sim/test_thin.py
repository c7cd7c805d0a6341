"""Thin streams, of about 60 rows a unit, side and batch: what chance makes uneven calls for no plan, a hot key does."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from evenjoin.sim import Scenario, Stream, simulate
from evenjoin.sim.stream import Slice

PLANNERS = ("fastjoin", "djb", "lsstream", "readj")
A_UNIT = 60
SKEWS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2)
FULL = [(size, zipf, seed) for size in (8, 16, 48, 100) for zipf in SKEWS for seed in (1, 2, 3, 4, 5)]


def thin(instances, zipf, seed, keys=100_000, window=None):
    rows = A_UNIT * instances
    return Stream(keys=keys, rows=(rows, rows), zipf=(zipf, zipf), batches=40, seed=seed, window=window)


def rebalances(stream, strategy, instances):
    lines = simulate(Scenario(stream, strategy, instances, seed=stream.seed))
    return sum(line.verdict == "rebalance" for line in lines)


@pytest.mark.parametrize("strategy", PLANNERS)
@pytest.mark.parametrize(
    ("zipf", "seed", "window"),
    [
        (0.6, 1, None),
        (0.6, 1, 4),
        *(
            pytest.param(zipf, seed, None, marks=pytest.mark.slow)
            for zipf, seed in ((0.2, 1), (0.6, 2), (0.8, 3), (1.0, 1))
        ),
    ],
)
def test_a_thin_stationary_stream_is_left_alone(strategy, zipf, seed, window):
    """While state grows, and while as much expires as comes."""
    assert rebalances(thin(12, zipf, seed, 20_000, window), strategy, 12) <= 2


@pytest.mark.slow
def test_many_units_with_few_rows_are_left_alone():
    """The extremes of 48 units are further apart by chance than those of 8."""
    assert rebalances(thin(48, 0.2, 2, 5_000), "djb", 48) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("strategy", PLANNERS)
@pytest.mark.parametrize(("instances", "zipf", "seed"), FULL)
def test_at_every_size_and_skew(strategy, instances, zipf, seed):
    """The sizes and skews of `evenjoin simulate --sweep`, with thin streams."""
    assert rebalances(thin(instances, zipf, seed), strategy, instances) <= 2


HOT_FROM = 12


@dataclass(frozen=True)
class Heated:
    """A thin stream of which one key, that was like the others, has a fifth of the rows from batch HOT_FROM on."""

    cold: Stream

    @property
    def spec(self):
        return self.cold.spec

    @property
    def batches(self):
        return self.cold.batches

    def codes(self):
        return self.cold.codes()

    def arrivals(self, batch):
        usual = self.cold.arrivals(batch)
        if batch < HOT_FROM:
            return usual
        hot = self.cold.codes()[7]
        return tuple((_with(side[0], hot, round(rows / 4)),) for side, rows in zip(usual, self.cold.rows, strict=True))


def _with(some: Slice, code, more):
    """The slice with so many more tuples of a code."""
    codes = np.union1d(some.codes, [code])
    counts = np.zeros(len(codes), np.int64)
    counts[np.searchsorted(codes, some.codes)] = some.counts
    counts[np.searchsorted(codes, code)] += more
    return some._replace(codes=codes, counts=counts)


@pytest.mark.parametrize("instances", [8, 16])
@pytest.mark.parametrize("window", [None, 4], ids=["full history", "windowed"])
def test_a_hot_key_is_relieved_on_a_thin_stream(instances, window):
    """A fifth of the rows is far more than chance explains, however few they are: D-JB divides the key in the first
    three batches that have it, and its theta is then below half of what it was."""
    stream = Heated(replace(thin(instances, 0.2, 1, 2_000, window), batches=HOT_FROM + 6))
    lines = [*simulate(Scenario(stream, "djb", instances, seed=1))]
    at = [line.batch for line in lines if line.verdict == "rebalance" and line.batch >= HOT_FROM]
    assert at, [line.verdict for line in lines]
    assert at[0] < HOT_FROM + 3
    assert lines[-1].imbalance < max(line.imbalance for line in lines[HOT_FROM:]) / 2
