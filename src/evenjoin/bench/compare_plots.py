"""The figures of a comparison, as PNG bytes: values in, pictures out. matplotlib is loaded only here.

imbalance        busiest over mean busy time, over the batches
batch-time       milliseconds a batch took, over the batches; a mark where a migration paused it
load             busy time of each instance over the whole run, as bars
own-imbalance    one panel per planner: its measure, asked of every run, and its threshold
tasks            where strategies size themselves: tasks over the batches, and the fewest that could do (1-DSP)
migrated         there too: tuples moved, added up over the batches

`panels_plot` draws the batch times of several comparisons, a panel each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evenjoin.bench.compare import WARM, Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#555555", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DPI = 110
LINEAR_UP_TO = 4.0


def plots(comparison: Comparison) -> dict[str, bytes]:
    """Every figure of a comparison by name, as PNG."""
    figures = {
        "imbalance": imbalance_plot(comparison),
        "batch-time": batch_time_plot(comparison),
        "load": load_plot(comparison),
    }
    if comparison.sized:
        figures = {"tasks": tasks_plot(comparison), "migrated": migrated_plot(comparison), **figures}
    elif comparison.planners:
        figures["own-imbalance"] = own_imbalance_plot(comparison)
    return {name: png(figure) for name, figure in figures.items()}


def imbalance_plot(comparison: Comparison) -> Figure:
    """Busiest over mean busy time of every batch."""
    figure, (axes,) = _figure(1)
    for number, run in enumerate(comparison.runs):
        if run.trace:
            axes.plot(run.trace.busy, color=_colour(number), label=run.name, marker=".")
    axes.axhline(1.0, color="black", linewidth=0.6, linestyle=":")
    _label(axes, "Imbalance of busy time", "batch", "busiest / mean")
    return figure


def batch_time_plot(comparison: Comparison) -> Figure:
    """How long each batch took, on a scale where a slow peer does not flatten the rest."""
    figure, (axes,) = _figure(1)
    for number, run in enumerate(comparison.runs):
        ms = run.outcome.batch_ms
        axes.plot(ms, color=_colour(number), label=run.name + (" (more: stopped)" if run.stopped else ""), marker=".")
        at = [event.batch for event in run.migrations if event.batch < len(ms)]
        axes.plot(at, [ms[batch] for batch in at], "v", color=_colour(number), markersize=9)
    _log_if_wide(axes)
    _label(axes, "Batch time (triangles: with a migration)", "batch", "ms")
    return figure


class Panel(NamedTuple):
    """The batch times of one comparison: of each run its name, the milliseconds of its batches, and of each migration
    the batch that it came before and the tuples that it moved."""

    title: str
    runs: Sequence[tuple[str, Sequence[float], Sequence[tuple[int, int]]]]

    @classmethod
    def of(cls, comparison: Comparison) -> Panel:
        runs = comparison.runs
        moves = [[(event.batch, event.tuples) for event in run.migrations] for run in runs]
        times = [run.outcome.batch_ms for run in runs]
        return cls(comparison.workload.name, list(zip([run.name for run in runs], times, moves, strict=True)))

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Panel:
        """The panel of a comparison that was saved (compare_report.py)."""
        runs = document["runs"]
        moves = [[(event["batch"], event["tuples"]) for event in run["trace"]["migrations"]] for run in runs]
        times = [run["outcome"]["batch_ms"] for run in runs]
        return cls(document["workload"]["name"], list(zip([run["name"] for run in runs], times, moves, strict=True)))


def panels_plot(panels: Sequence[Panel], across: int = 3) -> Figure:
    """Batch times of several comparisons, without the first WARM batches; a triangle and a number where tuples moved
    before a batch. A name has the same colour in all panels."""
    names = dict.fromkeys(name for panel in panels for name, _, _ in panel.runs)
    colours = {name: _colour(number) for number, name in enumerate(names)}
    figure, every = _figure(min(across, len(panels)), -(-len(panels) // across))
    for axes, panel in zip(every, panels, strict=False):
        for name, ms, moves in panel.runs:
            axes.plot(range(WARM, len(ms)), ms[WARM:], color=colours[name], label=name, marker=".")
            for batch, tuples in moves:
                if WARM <= batch < len(ms):
                    axes.plot(batch, ms[batch], "v", color=colours[name], markersize=9)
                    axes.annotate(f"{tuples:,}", (batch, ms[batch]), (4, 6), textcoords="offset points", fontsize=7)
        axes.set_ylim(bottom=0)
        _label(axes, panel.title, "batch", "ms")
    for axes in every[len(panels) :]:
        axes.set_visible(False)
    return figure


def load_plot(comparison: Comparison) -> Figure:
    """Busy time of each instance over the whole run."""
    figure, (axes,) = _figure(1)
    runs = [(number, run) for number, run in enumerate(comparison.runs) if run.trace]
    width = 0.8 / max(len(runs), 1)
    for place, (number, run) in enumerate(runs):
        busy = np.array(run.trace.busy_ms_by_instance if run.trace else ()) / 1000
        at = np.arange(len(busy)) + (place - (len(runs) - 1) / 2) * width
        axes.bar(at, busy, width, color=_colour(number), label=run.name)
    _label(axes, "Load per instance", "instance", "busy s")
    return figure


def tasks_plot(comparison: Comparison) -> Figure:
    """The number of tasks of every batch."""
    figure, (axes,) = _figure(1)
    for number, run in enumerate(comparison.runs):
        if run.trace:
            axes.step(range(len(run.trace.tasks)), run.trace.tasks, where="mid", color=_colour(number), label=run.name)
    least = comparison.least_tasks()
    if least:
        axes.step(range(len(least)), least, where="mid", color="black", linestyle=":", label="fewest for one copy each")
    _log_if_wide(axes)
    _label(axes, "Tasks", "batch", "tasks")
    return figure


def migrated_plot(comparison: Comparison) -> Figure:
    """Tuples moved so far, by the batches before which they moved."""
    figure, (axes,) = _figure(1)
    for number, run in enumerate(comparison.runs):
        if run.trace:
            moved = np.zeros(len(run.trace.tasks))
            for event in run.migrations:
                moved[min(event.batch, len(moved) - 1)] += event.tuples
            axes.plot(np.cumsum(moved), color=_colour(number), label=run.name, marker=".")
    _label(axes, "Migration volume", "batch", "tuples moved so far")
    return figure


def own_imbalance_plot(comparison: Comparison) -> Figure:
    """Each planner's measure of every run, with the threshold above which it plans."""
    figure, panels = _figure(len(comparison.planners))
    for axes, (planner, threshold) in zip(panels, comparison.planners.items(), strict=True):
        for number, run in enumerate(comparison.runs):
            if run.trace:
                wide, layer = (2.4, 2) if run.name == planner else (1.0, 3)
                values = run.trace.measures[planner]
                axes.plot(values, color=_colour(number), label=run.name, linewidth=wide, zorder=layer)
        axes.axhline(threshold, color="red", linewidth=1.0, linestyle="--", label=f"threshold {threshold:g}")
        _log_if_wide(axes)
        _label(axes, f"By the measure of {planner}", "batch", "imbalance")
    return figure


def _figure(panels: int, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure without a window system behind it, with its panels from left to right, row by row."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0 if panels == 1 else 5.0 * panels, 3.8 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(np.atleast_1d(figure.subplots(rows, panels)).flat)


def _label(axes: Axes, title: str, x: str, y: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title(title, fontsize=11)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8)


def _log_if_wide(axes: Axes) -> None:
    """A logarithmic axis for values that differ much, with labels in plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    values = np.concatenate([np.asarray(line.get_ydata(), float) for line in axes.get_lines()] or [np.zeros(0)])
    values = values[np.isfinite(values)]
    if len(values) and values.min() > 0 and values.max() > LINEAR_UP_TO * values.min():
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter("{x:,g}")


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def png(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG file."""
    out = BytesIO()
    figure.savefig(out, format="png", dpi=DPI)
    return out.getvalue()
