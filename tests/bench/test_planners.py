"""The planner benchmark times real plans and keeps what it found."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from evenjoin.bench.planners import main, report_of, timed, zipf_items
from evenjoin.load.items import loads
from evenjoin.strategies import LsStream


def test_it_times_greedyfit_and_whole_plans(tmp_path: Path) -> None:
    """Small: four lines on the screen and in the file, each with as many runs as asked for."""
    arguments = ["--keys", "2000", "--instances", "8", "--repeat", "3", "--out", str(tmp_path)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "planners.json").read_text())
    assert [timing["planner"] for timing in record["timings"]] == ["greedyfit", "fastjoin", "lsstream", "djb"]
    for timing in record["timings"]:
        assert timing["planner"] in result.output
        assert len(timing["ms"]) == 3
        assert timing["median_ms"] == sorted(timing["ms"])[1]
    assert "keys chosen" in result.output


def test_the_report_says_what_the_items_add_up_to() -> None:
    """Stored, probes and intake of each instance are those of the items under the table."""
    table = LsStream().initial(4, 2, "shared")
    items = zipf_items(500, table)
    report = report_of(items, table)
    units = loads(items, table)
    for load in report.instances:
        assert load.stored == tuple(int(unit.stored[load.instance]) for unit in units)
    assert sum(report.recent[-1]) == pytest.approx(2 * items.arrived.sum())
    assert np.all(items.stored > 0)


def test_a_call_is_made_as_often_as_asked() -> None:
    """The answer is the last one's."""
    calls: list[int] = []
    answer, ms = timed(lambda: calls.append(1) or len(calls), 4)
    assert (answer, len(ms)) == (4, 4)
