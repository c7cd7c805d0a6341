"""Each instance a queue: the approximation against Lindley's recursion, and what overload does."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from evenjoin.sim import Scenario, Stream, simulate
from evenjoin.sim.cost import PAPERS
from evenjoin.sim.queueing import Queues, served_exactly


def counts(*tuples):
    return SimpleNamespace(messages=np.array([tuples, [0] * len(tuples)]))


def test_lindley_by_hand():
    """Arrivals at 0, 1, 2 and 10 that take 3 each: they wait 0, 2, 4 and 0."""
    assert served_exactly(np.array([0.0, 1.0, 2.0, 10.0]), np.full(4, 3.0)).tolist() == [3, 5, 7, 3]
    assert served_exactly(np.array([1.0]), np.array([3.0]), backlog_ms=5).tolist() == [7]
    assert len(served_exactly(np.zeros(0), np.zeros(0))) == 0


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.8])
def test_the_mean_wait_is_that_of_every_tuple(rho):
    """Poisson arrivals, exponential service, twenty seeds: within a tenth; the 99th percentile within a quarter."""
    length, many = 100_000.0, 20_000
    means, tails = [], []
    for seed in range(20):
        rng = np.random.default_rng([seed, 3])
        arrivals = np.sort(rng.random(many) * length)
        latency = served_exactly(arrivals, rng.exponential(rho * length / many, many))
        means.append(latency.mean())
        tails.append(np.percentile(latency, 99))
    found = Queues().interval(counts(many), np.array([rho * length]), length)
    assert found.mean_ms == pytest.approx(np.mean(means), rel=0.1)
    assert found.p99_ms == pytest.approx(np.mean(tails), rel=0.25)
    assert found.throughput == pytest.approx(many / length * 1000)


def test_an_overloaded_queue_grows_and_drains():
    """Work of 1.5 s a second leaves half a second each time, and three quiet seconds take it away."""
    queues, seen = Queues(), []
    for busy in (1500.0, 1500.0, 0.0, 400.0):
        seen.append(queues.interval(counts(100, 100), np.array([busy, 100.0]), 1000.0))
    assert [one.backlog_ms for one in seen] == [500, 1000, 0, 0]
    assert seen[1].mean_ms > seen[0].mean_ms > seen[3].mean_ms
    assert seen[0].by_instance[1] < 5
    assert seen[0].throughput == pytest.approx(100 + 100 / 1.5)


def test_a_fluid_backlog_is_what_tuples_see():
    """Overload of 1.3, exactly and by the fluid."""
    many, length = 5000, 1000.0
    rng = np.random.default_rng(5)
    exact = served_exactly(np.sort(rng.random(many) * length), rng.exponential(1.3 * length / many, many))
    found = Queues().interval(counts(many), np.array([1.3 * length]), length)
    assert found.mean_ms == pytest.approx(exact.mean(), rel=0.2)


def test_an_even_cluster_answers_sooner():
    """The papers' engines at the same rate: hash waits longer than fastjoin does after its rebalance."""
    stream = Stream(keys=3000, rows=(20_000, 20_000), zipf=(0.8, 0.8), batches=8)
    slow, fast = (list(simulate(Scenario(stream, name, 8, profile=PAPERS)))[-1] for name in ("hash", "fastjoin"))
    assert slow.latency_ms > fast.latency_ms
