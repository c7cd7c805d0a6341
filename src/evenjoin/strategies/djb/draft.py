"""A draft: a table being planned, with the load its units would have kept up to date, edit by edit.

A *piece* is the part of an item (a key, or a bucket's remainder) that one side stores. Spread over units by shares w,

    L(i) = w_i * divisible + fixed      for every unit i with a share          divisible = arrived + results found
                                                                               fixed = arrivals of the other side

since a split spares a unit storing and finding, but every unit is probed by all of the other side (D-JB's duplication).

Units are balanced by *row*: a side's units (layout split), or all instances, for both sides at once (shared).
Invariant: `load` is what load/djb.py says of `table()`, for the rows' hosts. Mutable, private to one planning.
Keys that have no record follow their bucket; a key with a record stays when its bucket moves.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.hashing import I64
from evenjoin.load.djb import is_split, workloads
from evenjoin.load.items import F64, Items, regions_of_items
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import Biclique
from evenjoin.strategies.edit import Edit

WHOLE = 1 - 1e-9
"""A share from which on a unit has all of a piece."""
Bools = npt.NDArray[np.bool_]


class Draft:
    """`load` and `hosts` are [rows, instances], `shares` is [sides, n, instances]; `divisible`, `fixed` are [sides, n];
    `home` is [sides, n], the instance a piece is hashed to (-1: several). `sides[row]` are the sides of a row."""

    def __init__(self, items: Items, table: RoutingTable, theta: float) -> None:
        self.theta = theta
        self.items = items
        self.edit = Edit(table)
        self.sides: tuple[tuple[int, ...], ...] = ((0,), (1,)) if is_split(table) else ((0, 1),)
        self.divisible: F64 = items.arrived + items.results
        self.fixed: F64 = items.arrived[::-1]
        load = workloads(items, table)
        self.hosts: Bools = ~np.isnan(load)
        self.load: F64 = np.nan_to_num(load)
        regions = regions_of_items(items, table)
        self.shares: F64 = _shares_by_region(table)[:, regions]
        self.home: I64 = _unit_of_buckets(self.edit, table)[:, items.bucket]
        self.routed: Bools = items.is_key & (regions != table.compiled.region_of_bucket[items.bucket])

    def mean(self, row: int) -> float:
        """Eq. 2 of the row as planned so far."""
        return float(self.load[row].sum() / max(int(self.hosts[row].sum()), 1))

    def upper(self, row: int) -> float:
        return (1 + self.theta) * self.mean(row)

    def lower(self, row: int) -> float:
        return (1 - self.theta) * self.mean(row)

    def units(self, row: int) -> I64:
        """The instances of the row."""
        return np.flatnonzero(self.hosts[row])

    def whole(self, row: int, unit: int) -> F64:
        """[n] The work that would leave the unit with each item's pieces that are on this unit alone."""
        out = np.zeros(len(self.items))
        for side in self.sides[row]:
            alone = self.shares[side, :, unit] > WHOLE
            out += alone * (self.divisible[side] + self.fixed[side])
        return out

    def work(self, side: int, n: int) -> F64:
        """[instances] What each unit does for a piece."""
        share = self.shares[side, n]
        out: F64 = share * self.divisible[side, n] + (share > 0) * self.fixed[side, n]
        return out

    def put(self, side: int, n: int, share: F64) -> None:
        """A key's tuples of a side live where `share` ([instances]) says. Present units keep their order, and so most
        of their tuples; new ones come after them."""
        before = self.shares[side, n]
        now = self.edit.units(int(self.items.code[n])).units[side]
        units = [u for u in now if share[u] > 0] + [int(u) for u in np.flatnonzero((share > 0) & (before == 0))]
        weights = tuple(round(float(share[u]), 6) for u in units)
        self.edit.move_key(int(self.items.code[n]), side, tuple(units), weights if len(units) > 1 else None)
        code = int(self.items.code[n])
        self.routed[n] = self.edit.units(code) != self.edit.home(code)
        self._place(side, np.array([n]), share / share.sum())

    def move_whole(self, row: int, n: int, source: int, to: int) -> None:
        """Everything of a key that is on `source` alone goes to `to`: both sides' pieces, if both are there."""
        for side in self.sides[row]:
            if self.shares[side, n, source] > WHOLE:
                self.put(side, n, self.one(to))

    def move_bucket(self, side: int, bucket: int, to: int) -> None:
        """The bucket's tuples of a side, with its keys that have no record, live on `to`."""
        self.edit.move_bucket(bucket, side, (to,))
        within = self.items.bucket == bucket
        self.home[side, within] = to
        self._place(side, np.flatnonzero(within & ~self.routed), self.one(to))

    def one(self, unit: int) -> F64:
        """[instances] All on one unit."""
        out = np.zeros(self.load.shape[1])
        out[unit] = 1.0
        return out

    def table(self) -> RoutingTable:
        return self.edit.table()

    def _place(self, side: int, rows: I64, share: F64) -> None:
        row = side if len(self.sides) > 1 else 0
        divisible, fixed = self.divisible[side, rows], self.fixed[side, rows]
        before = self.shares[side, rows]
        self.load[row] += share * divisible.sum() + (share > 0) * fixed.sum()
        self.load[row] -= divisible @ before + fixed @ (before > 0)
        self.shares[side, rows] = share


def _shares_by_region(table: RoutingTable) -> F64:
    """[sides, regions, instances] The share of each region that each instance stores."""
    out = np.zeros((table.sides, len(table.regions), table.instances))
    for number, region in enumerate(table.regions):
        if isinstance(region.topology, Biclique):
            for side, units in enumerate(region.topology.units):
                weights = region.topology.weights[side] if region.topology.weights else (1.0,) * len(units)
                out[side, number, list(units)] = np.array(weights) / sum(weights)
    return out


def _unit_of_buckets(edit: Edit, table: RoutingTable) -> I64:
    """[sides, buckets] The unit each bucket is stored on; -1 if on several."""
    hashed = [edit.bucket(bucket).units for bucket in range(table.buckets)]
    return np.array(
        [[u[side][0] if len(u[side]) == 1 else -1 for u in hashed] for side in range(table.sides)], np.int64
    )
