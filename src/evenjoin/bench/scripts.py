"""Streams whose hot keys follow a script: the cases on which a strategy that waits differs from one that acts at once.

    uniform          no key is hot
    hot              one key has the share `heat` of side 0
    hot-both         one key is hot on each side, so that its pairs are about two in three of all
    flash            one key is one and a half times as hot, in three batches, and never again
    alternating      two keys take turns of two batches
    renewed          every three batches another key is hot
    warm             forty keys share one and a half times `heat`
    nulls            the share `heat` of side 0 has no key, and joins nothing
    monotone         keys grow with the batches, as numbers of orders do; none is hot

All other tuples are spread evenly over all keys. The other side is spread evenly too (but for hot-both), so a batch has
as many pairs whichever key is hot, and what differs between scripts is only where they are. A `Law` says what is hot
in a batch of a side; keys are numbered in an order that the seed draws, so that nothing about their places is chosen.

The simulator counts these streams (sim/scripted.py); `workload` makes rows of them for ``evenjoin compare``, whose
values must be near as well (NEAR), so that a batch has many pairs to look at and few results. There HEAT is larger: on
two cores a key with 40 % of the work needs no help, because its task runs beside all the others.

Guarantee: a batch is a pure function of the script, the seed and its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenjoin.bench.join_workload import OWN, JoinWorkload, Size
from evenjoin.bench.workloads import EPOCH_US, SIDES, ZIPF_SCHEMA, draw
from evenjoin.errors import SpecError

HEAT = 0.75
"""The share of the hot key in streams of rows."""
KEYS, ROWS, BATCHES = 200, 24_000, 24
SPAN_US = 10_000_000
WINDOW_S = 15
NEAR = 50
SELECT = ("l.k AS k", "l.id AS l_id", "r.id AS r_id", "l.ts AS l_ts", "r.ts AS r_ts", "l.v AS l_v", "r.v AS r_v")


class Law(NamedTuple):
    """The keys `first`, `first + 1`, ... have together the share `share` of a side's tuples. Of all tuples the part
    `nulls` has no key. Keys are counted from `start`."""

    share: float = 0.0
    first: int = 0
    many: int = 1
    nulls: float = 0.0
    start: int = 0


CALM = Law()


class Setting(NamedTuple):
    """What a script may ask: how hot a hot key is, and how many keys there are."""

    heat: float
    keys: int


Script = Callable[[int, Setting], tuple[Law, Law]]
"""What a batch of both sides is like."""


def _both(setting: Setting) -> tuple[Law, Law]:
    """Shares s with s² = 1.8 / keys: the pairs of the hot key are 1.8 times those of all others together."""
    share = min((1.8 / setting.keys) ** 0.5, 0.9)
    return Law(share), Law(share)


def _hotter(heat: float) -> float:
    return min(1.5 * heat, 0.9)


SCRIPTS: Mapping[str, Script] = {
    "uniform": lambda batch, setting: (CALM, CALM),
    "hot": lambda batch, setting: (Law(setting.heat), CALM),
    "hot-both": lambda batch, setting: _both(setting),
    "flash": lambda batch, setting: (Law(_hotter(setting.heat)) if 18 <= batch < 21 else CALM, CALM),
    "alternating": lambda batch, setting: (Law(setting.heat, batch // 2 % 2), CALM),
    "renewed": lambda batch, setting: (Law(setting.heat, batch // 3), CALM),
    "warm": lambda batch, setting: (Law(_hotter(setting.heat), 0, 40), CALM),
}
"""Of these there are rows, and counts for the simulator."""
OF_ROWS: Mapping[str, Script] = {
    "nulls": lambda batch, setting: (Law(nulls=setting.heat), CALM),
    "monotone": lambda batch, setting: (Law(start=batch * setting.keys // 4),) * 2,
}
"""Of these there are rows only: the simulator's keys are always the same."""
NAMES = tuple(f"script-{name}" for name in (*SCRIPTS, *OF_ROWS))


def law(script: str, batch: int, setting: Setting) -> tuple[Law, Law]:
    """What a batch of both sides is like."""
    return (SCRIPTS[script] if script in SCRIPTS else OF_ROWS[script])(batch, setting)


def shares(law: Law, keys: int, seed: int) -> NDArray[np.float64]:
    """[keys] The share of each key in a side's arrivals of a batch."""
    out = np.full(keys, (1.0 - law.share) / keys)
    if law.share > 0:
        order = np.random.default_rng([seed, 7]).permutation(keys)
        out[order[(law.first + np.arange(law.many)) % keys]] += law.share / law.many
    return out


@dataclass(frozen=True, slots=True)
class ScriptedStreams:
    """Two streams of rows by a script, in equal batches, with columns k, ts, v, id."""

    script: str
    keys: int = KEYS
    rows_per_batch: int = ROWS  # of each side
    batches: int = BATCHES
    heat: float = HEAT
    seed: int = 1

    def side(self, number: int) -> Iterator[pa.Table]:
        return (self.batch(number, batch) for batch in range(self.batches))

    def batch(self, number: int, batch: int) -> pa.Table:
        """Batch `batch` of one side, in random order of event time."""
        rows, rng = self.rows_per_batch, np.random.default_rng([self.seed, number, batch])
        here = law(self.script, batch, Setting(self.heat, self.keys))[number]
        keys = here.start + draw(shares(here, self.keys, self.seed), rows, rng)
        columns = [
            pa.array(keys, pa.int64(), mask=rng.random(rows) < here.nulls),
            pa.array(EPOCH_US + batch * SPAN_US + rng.integers(0, SPAN_US, rows), pa.timestamp("us", "UTC")),
            rng.integers(0, 1_000_000, rows),
            np.arange(batch * rows, (batch + 1) * rows),
        ]
        return pa.table(columns, schema=ZIPF_SCHEMA)


def workload(name: str, size: Size = OWN) -> JoinWorkload:
    """The workload of that name, in its own size or another."""
    if name not in NAMES:
        raise SpecError(f"unknown workload {name!r}; known: {', '.join(NAMES)}")
    streams = ScriptedStreams(
        name.removeprefix("script-"), rows_per_batch=size.rows or ROWS, batches=size.batches or BATCHES,
        seed=size.seed_or(1),
    )  # fmt: skip
    bounds = f"l.ts - INTERVAL {WINDOW_S} SECONDS AND l.ts + INTERVAL {WINDOW_S} SECONDS"
    condition = f"l.k = r.k AND r.ts BETWEEN {bounds} AND abs(l.v - r.v) <= {NEAR}"
    lag, reach = f"{SPAN_US // 2_000} milliseconds", WINDOW_S * 1_000_000
    return JoinWorkload(
        name, streams, SIDES, condition, SELECT, watermark=lag, reach_us=reach, strategies="hash,djb,auto"
    )
