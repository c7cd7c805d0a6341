"""What a receipt says about keys: arrivals per bucket, and the heaviest keys with their arrivals and results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from evenjoin.instance.probing import Probing
from evenjoin.instance.verify import key_names
from evenjoin.kernels.hashing import Codes, bucket_of
from evenjoin.kernels.sorting import group_starts
from evenjoin.load.receipt import HeavyKey
from evenjoin.load.report import HEAVY_KEYS
from evenjoin.spec import JoinSpec
from evenjoin.state.layout import Tuples


def bucket_counts(stored: Sequence[Tuples], buckets: int) -> tuple[tuple[int, int, int], ...]:
    """(side, bucket, arrivals stored here), exact."""
    out: list[tuple[int, int, int]] = []
    for side, tuples in enumerate(stored):
        counts = np.bincount(bucket_of(tuples.codes, buckets), minlength=1)
        out += [(side, int(b), int(counts[b])) for b in np.flatnonzero(counts)]
    return tuple(out)


def heavy_keys(spec: JoinSpec, stored: Sequence[Tuples], probing: Sequence[Probing]) -> tuple[HeavyKey, ...]:
    """The heaviest codes of this batch here. A code with more than 1/HEAVY_KEYS of a side's arrivals is among them."""
    named: dict[int, tuple[int, int]] = {}
    for side, tuples in enumerate(stored):
        for row in _heads(tuples):
            named.setdefault(int(tuples.codes[row]), (side, int(row)))
    codes = np.array(sorted(named), np.int64)
    arrived = [_between(t.codes, codes, np.arange(len(t) + 1)) for t in stored]
    results = np.zeros(len(codes), np.int64)
    for mine in probing:
        results += _between(mine.tuples.codes, codes, np.concatenate([[0], np.cumsum(mine.results)]))
    weight = np.sum(arrived, axis=0) + results
    top = np.lexsort((codes, -weight))[:HEAVY_KEYS].tolist()
    names: dict[int, str] = {}
    for side, tuples in enumerate(stored):
        mine_codes = [int(codes[i]) for i in top if named[int(codes[i])][0] == side]
        rows = np.array([named[code][1] for code in mine_codes], np.int64)
        names.update(zip(mine_codes, key_names(spec, side, tuples, rows), strict=True))
    return tuple(
        HeavyKey(int(codes[i]), names[int(codes[i])], tuple(int(a[i]) for a in arrived), int(results[i])) for i in top
    )


def _heads(tuples: Tuples) -> npt.NDArray[np.int64]:
    """First rows of the largest groups of equal codes, at most HEAVY_KEYS."""
    starts = group_starts(tuples.codes)
    sizes = np.diff(starts)
    large = np.flatnonzero(sizes >= min(max(2, len(tuples) // (8 * HEAVY_KEYS)), sizes.max(initial=1)))
    if len(large) > HEAVY_KEYS:
        large = large[np.argpartition(sizes[large], -HEAVY_KEYS)[-HEAVY_KEYS:]]
    return starts[large]


def _between(
    sorted_codes: Codes, codes: npt.NDArray[np.int64], running: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Sum over each code's rows of what `running` is the running sum of."""
    wanted = codes.astype(sorted_codes.dtype)
    out: npt.NDArray[np.int64] = (
        running[np.searchsorted(sorted_codes, wanted, "right")] - running[np.searchsorted(sorted_codes, wanted)]
    )
    return out
