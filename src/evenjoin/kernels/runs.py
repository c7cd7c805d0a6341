"""Sorted runs: putting tuples in order, and finding what probing tuples match in it.

A run is sorted by (code, time). A probe with code c and time bounds [a, b] matches exactly the positions from the first
(c, >= a) up to the first (c, > b), which two binary searches find. Probes are sorted by code too. So each distinct code
is searched once, however hot it is, and the searches walk forward through the run.

    run     code  3 3 3 7 7 9          probe (7, times 20..30)
            time  1 5 9 2 25 4    ->   [4, 5)

Without an equality a probe asks for a range of codes instead of one (`band_ranges`); times are not sorted across codes,
so time bounds are then checked pair by pair (`in_time`).

Sorting: when the spans of code and time fit into 63 bits together, they are packed into one integer and sorted once, 16
bits at a time, by numpy's radix sort: it never compares, where numpy's sort of 64-bit integers compares log n times.
Otherwise it is `np.lexsort`. Both are stable: equal tuples keep the order they came in.

Where the codes of a run lie close together, they are the index of an array instead (`Address`): a look-up reads two
neighbours. Making the array costs more than a probe's searches, so it is rented before it is bought (`Lookup`).
``python -m evenjoin.bench.kernels`` times both: sorting 4 to 68 ns a tuple by bits against 25 to 91, a code 6 ns
against 45 to 75.

Probing costs O(distinct probe codes * log run + probes * log group), so what is stored counts by its logarithm only.
Pairs are made afterwards, in chunks of bounded size. Not here: real keys behind hashed codes (instance/verify.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.hashing import I64, Codes

I32 = npt.NDArray[np.int32]

DIGIT = 16
FEW = 512
"""Fewer values are sorted by comparing: a digit has a fixed cost."""
SPARSE = 8
"""Entries that an address has at most for each tuple of its run."""
DEAR = 8
"""A search costs as much as so many entries of an address."""


def run_order(codes: Codes, times: I64 | None) -> npt.NDArray[np.intp]:
    """The stable permutation that sorts tuples by (code, time). O(n * bits) where spans are narrow, else O(n log n)."""
    if len(codes) < 2:
        return np.arange(len(codes))
    low_code = int(codes.min())
    code_bits = (int(codes.max()) - low_code).bit_length()
    if times is None or times is codes:
        if code_bits > 63:
            return np.argsort(codes, kind="stable")
        return radix_order(codes.astype(np.int64) - low_code, code_bits)
    low_time = int(times.min())
    time_bits = (int(times.max()) - low_time).bit_length()
    if code_bits + time_bits > 63:
        return np.lexsort((times, codes))
    packed = ((codes.astype(np.int64) - low_code) << time_bits) | (times - low_time)
    return radix_order(packed, code_bits + time_bits)


def radix_order(values: I64, bits: int) -> npt.NDArray[np.intp]:
    """The stable permutation that sorts values in [0, 2**bits). O(n * bits / 16)."""
    if len(values) < FEW:
        return np.argsort(values, kind="stable")
    order = np.argsort(values.astype(np.uint16), kind="stable")  # the cast keeps the low digit
    for shift in range(DIGIT, bits, DIGIT):
        digit = (values >> shift).astype(np.uint16)
        order = order[np.argsort(digit[order], kind="stable")]
    return order


def group_starts(codes: Codes) -> I64:
    """Where each distinct code begins in sorted `codes`, and as the last entry the length of `codes`. O(n)."""
    if len(codes) == 0:
        return np.zeros(1, np.int64)
    changes = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    return np.concatenate([[0], changes, [len(codes)]]).astype(np.int64)


def expand(starts: I64, counts: I64) -> I64:
    """All numbers of the ranges [start, start + count), one range after the other. O(sum of counts)."""
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


class Hits(NamedTuple):
    """Matches as ranges: probing row `rows[k]` matches the stored positions [start[k], stop[k]). Rows without a match
    are left out."""

    rows: I64
    start: I64
    stop: I64

    @property
    def pairs(self) -> int:
        return int((self.stop - self.start).sum())


class Probes(NamedTuple):
    """Probing tuples, sorted by code. Group g has the rows `starts[g]` to `starts[g+1]`, all with the same code. `low`
    and `high` are the closed time bounds of each row (None: no bound)."""

    codes: Codes
    starts: I64
    low: I64 | None
    high: I64 | None


def shifted(times: I64, by: int) -> I64:
    """times + by, for use as bounds. A sum beyond an end of int64 becomes that end; it never wraps around. O(n)."""
    most = int(np.iinfo(np.int64).max)
    by = max(-4 * most, min(by, 4 * most))
    while by:  # once, unless the bound is wider than int64 itself
        step = max(-most, min(by, most))
        times = np.minimum(times, most - step) + step if step > 0 else np.maximum(times, -most - 1 - step) + step
        by -= step
    return times


def code_ranges(run: Codes, groups: Codes) -> tuple[I64, I64, I64]:
    """Which of the sorted distinct codes `groups` occur in the sorted run, and where: (number of the group, start,
    stop)."""
    if len(run) == 0 or len(groups) == 0:
        return (np.zeros(0, np.int64),) * 3
    first, last = np.searchsorted(groups, run[0], "left"), np.searchsorted(groups, run[-1], "right")
    wanted = groups[first:last]
    start = np.searchsorted(run, wanted, "left")
    hit = np.flatnonzero(run[np.minimum(start, len(run) - 1)] == wanted)
    start = start[hit]
    return hit + first, start, np.searchsorted(run, wanted[hit], "right")


@dataclass(frozen=True, slots=True)
class Address:
    """The least code of a run, and for it and each integer up to the greatest where that code begins; last, the end.

    run     3 3 3 7 7 9        low 3, first  [0 3 3 3 3 5 5 6]         code c is at first[c - 3] .. first[c - 2]
    """

    low: int
    first: I32

    @classmethod
    def of(cls, run: Codes) -> Address:
        """O(rows + span)."""
        low, span = int(run[0]), int(run[-1]) - int(run[0])
        first = np.zeros(span + 2, np.int32)
        np.cumsum(np.bincount(run.astype(np.int64) - low, minlength=span + 1), out=first[1:])
        return cls(low, first)

    def ranges(self, groups: Codes) -> tuple[I64, I64, I64]:
        """Which of the sorted distinct codes occur in the run, and where: (number of the group, start, stop)."""
        begin = int(np.searchsorted(groups, self.low, "left"))
        end = int(np.searchsorted(groups, self.low + len(self.first) - 2, "right"))
        at = groups[begin:end].astype(np.int64) - self.low
        start, stop = self.first[at], self.first[at + 1]
        hit = np.flatnonzero(stop > start)
        return hit + begin, start[hit].astype(np.int64), stop[hit].astype(np.int64)


@dataclass(slots=True)
class Lookup:
    """What is known of a sorted run that may be probed many times: how much was searched for in it so far, and its
    address once that has become worth while."""

    searched: int = 0
    address: Address | None = None

    def ranges(self, run: Codes, groups: Codes) -> tuple[I64, I64, I64]:
        """The same as `code_ranges`. The run must be the same one each time."""
        if self.address is None:
            self.searched += len(groups)
            if not self._worth_while(run):
                return code_ranges(run, groups)
            self.address = Address.of(run)
        return self.address.ranges(groups)

    def _worth_while(self, run: Codes) -> bool:
        if not 0 < len(run) < min(2**31, DEAR * self.searched):
            return False
        span = int(run[-1]) - int(run[0]) + 1
        return span <= SPARSE * len(run) and span + len(run) <= DEAR * self.searched


def band_ranges(run: Codes, first: I64, last: I64) -> tuple[I64, I64, I64]:
    """The same for closed ranges of codes: (number of the range, start, stop) of those that find something in the
    run."""
    start, stop = np.searchsorted(run, first, "left"), np.searchsorted(run, last, "right")
    hits = np.flatnonzero(stop > start)
    return hits, start[hits], stop[hits]


def ranges(run_codes: Codes, run_times: I64 | None, probes: Probes, time_span: tuple[int, int] | None = None) -> Hits:
    """The matching ranges of every probing row. `time_span`, the least and greatest time of the run, saves searches."""
    groups, start, stop = code_ranges(run_codes, probes.codes[probes.starts[:-1]])
    return narrow(run_times, probes, groups, start, stop, time_span)


def narrow(
    run_times: I64 | None, probes: Probes, groups: I64, start: I64, stop: I64, time_span: tuple[int, int] | None
) -> Hits:
    """From matching codes to matching rows: each row of a group gets the group's range, cut down to the row's time
    bounds."""
    sizes = probes.starts[groups + 1] - probes.starts[groups]
    rows = expand(probes.starts[groups], sizes)
    start, stop = np.repeat(start, sizes), np.repeat(stop, sizes)
    if run_times is not None and len(rows):
        low_time, high_time = time_span or (-(2**63), 2**63 - 1)
        if probes.low is not None and int(probes.low.max()) > low_time:
            start = bisect(run_times, start, stop, probes.low[rows], "left")
        if probes.high is not None and int(probes.high.min()) < high_time:
            stop = bisect(run_times, start, stop, probes.high[rows], "right")
    some = stop > start
    return Hits(rows[some], start[some], stop[some])


def bisect(values: I64, start: I64, stop: I64, needles: I64, side: str) -> I64:
    """`searchsorted` of each needle within its own range [start, stop) of `values`. O(n log longest range)."""
    low, high = start.astype(np.int64), stop.astype(np.int64)
    active = np.flatnonzero(low < high)
    while len(active):
        middle = (low[active] + high[active]) >> 1
        at, needle = values[middle], needles[active]
        right = at < needle if side == "left" else at <= needle
        low[active] = np.where(right, middle + 1, low[active])
        high[active] = np.where(right, high[active], middle)
        active = active[low[active] < high[active]]
    return low


def in_time(run_times: I64, probes: Probes, rows: I32, positions: I32) -> npt.NDArray[np.bool_]:
    """Which pairs have a stored time within the probing row's bounds. O(pairs)."""
    times = run_times[positions]
    keep = np.ones(len(rows), np.bool_)
    if probes.low is not None:
        keep &= times >= probes.low[rows]
    if probes.high is not None:
        keep &= times <= probes.high[rows]
    return keep


def pair_chunks(found: Hits, limit: int) -> Iterator[tuple[I32, I32]]:
    """All (probing row, stored position) pairs, in chunks of at most `limit` pairs, so that memory stays bounded.

    They are int32, which is enough because a batch and a run have fewer than 2**31 rows. It matters, because making the
    pairs of a hot key is where most of the time goes."""
    counts = found.stop - found.start
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    for begin in range(0, total, limit):
        end = min(begin + limit, total)
        first, last = int(np.searchsorted(ends, begin, "right")), int(np.searchsorted(ends, end, "left"))
        chunk = slice(first, last + 1)
        start, stop = found.start[chunk].copy(), found.stop[chunk].copy()
        start[0] += begin - (int(ends[first]) - int(counts[first]))
        stop[-1] -= int(ends[last]) - end
        yield np.repeat(found.rows[chunk].astype(np.int32), stop - start), expand_narrow(start, stop - start)


def gathered(chunks: Iterable[tuple[I32, I32]], limit: int) -> Iterator[tuple[I32, I32]]:
    """The same pairs in fewer chunks. Neighbouring chunks are put together as long as they have at most `limit` pairs,
    because a filter may have left few pairs in each."""
    held: list[tuple[I32, I32]] = []
    count = 0
    for chunk in chunks:
        if held and count + len(chunk[0]) > limit:
            yield _together(held)
            held, count = [], 0
        held.append(chunk)
        count += len(chunk[0])
    if held:
        yield _together(held)


def _together(chunks: list[tuple[I32, I32]]) -> tuple[I32, I32]:
    if len(chunks) == 1:
        return chunks[0]
    rows, positions = (np.concatenate(part) for part in zip(*chunks, strict=True))
    return rows, positions
