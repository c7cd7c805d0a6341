"""Strategies for equal keys: what arrives at each of four instances in a batch, by key, before and after their plan.

The stream has a thousand keys by zipf 1.1, the same ones hot on both sides. "Before" is the hash table that all of
these strategies start from, "after" the table that the strategy has after twelve batches. A bar is what `place` sends
to an instance: each copy of a tuple counts, because each is work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evenjoin.placement.place import At, place
from evenjoin.placement.table import RoutingTable
from evenjoin.sim import Scenario, Simulation, Stream

INSTANCES, BATCHES = 4, 12
STREAM = Stream(keys=1000, rows=(20_000, 20_000), zipf=(1.1, 1.1), batches=BATCHES)
SHADES = ("#8c2d04", "#d94801", "#f16913", "#fd8d3c", "#fdbe85", "#d9d9d9")
"""The hottest key, the next four, and all others."""
NAMED = len(SHADES) - 1


def simulated(strategy: str, instances: int = INSTANCES, stream: Stream = STREAM) -> tuple[RoutingTable, RoutingTable]:
    """The first and the last table of a strategy."""
    simulation = Simulation(Scenario(source=stream, strategy=strategy, instances=instances))
    first = simulation.table
    for _ in range(stream.batches):
        simulation.step()
    return first, simulation.table


def arriving(table: RoutingTable, stream: Stream = STREAM) -> np.ndarray:
    """[instances, shades] of what `place` sends to each instance in a batch: the hottest keys, and the others."""
    counts = np.zeros((table.instances, NAMED + 1))
    for side in (0, 1):
        slice_ = stream.arrivals(1)[side][0]
        shade = np.full(len(slice_.codes), NAMED)
        shade[np.argsort(-slice_.counts, kind="stable")[:NAMED]] = np.arange(NAMED)
        rows = np.repeat(np.arange(len(slice_.codes)), slice_.counts)
        u = np.random.default_rng(side).integers(0, 2**32, len(rows), dtype=np.uint32)
        sent = place(table, side, At(slice_.codes[rows], u))
        np.add.at(counts, (sent.instance, shade[rows][sent.row]), 1)
    return counts


def bars(axes: Axes, table: RoutingTable, title: str) -> None:
    """One bar an instance, its keys stacked, and the mean as a line."""
    counts = arriving(table)
    bottom = np.zeros(table.instances)
    for shade, color in enumerate(SHADES):
        axes.bar(range(table.instances), counts[:, shade], bottom=bottom, color=color, width=0.7)
        bottom += counts[:, shade]
    axes.axhline(bottom.mean(), color="black", linewidth=0.8, linestyle="--")
    axes.set_title(f"{title}\nfullest / mean {bottom.max() / bottom.mean():.2f}", fontsize=9)
    axes.set_xticks(range(table.instances), [f"{instance}" for instance in range(table.instances)])
    axes.set_xlabel("instance")


def before_and_after(strategy: str) -> Figure:
    """The hash table, and what the strategy made of it."""
    first, last = simulated(strategy)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(6.4, 2.6), sharey=True)
    bars(left, first, "at the start: hash")
    bars(right, last, f"after {BATCHES} batches: {strategy}")
    left.set_ylabel("tuples that arrive in a batch")
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=color) for color in (SHADES[0], SHADES[2], SHADES[-1])]
    right.legend(handles, ["hottest key", "next four", "all others"], fontsize=7, frameon=False, loc="upper right")
    right.set_ylim(0, right.get_ylim()[1] * 1.25)
    return figure


def unplanned() -> Figure:
    """The three strategies that have no planner."""
    figure, panels = pyplot.subplots(1, 3, figsize=(8, 2.6), sharey=True)
    for axes, strategy in zip(panels, ("hash", "contrand(groups=2)", "random"), strict=True):
        bars(axes, simulated(strategy)[0], strategy)
    panels[0].set_ylabel("tuples that arrive in a batch")
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "unplanned": unplanned,
    **{name: partial(before_and_after, name) for name in ("auto", "fastjoin", "djb", "lsstream", "readj")},
}
