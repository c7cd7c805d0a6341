"""``evenjoin compare``: what it refuses, and one small real comparison."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from evenjoin.bench import compare as module
from evenjoin.bench.compare import Comparison, Plan, Run, Trace, Watch
from evenjoin.bench.cpu import Usage
from evenjoin.bench.jobs import Outcome
from evenjoin.cli import compare as verb
from evenjoin.cli.app import evenjoin as command
from evenjoin.runtime.settings import Guards

SIZED = ("adsp", "square", "dynamic", "random", "contrand(groups=6)", "readj")
"""What is compared where tasks have a capacity: all of them run bands too."""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["G99"], "known: ride-hailing, G00"),
        (["G22", "--strategies", "hash,best"], "unknown strategy 'best'"),
        (["G22", "--strategies", "hash,hash"], "each strategy once"),
        (["G22", "--strategies", " , "], "at least one"),
        (["G22", "--strategies", "fastjoin(theta=0.5)"], "a number above 1"),
        (["G22", "--strategies", "contrand(groups=9)"], "groups"),
        (["G22", "--instances", "1"], "1"),
        (["ratio", "--fixed", "--instances", "6", "--strategies", "dynamic"], "use instances=4 or 8"),
        (["ratio", "--strategies", "adsp,fastjoin"], "a key takes its probes along"),
        (["ratio", "--fixed", "--strategies", "lsstream"], "queues for several partitions"),
        (["triangle", "--strategies", "hash"], "hash brings only equal keys together"),
        (["common-key", "--layout", "split", "--strategies", "hash"], "come to one instance"),
        (["G22", "--batches", "0"], "0"),
        (["G22", "--rows", "0"], "0"),
        ([], "WORKLOAD"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2_and_starts_nothing(arguments: list[str], told: str) -> None:
    """The message says what is known or allowed."""
    result = CliRunner().invoke(command, ["compare", *arguments])
    assert result.exit_code == 2, result.output
    assert told in " ".join(result.output.split())


def test_the_help_names_the_workloads() -> None:
    """A user finds them without the documentation."""
    text = "".join(CliRunner().invoke(command, ["compare", "--help"]).output.split())
    assert all(
        name in text
        for name in ("ride-hailing", "G22", "zipf0.2", "drift-zipf1.0", "--spark-native", "triangle", "--layout")
    )


@pytest.mark.parametrize(("off", "code"), [(0, 0), (1, 1)])
def test_options_reach_the_plan_and_counts_that_differ_are_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: int, code: int
) -> None:
    """A comma inside a strategy's settings belongs to it; one result too few fails the command, after the report."""
    seen: list[Plan] = []

    def fake(plan: Plan, watch: Watch) -> Comparison:
        seen.append(plan)
        watch("hash", 1)
        trace = Trace(
            (1.0,),
            dict.fromkeys(plan.strategies, (1.0,)),
            ("none",),
            (),
            (1.0,) * 4,
            (1,) * 4,
            (1,) * 4,
            (4,),
            (1,),
            (1,),
            (),
        )
        runs = tuple(Run(s, Outcome("evenjoin", 10, 5 - off, Usage(1.0), (9.0,)), None, trace) for s in plan.strategies)
        return Comparison(plan.workload, plan.instances, Outcome("duckdb", 10, 5, Usage(1.0)), runs)

    monkeypatch.setattr(verb, "run", fake)
    arguments = [
        "compare",
        "drift-zipf1.0",
        "--strategies",
        "hash,fastjoin(theta=1.8,selector=safit)",
        "--spark-native",
    ]
    arguments += ["--instances", "4", "--batches", "9", "--rows", "50", "--drift-every", "3", "--seed", "5"]
    arguments += ["--cooldown", "3", "--min-gain", "0.2", "--min-work", "7", "--budget", "500", "--layout", "split"]
    result = CliRunner().invoke(command, [*arguments, "--repeat", "2", "--out", str(tmp_path)])
    assert result.exit_code == code, result.output
    assert seen[0].systems == ("hash", "fastjoin(theta=1.8,selector=safit)", module.NATIVE)
    assert (seen[0].instances, seen[0].repeat, seen[0].workload.batches) == (4, 2, 9)
    assert (seen[0].guards, seen[0].layout) == (Guards(3, 0.2, 7, 500), "split")
    streams = seen[0].workload.streams
    assert streams.drift.every == 3  # type: ignore[union-attr]
    assert (streams.rows_per_batch, streams.seed) == (50, 5)  # type: ignore[union-attr]
    assert (tmp_path / "compare.html").exists()
    assert ("do not agree" in result.output) == bool(off)


def test_fixed_sizes_are_for_workloads_with_a_capacity_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The usual strategies, on as many instances as asked for, and no capacity."""
    seen: list[Plan] = []
    monkeypatch.setattr(verb, "run", lambda plan, watch: seen.append(plan) or (_ for _ in ()).throw(KeyError))
    CliRunner().invoke(
        command, ["compare", "ratio", "--fixed", "--rows", "20", "--batches", "2", "--out", str(tmp_path)]
    )
    assert (seen[0].systems, seen[0].instances) == (SIZED, 8)
    assert (seen[0].workload.capacity, seen[0].guards) == (None, None)


@pytest.mark.parametrize(
    ("arguments", "systems"),
    [
        (["G22"], ("hash", "contrand(groups=2)", "fastjoin", "djb", "lsstream")),
        (["E_Q5"], SIZED),
        (["E_Q5", "--fixed", "--instances", "6"], tuple(name for name in SIZED if name != "dynamic")),
        (["B_NCI"], SIZED),
    ],
    ids=" ".join,
)
def test_the_usual_strategies_are_those_that_can_run_the_join(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], systems: tuple[str, ...]
) -> None:
    """Nobody named others; a strategy that cannot run on so many instances is left out and refuses nothing."""
    seen: list[Plan] = []
    monkeypatch.setattr(verb, "run", lambda plan, watch: seen.append(plan) or (_ for _ in ()).throw(KeyError))
    CliRunner().invoke(command, ["compare", *arguments, "--rows", "100", "--batches", "2", "--out", str(tmp_path)])
    assert seen[0].systems == systems


@pytest.mark.slow
@pytest.mark.spark
def test_two_strategies_and_spark_find_the_same_on_real_spark(tmp_path: Path) -> None:
    """Three batches: exit code 0, a table with a line each, and all files."""
    arguments = ["compare", "zipf1.0", "--strategies", "hash,djb", "--spark-native"]
    arguments += ["--batches", "3", "--rows", "2000", "--instances", "4", "--out", str(tmp_path)]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    assert "All agree with DuckDB" in result.output
    document = json.loads((tmp_path / "compare.json").read_text())
    assert [run["name"] for run in document["runs"]] == ["hash", "djb", module.NATIVE]
    for run in document["runs"][:2]:
        assert len(run["trace"]["busy"]) == len(run["outcome"]["batch_ms"]) == 3
        assert len(run["trace"]["measures"]["djb"]) == 3
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"logs"}
