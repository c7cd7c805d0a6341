"""``evenjoin simulate``: tables for people, lines for programs, and refusals before anything runs."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from evenjoin.cli.app import evenjoin

SMALL = ["--keys", "300", "--rows", "2000", "--batches", "4"]


def call(*arguments):
    return CliRunner().invoke(evenjoin, ["simulate", *SMALL, *arguments])


def test_one_line_a_batch_and_one_a_seed(tmp_path):
    """Also as JSON lines, of every seed."""
    out = tmp_path / "lines.jsonl"
    found = call("--strategy", "fastjoin", "--instances", "4", "--seeds", "2", "--json", str(out))
    assert found.exit_code == 0, found.output
    assert "fastjoin on 4 instances (shared), 300 keys, 2,000 : 2,000 rows a batch, zipf 0.8" in found.output
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(line["seed"], line["batch"]) for line in lines] == [(s, b) for s in (1, 2) for b in range(4)]


def test_batches_are_drawn_with_a_panel_for_each_stream(tmp_path):
    """A sweep has no batches to draw."""
    out = tmp_path / "batches.png"
    found = call("--strategy", "hash,auto", "--instances", "2", "--zipf", "0.5,1", "--figure", str(out))
    assert found.exit_code == 0, found.output
    height, width = (int.from_bytes(out.read_bytes()[at : at + 4], "big") for at in (20, 16))
    assert width > 2 * height, "two panels beside each other"
    assert "--sweep shows none" in call("--sweep", "--figure", str(out)).output


def test_a_sweep_has_a_table_for_each_planner_and_mode(tmp_path):
    """With the share of batches within the threshold, rebalances, tuples moved and the floor."""
    out = tmp_path / "sweep.jsonl"
    found = call("--sweep", "--strategy", "fastjoin,lsstream(alpha=0.9)", "--instances", "2,4", "--zipf", "0.5,1",
                 "--mode", "stationary", "--seeds", "2", "--json", str(out),
                 "--markdown", str(tmp_path / "sweep.md"))  # fmt: skip
    assert found.exit_code == 0, found.output
    assert "**`fastjoin`: imbalance at most 2.2**, stationary, 2 seeds" in (tmp_path / "sweep.md").read_text()
    for word in ("fastjoin, stationary, 2 seeds from 1", "lsstream", "within", "rebalances", "moved", "floor"):
        assert word in found.output
    points = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(point["instances"], point["zipf"]) for point in points] == [(2, 0.5), (2, 1.0), (4, 0.5), (4, 1.0)] * 2


def test_sides_of_their_own_rates_bands_and_windows():
    """All options of a stream reach it."""
    found = call("--strategy", "adsp(task_capacity=5000)", "--band", "2", "--rows", "3000,100", "--window", "1",
                 "--profile", "papers", "--nodes", "2", "--cores", "2", "--instances", "4")  # fmt: skip
    assert found.exit_code == 0, found.output
    assert "3,000 : 100 rows a batch" in found.output


def test_the_number_of_instances_follows_the_state_up_to_the_most(tmp_path):
    """A batch is 4,000 tuples, and an instance has room for 1,000."""
    out = tmp_path / "lines.jsonl"
    found = call("--strategy", "hash", "--task-capacity", "1000", "--max-instances", "5", "--json", str(out))
    assert found.exit_code == 0, found.output
    assert max(json.loads(line)["instances"] for line in out.read_text().splitlines()) == 5


def test_nodes_may_be_slow_for_a_while_or_lost(tmp_path):
    """The batches in which they are take longer."""
    took = []
    for options in ([], ["--slow", "0:2:2:9"], ["--lose", "0:3", "--lose", "1:3", "--speeds", "1,1"]):
        out = tmp_path / "lines.jsonl"
        found = call("--strategy", "hash", "--instances", "4", "--cores", "2", "--json", str(out), *options)
        assert found.exit_code == 0, found.output
        took.append([json.loads(line)["batch_ms"] for line in out.read_text().splitlines()])
    assert [b > a for a, b in zip(took[0], took[1], strict=True)] == [False, False, True, False]
    assert [b > a for a, b in zip(took[0], took[2], strict=True)] == [False, False, False, True]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--strategy", "fastest"], "unknown strategy 'fastest'"),
        (["--strategy", "hash", "--band", "2"], "ordered buckets on a band"),
        (["--strategy", "fastjoin", "--band", "2"], "a key takes its probes along"),
        (["--mode", "odd"], "use stationary, drifting, growing"),
        (["--zipf", "much"], "numbers with commas"),
        (["--rows", "-1"], "rows"),
        (["--slow", "7:1:2"], "numbers with colons"),
        (["--lose", "9:1"], "a node below 2"),
    ],
)
def test_what_cannot_run_is_refused(arguments, said):
    """With a sentence, before anything runs."""
    found = call(*arguments)
    assert found.exit_code in (1, 2)
    assert said in " ".join(found.output.split())


def test_a_script_says_what_is_hot(tmp_path):
    """In place of a law of skew; with one it is refused."""
    out = tmp_path / "lines.jsonl"
    found = call("--strategy", "hash,auto", "--script", "hot", "--window", "2", "--json", str(out))
    assert found.exit_code == 0, found.output
    assert "auto on 8 instances (shared), 300 keys, 2,000 : 2,000 rows a batch, script hot" in found.output
    assert len(out.read_text().splitlines()) == 8
    for more in (["--zipf", "1"], ["--sweep"], ["--mode", "drifting"]):
        refused = call("--script", "hot", *more)
        assert (refused.exit_code, "--script says what is hot" in refused.output) == (2, True)
    assert call("--script", "cold").exit_code == 2
