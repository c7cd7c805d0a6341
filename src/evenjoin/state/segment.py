"""A segment: one immutable Arrow IPC file with one or more sorted runs (record batches) of one side.

A run covers one sub-window of event time, so expiry drops whole runs. Sealed once, never changed; its CRC-32 goes
into the manifest and is verified when a process first opens the file. A file that is missing, cut short or altered
is a StateCorruptionError that names it: never a wrong answer.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from evenjoin.errors import StateCorruptionError
from evenjoin.kernels.hashing import I64
from evenjoin.kernels.sorting import run_order
from evenjoin.state.files import Folder
from evenjoin.state.layout import Layout, Tuples

MAX_PIECES = 16
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Run:
    """One sorted run, as the manifest knows it. `file_bytes` and `crc` are the whole file's.

    `sub_window` is the number of its sub-window (0 when nothing expires), `low` and `high` its span of times.
    `mask` names a table: only tuples which that table stores here are alive (the rest has migrated away).
    `dirty` are hashed codes that more than one key of the run shares.
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
    dirty: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Run:
        return cls(**{**data, "dirty": tuple(data["dirty"])})


def sorted_tuples(tuples: Tuples) -> Tuples:
    """The same tuples in run order."""
    order = run_order(tuples.codes, tuples.times)
    return tuples.take(order)


def cut(tuples: Tuples, width: int | None) -> list[tuple[int, Tuples]]:
    """Sorted tuples cut into sub-windows of `width` (None: nothing expires), each with its number.

    A batch that spans very many sub-windows (a backfill) is cut into at most MAX_PIECES wider ones.
    """
    if width is None or tuples.times is None or len(tuples) == 0:
        return [(0, tuples)]
    low, high = int(tuples.times.min()), int(tuples.times.max())
    while high // width - low // width >= MAX_PIECES:
        width *= 2
    if low // width == high // width:
        return [(high // width, tuples)]
    numbers = np.floor_divide(tuples.times, width)
    return [(int(n), tuples.take(np.flatnonzero(numbers == n))) for n in np.unique(numbers)]


def seal(folder: Folder, name: str, runs: Sequence[tuple[int, Tuples, tuple[int, ...]]]) -> tuple[Run, ...]:
    """Write sorted runs as one segment; each comes with its sub-window and dirty codes."""
    layout = runs[0][1].layout
    size = pa.MockOutputStream()
    _write(size, layout, runs)
    data = pa.allocate_buffer(size.size())
    _write(pa.FixedSizeBufferWriter(data), layout, runs)
    crc = zlib.crc32(data)
    folder.write(name, data)
    return tuple(
        Run(name, index, len(t), len(t), sub, *_span(t.times), t.batch.nbytes, data.size, crc, dirty=dirty)
        for index, (sub, t, dirty) in enumerate(runs)
    )


def _write(sink: Any, layout: Layout, runs: Sequence[tuple[int, Tuples, tuple[int, ...]]]) -> None:
    with pa.ipc.new_file(sink, layout.schema) as writer:
        for _, tuples, _ in runs:
            writer.write_batch(tuples.batch)


def _span(times: I64 | None) -> tuple[int, int]:
    return (0, 0) if times is None or len(times) == 0 else (int(times.min()), int(times.max()))


class Segments:
    """The segments a process has opened. Each file is verified and mapped once, then reused by later batches."""

    def __init__(self, folder: Folder, layouts: tuple[Layout, ...]) -> None:
        self._folder, self._layouts = folder, layouts
        self._open: dict[str, pa.ipc.RecordBatchFileReader] = {}
        self._known: dict[tuple[str, int, str | None, str], tuple[str, Any]] = {}

    def read(self, side: int, run: Run) -> Tuples:
        reader = self._open.get(run.file)
        if reader is None:
            reader = self._open[run.file] = self._verified(run)
        return Tuples.of(self._layouts[side], reader.get_batch(run.index))

    def known(self, run: Run, what: str, version: str, find: Callable[[], T]) -> T:
        """Something that follows from a run, which never changes: found once, and anew for another `version`."""
        key = run.file, run.index, run.mask, what
        found = self._known.get(key)
        if found is None or found[0] != version:
            found = self._known[key] = version, find()
        return found[1]

    def retain(self, named: set[str], owner: str) -> None:
        """Forget the files of an instance (`owner` is part of their names) that its manifest no longer names."""
        for name in [n for n in self._open if owner in n and n not in named]:
            del self._open[name]
        for key in [k for k in self._known if owner in k[0] and k[0] not in named]:
            del self._known[key]

    def _verified(self, run: Run) -> pa.ipc.RecordBatchFileReader:
        try:
            data = self._folder.load(run.file)
        except FileNotFoundError:
            raise StateCorruptionError(
                f"segment {run.file} is missing: the checkpoint's folder was changed from outside; "
                "restore the file or start with a new checkpoint"
            ) from None
        if data.size != run.file_bytes or zlib.crc32(data) != run.crc:
            raise StateCorruptionError(
                f"segment {run.file} is damaged ({data.size} bytes, expected {run.file_bytes} with CRC {run.crc:08x}); "
                "restore it from a copy or start with a new checkpoint"
            )
        return pa.ipc.open_file(data)
