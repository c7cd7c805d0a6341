"""What arrives: for each batch and side the tuples as counts per code, never one by one.

    Slice(codes [3, 8, 9], counts [40, 1, 7], low 5000, high 5000)      48 tuples of a side with event time 5000

A `Source` is a join and the slices of its batches. `Stream` makes them up: zipf-distributed keys, arrivals that are
Poisson per key, and one of three modes. What a recorded workload brings is in recorded.py.

    stationary   every batch is drawn from the same law
    drifting     every `every` batches the hottest `hot` share of the keys changes places with keys chosen at random
    growing      the rate is multiplied by `growth` from one batch to the next

Guarantee: a batch is a pure function of the stream and its number, so the same seed gives the same arrivals whatever
the planner does. Another seed is other keys too, so that hashes differ: nothing about a seed is chosen.
Not here: where tuples go (spread.py), and what they find (state.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from evenjoin.bench.workloads import zipf_weights
from evenjoin.errors import SpecError
from evenjoin.kernels.hashing import I64
from evenjoin.load.items import F64
from evenjoin.spec import JoinSpec, build_spec

Mode = Literal["stationary", "drifting", "growing"]
SPAN = 1000
"""Event time from one batch to the next. All tuples of a batch have the same event time: its number times SPAN."""
BLOCK = 1 << 40
"""The codes of a seed lie in a block of their own, unless a band compares them."""


class Slice(NamedTuple):
    """Tuples of one side with event times low .. high (0 and 0 without times): codes ascend, each once."""

    codes: I64
    counts: I64
    low: int = 0
    high: int = 0

    @property
    def tuples(self) -> int:
        return int(self.counts.sum())


Arrivals = tuple[tuple[Slice, ...], ...]
"""By side, the slices of a batch."""


class Source(Protocol):
    """A join, and what arrives for it."""

    @property
    def spec(self) -> JoinSpec: ...

    @property
    def batches(self) -> int: ...

    def codes(self) -> I64:
        """The codes that are known to come, ascending; others may come too."""
        ...

    def arrivals(self, batch: int) -> Arrivals: ...


@dataclass(frozen=True, slots=True)
class Stream:
    """Two streams that are made up. Pairs are (side 0, side 1).

    keys      how many keys there are
    rows      tuples of a batch, on average
    zipf      the exponents
    order     whether a key that is hot on one side is hot on the other (`shared`), or each side has an `own` order
    window    tuples join if their event times are at most so many batches apart; None: the whole history joins
    band      (low, high): tuples join if low <= code of side 1 - code of side 0 <= high; None: equal codes join
    """

    keys: int = 100_000
    rows: tuple[float, float] = (100_000, 100_000)
    zipf: tuple[float, float] = (0.8, 0.8)
    order: Literal["shared", "own"] = "shared"
    mode: Mode = "stationary"
    every: int = 8
    hot: float = 0.01
    growth: float = 1.1
    window: int | None = None
    band: tuple[int, int] | None = None
    batches: int = 40
    seed: int = 1

    def __post_init__(self) -> None:
        wanted = {
            "keys": self.keys >= 1,
            "rows": min(self.rows) >= 0,
            "every": self.every >= 1,
            "hot": 0 <= self.hot <= 1,
            "growth": self.growth > 0,
            "window": self.window is None or self.window >= 0,
            "batches": self.batches >= 1,
        }
        for name, fine in wanted.items():
            if not fine:
                raise SpecError(f"stream: {name}={getattr(self, name)!r} makes no stream")

    @property
    def spec(self) -> JoinSpec:
        """The join as the engine reads it."""
        schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])
        low, high = self.band or (0, 0)
        on = "r.k = s.k" if self.band is None else f"s.k - r.k BETWEEN {low} AND {high}"
        if self.window is None:
            return build_spec({"r": schema, "s": schema}, on)
        wide = self.window * SPAN
        on += f" AND s.t BETWEEN r.t - {wide} AND r.t + {wide}"
        return build_spec({"r": schema, "s": schema}, on, event_time="t", watermark=0)

    def codes(self) -> I64:
        """All codes that may arrive."""
        return np.arange(self.keys, dtype=np.int64) + (0 if self.band is not None else self.seed * BLOCK)

    def weights(self, side: int, batch: int) -> F64:
        """[keys] The share of each key in the side's arrivals of a batch."""
        epoch = batch // self.every if self.mode == "drifting" else 0
        return _weights(self.keys, self.zipf[side], self.seed, side if self.order == "own" else 0, epoch, self.hot)

    def arrivals(self, batch: int) -> Arrivals:
        codes, time = self.codes(), 0 if self.window is None else batch * SPAN
        rate = self.growth**batch if self.mode == "growing" else 1.0
        out = []
        for side, rows in enumerate(self.rows):
            rng = np.random.default_rng([self.seed, side, batch])
            counts = rng.poisson(self.weights(side, batch) * (rows * rate))
            some = np.flatnonzero(counts)
            out.append((Slice(codes[some], counts[some].astype(np.int64), time, time),) if len(some) else ())
        return tuple(out)


@lru_cache(maxsize=4)
def _weights(keys: int, zipf: float, seed: int, order: int, epoch: int, hot: float) -> F64:
    """[keys] The law of one epoch. Each epoch begins with the order of the last one, and swaps the hot keys for keys
    chosen at random."""
    by_rank = np.random.default_rng([seed, 7, order]).permutation(keys)
    few = min(max(round(keys * hot), 8), keys // 2)
    for past in range(1, epoch + 1):
        others = few + np.random.default_rng([seed, 8, order, past]).choice(keys - few, few, replace=False)
        by_rank[:few], by_rank[others] = by_rank[others].copy(), by_rank[:few].copy()
    out = np.empty(keys)
    out[by_rank] = zipf_weights(keys, zipf)
    return out
