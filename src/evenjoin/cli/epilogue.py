"""The end of the demo: the verdict, what the strategy did and why, where things lie, and what to type next.

All of it follows from the lanes' own commits and output. The verdict says who was faster whichever it was.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from evenjoin.bench.ride_hailing import Day, cell_name
from evenjoin.cli.draw import keys_table
from evenjoin.cli.lanes import Lane
from evenjoin.cli.side_by_side import told
from evenjoin.commit.history import heaviest
from evenjoin.console import cell, markup
from evenjoin.errors import EvenJoinError
from evenjoin.load.cost import makespan

INDENT = (0, 0, 0, 2)
ALIKE = 0.03
"""Times that differ by less than this part are called the same."""


@dataclass(frozen=True, slots=True)
class Told:
    """What there is to tell: the day, the lanes after it (the usual strategy first), the program that a user would
    write, and the machine: its cores, and how many processes wanted one before the demo began."""

    day: Day
    lanes: tuple[Lane, Lane]
    program: str
    cores: int
    load: float


def tell(all_: Told, console: Console) -> None:
    """Everything there is to say."""
    usual, other = all_.lanes
    results = compared(usual, other)
    console.print("\n[bold]Verdict[/]")
    lines = [*verdict(usual, other), f"Both gave the same {results:,} results, compared row by row."]
    if all_.load > all_.cores / 2:
        lines.append(disturbed(all_))
    for line in lines:
        console.print(Padding(cell(line), INDENT))
    console.print(f"\n[bold]What {markup(other.strategy)} did[/]", highlight=False)
    for done in changes(other, all_.day):
        console.print(Padding(done, INDENT))
    console.print("\n[bold]Hottest cells[/]")
    keys = heaviest([commit.report for one in usual.slices for commit in one.commits if commit.report is not None], 4)
    names = [cell_name(int(key.name)) for key in keys]
    console.print(Padding(keys_table("cell", ("orders", "tracks"), keys, names), INDENT))
    console.print("\n[bold]Output and checkpoints[/]")
    for lane in all_.lanes:
        for name in ("joined", "checkpoint"):
            console.print(f"  {markup(lane.path(name))}", soft_wrap=True, highlight=False)
    _report(other, console)
    console.print("\n[bold]What to type next[/]")
    for command in (
        f"ui {markup(shlex.quote(other.path('checkpoint')))}",
        f"inspect {markup(shlex.quote(other.path('checkpoint')))} --migrations",
        f"compare zipf1.0 --strategies {markup(shlex.quote(f'{usual.strategy},{other.strategy}'))}",
    ):
        console.print(f"  evenjoin {command}", soft_wrap=True, highlight=False)
    console.print("\n[bold]The same in three lines[/], with your own streaming DataFrames orders and tracks")
    console.print(Padding(Syntax(all_.program, "python", background_color="default"), INDENT))


def _report(lane: Lane, console: Console) -> None:
    """Write the report of a lane beside its checkpoint, and say where it is; without Bokeh, what it needs."""
    if find_spec("bokeh") is None:
        console.print("  no report: it needs bokeh (pip install 'evenjoin\\[ui]')", highlight=False)
        return
    from evenjoin.page.report import write_report

    path = write_report(lane.path("checkpoint"), lane.folder / "report.html")
    console.print("\n[bold]Report[/], one file to open in a browser; `evenjoin ui` below shows the same live")
    console.print(f"  {markup(path)}", soft_wrap=True, highlight=False)


def changes(lane: Lane, day: Day) -> list[Text]:
    """Every change of a lane and why; or why there is none."""
    found = [told(change, day) for change in lane.changes]
    return found or [cell(f"nothing: {lane.slices[-1].verdict or 'it never changes its table'}")]


def disturbed(all_: Told) -> str:
    """That others used the processors, and what the tasks come to by their own processor time, which others do not
    change: the longest that a core of this machine would have had, batch by batch."""
    theirs, ours = (
        sum(makespan(np.array([load.busy_ms for load in one.report.instances]), all_.cores) for one in lane.warm)
        for lane in all_.lanes
    )
    usual, other = (lane.strategy for lane in all_.lanes)
    return (
        f"Other programs were running (load {all_.load:.1f} on {all_.cores} cores), so times say little. By processor "
        f"time alone the join tasks take {ours / 1000:.1f} s under {other} and {theirs / 1000:.1f} s under {usual}."
    )


def verdict(usual: Lane, other: Lane) -> list[str]:
    """Who took how long, over the slices that count, and how batches compare at the median and near the worst."""
    theirs, ours = (np.array([one.took_ms for one in lane.warm]) for lane in (usual, other))
    whole = float(ours.sum() / theirs.sum())
    after = " after warming up" if len(usual.warm) < len(usual.slices) else ""
    spent = f"{ours.sum() / 1000:.1f} s against {theirs.sum() / 1000:.1f} s for {len(ours)} batches{after}"
    p50, p90 = (np.percentile(ours, q) / np.percentile(theirs, q) for q in (50, 90))
    if abs(whole - 1) <= ALIKE:
        who = f"{other.strategy} and {usual.strategy} took the same time"
    else:
        who = f"{other.strategy} took {abs(1 - whole):.0%} {'less' if whole < 1 else 'more'} time than {usual.strategy}"
    batches = f"A batch of {other.strategy} over one of {usual.strategy}: p50 {p50:.2f}, p90 {p90:.2f}"
    return [f"{who}: {spent}.", f"{batches}; the worst {ours.max() / theirs.max():.2f}."]


def compared(usual: Lane, other: Lane) -> int:
    """How many results both lanes gave. EvenJoinError if they are not the same rows."""
    one, two = (results_of(lane) for lane in (usual, other))
    if not one.equals(two):
        raise EvenJoinError(
            f"{usual.strategy} and {other.strategy} gave different results: compare {usual.path('joined')} with "
            f"{other.path('joined')}"
        )
    return int(one.num_rows)


def results_of(lane: Lane) -> pa.Table:
    """The rows that a lane wrote, in an order of their own."""
    rows = ds.dataset(lane.path("joined"), format="parquet").to_table()
    return rows.sort_by([(name, "ascending") for name in rows.column_names]).combine_chunks()
