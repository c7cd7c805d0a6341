"""What Square, Dynamic and A-DSP have in common: tasks of capacity V, and more or fewer of them as volumes change.

Their load is the tuples a task stores (copies count), their imbalance how far that is outside what is allowed:

    over capacity   fullest task / (high * V)           above 1: the scheme is too small
    under use       low * V / mean of all tasks         above 1: it is too large (a single task is never too large)

with high = 80 % and low = 50 % as in A-DSP's Sec. 5.4. A plan fills tasks up to `fill` of V. The paper makes schemes
for V itself, but a scheme that leaves a task above 80 % calls for another one at once. So the default of `fill` is
halfway between low and high.

Plans keep the number of tasks between `least` and `most`; the initial table has as many as were asked for.
Volumes come from the report's samples (load/samples.py), or, while one grid has everything, from what it stores.
Not here: how a scheme is made for a capacity (square.py, dynamic.py, adsp/).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt
from typing import TypeVar

import numpy as np

from evenjoin.errors import SpecError
from evenjoin.load.items import F64, Items
from evenjoin.placement.pieces import Points, stored_volume
from evenjoin.placement.table import Buckets, Layout, Region, RoutingTable
from evenjoin.placement.topology import Grid
from evenjoin.strategies.base import require

EVEN = 1.25
"""When there are already `most` tasks, a plan is called for only if the fullest task is above this many times the
mean."""
HALVINGS = 6
"""Steps of the binary search for a capacity. Each step makes a scheme."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sized:
    """`task_capacity` is V, in stored tuples. `most` is the largest number of tasks; if they do not suffice, all
    exceed V evenly. `least` is the smallest number; if they are too many, all are evenly filled to less than V."""

    task_capacity: float = 1_000_000
    high: float = 0.8
    low: float = 0.5
    fill: float = 0.65
    most: int = 256
    least: int = 1

    def __post_init__(self) -> None:
        wanted = {
            "task_capacity": ("above 0", self.task_capacity > 0),
            "high": ("above low and at most 1", self.low < self.high <= 1),
            "low": ("at least 0", self.low >= 0),
            "fill": ("above 0 and at most high", 0 < self.fill <= self.high),
            "least": ("a whole number of at least 1", type(self.least) is int and self.least >= 1),
            "most": ("a whole number of at least `least`", type(self.most) is int and self.most >= self.least),
        }
        require(self, wanted)

    @property
    def origin(self) -> str:
        return type(self).__name__.lower()

    @property
    def threshold(self) -> float:
        return 1.0

    @property
    def alert(self) -> float:
        return 1.0

    @property
    def tracked(self) -> int:
        """Above 0, so that stored tuples are counted. The heavy keys themselves are only for the user to see."""
        return 32

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable:
        """One grid, as square as the number of instances allows. Every cell has both sides, whatever the layout
        says."""
        if sides != 2:
            raise SpecError(f"{self.origin} joins two streams, not {sides}")
        rows = next(r for r in range(isqrt(instances), 0, -1) if instances % r == 0)
        return one_grid(Grid(rows, instances // rows, tuple(range(instances))), self.origin, layout)

    def load(self, items: Items, table: RoutingTable) -> F64:
        if not items.alive:
            return np.zeros((1, table.instances))
        total: F64 = stored_volume(table, items.alive).sum(axis=0, keepdims=True)
        return total

    def imbalance(self, items: Items, table: RoutingTable) -> float:
        load = self.load(items, table)[0]
        if not load.any():
            return 0.0
        over = float(load.max()) / (self.high * self.task_capacity)
        if table.instances >= self.most:  # no more tasks can be had: they can only be made even
            over = min(over, float(load.max() / load.mean()) / EVEN)
        under = self.low * self.task_capacity / float(load.mean()) if self.may_shrink(table) else 0.0
        return max(over, under, self.too_few(table))

    def too_few(self, table: RoutingTable) -> float:
        """Above 1 if there are fewer tasks than `least`, else 0."""
        return self.least / table.instances if table.instances < self.least else 0.0

    def may_shrink(self, table: RoutingTable) -> bool:
        """Whether tasks that are too empty call for a plan."""
        return table.instances > self.least

    def made_for(self, offer: Callable[[float], tuple[int, T]], points: Points) -> T:
        """What `offer` makes for tasks of capacity `fill` * V.

        If that takes more than `most` tasks or fewer than `least`, it is made for the smallest capacity that takes no
        more than that bound, so that tasks are as even as can be. `offer` returns (number of tasks, what it made); the
        number falls as the capacity grows.
        """
        wanted = self.fill * self.task_capacity
        tasks, made = offer(wanted)
        if self.least <= tasks <= self.most:
            return made
        bound = min(max(tasks, self.least), self.most)
        low, high = (0.0, min(wanted, sum(volumes(points)))) if tasks < bound else (wanted, 2 * wanted)
        while (found := offer(high))[0] > bound:
            low, high = high, 2 * high
        made = found[1]
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            tasks, offered = offer(middle)
            if tasks > bound:
                low = middle
            else:
                high, made = middle, offered
        return made


def one_grid(grid: Grid, origin: str, layout: Layout = "shared") -> RoutingTable:
    """A table of one grid that takes everything, so that it suits any condition."""
    return RoutingTable(0, len(grid.cells), 2, 1, (Region(Buckets((0,)), grid),), origin, layout=layout)


def volumes(points: Points) -> tuple[float, float]:
    """|R| and |S|."""
    rows, columns = (float(weights.sum()) for _, weights in points)
    return rows, columns
