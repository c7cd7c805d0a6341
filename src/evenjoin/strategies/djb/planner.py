"""D-JB: Dynamic Join-Biclique (Wang, Feng, Shi; ICIS 2018). Hash partitioning that moves keys, and splits the hot ones.

    initial    hash buckets, several per unit, so that buckets can go where keys are too small to matter
    imbalance  the largest load balance factor theta(pu) (Definition 1), against theta_max
    plan       of the migration functions f (each a choice of heuristics, with or without S2SM)

                   the cheapest by T_total of those that keep every theta(pu) within `aim` of theta_max
                   else the cheapest of those within theta_max (eq. 4)
                   else the most even one, if it is more even by WORTH

The paper leaves two things open: what the load L of a unit is, and theta_max. Both are settings. It says nothing of a
constraint that cannot be met. Then the planner stays and says so, with the least theta that whole keys and buckets
allow, so that a table is not changed again and again for nothing. It also stays until SETTLED batches are counted,
unless theta is URGENT; and, where L is work, while a theta is no larger than chance makes it: loads are counts of
independent arrivals, and the largest of many units is always some way off. (Stored tuples are counted exactly.) And
while nothing expires, state grows, and with it results: a table that is even today would not be even in a few batches.
Then plans for L as work are made for the results of batches to come (`later` in load/items.py), unless that would be
out of bounds today.

Guarantee: a proposed table is never less even than the present one, and no unit's load rises above the present
heaviest. (The second is needed because splitting adds probes everywhere, which by itself also looks even.) Everything
is a function of the report. Not guaranteed: theta(pu) <= theta_max. Not here: the load and the costs (load/djb.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

import numpy as np

from evenjoin.load.djb import Measure, factors, imbalance, side_gap, workloads
from evenjoin.load.items import F64, Items, furthest, later
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import Layout, RoutingTable
from evenjoin.spec import JoinSpec
from evenjoin.strategies.base import Bounds, Plan, Stay, Strategy, halves, register, require
from evenjoin.strategies.bistream import hash_table
from evenjoin.strategies.djb.draft import Draft
from evenjoin.strategies.djb.ism import Heuristics, ism
from evenjoin.strategies.djb.s2sm import s2sm
from evenjoin.strategies.djb.together import draft_of
from evenjoin.strategies.ordered import ordered

BUCKETS_PER_UNIT = 16
"""So many buckets a unit let H1 reach the aim without records for small keys. (100 instances, 100,000 keys, zipf 0.4,
two seeds: 4 a unit end with 656 and 671 records, 8 with 24 and 25, 16 with 8 and 10, 32 with 10 and 14.) A report names
every bucket."""
WORTH = 0.1
"""Where theta_max cannot be met, a plan must lower theta by this part of itself."""
ROUNDING = 1e-9
"""How far above a bound a factor may be that was planned to meet it."""
SETTLED, URGENT = 4, 10.0
"""Until SETTLED batches are counted, only a theta above URGENT times theta_max is a reason: a plan for the counts of
fewer batches would have to be made again."""


@register("djb")
@dataclass(frozen=True, slots=True, init=False)
class DJB:
    """D-JB.

    theta_max   the bound of the load balance factor
    aim         the part of it that plans are made for (1: eq. 4 as it stands, see strategies/base.py)
    tracked     how many heavy keys each instance reports; only these can move by themselves or be split
    buckets     the size of the hash table (0: BUCKETS_PER_UNIT per unit)
    load        what L counts: "work" or "stored" (load/djb.py); kept as `measure`, since `load` is what it gives
    """

    theta_max: float
    aim: float
    tracked: int
    buckets: int
    measure: Measure

    def __init__(
        self, theta_max: float = 0.2, aim: float = 0.25, tracked: int = 128, buckets: int = 0, load: Measure = "work"
    ) -> None:
        given = {"theta_max": theta_max, "aim": aim, "tracked": tracked, "buckets": buckets, "measure": load}
        for name, value in given.items():
            object.__setattr__(self, name, value)
        wanted = {
            "theta_max": ("a number between 0 and 1", 0 < theta_max < 1),
            "aim": ("a number above 0 and at most 1", 0 < aim <= 1),
            "tracked": ("a whole number of at least 1", type(tracked) is int and tracked >= 1),
            "buckets": ("a whole number of at least 0", type(buckets) is int and buckets >= 0),
            "measure": (f"one of {get_args(Measure)} (it is set as `load`)", load in get_args(Measure)),
        }
        require(self, wanted)

    @property
    def origin(self) -> str:
        return f"djb(buckets={self.buckets})" if self.buckets else "djb"

    def for_join(self, spec: JoinSpec) -> Strategy:
        return ordered(self, spec)

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
        buckets = self.buckets or BUCKETS_PER_UNIT * max(map(len, halves(instances, sides, layout)))
        return hash_table(self.origin, buckets, instances, sides, layout)

    def load(self, items: Items, table: RoutingTable) -> F64:
        return workloads(items, table, self.measure)

    def imbalance(self, items: Items, table: RoutingTable) -> float:
        return imbalance(self.load(items, table), self.bounds.goal)

    @property
    def exact(self) -> bool:
        """Whether L is known exactly: stored tuples are counted, the work of batches to come is not."""
        return self.measure == "stored"

    def relieved(self, items: Items, old: RoutingTable, new: RoutingTable) -> float:
        """How much of L instances are relieved of: the guards judge a change by what the planner balances."""
        less = np.nansum(self.load(items, old), axis=0) - np.nansum(self.load(items, new), axis=0)
        return float(less[less > 0].sum())

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> Plan:
        """Eq. 4 in three tiers; see the top of this file."""
        now = self.imbalance(items, table)
        if now <= self.alert:
            return None
        if report.rates is not None and report.rates.batches < SETTLED and now <= URGENT * self.theta_max:
            return Stay(f"theta {now:.3f} is not urgent, and only {report.rates.batches} batches are counted yet")
        for future in later(items, report) if self.measure == "work" else ():
            made = self._plan(report, future, table)
            new = table if isinstance(made, Stay) else made.table()
            before, after = self.load(items, table), self.load(items, new)
            if _better(before, after, self.bounds.goal) and self.imbalance(items, new) <= self.theta_max:
                return new
        made = self._plan(report, items, table)
        return made if isinstance(made, Stay) else made.table()

    def _plan(self, report: LoadReport, items: Items, table: RoutingTable) -> Draft | Stay:
        before, goal = self.load(items, table), self.bounds.goal
        draft, now = draft_of(items, table, goal, self.measure), imbalance(before, goal)
        if self.measure == "work" and not significant(draft, goal, self.theta_max):
            return Stay(f"theta {now:.3f} is no more than batches differ by chance")
        offers = [offer for offer in candidates(draft) if _better(before, offer.workloads, goal)]
        uneven = [imbalance(offer.workloads, goal) for offer in offers]
        bound = self._bound(now, min(uneven, default=now))
        if bound is None:
            return Stay(_stuck(now, min(uneven, default=now), self.theta_max, draft))
        price = {
            number: offers[number].costs.total_us(report.hash_us, report.transfer_us)
            for number, factor in enumerate(uneven)
            if factor <= bound + ROUNDING
        }
        return offers[min(price, key=lambda number: price[number])]

    def _bound(self, now: float, least: float) -> float | None:
        """How even a table must be, if the most even one has the factor `least`; None: it is not worth a change."""
        for bound in (self.bounds.goal, self.theta_max):
            if least <= bound + ROUNDING < now:
                return bound
        return least if least <= (1 - WORTH) * now and now > self.theta_max else None


def significant(draft: Draft, goal: float, most: float) -> bool:
    """Whether a unit is further from the goal than chance would put the furthest of all units, and from theta_max
    (`most`) than chance would put this one; or the sides are too far apart."""
    if side_gap(draft.workloads, goal):
        return True
    for row in range(len(draft.sides)):
        units, mean = draft.units(row), draft.mean(row)
        off, one = np.abs(draft.load[row, units] - mean), draft.noise(row)[units]
        if ((off - goal * mean > furthest(len(units)) * one) & (off - most * mean > one)).any():
            return True
    return False


def candidates(base: Draft) -> Iterator[Draft]:
    """What the migration functions F make, without those that change nothing. F is each choice of heuristics:

        H3;  H1;  H3 + H1;  and, where H1 leaves a unit overloaded, H1 + H2 and H3 + H1 + H2 with each way to split

    with the sides as they are, and, if they are too far apart, after S2SM. (Where H1 suffices, H2 is never asked.)"""
    changed = base.copy()
    for start in (base, changed) if s2sm(changed) else (base,):
        found = list(_functions(start, "keep records"))
        if base.routed.any():
            found += _functions(start, "merge")
        yield from (draft for draft in found if draft.changed)


def _functions(start: Draft, use: str) -> Iterator[Draft]:
    if use == "merge":
        start = _made(start, Heuristics(merge=True, move=False))
        yield start
    moved = _made(start, Heuristics(merge=False, move=True))
    yield moved
    if moved.stuck:
        yield _made(start, Heuristics(merge=False, move=True, split="narrow"))
        yield _made(start, Heuristics(merge=False, move=True, split="wide"))


def _made(start: Draft, use: Heuristics) -> Draft:
    draft = start.copy()
    for row in range(len(draft.sides)):
        ism(draft, row, use)
    return draft


def _better(before: F64, after: F64, theta: float) -> bool:
    """Whether an offer is an improvement. It must not be less even, have a unit heavier than the heaviest now, or
    leave an instance without a unit. And the whole must be more even, or one row more even and none less."""
    if (np.isnan(after).all(axis=0) & ~np.isnan(before).all(axis=0)).any():
        return False
    less = imbalance(before, theta) - imbalance(after, theta)
    rows = np.nanmax(factors(before), axis=1) - np.nanmax(factors(after), axis=1)
    if less < 0 or np.nanmax(after) > np.nanmax(before) * (1 + 1e-12) + 1e-9:
        return False
    return bool(less > 1e-9 or (rows.max() > 1e-9 and rows.min() > -1e-12))


def _stuck(now: float, least: float, theta_max: float, draft: Draft) -> str:
    """Why there is no plan, as a sentence."""
    floor, what = draft.floor()
    if floor > theta_max:
        return (
            f"theta stays {now:.3f}: {what} alone is {1 + floor:.2f} times the mean load, so {floor:.3f} is the floor"
        )
    return f"theta stays {now:.3f}: no table was found with less than {least:.3f}"
