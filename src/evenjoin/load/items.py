"""Items: the load of a batch as the pieces a table can place, and what any table would make of them.

An item is one key that is worth its own region (a heavy key, or one that has a region already), or what remains of a
bucket once its heavy keys are taken out. Nothing is counted twice: over all items the counts add up to the report's.

    bucket 0: 900 arrived = key 42: 700 + key 7: 150 + the remainder of bucket 0: 50

`loads(items, table)` says what each unit would have stored, been asked and found, had these items met that table: with
the table they did meet it repeats the report, with another it is the forecast planners and guards decide by. Under a
Biclique a tuple of an item is stored on one unit of its side (by weight) and probes every unit of the other, hence

    stored(s, i)  = sum of stored_k[s]  * share_k(s, i)         the papers' |R_i|
    arrived(s, i) = sum of arrived_k[s] * share_k(s, i)
    probes(s, i)  = sum of arrived_k[other side] over items with a unit of s on i        the papers' phi_i
    results(s, i) = sum of results_k[s] * share_k(s, i)

Pure arrays; cost O(items + units). Two sides. A Grid stores copies, and a ranged table has no buckets: both are left
out of `loads`. Their planners go by the tuples alive: the report's samples, or, where one region takes everything, as
many as the stored copies over the copies of a tuple.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.hashing import I64, bucket_of
from evenjoin.load.report import LoadReport
from evenjoin.placement.pieces import Points, moved_volume, stored_volume
from evenjoin.placement.table import Buckets, RoutingTable
from evenjoin.placement.topology import Biclique, Grid

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Items:
    """n items. `code` and `is_key` are [n] (the code of a remainder means nothing), `bucket` is [n]; `stored`,
    `arrived` and `results` are [sides, n]; `results[s]` were found in the store of side s. Of a ranged table the items
    are its cells, and `bucket` is the cell. `alive` are points for the tuples alive (empty: not known)."""

    code: I64
    is_key: npt.NDArray[np.bool_]
    bucket: I64
    stored: F64
    arrived: F64
    results: F64
    alive: Points = ()

    def __len__(self) -> int:
        return len(self.code)

    def fit(self, table: RoutingTable) -> bool:
        """Whether the table hashes to the same buckets, so that it can be asked about these items."""
        return is_matrix(table) or int((~self.is_key).sum()) == table.buckets

    def work(self, side: int) -> F64:
        """[n] What a unit of the side does for each item: store, be probed, find results."""
        out: F64 = self.arrived[side] + self.arrived[1 - side] + self.results[side]
        return out


@dataclass(frozen=True, slots=True)
class UnitLoads:
    """What the units of one side have, by instance: arrays [instances]. `hosts` are the instances with such a unit."""

    side: int
    hosts: I64
    stored: F64
    arrived: F64
    probes: F64
    results: F64

    @property
    def work(self) -> F64:
        """Tuples stored, tuples that probed, and results, of the interval."""
        out: F64 = self.arrived + self.probes + self.results
        return out


def items_of(report: LoadReport, table: RoutingTable) -> Items:
    """The items of a batch that ran under `table`."""
    sides, own = table.sides, table.compiled.key_codes
    cells = np.zeros((3, sides, table.cells))
    for side, cell, arrived, stored, results in report.cells:
        cells[:, side, cell] = arrived, stored, results
    alive = _alive(report, table, cells[1].sum(axis=1))
    if table.ranged:
        none = np.zeros(table.cells, np.int64)
        return Items(none, none > 0, np.arange(table.cells), cells[1], cells[0], cells[2], alive)
    heavy = [key for key in report.heavy if not _in(own, key.code)]
    codes = np.array([key.code for key in heavy], np.int64)
    counts = np.array([[key.arrived, key.stored, key.results] for key in heavy], np.float64).reshape(-1, 3, sides)
    counts = np.ascontiguousarray(counts.transpose(1, 2, 0))
    buckets = bucket_of(codes, table.buckets)
    rest = cells[:, :, : table.buckets].copy()
    for number in range(3):
        for side in range(sides):
            rest[number, side] -= np.bincount(buckets, counts[number, side], table.buckets)
    every = np.concatenate([counts, cells[:, :, table.buckets :], np.maximum(rest, 0.0)], axis=2)
    keys = len(codes) + len(own)
    return Items(
        np.concatenate([codes, own, np.zeros(table.buckets, np.int64)]),
        np.arange(keys + table.buckets) < keys,
        np.concatenate([buckets, bucket_of(own, table.buckets), np.arange(table.buckets)]),
        every[1],
        every[0],
        every[2],
        alive,
    )


def _alive(report: LoadReport, table: RoutingTable, copies: F64) -> Points:
    """The tuples alive as points: the samples, or, where one region takes everything, one point a side."""
    if len(report.samples) == table.sides:
        return tuple(
            (np.array([code for code, _ in side], np.int64), np.array([weight for _, weight in side], np.float64))
            for side in report.samples
        )
    if len(table.regions) != 1 or table.ranged:
        return ()
    one = ((np.zeros(1, np.int64), np.ones(1)),) * table.sides
    each = stored_volume(table, one).sum(axis=1)
    return tuple((np.zeros(1, np.int64), np.array([copies[side] / each[side]])) for side in range(table.sides))


def _in(sorted_codes: I64, code: int) -> bool:
    at = int(np.searchsorted(sorted_codes, code))
    return at < len(sorted_codes) and int(sorted_codes[at]) == code


def regions_of_items(items: Items, table: RoutingTable) -> I64:
    """[n] The region that takes each item: a key's own region, else its bucket's."""
    flat = table.compiled
    regions = flat.region_of_bucket[items.bucket]
    if len(flat.key_codes):
        found = np.minimum(np.searchsorted(flat.key_codes, items.code), len(flat.key_codes) - 1)
        own = items.is_key & (flat.key_codes[found] == items.code)
        regions = np.where(own, flat.key_regions[found], regions)
    return regions


def loads(items: Items, table: RoutingTable) -> tuple[UnitLoads, ...]:
    """What the units of each side would have, had these items met this table."""
    totals = np.zeros((4, table.sides, len(table.regions)))
    regions = regions_of_items(items, table) if not table.ranged else np.zeros(0, np.int64)
    for side in range(table.sides if not table.ranged else 0):
        for row, counts in enumerate(
            (items.stored[side], items.arrived[side], items.arrived[1 - side], items.results[side])
        ):
            totals[row, side] = np.bincount(regions, counts, len(table.regions))
    out = []
    for side in range(table.sides):
        region, unit, share = _units(table, side)
        sums: list[F64] = [
            np.bincount(unit, totals[row, side, region] * (1.0 if row == 2 else share), table.instances).astype(float)
            for row in range(4)
        ]
        out.append(UnitLoads(side, np.unique(unit), *sums))
    return tuple(out)


def work_by_instance(items: Items, table: RoutingTable) -> F64:
    """[instances] The work of all units each instance hosts."""
    total: F64 = np.sum([unit.work for unit in loads(items, table)], axis=0)
    return total


def moved_tuples(items: Items, old: RoutingTable, new: RoutingTable) -> float:
    """About how many stored tuples change place: exact but for the shares of split keys and of samples."""
    if is_matrix(old) or is_matrix(new):
        return moved_volume(old, new, items.alive) if items.alive else 0.0
    total, most = 0.0, max(old.instances, new.instances)
    for side in range(old.sides):
        before, after = (_shares(items, table, side, most) for table in (old, new))
        total += float((items.stored[side] * np.maximum(after - before, 0.0).sum(axis=1)).sum())
    return total


def is_matrix(table: RoutingTable) -> bool:
    """Whether a table has grids or areas: tuples have copies, and its planner goes by capacity."""
    return table.ranged or any(isinstance(region.topology, Grid) for region in table.regions)


def _shares(items: Items, table: RoutingTable, side: int, instances: int = 0) -> F64:
    """[n, instances] The share of each item that each instance stores; of the table's instances, or of more."""
    region, unit, share = _units(table, side)
    by_region = np.zeros((len(table.regions), instances or table.instances))
    np.add.at(by_region, (region, unit), share)
    return by_region[regions_of_items(items, table)]


def _units(table: RoutingTable, side: int) -> tuple[I64, I64, F64]:
    """Every unit of a side: its region, its instance and its share of the region."""
    region: list[int] = []
    unit: list[int] = []
    share: list[float] = []
    for number, entry in enumerate(table.regions):
        if isinstance(entry.topology, Biclique):
            units = entry.topology.units[side]
            weights = entry.topology.weights[side] if entry.topology.weights else (1.0,) * len(units)
            region += [number] * len(units)
            unit += units
            share += [weight / sum(weights) for weight in weights]
    return np.array(region, np.int64), np.array(unit, np.int64), np.array(share, np.float64)


def home_of_buckets(table: RoutingTable) -> dict[int, Biclique]:
    """Each bucket's topology."""
    return {
        bucket: region.topology
        for region in table.regions
        if isinstance(region.takes, Buckets) and isinstance(region.topology, Biclique)
        for bucket in region.takes.ids
    }
