"""Rates: arrivals a batch and results per pair, smoothed over batches, so that planners see a stream and not its noise.

    rate' = rate + w * (this batch - rate),     w = 1/n in the n-th batch, and WEIGHT from the time on that 1/n is less

Arrivals are kept by bucket (all keys of the bucket together) and by key. What a table does with a key does not change
how often it comes, so rates outlive a change of table. If buckets become finer, a key's rate goes to its own fine
bucket and the rest of a bucket is spread evenly; only a number of buckets that is no multiple of the last one starts
them anew. Of the items of a batch (items.py)

    a key              has its own rate of arrivals
    a remainder        has the rate of its bucket less those of the bucket's keys, at least 0

What is found follows from what there is: a tuple that probes is compared with all that is stored, and finds some part m
of it. So m is smoothed, for each key and each remainder, and the results of a batch in the store of side s are

    results(s) = lean(s) * m * arrivals of the other sides * stored(s)
    m          = results of all sides / sum of the products arrivals * stored

Smoothing the results themselves would say too little while state grows. It would also take for skew what is only the
order of arrival: in one batch side 0 counts as coming before side 1, so at first nearly all is found in its store.
While nothing expires, both stores come to give the same share, and lean is 1. Where tuples expire it need not be so: if
a window is shorter than a batch, nearly all is found in the store of the side that counts as first, for ever. So as
soon as tuples expire, lean(s) is measured over all items, and smoothed: what was found in the store of side s, over
what it would be at lean 1.

Of a thin stream every key that comes is among the heaviest of its instance. Which ones are named is then chance, and so
is what a batch has of them: a key with a tuple in every tenth batch is named when it comes, with ten times its rate.
Planners would take this for skew, and would have to plan anew in each batch. So a named key is an item of its own only
if ENOUGH of its tuples have arrived or are stored, or if the table has a region for it (`known`). What the others have
is counted with the remainder of their bucket, where chance evens out.

    bucket 0: key 42: 700, key 7: 3, remainder 50    ->    key 42: 700, remainder 53

Smoothing must not hide a change of the stream: plans would be made for a mixture of the law before and the law after,
and need to be made again in each of the next batches. So a count that cannot be chance is believed at once. That is one
which is JUMP standard deviations away from what its rate let expect, and at least LEAP times as large or as small. What
is expected is the rate's share of all arrivals of the side, so that a large batch is no change. If it is a key's, the
rate of its bucket changes by as much.

    rate 100, batch 130    3 deviations: chance       rate' 107.5
    rate 100, batch 300    14 deviations, threefold   rate' 300

A key that is named for the first time, or again, begins with the rate that its stored tuples tell: their part of all
that is stored, of the rate of all arrivals. What one batch had of it would be too much, for that is why it was named.
It is the rate only if it cannot be chance, or if less than a batch is stored besides this one.

Planners see a longer memory still, where there is one. If what is stored is of more batches than smoothing weighs, and
does not contradict the rate of an item by more than AGREE deviations, then the rate by what is stored takes its place.
So the loads of a thin stream become steady as state grows, and a change that is certain counts from the first batch.

Where buckets are ordered, those that ask are not the arrivals of the same item. They are counted apart (`Items.askers`)
and smoothed apart, each item by itself, because they do not add up to those of a bucket. m and lean are of them then,
in place of the arrivals. Other cuts start everything anew: ordered buckets are never parts of others.

Stored tuples are not smoothed: they are counted exactly, and a planner must know what it moves.

Not guaranteed: that the arrivals of a bucket's items add up to the bucket's. A change that may be chance is seen late
where much is stored: by the rate once that contradicts what is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.hashing import I64
from evenjoin.placement.place import bucket_of, routed
from evenjoin.placement.table import RoutingTable

if TYPE_CHECKING:
    from evenjoin.load.items import F64, Items

WEIGHT = 0.25
"""What a batch counts at least. A change of the stream is seen by a quarter at once, and by nine tenths after eight
batches, if it may be chance."""
JUMP = 5.0
"""From so many standard deviations of a Poisson count on, a change is not taken for chance."""
LEAP = 1.5
"""Arrivals of real streams vary more than Poisson counts do. A change by less than this factor is smoothed, even if it
is certain."""
AGREE = 3.0
"""Up to so many standard deviations between a smoothed rate and what is stored of an item are chance."""
ENOUGH = 16
"""So many tuples of a key, of all sides, are known but for a quarter: a count of n is off by sqrt(n)."""
DIGITS = 3


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates after `batches` batches.

    in_buckets[s]            of side s, the arrivals of each bucket, in order
    found_in_buckets         m of the remainder of each bucket
    codes                    of the keys, ascending
    of_keys[s], found_of_keys    the same of each of these keys
    lean[s]                  by which factor more is found in the store of side s; empty: nothing has expired yet
    cuts                     where the ordered buckets began; None: buckets were hashes
    asking_rest[s]           where buckets are ordered, the tuples that ask for the remainder of each bucket
    asking_keys[s]           and for each of these keys
    """

    batches: int
    in_buckets: tuple[tuple[float, ...], ...]
    found_in_buckets: tuple[float, ...]
    codes: tuple[int, ...]
    of_keys: tuple[tuple[float, ...], ...]
    found_of_keys: tuple[float, ...]
    lean: tuple[float, ...] = ()
    cuts: tuple[int, ...] | None = None
    asking_rest: tuple[tuple[float, ...], ...] = ()
    asking_keys: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Rates:
        buckets, keys = (tuple(map(tuple, data[name])) for name in ("in_buckets", "of_keys"))
        found, codes, of_keys = (tuple(data[name]) for name in ("found_in_buckets", "codes", "found_of_keys"))
        rest, asked = (tuple(map(tuple, data.get(name, ()))) for name in ("asking_rest", "asking_keys"))
        cuts = tuple(data["cuts"]) if data.get("cuts") is not None else None
        lean = tuple(data["lean"])
        return cls(data["batches"], buckets, found, codes, keys, of_keys, lean, cuts, rest, asked)


def known(items: Items, table: RoutingTable) -> Items:
    """The items with the keys of which too little is known counted with the remainders of their buckets. The same
    items, if there are none."""
    tuples = np.maximum(items.stored, items.arrived).sum(axis=0)
    light = np.flatnonzero(items.is_key & (tuples < ENOUGH))
    light = light[routed(table, items.code[light]) < 0]
    if not len(light):
        return items
    rest = np.flatnonzero(~items.is_key)
    remainder = np.empty(len(rest), np.int64)
    remainder[items.bucket[rest]] = rest
    to, kept = remainder[items.bucket[light]], np.ones(len(items), bool)
    kept[light] = False
    counts = {}
    for name in ("stored", "arrived", "results"):
        was = getattr(items, name)
        more = np.stack([np.bincount(to, row, len(items)) for row in was[:, light]])
        counts[name] = (was + more)[:, kept]
    askers = None if items.askers is None else items.askers[:, kept]
    return replace(
        items, code=items.code[kept], is_key=items.is_key[kept], bucket=items.bucket[kept], askers=askers, **counts
    )


def rates_after(last: Rates | None, items: Items, expired: int = 0) -> Rates:
    """The rates after a batch with these items, in which so many tuples have expired. O(items log items)."""
    known = last if last is not None and last.cuts == items.cuts else None
    return _with_askers(_rates_after(known, items, expired), known, items)


def _with_askers(rates: Rates, last: Rates | None, items: Items) -> Rates:
    """The rates with those of the tuples that ask for each item, where they are counted apart."""
    if items.askers is None:
        return rates
    rest, order = _places(items)
    asked = [items.askers[:, rest], items.askers[:, order]]
    if last is not None and rates.batches > 1:
        weight = max(1.0 / rates.batches, WEIGHT)
        row, known = _row(np.array(last.codes, np.int64), items.code[order])
        before = np.array(last.asking_keys, np.float64).reshape(len(asked[1]), -1)[:, row[known]]
        asked[0] = asked[0] + (1 - weight) * (np.array(last.asking_rest, np.float64) - asked[0])
        asked[1][:, known] += (1 - weight) * (before - asked[1][:, known])
    now = [tuple(map(tuple, np.round(some, DIGITS).tolist())) for some in asked]
    return replace(rates, cuts=items.cuts, asking_rest=now[0], asking_keys=now[1])


def _places(items: Items) -> tuple[I64, I64]:
    """The items that are remainders, in the order of their buckets, and those that are keys, in that of their codes."""
    rest, keys = np.flatnonzero(~items.is_key), np.flatnonzero(items.is_key)
    return rest[np.argsort(items.bucket[rest], kind="stable")], keys[np.argsort(items.code[keys], kind="stable")]


def _rates_after(last: Rates | None, items: Items, expired: int) -> Rates:
    rest = np.flatnonzero(~items.is_key)
    order = np.flatnonzero(items.is_key)[np.argsort(items.code[items.is_key], kind="stable")]
    codes, found = items.code[order], _found(items)
    buckets = np.stack([np.bincount(items.bucket, counts, len(rest)).astype(np.float64) for counts in items.arrived])
    in_rest = np.zeros(len(rest))
    in_rest[items.bucket[rest]] = found[rest]
    keys, of_keys = items.arrived[:, order], found[order]
    if last is None or len(last.in_buckets) != len(buckets) or len(rest) % len(last.in_buckets[0]):
        return _rates(1, buckets, in_rest, codes, keys, of_keys, _lean((), items, found, 1.0) if expired else ())
    last = _refined(last, len(rest) // len(last.in_buckets[0]))
    weight = max(1.0 / (last.batches + 1), WEIGHT)
    row, known = _row(np.array(last.codes, np.int64), codes)
    last_keys = _by_store(last, items)[:, order]
    last_keys[:, known] = np.array(last.of_keys)[:, row[known]]
    old_keys, old_buckets = _believed(last, items, buckets, keys, order, last_keys)
    lean = _lean(last.lean, items, found, weight) if expired else last.lean
    fresh = old_keys != last_keys
    fresh[:, known] = False
    keys = np.where(fresh, keys, old_keys + weight * (keys - old_keys))
    of_keys[known] += (1 - weight) * (np.array(last.found_of_keys)[row[known]] - of_keys[known])
    for now, before in ((buckets, old_buckets), (in_rest, np.array(last.found_in_buckets))):
        now[...] = before + weight * (now - before)
    return _rates(last.batches + 1, buckets, in_rest, codes, keys, of_keys, lean)


def _refined(rates: Rates, times: int) -> Rates:
    """The rates with `times` as many buckets, each of which is a part of an old one (`RoutingTable.refined`)."""
    if times == 1:
        return rates
    coarse, keys = np.array(rates.in_buckets, np.float64), np.array(rates.of_keys, np.float64)
    fine = bucket_of(np.array(rates.codes, np.int64), times * coarse.shape[1])
    out = np.zeros((len(coarse), times * coarse.shape[1]))
    for side in range(len(coarse)):
        of_keys = np.bincount(fine, keys[side], out.shape[1])
        rest = np.maximum(coarse[side] - of_keys.reshape(-1, times).sum(axis=1), 0.0)
        out[side] = of_keys + np.repeat(rest / times, times)
    found = tuple(m for m in rates.found_in_buckets for _ in range(times))
    return replace(rates, in_buckets=tuple(map(tuple, out.tolist())), found_in_buckets=found)


def _by_store(last: Rates, items: Items) -> F64:
    """[sides, n] The rates that items had by what is stored of them: their part of all stored tuples, of the last rates
    of all arrivals. Where less than a batch is stored besides this one, that tells nothing: there they are this batch's
    counts."""
    before = items.stored - np.minimum(items.arrived, items.stored)
    total = np.array(last.in_buckets, np.float64).sum(axis=1, keepdims=True)
    stored = before.sum(axis=1, keepdims=True)
    out: F64 = np.where(stored >= total, total * before / np.maximum(stored, 1.0), items.arrived)
    return out


def _believed(last: Rates, items: Items, buckets: F64, keys: F64, item: I64, of_keys: F64) -> tuple[F64, F64]:
    """The last rates of the keys, `of_keys` [sides, keys], and of the buckets [sides, buckets], but where this batch's
    counts, `keys` and `buckets`, cannot be chance: these counts, for a batch that is as large as the last ones.

    `item` [keys] are the places of the keys among the items."""
    of_buckets = np.array(last.in_buckets)
    growth = buckets.sum(axis=1, keepdims=True) / np.maximum(of_buckets.sum(axis=1, keepdims=True), 1.0)
    new_keys = np.where(_is_jump(keys, of_keys * growth), keys / np.maximum(growth, 1e-9), of_keys)
    for side, more in enumerate(new_keys - of_keys):
        of_buckets[side] += np.bincount(items.bucket[item], more, of_buckets.shape[1])
    of_buckets = np.maximum(of_buckets, 0.0)
    jumps = _is_jump(buckets, of_buckets * growth)
    return new_keys, np.where(jumps, buckets / np.maximum(growth, 1e-9), of_buckets)


def _is_jump(count: F64, expected: F64) -> npt.NDArray[np.bool_]:
    """Whether counts are too far from what was expected for chance. The square root of a Poisson count, with 3/8 added
    to it (Anscombe), has a standard deviation of about 1/2, whatever the count is."""
    far = 2 * np.abs(np.sqrt(count + 3 / 8) - np.sqrt(expected + 3 / 8)) > JUMP
    out: npt.NDArray[np.bool_] = far & (np.maximum(count, expected) > LEAP * np.minimum(count, expected))
    return out


def smoothed(items: Items, rates: Rates | None) -> Items:
    """The items with rates in place of this batch's arrivals and results. The same items, if nothing is known."""
    if rates is None or not len(items) or rates.cuts != items.cuts:
        return items
    arrived, found = items.arrived.copy(), _found(items)
    keys, rest = np.flatnonzero(items.is_key), np.flatnonzero(~items.is_key)
    row, known = _row(np.array(rates.codes, np.int64), items.code[keys])
    arrived[:, keys[known]] = np.array(rates.of_keys, np.float64)[:, row[known]]
    found[keys[known]] = np.array(rates.found_of_keys, np.float64)[row[known]]
    found[rest] = np.array(rates.found_in_buckets, np.float64)[items.bucket[rest]]
    for side, of_bucket in enumerate(np.array(rates.in_buckets, np.float64)):
        of_its_keys = np.bincount(items.bucket[keys], arrived[side, keys], len(of_bucket))
        arrived[side, rest] = np.maximum(of_bucket - of_its_keys, 0.0)[items.bucket[rest]]
    arrived = _remembered(arrived, items.stored, rates.batches)
    lean = np.array(rates.lean or (1.0,) * len(arrived))[:, None]
    asking = arrived.sum(axis=0) - arrived
    items = replace(items, noise=noise_left(rates.batches), lasting=not rates.lean)
    if items.askers is None:
        return replace(items, arrived=arrived, results=lean * found * asking * items.stored)
    asking = items.askers.copy()
    asking[:, rest] = np.array(rates.asking_rest, np.float64)[:, items.bucket[rest]]
    asking[:, keys[known]] = np.array(rates.asking_keys, np.float64).reshape(len(asking), -1)[:, row[known]]
    return replace(items, arrived=arrived, askers=asking, results=lean * found * asking * items.stored)


def _remembered(rates: F64, stored: F64, batches: int) -> F64:
    """[sides, n] The rates of the items, or what their stored tuples say, where that is of more batches and the two do
    not contradict each other."""
    seen, totals, kept = 1.0 / noise_left(batches), rates.sum(axis=1, keepdims=True), stored.sum(axis=1, keepdims=True)
    by_store = totals * stored / np.maximum(kept, 1.0)
    small = 3 / 8 / seen
    far = 2 * np.sqrt(seen) * np.abs(np.sqrt(rates + small) - np.sqrt(by_store + small))
    out: F64 = np.where((far <= AGREE) & (kept > seen * totals), by_store, rates)
    return out


def noise_left(batches: int) -> float:
    """The part of the variance of a batch's counts that smoothing over so many batches leaves."""
    return max(1.0 / batches, WEIGHT / (2 - WEIGHT))


def _found(items: Items) -> F64:
    """[n] m of each item in this batch: results of all sides over the pairs that were compared. What has expired since
    was compared too, so the pairs may be too few, or none: then m is at most 1 for two sides, and not known for more,
    where one tuple finds partial results of several sides."""
    pairs, found = (items.asking * items.stored).sum(axis=0), items.results.sum(axis=0)
    out: F64 = found / np.maximum(pairs, 1.0)
    return np.minimum(out, 1.0) if len(items.stored) == 2 else np.where(pairs > 0, out, 0.0)


def _lean(last: tuple[float, ...], items: Items, found: F64, weight: float) -> tuple[float, ...]:
    """The factors by which more is found in the store of each side than the products say, with one more batch."""
    told = (found * items.asking * items.stored).sum(axis=1)
    if not told.sum() > 0:
        return last
    now = np.divide(items.results.sum(axis=1), told, out=np.ones(len(told)), where=told > 0)
    before = np.array(last) if last else now
    return tuple(float(f"{factor:.6g}") for factor in (before + weight * (now - before)).tolist())


def _row(known: I64, codes: I64) -> tuple[I64, I64]:
    """The row of each code among the known ones (which ascend), and the positions of the codes that are known."""
    if not len(known):
        return np.zeros(len(codes), np.int64), np.zeros(0, np.int64)
    row = np.minimum(np.searchsorted(known, codes), len(known) - 1)
    return row, np.flatnonzero(known[row] == codes)


def _rates(
    batches: int, buckets: F64, in_rest: F64, codes: I64, keys: F64, of_keys: F64, lean: tuple[float, ...]
) -> Rates:  # fmt: skip
    nested = [tuple(map(tuple, np.round(counts, DIGITS).tolist())) for counts in (buckets, keys)]
    flat = [tuple(float(f"{m:.6g}") for m in found.tolist()) for found in (in_rest, of_keys)]
    return Rates(batches, nested[0], flat[0], tuple(codes.tolist()), nested[1], flat[1], lean)
