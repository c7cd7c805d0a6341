"""Which instance gets which cell of a new scheme: start-point alignment and Alg. 4 of A-DSP (Sec. 4.2, Fig. 8).

Join results do not depend on which tuples share a line, so a new scheme is free to cut the range of `u` as suits the
old one. Take a change from 4 tasks to 5. With even ranges the best mapping moves 3/10 of the tuples. With ranges that
are aligned at the old start points each old line gives up its tail only, and 1/5 moves:

    old     |0        |1        |2        |3        |        u ->
    aligned |0      |4|1      |4|2      |4|3      |4|        line 4 is made of four pieces

`aligned` does this for one division. `mapped` is Alg. 4: it goes through the pairs of an old task and a new cell by
falling lambda (the volume that both store) and uses each task and cell once. The paper calls the result the largest
total; a greedy matching has at least half of it. `fitted` puts both together for any number of areas. It aligns each
new area to the old one with which it has most in common, compares that with even divisions, and takes what moves less.

Instances are numbered from 0 without gaps. Where tasks become fewer, any of the old ones may be kept. Those whose
number is too large get one that is free, and the table says so (`RoutingTable.follows`): a new number in the manifest
copies nothing. From 4 x 4 to 4 x 3 with 100 tuples a side only the tuples of the column that goes are copied, 25 to
each of the four rows.
Not here: which areas and schemes there are (areas.py, cells.py), and the migration, which is `diff` of the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np

from evenjoin.kernels.hashing import I64
from evenjoin.load.adsp import ROUNDING
from evenjoin.load.items import F64
from evenjoin.placement.pieces import Points, overlap, stored_volume
from evenjoin.placement.ranges import Ranges
from evenjoin.placement.table import Buckets, Region, RoutingTable, Succession
from evenjoin.placement.topology import WHOLE, Division, Grid
from evenjoin.strategies.adsp.cells import Scheme

MOST_PIECES = 128
"""A division with more pieces than this is made even again. Tables stay small, at the price of one larger migration."""
EVEN: tuple[Division, Division, Division] = ((), (), ())


@dataclass(frozen=True, slots=True)
class Area:
    """A part of the matrix (None: all of it) and the scheme for its cells."""

    takes: Ranges | None
    scheme: Scheme


class Fit(NamedTuple):
    """A table, and the volume that a change to it moves: `moved_volume` of it, but for rounding errors."""

    moved: float
    table: RoutingTable


def fitted(old: RoutingTable, areas: Sequence[Area], points: Points) -> RoutingTable:
    """The table of these areas, made such that little moves from `old`; `old` itself if nothing changes."""
    return fitting(old, areas, points).table


def fitting(old: RoutingTable, areas: Sequence[Area], points: Points) -> Fit:
    """The same, and what it moves. That is all that new cells store, but for lambda of each cell and the task that it
    goes on from."""
    offers = []
    even, like = [_even(area) for area in areas], _nearest(old, areas, points)
    fit = [_aligned_to(grid, area) for grid, area in zip(like, areas, strict=True)]
    for divisions in (even, fit) if fit != even else (even,):
        made = _table(old, areas, divisions)
        lam = overlap(old, made, points)
        before = np.array(mapped(lam))
        stays = lam[before, np.arange(len(before))][before >= 0].sum()
        stored = stored_volume(made, points).sum()
        made = _numbered(old, made, before.tolist())
        if made.regions == old.regions:
            return Fit(0.0, old)
        offers.append(Fit(float(stored - stays), made))
    return min(offers, key=lambda offer: offer.moved * (1 - ROUNDING) if offer is offers[0] else offer.moved)


def mapped(lam: F64) -> list[int]:
    """Alg. 4: the old instance that each new cell goes on from; -1: it has nothing in common with one that is left.
    `lam` [old instances, new cells] is lambda."""
    old, new = lam.shape
    before, free, left = [-1] * new, [True] * old, min(old, new)
    some = np.flatnonzero(lam > 0)
    order = some[np.argsort(-lam.reshape(-1)[some], kind="stable")]
    for one, other in zip((order // new).tolist(), (order % new).tolist(), strict=True):
        if free[one] and before[other] < 0:
            before[other], free[one] = one, False
            left -= 1
            if not left:
                break
    return before


def numbered(before: Sequence[int]) -> list[int]:
    """The instance for each new cell that goes on from the old instance `before[cell]`: the same number, if there are
    as many new ones, else a number that is free."""
    instance = [number if number < len(before) else -1 for number in before]
    free = iter(sorted(set(range(len(before))) - set(instance)))
    return [number if number >= 0 else next(free) for number in instance]


def aligned(old: Division, shares: Sequence[float]) -> Division:
    """A division with these shares. Every line of `old` that still exists keeps the start of its pieces."""
    room = widths(shares)
    kept: list[tuple[int, int, int]] = []
    spare: list[tuple[int, int]] = []
    begin = 0
    for line, width in old:
        keep = min(width, room[line]) if line < len(room) else 0
        if keep:
            kept.append((begin, keep, line))
            room[line] -= keep
        if keep < width:
            spare.append((begin + keep, width - keep))
        begin += width
    wanting = [line for line in range(len(room)) if room[line]]
    for start, width in spare:
        while width:
            taken = min(width, room[wanting[0]])
            kept.append((start, taken, wanting[0]))
            start, width = start + taken, width - taken
            room[wanting[0]] -= taken
            if not room[wanting[0]]:
                del wanting[0]
    return _joined([(line, width) for _, width, line in sorted(kept)])


def widths(shares: Sequence[float]) -> list[int]:
    """The shares as widths in the range of `u`: integers that add up to it, none of them 0."""
    cuts = np.rint(np.cumsum([0.0, *shares]) / sum(shares) * WHOLE).astype(np.int64)
    if len(set(shares)) == 1:
        cuts = np.array([i * WHOLE // len(shares) for i in range(len(shares) + 1)])
    out: list[int] = np.maximum(np.diff(cuts), 1).tolist()
    out[out.index(max(out))] += WHOLE - sum(out)
    return out


def _joined(division: list[tuple[int, int]]) -> Division:
    out: list[tuple[int, int]] = []
    for line, width in division:
        if out and out[-1][0] == line:
            out[-1] = (line, out[-1][1] + width)
        else:
            out.append((line, width))
    return tuple(out)


def _even(area: Area) -> tuple[Division, Division, Division]:
    """Divisions with one piece a line. A division whose lines are all alike is left empty, which means even."""
    one, two, three = (
        () if len(set(shares := area.scheme.shares(part))) < 2 else tuple(enumerate(widths(shares)))
        for part in range(3)
    )
    return one, two, three


def _aligned_to(grid: Grid | None, area: Area) -> tuple[Division, Division, Division]:
    even = _even(area)
    if grid is None or area.scheme.tasks == 1:
        return even
    out = []
    for part in range(3):
        shares = area.scheme.shares(part)
        if not shares or (part == 2 and (not grid.extra or grid.along != area.scheme.along)):
            out.append(even[part])
            continue
        made = aligned(grid.division(part), shares)
        plain = tuple(enumerate(widths(shares)))
        out.append(even[part] if made == plain or len(made) > MOST_PIECES else made)
    return out[0], out[1], out[2]


def _nearest(old: RoutingTable, areas: Sequence[Area], points: Points) -> list[Grid | None]:
    """For each area the grid of that old region which has most tuples in common with it, the first of equal ones; None
    if no region has any. O(areas * regions * log points)."""
    regions = [region for region in old.regions if isinstance(region.topology, Grid)]
    theirs = [region.takes if isinstance(region.takes, Ranges) else Ranges() for region in regions]
    mine = [area.takes or Ranges() for area in areas]
    common = np.zeros((len(mine), len(theirs)))
    for side, (codes, weights) in enumerate(points):
        order = np.argsort(codes, kind="stable")
        some, running = codes[order], np.concatenate([[0.0], np.cumsum(weights[order])])
        (begin, end), (first, last) = (_ends(side, takes) for takes in (mine, theirs))
        below = np.searchsorted(some, np.maximum(begin[:, None], first), "left")
        upto = np.searchsorted(some, np.minimum(end[:, None], last), "right")
        common += np.maximum(running[upto] - running[below], 0.0)
    best = common.argmax(axis=1) if regions else np.zeros(len(mine), np.int64)
    grids = [cast("Grid", region.topology) for region in regions]
    return [grids[n] if regions and common[area, n] > 0 else None for area, n in enumerate(best.tolist())]


def _ends(side: int, takes: Sequence[Ranges]) -> tuple[I64, I64]:
    """The first and the last code of a side that each of these areas takes."""
    intervals = [area.side(side) for area in takes]
    return np.array([i.first for i in intervals], np.int64), np.array([i.last for i in intervals], np.int64)


def _table(
    old: RoutingTable, areas: Sequence[Area], divisions: Sequence[tuple[Division, Division, Division]]
) -> RoutingTable:
    """The table of the areas, with cells numbered in their order."""
    regions, first = [], 0
    for area, cuts in zip(areas, divisions, strict=True):
        regions.append(Region(area.takes or Buckets((0,)), area.scheme.grid(first, cuts)))
        first += area.scheme.tasks
    buckets = 1 if areas[0].takes is None else 0
    return replace(old, version=old.version + 1, instances=first, buckets=buckets, regions=tuple(regions), follows=None)


def _numbered(old: RoutingTable, table: RoutingTable, before: Sequence[int]) -> RoutingTable:
    """The table with its cells numbered such that each goes on from the old instance `before[cell]`."""
    instance = numbered(before)
    made = _renumbered(table, instance)
    if all(number < len(before) for number in before):
        return made
    of = sorted(zip(instance, before, strict=True))
    return replace(made, follows=Succession(old.name, tuple(number for _, number in of)))


def _renumbered(table: RoutingTable, instance: Sequence[int]) -> RoutingTable:
    regions = []
    for region in table.regions:
        grid = region.topology
        assert isinstance(grid, Grid)
        cells, extra = (tuple(instance[cell] for cell in some) for some in (grid.cells, grid.extra))
        regions.append(replace(region, topology=replace(grid, cells=cells, extra=extra)))
    return replace(table, regions=tuple(regions))
