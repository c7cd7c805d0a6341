"""A segment: one immutable Arrow IPC file with one or more sorted runs (record batches) of one store.

A run covers one sub-window of event time, so that expiry can drop whole runs.

Guarantee: a segment is sealed once and never changed. Its CRC-32 goes into the manifest, and a process verifies it when
it first opens the file. A file that is missing, cut short or altered raises a StateCorruptionError that names it; it
never gives a wrong answer.

Every probe visits every run of a place, so runs must stay few. Merging is size-tiered (`choose`, `merged`): the runs of
one sub-window whose sizes are within a factor of 4 form a tier, and when a tier has FAN runs they become one. A masked
run is rewritten without its dead tuples once these are more than half.

* While runs are below the budget, a sub-window with n tuples has O(log n) of them, and a tuple is rewritten O(log n)
  times in its life.
* A batch makes at most one merge per place, and the merge never reads more than `budget` tuples. Of a tier that is too
  large it takes the smallest runs. Two runs that exceed the budget together are not merged, so about n / budget large
  runs may remain: they are cheap to probe and expensive to rewrite.

Not here: which runs exist, and dropping what has expired, which is always whole runs (manifest.py).
"""

from __future__ import annotations

import re
import threading
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeVar, overload

import numpy as np
import pyarrow as pa

from evenjoin.errors import StateCorruptionError
from evenjoin.state.files import Folder
from evenjoin.state.packs import Packs, PackSchema, Rows, Schema
from evenjoin.state.tuples import Tuples, TupleSchema

MAX_PIECES = 16
FAN = 4
"""Runs of a tier that are merged into one."""
MOST_DIRTY = 1024
"""Dirty codes that a run lists at most. Without malice a run has as many once it holds three million keys."""
IDLE_BATCHES = 8
"""For how many batches a process keeps the files of an instance open that it does not run."""
OWNER = re.compile(r"-i\d+-")
"""The part of a segment's name that says which instance it was written for."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Run:
    """One sorted run, as the manifest knows it.

    file, index       the segment, and which of its record batches the run is
    rows, alive       its tuples, and how many of them are alive
    sub_window        the number of its sub-window; 0 where nothing expires
    low, high         the least time of its tuples, and the greatest by which one expires; both 0 without times
    bytes             its size in memory
    file_bytes, crc   size and CRC-32 of the whole file
    mask              the name of a table: only the tuples that it stores on this instance are alive, because the others
                      have migrated away. None: all are alive
    masked_as         the number that this instance has in that table, if it was renumbered since; None: it has the same
    dirty             hashed codes that more than one key of the run share (instance/verify.py); None: there are more
                      than MOST_DIRTY, too many to travel in receipts and commits, and whoever reads the run finds them
    pairs             of a run of packs: how many members they have
    """

    file: str
    index: int
    rows: int
    alive: int
    sub_window: int
    low: int
    high: int
    bytes: int
    file_bytes: int
    crc: int
    mask: str | None = None
    dirty: tuple[int, ...] | None = ()
    pairs: int = 0
    masked_as: int | None = None

    def number_in_mask(self, instance: int) -> int:
        """The number that the instance which holds this run has in the table of its mask."""
        return instance if self.masked_as is None else self.masked_as

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Run:
        return cls(**{**data, "dirty": None if data["dirty"] is None else tuple(data["dirty"])})


def cut(tuples: Rows, width: int | None) -> list[tuple[int, Rows]]:
    """Sorted tuples (or packs) cut into sub-windows of `width`, each with its number: the time by which they expire
    // width. None: they are not cut.

    A batch that spans very many sub-windows, such as a backfill, is cut into at most MAX_PIECES wider ones. Their
    width is doubled as often as needed.
    """
    times = tuples.ages
    if width is None or times is None or len(tuples) == 0:
        return [(0, tuples)]
    low, high = int(times.min()), int(times.max())
    while high // width - low // width >= MAX_PIECES:
        width *= 2
    if low // width == high // width:
        return [(high // width, tuples)]
    numbers = np.floor_divide(times, width)
    return [(int(n), tuples.take(np.flatnonzero(numbers == n))) for n in np.unique(numbers)]


def seal(folder: Folder, name: str, runs: Sequence[tuple[int, Rows, tuple[int, ...]]]) -> tuple[Run, ...]:
    """Write sorted runs as one segment. Each is given as (sub-window, tuples, dirty codes)."""
    columns = runs[0][1].schema.run
    size = pa.MockOutputStream()
    _write(size, columns, runs)
    data = pa.allocate_buffer(size.size())
    _write(pa.FixedSizeBufferWriter(data), columns, runs)
    crc = zlib.crc32(data)
    folder.write(name, data)
    return tuple(
        Run(
            name,
            index,
            len(t),
            len(t),
            sub,
            *_span(t),
            t.batch.nbytes,
            data.size,
            crc,
            dirty=_listed(dirty),
            pairs=len(t.members) if isinstance(t, Packs) else 0,
        )
        for index, (sub, t, dirty) in enumerate(runs)
    )


def _listed(dirty: tuple[int, ...]) -> tuple[int, ...] | None:
    return dirty if len(dirty) <= MOST_DIRTY else None


def _write(sink: Any, columns: pa.Schema, runs: Sequence[tuple[int, Rows, tuple[int, ...]]]) -> None:
    with pa.ipc.new_file(sink, columns) as writer:
        for _, tuples, _ in runs:
            writer.write_batch(tuples.batch)


def _span(tuples: Rows) -> tuple[int, int]:
    times, ages = tuples.times, tuples.ages
    return (0, 0) if times is None or ages is None or len(times) == 0 else (int(times.min()), int(ages.max()))


def choose(runs: Sequence[Run], budget: int) -> tuple[Run, ...]:
    """The runs of one place that should become one now; empty if none should. Pure, so a retry chooses the same
    runs."""
    for run in runs:
        if run.mask is not None and run.alive * 2 < run.rows <= budget:
            return (run,)
    tiers: dict[tuple[int, int], list[Run]] = defaultdict(list)
    for run in runs:
        tiers[run.sub_window, max(run.rows, 1).bit_length() // 2].append(run)
    full = [_affordable(tier, budget) for tier in tiers.values() if len(tier) >= FAN]
    full = [tier for tier in full if len(tier) > 1]
    return min(full, key=lambda tier: sum(r.rows for r in tier)) if full else ()


def _affordable(tier: Sequence[Run], budget: int) -> tuple[Run, ...]:
    """As many of the smallest runs as may be read within the budget."""
    by_size = sorted(tier, key=lambda run: run.rows)
    return tuple(run for run, read in zip(by_size, accumulate(r.rows for r in by_size), strict=True) if read <= budget)


def merged(schema: Schema, runs: Sequence[tuple[Rows, np.ndarray | None]]) -> Rows:
    """The live tuples of some runs as one sorted run. Each run comes with the mask of its live tuples; None: all
    live. Packs of equal hubs become one."""
    batches = [t.batch if live is None else t.batch.filter(pa.array(live)) for t, live in runs]
    whole = schema.joined(batches, schema.run)
    return whole.of_equal_hubs() if isinstance(whole, Packs) else whole


class Segments:
    """The segments that a process has open. Each file is verified and mapped once; later batches reuse it.

    Open are, after `retain`, at most the files that the manifest names for the instance, and those of other instances
    that this process has run in the last IDLE_BATCHES batches. Spark may run an instance in another process each
    time. Several threads may use it, each for other instances.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._open: dict[str, dict[str, pa.ipc.RecordBatchFileReader]] = defaultdict(dict)
        self._known: dict[str, dict[tuple[str, int, str | None, str], tuple[str, Any]]] = defaultdict(dict)
        self._adopted: dict[str, str] = {}
        self._ran: dict[str, int] = {}
        self._swept = -1
        self._lock = threading.Lock()

    @overload
    def read(self, schema: TupleSchema, run: Run) -> Tuples: ...
    @overload
    def read(self, schema: PackSchema, run: Run) -> Packs: ...
    def read(self, schema: Schema, run: Run) -> Rows:
        """The tuples (or packs) of a run, which have the columns of the schema."""
        with self._lock:
            files = self._open[self._owner(run.file)]
        reader = files.get(run.file)
        if reader is None:
            reader = self._verified(run)
            with self._lock:
                files[run.file] = reader
        batch = reader.get_batch(run.index)
        return Packs.of(schema, batch) if isinstance(schema, PackSchema) else Tuples.of(schema, batch)

    def known(self, run: Run, what: str, version: str, find: Callable[[], T]) -> T:
        """The fact `what` about a run, which `find` computes. It is kept, since a run never changes, and computed anew
        for another `version` (of what else it depends on, such as a table)."""
        key = (run.file, run.index, run.mask, what)
        with self._lock:
            facts = self._known[self._owner(run.file)]
        found = facts.get(key)
        if found is None or found[0] != version:
            found = version, find()
            with self._lock:
                facts[key] = found
        return found[1]

    def retain(self, named: set[str], owner: str, batch: int) -> None:
        """Close the files of an instance that the manifest no longer names, and all those of instances that were not
        run here for long. `owner` is the part of a file's name that says who wrote it. An instance that was renumbered
        has files of its old number: it adopts them."""
        with self._lock:
            self._retain(named, owner, batch)

    def _retain(self, named: set[str], owner: str, batch: int) -> None:
        for name in named:
            if self._owner(name) != owner:
                self._adopt(name, owner)
        for name in [n for n in self._open[owner] if n not in named]:
            del self._open[owner][name]
        for key in [k for k in self._known[owner] if k[0] not in named]:
            del self._known[owner][key]
        self._ran[owner] = batch
        if batch == self._swept:
            return
        self._swept = batch
        for other in {*self._open, *self._known}:
            if batch - self._ran.setdefault(other, batch) > IDLE_BATCHES:
                for held in (self._open, self._known, self._ran):
                    held.pop(other, None)
        opened = self.files
        self._adopted = {name: by for name, by in self._adopted.items() if name in opened}

    def _owner(self, name: str) -> str:
        """Whose a file is: the part of its name that says who wrote it, or the one that adopted it."""
        found = OWNER.search(name)
        return self._adopted.get(name) or (found[0] if found else "")

    def _adopt(self, name: str, owner: str) -> None:
        """Let an open file, and what is known of its runs, belong to another owner from now on."""
        opened, facts = self._open[self._owner(name)], self._known[self._owner(name)]
        if name not in opened:
            return
        self._open[owner][name] = opened.pop(name)
        self._known[owner].update({key: facts.pop(key) for key in [k for k in facts if k[0] == name]})
        self._adopted[name] = owner

    @property
    def files(self) -> set[str]:
        """The names of the files that are open."""
        return {name for files in self._open.values() for name in files}

    def _verified(self, run: Run) -> pa.ipc.RecordBatchFileReader:
        try:
            data = self._folder.load(run.file)
            if not _intact(data, run):
                data = self._folder.reload(run.file)  # what was damaged may be this machine's copy
        except FileNotFoundError:
            raise StateCorruptionError(
                f"segment {run.file} is missing: the checkpoint's folder was changed from outside; "
                "restore the file or start with a new checkpoint"
            ) from None
        if not _intact(data, run):
            raise StateCorruptionError(
                f"segment {run.file} is damaged ({data.size} bytes, expected {run.file_bytes} with CRC {run.crc:08x}); "
                "restore it from a copy or start with a new checkpoint"
            )
        return pa.ipc.open_file(data)


def _intact(data: pa.Buffer, run: Run) -> bool:
    return bool(data.size == run.file_bytes and zlib.crc32(data) == run.crc)
