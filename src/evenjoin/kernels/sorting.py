"""Order of a run: by code, then by time.

When code and time spans fit into 64 bits together they are packed into one integer and sorted once
(a quarter of the cost of two stable sorts); otherwise `np.lexsort`. Ties have no defined order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.hashing import I64, Codes


def run_order(codes: Codes, times: I64 | None) -> npt.NDArray[np.intp]:
    """Permutation that sorts tuples by (code, time). O(n log n)."""
    if times is None or times is codes or len(codes) < 2:
        return np.argsort(codes)
    low_code, low_time = int(codes.min()), int(times.min())
    code_span, time_span = int(codes.max()) - low_code, int(times.max()) - low_time
    time_bits = time_span.bit_length()
    if code_span.bit_length() + time_bits > 63:
        return np.lexsort((times, codes))
    packed = ((codes.astype(np.int64) - low_code) << time_bits) | (times - low_time)
    return np.argsort(packed)


def group_starts(codes: Codes) -> I64:
    """Where each distinct code begins in sorted `codes`, plus the length at the end. O(n)."""
    if len(codes) == 0:
        return np.zeros(1, np.int64)
    changes = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    return np.concatenate([[0], changes, [len(codes)]]).astype(np.int64)


def expand(starts: I64, counts: I64) -> I64:
    """Concatenation of the ranges [start, start + count). O(sum of counts)."""
    ranges: I64 = _expand(starts, counts, np.int64)
    return ranges


def expand_narrow(starts: I64, counts: I64) -> npt.NDArray[np.int32]:
    """The same in int32, for ranges below 2**31: half the memory to write and read."""
    ranges: npt.NDArray[np.int32] = _expand(starts, counts, np.int32)
    return ranges


def _expand(starts: I64, counts: I64, dtype: Any) -> Any:
    shift = starts - np.concatenate([[0], np.cumsum(counts)[:-1]])
    ranges = np.repeat(shift.astype(dtype), counts)
    ranges += np.arange(len(ranges), dtype=dtype)
    return ranges
