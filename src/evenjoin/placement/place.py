"""place(table, side, codes, u) -> the instances each tuple goes to, and its role at each.

The one placement function: the dispatcher, migrations, the check of stored state, the simulator and the tests all
call it. Deterministic and vectorised; cost O(tuples * log(table) + messages).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.hashing import I64, Codes, bucket_of
from evenjoin.kernels.sorting import expand
from evenjoin.placement.table import Compiled, RoutingTable
from evenjoin.placement.topology import Role


class Placement(NamedTuple):
    """One message per entry: tuple `row` goes to `instance` with `role`. Rows ascend."""

    row: npt.NDArray[np.int64]
    instance: npt.NDArray[np.int32]
    role: npt.NDArray[np.uint8]

    def only(self, role: Role) -> Placement:
        keep = (self.role & int(role)) != 0
        return Placement(self.row[keep], self.instance[keep], self.role[keep])


def place(table: RoutingTable, side: int, codes: Codes, u: npt.NDArray[np.uint32]) -> Placement:
    """Where every tuple of `side` goes. At most one message per (tuple, instance): roles are OR-ed."""
    flat = table.compiled
    every, regions = regions_of(table, side, codes)
    slot = _slot(flat, table.sides, side, regions, u if every is None else u[every])
    count = flat.target[slot + 1] - flat.target[slot]
    if every is None and len(count) and count.max() == 1:
        rows, at = np.arange(len(codes), dtype=np.int64), flat.target[slot]
    else:
        rows = np.repeat(np.arange(len(codes), dtype=np.int64) if every is None else every, count)
        at = expand(flat.target[slot], count)
    where = Placement(rows, flat.instance[at], flat.role[at])
    return where if every is None or flat.apart else _merged(where, table.instances)


def _merged(where: Placement, instances: int) -> Placement:
    """One message per (tuple, instance) where several regions send it there."""
    key = where.row * instances + where.instance
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    role = np.bitwise_or.reduceat(where.role[order], first)
    return Placement(where.row[order][first], where.instance[order][first], role)


def stored_here(
    table: RoutingTable, side: int, codes: Codes, u: npt.NDArray[np.uint32], instance: int
) -> npt.NDArray[np.bool_]:
    """Which of the tuples the table stores on this instance."""
    where = place(table, side, codes, u)
    here = (where.instance == instance) & ((where.role & int(Role.STORE)) != 0)
    mask = np.zeros(len(codes), np.bool_)
    mask[where.row[here]] = True
    return mask


def regions_of(table: RoutingTable, side: int, codes: Codes) -> tuple[I64 | None, I64]:
    """The regions that take each tuple, as (row, region) pairs, rows ascending; row None: one region each, in order.

    A code's own region if it has one, else its bucket's; of a ranged table all areas whose interval has the code."""
    flat = table.compiled
    if table.ranged:
        spans = side * (len(flat.cuts) + 1) + cells_of(table, codes)
        count = flat.span[spans + 1] - flat.span[spans]
        if (count == 1).all():
            return None, flat.span_region[flat.span[spans]]
        return np.repeat(np.arange(len(codes)), count), flat.span_region[expand(flat.span[spans], count)]
    regions = flat.region_of_bucket[bucket_of(codes, table.buckets)]
    if len(flat.key_codes):
        wide = codes.astype(np.int64)
        found = np.minimum(np.searchsorted(flat.key_codes, wide), len(flat.key_codes) - 1)
        regions = np.where(flat.key_codes[found] == wide, flat.key_regions[found], regions)
    return None, regions


def cells_of(table: RoutingTable, codes: Codes) -> I64:
    """The cell of each code: the finest pieces in which a table's load is counted exactly.

    Cells 0 .. buckets-1 are the buckets, without the codes that have a region of their own; cell buckets + k is the
    k-th such code, in ascending order. Of a ranged table the cells are its elementary intervals.
    """
    flat = table.compiled
    if table.ranged:
        return np.searchsorted(flat.cuts, codes.astype(np.int64), "right").astype(np.int64)
    cells = bucket_of(codes, table.buckets)
    if len(flat.key_codes):
        wide = codes.astype(np.int64)
        found = np.minimum(np.searchsorted(flat.key_codes, wide), len(flat.key_codes) - 1)
        cells = np.where(flat.key_codes[found] == wide, table.buckets + found, cells)
    return cells


def _slot(flat: Compiled, sides: int, side: int, regions: I64, u: npt.NDArray[np.uint32]) -> I64:
    index = regions * sides + side
    first = flat.first_slot[index]
    if len(flat.first_slot) == len(flat.slot_start) + 1:  # one slot everywhere: `u` decides nothing
        return first
    needle = (index.astype(np.uint64) << np.uint64(32)) | u.astype(np.uint64)
    return np.searchsorted(flat.slot_start, needle, "right").astype(np.int64) - 1
