"""Slabs: the dichotomies that cut the ordered matrix on one side only, as fine as the points allow.

    rows 0 .. 7     # # .                 slab 1: 1 task         A slab is a range of codes of one side, with all that
    rows 8 .. 15    . # # #               slab 2: 1 task         they may match of the other. Side by side, slabs of one
    rows 16 ..          # # # #           slab 3: 2 tasks        task are a 1-DSP scheme along the diagonal.

Alg. 2 tries every split point. areas.py follows only the promising ones, on few lines; what it misses most are long
chains of splits that each peel off one full task. This file finds the best chain, on all lines. Let F(n) be the
farthest cut such that all codes below it fit n tasks. A slab that begins later has less in it, so that the farthest is
the best, and

    F(0) = the first code      F(n) = max over k of the farthest end of a slab that begins at F(n - k) and needs k tasks

Each slab may need any number of tasks, by eq. 9 or Alg. 1. So where bands are wide, or codes heavy, its tasks are a
grid, as the paper has it for an area that is not worth splitting.

Guarantee: of all plans of slabs of one side, on the cuts looked at, none has fewer tasks (if a larger area never needs
fewer tasks than a smaller one). Looked at are the next DENSE cuts, and farther ones at distances that grow by 1/STEP.
Cost: O(tasks * (DENSE + STEP * log cuts)). Not here: plans that cut both sides in turn (areas.py).
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from evenjoin.kernels.hashing import I64
from evenjoin.load.adsp import Matrix
from evenjoin.load.items import F64
from evenjoin.placement.ranges import ACROSS, Interval, Ranges
from evenjoin.strategies.adsp.areas import Plan, Tasks

DENSE = 48
STEP = 12


class _Volumes(NamedTuple):
    """By cut, of which the first is before and the last behind all codes: the own side's volume below it, and of the
    other side the volumes up to what codes below it reach, and below what codes from it on reach."""

    here: F64
    reached: F64
    left: F64


def slabs(matrix: Matrix, tasks: Tasks, side: int) -> Plan:
    """The plan of slabs of this side that needs the fewest tasks."""
    volumes = _volumes(matrix, side)
    chain = _chain(volumes, side, tasks)
    areas = [_slab(matrix, side, begin, end) for begin, end in itertools.pairwise(chain)]
    first, last = np.array(chain[:-1]), np.array(chain[1:])
    needed, taken = tasks(*_between(volumes, side, first, last))
    return Plan(int(needed.sum()), float(taken.sum()), tuple(areas))


def _chain(volumes: _Volumes, side: int, tasks: Tasks) -> list[int]:
    """The cuts between the slabs, the first and the last included."""
    end = len(volumes.here) - 1
    farthest = {0: (0, 0)}  # by number of tasks: F(n), and where its last slab begins
    begins: dict[int, int] = {}
    at, used = -1, 0
    while at < end:
        found, begin = farthest.pop(used, (-1, 0))
        used += 1
        if found > at:
            at, begins[found] = found, begin
            stops = at + _offsets(end - at)
            needed, _ = tasks(*_between(volumes, side, np.full(len(stops), at), stops))
            for count, stop in _farthest_stops(needed, stops):
                if stop > farthest.get(used - 1 + count, (-1, 0))[0]:
                    farthest[used - 1 + count] = stop, at
    chain = [end]
    while chain[-1] > 0:
        chain.append(begins[chain[-1]])
    return chain[::-1]


def _farthest_stops(needed: F64, stops: I64) -> list[tuple[int, int]]:
    """(tasks, the farthest stop that needs no more), for those numbers of tasks with which one gets farther."""
    least = np.minimum.accumulate(needed[::-1])[::-1]
    best = np.flatnonzero(least < np.append(least[1:], np.inf))
    return list(zip(needed[best].astype(np.int64).tolist(), stops[best].tolist(), strict=True))


@lru_cache(maxsize=4)
def _all_offsets(most: int) -> I64:
    growing = np.unique(np.rint(DENSE * (1 + 1 / STEP) ** np.arange(max(np.log(most / DENSE) * (STEP + 1), 0) + 1)))
    return np.concatenate([np.arange(1, DENSE), growing.astype(np.int64)])


def _offsets(left: int) -> I64:
    """Distances of the cuts looked at, ascending; the last cut, at distance `left`, is always one."""
    some = _all_offsets(2 ** max(left, DENSE).bit_length())
    return np.append(some[: np.searchsorted(some, left)], left) if left else some[:0]


def _volumes(matrix: Matrix, side: int) -> _Volumes:
    lines, totals = matrix.lines[side], matrix.volumes(Ranges())
    own, other = totals[side], totals[ACROSS[side]]
    none = np.zeros(len(lines.at))
    reached, left = none + other if lines.reached is None else lines.reached, none if lines.left is None else lines.left
    return _Volumes(
        *(np.concatenate([[0.0], some, [last]]) for some, last in ((lines.here, own), (reached, other), (left, other)))
    )


def _between(volumes: _Volumes, side: int, begin: I64, end: I64) -> tuple[F64, F64]:
    """The volumes |ca^r| and |ca^s| of slabs between two cuts."""
    own = volumes.here[end] - volumes.here[begin]
    other = np.maximum(volumes.reached[end] - volumes.left[begin], 0.0)
    return (own, other) if side == 0 else (other, own)


def _slab(matrix: Matrix, side: int, begin: int, end: int) -> Ranges:
    at = matrix.lines[side].at
    own = Interval(None if begin == 0 else int(at[begin - 1]), None if end > len(at) else int(at[end - 1]))
    near = matrix.reach.columns_of(own) if side == 0 else matrix.reach.rows_of(own)
    return Ranges(own, near) if side == 0 else Ranges(near, own)
