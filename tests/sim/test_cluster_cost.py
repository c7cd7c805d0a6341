"""Nodes, profiles and the fit: what a batch costs, and that a profile is found again from what it made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evenjoin.errors import SpecError
from evenjoin.runtime.settings import Guards
from evenjoin.sim import Scenario, Simulation, Stream, simulate
from evenjoin.sim.cluster import Cluster, Loss, Slow
from evenjoin.sim.cost import MEASURED, PAPERS, Observed, features, fit, non_negative, observed

SMALL = Stream(keys=200, rows=(2000, 1000), batches=6)


def test_instances_share_nodes_and_cores():
    """Four tasks of 10 ms: on four cores 10, on two 20, on one 40; the slowest node decides."""
    tasks = np.full(4, 10.0)
    assert [Cluster((1.0,), cores).makespan(tasks) for cores in (4, 2, 1)] == [10, 20, 40]
    assert Cluster((1.0, 1.0), 2).node_of(6).tolist() == [0, 0, 1, 1, 0, 0]
    assert Cluster((1.0, 1.0), 1).makespan(np.array([5.0, 30.0, 5.0])) == 30
    assert Cluster.of(10).size == 12


def test_a_straggler_is_slow_while_it_is_and_a_slow_node_always():
    """Only its instances are."""
    cluster = Cluster((1.0, 0.5), 1, slow=(Slow(0, 2, 3, factor=4.0),))
    assert cluster.speed_of(3, 1).tolist() == [1, 0.5, 1]
    assert cluster.speed_of(3, 2).tolist() == [0.25, 0.5, 0.25]
    calm, slow = (list(simulate(Scenario(SMALL, "hash", 2, cluster=one)))[2] for one in (Cluster((1.0, 0.5)), cluster))
    assert slow.busy_mean > 1.5 * calm.busy_mean


def test_a_lost_node_reads_its_state_again():
    """Once, and the more the more is stored."""
    profile = replace(MEASURED, recovered=1.0)
    calm, lost = (
        [line.batch_ms for line in simulate(Scenario(SMALL, "hash", 2, profile=profile, cluster=cluster))]
        for cluster in (Cluster((1.0, 1.0)), Cluster((1.0, 1.0), lost=(Loss(1, 4),)))
    )
    assert [a == b for a, b in zip(calm, lost, strict=True)] == [True] * 4 + [False, True]
    assert lost[4] - calm[4] > 1000


def test_no_cluster_without_nodes():
    """Or with nodes that stand still."""
    with pytest.raises(SpecError, match="speed above 0"):
        Cluster((1.0, 0.0))


def test_a_scan_costs_what_is_stored_and_a_search_its_logarithm():
    """The papers' |R_i| * phi_i against this engine's probe."""
    one = np.array([[8], [0]])
    probes = np.array([[0], [3]])
    nothing = np.zeros((2, 1), np.int64)
    assert features(nothing, probes, nothing, one * 4, "scan")[0, 2] == 3 * 32
    assert features(nothing, probes, nothing, one * 4, "sorted")[0, 2] == pytest.approx(3 * np.log2(34))


def test_coefficients_are_never_negative():
    """What would be is 0, and the others are the best without it."""
    columns = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    assert non_negative(columns, np.array([3.0, 2.0, 1.0])) == pytest.approx([2.0, 0.0])
    assert non_negative(columns, np.array([3.0, 5.0, 7.0])) == pytest.approx([1.0, 2.0])


def test_a_profile_is_found_again_from_the_runs_that_it_made():
    """The commits of simulated runs in place of real ones; batches with a migration are left out, so that a planner
    that changes the table in most batches would leave too few to tell all coefficients apart. Times are rounded: with
    8 batches a run the cost of a row is known but for 2e-6 ms or so, with 24 for a tenth of that."""
    runs = []
    for instances, rows in ((4, 1000), (8, 4000), (6, 2000)):
        cluster = Cluster((1.0,), 2)
        stream = replace(SMALL, rows=(rows, rows), batches=24)
        simulation = Simulation(Scenario(stream, "fastjoin", instances, cluster=cluster, guards=Guards(min_work=1000)))
        commits = []
        for _ in range(24):
            simulation.step()
            commits.append(simulation.last)
        runs.append((observed(commits), cluster))
    found = fit(runs)
    for name in ("constant", "taken", "probed", "found", "fixed", "per_instance", "stretch", "row"):
        assert getattr(found, name) == pytest.approx(getattr(MEASURED, name), rel=0.02, abs=2e-6), name


def test_nothing_is_fitted_on_nothing():
    """At least one batch."""
    with pytest.raises(SpecError, match="at least one batch"):
        fit([])


def test_what_was_observed_can_be_said_by_hand():
    """A profile fitted on one kind of batch repeats its duration."""
    batch = Observed(np.array([[1.0, 100.0, 700.0, 50.0]]), np.array([5.0]), 100, 30.0)
    cluster = Cluster()
    assert fit([([batch], cluster)]).batch_ms(batch.busy_ms, 100, 0, cluster) == pytest.approx(30.0)


def test_the_papers_engines_gain_from_balance_what_ours_does_not():
    """Where a probe scans, a hot unit costs its square: hash takes longer than fastjoin by more."""
    stream = Stream(keys=2000, rows=(20_000, 20_000), zipf=(0.9, 0.9), batches=6)
    gain = {}
    for profile in (MEASURED, PAPERS):
        slow, fast = (list(simulate(Scenario(stream, name, 8, profile=profile)))[-1] for name in ("hash", "fastjoin"))
        gain[profile.name] = (slow.busy_max / slow.busy_mean) / (fast.busy_max / fast.busy_mean)
    assert gain["papers"] > gain["measured"] * 0.9
