"""`instances="auto"`: any strategy on as many instances as its state and its work need.

    evenjoin.join(..., instances="auto")
    evenjoin.join(..., strategy="fastjoin", instances="auto",
                  scaling=evenjoin.Scaling(task_capacity=1_000_000, max_instances=16))

How many instances there should be is said in scaling.py. A keyed table keeps its buckets, and its moved and divided
keys, when their number changes (handover.py): about as much moves as a new instance gets, or a dissolved one had. If
the strategy has a method `balanced`, instances get equal shares of the counts that it names, else of tuples stored and
of work.
Where there are no buckets to hand over (a hypercube), the new table is the strategy's own initial one for that number.
The state moves by `diff`, between two batches, as in any rebalance, and the guards judge what moves.

Square, Dynamic and A-DSP size themselves by the same capacity (sized.py) and are only given the limits; with a fixed
number of instances both limits are that number. ContRand's subgroups grow one by one (subgroups.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from evenjoin.errors import SpecError
from evenjoin.load.items import F64, Items, change
from evenjoin.load.refined import comparable
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import Layout, RoutingTable
from evenjoin.strategies.base import Limits, Past, Plan, Strategy, Weighed, Weighing
from evenjoin.strategies.bistream import ContRand
from evenjoin.strategies.handover import can_resize, measure_of, resized
from evenjoin.strategies.ordered import Ordered
from evenjoin.strategies.scaling import Scaling as Scaling
from evenjoin.strategies.sized import Sized
from evenjoin.strategies.subgroups import Subgroups


@dataclass(frozen=True, slots=True)
class Elastic:
    """A strategy that also changes its number of instances.

    Its imbalance is measured in alerts: above 1 a plan is called for, either because the inner strategy's imbalance is
    above its alert, or because of the room or the time that is used.
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
        pressure = self.scaling.pressure(self.scaling.used(items, table.instances), table.instances)
        if pressure > 1 or not self.inner.tracked or not items.fit(table):
            return pressure
        return max(self.inner.imbalance(items, table) / self.inner.alert, pressure)

    def is_overfull(self, items: Items, table: RoutingTable) -> bool:
        """Whether more instances are called for."""
        return self.wanted(items, table) > table.instances

    def relieved(self, items: Items, old: RoutingTable, new: RoutingTable) -> float:
        """How much instances are relieved of, as the inner strategy counts it; of work, if it does not say."""
        own: Callable[[Items, RoutingTable, RoutingTable], float] | None = getattr(self.inner, "relieved", None)
        return change(items, old, new).relieved if own is None else own(items, old, new)

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> Plan:
        wanted = self.wanted(items, table)
        if wanted == table.instances:
            return self.inner.plan(report, items, table) if self.inner.tracked else None
        return self.sized(items, table, wanted)

    def wanted(self, items: Items, table: RoutingTable) -> int:
        """How many instances there should be."""
        return self.scaling.instances_for(self.scaling.used(items, table.instances), table.instances)

    def sized(self, items: Items, table: RoutingTable, wanted: int) -> RoutingTable | None:
        """The table on so many instances; None if the strategy has none."""
        try:
            if can_resize(table, wanted):
                return resized(table, wanted, items, measure_of(self.inner))
            fresh = self.inner.initial(wanted, table.groups, table.layout)
        except SpecError:  # the layout or the strategy's settings do not fit so few instances
            return None
        return replace(fresh, version=table.version + 1).stating(table)


@dataclass(frozen=True, slots=True)
class ElasticWeighing(Elastic):
    """The same around a strategy that weighs: the number of instances is decided first."""

    def weigh(self, report: LoadReport, items: Items, table: RoutingTable, past: Past, limits: Limits) -> Weighed:
        assert isinstance(self.inner, Weighing)
        weighed = self.inner.weigh(report, items, table, past, limits)
        wanted = self.wanted(items, table)
        made = None if wanted == table.instances or limits.cooling else self.sized(items, table, wanted)
        if made is None:
            return weighed
        moves, why = change(*comparable(items, table, made)).moves, self._told(items, table)
        if limits.budget is not None and moves is not None and moves > limits.budget:
            refused = f"{why}, but {moves:,} tuples would move to go to {wanted}, and {limits.budget:,} may"
            return replace(weighed, sentence=refused, key="") if weighed.table is None else weighed
        memory = past.memory if past.memory is not None else weighed.memory
        sentence = f"{why}: going to {wanted}"
        return replace(weighed, table=made, memory=memory, sentence=sentence, forecast=None, moves=moves, key="")

    def _told(self, items: Items, table: RoutingTable) -> str:
        """What calls for another number of instances, in words."""
        used = self.scaling.used(items, table.instances)
        if used.time > used.room:
            return f"tasks take {used.time:.0%} of the trigger's interval on {table.instances} instances"
        stored = float(items.stored.sum())
        return f"{stored:,.0f} tuples take {used.room:.0%} of the room of {table.instances} instances"


def elastic(strategy: Strategy, scaling: Scaling) -> Strategy:
    """The strategy, with a number of instances that follows the state."""
    if isinstance(strategy, Ordered):
        return replace(strategy, inner=elastic(strategy.inner, scaling))
    if isinstance(strategy, Sized):
        low, high, fill = scaling.scale_in, scaling.scale_out, scaling.fill
        strategy = replace(strategy, low=low, high=high, fill=fill)
        if scaling.task_capacity is not None:
            strategy = replace(strategy, task_capacity=scaling.task_capacity)
        elif scaling.task_memory is not None:
            strategy = replace(strategy, task_capacity=scaling.task_memory, unit="bytes")
        return strategy.limited(scaling.min_instances, scaling.max_instances)
    if isinstance(strategy, ContRand):
        return Subgroups(strategy, scaling)
    return (ElasticWeighing if isinstance(strategy, Weighing) else Elastic)(strategy, scaling)


def fixed(strategy: Strategy, instances: int) -> Strategy:
    """The strategy for a number of instances that the user fixed. Only those that size themselves must be told."""
    return strategy.fixed(instances) if isinstance(strategy, Sized) else strategy
