"""D-JB's load and costs: Definitions 1 to 3 and eq. 1 to 4 of "D-JB: An Online Join Method for Skewed and Varied Data
Streams" (Wang, Feng, Shi; ICIS 2018), as functions of items and tables.

    L(pu)      the workload of the units that `pu` hosts                                      (Table 1)
    theta(pu)  |L(pu) - mean| / mean                                                          (eq. 1, 2)
    T_total    T_hash * records + T_trans * (m + n), in microseconds                          (section 3.2)

The paper leaves L open ("the total workload in pu") and names no theta_max. Two readings of L are offered:

    work      tuples stored + tuples that probed + results of the interval: what a batch costs (`UnitLoads.work`)
    stored    tuples that the units store: the memory, and what an engine scans that probes by looking at every tuple

By `work` the two sides of a join differ by their results only, whatever their rates are: each tuple that is stored on
one side probes the other. So units change sides (S2SM) for results, and by `stored` for what each side keeps.

L is counted where the paper wants it even: in layout `split` per side, and in layout `shared`, where an instance hosts
units of all sides, per instance. With n sides the work of a key whose tuples are all on one instance is n * (all its
arrivals) + all its results: each tuple is stored once and probes n - 1 stores.

Eq. 3 weighs the three costs with alpha, beta and gamma, their parts of T_total. Taken from each plan alone, as the
paper has it, they make C a mean of the plan's own costs, which sinks when a plan sends more of the cheaper kind. Taken
from all plans together, a plan that nobody chooses changes the choice. So plans are compared by T_total itself.

Arrays are [rows, instances]. A row is a side (split), or there is one row for all (shared). NaN stands where an
instance has no unit of the row. Pure; cost O(items + units). Does not plan: that is strategies/djb/.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenjoin.load.items import F64, Items, loads, moved_tuples, regions_of_items
from evenjoin.placement.table import Keys, RoutingTable
from evenjoin.placement.topology import Biclique, Topology, pairs_of

Measure = Literal["work", "stored"]
"""What L counts; see the top of this file."""


def workloads(items: Items, table: RoutingTable, measure: Measure = "work") -> F64:
    """[rows, instances] L(pu) of every processing unit."""
    units = loads(items, table)
    of_unit = [unit.work if measure == "work" else unit.stored for unit in units]
    if table.layout == "shared":
        total: F64 = np.sum(of_unit, axis=0)[None, :]
        return total
    out = np.full((len(units), table.instances), np.nan)
    for row, unit in enumerate(units):
        out[row, unit.hosts] = of_unit[row][unit.hosts]
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


def side_gap(load: F64, theta: float) -> float:
    """The largest theta(pu) against the mean of all units (Alg. 2, lines 4, 7 and 12), if units should change sides:
    if a side's mean is further than theta from the overall mean (line 5), and another division of the units between the
    two sides would be better. Else 0: then no unit can be nearer to the overall mean than its side is."""
    overall = float(np.nansum(load) / max(int((~np.isnan(load)).sum()), 1))
    if len(load) != 2 or overall <= 0 or np.abs(mean_workload(load) - overall).max() <= theta * overall:
        return 0.0
    if best_division(load) == (~np.isnan(load[0])).sum():
        return 0.0
    return float(np.nanmax(np.abs(load - overall)) / overall)


def imbalance(load: F64, theta: float = 0.0) -> float:
    """The largest theta(pu), what eq. 4 keeps below theta_max. It is against the mean of the unit's row, and also
    against the mean of all units where the sides are further than `theta` apart."""
    return max(float(np.nanmax(factors(load), initial=0.0)), side_gap(load, theta))


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

    def total_us(self, hash_us: float, transfer_us: float) -> float:
        """T_total of section 3.2 in microseconds: each record is hashed (T_hash), and each message and each tuple that
        moves is sent (T_trans). The paper counts T_hash once; here it is once a record, so that records cost something.
        A time that was not measured (0) is taken to be the other one; if neither was measured, both are 1."""
        hashing, transfer = hash_us or transfer_us or 1.0, transfer_us or hash_us or 1.0
        return hashing * self.routing + transfer * (self.duplication + self.migration)


def costs(items: Items, old: RoutingTable, new: RoutingTable) -> Costs:
    """What it costs to go from one table to the other. Duplication is that of the whole new table, not of the change: a
    plan that keeps keys split goes on paying for them, and one that merges them does not."""
    return Costs(len(records(new) - records(old)), duplicated(items, new), moved_tuples(items, old, new))


def records(table: RoutingTable) -> frozenset[int]:
    """The keys in the paper's routing table: those with a region of their own."""
    return frozenset(code for region in table.regions if isinstance(region.takes, Keys) for code in region.takes.codes)


def duplicated(items: Items, table: RoutingTable) -> float:
    """Messages of the interval that `place` makes for split keys, beyond those it would make if they followed their
    buckets."""
    regions, home = regions_of_items(items, table), table.compiled.region_of_cell[items.bucket]
    some = np.flatnonzero(
        np.array([is_split(region.topology) for region in table.regions])[regions] & (regions != home)
    )
    pairs, inverse = np.unique(np.stack([regions[some], home[some]]), axis=1, return_inverse=True)
    if items.askers is not None:
        topology = [region.topology for region in table.regions]
        return sum(asked_more(items, n, topology[regions[n]], topology[home[n]]) for n in some.tolist())
    total = 0.0
    for side in range(table.groups):
        more = [
            messages(table.regions[r].topology, side) - messages(table.regions[h].topology, side) for r, h in pairs.T
        ]
        total += float(items.arrived[side, some] @ np.array(more, np.float64)[inverse.reshape(-1)])
    return total


def asked_more(items: Items, n: int, now: Topology, home: Topology) -> float:
    """The same of one key where buckets are ordered: each tuple that asks for it is sent to all its units."""
    assert items.askers is not None
    assert isinstance(now, Biclique)
    assert isinstance(home, Biclique)
    more = [len(set(one)) - len(set(other)) for one, other in zip(now.units, home.units, strict=True)]
    return float(items.askers[:, n] @ np.array(more, np.float64))


def is_split(topology: Topology) -> bool:
    """Whether tuples with one code are stored on several instances."""
    if isinstance(topology, Biclique):
        return any(len(set(units)) > 1 for units in topology.units)
    return len(set(topology.cells)) > 1


def messages(topology: Topology, side: int) -> float:
    """How many messages a tuple of the side makes, on average. A tuple that is stored and probes at the same instance
    is one message there."""
    if not isinstance(topology, Biclique):
        slots = topology.slots(side)
        return sum(slot.weight * len(slot.targets) for slot in slots) / sum(slot.weight for slot in slots)
    met = {one for pair in pairs_of(topology.meets, len(topology.units)) if side in pair for one in pair} - {side}
    probed = {unit for other in met for unit in topology.units[other]}
    own = topology.units[side]
    weights = topology.weights[side] if topology.weights is not None else (1.0,) * len(own)
    apart = sum(weight for unit, weight in zip(own, weights, strict=True) if unit not in probed)
    return len(probed) + apart / sum(weights)
