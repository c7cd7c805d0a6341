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

Guarantee: nothing moves that need not. A tuple that an instance stored and its heir stores is in neither set.
`entering` is the share of uniform positions `u` for which `diff` says that a tuple enters, copies counted. It is not
for a Cube that goes by codes, whose slots do not say where a tuple goes (pieces.py).
Not here: who sends a tuple that several instances store, and how (instance/migrate.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.hashing import I64
from evenjoin.placement.place import At, place
from evenjoin.placement.shares import F64, holdings
from evenjoin.placement.slots import WHOLE, Role
from evenjoin.placement.table import Region, RoutingTable
from evenjoin.placement.topology import Biclique, Topology, renumbered


class Moves(NamedTuple):
    """What a change of table adds to the stored state of one group (enter) and takes from it (leave). Each is a list of
    entries: tuple number `row` on `instance`."""

    leave_row: npt.NDArray[np.int64]
    leave_instance: npt.NDArray[np.int32]
    enter_row: npt.NDArray[np.int64]
    enter_instance: npt.NDArray[np.int32]


def diff(old: RoutingTable, new: RoutingTable, group: int, at: At) -> Moves:
    """What changes place for these stored tuples of `group`. O(tuples * (log table + targets))."""
    before, after = (place(table, group, at).only(Role.STORE) for table in (old, new))
    number, width = heirs(old, new), old.instances + new.instances
    number = np.where(number < 0, new.instances + np.arange(old.instances), number)  # those that no new instance has
    were, are = before.row * width + number[before.instance], after.row * width + after.instance
    leave, enter = (~np.isin(*pair, assume_unique=True) for pair in ((were, are), (are, were)))
    return Moves(before.row[leave], before.instance[leave], after.row[enter], after.instance[enter])


def heirs(old: RoutingTable, new: RoutingTable) -> npt.NDArray[np.int64]:
    """[instances of `old`] The instance of `new` that goes on with the state of each old instance; -1: none does, and
    its state goes to others tuple by tuple."""
    same = np.arange(old.instances)
    if new.follows is None or new.follows.table != old.name:
        return np.where(same < new.instances, same, -1)
    out, of = np.full(old.instances, -1), np.array(new.follows.of)
    out[of[of >= 0]] = np.flatnonzero(of >= 0)
    return out


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
