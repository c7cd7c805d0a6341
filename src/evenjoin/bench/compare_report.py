"""What a comparison says: tables for the eye and JSON for the record.

    results/s, rows/s      over the time of all batches
    batch ms               median and 99th percentile after the first WARM batches; > where a system was stopped
    busy mean, max         busiest over mean busy time of a batch, after the first WARM batches; 1.0 is even
    own mean, last         the imbalance by the strategy's own measure, of all batches and of the last
    threshold              above which that measure calls for a plan
    migrated ... pause ms  tuples moved, rebalances, and the time the batches waited for them, in total

for three sides and more, what a strategy sends, compares and keeps (counters.py):

    messages, bytes        for each row read, copies and packs too
    packs, pairs           intermediate results made, and pairs in them
    hubs, members          packs whose hub was compared, and members compared one by one
    kept                   tuples and packs alive after the last batch, copies too
    waiting ms             of the second hop for the first, median

and where strategies size themselves, A-DSP's measures (Sec. 5.1):

    tasks mean, max        instances over the batches
    time s                 all batches: the execution time
    requests/task          tuples (copies too) that came to a task to be joined in a batch, on average
    task s, tuple s        resource cost, sum of r * t_r: tasks, and stored tuples with copies, times seconds

Not here: running anything (compare.py), and the files with pictures and boards (compare_page.py).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.table import Table

from evenjoin.bench.compare import Comparison, Run
from evenjoin.bench.report import machine
from evenjoin.console import cell, markup
from evenjoin.strategies import resolve
from evenjoin.strategies.sized import Sized

COLUMNS = (
    "", "results/s", "rows/s", "batch ms p50", "p99", "busy mean", "max", "own mean", "last", "threshold",
    "migrated", "rebalances", "pause ms",
)  # fmt: skip
SIZED_COLUMNS = (
    "", "tasks mean", "max", "time s", "rows/s", "results/s", "requests/task", "migrated", "rebalances", "pause ms",
    "task s", "tuple s",
)  # fmt: skip
SENT_COLUMNS = ("", "messages", "bytes", "packs", "pairs", "hubs", "members", "kept", "waiting ms")
MIGRATION_COLUMNS = (
    "", "batch", "why", "imbalance before", "forecast", "after", "tuples", "bytes", "pause ms", "planner ms"
)  # fmt: skip
SETTLED = 3
"""Batches in which the planners come to act: the cool-down, and one to see its effect."""


def show(comparison: Comparison, console: Console) -> None:
    """Print the table of the runs, that of the measures, and whether the counts agree."""
    console.print(_rich(*main_table(comparison)))
    if comparison.sized:
        console.print("", cell(order_of_tasks(comparison)), sep="\n")
    elif comparison.planners:
        console.print(
            f"\n[bold]Imbalance by each planner's own measure[/], against its threshold: mean (last); share of the "
            f"batches within it, after the first {SETTLED}"
        )
        rows = measure_rows(comparison, "[green]{}[/]", "[red]{}[/]", markup)
        console.print(_rich(measure_columns(comparison), rows, "markup"))
    if comparison.workload.steps:
        console.print("\n[bold]Sent, compared and kept[/], messages and bytes for each row")
        console.print(_rich(SENT_COLUMNS, sent_rows(comparison)))
    console.print(cell(agreement(comparison)), style="" if comparison.counts_agree else "bold red")


def main_table(comparison: Comparison) -> tuple[Sequence[str], list[list[str]]]:
    """The columns of a comparison and a row for each of its runs."""
    if comparison.sized:
        return SIZED_COLUMNS, [sized_cells(run) for run in comparison.runs]
    return COLUMNS, [cells(run) for run in comparison.runs]


def sent_rows(comparison: Comparison) -> list[list[str]]:
    """What each run sent, compared and kept, as the cells of SENT_COLUMNS."""
    rows = []
    for run in comparison.runs:
        if run.trace is None or not run.trace.counters:
            continue
        batches, read = run.trace.counters, max(run.outcome.rows, 1)
        total = {
            name: sum(getattr(batch, name) for batch in batches)
            for name in ("sent", "sent_bytes", "packs", "pairs", "hubs", "members")
        }
        row = [run.name, f"{total['sent'] / read:.2f}", f"{total['sent_bytes'] / read:,.0f}"]
        row += [f"{total[name]:,}" for name in ("packs", "pairs", "hubs", "members")]
        waited = statistics.median(batch.waiting_ms for batch in batches)
        rows.append([*row, f"{batches[-1].stored:,}", f"{waited:,.0f}"])
    return rows


def sized_cells(run: Run) -> list[str]:
    """One run as the cells of SIZED_COLUMNS."""
    if run.stopped:
        return [run.name, *("-" * (len(SIZED_COLUMNS) - 1))]
    speed = [f"{run.seconds:,.1f}", f"{run.outcome.rows_per_s:,.0f}", f"{run.results_per_s:,.0f}"]
    if not run.trace:
        return [run.name, "-", "-", *speed, *("-" * (len(SIZED_COLUMNS) - 6))]
    row = [run.name, f"{_mean(run.trace.tasks):.1f}", str(max(run.trace.tasks)), *speed]
    row += [f"{run.requests_per_task:,.0f}", f"{run.migrated:,}", str(len(run.migrations))]
    row += [f"{run.pause_ms:,.0f}"]
    return [*row, *(f"{run.cost(resource):,.0f}" for resource in ("tasks", "stored"))]


def order_of_tasks(comparison: Comparison) -> str:
    """Whether the matrix schemes, as they were named, take ever more tasks at every batch; and the first over the
    least."""
    runs = [run for run in comparison.runs if run.trace and isinstance(resolve(run.name), Sized)]
    runs = runs or [run for run in comparison.runs if run.trace]
    tasks = [run.trace.tasks for run in runs if run.trace]
    holds = all(a <= b for one, two in pairwise(tasks) for a, b in zip(one, two, strict=True))
    said = f"Tasks at every batch: {' <= '.join(run.name for run in runs)} {'holds' if holds else 'does not hold'}."
    least = comparison.least_tasks()
    if least:
        ratio = max(a / b for a, b in zip(tasks[0], least, strict=True))
        said += f" {runs[0].name} takes at most {ratio:.2f} times the fewest tasks that could hold each tuple once."
    return said


def cells(run: Run) -> list[str]:
    """One run as the cells of COLUMNS; what a system does not know is a dash."""
    if run.stopped:
        return [run.name, "-", "-", f"> {run.batch_ms(50):,.0f}", *("-" * (len(COLUMNS) - 4))]
    row = [run.name, f"{run.results_per_s:,.0f}", f"{run.outcome.rows_per_s:,.0f}"]
    row += [f"{run.batch_ms(50):,.0f}", f"{run.batch_ms(99):,.0f}"]
    if not run.trace or not run.own:
        return [*row, *("-" * (len(COLUMNS) - len(row)))]
    row += [f"{_mean(run.busy):.2f}", f"{max(run.busy):.2f}", f"{_mean(run.own):.2f}", f"{run.own[-1]:.2f}"]
    row.append("-" if run.threshold is None else f"{run.threshold:g}")
    return [*row, f"{run.migrated:,}", str(len(run.migrations)), f"{run.pause_ms:,.0f}"]


def measure_columns(comparison: Comparison) -> list[str]:
    return ["", *(f"{name} (<= {threshold:g})" for name, threshold in comparison.planners.items())]


def measure_rows(
    comparison: Comparison, within: str, over: str, clean: Callable[[str], str]
) -> list[list[str]]:  # fmt: skip
    """Each run by each planner's measure: mean (last); batches within. The last value chooses the format. A dash where
    the measure cannot be asked of the run."""
    rows = []
    for run in comparison.runs:
        if run.trace is None:
            continue
        row = [clean(run.name)]
        for name, threshold in comparison.planners.items():
            values = [value for value in run.trace.measures[name] if not math.isnan(value)]
            if not values:
                row.append("-")
                continue
            share = _mean([value <= threshold for value in values[SETTLED:] or values])
            text = clean(f"{_mean(values):,.2f} ({values[-1]:,.2f}); {share:.0%}")
            row.append((within if values[-1] <= threshold else over).format(text))
        rows.append(row)
    return rows


def migration_rows(comparison: Comparison) -> list[list[str]]:
    """Every migration of every run, as the cells of MIGRATION_COLUMNS."""
    rows = []
    for run in comparison.runs:
        for event in run.migrations:
            imbalances = (event.imbalance_before, event.imbalance_forecast, event.imbalance_after)
            row = [run.name, str(event.batch), event.why, *(_number(value, 2) for value in imbalances)]
            row += [_number(value, 0) for value in (event.tuples, event.bytes, event.pause_ms)]
            rows.append([*row, _number(event.planner_ms, 1)])
    return rows


def agreement(comparison: Comparison) -> str:
    """Whether all systems agree, in a sentence."""
    oracle = comparison.oracle
    if comparison.counts_agree:
        stopped = "".join(f" {run.name} was stopped." for run in comparison.runs if run.stopped)
        return f"All agree with DuckDB's batch join: {oracle.rows:,} rows, {oracle.results:,} results.{stopped}"
    found = ", ".join(f"{run.name} {run.outcome.rows:,} / {run.outcome.results:,}" for run in comparison.runs)
    return f"The counts do not agree: DuckDB {oracle.rows:,} rows / {oracle.results:,} results, {found}"


def as_document(comparison: Comparison) -> dict[str, Any]:
    """All of it as plain values; a figure that does not exist is null."""
    document = {
        "workload": asdict(comparison.workload),
        "instances": comparison.instances,
        "counts_agree": comparison.counts_agree,
        "thresholds": comparison.planners,
        "machine": machine(),
        "oracle": asdict(comparison.oracle),
        "runs": [_run_document(run) for run in comparison.runs],
    }
    finite: dict[str, Any] = _finite(document)
    return finite


def _run_document(run: Run) -> dict[str, Any]:
    document = asdict(replace(run, past=None))
    del document["past"]
    document["results_per_s"], document["rows_per_s"] = run.results_per_s, run.outcome.rows_per_s
    document["batch_ms_p50"], document["batch_ms_p99"] = run.batch_ms(50), run.batch_ms(99)
    if run.trace:
        document |= {"busy_mean": _mean(run.busy), "busy_max": max(run.busy, default=None)}
        document |= {"own_mean": _mean(run.own), "own_last": run.own[-1] if run.own else None}
        document["trace"]["migrations"] = [event.to_json() for event in run.migrations]
        document |= {"migrated": run.migrated, "rebalances": len(run.migrations), "pause_ms": run.pause_ms}
        document |= {"requests_per_task": run.requests_per_task, "seconds": run.seconds}
        document |= {f"{resource}_cost": run.cost(resource) for resource in ("tasks", "stored")}
    return document


def _finite(value: Any) -> Any:
    """The same values with null for what JSON cannot say."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _rich(columns: Sequence[str], rows: Sequence[Sequence[str]], text: Literal["plain", "markup"] = "plain") -> Table:
    """A table for the terminal; cells of `markup` are markup already."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for number, column in enumerate(columns):
        table.add_column(cell(column), justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(cell(item) if text == "plain" else item for item in row))
    return table
