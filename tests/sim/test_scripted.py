"""Scripted streams: the hot keys are where and when the script says; and what `auto` makes of each script."""

from __future__ import annotations

from statistics import mean, median

import pytest

from evenjoin.errors import SpecError
from evenjoin.load.items import planning_items
from evenjoin.sim import Scenario, Scripted, Simulation, simulate
from evenjoin.sim.cluster import Cluster
from evenjoin.sim.scripted import SCRIPTS
from evenjoin.sim.sweep import seeded

SMALL = {"keys": 20_000, "rows": (400_000, 40_000), "window": 2, "batches": 24}
"""Quick to simulate: a hot key of side 0 meets two tuples of side 1 a batch, and takes most of a batch's time."""


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_batch_is_a_function_of_script_seed_and_number(name):
    """Weights are shares of all tuples, and another seed has other hot keys."""
    source, other = Scripted(name, keys=500, rows=(900, 900)), Scripted(name, keys=500, rows=(900, 900), seed=2)
    for batch in (0, 5, 19):
        again = Scripted(name, keys=500, rows=(900, 900))
        for one, two in zip(source.arrivals(batch), again.arrivals(batch), strict=True):
            assert [s.counts.tolist() for s in one] == [s.counts.tolist() for s in two]
        assert source.weights(0, batch).sum() == pytest.approx(1)
    assert not set(source.codes().tolist()) & set(other.codes().tolist())


def hottest(source, batch, side=0):
    (one,) = source.arrivals(batch)[side]
    return int(one.codes[one.counts.argmax()]), float(one.counts.max() / one.tuples)


def test_the_hot_keys_follow_the_script():
    """One key all the time; three batches only; two that take turns; a new one every three batches."""
    make = {name: Scripted(name, keys=500, rows=(20_000, 20_000)) for name in SCRIPTS}
    assert len({hottest(make["hot"], batch)[0] for batch in range(6)}) == 1
    assert hottest(make["hot"], 3)[1] == pytest.approx(0.4, abs=0.02)
    assert hottest(make["hot"], 3, side=1)[1] < 0.01
    assert [hottest(make["flash"], batch)[1] > 0.5 for batch in (17, 18, 20, 21)] == [False, True, True, False]
    turns = [hottest(make["alternating"], batch)[0] for batch in range(8)]
    assert turns == [turns[0]] * 2 + [turns[2]] * 2 + [turns[0]] * 2 + [turns[2]] * 2
    assert turns[0] != turns[2]
    assert len({hottest(make["renewed"], batch)[0] for batch in range(9)}) == 3
    both = [make["hot-both"].weights(side, 0).argmax() for side in (0, 1)]
    assert both[0] == both[1]
    assert (make["warm"].weights(0, 0) > 0.01).sum() == 40


def test_an_unknown_script_is_refused():
    with pytest.raises(SpecError, match="unknown script 'cold'; known: uniform, hot"):
        Scripted("cold")


def run(script, strategy, instances, cores, seed=1):
    """The lines of a run on one node with so many cores."""
    scenario = Scenario(Scripted(script, **SMALL), strategy, instances, cluster=Cluster((1.0,), cores))
    return list(simulate(seeded(scenario, seed)))


def settled(lines):
    return median(line.batch_ms for line in lines[-8:])


SEEDS = (1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3)))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_hot_key_is_divided_once(seed):
    """And a batch then takes at most four fifths of what it takes under `hash`."""
    hashed, auto = (run("hot", strategy, 8, 8, seed) for strategy in ("hash", "auto"))
    assert sum(line.changes for line in auto) == 1
    assert settled(auto) < 0.8 * settled(hashed)
    assert auto[-1].records == 1


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("instances", "cores"), [(8, 8), (8, 2), (16, 16)])
def test_uniform_keys_are_left_alone(seed, instances, cores):
    """Nothing moves, so a batch takes what it takes under `hash`, to the millisecond."""
    hashed, auto = (run("uniform", strategy, instances, cores, seed) for strategy in ("hash", "auto"))
    assert not any(line.changes for line in auto)
    assert [line.batch_ms for line in auto] == [line.batch_ms for line in hashed]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("script", SCRIPTS)
def test_no_script_makes_auto_slower_than_hash(seed, script):
    """By more than 3 %, pauses counted; and it changes at most once for each hot key that came. A new hot key every
    three batches is the worst case: as soon as one has been divided it is gone. There it is 10 %."""
    hashed, auto = (run(script, strategy, 8, 8, seed) for strategy in ("hash", "auto"))
    limit = 1.1 if script == "renewed" else 1.03
    assert mean(line.batch_ms for line in auto) <= limit * mean(line.batch_ms for line in hashed)
    most = {"uniform": 0, "alternating": 2, "renewed": 8, "flash": 1}.get(script, 2)
    assert sum(line.changes for line in auto) <= most


def test_two_cores_are_two_cores():
    """How many tasks ran at once is what the cluster has cores, however tasks follow each other."""
    simulation = Simulation(Scenario(Scripted("hot", **SMALL), "auto", 8, cluster=Cluster((1.0,), 2)))
    for _ in range(12):
        simulation.step()
        assert simulation.report.cores == 2


def test_a_slow_node_gets_less_work():
    """Of two nodes with four instances each one is half as fast, all the time. `auto` moves work off it, once or twice,
    and a batch takes less time than under `hash`; without the slow node nothing moves."""
    source = Scripted("uniform", keys=4_000, rows=(1_000_000, 1_000_000), window=1, batches=16)
    even, slow = Cluster((1.0, 1.0), 4), Cluster((1.0, 0.5), 4)
    calm, hashed, auto = (
        list(simulate(Scenario(source, strategy, 8, cluster=cluster)))
        for strategy, cluster in (("auto", even), ("hash", slow), ("auto", slow))
    )
    assert not any(line.changes for line in calm)
    assert 1 <= sum(line.changes for line in auto) <= 2
    assert settled(auto) < 0.9 * settled(hashed)


@pytest.mark.parametrize("window", [1, 3, None])
def test_smoothing_invents_no_arrivals(window):
    """Other keys are named in each batch, and what is stored besides the batch is little or much: the arrivals that
    planners see are as many as have come."""
    source = Scripted("uniform", keys=4_000, rows=(100_000, 100_000), window=window, batches=8)
    simulation = Simulation(Scenario(source, "auto", 8))
    for _ in range(8):
        simulation.step()
    seen = planning_items(simulation.report, simulation.met).arrived.sum()
    assert seen == pytest.approx(200_000, rel=0.01)
