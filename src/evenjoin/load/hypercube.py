"""What a cube costs: how often a side's tuples are copied, and what the fullest instance gets. The least costly sizes.

Along a dim d the tuples of side s have

    copies(d, s)    coordinates each, on average       1 for an owner, `size` for a side without the dim
    peak(d, s)      of them that share which is at the fullest coordinate       1 / size for an owner, if it is even

and since dims are independent of each other, a cube for the volumes v has

    messages = sum over s of v(s) * product over d of copies(d, s)
    load     = sum over s of v(s) * product over d of peak(d, s)         what the fullest instance gets, at most

For dims that divide evenly, load is messages / cells, and the sizes of least load are those of the Shares algorithm:
for the triangle |R| p_c + |S| p_a + |T| p_b over the cells. A band that crosses cuts raises copies and peaks a bit. A
comparison has copies (size + 1) / 2. A hot value of a hash dim leaves its peak above the value's share, whatever the
size is; then dividing a side by `u` may cost less.

Shares, bands and hot values are read off the samples of the load report, whose points have codes by all indexes.
Guarantee: `best_sizes` has the least load of all sizes whose product is at most the number of instances, then fewest
messages, provided that a larger size has no higher peak. Not guaranteed: that dims are independent; the load is then
a forecast that may be wrong.
Pure. Not here: which dims there may be, and when sizes change (strategies/hypercube.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from evenjoin.kernels.hashing import I64
from evenjoin.load.items import F64, Items
from evenjoin.placement.cube import Dim, spans

LEAST_SHARE = 1e-3
"""A side that has fewer than this share of all tuples counts as if it had this share: it may send more tomorrow."""


class Profile(NamedTuple):
    """[sides] The copies and the peak of each side along one dim."""

    copies: F64
    peak: F64


def volumes(items: Items | None, sides: int) -> F64:
    """[sides] The tuples alive of each side; all alike where nothing is known."""
    if items is None or len(items.alive) != sides:
        return np.ones(sides)
    alive = np.array([float(weights.sum()) for _, weights in items.alive])
    total = float(alive.sum())
    return np.maximum(alive, LEAST_SHARE * total) if total > 0 else np.ones(sides)


def known_codes(items: Items | None, side: int, index: int) -> tuple[I64, F64] | None:
    """The sampled codes of a side by one of its indexes, and their weights; None if there are none."""
    if items is None or not items.further:
        return None
    codes, weights = items.alive[side]
    every = (codes, *items.further[side])
    return (every[index], weights) if index < len(every) and weights.sum() > 0 else None


def profile(dim: Dim, sides: int, items: Items | None) -> Profile:
    """The copies and the peak of each side along a dim."""
    copies, peak = np.ones(sides), np.full(sides, 1 / dim.size)
    for side in range(sides):
        takes, index = dim.takes(side), dim.index_of(side)
        known = None if index is None else known_codes(items, side, index)
        if takes == "all":
            copies[side], peak[side] = dim.size, 1.0
        elif dim.kind == "hash" and known is not None:
            peak[side] = _hashed_peak(*known, dim.size)
        elif dim.kind == "range" and known is not None:
            copies[side], peak[side] = _ranged(dim, side, *known)
    return Profile(copies, peak)


def _hashed_peak(codes: I64, weights: F64, size: int) -> float:
    """The coordinate of the heaviest code has all of it and its part of the rest. That one of n points stands for 1/n
    of the tuples makes its code no hot value."""
    _, owner = np.unique(codes, return_inverse=True)
    share = float(np.bincount(owner.reshape(-1), weights).max() / weights.sum())
    hot = max(share - 1 / len(codes), 0.0)
    return hot + (1 - hot) / size


def _ranged(dim: Dim, side: int, codes: I64, weights: F64) -> tuple[float, float]:
    """Copies and peak of sampled codes along a range dim."""
    index = dim.index_of(side) or 0
    found = spans(dim, 0, side, [codes] * (index + 1), np.zeros(len(codes), np.uint32))
    assert found is not None
    first, last = found
    begun = np.bincount(first, weights, dim.size + 1) - np.bincount(last + 1, weights, dim.size + 1)
    there = np.cumsum(begun)[: dim.size]
    return float(there.sum() / weights.sum()), float(there.max() / weights.sum())


class Cost(NamedTuple):
    """What the fullest instance gets, and how many messages are sent, in tuples alive."""

    load: float
    messages: float


def cost(dims: Sequence[Dim], sides: int, items: Items | None) -> Cost:
    """The cost of a cube of these dims."""
    load, messages = volumes(items, sides), volumes(items, sides)
    for dim in dims:
        copies, peak = profile(dim, sides, items)
        load, messages = load * peak, messages * copies
    return Cost(float(load.sum()), float(messages.sum()))


def best_sizes(offers: Sequence[Sequence[Profile | None]], tuples: F64, instances: int) -> tuple[int, ...]:
    """The sizes of least cost. `offers[d][k]` is the profile of dim d with size k + 1; None: it cannot have that size.
    Of equal costs the sizes that are most alike win, then those that are larger in earlier dims."""
    vectors = size_vectors(len(offers), instances)
    load = np.broadcast_to(tuples, (len(vectors), len(tuples))).copy()
    messages = load.copy()
    for number, sizes in enumerate(offers):
        nowhere = Profile(np.full(len(tuples), np.inf), np.full(len(tuples), np.inf))
        every = [one or nowhere for one in sizes] + [nowhere] * (instances - len(sizes))
        chosen = vectors[:, number] - 1
        load *= np.array([one.peak for one in every])[chosen]
        messages *= np.array([one.copies for one in every])[chosen]
    loads, sent = load.sum(axis=1), messages.sum(axis=1)
    rank = [*(-vectors.T[::-1]), vectors.max(axis=1), np.round(sent / sent.min(), 9), np.round(loads / loads.min(), 9)]
    return tuple(vectors[np.lexsort(rank)[0]].tolist())


def useful_sizes(most: int) -> tuple[int, ...]:
    """The sizes worth trying where the product of all is at most `most`: the largest that leave room for k cells of
    the other dims, for some k. A size in between divides less and leaves no more room. They are about 2 sqrt(most)."""
    return tuple(sorted({most // k for k in range(1, most + 1)}))


@lru_cache(maxsize=1024)
def size_vectors(dims: int, most: int) -> I64:
    """[n, dims] All vectors of useful sizes whose product is at most `most`."""
    if dims == 0:
        return np.ones((1, 0), np.int64)
    parts = []
    for size in useful_sizes(most):
        rest = size_vectors(dims - 1, most // size)
        parts.append(np.column_stack([np.full(len(rest), size, np.int64), rest]))
    return np.concatenate(parts)


def even_cuts(codes: I64, weights: F64, size: int) -> tuple[int, ...] | None:
    """Cuts that divide the points into `size` parts as evenly as their codes allow; None if there are too few codes.

    A cut lies in the middle of the gap between two codes, where a band that crosses it copies least."""
    values, owner = np.unique(codes, return_inverse=True)
    if len(values) < size:
        return None
    ends = np.cumsum(np.bincount(owner.reshape(-1), weights, len(values)))
    wanted = ends[-1] * np.arange(1, size) / size
    gaps = ends[:-1]
    right = np.minimum(np.searchsorted(gaps, wanted), len(gaps) - 1)
    left = np.maximum(right - 1, 0)
    nearest = np.where(wanted - gaps[left] < gaps[right] - wanted, left, right)
    step = np.arange(size - 1)
    ascending = np.maximum.accumulate(nearest - step) + step
    chosen = np.minimum(ascending, len(gaps) - 1 - step[::-1]).tolist()
    return tuple(_middle(int(values[gap]), int(values[gap + 1])) for gap in chosen)


def _middle(low: int, high: int) -> int:
    """The code in the middle between two, above `low`."""
    return low + (high - low + 1) // 2
