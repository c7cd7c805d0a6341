"""diff(old, new): a migration is the difference of two tables, evaluated over stored tuples.

    leave = stored under old, not under new        enter = stored under new, not under old

where an instance of the old table is the instance of the new one that goes on with its state (`heirs`), so
a new number costs nothing. Instances of `leave` are numbered as in the old table, those of `enter` as in the new one.

Nobody writes a migration by hand: a planner proposes a table, and what must move follows from it.

Guarantee: nothing moves that need not. A tuple that an instance stored and its heir stores is in neither set.
Not here: who sends a tuple that several instances store, and how (instance/migrate.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenjoin.placement.place import At, place
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import Role


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
