"""diff(old, new): a migration is the difference of two tables, evaluated over stored tuples.

    leave = stored under old, not under new        enter = stored under new, not under old

Nobody writes a migration by hand: a planner proposes a table, and what must move follows. Moves no tuple it need
not: a tuple whose store targets are equal under both tables is in neither set.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.hashing import Codes
from evenjoin.placement.place import place
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import Role


class Moves(NamedTuple):
    """(row, instance) entries a table change adds to and removes from the stored state of one side."""

    leave_row: npt.NDArray[np.int64]
    leave_instance: npt.NDArray[np.int32]
    enter_row: npt.NDArray[np.int64]
    enter_instance: npt.NDArray[np.int32]


def diff(old: RoutingTable, new: RoutingTable, side: int, codes: Codes, u: npt.NDArray[np.uint32]) -> Moves:
    """What changes place for these stored tuples of `side`. O(tuples * (log table + targets))."""
    width = max(old.instances, new.instances)
    before = _entries(old, side, codes, u, width)
    after = _entries(new, side, codes, u, width)
    leave = before[~np.isin(before, after, assume_unique=True)]
    enter = after[~np.isin(after, before, assume_unique=True)]
    return Moves(leave // width, (leave % width).astype(np.int32), enter // width, (enter % width).astype(np.int32))


def _entries(
    table: RoutingTable, side: int, codes: Codes, u: npt.NDArray[np.uint32], width: int
) -> npt.NDArray[np.int64]:
    stored = place(table, side, codes, u).only(Role.STORE)
    return stored.row * width + stored.instance
