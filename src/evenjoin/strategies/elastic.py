"""`instances="auto"`: any strategy on as many instances as its state needs.

    evenjoin.join(..., strategy="fastjoin", instances="auto", task_capacity=1_000_000, max_instances=16)

An instance has room for `task_capacity` stored tuples (V). Above `high` (80 %) of the room of all instances the join
scales out, below `low` (50 %) it scales in, to as many as leave each `to` of its room used: halfway between both, so
that it does not swing, or as told (at `high` it takes the fewest there can be, and changes most often). The new table
is the strategy's own first table for that number, its routed keys forgotten: the planner finds them again. The state
moves by `diff`, between two batches, like in any rebalance.

What is compared is the sum over all instances: one that is fuller than others is the strategy's affair, not a reason
for more. Square, Dynamic and A-DSP size themselves by the same capacity (sized.py) and are only given the limits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from evenjoin.errors import SpecError
from evenjoin.load.items import F64, Items
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import RoutingTable
from evenjoin.strategies.base import Layout, Strategy
from evenjoin.strategies.sized import Sized


@dataclass(frozen=True, slots=True)
class Scale:
    """The limits of scaling; see above."""

    task_capacity: float
    least: int = 1
    most: int = 64
    low: float = 0.5
    high: float = 0.8
    to: float | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.task_capacity, (int, float)) and self.task_capacity > 0):
            raise SpecError(f"task_capacity={self.task_capacity!r}: stored tuples an instance has room for, above 0")
        if not (type(self.least) is int and type(self.most) is int and 1 <= self.least <= self.most):
            raise SpecError(
                f"min_instances={self.least!r}, max_instances={self.most!r}: whole numbers, 1 <= min <= max"
            )
        if not 0 <= self.low < self.high <= 1:
            raise SpecError(f"scale_in={self.low!r}, scale_out={self.high!r}: 0 <= scale_in < scale_out <= 1")
        if not self.low < self.fill <= self.high:
            raise SpecError(f"scale_to={self.to!r}: scale_in < scale_to <= scale_out")

    @property
    def fill(self) -> float:
        return (self.low + self.high) / 2 if self.to is None else self.to

    def instances_for(self, stored: float, now: int) -> int:
        """As many as are there while they are neither too full nor too empty, else as many as leave room."""
        used = stored / (now * self.task_capacity)
        if self.low <= used <= self.high:
            return now
        return min(max(ceil(stored / (self.fill * self.task_capacity)), self.least), self.most)

    def pressure(self, stored: float, now: int) -> float:
        """Above 1 if another number of instances is called for, and allowed."""
        if self.instances_for(stored, now) == now:
            return 0.0
        used = stored / (now * self.task_capacity)
        return used / self.high if used > self.high else min(self.low / used, 1e9) if used > 0 else 1e9


@dataclass(frozen=True, slots=True)
class Elastic:
    """A strategy that also changes its number of instances. Its imbalance is in units of alerts: above 1 calls for
    a plan, be it because of the strategy's own imbalance or of the room left."""

    inner: Strategy
    scale: Scale
    layout: Layout

    @property
    def origin(self) -> str:
        return self.inner.origin

    @property
    def threshold(self) -> float:
        return 1.0

    @property
    def alert(self) -> float:
        return 1.0

    @property
    def tracked(self) -> int:
        return max(self.inner.tracked, 32)

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable:
        return self.inner.initial(instances, sides, layout)

    def load(self, items: Items, table: RoutingTable) -> F64:
        return self.inner.load(items, table)

    def imbalance(self, items: Items, table: RoutingTable) -> float:
        pressure = self.scale.pressure(float(items.stored.sum()), table.instances)
        if pressure > 1 or not self.inner.tracked or not items.fit(table):
            return pressure
        return max(self.inner.imbalance(items, table) / self.inner.alert, pressure)

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> RoutingTable | None:
        wanted = self.scale.instances_for(float(items.stored.sum()), table.instances)
        if wanted == table.instances:
            return self.inner.plan(report, items, table) if self.inner.tracked else None
        try:
            fresh = self.inner.initial(wanted, table.sides, self.layout)
        except SpecError:  # so few instances do not suit the strategy's settings
            return None
        return replace(fresh, version=table.version + 1, reach=table.reach)


def elastic(strategy: Strategy, scale: Scale, layout: Layout) -> Strategy:
    """The strategy with a number of instances that follows its state."""
    if isinstance(strategy, Sized):
        return replace(
            strategy,
            task_capacity=scale.task_capacity,
            most=scale.most,
            least=scale.least,
            low=scale.low,
            high=scale.high,
            fill=scale.fill,
        )
    return Elastic(strategy, scale, layout)
