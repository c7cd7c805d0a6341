"""Samples: a few weighted points per side that stand for its tuples alive, for planners that look at codes.

    ((code, weight), ...)             codes ascend, each once; weights are positive and add up to the tuples alive
    ((code, weight, code1, ...), ...) of a side with several indexes: the codes by its further indexes stand at the end

A tuple counts once, however many instances store a copy of it. Late and unmatchable tuples do not count. Points are
kept by sub-window (`Slice`), as the tuples are, and leave with it:

    slices after a batch  =  joined(slices before, slices of the batch)  -  those whose `until` has expired

A dispatch task picks tuples at random: those with the smallest ids, and ids are hashes with the checkpoint's seed. So
what is picked depends neither on the order of rows nor on any stride in them. Equal ids are equal tuples. They are
picked together and count as many as they are, so that a row sent a thousand times does not crowd out the others. What
is picked is then brought down to a few points by rank.

`Grain` says how many. The more points a planner's task holds, the better it knows how full that task will be: cutting
at points, a task is wrong by about one point at each of its borders.

Guarantee: ranks are kept. What merging puts on one code lay within 1/limit of the whole, in rank. A code with more than
that share keeps its point. Not guaranteed: that a light code keeps its point; its weight goes to a neighbour. The same
holds of a code by a further index only as far as its points are near each other in rank.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.hashing import I64, U64

F64 = npt.NDArray[np.float64]

SAMPLE_POINTS = 256
"""How many points a side has if the planner does not ask for more."""
PICKED = 2**18
"""How many tuples of a side a dispatch task picks, before it brings them down to points. At 256 tasks these are 1,024
for each: a standard error of 3 %, of one batch and one dispatch task alone."""
FEW = 8
"""A sub-window has at least so many points."""

Point = tuple[float, ...]
"""(code, weight, codes by further indexes)."""
Sample = tuple[Point, ...]


class Slice(NamedTuple):
    """The sample of one sub-window: its number, the latest time of its tuples, by which it expires (None: it does
    not), and its points."""

    number: int
    until: int | None
    points: Sample

    @property
    def weight(self) -> float:
        return sum(point[1] for point in self.points)


Slices = tuple[Slice, ...]
"""One for each sub-window, in their order."""


@dataclass(frozen=True, slots=True)
class Grain:
    """How many points stand for a side: enough that each stands for at most `tuples` tuples, but at least `least` and
    at most `most`."""

    least: int = SAMPLE_POINTS
    most: int = SAMPLE_POINTS
    tuples: float = inf

    def points(self, total: float) -> int:
        """How many points stand for this many tuples."""
        return max(self.least, min(self.most, ceil(total / self.tuples)))


USUAL_GRAIN = Grain()


def merge_samples(old: Sample, new: Sample, limit: int | None = SAMPLE_POINTS) -> Sample:
    """One sample for the tuples of both samples: at most `limit` points with the same total weight. O(points log
    points)."""
    codes, weights = _sorted_points((*old, *new))
    return _points(codes, weights) if limit is None else _points(*_compressed(codes, weights, limit))


def joined(slices: Iterable[Slice]) -> Slices:
    """Slices of one sub-window become one. All points stay."""
    found: dict[int, list[Slice]] = defaultdict(list)
    for one in slices:
        found[one.number].append(one)
    return tuple(_as_one(number, some) for number, some in sorted(found.items()))


def coarsened(slices: Slices, grain: Grain) -> Slices:
    """The slices with as many points as `grain` says, shared out by weight. A slice keeps at least FEW points."""
    weights = [one.weight for one in slices]
    limit = grain.points(sum(weights))
    return tuple(
        one._replace(points=merge_samples((), one.points, max(ceil(limit * weight / sum(weights)), FEW)))
        for one, weight in zip(slices, weights, strict=True)
        if weight > 0
    )


def whole(slices: Slices) -> Sample:
    """One sample for the tuples of all sub-windows. All points stay."""
    points = tuple(point for one in slices for point in one.points)
    return points if len(slices) < 2 else merge_samples((), points, None)


def slices_from_json(data: Iterable[Any]) -> Slices:
    return tuple(Slice(number, until, tuple(map(tuple, points))) for number, until, points in data)


def scaled(sample: Sample, total: float) -> Sample:
    """The same points with weights that add up to `total`; no points if there are no tuples."""
    weight = sum(point[1] for point in sample)
    if weight <= 0 or total <= 0:
        return ()
    return tuple((code, w * total / weight, *more) for code, w, *more in sample)


class Picked:
    """The samples of one side that a dispatch task makes, however its rows are ordered and cut into batches.

    `width` is that of the side's sub-windows; None: its tuples do not expire."""

    def __init__(self, grain: Grain, width: int | None = None, most: int = PICKED) -> None:
        self._grain, self._width, self._most = grain, width, most
        self._parts: list[tuple[U64, I64, I64]] = []  # ids, how many tuples have each, [number, codes] of each
        self._bound, self._held = np.uint64(2**64 - 1), 0
        self._totals: dict[int, int] = defaultdict(int)
        self._until: dict[int, int] = {}

    def add(self, ids: U64, codes: np.ndarray, more: Sequence[np.ndarray] = (), times: I64 | None = None) -> None:
        """More tuples: the ids [n], the codes [n], the codes by each further index of them, and the times. O(n)."""
        numbers = np.zeros(len(ids), np.int64)
        if self._width is not None and times is not None:
            numbers = np.floor_divide(times, self._width)
        for number in np.unique(numbers).tolist():
            here = numbers == number
            self._totals[number] += int(here.sum())
            if self._width is not None and times is not None:
                latest = int(times[here].max())
                self._until[number] = max(latest, self._until.get(number, latest))
        some = np.flatnonzero(ids <= self._bound)
        rows = np.column_stack([one[some].astype(np.int64) for one in (numbers, codes, *more)])
        self._parts.append((ids[some], np.ones(len(some), np.int64), rows))
        self._held += len(some)
        if self._held > 2 * self._most:
            self._prune()

    def slices(self) -> Slices:
        """The samples of all tuples so far."""
        if not self._parts:
            return ()
        _, counts, rows = self._prune()
        total = sum(self._totals.values())
        limit = self._grain.points(total)
        out = []
        for number, size in sorted(self._totals.items()):
            mine = rows[:, 0] == number
            if mine.any():  # else it is too small to have been picked
                codes, weights = _alike(rows[mine, 1:], counts[mine] * (size / counts[mine].sum()))
                points = _points(*_compressed(codes, weights, max(ceil(limit * size / total), FEW)))
                out.append(Slice(number, self._until.get(number), points))
        return tuple(out)

    def _prune(self) -> tuple[U64, I64, I64]:
        """Count equal tuples, and keep those with the smallest ids."""
        ids, counts, rows = (np.concatenate([part[k] for part in self._parts]) for k in range(3))
        ids, first, owner = np.unique(ids, return_index=True, return_inverse=True)
        counts = np.bincount(owner.reshape(-1), counts, len(ids)).astype(np.int64)
        most = self._most if rows.shape[1] == 2 else min(self._most, self._grain.least)
        if len(ids) > most:
            self._bound = ids[most - 1]
        kept = ids[:most], counts[:most], rows[first[:most]]
        self._parts, self._held = [kept], len(kept[0])
        return kept


def _as_one(number: int, slices: Sequence[Slice]) -> Slice:
    until = [one.until for one in slices if one.until is not None]
    if len(slices) == 1:
        return slices[0]
    points = tuple(point for one in slices for point in one.points)
    return Slice(number, max(until) if until else None, merge_samples((), points, None))


def _points(codes: I64, weights: F64) -> Sample:
    return tuple((code, weight, *more) for (code, *more), weight in zip(codes.tolist(), weights.tolist(), strict=True))


def _sorted_points(points: Sequence[Point]) -> tuple[I64, F64]:
    """Codes [n, indexes], ascending and each once, and their weights [n]."""
    if not points:
        return np.zeros((0, 1), np.int64), np.zeros(0)
    every = np.array([[code, *more] for code, _, *more in points], np.int64)
    codes, weights = _alike(every, np.array([point[1] for point in points], np.float64))
    return codes[weights > 0], weights[weights > 0]


def _alike(rows: I64, weights: F64) -> tuple[I64, F64]:
    """The distinct rows [n, indexes], ascending, and the sum of the weights of each."""
    if rows.shape[1] == 1:
        codes, owner = np.unique(rows[:, 0], return_inverse=True)
        codes = codes[:, None]
    else:
        codes, owner = np.unique(rows, axis=0, return_inverse=True)
    return codes, np.bincount(owner.reshape(-1), weights, len(codes)).astype(np.float64)


def _compressed(codes: I64, weights: F64, limit: int) -> tuple[I64, F64]:
    """Equi-depth compression: the range of ranks is cut into `limit` equal parts. All points whose middle is in the
    same part become one, at the codes of the one that has the middle of their weight."""
    if len(codes) <= limit:
        return codes, weights
    ends = np.cumsum(weights)
    part = np.minimum(((ends - weights / 2) / ends[-1] * limit).astype(np.int64), limit - 1)
    last = np.flatnonzero(np.diff(part, append=limit))
    first = np.concatenate([[0], last[:-1] + 1])
    begin = np.concatenate([[0.0], ends[last[:-1]]])
    middle = np.searchsorted(ends, (begin + ends[last]) / 2).clip(first, last)
    return codes[middle], ends[last] - begin
