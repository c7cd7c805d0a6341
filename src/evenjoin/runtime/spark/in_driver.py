"""The driver's place: the rows of one batch, read into this process, joined here, and handed to the sink as a table.

    parquet folders   the log of Spark's file source names the batch's files; pyarrow reads them. No Spark job runs
    any other side    one Spark job projects the rows and collects them as Arrow

Guarantee: the rows are those that the executors would have read. Of a batch with more rows than `most`, or with more
results than fit (RESULT_BYTES) where the sink wants them as one table, nothing reaches the sink: Elsewhere.
Not here: which batches come here (where.py), and how they are joined (runtime/local.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from threading import Lock

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from evenjoin.instance.work import Work
from evenjoin.runtime.driver import Elsewhere
from evenjoin.runtime.local import Feed, Process, Take
from evenjoin.runtime.spark.division import Piece, Task, divided
from evenjoin.runtime.spark.files import file_sizes, measured, row_groups, rows_of
from evenjoin.runtime.spark.offsets import Offsets
from evenjoin.runtime.spark.session import prepare_batch
from evenjoin.runtime.spark.where import RESULT_BYTES, Most, Size
from evenjoin.runtime.spark.wire import Slots, by_side
from evenjoin.spec import JoinSpec

TASK_ROWS = 1 << 16
"""A side is read and dispatched by one thread for so many rows, as long as there are threads."""
TOO_BIG = "maxResultSize"
"""The setting that Spark's error names when a job's rows are more than the driver may collect."""


class InDriver:
    """Batches of one query in the driver's process."""

    def __init__(self, process: Process, spec: JoinSpec, slots: Slots, offsets: Offsets) -> None:
        self.process, self._spec, self._slots, self._offsets = process, spec, slots, offsets
        self._batch: tuple[int, list[list[str]] | None] = -1, None
        self._stored: list[dict[str, int]] = []
        self._sizes: dict[tuple[int, str], Size] = {}

    def known(self, batch: int, most: int) -> Size | None:
        """How large a batch is; None if only reading it would tell. Of files of more than `most` bytes only these are
        told, without a look into them. Elsewhere if a file is gone: Spark knows whether that is an error."""
        files = self._files(batch)
        if files is None:
            return None
        try:
            stored = sum(sum(sizes.values()) for sizes in self._bytes_of(files))
            if stored > most:
                return Size(0, stored)
            for side, (paths, reading) in enumerate(zip(files, self._slots.files, strict=True)):
                found = measured(paths, reading.columns if reading else ())
                self._sizes |= {(side, path): Size(*size) for path, size in zip(paths, found, strict=True)}
        except FileNotFoundError as error:
            raise Elsewhere(f"{error.filename or error} is gone") from None
        return Size(sum(size.rows for size in self._sizes.values()), sum(size.bytes for size in self._sizes.values()))

    def join(self, frame: DataFrame, work: Work, watermark: int | None, most: Most, take: Take) -> None:
        """Join a batch, if it is not more than the driver takes."""
        tasks = self.tasks(work.batch, self.process.threads)
        if tasks is not None:
            feeds = self._of_files(tasks)
        elif self._files(work.batch) is None:
            feeds = self._of_rows(_collected(frame, most), most.rows)
        else:
            raise Elsewhere("a file is gone")
        self.process.join(work, watermark, feeds, take)

    def tasks(self, batch: int, cores: int) -> list[Task] | None:
        """Who reads what of a batch, where so many read at once. None if not all sides are files, or if one of the
        files is gone: Spark knows whether that is an error."""
        files = self._files(batch)
        if files is None:
            return None
        try:
            return divided(self._bytes_of(files), cores, row_groups)
        except FileNotFoundError:
            return None

    def _files(self, batch: int) -> list[list[str]] | None:
        """By side, the files of a batch. None if not all sides are files."""
        if None in self._slots.files:
            return None
        if self._batch[0] != batch:
            self._batch = batch, self._offsets.files(batch, len(self._slots.files))
            self._stored, self._sizes = [], {}
        return self._batch[1]

    def _bytes_of(self, files: Sequence[Sequence[str]]) -> list[dict[str, int]]:
        """By side, the bytes of the batch's files; asked once. FileNotFoundError if one is gone."""
        if not self._stored:
            self._stored = [file_sizes(paths) for paths in files]
        return self._stored

    def _of_files(self, tasks: Sequence[Task]) -> list[Feed]:
        feeds = []
        for task in tasks:
            for side, some in groupby(task, key=lambda one: one[0]):
                pieces = [piece for _, piece in some]
                rows = self._slots.read(side, pieces, self._spec.sides[side].schema)
                feeds.append(Feed(side, self._rows(side, pieces), rows))
        return feeds

    def _rows(self, side: int, pieces: Sequence[Piece]) -> int:
        known = [self._sizes.get((side, piece.path)) for piece in pieces]
        return sum(
            size.rows if size is not None and piece == Piece(piece.path) else rows_of(piece)
            for size, piece in zip(known, pieces, strict=True)
        )

    def _of_rows(self, rows: pa.Table, most: int) -> list[Feed]:
        """The feeds of collected rows, which may be names of files for some sides."""
        held: list[list[pa.RecordBatch]] = [[] for _ in self._spec.sides]
        for batch in rows.to_batches():
            for side, some in by_side(batch, len(held)):
                held[side].append(some)
        feeds = [feed for side, batches in enumerate(held) for feed in self._of_side(side, batches)]
        if sum(feed.total for feed in feeds) > most:
            raise TooMuch(f"more than {most:,} rows came")
        return feeds

    def _of_side(self, side: int, batches: Sequence[pa.RecordBatch]) -> Iterator[Feed]:
        if not batches:
            return
        schema = self._spec.sides[side].schema
        if self._slots.files[side] is not None:
            pieces = [Piece(path) for batch in batches for path in self._slots.names(side, batch)]
            yield Feed(side, self._rows(side, pieces), self._slots.read(side, pieces, schema))
            return
        (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
        parts = min(max(self.process.threads // len(self._spec.sides), 1), 1 + whole.num_rows // TASK_ROWS)
        step = -(-whole.num_rows // parts)
        for start in range(0, whole.num_rows, step):
            part = whole.slice(start, step)
            yield Feed(side, part.num_rows, self._slots.unpack(side, part, schema))


class TooMuch(Elsewhere):
    """The driver found out too late that it cannot take a batch. `results`: so many were held; 0: it could not take
    the rows."""

    def __init__(self, why: str, results: int = 0) -> None:
        super().__init__(why)
        self.results = results


class Held:
    """Takes results and holds them, as long as they fit. Several threads may call it."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self._bytes = self._rows = 0
        self._lock = Lock()

    def __call__(self, rows: pa.RecordBatch) -> None:
        with self._lock:
            self._bytes += rows.nbytes
            if self._bytes > RESULT_BYTES:
                raise TooMuch(f"its results are more than {RESULT_BYTES:,} bytes", max(self._rows, 1))
            self._rows += rows.num_rows
            self.batches.append(rows)


def _collected(frame: DataFrame, most: Most) -> pa.Table:
    """The rows of the batch. Elsewhere if they are more than `most`, or than Spark lets the driver collect."""
    prepare_batch(frame.sparkSession)
    try:
        rows = (frame if most.by == "count" else frame.limit(most.rows + 1)).toArrow()
    except PySparkException as error:
        if TOO_BIG not in str(error):
            raise
        raise TooMuch("its rows are more than spark.driver.maxResultSize") from error
    if rows.num_rows > most.rows:
        raise TooMuch(f"more than {most.rows:,} rows came")
    if rows.nbytes > most.bytes:
        raise TooMuch(f"its rows are more than {most.bytes:,} bytes")
    return rows


def row_bytes(types: Sequence[DataType]) -> int:
    """What a row of these types may take in memory, as long as no batch has told: 8 bytes a number, 64 a text."""
    leaves = chain.from_iterable(map(_leaves, types))
    return sum(64 if isinstance(type_, (StringType, BinaryType)) else 8 for type_ in leaves)


def hindrance(types: Sequence[DataType]) -> str:
    """Why rows of these types cannot go to the driver and back as Arrow; empty if they can."""
    odd = [type_ for type_ in chain.from_iterable(map(_leaves, types)) if not _plain(type_)]
    return f"a column of {odd[0].simpleString()}, which only tasks exchange with Spark" if odd else ""


PLAIN = (BooleanType, NumericType, BinaryType, DateType, TimestampType, TimestampNTZType)


def _plain(type_: DataType) -> bool:
    if isinstance(type_, StringType):
        return type_ == StringType()  # neither a collation nor a length
    return isinstance(type_, PLAIN)


def _leaves(type_: DataType) -> Iterator[DataType]:
    if isinstance(type_, StructType):
        for field in type_.fields:
            yield from _leaves(field.dataType)
    elif isinstance(type_, ArrayType):
        yield from _leaves(type_.elementType)
    elif isinstance(type_, MapType):
        yield from _leaves(type_.keyType)
        yield from _leaves(type_.valueType)
    else:
        yield type_
