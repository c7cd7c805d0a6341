"""diff(old, new): a migration is the difference of two tables, evaluated over stored tuples.

    leave = stored under old, not under new        enter = stored under new, not under old

where an instance of the old table is the instance of the new one that goes on with its state (`heirs`), so
a new number costs nothing. Instances of `leave` are numbered as in the old table, those of `enter` as in the new one.

Nobody writes a migration by hand: a planner proposes a table, and what must move follows from it.

`entering` is the same as an expectation, for planners: what share of the tuples that a region takes enters an
instance. Shares alone do not tell; which part of the range of `u` each unit has does. So both topologies are laid over
each other:

    Biclique R on 0 (0.6) and 1 (0.4)        0 |------------|--------| 1        u ->
    Biclique R on 0 (0.4) and 1 (0.6)          |--------|------------|          0.2 enter instance 1
    Biclique R on 1 (0.6) and 0 (0.4)          |............|--------|          1.0 enters: every cut has another owner

`changed` tells what may move without looking at a tuple: which codes and which buckets, and who holds some of it. Two
tables lie over each other cell by cell, a cell being a code that has a region of its own in one of them, or a bucket
without those codes. A migration then reads the rows of these cells only (instance/migrate.py).

Guarantee: nothing moves that need not. A tuple that an instance stored and its heir stores is in neither set.
A tuple that `diff` says moves is among the `rows` of `changed`, and its instance of the old table among its `holders`.
Not guaranteed: that each of these rows moves. A cell is named if any part of its range of `u` changes place.
`entering` is the share of uniform positions `u` for which `diff` says that a tuple enters, copies counted. It is not
for a Cube that goes by codes, whose slots do not say where a tuple goes (pieces.py).
Not here: who sends a tuple that several instances store, and how (instance/migrate.py).
"""

from __future__ import annotations

from dataclasses import replace
from math import lcm
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.hashing import I64, Codes
from evenjoin.kernels.runs import code_ranges, expand, group_starts
from evenjoin.placement.place import At, Placement, bucket_of, place, regions_of
from evenjoin.placement.shares import F64, holdings
from evenjoin.placement.slots import WHOLE, Role
from evenjoin.placement.table import Buckets, Keys, Region, RoutingTable
from evenjoin.placement.topology import Biclique, Topology, renumbered

FINEST = 2**20
"""Buckets that two tables are compared by at most. Where their common multiple is greater, anything may change."""


class Moves(NamedTuple):
    """What a change of table adds to the stored state of one group (enter) and takes from it (leave). Each is a list of
    entries: tuple number `row` on `instance`."""

    leave_row: npt.NDArray[np.int64]
    leave_instance: npt.NDArray[np.int32]
    enter_row: npt.NDArray[np.int64]
    enter_instance: npt.NDArray[np.int32]


def diff(old: RoutingTable, new: RoutingTable, group: int, at: At) -> Moves:
    """What changes place for these stored tuples of `group`. O(tuples * (log table + targets))."""
    return stored_and_moved(old, new, group, at)[1]


def stored_and_moved(old: RoutingTable, new: RoutingTable, group: int, at: At) -> tuple[Placement, Moves]:
    """The same, and where the old table stores the tuples."""
    before, after = (place(table, group, at).only(Role.STORE) for table in (old, new))
    number, width = _numbers(old, new), old.instances + new.instances
    were, are = before.row * width + number[before.instance], after.row * width + after.instance
    leave, enter = (~np.isin(*pair, assume_unique=True) for pair in ((were, are), (are, were)))
    return before, Moves(before.row[leave], before.instance[leave], after.row[enter], after.instance[enter])


def heirs(old: RoutingTable, new: RoutingTable) -> npt.NDArray[np.int64]:
    """[instances of `old`] The instance of `new` that goes on with the state of each old instance; -1: none does, and
    its state goes to others tuple by tuple."""
    same = np.arange(old.instances)
    if new.follows is None or new.follows.table != old.name:
        return np.where(same < new.instances, same, -1)
    out, of = np.full(old.instances, -1), np.array(new.follows.of)
    out[of[of >= 0]] = np.flatnonzero(of >= 0)
    return out


def _numbers(old: RoutingTable, new: RoutingTable) -> npt.NDArray[np.int64]:
    """The same with a number beyond those of `new` for each old instance that nobody goes on with."""
    number = heirs(old, new)
    return np.where(number < 0, new.instances + np.arange(old.instances), number)


class Changed(NamedTuple):
    """What a change of table moves of one group, told by codes.

    own       ascending: the codes that have a region of their own in one of the tables; no bucket speaks for them
    moved     [own] whether tuples of this code change place
    buckets   [common multiple of both tables' buckets] whether other tuples of this bucket change place
    holders   [instances of the old table] whether it stores, by the old table, some of what changes place
    """

    own: I64
    moved: npt.NDArray[np.bool_]
    buckets: npt.NDArray[np.bool_]
    holders: npt.NDArray[np.bool_]

    def rows(self, codes: Codes, order: Literal["sorted", "any"]) -> I64:
        """The tuples that may change place, by the codes of tuples; rows ascend. Of sorted codes, where no bucket
        changes, O(codes changed * log tuples + rows found); else O(tuples)."""
        if order == "any":
            return np.flatnonzero(self._has(codes))
        if self.buckets.any():
            starts = group_starts(codes)
            hit = self._has(codes[starts[:-1]])
            return expand(starts[:-1][hit], np.diff(starts)[hit])
        span = np.iinfo(codes.dtype)
        wanted = self.own[self.moved & (self.own >= span.min) & (self.own <= span.max)]
        _, start, stop = code_ranges(codes, wanted.astype(codes.dtype))  # of one type, or numpy copies the run
        return expand(start, stop - start)

    def _has(self, codes: Codes) -> npt.NDArray[np.bool_]:
        found = self.buckets[bucket_of(codes, len(self.buckets))]
        if len(self.own):
            wide = codes.astype(np.int64)
            at = np.minimum(np.searchsorted(self.own, wide), len(self.own) - 1)
            found = np.where(self.own[at] == wide, self.moved[at], found)
        return found


def changed(old: RoutingTable, new: RoutingTable, group: int) -> Changed | None:
    """What changes place for stored tuples of `group`, whichever they are. None: anything may, because a table does not
    go by buckets and keys. O(cells + distinct pairs of regions * slots)."""
    if not (_keyed(old) and _keyed(new)) or lcm(old.buckets, new.buckets) > FINEST:
        return None
    own = np.union1d(old.compiled.key_codes, new.compiled.key_codes)
    size = lcm(old.buckets, new.buckets)  # a bucket is a range of hashes, so these are parts of the buckets of both
    before, after = (
        np.concatenate(
            [table.compiled.region_of_cell[np.arange(size) * table.buckets // size], regions_of(table, group, own)[1]]
        )
        for table in (old, new)
    )
    pair, inverse = np.unique(before * len(new.regions) + after, return_inverse=True)
    changes, holders = _changes(old, new, group, pair // len(new.regions), pair % len(new.regions))
    cells = changes[inverse.reshape(-1)]
    return Changed(own, cells[size:], cells[:size], holders)


def _keyed(table: RoutingTable) -> bool:
    """Whether a tuple's place follows from its region, by key or bucket of hashes, and its position. Ordered buckets
    are no ranges of hashes, so they cannot be laid over others."""
    if table.ordered or table.cube is not None:
        return False
    return all(isinstance(region.takes, Buckets | Keys) for region in table.regions)


def _changes(
    old: RoutingTable, new: RoutingTable, group: int, one: I64, two: I64
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:  # fmt: skip
    """[n] Whether any tuple changes place that goes from region `one[n]` of the old table to `two[n]` of the new one;
    and the old table's instances that store such tuples."""
    number = _numbers(old, new)
    was, will_be = _sole(old, group)[one], _sole(new, group)[two]
    sole = (was >= 0) & (will_be >= 0)
    changes = sole & (number[was] != will_be)
    holders = np.zeros(old.instances, np.bool_)
    holders[was[changes]] = True
    renumbered, known = bool((number != np.arange(old.instances)).any()), dict[tuple[Topology, Topology], list[int]]()
    for k in np.flatnonzero(~sole).tolist():
        both = old.regions[one[k]].topology, new.regions[two[k]].topology
        if both[0] == both[1] and not renumbered:
            continue
        if both not in known:
            known[both] = _holding(_laid(old, group, one[k]), _laid(new, group, two[k]), number)
        changes[k] = bool(known[both])
        holders[known[both]] = True
    return changes, holders


Laid = tuple[list[frozenset[int]], I64]
"""A region along the range of `u`: the instances that store the tuples of each slot, and where the slots begin."""


def _holding(old: Laid, new: Laid, number: I64) -> list[int]:
    """The instances that store, by the old region, a part of the range of `u` that the new one stores elsewhere."""
    cuts = np.unique(np.concatenate([old[1], new[1]]))
    mine, theirs = (np.searchsorted(start, cuts, "right") - 1 for _, start in (old, new))
    pairs = {(old[0][a], new[0][b]) for a, b in zip(mine.tolist(), theirs.tolist(), strict=True)}
    return sorted({held for were, are in pairs if {int(number[held]) for held in were} != are for held in were})


def _laid(table: RoutingTable, group: int, region: int) -> Laid:
    """A region as `place` sees it: its cuts are the compiled ones, to the last bit."""
    flat, index = table.compiled, region * table.groups + group
    slots = range(flat.first_slot[index], flat.first_slot[index + 1])
    targets = [slice(flat.target[slot], flat.target[slot + 1]) for slot in slots]
    stored = [frozenset(flat.instance[some][flat.role[some] & int(Role.STORE) != 0].tolist()) for some in targets]
    return stored, (flat.slot_start[slots.start : slots.stop] & np.uint64(WHOLE - 1)).astype(np.int64)


def entering(old: RoutingTable, new: RoutingTable, group: int, before: I64, after: I64) -> F64:
    """[n] For tuples of `group` that region `before[n]` of the old table takes, and region `after[n]` of the new one:
    the share that enters an instance, copies counted."""
    new = _as_numbered(old, new)
    pair, inverse = np.unique(before * len(new.regions) + after, return_inverse=True)
    one, two = pair // len(new.regions), pair % len(new.regions)
    was, will_be = _sole(old, group)[one], _sole(new, group)[two]
    share = (was != will_be).astype(np.float64)
    known: dict[tuple[Topology, Topology], float] = {}
    for k in np.flatnonzero((was < 0) | (will_be < 0)).tolist():
        both = old.regions[one[k]].topology, new.regions[two[k]].topology
        if both not in known:
            known[both] = entering_share(*both, group)
        share[k] = known[both]
    out: F64 = share[inverse.reshape(-1)]
    return out


def _as_numbered(old: RoutingTable, new: RoutingTable) -> RoutingTable:
    """The new table with heirs under the numbers that they had in the old one."""
    if new.follows is None or new.follows.table != old.name:
        return new
    number = [old.instances + i if before < 0 else before for i, before in enumerate(new.follows.of)]
    regions = tuple(Region(region.takes, renumbered(region.topology, number)) for region in new.regions)
    return replace(new, instances=old.instances + new.instances, regions=regions)


def entering_share(old: Topology, new: Topology, group: int) -> float:
    """The same for one pair of topologies."""
    if old == new:
        return 0.0
    slots, starts = zip(*(_cut(topology, group) for topology in (old, new)), strict=True)
    cuts = np.unique(np.concatenate(starts))
    width = np.diff(np.append(cuts, WHOLE)) / WHOLE
    mine, theirs = (np.searchsorted(start, cuts, "right") - 1 for start in starts)
    pairs, number = np.unique(np.stack([mine, theirs]), axis=1, return_inverse=True)
    together = np.bincount(number.reshape(-1), width)
    entered = [len(slots[1][b] - slots[0][a]) for a, b in pairs.T.tolist()]
    return float(together @ np.array(entered))


def _cut(topology: Topology, group: int) -> tuple[list[frozenset[int]], I64]:
    """The instances that store each slot's tuples, and where in the range of `u` the slots begin (as in table.py)."""
    if isinstance(topology, Biclique):  # its slots name all units that are probed, once for each unit that stores
        own = topology.units[group]
        weights = topology.weights[group] if topology.weights is not None else (1.0,) * len(own)
        stored = [frozenset((unit,)) for unit in own]
    else:
        slots = topology.slots(group)
        weights = tuple(slot.weight for slot in slots)
        stored = [frozenset(where for where, role in slot.targets if role & Role.STORE) for slot in slots]
    ends = np.cumsum([0.0, *weights])
    return stored, np.minimum((ends[:-1] / ends[-1] * WHOLE).astype(np.int64), WHOLE - 1)


def _sole(table: RoutingTable, group: int) -> I64:
    """[regions] The instance that stores all tuples of the group; -1: there are several."""
    region, instance, _ = holdings(table, group, Role.STORE)
    out = np.full(len(table.regions), -1, np.int64)
    out[region] = instance
    out[np.bincount(region, minlength=len(out)) != 1] = -1
    return out
