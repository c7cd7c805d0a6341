"""What a bench run says: a table for the eye and a JSON file for the record.

A report holds the outcomes of one workload. Its ratios are ours over the better of the peers', in the workload's
measure; ours are one for each place that batches ran in:

    rows/s     ours / peer      larger is better, met when ratio >= target     over all batches, the cold ones too
    batch ms   ours / peer      smaller is better, met when ratio <= target    the median after the first two batches

Beside the ratio of rows/s stands the steady one, of the median batches.

Not here: running anything.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
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
    targets: Mapping[str, float | None]
    scale: float
    outcomes: tuple[Outcome, ...]

    @property
    def counts_agree(self) -> bool:
        """Whether every system read the same rows and found the same results, as far as they were written; else the
        same number of them."""
        return len({(outcome.rows, outcome.results, outcome.digest) for outcome in self.outcomes}) <= 1

    @property
    def ours(self) -> tuple[Outcome, ...]:
        """EvenJoin's outcomes, as far as it ran."""
        return tuple(outcome for outcome in self.outcomes if outcome.system in self.targets)

    @property
    def peer(self) -> Outcome | None:
        """The better of Spark's two providers as they come, if they ran, or of its rewrite of a band."""
        those = ("spark-hdfs", "spark-rocksdb", "spark-bucketed")
        peers = [outcome for outcome in self.outcomes if outcome.system in those]
        return min(peers, key=self._cost, default=None)

    def ratio(self, ours: Outcome) -> float | None:
        """An outcome of ours over the better peer's, in the workload's measure."""
        if self.peer is None:
            return None
        if self.measure == "rows/s":
            return ours.rows_per_s / self.peer.rows_per_s
        return ours.median_ms() / self.peer.median_ms()

    def steady(self, ours: Outcome) -> float | None:
        """How many times as fast as the better peer we are in the median batch after the first two."""
        return None if self.peer is None else self.peer.median_ms() / ours.median_ms()

    def met(self, ours: Outcome) -> bool | None:
        """Whether the ratio keeps the promise. None: there is none, or no peer."""
        ratio, target = self.ratio(ours), self.targets[ours.system]
        if ratio is None or target is None:
            return None
        return ratio >= target if self.measure == "rows/s" else ratio <= target

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
            **(
                {"ratio": report.ratio(outcome), "steady": report.steady(outcome), "met": report.met(outcome)}
                if outcome in report.ours
                else {}
            ),
        }
        for outcome in report.outcomes
    ]
    record: dict[str, Any] = {
        "workload": report.name,
        "streams": asdict(report.streams),
        "scale": report.scale,
        "measure": report.measure,
        "targets": dict(report.targets),
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
    """Print one row per system and workload, with the ratio on our rows."""
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0))
    for column in (
        "", "system", "results", "rows/s", "first ms", "batch ms", "CPU s", "peak MB", "ratio", "steady", "target",
    ):  # fmt: skip
        table.add_column(column, justify="left" if column in ("", "system") else "right", no_wrap=True)
    for report in reports:
        for outcome in report.outcomes:
            table.add_row(*_row(report, outcome))
        table.add_section()
    console.print(table)
    for report in reports:
        if not report.counts_agree:
            console.print(f"[bold red]{report.name}: the systems do not agree on the results[/]")


def _row(report: Report, outcome: Outcome) -> list[str]:
    cells = [report.name, outcome.system, f"{outcome.results:,}", f"{outcome.rows_per_s:,.0f}"]
    cells += [
        f"{outcome.batch_ms[0]:,.0f}" if outcome.batch_ms else "-",
        f"{outcome.median_ms():,.0f}" if outcome.batch_ms else "-",
        f"{outcome.used.cpu_s:.1f}",
        f"{outcome.used.peak_mb:,.0f}",
    ]
    ratio, steady = (report.ratio(outcome), report.steady(outcome)) if outcome in report.ours else (None, None)
    if ratio is None or steady is None:
        return [*cells, "", "", "the better" if outcome is report.peer else ""]
    target, sign = report.targets[outcome.system], ">=" if report.measure == "rows/s" else "<="
    colour = {True: "green", False: "red", None: "default"}[report.met(outcome)]
    promised = "" if target is None else f"{sign} {target:g}x {report.measure}"
    return [*cells, f"[{colour}]{ratio:.2f}x[/]", f"{steady:.2f}x", promised]
