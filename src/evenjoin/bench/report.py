"""What a bench run says: a table for the eye and a JSON file for the record.

A report holds the outcomes of one workload. Its ratio is ours over the better of the peers', in the workload's measure:

    rows/s     ours / peer      larger is better, met when ratio >= target
    batch ms   ours / peer      smaller is better, met when ratio <= target    (median after the first two batches)

Not here: running anything.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.table import Table

from evenjoin.bench.jobs import Outcome
from evenjoin.bench.session import cores
from evenjoin.bench.workloads import ZipfStreams


@dataclass(frozen=True, slots=True)
class Report:
    """The outcomes of every system on one workload."""

    name: str
    streams: ZipfStreams
    measure: Literal["rows/s", "batch ms"]
    target: float
    scale: float
    outcomes: tuple[Outcome, ...]

    @property
    def counts_agree(self) -> bool:
        """Whether every system read the same rows and found the same number of results."""
        return len({(outcome.rows, outcome.results) for outcome in self.outcomes}) <= 1

    @property
    def ours(self) -> Outcome | None:
        """EvenJoin's outcome, if it ran."""
        return next((outcome for outcome in self.outcomes if outcome.system == "evenjoin"), None)

    @property
    def peer(self) -> Outcome | None:
        """The better of Spark's two providers as they come, if they ran, or of its rewrite of a band."""
        those = ("spark-hdfs", "spark-rocksdb", "spark-bucketed")
        peers = [outcome for outcome in self.outcomes if outcome.system in those]
        return min(peers, key=self._cost, default=None)

    @property
    def ratio(self) -> float | None:
        """Ours over the better peer's, in the workload's measure."""
        return self.ratio_to(self.peer)

    def ratio_to(self, other: Outcome | None) -> float | None:
        """Ours over another's, in the workload's measure."""
        if self.ours is None or other is None:
            return None
        if self.measure == "rows/s":
            return self.ours.rows_per_s / other.rows_per_s
        return self.ours.median_ms() / other.median_ms()

    @property
    def met(self) -> bool | None:
        """Whether the ratio keeps the promise."""
        if self.ratio is None:
            return None
        return self.ratio >= self.target if self.measure == "rows/s" else self.ratio <= self.target

    def _cost(self, outcome: Outcome) -> float:
        return -outcome.rows_per_s if self.measure == "rows/s" else outcome.median_ms()


def save(report: Report, path: Path) -> None:
    """Write the report, with what it was measured on, as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    outcomes = [
        {
            **asdict(outcome),
            "rows_per_s": outcome.rows_per_s,
            "median_batch_ms": outcome.median_ms(),
            "ratio_to": report.ratio_to(outcome),
        }
        for outcome in report.outcomes
    ]
    record: dict[str, Any] = {
        "workload": report.name,
        "streams": asdict(report.streams),
        "scale": report.scale,
        "measure": report.measure,
        "target": report.target,
        "ratio": report.ratio,
        "met": report.met,
        "counts_agree": report.counts_agree,
        "machine": machine(),
        "outcomes": outcomes,
    }
    path.write_text(json.dumps(record, indent=2) + "\n")


def machine() -> dict[str, str | int]:
    """Where and with what it was measured."""
    found: dict[str, str | int] = {"cores": cores(), "system": platform.platform(), "python": platform.python_version()}
    for package in ("evenjoin", "pyspark", "pyarrow", "numpy", "duckdb"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def show(reports: Sequence[Report], console: Console) -> None:
    """Print one row per system and workload, with the ratio on our row."""
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0))
    for column in ("", "system", "results", "rows/s", "batch ms", "wall s", "CPU s", "ratio", "target"):
        table.add_column(column, justify="left" if column in ("", "system") else "right", no_wrap=True)
    for report in reports:
        for outcome in report.outcomes:
            table.add_row(*_row(report, outcome))
        table.add_section()
    console.print(table)
    for report in reports:
        if not report.counts_agree:
            console.print(f"[bold red]{report.name}: the systems do not agree on the number of results[/]")


def _row(report: Report, outcome: Outcome) -> list[str]:
    cells = [report.name, outcome.system, f"{outcome.results:,}", f"{outcome.rows_per_s:,.0f}"]
    cells += [
        f"{outcome.median_ms():,.0f}" if outcome.batch_ms else "-",
        f"{outcome.used.wall_s:.1f}",
        f"{outcome.used.cpu_s:.1f}",
    ]
    if outcome.system != "evenjoin" or report.ratio is None:
        to_this = report.ratio_to(outcome)
        note = "" if to_this is None else f"we are {to_this:.2f}x"
        return [*cells, note, "the better" if outcome is report.peer else ""]
    colour = "green" if report.met else "red"
    sign = ">=" if report.measure == "rows/s" else "<="
    return [*cells, f"[{colour}]{report.ratio:.2f}x[/] {report.measure}", f"{sign} {report.target:g}x"]
