"""The results writer: results of one instance, chunk by chunk, become parquet files in a staging folder.

    staged = Staged(place, Form(schema, footer, compression="zstd"))       the driver makes the folder, and this value
    writer = staged.open("part-3-s0t1-9f2c", step)                         a task opens it, once for each execution
    writer.write(chunk)                                                    for each record batch of results
    files = writer.close()                                                 for the receipt: (name, rows, bytes)

It needs neither Spark nor a checkpoint, so executors, the driver and the embedded engine use it alike. A `Staged` is in
`Work.results`; there `join_batch` opens the writer itself, writes what it would yield, and names the files in its
receipt after they are closed.

Guarantees:

* Nothing here is seen by a reader of the output. Files are named after one execution of an instance and lie in one
  folder that only the driver makes and deletes: an execution that comes too late finds no folder and fails.
* A file holds what Spark's own writer would have stored (runtime/spark/form.py says for which types): `Form.schema` is
  the parquet schema, timestamps are in microseconds, and `Form.footer` has Spark's keys.
* Small chunks wait until there is a row group of ROWS rows or BYTES bytes. Memory holds about that much, however many
  results there are.
* With `partition_by` a file's name begins with its folder as Spark would name it (`k=a%2Fb/part-...`), and the columns
  are not in the file. In the staging folder the file lies under the last part of its name. Rows wait by folder: above
  BYTES those of the largest folders are written, until half of it is left. So there is one file for each folder as long
  as all results of the execution, or those of all folders but OPEN_FILES, fit into BYTES.

A column has a dictionary if a sample of the first row group has few distinct values, because a dictionary of many
values costs twice the time of none and saves nothing. Other whole numbers, times and decimals of up to 18 digits are
stored as differences (DELTA_BINARY_PACKED, which Spark reads since 3.3): W1's results take half the bytes and half the
time of plain ones under snappy, and a quarter of the time to read.
Not here: which of several executions counts (commit/staging.py), and where files are fit to be shown.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evenjoin.errors import SpecError
from evenjoin.instance.folders import by_folder, can_be_folders
from evenjoin.load.receipt import ResultFile
from evenjoin.state.places import Place

ROWS, BYTES = 1 << 20, 64 << 20
"""A row group is written when so many rows or bytes wait."""
FOLDED_ROWS = 4 * ROWS
"""With partition_by, rows that are sorted by folder at once, however few bytes they take."""
FILE_BYTES = 1 << 30
"""A file that has become as large as this is closed, and another one begun."""
OPEN_FILES = 64
"""Files that a writer has open at once; only with partition_by are there several. For another one that file is closed
to which nothing was added for the longest time."""
DIFFERENCES = "DELTA_BINARY_PACKED"
SAMPLE, FEW = 4096, 1 / 4
"""Rows of a sample, and the part of them that may be distinct where a dictionary is used."""


_Part = tuple[str, pa.Table]
"""A folder, and rows of it."""


@dataclass(frozen=True, slots=True)
class Form:
    """What the files of an output look like.

    schema          the types of the results as they are stored, all columns
    footer          keys and values for the file's own metadata
    compression     a codec of pyarrow's, or "none"
    partition_by    columns whose values are folders
    rows_per_file   a file has at most so many rows; 0: as many as come
    """

    schema: pa.Schema
    footer: Mapping[str, str] = field(default_factory=dict)
    compression: str = "snappy"
    partition_by: tuple[str, ...] = ()
    rows_per_file: int = 0

    @property
    def stored(self) -> pa.Schema:
        """The schema of the files."""
        return pa.schema([column for column in self.schema if column.name not in self.partition_by])


def stored_form(schema: pa.Schema, partition_by: Sequence[str] = (), **more: Any) -> Form:
    """The form of results of a schema. SpecError if its columns cannot be told apart in files, or cannot be folders."""
    folded = [name.lower() for name in schema.names]
    for name in schema.names:
        if name.lower() == "batch_id":
            raise SpecError(f"result column {name!r} is called as the batches' folders are: rename it in `select`")
        if folded.count(name.lower()) > 1:
            raise SpecError(f"several result columns are called {name!r}, upper and lower case apart: rename one")
    for name in partition_by:
        if name not in schema.names:
            raise SpecError(f"partition by {name!r}: there is no such column among {', '.join(schema.names)}")
        if not can_be_folders(schema.field(name).type):
            raise SpecError(f"partition by {name!r}: values of type {schema.field(name).type} cannot be folders")
    if len(set(partition_by)) == len(schema.names):
        raise SpecError("partition by all columns: nothing would be left for the files")
    stored = pa.schema([column.with_type(_stored(column.type)).remove_metadata() for column in schema])
    for column in stored:
        try:
            pq.ParquetWriter(io.BytesIO(), pa.schema([column])).close()
        except pa.ArrowException as error:
            raise SpecError(f"result column {column.name!r} cannot be stored as parquet: {error}") from None
    return Form(stored, partition_by=tuple(partition_by), **more)


def _stored(type_: pa.DataType) -> pa.DataType:
    """The type of a column in the files: times in microseconds, as Spark stores them. Nanoseconds of a time of day are
    cut off, as Spark does; a timestamp with nanoseconds keeps them."""
    if pa.types.is_time64(type_):
        return pa.time64("us")
    if pa.types.is_timestamp(type_) and type_.unit in ("s", "ms"):
        return pa.timestamp("us", type_.tz)
    return type_


@dataclass(frozen=True, slots=True)
class Staged:
    """Where the tasks of one try write, and in which form."""

    place: Place
    form: Form

    def open(self, name: str, step: Callable[[str], None] | None = None) -> ResultsWriter:
        """A writer whose files' names begin with `name`, which no other execution has. `step` is called with "writing"
        after each row group and with "written" at the end; tests make it crash."""
        return ResultsWriter(self, name, step)


class ResultsWriter:
    """Writes the results of one execution of an instance."""

    def __init__(self, staged: Staged, name: str, step: Callable[[str], None] | None) -> None:
        self._place, self._form, self._stored = staged.place, staged.form, staged.form.stored
        self._name, self._step = name, step or _no_step
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._open: dict[str, _File] = {}
        self._done: list[ResultFile] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Take in some results."""
        if rows.num_rows == 0:
            return
        self._waiting.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows >= (FOLDED_ROWS if self._form.partition_by else ROWS) or self._bytes >= BYTES:
            self._write_out("large")

    def close(self) -> tuple[ResultFile, ...]:
        """Write what waits and close all files. Returns what goes into the receipt; nothing, if there was no result."""
        if self._waiting:
            self._write_out("all")
        for folder in [*self._open]:
            self._finish(folder)
        self._step("written")
        return tuple(self._done)

    def _write_out(self, which: Literal["large", "all"]) -> None:
        """Write what waits. With folders and more to come, the smaller half waits on."""
        table = pa.Table.from_batches(self._waiting)
        self._waiting, self._rows, self._bytes = [], 0, 0
        if not self._form.partition_by:
            self._append("", table)
            return
        parts = list(by_folder(table, self._form.partition_by))
        written, left = (parts, []) if which == "all" else _larger_half(parts)
        for folder, part in sorted(written, key=lambda one: one[0] not in self._open):  # else these might be closed
            self._append(folder, part)
        for batch in pa.concat_tables([part for _, part in left]).combine_chunks().to_batches() if left else ():
            self._waiting.append(batch)
            self._rows += batch.num_rows
            self._bytes += batch.nbytes

    def _append(self, folder: str, table: pa.Table) -> None:
        """Add a row group to a folder's file, and begin other files where it is full."""
        table = _as_stored(table, self._stored)
        limit = self._form.rows_per_file
        while table.num_rows:
            if folder not in self._open:
                self._begin(folder, table)
            self._open[folder] = file = self._open.pop(folder)  # the last one to be closed
            part = table.slice(0, limit - file.rows) if limit else table
            file.write(part)
            table = table.slice(part.num_rows)
            self._step("writing")
            if (limit and file.rows >= limit) or file.size() >= FILE_BYTES:
                self._finish(folder)

    def _begin(self, folder: str, sample: pa.Table) -> None:
        if len(self._open) >= OPEN_FILES:
            self._finish(next(iter(self._open)))
        name = f"{self._name}-{len(self._done) + len(self._open)}.parquet"
        self._open[folder] = _File(self._place, name, self._form, self._stored, sample)

    def _finish(self, folder: str) -> None:
        file = self._open.pop(folder)
        size = file.close()
        self._done.append((f"{folder}/{file.name}" if folder else file.name, file.rows, size))


def _as_stored(table: pa.Table, stored: pa.Schema) -> pa.Table:
    """The columns that are stored, in their types there (see `_stored`)."""
    given = [table.column(name) for name in stored.names]
    cut = [pa.types.is_time64(field.type) for field in stored]
    columns = [one.cast(field.type, safe=not c) for one, field, c in zip(given, stored, cut, strict=True)]
    return pa.table(columns, schema=stored)


class _File:
    """One parquet file that is being written."""

    def __init__(self, place: Place, name: str, form: Form, schema: pa.Schema, sample: pa.Table) -> None:
        self.name, self.rows = name, 0
        self._stream = place.stream(name)
        dictionaries, differences = encodings(sample)
        self._writer = pq.ParquetWriter(
            self._stream, schema, compression=form.compression, use_dictionary=dictionaries or False,
            column_encoding=dict.fromkeys(differences, DIFFERENCES) or None,
            store_schema=False, store_decimal_as_integer=True,
        )  # fmt: skip
        self._writer.add_key_value_metadata(dict(form.footer))

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=table.num_rows)
        self.rows += table.num_rows

    def size(self) -> int:
        return int(self._stream.tell())

    def close(self) -> int:
        """Finish the file. Returns its size."""
        self._writer.close()
        size = self.size()
        self._stream.close()
        return size


def empty_file(place: Place, name: str, form: Form) -> ResultFile:
    """Write a file without rows: it tells readers the schema."""
    file = _File(place, name, form, form.stored, form.stored.empty_table())
    return name, 0, file.close()


def _larger_half(parts: Sequence[_Part]) -> tuple[list[_Part], list[_Part]]:
    """The largest folders, which together have at least half of the bytes, and the others."""
    ordered = sorted(parts, key=lambda one: -one[1].nbytes)
    sizes = np.cumsum([part.nbytes for _, part in ordered])
    count = int(np.searchsorted(sizes, sizes[-1] / 2)) + 1
    return ordered[:count], ordered[count:]


def _no_step(name: str) -> None:
    """Does nothing."""


def encodings(table: pa.Table) -> tuple[list[str], list[str]]:
    """The columns that have a dictionary, because a sample has few distinct values, and those that are stored as
    differences, by their paths in the parquet schema. All others are plain."""
    stride = max(table.num_rows // SAMPLE, 1)
    sample = table.take(pa.array(np.arange(0, table.num_rows, stride)))
    dictionaries, differences = [], []
    for name in sample.column_names:
        for path, values in _leaves(name, sample.column(name).combine_chunks()):
            if _few(values):
                dictionaries.append(path)
            elif _whole(values.type):
                differences.append(path)
    return dictionaries, differences


def _leaves(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """The columns of plain values within a column, by their paths in the parquet schema."""
    type_ = values.type
    if pa.types.is_struct(type_):
        for number in range(type_.num_fields):
            yield from _leaves(f"{path}.{type_.field(number).name}", values.field(number))
    elif pa.types.is_map(type_):
        yield from _leaves(f"{path}.key_value.key", values.keys)
        yield from _leaves(f"{path}.key_value.value", values.items)
    elif pa.types.is_list(type_) or pa.types.is_large_list(type_):
        yield from _leaves(f"{path}.list.element", values.flatten())
    else:
        yield path, values


def _few(values: pa.Array) -> bool:
    if pa.types.is_boolean(values.type):
        return False  # it takes one bit as it is
    try:
        return bool(pc.count_distinct(values, mode="all").as_py() <= max(len(values), 1) * FEW)
    except pa.ArrowNotImplementedError:  # durations, and rare types
        return False


def _whole(type_: pa.DataType) -> bool:
    """Whether parquet stores values of a type as whole numbers of 32 or 64 bits."""
    if pa.types.is_decimal(type_):
        return bool(type_.precision <= 18)
    temporal = pa.types.is_temporal(type_) and not pa.types.is_interval(type_)
    return bool(temporal or pa.types.is_integer(type_))
