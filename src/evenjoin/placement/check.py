"""check(table): would this table lose or repeat a result? Every planner's table goes through it before it is used.

A table of buckets and keys loses and repeats nothing if

1. every bucket is taken by exactly one region and no code by two (then any two tuples with equal keys, having
   equal codes, are in exactly one region), and
2. inside each region the tuples meet as the program needs it (`table.meeting`):
   `pairs`: for each two groups that meet (`table.meets`) and each pair of their slots, exactly one instance stores the
   first and is probed by the second, and exactly one stores the second and is probed by the first (whichever tuple came
   earlier, the later one meets it once). Groups that do not meet are not compared, and every Biclique must know of it;
   `together`: for each combination of slots, one of each group, exactly one instance stores and is probed by all (of a
   cube that goes by codes, which slots do not show, cube_check.py proves it), and
3. every instance named exists, and no two instances go on with the state of one (`table.follows`), and
4. equal codes are all that may match (`table.reach`), or one region takes everything, or buckets are ordered.

Where buckets are ordered (order.py), topologies do not tell what meets, because a tuple probes other regions too. There
1 and 3 are asked for, every topology must be a Biclique, and the rest is decided like that of a ranged table:

A ranged table is decided by asking `place`. Two tuples of a side go to the same places if their codes are in the same
elementary interval and their `u` is in the same piece of all slots there. Such tuples are one class, one tuple stands
for it, and there are few classes. For each pair of classes of the two sides the meetings are counted, over all
instances and in both directions. Pairs that may match must meet exactly once, and all others at most once. Nothing is
assumed of the areas: they may share instances, as long as that makes no pair meet twice (a tuple that two areas send
to one instance is there once).

Not decided: whether the load is even. Cost O(regions + distinct topologies * slots^2 * instances), `together` with the
number of groups in place of 2; ranged O(classes^2 * instances).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import pairwise
from string import ascii_lowercase
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenjoin.errors import TableError
from evenjoin.kernels.hashing import I64
from evenjoin.placement.cube_check import check_cube
from evenjoin.placement.pieces import pieces
from evenjoin.placement.place import At, Placement, place
from evenjoin.placement.ranges import EQUAL, FIRST_CODE, LAST_CODE, Interval, Ranges
from evenjoin.placement.table import Buckets, Keys, RoutingTable
from evenjoin.placement.topology import WHOLE, Biclique, Cube, Grid, Role, Slot, Topology, pairs_of

Matrix = npt.NDArray[np.float32]


def check(table: RoutingTable) -> RoutingTable:
    """Returns the table itself, or raises a TableError that says which results it would lose or repeat."""
    _check_follows(table)
    for topology in {region.topology for region in table.regions}:
        _check_units(table, topology)
    if any(isinstance(region.takes, Ranges) for region in table.regions):
        _check_ranges(table)
        return table
    _check_selectors(table)
    if table.ordered:
        _check_order(table)
        _check_meetings(table)
        return table
    for topology in {region.topology for region in table.regions}:
        if table.cube is None:
            _check_topology(table, topology)
    if table.reach != EQUAL and len(table.regions) > 1:
        raise TableError(
            f"the table separates keys, but keys that differ may match ({table.reach}): results would be lost; "
            "use a strategy for such conditions, or one region for everything"
        )
    return table


def _check_follows(table: RoutingTable) -> None:
    if table.follows is None:
        return
    of = table.follows.of
    taken = [before for before in of if before >= 0]
    if len(of) != table.instances or len(set(taken)) < len(taken):
        raise TableError(f"each of {table.instances} instances goes on with the state of another one, not {list(of)}")


def _check_selectors(table: RoutingTable) -> None:
    buckets = Counter(b for region in table.regions if isinstance(region.takes, Buckets) for b in region.takes.ids)
    missing = [b for b in range(table.buckets) if b not in buckets]
    if missing or not table.buckets:
        first = missing[0] if missing else 0
        raise TableError(f"no region takes bucket {first} ({len(missing)} missing): its results would be lost")
    strange = [b for b in buckets if not 0 <= b < table.buckets]
    if strange:
        raise TableError(f"bucket {strange[0]} does not exist: the table has {table.buckets}")
    codes = Counter(c for region in table.regions if isinstance(region.takes, Keys) for c in region.takes.codes)
    for kind, counts in (("bucket", buckets), ("key code", codes)):
        twice = [item for item, count in counts.items() if count > 1]
        if twice:
            raise TableError(f"two regions take {kind} {twice[0]}: results would be lost or repeated")


def _check_units(table: RoutingTable, topology: Topology) -> None:
    if isinstance(topology, Grid):
        _check_grid(table, topology)
    if isinstance(topology, Cube):
        check_cube(table, topology)
    if isinstance(topology, Biclique):
        _check_meets(table, topology)
    for side in range(table.groups):
        slots = topology.slots(side)
        if not slots or any(slot.weight <= 0 for slot in slots):
            raise TableError(f"a side of {topology} has no unit or a unit without weight")
        for slot in slots:
            for instance, _ in slot.targets:
                if not 0 <= instance < table.instances:
                    raise TableError(f"{topology} uses instance {instance}, the table has {table.instances}")


def _check_meets(table: RoutingTable, biclique: Biclique) -> None:
    if len(biclique.units) != table.groups:
        raise TableError(f"{biclique} has units of {len(biclique.units)} groups, the table has {table.groups}")
    mine, wanted = (pairs_of(meets, table.groups) for meets in (biclique.meets, table.meets))
    strange = [(a, b) for a, b in (*mine, *wanted) if not 0 <= a < b < table.groups]
    if strange:
        raise TableError(f"{strange[0]} is no pair of two of the {table.groups} groups, the smaller one first")
    if set(mine) != set(wanted):
        raise TableError(f"{biclique}: groups {mine} meet in it, but {wanted} must: results would be lost or repeated")


def _check_grid(table: RoutingTable, grid: Grid) -> None:
    if table.groups != 2:
        raise TableError(f"a grid joins two sides, the table has {table.groups}")
    if min(grid.rows, grid.columns) < 1 or len(grid.cells) != grid.rows * grid.columns:
        raise TableError(f"{grid}: {grid.rows} x {grid.columns} cells are needed, there are {len(grid.cells)}")
    for part in range(3 if grid.extra else 2):
        lines = len(grid.extra) if part == 2 else grid.lines(part)
        division = grid.division(part)
        used = {line for line, _ in division}
        if not used <= set(range(lines)) or any(w <= 0 for _, w in division) or sum(w for _, w in division) != WHOLE:
            raise TableError(f"{grid}: division {part} must cut the whole range of u over lines 0 to {lines - 1}")


def _check_topology(table: RoutingTable, topology: Topology) -> None:
    sides = [_roles_of_slots(topology.slots(side), table.instances) for side in range(table.groups)]
    if table.meeting == "together":
        _check_together(topology, sides)
        return
    for first, second in pairs_of(table.meets, table.groups):
        for met in _meetings(sides[first], sides[second]):
            if (met != 1).any():
                wrong = int(met[met != 1].max())
                raise TableError(f"{topology}: a pair of sides {first} and {second} meets {wrong} times, not once")


def _check_together(topology: Topology, groups: list[_Roles]) -> None:
    both = [roles.stores * roles.probes for roles in groups]
    letters = ascii_lowercase[: len(both)]
    met = np.einsum(f"{','.join(f'{letter}Z' for letter in letters)}->{letters}", *both)
    if (met != 1).any():
        wrong = int(met[met != 1].max())
        raise TableError(f"{topology}: a combination of {len(both)} sides is together on {wrong} instances, not on one")


class _Roles(NamedTuple):
    """[slots or classes, instances] 1 where a slot's (class's) tuples are stored, and 1 where they probe; else 0."""

    stores: Matrix
    probes: Matrix

    def part(self, rows: slice) -> _Roles:
        return _Roles(self.stores[rows], self.probes[rows])


def _roles_of_slots(slots: tuple[Slot, ...], instances: int) -> _Roles:
    entries = [(row, *target) for row, slot in enumerate(slots) for target in slot.targets]
    rows, where, roles = (np.array(column) for column in zip(*entries, strict=True))
    return _roles(Placement(rows, where, roles), len(slots), instances)


def _roles(where: Placement, rows: int, instances: int) -> _Roles:
    out = []
    for role in (Role.STORE, Role.PROBE):
        has = (where.role & int(role)) != 0
        matrix = np.zeros((rows, instances), np.float32)
        matrix[where.row[has], where.instance[has]] = 1
        out.append(matrix)
    return _Roles(*out)


def _meetings(one: _Roles, two: _Roles) -> tuple[Matrix, Matrix]:
    """[slots of one, slots of two] How often their tuples meet if those of `one` came first, and if those of `two`
    did."""
    return one.stores @ two.probes.T, one.probes @ two.stores.T


def _check_order(table: RoutingTable) -> None:
    cuts = table.cuts or ()
    if len(cuts) != table.buckets - 1 or any(high < low for low, high in pairwise(cuts)):
        raise TableError(f"{table.buckets} ordered buckets need {table.buckets - 1} ascending cuts, not {list(cuts)}")
    if cuts and not FIRST_CODE <= cuts[0] <= cuts[-1] <= LAST_CODE:
        raise TableError(f"cuts are codes, but {cuts[0]} .. {cuts[-1]} are not between {FIRST_CODE} and {LAST_CODE}")
    if table.groups != 2 or table.meeting != "pairs":
        raise TableError(f"ordered buckets are for pairs of two sides, the table has {table.groups}")
    copied = [region.topology for region in table.regions if not isinstance(region.topology, Biclique)]
    if copied:
        raise TableError(f"{copied[0]}: where buckets are ordered a tuple is stored once, in a Biclique")


def _check_ranges(table: RoutingTable) -> None:
    _check_intervals(table)
    _check_meetings(table)


def _check_meetings(table: RoutingTable) -> None:
    """Every two classes of tuples that may match meet once, and no two meet more often. Where buckets are ordered, the
    second needs no look: a tuple is stored in one place, and goes to no place twice."""
    spans = elementary(table)
    codes = np.array([span.first for span in spans], np.int64)
    classes = [_classes(table, side, codes) for side in (0, 1)]
    (row_of, rows), (column_of, columns) = classes  # both ascend
    begin = np.searchsorted(row_of, np.arange(len(spans) + 1)).tolist()
    first, last = [span.first for span in spans], [span.last for span in spans]
    for number, span in enumerate(spans):
        near = table.reach.columns_of(span)
        ends = np.searchsorted(column_of, [bisect_left(last, near.first), bisect_right(first, near.last)]).tolist()
        some = slice(*ends) if table.ordered else slice(0, len(column_of))
        wanted = np.zeros(len(column_of), np.bool_)[some]
        wanted[ends[0] - some.start : ends[1] - some.start] = True
        for met in _meetings(rows.part(slice(*begin[number : number + 2])), columns.part(some)):
            wrong = np.where(wanted, met != 1, met > 1)
            if wrong.any():
                at = np.argwhere(wrong)[0]
                other, times = spans[int(column_of[some][at[1]])], int(met[at[0], at[1]])
                raise TableError(
                    f"codes {_text(span)} of side 0 and {_text(other)} of side 1 meet {times} times, not "
                    f"{'once' if wanted[at[1]] else 'at most once'}: results would be {'repeated' if times else 'lost'}"
                )


def _check_intervals(table: RoutingTable) -> None:
    if table.groups != 2:
        raise TableError(f"ranges are for two sides, the table has {table.groups}")
    for region in table.regions:
        if not isinstance(region.takes, Ranges):
            raise TableError("a table has regions of ranges, or of buckets and keys, not both")
        for side in (region.takes.rows, region.takes.columns):
            if not FIRST_CODE <= side.first <= side.last <= LAST_CODE:
                raise TableError(f"the interval {_text(side)} has no code")


def elementary(table: RoutingTable) -> list[Interval]:
    """The elementary intervals of a ranged table, or of one with ordered buckets, ascending: within one of them the
    table treats all codes alike."""
    flat = table.compiled
    keys = flat.key_codes
    probing = flat.probing.cuts if flat.probing is not None else ()
    cuts = np.unique(np.concatenate([flat.cuts, flat.bucket_cuts, keys, keys[keys < LAST_CODE] + 1, *probing]))
    ends = [None, *(cut for cut in cuts.tolist() if cut > FIRST_CODE), None]
    return [Interval(low, high) for low, high in pairwise(ends)]


def _classes(table: RoutingTable, side: int, codes: I64) -> tuple[I64, _Roles]:
    """The classes of tuples of a side: the number of its elementary interval, and its roles, for each. `codes` holds
    the first code of every elementary interval."""
    some = pieces((table,), side, codes)
    where = place(table, side, At(codes[some.row], some.u))
    return some.row, _roles(where, len(some.row), table.instances)


def _text(codes: Interval) -> str:
    low = "" if codes.low is None else f"{codes.low} "
    return f"{low}.." if codes.high is None else f"{low}.. {codes.high - 1}"
