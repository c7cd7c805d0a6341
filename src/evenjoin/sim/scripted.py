"""Streams whose hot keys follow a script, as the simulator counts them: what bench/scripts.py says, per key.

Guarantee: as of a `Stream` (stream.py): a batch is a pure function of the script, the seed and its number.
Not here: what the scripts are (bench/scripts.py), skew by a law (stream.py), and recorded rows (recorded.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenjoin.bench.scripts import SCRIPTS as SCRIPTS
from evenjoin.bench.scripts import Setting, law, shares
from evenjoin.errors import SpecError
from evenjoin.kernels.hashing import I64
from evenjoin.load.items import F64
from evenjoin.sim.stream import SPAN, Arrivals, Slice, Stream
from evenjoin.spec import JoinSpec


@dataclass(frozen=True, slots=True)
class Scripted:
    """Two streams by a script. Settings as of a `Stream`."""

    script: str
    keys: int = 200_000
    rows: tuple[float, float] = (400_000, 400_000)
    window: int | None = 6
    batches: int = 40
    seed: int = 1
    heat: float = 0.4  # the share of the hot key

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
        return shares(law(self.script, batch, Setting(self.heat, self.keys))[side], self.keys, self.seed)

    def arrivals(self, batch: int) -> Arrivals:
        codes, time, out = self.codes(), 0 if self.window is None else batch * SPAN, []
        for side, rows in enumerate(self.rows):
            counts = np.random.default_rng([self.seed, side, batch]).poisson(self.weights(side, batch) * rows)
            some = np.flatnonzero(counts)
            out.append((Slice(codes[some], counts[some].astype(np.int64), time, time),) if len(some) else ())
        return tuple(out)
