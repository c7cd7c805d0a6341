"""Parquet files as a side of a join, read by the dispatch tasks themselves.

    tracks = evenjoin.parquet(spark, "tracks/", maxFilesPerTrigger=4)
    joined = evenjoin.join({"o": orders, "t": tracks}, on="o.cell = t.cell")

Spark's own file source decides which files make up a batch and remembers that in its checkpoint. So exactly-once holds
as for any other source. But only the names of the files go through Spark: pyarrow reads the rows straight into the
arrays that dispatch works on. That spares the JVM from decoding each row and turning it into Arrow again.

A file is read by one task, so files of some ten megabytes are best. Columns that a file lacks are NULL, as in Spark.
Not here: a column that is the name of a folder (`day=1/`), which is refused if the join reads it; filters and
projections, which belong into the condition and `select` (only the columns that the join reads are read).
Spark's progress counts files in `numInputRows`, and none where the driver reads them (in_driver.py); rows are counted
in its section `evenjoin`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from evenjoin.errors import SpecError

PATH = "path"
BINARY_FILE = "path string, modificationTime timestamp, length bigint, content binary"
ROWS = 1 << 20
"""How many rows are read from a file at once."""


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

    def names(self) -> Any:
        """The names of new files as a streaming DataFrame with one column."""
        reader = self.spark.readStream.format("binaryFile").schema(BINARY_FILE).options(**self.options)
        return reader.load(self.path).select(PATH)

    def rows(self) -> Any:
        """The rows as a streaming DataFrame that Spark scans, for joins that have Spark compute columns of them."""
        return self.spark.readStream.schema(self.schema).options(**self.options).parquet(self.path)


def parquet(spark: Any, path: str, schema: Any = None, **options: Any) -> ParquetFiles:
    """A folder of parquet files as a side of a join.

    schema: a StructType or DDL text. Without it the schema is read from the files that are there now.
    Further options are those of Spark's file source (maxFilesPerTrigger, latestFirst, maxFileAge, cleanSource,
    recursiveFileLookup, ...).
    """
    if schema is None:
        schema = spark.read.parquet(path).schema
    elif isinstance(schema, str):
        schema = spark.createDataFrame([], schema).schema
    given = {"pathGlobFilter": "*.parquet", **{name: _text(value) for name, value in options.items()}}
    return ParquetFiles(spark, str(path), schema, given)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_rows(paths: Sequence[str], columns: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of some files: these columns, in their declared types; NULL where a file lacks a column."""
    wanted = pa.schema([schema.field(name) for name in columns])
    for path in paths:
        system, name = _located(path)
        _refuse_partitioned(path, columns)
        with system.open_input_file(name) as source:
            file = pq.ParquetFile(source)
            there = set(file.schema_arrow.names)
            held = [column for column in columns if column in there]
            for batch in file.iter_batches(ROWS, columns=held, use_threads=False):
                yield _shaped(batch, wanted, path)


def measured(path: str, columns: Sequence[str]) -> tuple[int, int]:
    """How many rows a file has, and how many bytes these columns of it take when they are not compressed."""
    system, name = _located(path)
    with system.open_input_file(name) as source:
        found = pq.read_metadata(source)
    groups = [found.row_group(number) for number in range(found.num_row_groups)]
    parts = (group.column(number) for group in groups for number in range(group.num_columns))
    named = {*columns}
    return found.num_rows, sum(
        part.total_uncompressed_size for part in parts if part.path_in_schema.partition(".")[0] in named
    )


def _located(path: str) -> tuple[fs.FileSystem, str]:
    """The file system and the name of a file on it. Spark writes local paths as file:/a/b."""
    if path.startswith("file:"):
        return fs.LocalFileSystem(), "/" + path.removeprefix("file:").lstrip("/")
    system, name = fs.FileSystem.from_uri(path)
    return system, name


def _refuse_partitioned(path: str, columns: Sequence[str]) -> None:
    for part in path.split("/")[:-1]:
        name, equals, _ = part.partition("=")
        if equals and name in columns:
            raise SpecError(
                f"{path}: column {name!r} is in the folder's name, which evenjoin.parquet does not read; "
                "use spark.readStream.parquet for partitioned folders"
            )


def _shaped(batch: pa.RecordBatch, wanted: pa.Schema, path: str) -> pa.RecordBatch:
    arrays = []
    for field in wanted:
        at = batch.schema.get_field_index(field.name)
        column = batch.column(at) if at >= 0 else pa.nulls(batch.num_rows, field.type)
        if column.type != field.type:
            column = _cast(column, field, path)
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _cast(column: pa.Array, field: pa.Field, path: str) -> pa.Array:
    times = pa.types.is_timestamp(column.type) and pa.types.is_timestamp(field.type)
    try:
        return column.cast(field.type, safe=not times)  # Spark cuts off nanoseconds as well
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SpecError(f"{path}: column {field.name!r} is {column.type}, not {field.type}: {error}") from error
