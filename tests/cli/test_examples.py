"""The examples run as they stand, and print what they promise."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

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


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_fits_on_a_page(path: Path) -> None:
    """Forty lines or fewer."""
    assert len(path.read_text().splitlines()) <= 40
