"""Seeded streams of pyarrow tables, and their files.

A workload is a value; ``zipf_batch(workload, side, batch)`` is a pure function of it, so any batch can be made alone
and the same seed gives the same bytes on every machine.

    P(rank i) = i^-exponent / sum_j j^-exponent            for i = 1 .. keys, drawn by inverting the cumulative sum

All sides share one random assignment of ranks to keys: a key hot on one side is hot on the others, which is what makes
a join hard. Batch b covers the event times [b * span, (b + 1) * span), so no row is late under a watermark of 0.

Not here: the ride-hailing day (``ride_hailing``), and anything that knows Spark.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

SIDES = ("l", "r")
EPOCH_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
ZIPF_SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.int64()), ("id", pa.int64())])
ROW_GROUP = 65_536


@dataclass(frozen=True, slots=True)
class ZipfStreams:
    """Two or more streams over the same zipf-distributed keys, in equal batches."""

    keys: int
    exponent: float
    rows_per_batch: int  # of each side
    batches: int
    span_us: int = 1_000_000  # event time that one batch covers
    seed: int = 7
    warm: tuple[int, ...] = ()  # rows of small batches before those, for systems to warm up with
    aliases: tuple[str, ...] = SIDES

    @property
    def sizes(self) -> tuple[int, ...]:
        """The rows of each side in each batch."""
        return (*self.warm, *(self.rows_per_batch,) * self.batches)

    @property
    def rows(self) -> int:
        """Input rows of all sides over the whole run."""
        return len(self.aliases) * sum(self.sizes)

    def side(self, number: int) -> Iterator[pa.Table]:
        """The batches of one side."""
        return (zipf_batch(self, self.aliases[number], batch) for batch in range(len(self.sizes)))


@lru_cache(maxsize=8)
def zipf_weights(keys: int, exponent: float, shift: float = 0.0) -> NDArray[np.float64]:
    """The probability of each rank, most frequent first; float64 of length ``keys``, sums to 1.

    With a ``shift`` it is the law of Zipf and Mandelbrot, (rank + shift)^-exponent: the first ranks are alike."""
    weights: NDArray[np.float64] = (np.arange(1, keys + 1, dtype=np.float64) + shift) ** -exponent
    weights /= weights.sum()
    weights.flags.writeable = False
    return weights


def draw(weights: NDArray[np.float64], rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """``rows`` indices into ``weights``, by inverting the cumulative sum. O(rows log keys)."""
    cumulative = np.cumsum(weights)
    found: NDArray[np.int64] = np.searchsorted(cumulative, rng.random(rows) * cumulative[-1], side="right")
    return found


def exponent_for(keys: int, top: float, mass: float, shift: float = 0.0) -> float:
    """The exponent with which the ``top`` share of the keys holds ``mass`` of the rows, by bisection."""
    low, high, head = 0.0, 8.0, max(1, round(keys * top))
    for _ in range(60):
        middle = (low + high) / 2
        if zipf_weights(keys, middle, shift)[:head].sum() < mass:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def zipf_batch(streams: ZipfStreams, side: str, batch: int) -> pa.Table:
    """Batch ``batch`` (from 0) of one side, in random order of event time, with columns k, ts, v, id."""
    rows, first = streams.sizes[batch], sum(streams.sizes[:batch])
    rng = np.random.default_rng([streams.seed, streams.aliases.index(side), batch])
    weights, key_of_rank = _keys(streams.keys, streams.exponent, streams.seed)
    ts = EPOCH_US + batch * streams.span_us + rng.integers(0, streams.span_us, rows)
    columns = [
        key_of_rank[draw(weights, rows, rng)],
        pa.array(ts, pa.timestamp("us", "UTC")),
        rng.integers(0, 1_000_000, rows),
        np.arange(first, first + rows),
    ]
    return pa.table(columns, schema=ZIPF_SCHEMA)


def write_zipf(streams: ZipfStreams, folder: Path) -> dict[str, Path]:
    """Write all sides below ``folder``; returns the folder of each side."""
    for number, side in enumerate(streams.aliases):
        write_batches(folder / side, streams.side(number))
    return {side: folder / side for side in streams.aliases}


def write_batches(folder: Path, tables: Iterable[pa.Table]) -> list[Path]:
    """One parquet file per table, so that ``maxFilesPerTrigger=1`` makes each file one micro-batch.

    Spark's file source takes files by modification time: these rise by one second per batch, whatever the clock says.
    Several row groups per file, so that a scan can use more than one core.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for batch, table in enumerate(tables):
        path = folder / f"batch-{batch:05d}.parquet"
        pq.write_table(table, path, row_group_size=ROW_GROUP, use_dictionary=False)
        stamp = EPOCH_US // 1_000_000 + batch
        os.utime(path, (stamp, stamp))
        paths.append(path)
    return paths


@lru_cache(maxsize=4)
def _keys(keys: int, exponent: float, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    return zipf_weights(keys, exponent), np.random.default_rng([seed, keys]).permutation(keys)
