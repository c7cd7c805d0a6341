"""A join workload: two or more streams in batches, and the join that is asked of them, as one value.

What a strategy is compared on (``evenjoin compare``) is such a value; the modules that make them are ``skewed`` (hot
keys), ``scripts`` (hot keys that come and go), ``city`` (FastJoin's orders and tracks), ``bands`` (nearness and
changing volumes), ``tpch`` (the benchmark's tables), ``trijoin`` and ``three_keys`` (three sides). Their names are in
``catalog``.

Invariant: the same value gives the same files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from evenjoin.bench.jobs import Near
from evenjoin.bench.workloads import write_batches
from evenjoin.spec import JoinSpec, build_spec

SEED = 7
"""Of workloads that have no seed of their own."""
KEYED, THETA = "hash,contrand(groups=2),fastjoin,djb,lsstream", "hypercube,trijoin,tree"
SIZED = "adsp,square,dynamic,random,contrand(groups=6),readj"
"""What is compared by default: on equal keys, where three sides share no key, and where tasks have a capacity. The
last is the line-up of A-DSP, Fig. 12 and 13. Those that cannot run the join on so many instances are left out: Dynamic
needs a power of two if the number of instances is fixed, for example."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Every `every` batches the load of some task rises by at least `f` times the mean."""

    every: int = 6
    f: float = 1.5


@dataclass(frozen=True, slots=True)
class Size:
    """What a user may change of a workload; None is the workload's own. `rows` are those of the left side in a batch
    (on average)."""

    rows: int | None = None
    batches: int | None = None
    seed: int | None = None
    drift: Drift = Drift()

    def seed_or(self, own: int) -> int:
        """The seed that was asked for, or the workload's own."""
        return own if self.seed is None else self.seed


OWN = Size()


class Streams(Protocol):
    """Two or more streams, cut into batches."""

    @property
    def batches(self) -> int: ...

    def side(self, number: int) -> Iterator[pa.Table]:
        """The batches of a side: 0 is the left one."""
        ...


@dataclass(frozen=True, slots=True)
class JoinWorkload:
    """Streams, and the join asked of them: all that a system needs besides its own settings."""

    name: str
    streams: Streams
    aliases: tuple[str, ...]
    condition: str
    select: tuple[str, ...]
    event_time: str | None = "ts"  # None: the whole history joins
    watermark: str = ""
    reach_us: int = 0  # rows further apart in event time never match; 0: not known
    near: tuple[Near, ...] = ()
    capacity: int | None = None  # stored tuples a task has room for: strategies size themselves. None: fixed size
    steps: tuple[str, ...] = ()  # with more than two sides: the condition of each two-way join, side by side
    strategies: str = ""  # those compared if nobody names others; empty: KEYED, or SIZED with a capacity

    @property
    def batches(self) -> int:
        return self.streams.batches

    @property
    def compared(self) -> str:
        """The strategies that are compared if nobody names others."""
        return self.strategies or (KEYED if self.capacity is None else SIZED)

    def spec(self) -> JoinSpec:
        """The join as the engine reads it. Makes the first batch of every side, for its schema."""
        schemas = {alias: next(self.streams.side(number)).schema for number, alias in enumerate(self.aliases)}
        watermark = self.watermark if self.event_time else None
        return build_spec(
            schemas, self.condition, event_time=self.event_time, watermark=watermark, select=list(self.select)
        )

    def write(self, folder: Path, tick: Callable[[], None] = lambda: None) -> dict[str, Path]:
        """One parquet file per side and batch below ``folder``; returns each side's folder. ``tick`` after each."""
        for number, alias in enumerate(self.aliases):
            write_batches(folder / alias, _told(self.streams.side(number), tick))
        return {alias: folder / alias for alias in self.aliases}


def _told(tables: Iterator[pa.Table], tick: Callable[[], None]) -> Iterator[pa.Table]:
    for table in tables:
        yield table
        tick()
