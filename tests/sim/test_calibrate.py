"""From real commits to a profile, and a simulation against a real run."""

from __future__ import annotations

import warnings

import pytest
from click.testing import CliRunner

import evenjoin
from evenjoin.errors import SpecError
from evenjoin.sim import Scenario, Stream
from evenjoin.sim.calibrate import against, commits_of, explained, main
from evenjoin.sim.cluster import Cluster
from evenjoin.sim.cost import fit, observed
from sim.alike import rows_of

STREAM = Stream(keys=300, rows=(1500, 1500), batches=5)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A run of the embedded engine."""
    folder = tmp_path_factory.mktemp("run") / "checkpoint"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        join = evenjoin.local(
            {side.alias: side.schema for side in STREAM.spec.sides}, STREAM.spec.text, strategy="fastjoin",
            instances=4, checkpoint=folder, durability="os", select=["r.k"],
        )  # fmt: skip
    with join:
        for batch in range(STREAM.batches):
            rows, others = STREAM.arrivals(batch)
            join.process({"r": rows_of(rows), "s": rows_of(others)})
    return folder


def test_a_profile_comes_from_the_commits_of_a_run(checkpoint):
    """Fitted on a run it explains that run, on the whole."""
    cluster, batches = Cluster(), observed(commits_of(checkpoint))
    profile = fit([(batches, cluster)])
    assert abs(explained(profile, batches, cluster).batch_ms) < 0.2
    assert profile.receive_us > 0


def test_a_simulation_of_a_run_has_its_imbalance(checkpoint):
    """Batch by batch, by the strategy's own measure."""
    commits = commits_of(checkpoint)
    off = against(Scenario(STREAM, "fastjoin", 4, cluster=Cluster()), commits)
    assert off.imbalance < 0.02
    assert off.batches == 3
    with pytest.raises(SpecError, match="all of its commits are needed"):
        against(Scenario(STREAM, "fastjoin", 4), commits[1:])


def test_the_command_shows_how_far_off_a_profile_is(checkpoint):
    """On the runs that it was fitted on, and on others; and prints the profile."""
    found = CliRunner().invoke(main, ["--fit", str(checkpoint), "--check", str(checkpoint), "--cores", "1"])
    assert found.exit_code == 0, found.output
    assert "held out" in found.output
    assert "Profile(name='measured'" in found.output
