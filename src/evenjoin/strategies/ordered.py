"""Keyed strategies on bands: the same table and planner, on buckets that are intervals of codes (placement/order.py).

    evenjoin.join(..., "abs(a.x - b.x) <= 5", strategy="djb")       Ordered(DJB())

Where keys that differ may match, hash buckets would separate them. So `hash`, `contrand`, `readj` and `djb` get ordered
buckets there, if the reach of the condition has two ends. Everything else of them stays as it is: the number of
buckets, who has which bucket, and the planner, which moves and splits buckets and keys as ever.

    nothing known    one region for all codes: a tuple is stored somewhere and probes everywhere, as under `random`
    codes sampled    the strategy's own initial table, its buckets cut so that each has as many tuples alive
    codes drifted    the same again: when an instance stores RECUT times the mean, and new cuts would halve that

Neighbouring buckets begin on the same instance, so that few tuples are near a bucket of another one.
Not considered by the cuts: what is found. Buckets with as many tuples may have more or fewer results; planners see it.
Not here: conditions without such a reach. There these strategies are refused (runtime/settings.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from evenjoin.errors import SpecError
from evenjoin.load.items import F64, Items, change
from evenjoin.load.report import LoadReport
from evenjoin.load.samples import SAMPLE_POINTS, Grain
from evenjoin.placement.pieces import Points, stored_volume
from evenjoin.placement.table import Buckets, Layout, Region, RoutingTable
from evenjoin.placement.topology import Biclique
from evenjoin.spec import JoinSpec
from evenjoin.strategies.base import Plan, Stay, Strategy, halves

POINTS = 8 * SAMPLE_POINTS
"""The most points that stand for a side: 16 for each bucket of 128."""
EACH = 16
"""A point stands for so many tuples, as long as there are fewer than POINTS."""
RECUT = 2.0
"""An instance that stores this many times the mean is a reason to look for new cuts."""
CALLING = 2.0
"""How many times its alert the imbalance is while there are no ordered buckets yet."""


def ordered(strategy: Strategy, spec: JoinSpec) -> Strategy:
    """The strategy on ordered buckets, if the join needs them and has a reach with two ends; else itself."""
    return Ordered(strategy) if is_band(spec) else strategy


def is_band(spec: JoinSpec) -> bool:
    """Whether codes that differ may match, but only if their difference is between two bounds."""
    return len(spec.sides) == 2 and not spec.equal_codes and None not in spec.reach


def refuse_bands(spec: JoinSpec, why: str) -> None:
    """Refuse a band for a strategy whose load model does not hold there. `why` says so, as a clause."""
    if is_band(spec):
        raise SpecError(f"{spec.text}: {why}")


@dataclass(frozen=True, slots=True)
class Ordered:
    """A keyed strategy on ordered buckets. Its measures are the inner strategy's, once there are such buckets."""

    inner: Strategy

    @property
    def origin(self) -> str:
        return self.inner.origin

    @property
    def threshold(self) -> float:
        return self.inner.threshold

    @property
    def alert(self) -> float:
        """Finite, also for a strategy without a planner: its first table has no ordered buckets yet."""
        return 1.0 if self.inner.alert == inf else self.inner.alert

    @property
    def tracked(self) -> int:
        return self.inner.tracked

    @property
    def grain(self) -> Grain:
        return Grain(most=POINTS, tuples=EACH)

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable:
        """One region for everything, on the instances that the inner strategy begins with."""
        own = self.inner.initial(instances, sides, layout)
        everything = Region(Buckets((0,)), Biclique(halves(own.instances, sides, layout)))
        return replace(own, buckets=1, regions=(everything,))

    def load(self, items: Items, table: RoutingTable) -> F64:
        return self.inner.load(items, table)

    def imbalance(self, items: Items, table: RoutingTable) -> float:
        """The inner strategy's. Of other buckets than those of the items nothing is known. There it is 0, which lets
        new cuts pass the guards, and is never told as a forecast (runtime/rebalance.py)."""
        if not items.fit(table):
            return 0.0
        now = self.inner.imbalance(items, table)
        calls = (not table.ordered and _tuples(items.alive) > 0) or self._drifted(items, table) is not None
        return max(now, CALLING * self.alert) if calls else now

    def relieved(self, items: Items, old: RoutingTable, new: RoutingTable) -> float:
        """How much instances are relieved of, as the inner strategy counts it; of work, if it does not say."""
        own: Callable[[Items, RoutingTable, RoutingTable], float] | None = getattr(self.inner, "relieved", None)
        return change(items, old, new).relieved if own is None else own(items, old, new)

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> Plan:
        if not table.ordered:
            return self._cut(items, table) if _tuples(items.alive) else Stay("no codes are known to cut buckets by")
        fresh = self._drifted(items, table)
        if fresh is not None:
            return fresh
        if self.inner.alert == inf:
            return Stay(f"intervals stay: the fullest instance stores {_fullest(items, table):.2f} times the mean")
        made = self.inner.plan(report, items, table)
        if isinstance(made, RoutingTable) and not made.ordered:  # another number of instances: a table of hash buckets
            return replace(made, cuts=cuts_for(items.alive, made.buckets))
        return made

    def _cut(self, items: Items, table: RoutingTable) -> RoutingTable:
        """The inner strategy's initial table, with buckets of as many tuples each."""
        own = self.inner.initial(table.instances, table.groups, table.layout)
        return replace(own, version=table.version + 1, cuts=cuts_for(items.alive, own.buckets)).stating(table)

    def _drifted(self, items: Items, table: RoutingTable) -> RoutingTable | None:
        """The table with new cuts, if the present ones have become uneven and new ones would be much better."""
        if not table.ordered or not _tuples(items.alive) or (now := _fullest(items, table)) <= RECUT:
            return None
        fresh = self._cut(items, table)
        return fresh if fresh.cuts != table.cuts and _fullest(items, fresh) <= now / 2 else None


def cuts_for(points: Points, buckets: int) -> tuple[int, ...]:
    """Where so many buckets begin, all but the first, if each is to have as many tuples of all sides together. Codes
    with more tuples than a bucket leave others empty. Tuples are those of the points, and no cut goes through one."""
    codes = np.concatenate([codes for codes, _ in points])
    order = np.argsort(codes, kind="stable")
    codes, first = np.unique(codes[order], return_index=True)
    weights = np.add.reduceat(np.concatenate([weights for _, weights in points])[order], first)
    before = np.cumsum(weights) - weights
    wanted = np.arange(1, buckets) / buckets * weights.sum()
    at = np.searchsorted(before, wanted)  # the codes from here on have at least as much before them
    nearer = np.maximum(at - 1, 0)
    below = wanted - before[nearer] < np.append(before, weights.sum())[at] - wanted
    some = np.where(below, nearer, np.minimum(at, len(codes) - 1))
    return tuple(codes[some].tolist())


def _tuples(points: Points) -> float:
    return sum(float(weights.sum()) for _, weights in points)


def _fullest(items: Items, table: RoutingTable) -> float:
    """What the fullest instance stores over the mean, by the points alive."""
    stored = stored_volume(table, items.alive).sum(axis=0)
    return float(stored.max() / stored.mean())
