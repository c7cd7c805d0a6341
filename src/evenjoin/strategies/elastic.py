"""`instances="auto"`: any strategy on as many instances as its state and its work need.

    evenjoin.join(..., instances="auto")
    evenjoin.join(..., strategy="fastjoin", instances="auto",
                  scaling=evenjoin.Scaling(task_capacity=1_000_000, max_instances=16))

How many instances there should be is said in scaling.py, and how long it takes to believe that in patience.py. A keyed
table keeps its buckets, and its moved and divided keys, when their number changes (handover.py): about as much moves as
a new instance gets, or a dissolved one had. If the strategy has a method `balanced`, instances get equal shares of the
counts that it names, else of tuples stored and of work.
Where there are no buckets to hand over (a hypercube), the new table is the strategy's own initial one for that number.
The state moves by `diff`, between two batches, as in any rebalance, and the guards judge what moves.

Square, Dynamic and A-DSP size themselves by the same capacity (sized.py) and are only given the limits; with a fixed
number of instances both limits are that number. ContRand's subgroups grow one by one (subgroups.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from evenjoin.errors import SpecError
from evenjoin.load.items import F64, Items, change
from evenjoin.load.refined import comparable
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import Layout, RoutingTable
from evenjoin.strategies.auto.price import MOVE_MS
from evenjoin.strategies.base import Limits, Past, Plan, Stay, Strategy, Weighed, Weighing
from evenjoin.strategies.bistream import ContRand
from evenjoin.strategies.handover import can_resize, measure_of, resized
from evenjoin.strategies.ordered import Ordered
from evenjoin.strategies.patience import Patience
from evenjoin.strategies.scaling import Scaling as Scaling
from evenjoin.strategies.scaling import Used
from evenjoin.strategies.sized import Sized
from evenjoin.strategies.subgroups import Subgroups

MEMORY = "scaling"
"""Under which name the memory of a commit has what was seen of the time that tasks took."""


@dataclass(frozen=True, slots=True)
class Elastic:
    """A strategy that also changes its number of instances.

    Its imbalance is measured in alerts: above 1 a plan is called for, either because the inner strategy's imbalance is
    above its alert, or because of the room or the time that is used. `seen` is what earlier batches said of that;
    without it each batch is believed.
    """

    inner: Strategy
    scaling: Scaling
    seen: Patience | None = None

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
        now = table.instances
        pressure = self.scaling.pressure(self.used(items, now), now) if self.wanted(items, table) != now else 0.0
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
        made = self.sized(items, table, wanted) if wanted != table.instances else None
        waiting = "" if made is None else self.waiting(report, items, table, made)
        if made is not None and not waiting:
            return made
        if not self.inner.tracked or (waiting and self.inner.imbalance(items, table) <= self.inner.alert):
            return Stay(waiting) if waiting else None
        return self.inner.plan(report, items, table)

    def used(self, items: Items, instances: int) -> Used:
        """What so many instances use, by the last few batches."""
        used = self.scaling.used(items, instances)
        return used if self.seen is None else self.seen.steady(used, instances)

    def wanted(self, items: Items, table: RoutingTable) -> int:
        """How many instances there should be: another number only if that is believed, were the move free."""
        used, now = self.used(items, table.instances), table.instances
        wanted = self.scaling.instances_for(used, now)
        known = self.seen is not None and self.seen.instances == now
        return now if known and self.seen and self.seen.waits(wanted, used, self.scaling) else wanted

    def waiting(self, report: LoadReport, items: Items, table: RoutingTable, made: RoutingTable) -> str:
        """Why the state does not move yet to a table of another size; "" if it may."""
        moves, interval = change(*comparable(items, table, made)).moves or 0, report.trigger_ms or report.interval_ms
        pauses = MOVE_MS * moves / min(items.cores or table.instances, table.instances) / interval if interval else 0.0
        used, seen = self.used(items, table.instances), self.seen
        if seen is None or not seen.waits(made.instances, used, self.scaling, pauses):
            return ""
        sure = min(seen.fewer / seen.needed(pauses), 0.99)
        return (
            f"{self.told(items, table)}: {made.instances} would do and {moves:,} tuples would move; "
            f"waiting until that is sure, {sure:.0%} so far"
        )

    def told(self, items: Items, table: RoutingTable) -> str:
        """What is used, in words."""
        used = self.used(items, table.instances)
        if used.time > used.room or not isfinite(self.scaling.capacity(items)):
            return f"tasks take {used.time:.0%} of the trigger's interval on {table.instances} instances"
        stored = float(items.stored.sum())
        return f"{stored:,.0f} tuples take {used.room:.0%} of the room of {table.instances} instances"

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
        waiting = self.waiting(report, items, table, made)
        if waiting:
            return replace(weighed, sentence=waiting, key="") if weighed.forecast is None else weighed
        moves, why = change(*comparable(items, table, made)).moves, self.told(items, table)
        if limits.budget is not None and moves is not None and moves > limits.budget:
            refused = f"{why}, but {moves:,} tuples would move to go to {wanted}, and {limits.budget:,} may"
            return replace(weighed, sentence=refused, key="") if weighed.table is None else weighed
        memory = past.memory if past.memory is not None else weighed.memory
        sentence = f"{why}: going to {wanted}"
        return replace(weighed, table=made, memory=memory, sentence=sentence, forecast=None, moves=moves, key="")


def having_seen(strategy: Strategy, memory: Mapping[str, Any] | None, items: Items, table: RoutingTable) -> Strategy:
    """The strategy with what is known of the time that tasks took, this batch with it; itself, if it has one size."""
    if isinstance(strategy, Ordered):
        return replace(strategy, inner=having_seen(strategy.inner, memory, items, table))
    if not isinstance(strategy, Elastic):
        return strategy
    before = Patience.from_json((memory or {}).get(MEMORY, {}))
    used = strategy.scaling.used(items, table.instances)
    return replace(strategy, seen=before.after(used, table.instances, strategy.scaling))


def resizing(strategy: Strategy, items: Items, table: RoutingTable, made: RoutingTable) -> str:
    """Why a table of another size is made, in words; "" if it has the same."""
    inner = strategy.inner if isinstance(strategy, Ordered) else strategy
    if not isinstance(inner, Elastic) or made.instances == table.instances:
        return ""
    anew = "; buckets are cut anew" if made.ordered and made.cuts != table.cuts else ""
    return f"{inner.told(items, table)}: going to {made.instances}{anew}"


def remembering(strategy: Strategy, memory: dict[str, Any] | None) -> dict[str, Any] | None:
    """The memory of a decision, with what the strategy has seen."""
    inner = strategy.inner if isinstance(strategy, Ordered) else strategy
    seen = inner.seen if isinstance(inner, Elastic) else None
    return memory if seen is None else {**(memory or {}), MEMORY: seen.to_json()}


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
