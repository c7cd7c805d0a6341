"""What Square, Dynamic and A-DSP have in common: tasks of capacity V, and more or fewer of them as volumes change.

Their load is what a task stores (copies count), their imbalance how far that is outside what is allowed:

    over capacity   fullest task / (high * V)           above 1: the scheme is too small
    under use       low * V / mean of all tasks         above 1: it is too large (a single task is never too large)

with high = 80 % and low = 50 % as in A-DSP's Sec. 5.4. V is in stored tuples, or in bytes of them (`unit`; eq. 1 has a
size for the tuples of each stream). A plan fills tasks up to `fill` of V. The paper makes schemes for V itself, but a
scheme that leaves a task above 80 % calls for another one at once. So the default of `fill` is halfway between low and
high.

Of the table that the batch ran under the loads are the exact stored counts. Of any other table they are a forecast: the
report's samples (load/samples.py), scaled such that for the present table they add up to the exact counts.

The number of tasks is between `least` and `most`, in the initial table and in every plan. Where both are the same
number (`instances=8`), V decides nothing: a plan is called for if the fullest task stores more than EVEN times what it
would have to, had the best known scheme of so many tasks been used.
Not here: how a scheme is made for a capacity (square.py, dynamic.py, adsp/), or for a number of tasks (adsp/exact.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from math import inf, isqrt, sqrt
from typing import Literal, TypeVar

import numpy as np

from evenjoin.errors import SpecError
from evenjoin.load.adsp import Floor
from evenjoin.load.items import F64, Items
from evenjoin.placement.pieces import Points, stored_volume
from evenjoin.placement.table import Buckets, Layout, Region, RoutingTable
from evenjoin.placement.topology import Grid
from evenjoin.strategies.base import Stay, require

EVEN = 1.25
"""When no more tasks can be had, a plan is called for only if the fullest task is above this many times what it has to
store."""
CHANCE = 3.0
"""Standard deviations by which the number of tuples of a task may differ from what was planned, without a plan."""
SLIGHT = 0.05
"""The part of what is allowed that a task may store more by chance."""
CLOSE = 0.01
"""How close, as a part of itself, the search for a capacity comes. Each step makes a scheme."""
USUAL = 1.05
"""So many times the tasks of the floor a scheme has as a rule; the search for a capacity begins there."""
LIMITS = (1, 256)
"""`least` and `most` of a strategy to which the user has given neither."""
T = TypeVar("T")
Offer = Callable[[float, int], tuple[int, T]]
"""Takes a capacity and a number of tasks that is few enough, and gives a number of tasks and what it made of so many.
The number falls as the capacity grows, and is never below the floor. Whoever offers may stop at what is few enough."""
S = TypeVar("S", bound="Sized")


@dataclass(frozen=True, slots=True)
class Sized:
    """`task_capacity` is V, in stored tuples or bytes of them (`unit`). `most` is the largest number of tasks; if they
    do not suffice, all exceed V evenly. `least` is the smallest number; if they are too many, all are evenly filled to
    less than V. `price` says whether a plan of as many tasks must earn what it costs to move the state (bargain.py);
    the papers ignore it, `auto` does not."""

    task_capacity: float = 1_000_000
    high: float = 0.8
    low: float = 0.5
    fill: float = 0.65
    most: int = LIMITS[1]
    least: int = LIMITS[0]
    unit: Literal["tuples", "bytes"] = "tuples"
    price: Literal["ignored", "earned"] = "ignored"

    def __post_init__(self) -> None:
        wanted = {
            "task_capacity": ("above 0", self.task_capacity > 0),
            "high": ("above low and at most 1", self.low < self.high <= 1),
            "low": ("at least 0", self.low >= 0),
            "fill": ("above 0 and at most high", 0 < self.fill <= self.high),
            "least": ("a whole number of at least 1", type(self.least) is int and self.least >= 1),
            "most": ("a whole number of at least `least`", type(self.most) is int and self.most >= self.least),
            "unit": ("'tuples' or 'bytes'", self.unit in ("tuples", "bytes")),
            "price": ("'ignored' or 'earned'", self.price in ("ignored", "earned")),
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

    @property
    def is_fixed(self) -> bool:
        """Whether there is one number of tasks only."""
        return self.least == self.most

    def limited(self: S, least: int, most: int) -> S:
        """The same strategy with these limits of its tasks."""
        return replace(self, least=least, most=most)

    def fixed(self: S, instances: int) -> S:
        """The same strategy for a number of instances that the user fixed. Limits that were given to the strategy
        itself count more: then the number is only where it starts."""
        return self if (self.least, self.most) != LIMITS else self.limited(instances, instances)

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable:
        """One grid, as square as the number of instances allows. Every cell has both sides, whatever the layout
        says."""
        if sides != 2:
            raise SpecError(f"{self.origin} joins two streams, not {sides}")
        rows = next(r for r in range(isqrt(instances), 0, -1) if instances % r == 0)
        return one_grid(Grid(rows, instances // rows, tuple(range(instances))), self.origin, layout)

    def points(self, items: Items) -> Points:
        """The points that stand for the tuples alive, weighed in the unit of V."""
        return tuple(
            (codes, weights * size) for (codes, weights), size in zip(items.alive, self._sizes(items), strict=True)
        )

    def load(self, items: Items, table: RoutingTable) -> F64:
        held = items.held_under(table)
        if held is not None:
            exact: F64 = (held * np.array(self._sizes(items))[:, None]).sum(axis=0, keepdims=True)
            return exact
        if not items.alive:
            return np.zeros((1, table.instances))
        total: F64 = stored_volume(table, self.points(items)).sum(axis=0, keepdims=True)
        return total

    def _sizes(self, items: Items) -> tuple[float, ...]:
        return items.sizes if self.unit == "bytes" and items.sizes else (1.0, 1.0)

    def imbalance(self, items: Items, table: RoutingTable) -> float:
        load = self.load(items, table)[0]
        if not load.any():
            return 0.0
        needed = self.needed(items, table, load)
        if self.is_fixed:
            wasted = EVEN if self.may_shrink(table) else 0.0
            return max(needed / EVEN, wasted, self.too_few(table))
        over = float(load.max()) / (self.high * self.task_capacity)
        if table.instances >= self.most:  # no more tasks can be had: they can only be made even
            over = min(over, needed / EVEN)
        under = self.low * self.task_capacity / float(load.mean()) if self.may_shrink(table) else 0.0
        return max(over, under, self.too_few(table))

    def needed(self, items: Items, table: RoutingTable, load: F64) -> float:
        """What the fullest task stores, over what it would have to store in the best known scheme of so many tasks.

        A task that should store n tuples stores sqrt(n) more or less by chance; of CHANCE times that nothing follows.
        """
        fullest = float(load.max())
        chance = CHANCE * sqrt(fullest * max(self._sizes(items)))
        return max(fullest - chance, 0.0) / float(load.mean())

    def too_few(self, table: RoutingTable) -> float:
        """Above 1 if there are fewer tasks than `least`, else 0."""
        return self.least / table.instances if table.instances < self.least else 0.0

    def may_shrink(self, table: RoutingTable) -> bool:
        """Whether tasks that are too empty call for a plan."""
        return table.instances > self.least

    def is_overfull(self, items: Items, table: RoutingTable) -> bool:
        """Whether a task stores more than is allowed."""
        return float(self.load(items, table).max(initial=0.0)) > self.high * self.task_capacity

    def must_earn(self, items: Items, table: RoutingTable) -> bool:
        """Whether a plan of as many tasks must have earned its price. A task without room does not wait."""
        return self.price == "earned" and (self.is_fixed or not self.is_overfull(items, table))

    def explained(self, items: Items, table: RoutingTable) -> Stay | None:
        """That chance explains why a task stores more than high * V: it may store CHANCE * sqrt(high * V) more, as in
        `needed`, but never more than SLIGHT of it. Without this, tasks of a few hundred tuples would call for plans
        again and again while nothing changes."""
        fullest, limit = float(self.load(items, table).max(initial=0.0)), self.high * self.task_capacity
        chance = CHANCE * sqrt(limit * max(self._sizes(items)))
        if self.is_fixed or table.instances == 1 or not limit < fullest <= limit + min(chance, SLIGHT * limit):
            return None
        return Stay(f"the fullest task stores {fullest:,.0f}; of {limit:,.0f} so many more are chance")

    def made_for(self, offer: Offer[T], floor: Floor) -> T:
        """What `offer` makes for tasks of capacity `fill` * V.

        If that takes more than `most` tasks or fewer than `least`, it is made for the smallest capacity that takes no
        more than that bound, so that tasks are as even as can be. It may still take fewer than `least`: whoever asks
        fills it up (adsp/exact.py).
        """
        wanted, tasks = self.fill * self.task_capacity, self.most + 1
        if floor.tasks(wanted) < tasks:  # else it takes too many, whatever it is
            tasks, made = offer(wanted, 0)
            if self.least <= tasks <= self.most or not floor.stored.sum():
                return made
        bound = min(max(tasks, self.least), self.most)
        return _smallest(offer, bound, floor, wanted if tasks > bound else 0.0)


def _smallest(offer: Offer[T], bound: int, floor: Floor, above: float) -> T:
    """What `offer` makes for the smallest capacity, not below `above`, that takes at most `bound` tasks. The capacity
    is at most CLOSE too large.

    The number of tasks is nearly the same multiple of the floor at all capacities. So each trial tells where to try
    next: where that multiple of the floor is the bound, and a little further, so that the next trial is likely to have
    it on the other side. A trial leaves at most three quarters of what there was, and every third one half of it.
    """
    low, high, times, tasks = max(floor.capacity(bound), above), inf, USUAL, bound
    made: T | None = None
    for trial in count():
        guess = floor.capacity(bound / times)
        if high == inf:
            guess = max(guess * (1 + CLOSE / 2), low * (1 + trial * CLOSE))
        elif trial % 3 == 2:
            guess = (low + high) / 2
        else:
            guess *= 1 + CLOSE / 2 if tasks > bound else 1 - CLOSE / 2
            guess = min(max(guess, (3 * low + high) / 4), (low + 3 * high) / 4)
        tasks, offered = offer(guess, bound)
        times = tasks / floor.tasks(guess)
        if tasks > bound:
            low = guess
        else:
            high, made = guess, offered
        if made is not None and high - low <= CLOSE * low:
            break
    assert made is not None
    return made


def one_grid(grid: Grid, origin: str, layout: Layout = "shared") -> RoutingTable:
    """A table of one grid that takes everything, so that it suits any condition."""
    return RoutingTable(0, len(grid.cells), 2, 1, (Region(Buckets((0,)), grid),), origin, layout=layout)


def volumes(points: Points) -> tuple[float, float]:
    """|R| and |S|."""
    rows, columns = (float(weights.sum()) for _, weights in points)
    return rows, columns
