"""place(table, group, at) -> the instances each tuple goes to, and its role at each.

    place(table, 0, At(codes, u))     where the tuples of side 0 are stored, and where they probe

This is the one placement function: the dispatcher, migrations, masks and the tests all call it, so no two of them can
disagree. It is deterministic and vectorised, and costs O(tuples * log(table) + messages).

A table places *groups* of tuples. There is one group for each side of the join. `At` is all that placement knows of a
tuple: the codes of its keys, and its position `u`, which is uniform and fixed for life.
`routed` is the one way to ask whether a code has a region of its own.

Not guaranteed: that tuples which can match meet. The table decides that, and check.py proves it of a table.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.content import scrambled
from evenjoin.kernels.hashing import GOLDEN, I64, U64, Codes, mix64
from evenjoin.kernels.runs import expand
from evenjoin.placement.cube import spread
from evenjoin.placement.table import Compiled, RoutingTable
from evenjoin.placement.topology import Role


class At(NamedTuple):
    """What decides where tuples go: the code of each by its side's index 0, its position, and its codes by the further
    indexes (`more[k - 1]` by index k), which only a cube asks for (cube.py). Arrays of one length."""

    codes: Codes
    u: npt.NDArray[np.uint32]
    more: tuple[Codes, ...] = ()

    def take(self, rows: npt.NDArray[Any] | slice) -> At:
        """The same for some of the tuples."""
        return At(self.codes[rows], self.u[rows], tuple(codes[rows] for codes in self.more))


class Placement(NamedTuple):
    """Messages: entry k sends tuple `row[k]` to `instance[k]` with `role[k]`. Rows ascend."""

    row: npt.NDArray[np.int64]
    instance: npt.NDArray[np.int32]
    role: npt.NDArray[np.uint8]

    def only(self, role: Role) -> Placement:
        keep = (self.role & int(role)) != 0
        return Placement(self.row[keep], self.instance[keep], self.role[keep])

    def by_instance(self, instances: int) -> Scattered:
        """The messages grouped by destination, each group in the order of its rows. O(messages), by a radix sort, for
        up to 65,536 instances."""
        order = np.argsort(self.instance.astype(np.uint16 if instances <= 2**16 else np.uint32), kind="stable")
        sizes = np.bincount(self.instance, minlength=instances)
        used = np.flatnonzero(sizes)
        bounds = np.concatenate([[0], np.cumsum(sizes[used])])
        return Scattered(self.row[order], self.role[order], used, bounds)


class Scattered(NamedTuple):
    """Messages by destination: `rows[bounds[i]:bounds[i+1]]` go to `instances[i]`. `roles` has the same order as
    `rows`."""

    rows: npt.NDArray[np.int64]
    roles: npt.NDArray[np.uint8]
    instances: npt.NDArray[np.int64]
    bounds: npt.NDArray[np.int64]

    def lines(self, ids: U64) -> list[int]:
        """For each of the instances the sum of the lines of its messages (kernels/content.py), given the id of each
        tuple. The line of a message is the tuple's id, times a number of the role, times a number of the instance."""
        if len(self.rows) == 0:
            return []
        keys = np.array([scrambled(-1 - instance) | 1 for instance in self.instances.tolist()], np.uint64)
        sums = np.add.reduceat(ids[self.rows] * _ROLE_KEYS[self.roles], self.bounds[:-1]) * keys
        return sums.tolist()  # type: ignore[no-any-return]


LATE = 4
"""The role of a late row in the books, beside those of a tuple (topology.py)."""
_ROLE_KEYS = np.array([scrambled(role) | 1 for role in range(8)], np.uint64)


def place(table: RoutingTable, group: int, at: At) -> Placement:
    """Where every tuple of `group` goes. A tuple gets at most one message per instance; its roles there are OR-ed."""
    cube = table.cube
    if cube is not None:
        row, instance = spread(cube, group, (at.codes, *at.more), at.u)
        return Placement(row, instance, np.full(len(row), Role.BOTH, np.uint8))
    if table.ordered:
        return _in_order(table, group, at)
    flat, codes, u = table.compiled, at.codes, at.u
    every, regions = regions_of(table, group, codes)
    slot = _slot(flat, table.groups, group, regions, u if every is None else u[every])
    count = flat.target[slot + 1] - flat.target[slot]
    if every is None and len(count) and count.max() == 1:
        rows, target = np.arange(len(codes), dtype=np.int64), flat.target[slot]
    else:
        rows = np.repeat(np.arange(len(codes), dtype=np.int64) if every is None else every, count)
        target = expand(flat.target[slot], count)
    where = Placement(rows, flat.instance[target], flat.role[target])
    return where if every is None or flat.apart else _merged(where, table.instances)


def _in_order(table: RoutingTable, group: int, at: At) -> Placement:
    """The same for ordered buckets: a tuple is stored in one place, and probes all that its code reaches (order.py)."""
    flat, every = table.compiled, np.arange(len(at.codes), dtype=np.int64)
    assert flat.probing is not None
    _, regions = regions_of(table, group, at.codes)
    stores = flat.instance[flat.target[_slot(flat, table.groups, group, regions, at.u)]]
    first = flat.probing.first[group]
    stretch = np.searchsorted(flat.probing.cuts[group], at.codes.astype(np.int64), "right")
    count = first[stretch + 1] - first[stretch]
    rows, instance = np.repeat(every, count), flat.probing.instance[group][expand(first[stretch], count)]
    here = instance == stores[rows]
    role = np.where(here, Role.BOTH, Role.PROBE).astype(np.uint8)
    only = np.ones(len(every), np.bool_)
    only[rows[here]] = False
    if not only.any():
        return Placement(rows, instance, role)
    row = np.concatenate([rows, every[only]])
    order = np.argsort(row, kind="stable")
    store = np.full(int(only.sum()), int(Role.STORE), np.uint8)
    return Placement(row[order], np.concatenate([instance, stores[only]])[order], np.concatenate([role, store])[order])


def _merged(where: Placement, instances: int) -> Placement:
    """The same with one message per (tuple, instance), where several regions send a tuple to the same instance."""
    key = where.row * instances + where.instance
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    role = np.bitwise_or.reduceat(where.role[order], first)
    return Placement(where.row[order][first], where.instance[order][first], role)


def stored_here(table: RoutingTable, group: int, at: At, instance: int) -> npt.NDArray[np.bool_]:
    """Which of the tuples the table stores on this instance."""
    where = place(table, group, at)
    here = (where.instance == instance) & ((where.role & int(Role.STORE)) != 0)
    mask = np.zeros(len(at.codes), np.bool_)
    mask[where.row[here]] = True
    return mask


def bucket_of(codes: Codes, buckets: int) -> I64:
    """Hash bucket in [0, buckets) of each code: multiply-shift of the mixed code. O(n).

    No seed goes into it, so somebody may choose integer keys that all lie in one bucket. That is a matter of load, as a
    hot key is: planners see it and move or split it. It costs no result, and nothing is quadratic in the keys of a
    bucket. Codes that are hashes or salted depend on the checkpoint's seed already (kernels/hashing.py).
    """
    mixed = mix64(codes.astype(np.int64).view(np.uint64) + GOLDEN) >> np.uint64(32)
    return ((mixed * np.uint64(buckets)) >> np.uint64(32)).astype(np.int64)


def buckets_of(table: RoutingTable, codes: Codes) -> I64:
    """[n] The bucket of each code in this table, whether or not the code has a region of its own."""
    if table.ordered:
        return np.searchsorted(table.compiled.bucket_cuts, codes.astype(np.int64), "right").astype(np.int64)
    return bucket_of(codes, table.buckets)


def routed(table: RoutingTable, codes: Codes) -> I64:
    """[n] The number of each code among the codes that have a region of their own (they ascend); -1: it has none."""
    own = table.compiled.key_codes
    if not len(own):
        return np.full(len(codes), -1, np.int64)
    wide = codes.astype(np.int64)
    found = np.minimum(np.searchsorted(own, wide), len(own) - 1)
    return np.where(own[found] == wide, found, -1)


def regions_of(table: RoutingTable, group: int, codes: Codes) -> tuple[I64 | None, I64]:
    """The regions that take each tuple, as arrays (rows, regions), rows ascending. Rows of None: one region a tuple.

    A code is taken by its own region if it has one, else by its bucket's. In a ranged table it is taken by every area
    whose interval of this side has it."""
    flat = table.compiled
    if table.ranged:
        spans = group * (len(flat.cuts) + 1) + cells_of(table, codes)
        count = flat.span[spans + 1] - flat.span[spans]
        if (count == 1).all():
            return None, flat.span_region[flat.span[spans]]
        return np.repeat(np.arange(len(codes)), count), flat.span_region[expand(flat.span[spans], count)]
    return None, flat.region_of_cell[cells_of(table, codes)]


def cells_of(table: RoutingTable, codes: Codes) -> I64:
    """[n] The cell of each code. Cells are the finest parts of a table in which load is counted exactly.

    Cells 0 .. buckets-1 are the buckets, without the codes that have a region of their own. Cell buckets + k is the
    k-th such code, in ascending order. In a ranged table the cells are the elementary intervals.
    """
    flat = table.compiled
    if table.ranged:
        return np.searchsorted(flat.cuts, codes.astype(np.int64), "right").astype(np.int64)
    cells = buckets_of(table, codes)
    if len(flat.key_codes):
        own = routed(table, codes)
        cells = np.where(own >= 0, table.buckets + own, cells)
    return cells


def _slot(flat: Compiled, groups: int, group: int, regions: I64, u: npt.NDArray[np.uint32]) -> I64:
    index = regions * groups + group
    first = flat.first_slot[index]
    if flat.unsplit:
        return first
    needle = (index.astype(np.uint64) << np.uint64(32)) | u.astype(np.uint64)
    return np.searchsorted(flat.slot_start, needle, "right").astype(np.int64) - 1
