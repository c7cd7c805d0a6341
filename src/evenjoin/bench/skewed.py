"""The skewed workloads of the papers, by name: two streams and the join that is asked of them, as one value.

    ride-hailing       the synthetic day: clustered hot cells that move with the hours             (LS-Stream, Fig. 2)
    G00 .. G22         zipf x on the left, zipf y on the right; 0 is uniform                       (FastJoin, Fig. 12)
    G00-near .. G22-near  the same keys, and values that must be near: many pairs to look at, few results
    zipf0.2 .. zipf1.0 the same zipf on both sides                                                 (LS-Stream, V-A)
    drift-zipf1.0      zipf on both sides whose hot keys change every few batches                  (A-DSP, 5.5)

Both sides share one order of keys, from the most frequent to the least: a key hot on one side is hot on the other.
A batch covers its own SPAN of event time and rows match when their times are at most a window apart, so the state is
bounded. The window is chosen so that a batch of the usual size gives about RESULTS results, whatever the skew:

    results = rows_l * rows_r * sum_k p_k q_k * 2 * window / SPAN         sum_k p_k q_k: 0.4 for G22, 1 / keys for G0y

up to WIDEST spans. The watermark lags half a batch behind, as it must where rows may come late: that many tuples stay
stored however short the window.

Drift (A-DSP section 5.5): at the start of an interval the frequencies of keys on different tasks are swapped until
(L_i(d) - L_(i-1)(d)) / mean of L_i >= f for a task d, where L is the share of all rows that a task gets under hash
partitioning. The paper leaves open which keys swap: here the hottest first, so that every interval has new hot keys.

Invariant: the same seed gives the same files. Any batch can be made alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenjoin.bench.join_workload import OWN, Drift, JoinWorkload, Size
from evenjoin.bench.ride_hailing import Day
from evenjoin.bench.workloads import EPOCH_US, SIDES, ZIPF_SCHEMA, draw, zipf_weights
from evenjoin.errors import SpecError
from evenjoin.placement.place import bucket_of

NAMES = (
    "ride-hailing",
    *(f"G{x}{y}" for x in range(3) for y in range(3)),
    *(f"G{x}{y}-near" for x in range(3) for y in range(3)),
    *(f"zipf{z / 10}" for z in (2, 4, 6, 8, 10)),
    "drift-zipf1.0",
)
KEYS = 16_000
"""Of every exponent, so that only the exponent makes the skew. FastJoin has 300 million tuples over 10 million keys
(section V-A), 30 for each; here a side's 480,000 rows over 16,000 keys. As many keys as FastJoin's would hardly ever
meet in a batch of this size."""
SPAN_US = 10_000_000
RESULTS, PAIRS = 2_000_000, 80_000_000
NEAR = " AND abs(l.v - r.v) <= 50"
WIDEST = 3.0
TASKS = 8
"""Tasks between which drift swaps keys: the instances a comparison runs with, unless it is told otherwise."""
SELECT = ("l.k AS k", "l.id AS l_id", "r.id AS r_id", "l.ts AS l_ts", "r.ts AS r_ts", "l.v AS l_v", "r.v AS r_v")
RIDES = "o.cell = t.cell AND t.ts BETWEEN o.ts - INTERVAL 2 MINUTES AND o.ts"
RIDES_SELECT = ("o.id AS order_id", "t.taxi AS taxi", "o.cell AS cell", "o.ts AS ordered", "t.ts AS seen")
TRACKS_PER_ORDER = 3
SEED = 1
"""Any seed is clearly uneven: on zipf1.0 a hash table of 8 instances has LI 1.9 to 3.6 by LS-Stream's measure, and 3.8
to 10.7 by FastJoin's, for the seeds 0 to 11."""


@dataclass(frozen=True, slots=True)
class SkewedStreams:
    """Two streams over the same keys, each with its own zipf exponent (0: uniform), in equal batches."""

    exponents: tuple[float, float]
    keys: int = KEYS
    rows_per_batch: int = 20_000  # of each side
    batches: int = 24
    drift: Drift | None = None
    seed: int = SEED

    def side(self, number: int) -> Iterator[pa.Table]:
        return (skewed_batch(self, SIDES[number], batch) for batch in range(self.batches))


def workload(name: str, size: Size = OWN) -> JoinWorkload:
    """The workload of that name, in its own size or another."""
    if name == "ride-hailing":
        return _rides(size)
    near = name.endswith("-near")
    if group := re.fullmatch(r"G([012])([012])(-near)?", name):
        exponents, drift = (float(group[1]), float(group[2])), None
    elif zipf := re.fullmatch(r"(drift-)?zipf(\d(?:\.\d+)?)", name):
        exponents, drift = (float(zipf[2]),) * 2, size.drift if zipf[1] else None
    else:
        raise SpecError(f"unknown workload {name!r}; known: {', '.join(NAMES)}")
    streams = SkewedStreams(exponents, drift=drift)
    window_ms = max(1, round(window_us(streams, PAIRS if near else RESULTS) / 1000))
    low, high = (f"l.ts {sign} INTERVAL {window_ms} MILLISECONDS" for sign in "-+")
    streams = replace(
        streams,
        rows_per_batch=size.rows or streams.rows_per_batch,
        batches=size.batches or streams.batches,
        seed=size.seed_or(SEED),
    )
    condition = f"l.k = r.k AND r.ts BETWEEN {low} AND {high}" + (NEAR if near else "")
    lag = f"{SPAN_US // 2_000} milliseconds"
    return JoinWorkload(name, streams, SIDES, condition, SELECT, watermark=lag, reach_us=window_ms * 1000)


def window_us(streams: SkewedStreams, wanted: int) -> float:
    """The window with which a batch has about `wanted` pairs with equal keys in it, WIDEST spans at most."""
    left, right = (zipf_weights(streams.keys, exponent) for exponent in streams.exponents)
    pairs = streams.rows_per_batch**2 * float(left @ right)
    return SPAN_US * min(WIDEST, wanted / (2 * pairs))


def skewed_batch(streams: SkewedStreams, side: str, batch: int) -> pa.Table:
    """Batch ``batch`` (from 0) of one side, in random order of event time, with columns k, ts, v, id."""
    rows, number = streams.rows_per_batch, SIDES.index(side)
    rng = np.random.default_rng([streams.seed, number, batch])
    weights = zipf_weights(streams.keys, streams.exponents[number])
    interval = batch // streams.drift.every if streams.drift else 0
    ts = EPOCH_US + batch * SPAN_US + rng.integers(0, SPAN_US, rows)
    columns = [
        key_of_rank(streams, interval)[draw(weights, rows, rng)],
        pa.array(ts, pa.timestamp("us", "UTC")),
        rng.integers(0, 1_000_000, rows),
        np.arange(batch * rows, (batch + 1) * rows),
    ]
    return pa.table(columns, schema=ZIPF_SCHEMA)


@lru_cache(maxsize=4)
def key_of_rank(streams: SkewedStreams, interval: int) -> NDArray[np.int64]:
    """int64 [keys]: the keys from the most frequent to the least, in one interval of a drift (0: the first)."""
    rng = np.random.default_rng([streams.seed, streams.keys, interval])
    if interval == 0 or streams.drift is None:
        return np.asarray(rng.permutation(streams.keys), np.int64)
    shares = np.mean([zipf_weights(streams.keys, exponent) for exponent in streams.exponents], axis=0)
    return swapped(key_of_rank(streams, interval - 1), shares, streams.drift.f, rng)


def swapped(
    keys: NDArray[np.int64], shares: NDArray[np.float64], f: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """The keys after frequencies were swapped until one task's load has risen by ``f`` means (A-DSP 5.5).

    ``keys`` and ``shares`` are [keys], by rank. The task is any but the hottest key's; its keys of the colder half
    take the frequencies of other tasks' keys, the hottest first. An ``f`` beyond reach swaps all there are. O(keys).
    """
    keys, task = keys.copy(), bucket_of(keys, TASKS)
    chosen = (task[0] + 1 + rng.integers(TASKS - 1)) % TASKS
    half = len(keys) // 2
    hot = np.flatnonzero(task[:half] != chosen)
    cold = half + rng.permutation(np.flatnonzero(task[half:] == chosen))
    pairs = min(len(hot), len(cold))
    risen = np.cumsum(shares[hot[:pairs]] - shares[cold[:pairs]])
    count = min(pairs, int(np.searchsorted(risen, f * shares.sum() / TASKS)) + 1)
    hot, cold = hot[:count], cold[:count]
    keys[hot], keys[cold] = keys[cold], keys[hot]
    return keys


def _rides(size: Size) -> JoinWorkload:
    """The ride-hailing day: taxis seen in the order's cell in the two minutes before; 15 minutes a batch."""
    rows, batches = size.rows or 40_000, size.batches or 96
    tracks = TRACKS_PER_ORDER * rows * batches
    day = Day(orders=rows * batches, tracks=tracks, batches=batches, seed=size.seed_or(SEED))
    window = 120_000_000
    return JoinWorkload("ride-hailing", day, ("o", "t"), RIDES, RIDES_SELECT, watermark="30 seconds", reach_us=window)
