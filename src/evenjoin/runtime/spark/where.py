"""Where a batch runs: in Python workers on the executors, or in the driver's own process.

    execution="executors"   every batch is a Spark job of two stages
    execution="driver"      every batch in the driver (runtime/local.py), whatever its size
    execution="auto"        the driver takes what is small for it; the executors get the rest

A small batch costs more to hand out than to join: a job with two stages of Python workers takes some 150 ms before it
does anything. On a local master driver and executors share the machine, so there the driver is as good for large
batches too, and spares them the way through the JVM; its limits are those of memory. On a cluster large batches are the
executors'.

How large the next batch will be is known exactly where every side is read from parquet files. Otherwise it is taken to
be like the largest of the last RECENT, and `Most` bounds what the driver reads. If more come than expected, in rows or
in results that the sink wants as one table, the batch is tried again on the executors: nothing of it has left the
driver until then. That joins it twice, so the limit that it has met is kept: as long as one of the last RECENT batches
is above it, the next one goes to the executors at once, also where "driver" was asked for.

Guarantee: both places run the same code on the same files, and what they leave in the checkpoint is alike, so a batch
may run here and the next one there. Pure, but for remembering the last batches.
Not here: how the driver reads a batch (in_driver.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from evenjoin.commit.log import Commit
from evenjoin.runtime.settings import Execution
from evenjoin.state.manifest import Manifest

Place = Literal["driver", "executors"]
RECENT = 4
"""Batches that are looked back upon."""


class Limits(NamedTuple):
    """What the driver takes: rows and bytes of a batch, results of one, and bytes of stored tuples."""

    rows: int
    bytes: int
    results: int
    state: int


ON_CLUSTER = Limits(rows=100_000, bytes=64 << 20, results=1_000_000, state=256 << 20)
"""Beside executors on other machines the driver takes what is small for one machine."""
FAR = 8
"""Batches are far below the limit of rows if it is as many times theirs."""
SPARE = 4
"""How many times its limit of bytes the driver may collect by mistake. With Spark's usual bound of 1 GB for that, a
local master is within it and a driver beside a cluster is not."""
PART = 1 / 16
"""On a local master, the part of the machine's memory that the rows of a batch may take. Dispatch and sorting hold them
about four times."""
NO_LIMITS = Limits(*(2**62,) * 4)
RESULT_BYTES = 256 << 20
"""Results that are held at once for a sink that wants them as one table."""


def on_local_master(memory: int) -> Limits:
    """The limits where the driver shares a machine of so many bytes with the executors."""
    return Limits(rows=8_000_000, bytes=int(memory * PART), results=2**62, state=2**62)


class Size(NamedTuple):
    """How large a batch is: its rows and, where they are known, their bytes in memory."""

    rows: int
    bytes: int = 0


class Most(NamedTuple):
    """What the driver takes of a batch whose rows Spark collects: so many rows and bytes. `by`: whether Spark is told
    to stop after the rows, or whether they are counted when they are there.

    Spark stops with a `limit` above the plan, which brings all rows to one task, and that makes the Arrow alone:
    400,000 rows took 285 ms in place of 165 on two cores. So it is left out where batches are far smaller, as long as
    spark.driver.maxResultSize bounds what is collected by mistake."""

    rows: int
    bytes: int
    by: Literal["limit", "count"]


class Met(NamedTuple):
    """Limits that batches of this query have met: rows that Spark did not collect, and results that were held when they
    became too many for one table."""

    rows: int = 2**62
    results: int = 2**62


class Choice(NamedTuple):
    """Where a batch runs, and why in words."""

    place: Place
    why: str


@dataclass(slots=True)
class Where:
    """Chooses the place of each batch of one query, and remembers what was chosen. `hindrance` says why batches of this
    join cannot run in the driver; empty: they can. `collectable` is how many bytes Spark lets the driver collect at
    once; 0: any number."""

    execution: Execution
    limits: Limits
    hindrance: str = ""
    collectable: int = 1 << 30
    last: Choice | None = None
    batches: dict[Place, int] = field(default_factory=lambda: {"driver": 0, "executors": 0})
    _recent: deque[tuple[Size, int]] = field(default_factory=lambda: deque(maxlen=RECENT))
    _met: Met = field(default_factory=Met)
    _gave_up: bool = False

    def most(self, row_bytes: int) -> Most:
        """What the driver takes of the next batch. `row_bytes`: what a row takes in memory, if no batch has told."""
        if self.execution != "auto":
            return Most(NO_LIMITS.rows, NO_LIMITS.bytes, "count")
        rows, size = self.limits.rows, self._expected()
        if 0 < self.collectable <= SPARE * self.limits.bytes:
            return Most(rows, self.limits.bytes, "count" if 0 < size.rows * FAR <= rows else "limit")
        width = size.bytes // size.rows if size.rows else row_bytes
        return Most(min(rows, self.limits.bytes // max(width, 1)), self.limits.bytes, "limit")

    @property
    def begins_on_executors(self) -> bool:
        """Whether the first batch will run there, as far as that is known before it comes."""
        if self.execution == "auto" and not self.hindrance:
            return self._expected().rows > self.limits.rows
        return self.execution == "executors" or bool(self.hindrance)

    def choose(self, manifest: Manifest, measure: Callable[[], Size | None]) -> Choice:
        """The place of the next batch. `measure` tells its size, if that can be known."""
        if self.execution == "executors":
            return Choice("executors", "asked for")
        if self.hindrance:
            return Choice("executors", self.hindrance)
        results = max((found for _, found in self._recent), default=0)
        if results > self._met.results:
            return Choice("executors", f"{results:,} results in one of the last batches, too many for one table")
        rows = self._expected().rows
        if rows >= self._met.rows:
            return Choice("executors", f"{rows:,} rows in one of the last batches, too many to collect")
        if self.execution == "driver":
            return Choice("driver", "asked for")
        known = measure()
        size = known if known is not None else self._expected()
        if size.rows > self.limits.rows or size.bytes > self.limits.bytes:
            return Choice("executors", f"{size.rows:,} rows" if size.rows else f"files of {size.bytes:,} bytes")
        if results > self.limits.results:
            return Choice("executors", f"{results:,} results in one of the last batches")
        if self.limits.state < sum(run.bytes for _, _, run in manifest):
            return Choice("executors", f"more than {self.limits.state:,} bytes of state")
        return Choice("driver", f"{size.rows:,} rows" if known or self._recent else "the first batch")

    def ran(self, choice: Choice, commit: Commit) -> None:
        """Remember where a batch ran, and how large it was."""
        self.last = choice
        self.batches[choice.place] += 1
        self.remember(commit)
        if self._gave_up and self._recent:
            self._met = self._met._replace(rows=min(self._met.rows, self._recent[-1][0].rows))
        self._gave_up = False

    def gave_up(self, results: int) -> None:
        """The driver could not take a batch that was given to it: it could not hold more than so many results, or, if
        0, it could not collect the rows."""
        if results:
            self._met = self._met._replace(results=min(self._met.results, results))
        else:
            self._gave_up = True

    def remember(self, commit: Commit | None) -> None:
        """Remember how large a batch was."""
        if commit is not None and commit.report is not None:
            sent = sum(sum(load.sent_bytes) for load in commit.report.instances)
            self._recent.append((Size(sum(side.rows for side in commit.report.intake), sent), commit.report.matches))

    def _expected(self) -> Size:
        sizes = [size for size, _ in self._recent] or [Size(0)]
        return Size(max(size.rows for size in sizes), max(size.bytes for size in sizes))
