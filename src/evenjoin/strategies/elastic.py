"""`instances="auto"`: any strategy on as many instances as its state needs.

    evenjoin.join(..., strategy="fastjoin", instances="auto",
                  scaling=evenjoin.Scaling(task_capacity=1_000_000, max_instances=16))

An instance has room for `task_capacity` stored tuples (V). When more than `scale_out` (80 %) of the room of all
instances is used, the join scales out. Below `scale_in` (50 %) it scales in. The new number of instances leaves
`scale_to` of their room used. By default that is halfway between both, so that the number does not swing. With
`scale_to` at `scale_out` there are as few instances as possible, and they change most often.

The new table is the strategy's own initial table for that number. Keys with regions of their own are forgotten; the
planner finds them again. The state moves by `diff`, between two batches, as in any rebalance.

Not considered: how full a single instance is. Only the sum over all instances counts; an instance that is fuller than
others is for the strategy to relieve, and no reason for more of them. Square, Dynamic and A-DSP size themselves by the
same capacity (sized.py) and are only given the limits; with a fixed number of instances both limits are that number.
ContRand's subgroups grow one by one (subgroups.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, isfinite

from evenjoin.errors import SpecError
from evenjoin.load.items import F64, Items, change
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import Layout, RoutingTable
from evenjoin.strategies.base import Limits, Past, Plan, Strategy, Weighed, Weighing
from evenjoin.strategies.bistream import ContRand
from evenjoin.strategies.ordered import Ordered
from evenjoin.strategies.sized import Sized
from evenjoin.strategies.subgroups import Subgroups


@dataclass(frozen=True, slots=True)
class Scaling:
    """The limits of scaling with `instances="auto"`.

    task_capacity: stored tuples an instance has room for.
    min_instances, max_instances: the fewest instances, with which a new join starts, and the most.
    scale_in, scale_out: the number of instances changes when less or more than this part of all room is used.
    scale_to: the part of all room that the new number leaves used; None is halfway between both.
    """

    task_capacity: float
    min_instances: int = 1
    max_instances: int = 64
    scale_in: float = 0.5
    scale_out: float = 0.8
    scale_to: float | None = None

    def __post_init__(self) -> None:
        if not (_is_number(self.task_capacity) and self.task_capacity > 0):
            raise SpecError(f"task_capacity={self.task_capacity!r}: stored tuples an instance has room for, above 0")
        least, most = self.min_instances, self.max_instances
        if not (type(least) is int and type(most) is int and 1 <= least <= most):
            raise SpecError(f"min_instances={least!r}, max_instances={most!r}: whole numbers, 1 <= min <= max")
        low, high = self.scale_in, self.scale_out
        if not (_is_number(low) and _is_number(high) and 0 <= low < high <= 1):
            raise SpecError(f"scale_in={low!r}, scale_out={high!r}: 0 <= scale_in < scale_out <= 1")
        if (self.scale_to is not None and not _is_number(self.scale_to)) or not low < self.fill <= high:
            raise SpecError(f"scale_to={self.scale_to!r}: scale_in < scale_to <= scale_out")

    @property
    def fill(self) -> float:
        """The part of all room that a new number of instances leaves used."""
        return (self.scale_in + self.scale_out) / 2 if self.scale_to is None else self.scale_to

    def instances_for(self, stored: float, now: int) -> int:
        """How many instances there should be: as many as now while they are neither too full nor too empty, else as
        many as leave the part `fill` of their room used, within the limits."""
        used = stored / (now * self.task_capacity)
        if self.scale_in <= used <= self.scale_out:
            return now
        return min(max(ceil(stored / (self.fill * self.task_capacity)), self.min_instances), self.max_instances)

    def pressure(self, stored: float, now: int) -> float:
        """Above 1 if another number of instances is called for and within the limits; else 0."""
        if self.instances_for(stored, now) == now:
            return 0.0
        used = stored / (now * self.task_capacity)
        if used > self.scale_out:
            return used / self.scale_out
        return min(self.scale_in / used, 1e9) if used > 0 else 1e9


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)


@dataclass(frozen=True, slots=True)
class Elastic:
    """A strategy that also changes its number of instances.

    Its imbalance is measured in alerts: above 1 a plan is called for, either because the inner strategy's imbalance is
    above its alert, or because of the room that is used.
    """

    inner: Strategy
    scaling: Scaling

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
        pressure = self.scaling.pressure(float(items.stored.sum()), table.instances)
        if pressure > 1 or not self.inner.tracked or not items.fit(table):
            return pressure
        return max(self.inner.imbalance(items, table) / self.inner.alert, pressure)

    def relieved(self, items: Items, old: RoutingTable, new: RoutingTable) -> float:
        """How much instances are relieved of, as the inner strategy counts it; of work, if it does not say."""
        own: Callable[[Items, RoutingTable, RoutingTable], float] | None = getattr(self.inner, "relieved", None)
        return change(items, old, new).relieved if own is None else own(items, old, new)

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> Plan:
        wanted = self.scaling.instances_for(float(items.stored.sum()), table.instances)
        if wanted == table.instances:
            return self.inner.plan(report, items, table) if self.inner.tracked else None
        return self._sized(table, wanted)

    def _sized(self, table: RoutingTable, wanted: int) -> RoutingTable | None:
        try:
            fresh = self.inner.initial(wanted, table.groups, table.layout)
        except SpecError:  # the strategy's settings do not fit so few instances
            return None
        return replace(fresh, version=table.version + 1).stating(table)


@dataclass(frozen=True, slots=True)
class ElasticWeighing(Elastic):
    """The same around a strategy that weighs: the number of instances is decided first."""

    def weigh(self, report: LoadReport, items: Items, table: RoutingTable, past: Past, limits: Limits) -> Weighed:
        assert isinstance(self.inner, Weighing)
        weighed = self.inner.weigh(report, items, table, past, limits)
        stored = float(items.stored.sum())
        wanted = self.scaling.instances_for(stored, table.instances)
        if wanted == table.instances or limits.cooling:
            return weighed
        sized = self._sized(table, wanted)
        used = stored / (table.instances * self.scaling.task_capacity)
        sentence = f"{stored:,.0f} tuples take {used:.0%} of the room of {table.instances} instances: going to {wanted}"
        memory = past.memory if past.memory is not None else weighed.memory
        return replace(weighed, table=sized, memory=memory, sentence=sentence, forecast=None, moves=None)


def elastic(strategy: Strategy, scaling: Scaling) -> Strategy:
    """The strategy, with a number of instances that follows the state."""
    if isinstance(strategy, Ordered):
        return replace(strategy, inner=elastic(strategy.inner, scaling))
    if isinstance(strategy, Sized):
        low, high, fill = scaling.scale_in, scaling.scale_out, scaling.fill
        strategy = replace(strategy, task_capacity=scaling.task_capacity, low=low, high=high, fill=fill)
        return strategy.limited(scaling.min_instances, scaling.max_instances)
    if isinstance(strategy, ContRand):
        return Subgroups(strategy, scaling)
    return (ElasticWeighing if isinstance(strategy, Weighing) else Elastic)(strategy, scaling)


def fixed(strategy: Strategy, instances: int) -> Strategy:
    """The strategy for a number of instances that the user fixed. Only those that size themselves must be told."""
    return strategy.fixed(instances) if isinstance(strategy, Sized) else strategy
