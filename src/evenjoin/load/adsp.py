"""A-DSP's cost model and its sampled ordered matrix (Sec. 2.3, eq. 1-3; Sec. 3.1, eq. 9; Sec. 5.1).

    memory   C_m = |ca^r| * beta * r_state + |ca^s| * alpha * s_state     (1)  a row's tuples are in every column of it
    network  C_n = the same with the tuples' sizes                        (2)
    CPU      C_c = |ca^r| * |ca^s|                                        (3)  whatever alpha and beta
    Square   N   = ceil(|ca^r| / V_h) * ceil(|ca^s| / V_h), V_h = V / 2   (9)

Volumes are counted in tuples. V is what one task may store.

`Matrix` is the ordered tuple matrix, compressed. It has points with weights for each side's tuples, and the cuts at
which areas may be split; the codes between two cuts are a line.

* Lines are equi-depth: each has about the same volume, and a code heavier than that is a line of its own.
* A cut lies in the middle of the gap between two points, where a band that crosses it copies least.
* Both sides get the cuts of both, shifted by the middle of the reach, so that bands cross lines at their corners.
* A cell is the rectangle of a line of each side. It is a candidate if, by the reach, it may have results. Candidates
  are monotone: in each row they are one range of columns, whose ends do not fall from one row to the next.

`Floor` says how few tasks of a capacity any scheme has, by which the search for one knows where to begin and to end.

Pure. Does not choose areas or schemes: that is strategies/adsp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

import numpy as np

from evenjoin.kernels.hashing import I64
from evenjoin.load.items import F64
from evenjoin.placement.pieces import Points
from evenjoin.placement.ranges import ACROSS, FIRST_CODE, LAST_CODE, Interval, Ranges, Reach

ROUNDING = 1e-9
"""Volumes are sums of floats. An excess over a whole number that is smaller than this counts as a rounding error."""


def memory(rows: float, columns: float, alpha: int, beta: int, sizes: tuple[float, float] = (1.0, 1.0)) -> float:
    """C_m of `rows` and `columns` tuples over alpha x beta tasks (eq. 1); `sizes` of a stored tuple of each side."""
    return rows * beta * sizes[0] + columns * alpha * sizes[1]


def network(rows: float, columns: float, alpha: int, beta: int, sizes: tuple[float, float] = (1.0, 1.0)) -> float:
    """C_n (eq. 2); `sizes` of a tuple sent of each side."""
    return memory(rows, columns, alpha, beta, sizes)


def cpu(rows: float, columns: float) -> float:
    """C_c (eq. 3)."""
    return rows * columns


def square_lines(rows: float, columns: float, capacity: float) -> tuple[int, int]:
    """Rows and columns of Square's scheme (Theorem 1): half a task's capacity for each stream."""
    half = capacity / 2
    return max(ceil(rows / half - ROUNDING), 1), max(ceil(columns / half - ROUNDING), 1)


def square_tasks(rows: F64, columns: F64, capacity: float) -> tuple[F64, F64]:
    """Tasks (eq. 9) and memory (eq. 1) for arrays of volumes; an area without tuples is one task."""
    alpha, beta = (np.ceil(volume / (capacity / 2) - ROUNDING).clip(1.0) for volume in (rows, columns))
    return alpha * beta, rows * beta + columns * alpha


@dataclass(frozen=True, slots=True)
class Lines:
    """The cuts of a side, ascending, and volumes at each cut.

    here      of the own side, the volume below the cut
    reached   of the other side, the volume up to the last code that codes below the cut may match
    left      of the other side, the volume below the first code that codes from the cut on may match

    `reached` or `left` is None if the reach has no such end.
    """

    at: I64
    here: F64
    reached: F64 | None
    left: F64 | None


@dataclass(frozen=True, slots=True)
class Matrix:
    """The compressed ordered matrix. `points[side]` are the sorted codes of a side, and the prefix sums of their
    weights (one more than there are codes, the first is 0)."""

    reach: Reach
    lines: tuple[Lines, Lines]
    points: Points

    def all_volumes(self, areas: Sequence[Ranges]) -> F64:
        """[2, areas] |ca^r| and |ca^s| of each area."""
        out = np.zeros((2, len(areas)))
        for side, (mine, running) in enumerate(self.points):
            codes = [area.side(side) for area in areas]
            begin = np.searchsorted(mine, np.array([own.first for own in codes], np.int64), "left")
            end = np.searchsorted(mine, np.array([own.last for own in codes], np.int64), "right")
            out[side] = np.maximum(running[end] - running[begin], 0.0)
        return out

    def volumes(self, area: Ranges) -> tuple[float, float]:
        """|ca^r| and |ca^s| of an area."""
        rows, columns = (self.volume(side, area.side(side)) for side in (0, 1))
        return rows, columns

    def volume(self, side: int, codes: Interval) -> float:
        """Tuples of a side with these codes."""
        begin, end = self._ends(side, codes)
        return max(end - begin, 0.0)

    def splits(self, area: Ranges, side: int) -> tuple[I64, F64]:
        """The cuts at which an area may be split on a side, and the volumes [2 sides, 2 parts, cuts] of the two
        parts."""
        own, lines, across = area.side(side), self.lines[side], ACROSS[side]
        some = slice(lines.at.searchsorted(own.first, "right"), lines.at.searchsorted(own.last, "right"))
        begin, end = self._ends(side, own)
        first, last = self._ends(across, area.side(across))
        here = lines.here[some]
        out = np.empty((2, 2, len(here)))
        out[side, 0], out[side, 1] = here - begin, end - here
        out[across] = last - first
        if lines.reached is not None:
            out[across, 0] = np.minimum(lines.reached[some], last) - first
        if lines.left is not None:
            out[across, 1] = last - np.maximum(lines.left[some], first)
        return lines.at[some], np.maximum(out, 0.0)

    def candidates(self) -> list[range]:
        """For each line of side 0, the lines of side 1 with which it may have results."""
        rows, columns = ([Interval(*ends) for ends in pairwise([None, *c.at.tolist(), None])] for c in self.lines)
        return [self.reach.touched(row, columns) for row in rows]

    def _ends(self, side: int, codes: Interval) -> tuple[float, float]:
        mine, running = self.points[side]
        begin, end = mine.searchsorted(codes.first, "left"), mine.searchsorted(codes.last, "right")
        return float(running[begin]), float(running[end])


@dataclass(frozen=True, slots=True)
class Floor:
    """How few tasks any scheme has that brings together what may match, whatever its areas and cells.

    Say that code x of side 0 and code x + m of side 1 may match, have r and s tuples, and task i stores a_i and b_i of
    them. Every pair meets, so that the a_i b_i add up to r s at least. And a_i + b_i <= V, so that a_i b_i is at most
    (a_i + b_i) V / 4. Hence these tuples take 4 r s / V of what tasks can store; and r + s in any case, being stored
    somewhere. With one m for all x no tuple is counted twice, and

        tasks >= sum over x of max((r + s) / V, 4 r s / V^2)

    Without heavy codes that is what the tuples fill without copies. With no bound on what may match all tuples are as
    of one code. Not guaranteed: that a scheme with so few tasks exists; slabs come within a tenth of it at zipf 1.

    stored, pairs   [codes] r + s and 4 r s
    """

    stored: F64
    pairs: F64

    def tasks(self, capacity: float) -> float:
        """A number of tasks of this capacity with less than which no scheme does. It falls as the capacity grows."""
        return float(np.maximum(self.stored / capacity, self.pairs / capacity**2).sum())

    def capacity(self, tasks: float) -> float:
        """A capacity with less than which no scheme does that has so many tasks; exact to one in a thousand."""
        low = float(self.stored.sum()) / tasks
        high = low
        while self.tasks(high) > tasks:
            low, high = high, 2 * high
        while high - low > low / 1000:
            middle = (low + high) / 2
            low, high = (middle, high) if self.tasks(middle) > tasks else (low, middle)
        return low


def floor_of(points: Points, reach: Reach) -> Floor:
    """The floor for these points. O(points log points)."""
    (rows, r), (columns, s) = points
    if reach.low is None and reach.high is None:
        return Floor(np.array([r.sum() + s.sum()]), np.array([4 * r.sum() * s.sum()]))
    partner = _plus(columns, -_middle(reach))
    real = _plus(partner, _middle(reach)) == columns  # others have none, being too near to an end of int64
    codes, owner = np.unique(np.concatenate([rows, partner[real]]), return_inverse=True)
    of_rows = np.bincount(owner[: len(rows)], r, len(codes)).astype(np.float64)
    of_columns = np.bincount(owner[len(rows) :], s[real], len(codes)).astype(np.float64)
    return Floor(np.append(of_rows + of_columns, s[~real].sum()), np.append(4 * of_rows * of_columns, 0.0))


def matrix_of(points: Points, reach: Reach, lines: int, keep: tuple[int, ...] = ()) -> Matrix:
    """The matrix of these points. At most `lines` cuts come from each side: about half as many where no code is heavy.
    All codes in `keep` are cuts as well."""
    middle = _middle(reach) if reach.low is not None and reach.high is not None else 0
    shifts = (0, middle)
    ends = np.unique(
        np.concatenate(
            [
                _plus(_equi_depth(codes, weights, max(lines // 2, 2)), -shifts[side])
                for side, (codes, weights) in enumerate(points)
            ]
        )
    )
    sums = tuple(_running(codes, weights) for codes, weights in points)
    made = []
    for side in (0, 1):
        cuts = np.unique(np.concatenate([_plus(ends, shifts[side]), np.array(keep, np.int64)]))
        cuts = cuts[cuts > FIRST_CODE]
        low, high = (reach.low, reach.high) if side == 0 else (_minus(reach.high), _minus(reach.low))
        (own, mine), (other, theirs) = sums[side], sums[ACROSS[side]]
        reached = None if high is None else theirs[np.searchsorted(other, _plus(cuts, high - 1), "right")]
        left = None if low is None else theirs[np.searchsorted(other, _plus(cuts, low), "left")]
        made.append(Lines(cuts, mine[np.searchsorted(own, cuts)], reached, left))
    return Matrix(reach, (made[0], made[1]), sums)


def _middle(reach: Reach) -> int:
    """A difference of codes that may match, in the middle of them if they have two ends."""
    ends = [end for end in (reach.low, reach.high) if end is not None]
    return sum(ends) // len(ends)


def _running(codes: I64, weights: F64) -> tuple[I64, F64]:
    order = np.argsort(codes, kind="stable")
    return codes[order], np.concatenate([[0.0], np.cumsum(weights[order])])


def _equi_depth(codes: I64, weights: F64, parts: int) -> I64:
    """The codes at which lines begin, except for the first line. There are about `parts` lines of the same volume;
    heavy codes that are lines of their own add to them."""
    some, running = _running(codes, weights)
    if not len(some):
        return some
    wanted = running[-1] * np.arange(1, parts) / parts
    right = np.searchsorted(running, wanted).clip(1, len(some))
    nearest = np.where(running[right] - wanted < wanted - running[right - 1], right, right - 1)
    heavy = np.flatnonzero(np.diff(running) * parts > running[-1])
    begins = np.unique(np.concatenate([nearest, heavy, heavy + 1]))
    begins = begins[(begins > 0) & (begins < len(some))]
    low, high = some[begins - 1], some[begins]
    gap = high.astype(np.uint64) - low.astype(np.uint64)  # it may be wider than int64
    out: I64 = np.unique((low.astype(np.uint64) + gap - gap // np.uint64(2)).astype(np.int64))
    return out


def _plus(codes: I64, shift: int) -> I64:
    """codes + shift, held within int64."""
    if not FIRST_CODE <= shift <= LAST_CODE:
        return _plus(_plus(codes, shift // 2), shift - shift // 2)
    out: I64 = np.clip(codes, FIRST_CODE - min(shift, 0), LAST_CODE - max(shift, 0)) + np.int64(shift)
    return out


def _minus(bound: int | None) -> int | None:
    return None if bound is None else -bound
