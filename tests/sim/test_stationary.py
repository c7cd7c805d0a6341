"""Planners leave a stationary stream alone: at most two rebalances in 40 batches, on the production path."""

from __future__ import annotations

from statistics import median

import pytest

from evenjoin.sim import Scenario, Stream, simulate
from evenjoin.sim.cluster import Cluster

PLANNERS = ("fastjoin", "djb", "lsstream", "readj")
SLOW = [(instances, zipf) for instances in (8, 16, 48, 100) for zipf in (0.2, 0.4, 0.6, 0.8, 1.0, 1.2)]


def rebalances(strategy, instances, zipf, keys, rows, window=None):
    stream = Stream(keys=keys, rows=(rows, rows), zipf=(zipf, zipf), batches=40, seed=1, window=window)
    return sum(line.verdict == "rebalance" for line in simulate(Scenario(stream, strategy, instances, seed=1)))


@pytest.mark.parametrize("strategy", PLANNERS)
@pytest.mark.parametrize("window", [None, 4], ids=["full history", "windowed"])
def test_a_stationary_stream_is_left_alone(strategy, window):
    """While state grows, and while as much expires as comes."""
    assert rebalances(strategy, 12, 0.7, 3_000, 30_000, window) <= 2


def test_measured_speeds_relieve_a_slow_node_and_then_leave_it_alone():
    """One of eight nodes has half the speed. With `speeds` LS-Stream takes partitions from it, in at most two
    rebalances, and batches take a sixth less time; without, it sees nothing."""
    stream = Stream(keys=20_000, rows=(200_000, 200_000), zipf=(0.2, 0.2), batches=20, seed=1, window=4)
    cluster = Cluster((1.0, 1.0, 1.0, 0.5, 1.0, 1.0, 1.0, 1.0), 1)
    blind, seeing = (
        list(simulate(Scenario(stream, f"lsstream(alpha=0.3, speeds={speeds})", 8, seed=1, cluster=cluster)))
        for speeds in (False, True)
    )
    assert sum(line.verdict == "rebalance" for line in blind) == 0
    assert 1 <= sum(line.verdict == "rebalance" for line in seeing) <= 2
    late = [median(line.batch_ms for line in lines[-10:]) for lines in (blind, seeing)]
    assert late[1] < late[0] * 5 / 6


@pytest.mark.slow
@pytest.mark.parametrize("strategy", PLANNERS)
@pytest.mark.parametrize(("instances", "zipf"), SLOW)
def test_at_every_size_and_skew(strategy, instances, zipf):
    """The grid of `evenjoin simulate --sweep`, for one seed."""
    assert rebalances(strategy, instances, zipf, 100_000, 100_000) <= 2
