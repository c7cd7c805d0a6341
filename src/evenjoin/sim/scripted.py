"""Streams whose hot keys follow a script: the cases on which a strategy that waits differs from one that acts at once.

    uniform          no key is hot
    hot              one key has 40 % of side 0
    hot-both         one key has 0.3 % of each side; what it finds is the square of that
    flash            one key has 60 % of side 0 in three batches, and never again
    alternating      two keys take turns of two batches: 40 % of side 0
    renewed          every three batches another key has 40 % of side 0
    warm             forty keys share 60 % of side 0

All other tuples are spread evenly over all keys. A `Burst` says which keys are hot in a batch of a side; keys are
numbered in an order that the seed draws, so that nothing about their places is chosen.

Guarantee: as of a `Stream` (stream.py): a batch is a pure function of the script, the seed and its number.
Not here: skew by a law (stream.py), and recorded rows (recorded.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenjoin.errors import SpecError
from evenjoin.kernels.hashing import I64
from evenjoin.load.items import F64
from evenjoin.sim.stream import SPAN, Arrivals, Slice, Stream
from evenjoin.spec import JoinSpec


class Burst(NamedTuple):
    """The keys `first`, `first + 1`, ... have together this share of a side's tuples."""

    share: float = 0.0
    first: int = 0
    many: int = 1


CALM = Burst()

Script = Callable[[int], tuple[Burst, Burst]]
"""What is hot in a batch, on both sides."""

SCRIPTS: Mapping[str, Script] = {
    "uniform": lambda batch: (CALM, CALM),
    "hot": lambda batch: (Burst(0.4), CALM),
    "hot-both": lambda batch: (Burst(0.003), Burst(0.003)),
    "flash": lambda batch: (Burst(0.6) if 18 <= batch < 21 else CALM, CALM),
    "alternating": lambda batch: (Burst(0.4, batch // 2 % 2), CALM),
    "renewed": lambda batch: (Burst(0.4, batch // 3), CALM),
    "warm": lambda batch: (Burst(0.6, 0, 40), CALM),
}


@dataclass(frozen=True, slots=True)
class Scripted:
    """Two streams by a script. Settings as of a `Stream`."""

    script: str
    keys: int = 200_000
    rows: tuple[float, float] = (400_000, 400_000)
    window: int | None = 6
    batches: int = 40
    seed: int = 1

    def __post_init__(self) -> None:
        if self.script not in SCRIPTS:
            raise SpecError(f"unknown script {self.script!r}; known: {', '.join(SCRIPTS)}")
        self._like()

    def _like(self) -> Stream:
        """A stream of the same join and the same codes."""
        return Stream(self.keys, self.rows, window=self.window, batches=self.batches, seed=self.seed)

    @property
    def spec(self) -> JoinSpec:
        return self._like().spec

    def codes(self) -> I64:
        return self._like().codes()

    def weights(self, side: int, batch: int) -> F64:
        """[keys] The share of each key in the side's arrivals of a batch."""
        burst = SCRIPTS[self.script](batch)[side]
        out = np.full(self.keys, (1.0 - burst.share) / self.keys)
        if burst.share > 0:
            order = np.random.default_rng([self.seed, 7]).permutation(self.keys)
            some = order[(burst.first + np.arange(burst.many)) % self.keys]
            out[some] += burst.share / burst.many
        return out

    def arrivals(self, batch: int) -> Arrivals:
        codes, time, out = self.codes(), 0 if self.window is None else batch * SPAN, []
        for side, rows in enumerate(self.rows):
            counts = np.random.default_rng([self.seed, side, batch]).poisson(self.weights(side, batch) * rows)
            some = np.flatnonzero(counts)
            out.append((Slice(codes[some], counts[some].astype(np.int64), time, time),) if len(some) else ())
        return tuple(out)
