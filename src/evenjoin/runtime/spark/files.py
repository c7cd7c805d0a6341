"""Parquet files as a side of a join, read by the dispatch tasks themselves.

    tracks = evenjoin.parquet(spark, "tracks/", maxFilesPerTrigger=4)
    joined = evenjoin.join({"o": orders, "t": tracks}, on="o.cell = t.cell")

Spark's own file source decides which files make up a batch and remembers that in its checkpoint. So exactly-once holds
as for any other source. But only the names of the files go through Spark: pyarrow reads the rows straight into the
arrays that dispatch works on. That spares the JVM from decoding each row and turning it into Arrow again.

Small files share a task and a large file is read by several, if it has several row groups (division.py); where another
side is no folder of parquet files, Spark deals the files out whole. Columns that a file lacks are NULL, as in Spark.
Columns that the schema names may be names of folders (`day=2024-05-01/`; folder_values.py).

Not here: filters and projections, which belong into the condition and `select` (only the columns that the join reads
are read). Folders whose columns are called path, modificationTime, length or content: Spark refuses to list them.
Spark's progress does not count these rows in `numInputRows`; they are counted in its section `evenjoin`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from evenjoin.errors import SpecError
from evenjoin.runtime.spark.division import Piece
from evenjoin.runtime.spark.folder_values import SCHEME, folder_values, typed
from evenjoin.state.locations import open_uri

PATH = "path"
BINARY_FILE = "path string, modificationTime timestamp, length bigint, content binary"
ROWS = 1 << 20
"""How many rows are read from a file at once."""
FOOTERS = 16
"""How many footers are read at once."""
DATA = "{[!_.]*,_*=*}"
"""The names of files that Spark reads, whatever they end with. It also lists summaries, such as `_metadata`."""
GLOB = frozenset("{}[]*?\\")
"""Characters that make a path a pattern."""


@dataclass(frozen=True)
class ParquetFiles:
    """A folder of parquet files as a stream. Made by `parquet`."""

    spark: Any
    path: str
    schema: Any  # a StructType
    options: Mapping[str, str]

    @property
    def sparkSession(self) -> Any:
        return self.spark

    @property
    def base(self) -> str | None:
        """The folder below which names of folders are columns, as in Spark; None: nowhere."""
        if self._option("recursiveFileLookup") == "true":
            return None
        base = self._option("basePath") if GLOB & {*self.path} else self.path
        return base if base is None or SCHEME.match(base) else os.path.abspath(base)

    def _option(self, name: str) -> str | None:
        return next((value for key, value in self.options.items() if key.lower() == name.lower()), None)

    def names(self) -> Any:
        """The names of new files as a streaming DataFrame with one column."""
        reader = self.spark.readStream.format("binaryFile").schema(BINARY_FILE).options(**self.options)
        return reader.load(self.path).select(PATH)

    def rows(self) -> Any:
        """The rows as a streaming DataFrame that Spark scans, for joins that have Spark compute columns of them."""
        return self.spark.readStream.schema(self.schema).options(**self.options).parquet(self.path)


def parquet(spark: Any, path: str, schema: Any = None, **options: Any) -> ParquetFiles:
    """A folder of parquet files as a side of a join.

    schema: a StructType or DDL text. Without it the schema is read from the files that are there now. Columns may be
    names of folders (`day=2024-05-01/`) below `path`, or below the option basePath if `path` is a pattern.
    Further options are those of Spark's file source (maxFilesPerTrigger, latestFirst, maxFileAge, cleanSource,
    recursiveFileLookup, ...).
    """
    if schema is None:
        schema = spark.read.parquet(path).schema
    elif isinstance(schema, str):
        schema = spark.createDataFrame([], schema).schema
    given = {name: _text(value) for name, value in options.items()}
    if not any(name.lower() == "pathglobfilter" for name in given):
        given["pathGlobFilter"] = DATA
    return ParquetFiles(spark, str(path), schema, given)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read of the files of a side: these columns, some of which may be names of folders below `base`."""

    columns: Sequence[str]
    base: str | None = None


def read_rows(pieces: Iterable[Piece], reading: Reading, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of some files: the columns asked for, in their declared types; NULL where a file lacks a column."""
    wanted = pa.schema([schema.field(name) for name in reading.columns])
    for piece in pieces:
        constant = _constants(piece.path, reading.base, wanted)
        system, name = located(piece.path)
        with system.open_input_file(name) as source:
            file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")  # nanoseconds would end in 2262
            held = _held(file.schema_arrow.names, [column for column in wanted.names if column not in constant])
            groups = range(file.num_row_groups)[piece.first : piece.end]
            for batch in file.iter_batches(ROWS, groups, [*held.values()], use_threads=False):
                yield _shaped(batch, wanted, held, constant, piece.path)


def _constants(path: str, base: str | None, wanted: pa.Schema) -> dict[str, pa.Scalar]:
    """The columns of a file whose value is the name of a folder."""
    if base is None or "=" not in path:
        return {}
    values = folder_values(path, base)
    held = _held([*values], wanted.names)
    return {name: typed(values[there], wanted.field(name), path) for name, there in held.items()}


def _held(there: Sequence[str], wanted: Sequence[str]) -> dict[str, str]:
    """The wanted columns that are there, and what they are called there: the same, or the same in another case."""
    by_lower = {name.lower(): name for name in there}
    exact = {*there}
    return {
        name: name if name in exact else by_lower[name.lower()]
        for name in wanted
        if name in exact or name.lower() in by_lower
    }


def measured(paths: Sequence[str], columns: Sequence[str]) -> list[tuple[int, int]]:
    """How many rows each file has, and how many bytes these columns of it take when they are not compressed."""
    return [_measured(found, columns) for found in _footers(paths)]


def _measured(found: pq.FileMetaData, columns: Sequence[str]) -> tuple[int, int]:
    groups = [found.row_group(number) for number in range(found.num_row_groups)]
    parts = (group.column(number) for group in groups for number in range(group.num_columns))
    named = {*columns}
    return found.num_rows, sum(
        part.total_uncompressed_size for part in parts if part.path_in_schema.partition(".")[0] in named
    )


def rows_of(piece: Piece) -> int:
    """How many rows a piece has."""
    found = _footer(piece.path)
    return sum(found.row_group(number).num_rows for number in range(found.num_row_groups)[piece.first : piece.end])


def row_groups(paths: Sequence[str]) -> list[list[int]]:
    """The bytes of the row groups of each file, compressed."""
    return [_group_sizes(found) for found in _footers(paths)]


def _group_sizes(found: pq.FileMetaData) -> list[int]:
    groups = (found.row_group(number) for number in range(found.num_row_groups))
    return [sum(group.column(n).total_compressed_size for n in range(group.num_columns)) for group in groups]


def _footers(paths: Sequence[str]) -> list[pq.FileMetaData]:
    """The footers of some files, read several at a time."""
    with ThreadPoolExecutor(FOOTERS) as pool:
        return list(pool.map(_footer, paths))


def _footer(path: str) -> pq.FileMetaData:
    system, name = located(path)
    with system.open_input_file(name) as source:
        return pq.read_metadata(source)


def file_sizes(paths: Iterable[str]) -> dict[str, int]:
    """The bytes of each file. FileNotFoundError if one is gone."""
    by_system: dict[str, list[str]] = {}
    for path in paths:
        by_system.setdefault(_prefix(path), []).append(path)
    sizes = {}
    for prefix, some in by_system.items():
        for path, info in zip(some, _system(prefix)[0].get_file_info([located(p)[1] for p in some]), strict=True):
            if info.type != fs.FileType.File:
                raise FileNotFoundError(path)
            sizes[path] = int(info.size)
    return sizes


def located(path: str) -> tuple[fs.FileSystem, str]:
    """The file system and the name of a file on it. Spark writes local paths as file:/a/b, and no path as a URI: a % in
    it is a %."""
    prefix = _prefix(path)
    system, root = _system(prefix)
    return system, root + "/" + path.removeprefix(prefix).lstrip("/")


def _prefix(path: str) -> str:
    found = SCHEME.match(path)
    return found[0] if found else ""


@cache
def _system(prefix: str) -> tuple[fs.FileSystem, str]:
    """A file system by its scheme and host, and what all names on it begin with: a bucket, or nothing."""
    if prefix in ("", "file:", "file://"):
        return fs.LocalFileSystem(), ""
    system, root = open_uri(prefix + "/")
    return system, root.rstrip("/")


def _shaped(
    batch: pa.RecordBatch, wanted: pa.Schema, held: Mapping[str, str], constant: Mapping[str, pa.Scalar], path: str
) -> pa.RecordBatch:
    arrays = []
    for field in wanted:
        if field.name in constant:
            column = pa.repeat(constant[field.name], batch.num_rows)
        elif field.name in held:
            column = batch.column(held[field.name])
        else:
            column = pa.nulls(batch.num_rows, field.type)
        arrays.append(column if column.type == field.type else _cast(column, field, path))
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _cast(column: pa.Array, field: pa.Field, path: str) -> pa.Array:
    times = pa.types.is_timestamp(column.type) and pa.types.is_timestamp(field.type)
    try:
        return column.cast(field.type, safe=not times)  # Spark cuts off nanoseconds as well
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SpecError(f"{path}: column {field.name!r} is {column.type}, not {field.type}: {error}") from error
