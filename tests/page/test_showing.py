"""Reports, tables and queries show themselves in a terminal and a notebook, and a line tells how a query is doing."""

from __future__ import annotations

import os
import re
from io import StringIO
from pathlib import Path

import pytest

from evenjoin.commit.history import read_history
from evenjoin.events import Progress, Totals
from evenjoin.page.follow import read_whole
from evenjoin.runtime.watch import progress
from evenjoin.shown import Shown
from page.crafted import SCRIPT, SHOWN, checkpoint


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(tmp_path_factory.mktemp("showing") / "ck")


def harmless(text: str) -> bool:
    return re.search(r"[\x00-\x09\x0b-\x1f\u202e]", text) is None


def test_a_load_report_shows_instances_and_keys_and_no_key_does_harm(folder: Path) -> None:
    """As text every character can be seen; as HTML the script is text."""
    report = read_history(folder).reports[-1]
    text, page = str(report), report._repr_html_()
    assert [line.split()[0] for line in text.splitlines()[3:7]] == ["0", "1", "2", "3"]
    assert f"{sum(report.instances[2].stored):,}" in text
    assert SCRIPT in text
    assert SHOWN in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script" not in page
    assert harmless(text)
    assert harmless(page)
    assert repr(report).startswith("LoadReport(batch=5")


def test_a_routing_table_shows_who_stores_how_much_of_it(folder: Path) -> None:
    """Every bucket and every key of its own is stored somewhere."""
    table = read_whole(folder).table
    assert table is not None
    shown = table.shown()
    assert shown.columns == ("instance", "buckets", "keys of their own")
    assert [row[0] for row in shown.rows] == ["0", "1", "2", "3"]
    assert sum(int(row[1]) for row in shown.rows) >= table.buckets
    assert table._repr_html_().count("<tr>") == 5
    assert "Routing table" in str(table)


def test_a_table_of_areas_shows_them() -> None:
    """Where codes are ordered there are areas in place of buckets."""
    from evenjoin.placement.ranges import Interval, Ranges
    from evenjoin.placement.table import Region, RoutingTable
    from evenjoin.placement.topology import Grid

    area = Region(Ranges(Interval(), Interval()), Grid(1, 2, (0, 1)))
    shown = RoutingTable(1, 2, 2, 0, (area,)).shown()
    assert shown.columns[1] == "areas"
    assert [row[1] for row in shown.rows] == ["1", "1"]


class Query:
    """A query of three batches, a second each, that may fail at the end."""

    def __init__(self, error: Exception | None = None) -> None:
        self.seconds, self.error = 0, error

    def awaitTermination(self, timeout: int | None = None) -> bool:
        self.seconds += 1
        if self.seconds > 3 and self.error is not None:
            raise self.error
        return self.seconds > 3

    def progress(self) -> Progress | None:
        batch = min(self.seconds, 3) - 1
        totals = Totals(2000 * batch, (1000 * batch, 500 * batch), (0, 0), (0, 0))
        counts = (batch, None, 10, (0, 0), 1.25, (1, 1), 400.0, totals)
        return None if batch < 0 else Progress(*counts, verdict="key 7\x1b is hot, " + 40 * "very ")


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_tells_each_batch_once_and_returns_when_the_query_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for each batch in a file; on a terminal one line, written over, which ends where the terminal does."""
    monkeypatch.setattr("evenjoin.runtime.watch.get_terminal_size", lambda: os.terminal_size((90, 24)))
    out, terminal = StringIO(), Terminal()
    assert progress(Query(), out=out) is True
    assert out.getvalue().splitlines() == [
        f"batch {batch}   {rows} rows in   {results} results   imbalance 1.25   400 ms a batch   "
        f"key 7\\x1b is hot, {40 * 'very '}"
        for batch, rows, results in ((0, "0", "0"), (1, "1.5k", "2k"), (2, "3k", "4k"))
    ]
    assert progress(Query(), out=terminal) is True
    assert terminal.getvalue().count("\n") == 1
    last = terminal.getvalue().rsplit("\r", 1)[1].rstrip("\n")
    assert last.startswith("batch 2   3k rows in")
    assert len(last) == 89
    assert last.endswith("…")


def test_progress_ends_with_its_time_and_with_the_error_of_the_query() -> None:
    """As awaitTermination does."""
    assert progress(Query(), timeout=2, out=StringIO()) is False
    with pytest.raises(ValueError, match="broken"):
        progress(Query(ValueError("broken")), out=StringIO())


def test_a_table_without_rows_is_its_title() -> None:
    """Nothing is drawn for what is not there yet."""
    assert Shown("EvenJoin, running", notes=("No batch is committed yet.",)).text().splitlines() == [
        "EvenJoin, running", "No batch is committed yet."
    ]  # fmt: skip
