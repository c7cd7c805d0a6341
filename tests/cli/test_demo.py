"""``evenjoin demo`` runs both strategies, tells what it found, and the lines it prints do the same."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner

import evenjoin
from evenjoin.cli.app import evenjoin as command
from evenjoin.cli.demo import ON, SELECT, Plan, festival_day, three_lines
from evenjoin.cli.draw import bar, imbalance, size, spark_line
from evenjoin.commit.history import read_history


def test_version_and_help() -> None:
    """--version prints the version; --help lists the verbs and the exit codes."""
    runner = CliRunner()
    assert evenjoin.__version__ in runner.invoke(command, ["--version"]).output
    text = runner.invoke(command, ["--help"]).output
    assert all(part in text for part in ("demo", "inspect", "Exit codes", "not a checkpoint"))


def test_a_folder_in_use_and_an_unknown_strategy_are_usage_errors(tmp_path: Path) -> None:
    """Nothing is overwritten, nothing is started. `hash` is there anyway, with settings or without."""
    (tmp_path / "mine.txt").write_text("keep me")
    result = CliRunner().invoke(command, ["demo", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "not empty" in result.output
    for strategy, why in (("best", "known:"), ("hash", "beside it"), ("hash()", "beside it")):
        result = CliRunner().invoke(command, ["demo", "--strategy", strategy])
        assert result.exit_code == 2
        assert why in result.output


@pytest.mark.parametrize("strategy", ["auto", "djb(load='stored')"])
def test_the_three_lines_name_the_real_arguments(strategy: str) -> None:
    """What the demo prints is Python, three statements, and the demo's own join. The default is not named."""
    code = three_lines(Plan(festival_day(1, 12, 1), Path("x"), strategy, 4))
    body = ast.parse(code).body
    assert len(body) == 3
    assert max(map(len, code.splitlines())) <= 80
    assert isinstance(body[0], ast.Assign)
    assert isinstance(body[0].value, ast.Call)
    given = {word.arg: ast.literal_eval(word.value) for word in body[0].value.keywords}
    named = {} if strategy == "auto" else {"strategy": strategy}
    assert given == {"event_time": "ts", "on": ON, "watermark": "30 seconds", "instances": 4, **named}


def test_bars_and_sizes() -> None:
    """A bar is never longer than its width nor empty for something; sizes have three digits or so."""
    assert bar(10, 10, 8) == "█" * 8
    assert bar(20, 10, 8) == "█" * 8
    assert bar(0.001, 10, 8) == "▏"
    assert bar(0, 10) == bar(5, 0) == ""
    assert spark_line([0, 1, 4, 8, 9], 8) == "▁▂▅██"
    assert spark_line([1, 2], 0) == "▁▁"
    assert [size(n) for n in (0, 999, 1_500, 2_000_000, 3e12)] == ["0 B", "999 B", "1.5 kB", "2.0 MB", "3.0 TB"]
    assert imbalance([4.0, 0.0]) == 2.0
    assert imbalance([]) == 1.0


@pytest.mark.spark
def test_the_demo_runs_and_both_lanes_find_what_the_embedded_engine_finds(tmp_path: Path) -> None:
    """A small day through the command: exit code 0, only our own output, as many results as the local runtime, in the
    files of either lane."""
    folder = tmp_path / "day"
    arguments = ["demo", "--out", str(folder), "--scale", "0.05", "--batches", "4", "--instances", "2"]
    done = subprocess.run(
        [sys.executable, "-c", "from evenjoin.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    day = festival_day(0.05, 4, 1)
    schemas = {"o": day.batch_orders(0).schema, "t": day.batch_tracks(0).schema}
    join = evenjoin.local(schemas, ON, event_time="ts", watermark="30 seconds", select=SELECT, instances=2)
    expected = sum(join.process({"o": day.batch_orders(b), "t": day.batch_tracks(b)}).num_rows for b in range(4))
    words = re.sub(r"\s+", " ", done.stdout)
    told = re.search(r"same ([\d,]+) results, compared row by row", words)
    assert told is not None
    assert int(told[1].replace(",", "")) == expected > 0
    for name in ("hash", "auto"):
        assert ds.dataset(folder / name / "joined", partitioning="hive").count_rows() == expected
        history = read_history(folder / name / "checkpoint")
        assert history.table is not None
        assert history.table.origin.startswith(name)
        assert sum(report.matches for report in history.reports) == expected
        assert str(folder / name / "joined") in done.stdout
    assert re.search(r"auto (and hash )?took .* 2 batches after warming up", words)
    assert all(part in words for part in ("Hottest cells", "c53 Stadium", "What auto did", "evenjoin inspect"))
    report = folder / "auto" / "report.html"
    assert f"\n  {report}\n" in done.stdout
    assert f"\n  evenjoin ui {folder / 'auto' / 'checkpoint'}\n" in done.stdout
    page = report.read_text()
    assert "<h2>Busy time</h2>" in page
    assert "o.cell = t.cell" in page
    assert words.index("Verdict") < words.index("What auto did") < words.index("Report") < words.index("evenjoin ui ")
