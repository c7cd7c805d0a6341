"""Samples: a few weighted points per side that stand for its tuples alive, for planners that look at codes.

    ((code, weight), ...)             codes ascend, each once; weights are positive and add up to the tuples alive
    ((code, weight, code1, ...), ...) of a side with several indexes: the codes by its further indexes stand at the end

A tuple counts once, however many instances store a copy of it. Late and unmatchable tuples do not count, nor do those
that have expired. A dispatch task with n tuples is sampled as the codes of the m tuples with the smallest ids, with the
weight n/m each. Ids are hashes, so this is a random choice, and it does not depend on the order of rows. With `alive`
tuples of the side after the batch, of which `arrived` came in it, the new sample is

    merge_samples(scaled(old, alive - arrived), new, limit)

so that old points lose weight as tuples expire.

Guarantee: ranks are kept. What merging puts on one code lay within 1/limit of the whole, in rank. A code with more than
that share keeps its point. Not guaranteed: that a light code keeps its point; its weight goes to a neighbour. The same
holds of a code by a further index only as far as its points are near each other in rank.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SAMPLE_POINTS = 256
"""How many points a side of the load report has at most."""

Point = tuple[float, ...]
"""(code, weight, codes by further indexes)."""
Sample = tuple[Point, ...]


def merge_samples(old: Sample, new: Sample, limit: int = SAMPLE_POINTS) -> Sample:
    """One sample for the tuples of both samples: at most `limit` points with the same total weight. O(points log
    points)."""
    codes, weights = _sorted_points((*old, *new))
    if len(codes) > limit:
        codes, weights = _compressed(codes, weights, limit)
    return tuple((code, weight, *more) for (code, *more), weight in zip(codes.tolist(), weights.tolist(), strict=True))


class Smallest:
    """The sample of one side that a dispatch task makes, however its rows are ordered and cut into batches."""

    def __init__(self, limit: int = SAMPLE_POINTS) -> None:
        self._limit, self._total = limit, 0
        self._ids, self._codes = np.zeros(0, np.uint64), np.zeros((0, 1), np.int64)

    def add(self, ids: np.ndarray, codes: np.ndarray, more: Sequence[np.ndarray] = ()) -> None:
        """More tuples: the ids [n] uint64, the codes [n], and the codes by each further index of them. O(n)."""
        self._total += len(ids)
        few = np.flatnonzero(ids < np.uint64(min(4 * self._limit / max(len(ids), 1), 1.0) * (2**64 - 2048)))
        some = few if len(few) >= self._limit else np.arange(len(ids))  # the smallest are among the few
        new = np.column_stack([one[some].astype(np.int64) for one in (codes, *more)])
        all_ids = np.concatenate([self._ids, ids[some]])
        all_codes = np.concatenate([self._codes, new]) if len(self._ids) else new
        picked = np.argsort(all_ids, kind="stable")[: self._limit]
        self._ids, self._codes = all_ids[picked], all_codes[picked]

    def sample(self) -> Sample:
        """The sample of all tuples so far."""
        weight = self._total / max(len(self._codes), 1)
        points = tuple((code, weight, *more) for code, *more in self._codes.tolist())
        return merge_samples((), points, self._limit)


def scaled(sample: Sample, total: float) -> Sample:
    """The same points with weights that add up to `total`; no points if there are no tuples."""
    weight = sum(point[1] for point in sample)
    if weight <= 0 or total <= 0:
        return ()
    return tuple((code, w * total / weight, *more) for code, w, *more in sample)


def _sorted_points(points: Sequence[Point]) -> tuple[np.ndarray, np.ndarray]:
    """Codes [n, indexes], ascending and each once, and their weights [n]."""
    if not points:
        return np.zeros((0, 1), np.int64), np.zeros(0)
    every = np.array([[code, *more] for code, _, *more in points], np.int64)
    codes, owner = np.unique(every, axis=0, return_inverse=True)
    weights = np.bincount(owner.reshape(-1), np.array([point[1] for point in points], np.float64), len(codes))
    return codes[weights > 0], weights[weights > 0]


def _compressed(codes: np.ndarray, weights: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Equi-depth compression: the range of ranks is cut into `limit` equal parts. All points whose middle is in the
    same part become one, at the codes of the heaviest."""
    ends = np.cumsum(weights)
    part = np.minimum(((ends - weights / 2) / ends[-1] * limit).astype(np.int64), limit - 1)
    order = np.lexsort((np.arange(len(codes)), -weights, part))
    first = np.flatnonzero(np.diff(part[order], prepend=-1))
    return codes[order][first], np.bincount(part, weights)[part[order][first]]
