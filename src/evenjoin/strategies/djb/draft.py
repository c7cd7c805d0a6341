"""A draft: a table while it is planned, together with the load that its units would have. Each edit updates both.

A *piece* is the part of an item (a key, or a bucket's remainder) that one side stores. Spread over units by shares w,

    L(i) = w_i * divisible + fixed      for every unit i with a share          divisible = arrived + results found
                                                                               fixed = arrivals of the other sides

because a split divides what a unit stores and finds, while every unit is probed by all tuples of the other sides
(D-JB's duplication).

Units are balanced by *row*. In layout `split` a row is the units of one side; in `shared` the one row is all instances,
with the units of all sides.

Invariant: `load` is what load/djb.py says of `table()`, for the hosts of each row. A key without a record follows its
bucket; a key with a record stays when its bucket moves.
Mutable, and private to one planning. Not here: which edits to make (moves.py, s2sm.py, ../readj.py).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.hashing import I64
from evenjoin.load.djb import workloads
from evenjoin.load.items import F64, Items, regions_of_items
from evenjoin.placement.shares import shares_by_region
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import Role
from evenjoin.strategies.edit import Edit

ALL_OF_A_PIECE = 1 - 1e-9
"""A unit whose share of a piece is above this has all of it; the difference allows for rounding."""
Bools = npt.NDArray[np.bool_]


class Abroad(NamedTuple):
    """Keys that are not where they are hashed to. Arrays [n]: whether the key is away at all; whether it is on several
    units; and the work that would come back with it."""

    away: Bools
    split: Bools
    size: F64


class Draft:
    """A table while it is planned; see the top of this file.

    sides               by row, the sides that it balances
    load, hosts         [rows, instances]; the load, and whether the instance has a unit of the row
    shares              [sides, n, instances]; the share of each item's piece
    divisible, fixed    [sides, n]; the two parts of a piece's work
    home                [sides, n]; the instance that a piece is hashed to (-1: several)
    routed              [n]; whether the item is a key with a record
    splits              whether the units of a split key may have different shares
    """

    splits: Literal["by weight", "evenly"] = "by weight"

    def __init__(self, items: Items, table: RoutingTable, theta: float) -> None:
        self.theta = theta
        self.items = items
        self.edit = Edit(table)
        every = range(table.groups)
        self.sides: tuple[tuple[int, ...], ...] = (
            tuple((side,) for side in every) if table.layout == "split" else (tuple(every),)
        )
        self.divisible: F64 = items.arrived + items.results
        self.fixed: F64 = items.asking
        load = workloads(items, table)
        self.hosts: Bools = ~np.isnan(load)
        self.load: F64 = np.nan_to_num(load)
        regions = regions_of_items(items, table)
        self.shares: F64 = np.stack([shares_by_region(table, side, Role.STORE)[regions] for side in every])
        self.home: I64 = _unit_of_buckets(self.edit, table)[:, items.bucket]
        self.routed: Bools = items.is_key & (regions != table.compiled.region_of_cell[items.bucket])

    def mean(self, row: int) -> float:
        """Eq. 2, the mean load of the row, as planned so far."""
        return float(self.load[row].sum() / max(int(self.hosts[row].sum()), 1))

    def upper(self, row: int) -> float:
        return (1 + self.theta) * self.mean(row)

    def lower(self, row: int) -> float:
        return (1 - self.theta) * self.mean(row)

    def units(self, row: int) -> I64:
        """The instances of the row."""
        return np.flatnonzero(self.hosts[row])

    def whole(self, row: int, unit: int) -> F64:
        """[n] The work of each item's pieces that are on this unit alone. It would leave the unit with them."""
        out = np.zeros(len(self.items))
        for side in self.sides[row]:
            alone = self.shares[side, :, unit] > ALL_OF_A_PIECE
            out += alone * (self.divisible[side] + self.fixed[side])
        return out

    def of_row(self, row: int) -> F64:
        """[n] The work of all of a row's pieces of each item, if they are all on one unit."""
        sides = list(self.sides[row])
        out: F64 = (self.divisible[sides] + self.fixed[sides]).sum(axis=0)
        return out

    def work(self, side: int, n: int) -> F64:
        """[instances] The work of each unit for one piece."""
        share = self.shares[side, n]
        out: F64 = share * self.divisible[side, n] + (share > 0) * self.fixed[side, n]
        return out

    def put(self, side: int, n: int, share: F64) -> None:
        """Place a key's tuples of a side as `share` [instances] says. Units that it already has keep their order, and
        so most of their tuples; new units come after them."""
        before = self.shares[side, n]
        now = self.edit.units(int(self.items.code[n])).units[side]
        units = [u for u in now if share[u] > 0] + [int(u) for u in np.flatnonzero((share > 0) & (before == 0))]
        weights = tuple(round(float(share[u]), 6) for u in units)
        self.edit.move_key(int(self.items.code[n]), side, tuple(units), weights if len(units) > 1 else None)
        code = int(self.items.code[n])
        self.routed[n] = self.edit.units(code) != self.edit.home(code)
        self._place(side, np.array([n]), share / share.sum())

    def move_whole(self, row: int, n: int, source: int, to: int) -> None:
        """Move those pieces of a key from `source` to `to` that are on `source` alone: of all sides, if all are."""
        for side in self.sides[row]:
            if self.shares[side, n, source] > ALL_OF_A_PIECE:
                self.put(side, n, self.one(to))

    def move_bucket(self, side: int, bucket: int, to: int) -> None:
        """Move a bucket's tuples of a side to `to`, with those of its keys that have no record."""
        self.edit.move_bucket(bucket, side, (to,))
        within = self.items.bucket == bucket
        self.home[side, within] = to
        self._place(side, np.flatnonzero(within & ~self.routed), self.one(to))

    def move_buckets(self, row: int, bucket: int, source: int, to: int) -> None:
        """Move a bucket's tuples from `source` to `to`: those of the row's sides that it stores on `source`."""
        for side in self.sides[row]:
            if self.edit.bucket(bucket).units[side] == (source,):
                self.move_bucket(side, bucket, to)

    def abroad(self, row: int, unit: int) -> Abroad:
        """The keys with a record that are hashed to this unit and not all on it."""
        away, split = np.zeros((2, len(self.items)), bool)
        size = np.zeros(len(self.items))
        for side in self.sides[row]:
            piece = self.routed & (self.home[side] == unit) & (self.shares[side, :, unit] < ALL_OF_A_PIECE)
            away |= piece
            split |= piece & ((self.shares[side] > 0).sum(axis=1) > 1)
            size += piece * (self.divisible[side] + self.fixed[side])
        return Abroad(away, split, size)

    def load_with(self, row: int, n: int, unit: int) -> F64:
        """[instances] The load of the row if a key's pieces that are hashed to this unit came back to it."""
        after: F64 = self.load[row].copy()
        for side in self._away(row, n, unit):
            after += self.one(unit) * (self.divisible[side, n] + self.fixed[side, n]) - self.work(side, n)
        return after

    def bring_back(self, row: int, n: int, unit: int) -> None:
        """Bring a key's pieces back to this unit that are hashed to it."""
        for side in self._away(row, n, unit):
            self.put(side, n, self.one(unit))

    def _away(self, row: int, n: int, unit: int) -> list[int]:
        own = self.shares[:, n, unit] < ALL_OF_A_PIECE
        return [side for side in self.sides[row] if self.home[side, n] == unit and own[side]]

    def pieces_on(self, row: int, unit: int) -> dict[tuple[int, int], float]:
        """The pieces of keys that may be split to relieve this unit, as (side, n), with the divisible work that it has
        of each."""
        return {
            (side, int(n)): float(self.shares[side, n, unit] * self.divisible[side, n])
            for side in self.sides[row]
            for n in np.flatnonzero(self.items.is_key & (self.shares[side, :, unit] > 0))
        }

    def one(self, unit: int) -> F64:
        """[instances] The shares of a piece that is all on one unit."""
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


def _unit_of_buckets(edit: Edit, table: RoutingTable) -> I64:
    """[sides, buckets] The unit each bucket is stored on; -1 if on several."""
    hashed = [edit.bucket(bucket).units for bucket in range(table.buckets)]
    return np.array(
        [[u[side][0] if len(u[side]) == 1 else -1 for u in hashed] for side in range(table.groups)], np.int64
    )
