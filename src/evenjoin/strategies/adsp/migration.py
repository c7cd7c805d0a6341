"""The migration plan of A-DSP (Sec. 4.3, eq. 15-17, Alg. 5), as a value: who copies what to whom, and drops what.

    n_kl = s_kl - h_kl      what the new task lacks (15), copied piece by piece from an old task that stored it (16)
    d_kl = h_kl - s_kl      what it no longer needs (17)

where h_kl is what the old task stored whose state the new one goes on with. Targets of copies are numbered as in the
new table; sources, and who discards, as in the old one. The paper copies from the first row (column) of the old scheme.
Any task of a row has the same tuples of it; here the source is the lowest number, as in the engine.

A piece is a range of codes (all of them, in one grid) and a range [begin, end) of `u`, in parts of 2^32. Steps 1 and 3
of Alg. 5, about irregular lines, need no case here: a varietal grid says where its adjustive line stores.

This is a reference: the engine does not use it. It moves what `diff` of the tables says, tuple by tuple. Those are the
same moves: a tuple alive is sent by an instance to another one exactly if a copy of its piece says so (tested against
instance/migrate.py). What the engine does not do is discard at once: a run that loses little is masked.
Only for tables of one region or of areas; others raise a TableError.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from evenjoin.errors import TableError
from evenjoin.placement.diff import heirs
from evenjoin.placement.pieces import Points, pieces
from evenjoin.placement.place import At, place
from evenjoin.placement.ranges import FIRST_CODE, LAST_CODE, Interval
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import WHOLE, Role


@dataclass(frozen=True, slots=True)
class Discard:
    """Instance `target` of the old table drops a piece of a side, of `volume` tuples."""

    side: int
    target: int
    codes: Interval
    begin: int
    end: int
    volume: float


@dataclass(frozen=True, slots=True)
class Copy(Discard):
    """Instance `target` of the new table gets a piece of a side from instance `source` of the old one."""

    source: int


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    copies: tuple[Copy, ...]
    discards: tuple[Discard, ...]

    @property
    def volume(self) -> float:
        """Tuples that are copied to other tasks: the papers' migration volume."""
        return sum(copy.volume for copy in self.copies)


def migration_plan(old: RoutingTable, new: RoutingTable, points: Points) -> MigrationPlan:
    """Alg. 5, for the tuples alive that `points` stand for. O(pieces * targets)."""
    copies: list[Copy] = []
    discards: list[Discard] = []
    heir = heirs(old, new).tolist()
    for side in range(old.groups):
        for codes, begin, end, volume, before, after in _pieces(old, new, side, points):
            where = codes, begin, end, volume
            if after and not before:
                raise TableError(
                    f"codes {codes.first} to {codes.last} of side {side} were stored nowhere: nobody has them"
                )
            kept = {heir[instance] for instance in before}
            copies += [Copy(side, target, *where, min(before)) for target in after if target not in kept]
            discards += [Discard(side, target, *where) for target in before if heir[target] not in after]
    return MigrationPlan(_joined(copies), _joined(discards))


def _pieces(
    old: RoutingTable, new: RoutingTable, side: int, points: Points
) -> Iterator[tuple[Interval, int, int, float, list[int], list[int]]]:
    """Every piece of a side: its codes, begin and end of `u`, volume, and the instances that store it under either
    table."""
    spans = _spans(old, new)
    codes = np.array([span.first for span in spans], np.int64)
    some = pieces((old, new), side, codes)
    stored: list[list[list[int]]] = []
    for table in (old, new):
        where = place(table, side, At(codes[some.row], some.u)).only(Role.STORE)
        cuts = np.searchsorted(where.row, np.arange(1, len(some.row)))
        stored.append([part.tolist() for part in np.split(where.instance, cuts)])
    known, weights = points[side]
    for n, (row, begin, share) in enumerate(zip(*(column.tolist() for column in some), strict=True)):
        inside = (known >= spans[row].first) & (known <= spans[row].last)
        volume = float(weights[inside].sum()) * share
        yield spans[row], begin, begin + round(share * WHOLE), volume, stored[0][n], stored[1][n]


def _spans(*tables: RoutingTable) -> list[Interval]:
    """The intervals of codes within which every table treats all codes alike."""
    ends: set[int] = set()
    for table in tables:
        if not table.ranged and len(table.regions) > 1:
            raise TableError("a migration plan is for tables of one grid or of areas; use diff for others")
        ends |= set(table.compiled.cuts.tolist())
    cuts = sorted(ends - {FIRST_CODE})
    return [
        Interval.between(first, last)
        for first, last in zip([FIRST_CODE, *cuts], [*(cut - 1 for cut in cuts), LAST_CODE], strict=True)
    ]


Move = TypeVar("Move", Copy, Discard)


def _joined(moves: list[Move]) -> tuple[Move, ...]:
    """The same moves, with neighbouring pieces that go the same way joined."""
    out: dict[Move, list[Move]] = {}
    for move in moves:
        same = out.setdefault(replace(move, begin=0, end=0, volume=0.0), [])
        if same and same[-1].end == move.begin:
            same[-1] = replace(same[-1], end=move.end, volume=same[-1].volume + move.volume)
        else:
            same.append(move)
    return tuple(move for same in out.values() for move in same)
