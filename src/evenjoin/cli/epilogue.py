"""The end of the demo: the verdict, what the strategy did and why, where things lie, and what to type next.

All of it follows from the lanes' own commits and output. The verdict says who was faster whichever it was.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax

from evenjoin.bench.ride_hailing import Day, cell_name
from evenjoin.cli.draw import keys_table
from evenjoin.cli.history import heaviest
from evenjoin.cli.lanes import Lane
from evenjoin.cli.side_by_side import told
from evenjoin.console import cell, markup
from evenjoin.errors import EvenJoinError

ALIKE = 0.03
"""Times that differ by less than this part are called the same."""


def tell(day: Day, lanes: tuple[Lane, Lane], program: str, console: Console) -> None:
    """Everything there is to say."""
    usual, other = lanes
    results = compared(usual, other)
    console.print()
    console.print(f"[bold]Verdict[/]  {markup(verdict(usual, other))}", highlight=False)
    console.print(f"         Both gave the same {results:,} results, compared row by row.", highlight=False)
    console.print(f"\n[bold]What {markup(other.strategy)} did[/]", highlight=False)
    for line in [line for change in other.changes for line in told(change, day)] or [
        cell(f"nothing: {other.slices[-1].verdict or 'it never does'}")
    ]:
        console.print(Padding(line, (0, 0, 0, 2)))
    reports = [commit.report for one in other.slices for commit in one.commits if commit.report is not None]
    keys = heaviest(reports, 4)
    console.print("\n[bold]Hottest cells[/]")
    console.print(keys_table("cell", ("orders", "tracks"), keys, [cell_name(int(key.name)) for key in keys]))
    console.print("\n[bold]Output and checkpoints[/]")
    for lane in lanes:
        for name in ("joined", "checkpoint"):
            console.print(f"  {markup(lane.path(name))}", soft_wrap=True, highlight=False)
    console.print("\n[bold]What to type next[/]")
    console.print(
        f"  evenjoin inspect {markup(other.path('checkpoint'))} --migrations", soft_wrap=True, highlight=False
    )
    console.print(f"  evenjoin compare zipf1.0 --strategies hash,{markup(other.strategy)}", highlight=False)
    console.print("\n[bold]The same in three lines[/], with your own streaming DataFrames orders and tracks:")
    console.print(Syntax(program, "python", background_color="default"))


def verdict(usual: Lane, other: Lane) -> str:
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
    return f"{who}: {spent}. Batch times over {usual.strategy}'s: p50 {p50:.2f}, p90 {p90:.2f}."


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
