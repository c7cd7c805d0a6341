"""The examples run as they stand, and print what they promise."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

import oracle

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_embedded_engine_joins_views_with_clicks() -> None:
    """Two clicks came in time, the one after 40 seconds did not."""
    text = run("embedded.py")
    assert "'user': 17" in text
    assert "'user': 19" in text
    assert "'user': 18" not in text


@pytest.mark.spark
def test_ride_hailing_writes_what_it_counts(tmp_path: Path, spark, monkeypatch, capsys) -> None:
    """The number printed is the number of rows in the output. It gets the session that is there."""
    monkeypatch.setattr(sys, "argv", ["ride_hailing.py", str(tmp_path / "rides")])
    runpy.run_path(str(EXAMPLES / "ride_hailing.py"), run_name="__main__")
    spark.sparkContext.setLogLevel("FATAL")
    told = int(capsys.readouterr().out.split()[0].replace(",", ""))
    assert ds.dataset(tmp_path / "rides" / "joined", partitioning="hive").count_rows() == told > 0


def test_three_sides_without_a_key_are_joined_here() -> None:
    """Tea has its three quotes in the second batch, oil in the third."""
    text = run("three_way_embedded.py").splitlines()
    assert text[0] == "[]"
    assert [line.count("tea") for line in text[1:3]] == [3, 0]
    assert [line.count("oil") for line in text[1:3]] == [0, 3]


@pytest.mark.spark
def test_three_way_writes_what_it_counts(tmp_path: Path, spark, monkeypatch, capsys) -> None:
    """The number printed is that of the output, which is DuckDB's; then every instance and the heaviest key."""
    monkeypatch.setattr(sys, "argv", ["three_way.py", str(tmp_path)])
    runpy.run_path(str(EXAMPLES / "three_way.py"), run_name="__main__")
    spark.sparkContext.setLogLevel("FATAL")
    told, *loads = capsys.readouterr().out.splitlines()
    sides = {name: ds.dataset(tmp_path / name).to_table() for name in ("click", "review", "reward")}
    near = "{1}.ts BETWEEN {0}.ts AND {0}.ts + INTERVAL 5 MINUTES AND {0}.video = {1}.video AND {0}.user = {1}.user"
    on = " AND ".join(near.format(*pair) for pair in (("click", "review"), ("review", "reward")))
    expected = oracle.answer(sides, on, ["click.video", "click.user", "reward.ts AS rewarded"])
    found = ds.dataset(tmp_path / "joined", partitioning="hive").to_table(columns=["video", "user", "rewarded"])
    assert sum(expected.values()) == found.num_rows == int(told.split()[0].replace(",", "")) > 0
    assert [line.partition(":")[0] for line in loads[:4]] == [f"instance {number}" for number in range(4)]
    assert loads[4].startswith("the heaviest video and user: ")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_fits_on_a_page(path: Path) -> None:
    """Forty lines or fewer."""
    assert len(path.read_text().splitlines()) <= 40
