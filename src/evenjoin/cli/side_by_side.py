"""The live view of two lanes: what is being joined, and for each lane the last slice, the slices so far, and why the
strategy did what it did.

    Ride-hailing, a day with a festival  14:00-16:00  slice 8 of 12        hash is joining  0:31
    hash                                       auto
    batch         2,310 ms ▁▁▁▂▁▁▃█            batch         1,240 ms ▁▁▁▂▁▁▃▅
    busiest/mean      3.41 ▂▂▂▂▂▂▆█            busiest/mean      1.08 ▂▂▂▂▂▂▆▁
      task 0         31 ms ▎                     task 0        410 ms ██▋
      ...                                        ...

Both lanes share their scales, so bars and lines may be compared; slices that warm up do not set them, and are dim.
Values in, renderables out; only the clock of `Scene` is not. Not here: what the values are (lanes.py).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from evenjoin.bench.ride_hailing import Day, cell_name
from evenjoin.cli.draw import bar, spark_line
from evenjoin.cli.lanes import WARMING, Change, Lane
from evenjoin.console import cell

EVEN = 1.0
TASK_BAR = 12
TASKS = 8
"""How many tasks are shown: the longest of the last slice."""
LINE = 12
"""How many of the last slices a line shows."""
CHANGES = 3
"""How many of the last changes are shown."""


@dataclass(slots=True)
class Scene:
    """What is being done right now. `doing` is nothing once all is done."""

    day: Day
    instances: int
    cores: int
    doing: str = "writing the day"
    number: int | None = None
    started: float = field(default_factory=time.monotonic)
    seconds: float | None = None

    def begin(self, number: int, lane: Lane) -> None:
        self.number, self.doing = number, f"{lane.strategy} is joining"

    def end(self) -> None:
        self.doing, self.seconds = "", time.monotonic() - self.started

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started if self.seconds is None else self.seconds


def panes(scene: Scene, lanes: Sequence[Lane]) -> RenderableType:
    """The whole view."""
    sides = Table.grid(expand=True, padding=(0, 1))
    for _ in lanes:
        sides.add_column(ratio=1)
    sides.add_row(*(pane(lane, lanes, scene) for lane in lanes))
    return Group(headline(scene), *hot_line(lanes[0]), sides, *(why(lane, scene.day) for lane in lanes if lane.slices))


def headline(scene: Scene) -> Table:
    """What is joined, how far the day is, and for how long we are at it."""
    row = Table.grid(expand=True, padding=(0, 2))
    row.add_column()
    row.add_column(justify="right")
    about = Text.assemble(("Ride-hailing, a day with a festival", "bold"))
    if scene.number is not None:
        about.append(f"  {hours(scene.day, scene.number)}  slice {scene.number + 1} of {scene.day.batches}")
    clock = f"{int(scene.elapsed) // 60}:{int(scene.elapsed) % 60:02d}"
    busy = Spinner("dots", Text(f"{scene.doing}  {clock}"), style="cyan") if scene.doing else Text(f"done  {clock}")
    row.add_row(about, busy)
    return row


def hot_line(usual: Lane) -> list[Text]:
    """The cell with the most rows and pairs in the last slice, and its part of the rows. It is asked of a lane that
    divides no key: there each row is counted once."""
    if not usual.slices or not usual.slices[-1].report.heavy:
        return []
    report = usual.slices[-1].report
    key, rows = report.heavy[0], sum(side.rows for side in report.intake)
    part = f"{sum(key.arrived) / max(rows, 1):.0%} of {rows:,} orders and tracks"
    return [Text.assemble("hottest cell: ", (cell_name(int(key.name)), "bold"), f", {part}")]


def pane(lane: Lane, lanes: Sequence[Lane], scene: Scene) -> Panel:
    """One lane: the last slice in figures, all slices as lines, and a bar for each task."""
    rows = Table.grid(padding=(0, 1))
    rows.add_column(no_wrap=True)
    rows.add_column(justify="right", no_wrap=True)
    rows.add_column(no_wrap=True)
    last = lane.slices[-1] if lane.slices else None
    slowest = max((one.took_ms for each in lanes for one in each.warm), default=0.0)
    busiest = max((task for each in lanes for one in each.slices[-1:] for task in one.tasks_ms), default=0.0)
    rows.add_row("batch", _ms(last.took_ms) if last else "-", _line([s.took_ms for s in lane.slices], slowest, "cyan"))
    uneven, most = [one.imbalance - EVEN for one in lane.slices], max(scene.instances - EVEN, EVEN)
    rows.add_row("busiest/mean", f"{last.imbalance:.2f}" if last else "-", _line(uneven, most, "magenta"))
    tasks = last.tasks_ms if last else [0.0] * scene.instances
    for instance in sorted(sorted(range(len(tasks)), key=lambda task: -tasks[task])[:TASKS]):
        shown = bar(tasks[instance], busiest, TASK_BAR)
        rows.add_row(f"  task {instance}", _ms(tasks[instance]) if last else "-", Text(shown, "green"))
    rows.add_row("all warm", _ms(sum(one.took_ms for one in lane.slices[WARMING:])))
    rows.add_row("results", f"{sum(one.results for one in lane.slices):,}")
    return Panel(rows, title=cell(lane.strategy), title_align="left", padding=(0, 1))


def why(lane: Lane, day: Day) -> RenderableType:
    """The last changes of a lane and its last verdict; nothing for a strategy that never changes its mind."""
    lines = [told(change, day) for change in lane.changes[-CHANGES:]]
    last = lane.slices[-1]
    if last.verdict:
        lines.append(Text.assemble((f"{hours(day, len(lane.slices) - 1)}  ", "dim"), cell(last.verdict)))
    return Group(*lines)


def told(change: Change, day: Day) -> Text:
    """A change: when, why, and what it moved."""
    moved = f"moved {change.migration.tuples:,} tuples, {change.migration.pause_ms:,.0f} ms"
    begins = hours(day, change.slice).partition("-")[0]
    return Text.assemble((f"{begins}  ", "bold yellow"), cell(change.why), (f"; {moved}", "yellow"))


def hours(day: Day, number: int) -> str:
    """The hours of the day that a slice covers."""
    minutes = [24 * 60 * at // day.batches for at in (number, number + 1)]
    return "-".join(f"{minute // 60:02d}:{minute % 60:02d}" for minute in minutes)


def _line(values: Sequence[float], top: float, style: str) -> Text:
    """The last values as a line; those of slices that warm up are dim."""
    cold = max(0, WARMING - max(0, len(values) - LINE))
    drawn = spark_line(values[-LINE:], top)
    return Text.assemble((drawn[:cold], "dim"), (drawn[cold:], style))


def _ms(value: float) -> str:
    return f"{value:,.0f} ms"
