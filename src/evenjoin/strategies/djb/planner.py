"""D-JB: Dynamic Join-Biclique (Wang, Feng, Shi; ICIS 2018). Hash partitioning that moves keys, and splits the hot ones.

    initial    hash buckets, several per unit, so that buckets can go where keys are too small to matter
    imbalance  the largest load balance factor theta(pu) (Definition 1), against theta_max
    plan       of the migration functions f (each a choice of heuristics, with or without S2SM) the cheapest by eq. 3
               among those that keep every theta(pu) <= theta_max (eq. 4); if none does, the most even one

Guarantee: a proposed table is never less even than the present one, and no unit's load rises above the present
heaviest. (The second is needed because splitting adds probes everywhere, which by itself also looks even.) Everything
is a function of the report. Not guaranteed: theta(pu) <= theta_max. Not here: the load and the costs (load/djb.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from evenjoin.load.djb import costs, factors, imbalance, records, total_costs, workloads
from evenjoin.load.items import F64, Items
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import Layout, RoutingTable
from evenjoin.strategies.base import Bounds, register, require
from evenjoin.strategies.bistream import hash_table
from evenjoin.strategies.djb.ism import CHOICES, ism
from evenjoin.strategies.djb.s2sm import s2sm
from evenjoin.strategies.djb.together import draft_of


@register("djb")
@dataclass(frozen=True, slots=True)
class DJB:
    """D-JB.

    theta_max   the bound of the load balance factor
    aim         the part of it that plans are made for (1: eq. 4 to the letter, see strategies/base.py)
    tracked     how many heavy keys each instance reports; only these can move or be split
    buckets     the size of the hash table (0: 4 per unit)
    """

    theta_max: float = 0.2
    aim: float = 0.25
    tracked: int = 128
    buckets: int = 0

    def __post_init__(self) -> None:
        tracked, buckets = self.tracked, self.buckets
        wanted = {
            "theta_max": ("a number between 0 and 1", 0 < self.theta_max < 1),
            "aim": ("a number above 0 and at most 1", 0 < self.aim <= 1),
            "tracked": ("a whole number of at least 1", type(tracked) is int and tracked >= 1),
            "buckets": ("a whole number of at least 0", type(buckets) is int and buckets >= 0),
        }
        require(self, wanted)

    @property
    def origin(self) -> str:
        return f"djb(buckets={self.buckets})" if self.buckets else "djb"

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.theta_max, self.aim)

    @property
    def threshold(self) -> float:
        return self.theta_max

    @property
    def alert(self) -> float:
        return self.bounds.alert

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable:
        return hash_table(self.origin, self.buckets, instances, sides, layout)

    def load(self, items: Items, table: RoutingTable) -> F64:
        return workloads(items, table)

    def imbalance(self, items: Items, table: RoutingTable) -> float:
        return imbalance(workloads(items, table))

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> RoutingTable | None:
        """Eq. 4, for `aim` of theta_max: the cheapest table that meets it, else the most even one."""
        before = workloads(items, table)
        if imbalance(before) <= self.alert:
            return None
        wanted = self.bounds.goal
        offers = [offer for offer in candidates(items, table, wanted) if _better(before, items, offer)]
        if not offers:
            return None
        uneven = [self.imbalance(items, offer) for offer in offers]
        bound = max(wanted, min(uneven))
        offers = [offer for offer, factor in zip(offers, uneven, strict=True) if factor <= bound]
        price = total_costs([costs(items, table, offer) for offer in offers], report.hash_us, report.transfer_us)
        return offers[price.index(min(price))]


def candidates(items: Items, table: RoutingTable, theta_max: float) -> Iterator[RoutingTable]:
    """The tables that the migration functions F make, without those that change nothing."""
    for sides in ("as they are", "changed") if table.layout == "split" else ("as they are",):
        for use in CHOICES:
            if use.merge and use.move and not records(table):
                continue  # there is nothing to merge: the same choice without H3 gives the same table
            draft = draft_of(items, table, theta_max)
            if sides == "changed" and not s2sm(draft):
                break
            for row in range(len(draft.sides)):
                ism(draft, row, use)
            made = draft.table()
            if made is not table:
                yield made


def _better(before: F64, items: Items, offer: RoutingTable) -> bool:
    """Whether an offer is an improvement. It must not be less even, have a unit heavier than the heaviest now, or
    leave an instance without a unit. And the whole must be more even, or one row more even and none less."""
    after = workloads(items, offer)
    if (np.isnan(after).all(axis=0) & ~np.isnan(before).all(axis=0)).any():
        return False
    less = imbalance(before) - imbalance(after)
    rows = np.nanmax(factors(before), axis=1) - np.nanmax(factors(after), axis=1)
    if less < 0 or np.nanmax(after) > np.nanmax(before) + 1e-9:
        return False
    return bool(less > 1e-9 or (rows.max() > 1e-9 and rows.min() > -1e-12))
