"""D-JB's load and costs: Definitions 1 to 3 and eq. 1 to 4 of "D-JB: An Online Join Method for Skewed and Varied Data
Streams" (Wang, Feng, Shi; ICIS 2018), as functions of items and tables.

    L(pu)      tuples stored + tuples that probed + results of the interval, of the units `pu` hosts
    theta(pu)  |L(pu) - mean| / mean                                                          (eq. 1, 2)
    C(f)       alpha * routing + beta * duplication + gamma * migration                       (eq. 3)

The paper leaves the "total workload" of a unit open: we take `UnitLoads.work`. It is counted where the paper wants it
even: in layout `split` per side, and in layout `shared`, where an instance hosts units of all sides, per instance. With
n sides that is, for a key whose tuples are all on one instance, n * (all its arrivals) + all its results: each tuple is
stored once and probes n - 1 stores.

Arrays are [rows, instances]. A row is a side (split), or there is one row for all (shared). NaN stands where an
instance has no unit of the row. Pure; cost O(items + units). Does not plan: that is strategies/djb/.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenjoin.load.items import F64, Items, loads, moved_tuples, regions_of_items
from evenjoin.placement.shares import holdings
from evenjoin.placement.table import Keys, RoutingTable
from evenjoin.placement.topology import Biclique, Role


def workloads(items: Items, table: RoutingTable) -> F64:
    """[rows, instances] L(pu) of every processing unit."""
    units = loads(items, table)
    if table.layout == "shared":
        total: F64 = np.sum([unit.work for unit in units], axis=0)[None, :]
        return total
    out = np.full((len(units), table.instances), np.nan)
    for row, unit in enumerate(units):
        out[row, unit.hosts] = unit.work[unit.hosts]
    return out


def mean_workload(load: F64) -> F64:
    """[rows] Eq. 2: the mean of the workloads of a row's units; 0 for a row without units."""
    count = np.maximum((~np.isnan(load)).sum(axis=1), 1)
    out: F64 = np.nansum(load, axis=1) / count
    return out


def factors(load: F64) -> F64:
    """[rows, instances] Eq. 1: theta(pu), against the mean of the row. All zero where there is no work."""
    mean = mean_workload(load)[:, None]
    out: F64 = np.abs(load - mean) / np.where(mean > 0, mean, 1.0)
    return out


def best_division(load: F64) -> int:
    """How many units the first of two sides should have, for the heavier of the two means to be least (Alg. 2, line 5).

    Each side keeps at least one unit. Of divisions that are equally good the one nearest to the present is taken.
    """
    units = np.asarray((~np.isnan(load)).sum(axis=1))
    spare = int(np.isnan(load).all(axis=0).sum())
    total = np.nansum(load, axis=1)
    first = np.arange(1, int(units.sum()) + spare)
    heavier = np.maximum(total[0] / first, total[1] / first[::-1])
    return int(first[np.lexsort((np.abs(first - units[0]), np.round(heavier, 9)))[0]])


def side_gap(load: F64) -> float:
    """How far the sides' means are from the mean of all units, relative to it. 0 if no other division of the units
    between the two sides would be better."""
    if len(load) != 2 or best_division(load) == (~np.isnan(load[0])).sum():
        return 0.0
    overall = float(np.nanmean(load))
    return float(np.abs(mean_workload(load) - overall).max() / overall) if overall > 0 else 0.0


def imbalance(load: F64) -> float:
    """The largest theta(pu), or the gap between the sides if that is larger: what eq. 4 keeps below theta_max."""
    return max(float(np.nanmax(factors(load), initial=0.0)), side_gap(load))


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of one plan (Definition 3).

    routing       records that it adds to the routing table
    duplication   messages of the interval that are sent only because keys are split (m)
    migration     stored tuples that move (n)
    """

    routing: float
    duplication: float
    migration: float


def costs(items: Items, old: RoutingTable, new: RoutingTable) -> Costs:
    """What it costs to go from one table to the other. Duplication is that of the whole new table, not of the change: a
    plan that keeps keys split goes on paying for them, and one that merges them does not."""
    return Costs(len(records(new) - records(old)), duplicated(items, new), moved_tuples(items, old, new))


def weights(plans: Sequence[Costs], hash_us: float, transfer_us: float) -> tuple[float, float, float]:
    """alpha, beta, gamma of eq. 3, from T_total = T_hash + m * T_trans + n * T_trans.

    m and n are the means over the plans compared, because eq. 3 has one alpha, beta and gamma for all f. Taken from
    each plan alone, they would make C a mean of the plan's own costs, which sinks when a plan sends more of the
    cheaper kind. A time that was not measured (0) is taken to be the other one; if neither was measured, both are 1.
    """
    hashing, transfer = hash_us or transfer_us or 1.0, transfer_us or hash_us or 1.0
    sent = transfer * sum(plan.duplication for plan in plans) / len(plans)
    moved = transfer * sum(plan.migration for plan in plans) / len(plans)
    total = hashing + sent + moved
    return hashing / total, sent / total, moved / total


def total_costs(plans: Sequence[Costs], hash_us: float, transfer_us: float) -> list[float]:
    """C(f) of each plan, eq. 3."""
    alpha, beta, gamma = weights(plans, hash_us, transfer_us) if plans else (0.0, 0.0, 0.0)
    return [alpha * plan.routing + beta * plan.duplication + gamma * plan.migration for plan in plans]


def records(table: RoutingTable) -> frozenset[int]:
    """The keys in the paper's routing table: those with a region of their own."""
    return frozenset(code for region in table.regions if isinstance(region.takes, Keys) for code in region.takes.codes)


def duplicated(items: Items, table: RoutingTable) -> float:
    """Messages of the interval that would not be sent without splitting. Under a Biclique these are for each key the
    arrivals of the other sides, times the units beyond the first that they must probe; under a Cube the copies of its
    arrivals."""
    regions, total = regions_of_items(items, table), 0.0
    alone = np.array([isinstance(region.topology, Biclique) for region in table.regions])[regions]
    for side in range(table.groups):
        held = holdings(table, side, Role.STORE)
        units = np.bincount(held.region, minlength=len(table.regions))[regions]
        copies = np.bincount(held.region, held.share, len(table.regions))[regions]
        total += float(np.where(alone, items.asking[side] * (units - 1), items.arrived[side] * (copies - 1)).sum())
    return total
