"""Strategies for three sides: where one tuple of each side goes. Of the first table that each strategy makes.

A row is a tuple, a column an instance. A full square stores the tuple (and probes, if it has a frame), an empty frame
only probes. The join is `abs(r.a - s.a) <= 5 AND abs(s.b - t.b) <= 5 AND abs(t.c - r.c) <= 5`, and for `hash` a common
key. All keys of the three tuples are the same, so they match; where packs and pairs go after that is not drawn.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import evenjoin
from evenjoin.placement.place import At, place
from evenjoin.placement.slots import Role
from evenjoin.placement.table import RoutingTable

SCHEMA = pa.schema([(name, pa.int64()) for name in ("a", "b", "c", "k")])
CYCLE = "abs(r.a - s.a) <= 5 AND abs(s.b - t.b) <= 5 AND abs(t.c - r.c) <= 5"
COMMON = "r.k = s.k AND s.k = t.k"
EQUAL_CYCLE = "r.a = s.a AND s.b = t.b AND t.c = r.c"
SIDES, COLOURS = "rst", ("#1b7f79", "#d94801", "#54278f")


def first_table(strategy: str, on: str, instances: int, layout: str) -> RoutingTable:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        join = evenjoin.local(dict.fromkeys(SIDES, SCHEMA), on, strategy=strategy, instances=instances, layout=layout)  # type: ignore[arg-type]
    return join.table()


def lights(axes: Axes, table: RoutingTable, title: str) -> None:
    """One tuple a side, and what it does where."""
    messages = 0
    for side, colour in enumerate(COLOURS):
        at = At(np.array([17]), np.array([2**31 + 2**29], np.uint32), (np.array([17]),))
        sent = place(table, side, at)
        messages += len(sent.row)
        for instance, role in zip(sent.instance.tolist(), sent.role.tolist(), strict=True):
            square = {"xy": (instance - 0.4, 2 - side - 0.4), "width": 0.8, "height": 0.8}
            face = colour if role & Role.STORE else "none"
            axes.add_patch(pyplot.Rectangle(**square, facecolor=face, edgecolor=colour, linewidth=1.5))
    axes.set_xlim(-0.6, table.instances - 0.4)
    axes.set_ylim(-0.6, 2.6)
    axes.set_aspect("equal")
    axes.set_xticks(range(table.instances))
    axes.set_yticks(range(3), [f"a tuple of {side}" for side in reversed(SIDES)])
    axes.set_xlabel("instance")
    axes.set_title(f"{title}: {messages / 3:.1f} messages a tuple at first", fontsize=9)


def one(strategy: str, on: str, instances: int, layout: str) -> Figure:
    figure, axes = pyplot.subplots(figsize=(0.42 * instances + 1.6, 2))
    lights(axes, first_table(strategy, on, instances, layout), strategy)
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "common-key": partial(one, "hash", COMMON, 8, "shared"),
    "hypercube": partial(one, "hypercube", EQUAL_CYCLE, 8, "shared"),
    "trijoin": partial(one, "trijoin", CYCLE, 9, "split"),
    "tree": partial(one, "tree", CYCLE, 8, "split"),
}
