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
from bisect import bisect_right
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
MOST_AHEAD = 32
"""So many cuts are asked about at once, at most."""


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
    needed, taken = tasks(*_between(volumes, side, np.array(chain[:-1]), np.array(chain[1:])))
    return Plan(int(needed.sum()), float(taken.sum()), tuple(areas))


def _chain(volumes: _Volumes, side: int, tasks: Tasks) -> list[int]:
    """The cuts between the slabs, the first and the last included."""
    end = len(volumes.here) - 1
    (most,), _ = tasks(*_between(volumes, side, np.array([0]), np.array([end])))
    farthest = np.zeros(int(most) + 1, np.int64)  # by number of tasks: F(n) as known so far, up to the fewest for all
    last = np.zeros(int(most) + 1, np.int64)  # and where its last slab begins
    begins: dict[int, int] = {}
    steps = _Steps(volumes, side, tasks)
    at, used = 0, 0
    while at < end:
        count, stop = steps.farthest(at)
        total = used + count
        better = (total < len(farthest)) & (stop > farthest.take(total, mode="clip"))
        farthest[total[better]], last[total[better]] = stop[better], at
        if better[-1]:  # there is no use for more tasks than reach the end
            farthest, last = farthest[: total[-1] + 1], last[: total[-1] + 1]
        used += 1
        while farthest[used] <= at:
            used += 1
        at, begins[int(farthest[used])] = int(farthest[used]), int(last[used])
    chain = [end]
    while chain[-1] > 0:
        chain.append(begins[chain[-1]])
    return chain[::-1]


class _Steps:
    """How far slabs get that begin at a cut, for one cut after the other.

    Arrays of one cut are small, so calls of numpy would take most of the time. Hence the next cuts are guessed, and all
    of them asked about at once. The guess is that slabs of one task follow each other, each as full as the fullest so
    far. A wrong one costs time and nothing else: as many cuts are guessed as the last guesses were good for."""

    def __init__(self, volumes: _Volumes, side: int, tasks: Tasks) -> None:
        self._volumes, self._side, self._tasks = volumes, side, tasks
        self._end = len(volumes.here) - 1
        self._offsets = _offsets(2 ** max(self._end, DENSE).bit_length())
        self._distances = self._offsets.tolist()
        self._below, self._from = volumes.here + volumes.reached, volumes.here + volumes.left
        self._known: dict[int, tuple[I64, I64]] = {}
        self._full, self._ahead, self._asked = 0.0, 1, 0

    def farthest(self, at: int) -> tuple[I64, I64]:
        """Numbers of tasks, and the farthest stop of a slab that needs no more: for those numbers with which one gets
        farther. Both ascend; the last stop is the last cut."""
        if at not in self._known:
            good = self._asked == self._ahead
            self._ahead = min(2 * self._ahead, MOST_AHEAD) if good else max(self._asked, 1)
            self._known, self._asked = self._found(self._guessed(at)), 0
        self._asked += 1
        return self._known[at]

    def _guessed(self, at: int) -> list[int]:
        out = [at]
        while len(out) < self._ahead:
            stop = int(np.searchsorted(self._below, self._from[at] + self._full, "right")) - 1
            at += self._distances[max(bisect_right(self._distances, stop - at) - 1, 0)]
            if at >= self._end:
                break
            out.append(at)
        return out

    def _found(self, cuts: list[int]) -> dict[int, tuple[I64, I64]]:
        begin = np.array(cuts)[:, None]
        stops = np.minimum(begin + self._offsets, self._end)
        own, other = _between(self._volumes, self._side, begin, stops)
        needed, _ = self._tasks(own, other)
        self._full = max(self._full, float((own + other)[needed == 1].max(initial=0.0)))
        least = np.minimum.accumulate(needed[:, ::-1], axis=1)[:, ::-1]
        farther = np.ones(needed.shape, bool)
        np.less(least[:, :-1], least[:, 1:], out=farther[:, :-1])
        return {cut: (needed[n, farther[n]].astype(np.int64), stops[n, farther[n]]) for n, cut in enumerate(cuts)}


@lru_cache(maxsize=4)
def _offsets(most: int) -> I64:
    """Distances of the cuts looked at, ascending, until beyond `most`."""
    growing = np.unique(np.rint(DENSE * (1 + 1 / STEP) ** np.arange(max(np.log(most / DENSE) * (STEP + 1), 0) + 1)))
    return np.concatenate([np.arange(1, DENSE), growing.astype(np.int64)])


def _volumes(matrix: Matrix, side: int) -> _Volumes:
    lines, totals = matrix.lines[side], matrix.volumes(Ranges())
    own, other = totals[side], totals[ACROSS[side]]
    none = np.zeros(len(lines.at))
    reached, left = none + other if lines.reached is None else lines.reached, none if lines.left is None else lines.left
    return _Volumes(
        *(np.concatenate([[0.0], some, [last]]) for some, last in ((lines.here, own), (reached, other), (left, other)))
    )


def _between(volumes: _Volumes, side: int, begin: I64 | int, end: I64) -> tuple[F64, F64]:
    """The volumes |ca^r| and |ca^s| of slabs between two cuts."""
    own = volumes.here[end] - volumes.here[begin]
    other = np.maximum(volumes.reached[end] - volumes.left[begin], 0.0)
    return (own, other) if side == 0 else (other, own)


def _slab(matrix: Matrix, side: int, begin: int, end: int) -> Ranges:
    at = matrix.lines[side].at
    own = Interval(None if begin == 0 else int(at[begin - 1]), None if end > len(at) else int(at[end - 1]))
    near = matrix.reach.columns_of(own) if side == 0 else matrix.reach.rows_of(own)
    return Ranges(own, near) if side == 0 else Ranges(near, own)
