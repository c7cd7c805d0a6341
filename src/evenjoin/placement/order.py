"""Ordered buckets: a keyed table for conditions under which different keys may match, as in |x - y| <= 2.

A bucket is an interval of codes, as `RoutingTable.cuts` says, instead of a set of hash values. A tuple is stored once,
in the bucket of its own code (or in the region of its key, if that has one). It probes what the other side stores in
every bucket and every key that its code can reach:

    cuts (10, 20), |x - y| <= 2      bucket 0 = .. 9      bucket 1 = 10 .. 19      bucket 2 = 20 ..

    y = 15    is stored in bucket 1, and probes what side 0 stores in bucket 1
    y = 19    is stored in bucket 1, and probes what side 0 stores in buckets 1 and 2
    Keys(12) split over instances 3 and 4 on side 0: every y from 10 to 14 probes both

So a pair that may match meets once: where the earlier one of the two was stored, because the later one probes there. A
tuple that probes several units of one instance is sent there once, and a probe looks at all that the instance stores.

    meets(x, y) = 1 if low <= y - x <= high        (x, y codes of sides 0 and 1, `reach` = low .. high)
                = 0 or 1 otherwise                 (a bucket is probed whole, by all codes that reach some code of it)

`Probing` is what follows from the buckets, the keys and the reach. `first_asking` and `last_asking` say of each cell of
the table (its buckets, then its keys) which codes of the other side ask for it: for load, which counts probes by it.
Two equal cuts have an empty bucket between them, for which nobody asks.

Not guaranteed: that a probe finds anything. Not here: who asks (place.py), and whether all of it is right (check.py).
Cost O(cells * log cells + stretches * instances).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenjoin.placement.ranges import ACROSS, FIRST_CODE, LAST_CODE, Interval, Reach

I64 = npt.NDArray[np.int64]


class Probing(NamedTuple):
    """Which instances the codes of each side probe, and which codes ask for each cell.

    The codes of side s fall into stretches, in each of which all codes probe the same instances. Stretch e begins at
    `cuts[s][e-1]`, and probes `instance[s][first[s][e]:first[s][e+1]]`, which ascend.
    Of side s, cell c is asked for by the codes `first_asking[s, c]` to `last_asking[s, c]` of the other side; by none
    if the first is greater than the last.
    """

    cuts: tuple[I64, ...]
    first: tuple[I64, ...]
    instance: tuple[npt.NDArray[np.int32], ...]
    first_asking: I64
    last_asking: I64


def probing_of(reach: Reach, cells: Sequence[Interval], units: Sequence[Sequence[Sequence[int]]]) -> Probing:
    """What codes probe, if cell c has its tuples of side s on the instances `units[c][s]`."""
    asking = [[asking_for(reach, side, cell) for cell in cells] for side in (0, 1)]
    first, last = (np.array([[at(one) for one in side] for side in asking], np.int64) for at in (_first, _last))
    stretches = [
        _stretches(first[other], last[other], [of_cell[other] for of_cell in units]) for other in (ACROSS[0], ACROSS[1])
    ]
    cuts, starts, instances = zip(*stretches, strict=True)
    return Probing(cuts, starts, instances, first, last)


def asking_for(reach: Reach, side: int, codes: Interval) -> Interval | None:
    """The codes of the other side that may match one of these codes of `side`; None if there are no such codes."""
    if codes.first > codes.last:
        return None
    return reach.columns_of(codes) if side == 0 else reach.rows_of(codes)


def intervals(cuts: Sequence[int]) -> list[Interval]:
    """The ordered buckets between these cuts. One between equal cuts is empty: it ends before it begins."""
    return [Interval(low, high) for low, high in pairwise((None, *cuts, None))]


def _first(asking: Interval | None) -> int:
    return LAST_CODE if asking is None else asking.first


def _last(asking: Interval | None) -> int:
    return FIRST_CODE if asking is None else asking.last


def _stretches(
    first: I64, last: I64, units: Sequence[Sequence[int]]
) -> tuple[I64, I64, npt.NDArray[np.int32]]:  # fmt: skip
    """The stretches of a side whose codes first[c] .. last[c] probe the instances units[c], for each cell c: their
    cuts, and the instances that each of them probes."""
    some = np.flatnonzero(first <= last)
    begin, end = first[some], last[some]
    cuts = np.unique(np.concatenate([begin[begin > FIRST_CODE], end[end < LAST_CODE] + 1]))
    count = [len(units[cell]) for cell in some.tolist()]
    instance = np.array([unit for cell in some.tolist() for unit in units[cell]], np.int64)
    changes = np.zeros((len(cuts) + 2, int(instance.max(initial=0)) + 1), np.int32)
    np.add.at(changes, (np.repeat(np.searchsorted(cuts, begin, "right"), count), instance), 1)
    np.add.at(changes, (np.repeat(np.searchsorted(cuts, end, "right") + 1, count), instance), -1)
    probed = np.cumsum(changes, axis=0)[:-1] > 0
    differs = (probed[1:] != probed[:-1]).any(axis=1)
    probed = probed[np.append(True, differs)]
    starts = np.append(0, np.cumsum(probed.sum(axis=1)))
    return cuts[differs], starts.astype(np.int64), np.nonzero(probed)[1].astype(np.int32)
