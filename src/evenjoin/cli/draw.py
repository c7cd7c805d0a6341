"""Bars, tables and numbers for the terminal: values in, rich renderables out."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from evenjoin.commit.history import InstanceTotal, KeyTotal
from evenjoin.console import cell
from evenjoin.events import Migration
from evenjoin.shown import number as number
from evenjoin.shown import size as size

BAR = 20


def bar(value: float, top: float, width: int = BAR) -> str:
    """A bar of at most ``width`` cells, in eighths; the full width stands for ``top``."""
    if top <= 0 or value <= 0:
        return ""
    eighths = max(1, round(min(value / top, 1.0) * width * 8))
    return "█" * (eighths // 8) + ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8]


def spark_line(values: Sequence[float], top: float) -> str:
    """One character for each value, as high as it is; the full height stands for ``top``."""
    steps = "▁▂▃▄▅▆▇█"
    return "".join(
        steps[min(int(value / top * len(steps)), len(steps) - 1)] if top > 0 else steps[0] for value in values
    )


def plain_table(*columns: str) -> Table:
    """A light table: the first column to the left, numbers to the right."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for place, column in enumerate(columns):
        table.add_column(cell(column), justify="left" if place == 0 else "right", no_wrap=True)
    return table


def instances_table(totals: Sequence[InstanceTotal]) -> Table:
    """What each instance did (the bar: probes and results) and what it holds."""
    table = plain_table("instance", "probes", "results", "", "busy", "stored", "state")
    table.columns[3].justify = "left"
    top = max((total.work for total in totals), default=0)
    for total in totals:
        table.add_row(
            str(total.instance),
            f"{total.probes:,}",
            f"{total.results:,}",
            f"[cyan]{bar(total.work, top)}[/]",
            f"{total.busy_ms / 1000:.1f} s",
            f"{sum(total.stored):,}",
            size(total.bytes),
        )
    return table


def keys_table(title: str, aliases: Sequence[str], keys: Sequence[KeyTotal], names: Sequence[str]) -> Table:
    """The heaviest keys under the given names, with their share of all arrivals. `pairs` are those that fit by key and
    time, also if a further predicate sorts them out."""
    table = plain_table(title, *aliases, "share", "pairs", "")
    table.columns[-1].justify = "left"
    top = max((key.results for key in keys), default=0)
    for key, name in zip(keys, names, strict=True):
        counts = [*(f"{count:,}" for count in key.arrived), f"{key.share:.1%}", f"{key.results:,}"]
        table.add_row(cell(name), *counts, f"[magenta]{bar(key.results, top, BAR // 2)}[/]")
    return table


def migrations_table(events: Sequence[Migration]) -> Table:
    """One line per rebalance: why, what it was to bring and brought, what moved, what it cost. Dashes: not planned."""
    table = plain_table("batch", "why", "before", "forecast", "after", "tuples", "bytes", "pause ms", "planner ms")
    for event in events:
        table.add_row(
            str(event.batch),
            cell(event.why),
            number(event.imbalance_before, 2),
            number(event.imbalance_forecast, 2),
            number(event.imbalance_after, 2),
            number(event.tuples, 0),
            size(event.bytes),
            number(event.pause_ms, 1),
            number(event.planner_ms, 1),
        )
    return table


def progress(console: Console) -> Progress:
    """A bar per phase; it leaves nothing behind."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description:16}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[note]}[/]"),
        console=console,
        transient=True,
    )


def imbalance(values: Sequence[float]) -> float:
    """The largest over the mean: 1.0 is even."""
    return max(values) * len(values) / sum(values) if values and sum(values) > 0 else 1.0
