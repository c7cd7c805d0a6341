"""``evenjoin demo`` runs, tells what it found, and the lines it prints do the same."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner

import evenjoin
from evenjoin.bench.ride_hailing import ORDERS_SCHEMA, TRACKS_SCHEMA, Day
from evenjoin.cli.app import evenjoin as command
from evenjoin.cli.demo import ON, SELECT, Plan, three_lines
from evenjoin.cli.draw import bar, imbalance, size


def test_version_and_help() -> None:
    """--version prints the version; --help lists the verbs and the exit codes."""
    runner = CliRunner()
    assert evenjoin.__version__ in runner.invoke(command, ["--version"]).output
    text = runner.invoke(command, ["--help"]).output
    assert all(part in text for part in ("demo", "inspect", "Exit codes", "not a checkpoint"))


def test_a_folder_in_use_and_an_unknown_strategy_are_usage_errors(tmp_path: Path) -> None:
    """Nothing is overwritten, nothing is started."""
    (tmp_path / "mine.txt").write_text("keep me")
    result = CliRunner().invoke(command, ["demo", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "not empty" in result.output
    result = CliRunner().invoke(command, ["demo", "--strategy", "best"])
    assert result.exit_code == 2
    assert "known:" in result.output


def test_the_three_lines_name_the_real_arguments() -> None:
    """What the demo prints is Python, and three statements."""
    code = three_lines(Plan(Day(), Path("x"), "hash", 4))
    assert len(compile(code, "demo", "exec", flags=0x400).body) == 3  # type: ignore[attr-defined]  # 0x400: parse only
    assert max(map(len, code.splitlines())) <= 80


def test_bars_and_sizes() -> None:
    """A bar is never longer than its width nor empty for something; sizes have three digits or so."""
    assert bar(10, 10, 8) == "█" * 8
    assert bar(20, 10, 8) == "█" * 8
    assert bar(0.001, 10, 8) == "▏"
    assert bar(0, 10) == bar(5, 0) == ""
    assert [size(n) for n in (0, 999, 1_500, 2_000_000, 3e12)] == ["0 B", "999 B", "1.5 kB", "2.0 MB", "3.0 TB"]
    assert imbalance([4.0, 0.0]) == 2.0
    assert imbalance([]) == 1.0


@pytest.mark.spark
def test_the_demo_runs_and_finds_what_the_embedded_engine_finds(tmp_path: Path) -> None:
    """A small day through the command: exit code 0, only our own output, as many results as the local runtime."""
    folder = tmp_path / "day"
    arguments = ["demo", "--out", str(folder), "--scale", "0.02", "--batches", "3", "--instances", "2"]
    done = subprocess.run(
        [sys.executable, "-c", "from evenjoin.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    day = Day(orders=3_200, tracks=9_600, batches=3)
    schemas = {"o": ORDERS_SCHEMA, "t": TRACKS_SCHEMA}
    join = evenjoin.local(schemas, ON, event_time="ts", watermark="30 seconds", select=SELECT, instances=2)
    expected = sum(join.process({"o": day.batch_orders(b), "t": day.batch_tracks(b)}).num_rows for b in range(3))
    told = re.search(r"gave ([\d,]+) results", re.sub(r"\s+", " ", done.stdout))
    assert told is not None
    assert int(told[1].replace(",", "")) == expected > 0
    assert ds.dataset(folder / "joined", partitioning="hive").count_rows() == expected
    assert "Hottest cells" in done.stdout
    assert str(folder / "joined") in done.stdout
