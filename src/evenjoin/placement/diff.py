"""diff(old, new): a migration is the difference of two tables, evaluated over stored tuples.

    leave = stored under old, not under new        enter = stored under new, not under old

Nobody writes a migration by hand: a planner proposes a table, and what must move follows from it.

Guarantee: nothing moves that need not. A tuple that both tables store on the same instances is in neither set.
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
    width = max(old.instances, new.instances)
    before = _entries(old, group, at, width)
    after = _entries(new, group, at, width)
    leave = before[~np.isin(before, after, assume_unique=True)]
    enter = after[~np.isin(after, before, assume_unique=True)]
    return Moves(leave // width, (leave % width).astype(np.int32), enter // width, (enter % width).astype(np.int32))


def _entries(table: RoutingTable, group: int, at: At, width: int) -> npt.NDArray[np.int64]:
    stored = place(table, group, at).only(Role.STORE)
    return stored.row * width + stored.instance
