"""Rates: arrivals and results a batch, smoothed over batches, so that planners see a stream and not its noise.

    rate' = rate + w * (this batch - rate),     w = 1/n in the n-th batch, and WEIGHT from the time on that 1/n is less

They are kept by bucket (all keys of the bucket together) and by key. What a table does with a key does not change how
often it comes, so rates outlive a change of table; only another number of buckets starts them anew. Of the items of a
batch (items.py)

    a key              has its own rate
    a remainder        has the rate of its bucket less those of the bucket's keys, at least 0

Stored tuples are not smoothed: they are counted exactly, and a planner must know what it moves.

Not guaranteed: that the rates of a bucket's items add up to the bucket's. A key that is named for the first time begins
with what this batch had of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evenjoin.kernels.hashing import I64

if TYPE_CHECKING:
    from evenjoin.load.items import F64, Items

WEIGHT = 0.25
"""What a batch counts at least. A change of the stream is seen by a quarter at once, and by nine tenths after eight
batches."""
DIGITS = 3


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates after `batches` batches.

    of_buckets[s]   of side s, (arrivals, results) of each bucket in order: two lists
    codes           of the keys, ascending
    of_keys[s]      of side s, (arrivals, results) of each of these keys
    """

    batches: int
    of_buckets: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]
    codes: tuple[int, ...]
    of_keys: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Rates:
        buckets, keys = (
            tuple((tuple(arrived), tuple(results)) for arrived, results in data[name])
            for name in ("of_buckets", "of_keys")
        )
        return cls(data["batches"], buckets, tuple(data["codes"]), keys)


def rates_after(last: Rates | None, items: Items) -> Rates:
    """The rates after a batch with these items. O(items log items)."""
    buckets = _by_bucket(items)
    if last is None or len(last.of_buckets) != len(buckets) or len(last.of_buckets[0][0]) != buckets.shape[2]:
        last = None
    order = np.flatnonzero(items.is_key)[np.argsort(items.code[items.is_key], kind="stable")]
    codes, keys = items.code[order], np.stack([items.arrived[:, order], items.results[:, order]], axis=1)
    if last is not None:
        weight = max(1.0 / (last.batches + 1), WEIGHT)
        before = np.array(last.of_buckets, np.float64)
        buckets = before + weight * (buckets - before)
        row, known = _found(np.array(last.codes, np.int64), codes)
        old = np.array(last.of_keys, np.float64)[:, :, row[known]]
        keys[:, :, known] = old + weight * (keys[:, :, known] - old)
    return Rates(last.batches + 1 if last else 1, _listed(buckets), tuple(codes.tolist()), _listed(keys))


def smoothed(items: Items, rates: Rates | None) -> Items:
    """The items with rates in place of this batch's arrivals and results. The same items, if nothing is known."""
    if rates is None or not len(items):
        return items
    arrived, results = items.arrived.copy(), items.results.copy()
    keys, rest = np.flatnonzero(items.is_key), np.flatnonzero(~items.is_key)
    row, known = _found(np.array(rates.codes, np.int64), items.code[keys])
    of_keys, of_buckets = np.array(rates.of_keys, np.float64), np.array(rates.of_buckets, np.float64)
    for number, counts in enumerate((arrived, results)):
        counts[:, keys[known]] = of_keys[:, number, row[known]]
        for side in range(len(counts)):
            of_its_keys = np.bincount(items.bucket[keys], counts[side, keys], of_buckets.shape[2])
            counts[side, rest] = np.maximum(of_buckets[side, number] - of_its_keys, 0.0)[items.bucket[rest]]
    return replace(items, arrived=arrived, results=results)


def _by_bucket(items: Items) -> F64:
    """[sides, 2, buckets] Arrivals and results of each bucket, with all its keys."""
    buckets, sides = int((~items.is_key).sum()), len(items.arrived)
    out = np.zeros((sides, 2, buckets))
    for side in range(sides):
        for number, counts in enumerate((items.arrived, items.results)):
            out[side, number] = np.bincount(items.bucket, counts[side], buckets)
    return out


def _found(known: I64, codes: I64) -> tuple[I64, I64]:
    """The row of each code among the known ones (which ascend), and the positions of the codes that are known."""
    if not len(known):
        return np.zeros(len(codes), np.int64), np.zeros(0, np.int64)
    row = np.minimum(np.searchsorted(known, codes), len(known) - 1)
    return row, np.flatnonzero(known[row] == codes)


def _listed(counts: F64) -> tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]:
    sides = np.round(counts, DIGITS).tolist()
    return tuple((tuple(arrived), tuple(results)) for arrived, results in sides)
