"""Joins by nearness that A-DSP and its kin are judged on beside TPC-H: posts, stock prices, and changing volumes.

    social      posts with themselves, at most 3 days apart; busy days follow zipf                      A-DSP 5.1, 5.4.1
    social-all  the same with every post of the other side (ds = infinity); few results: lengths must be near
    stock       ticks of the last minute with themselves, at most one cent apart; prices wander          A-DSP 5.6
    ratio       two streams of one total volume whose ratio |R| / |S| changes: 1, 2, 4, 8, 4, 2, 1, 1/2, ...,
                each for a few batches; a narrow band over the last minute                              A-DSP 5.4.2
    ratio-all   the same, fewer rows, with a band so wide that each tuple meets all; few results: weights must be near

`social` and `social-all` join their whole history, the others what is at most a minute apart: a batch covers SPAN_US of
event time. In a self-join both sides are the same rows.
Invariant: the same value gives the same batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from evenjoin.bench.jobs import Near
from evenjoin.bench.join_workload import OWN, SEED, JoinWorkload, Size
from evenjoin.bench.workloads import EPOCH_US, draw, zipf_weights


def _within(column: str, size: int | str) -> str:
    gap = f"INTERVAL {size}" if isinstance(size, str) else size
    return f"b.{column} BETWEEN a.{column} - {gap} AND a.{column} + {gap}"


SPAN_US = 30_000_000
MINUTE = _within("ts", "1 MINUTE")
DAYS, SYMBOLS, CODES = 365, 200, 1_000_000
RATIOS = (1.0, 2.0, 4.0, 8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.125, 0.25, 0.5)
EACH = 3
"""Batches for which a ratio stays."""


@dataclass(frozen=True, slots=True)
class Posts:
    """Posts of a year in random order, read by both sides."""

    rows_per_batch: int = 3_000
    batches: int = 12
    z: float = 1.0
    seed: int = SEED

    def side(self, number: int) -> Iterator[pa.Table]:
        first = np.datetime64("2026-01-01", "D").astype(np.int64)
        days = np.random.default_rng([self.seed, DAYS]).permutation(DAYS) + first
        for batch in range(self.batches):
            rng = np.random.default_rng([self.seed, batch])
            rows = self.rows_per_batch
            day = days[draw(zipf_weights(DAYS, self.z), rows, rng)].astype(np.int32)
            yield pa.table(
                {
                    "id": np.arange(batch * rows, (batch + 1) * rows),
                    "day": pa.array(day, pa.date32()),
                    "author": rng.integers(0, 10_000, rows),
                    "length": rng.lognormal(4.0, 0.7, rows),
                }
            )


@dataclass(frozen=True, slots=True)
class Ticks:
    """Prices of a few hundred symbols, in cents, as they wander; read by both sides."""

    rows_per_batch: int = 20_000
    batches: int = 24
    seed: int = SEED

    def side(self, number: int) -> Iterator[pa.Table]:
        rng = np.random.default_rng([self.seed, SYMBOLS])
        start = np.round(rng.lognormal(9.0, 0.8, SYMBOLS))
        walk = start * np.exp(np.cumsum(rng.normal(0.0, 0.02, (self.batches, SYMBOLS)), axis=0))
        for batch in range(self.batches):
            rng = np.random.default_rng([self.seed, batch])
            rows = self.rows_per_batch
            symbol = draw(zipf_weights(SYMBOLS, 0.8), rows, rng)
            price = walk[batch][symbol] * np.exp(rng.normal(0.0, 0.01, rows))
            yield pa.table(
                {
                    "id": np.arange(batch * rows, (batch + 1) * rows),
                    "ts": _times(batch, rows, rng),
                    "symbol": symbol,
                    "cents": np.round(price).astype(np.int64),
                }
            )


@dataclass(frozen=True, slots=True)
class ChangingRatio:
    """Two streams with `rows_per_batch` rows a batch together, shared out by RATIOS."""

    rows_per_batch: int = 24_000
    batches: int = EACH * (len(RATIOS) + 1)
    seed: int = SEED

    def side(self, number: int) -> Iterator[pa.Table]:
        for batch in range(self.batches):
            ratio = RATIOS[batch // EACH % len(RATIOS)]
            left = round(self.rows_per_batch * ratio / (1 + ratio))
            rows = (left, self.rows_per_batch - left)[number]
            rng = np.random.default_rng([self.seed, number, batch])
            code, weight = rng.integers(0, CODES, rows), rng.random(rows)
            ids = np.arange(batch * self.rows_per_batch, batch * self.rows_per_batch + rows)
            yield pa.table({"id": ids, "ts": _times(batch, rows, rng), "code": code, "weight": weight})


Streams = Posts | Ticks | ChangingRatio
SIDES = ("a", "b")
SELECT = ("a.id AS a_id", "b.id AS b_id")


def _of_all(name: str, streams: Streams, condition: str, capacity: int) -> JoinWorkload:
    """A join of the whole history."""
    return JoinWorkload(name, streams, SIDES, condition, SELECT, event_time=None, capacity=capacity)


def _of_a_minute(
    name: str, streams: Streams, condition: str, capacity: int, near: tuple[Near, ...] = ()
) -> JoinWorkload:
    """A join of what is at most a minute apart, with tuples at most half a batch late."""
    lag = f"{SPAN_US // 2_000} milliseconds"
    return JoinWorkload(
        name, streams, SIDES, condition, SELECT, watermark=lag, reach_us=60_000_000, near=near, capacity=capacity
    )


JOINS = (
    _of_all("social", Posts(), f"{_within('day', '3 DAYS')} AND a.id <> b.id", 9_000),
    _of_all("social-all", Posts(), f"{_within('day', '400 DAYS')} AND abs(a.length - b.length) <= 0.01", 16_000),
    _of_a_minute(
        "stock",
        Ticks(),
        f"{_within('cents', 1)} AND {MINUTE} AND a.symbol <> b.symbol",
        40_000,
        (("a.cents", "b.cents", 1),),
    ),
    _of_a_minute("ratio", ChangingRatio(), f"{_within('code', 20)} AND {MINUTE}", 20_000, (("a.code", "b.code", 20),)),
    _of_a_minute(
        "ratio-all",
        ChangingRatio(3_000),
        f"{_within('code', CODES)} AND {MINUTE} AND abs(a.weight - b.weight) <= 0.001",
        5_000,
    ),
)
NAMES = tuple(join.name for join in JOINS)


def workload(name: str, size: Size = OWN) -> JoinWorkload:
    """The workload of that name, in its own size or another."""
    found = JOINS[NAMES.index(name)]
    streams: Any = found.streams
    rows, batches = size.rows or streams.rows_per_batch, size.batches or streams.batches
    return replace(
        found,
        streams=replace(streams, rows_per_batch=rows, batches=batches, seed=size.seed_or(SEED)),
    )


def _times(batch: int, rows: int, rng: np.random.Generator) -> pa.Array:
    start = EPOCH_US + batch * SPAN_US
    return pa.array(start + rng.integers(0, SPAN_US, rows), pa.timestamp("us", "UTC"))
