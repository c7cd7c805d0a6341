"""Streams of parquet files for the tests on Spark: one file per batch and side, read one a trigger, in order; and what
may happen to them on their way: rows in another order, or other rows, at each reading, and a sink that reads twice.

`TRIPLES` are three streams `r`, `s` and `t` of the same columns. Row n of a side has a time of n // 10 or a little
later, so with a watermark delay of `DISORDER` no row is late.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def write_batches(folder: Path, batches: Sequence[pa.Table], first: int = 0) -> None:
    """One file a batch, with ascending modification times. A query may be reading the folder already: a file has its
    time and all its rows before its name is one that Spark looks at. If Spark saw it with today's time first, it would
    pass over all later ones of 2001 as too old (`maxFileAge`)."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(batches, start=first):
        hidden = folder / f".{number:05d}.parquet"
        pq.write_table(table, hidden)
        os.utime(hidden, (1_000_000_000 + number, 1_000_000_000 + number))
        os.replace(hidden, folder / hidden.name[1:])


def read_stream(spark, folder: Path, schema: pa.Schema, limit: int = 1):
    """The folder as a stream of one file a trigger, or of `limit`."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return (
        spark.readStream.schema(from_arrow_schema(schema, prefer_timestamp_ntz=True))
        .option("maxFilesPerTrigger", limit)
        .parquet(str(folder))
    )


class Collected:
    """A foreachBatch sink that keeps each batch's rows in the driver, replacing them on replay."""

    def __init__(self) -> None:
        self.batches: dict[int, pa.Table] = {}

    def __call__(self, frame, batch: int) -> None:
        self.batches[batch] = frame.toArrow()


class Twice(Collected):
    """Counts the results, and then takes them."""

    def __call__(self, frame, batch: int) -> None:
        count = frame.count()
        super().__call__(frame, batch)
        assert self.batches[batch].num_rows == count


def permuted(frame):
    """The same rows in another order at each reading."""

    def permute(batches):
        rng = np.random.default_rng(int.from_bytes(os.urandom(8), "little"))
        for batch in batches:
            yield batch.take(pa.array(rng.permutation(batch.num_rows)))

    return frame.mapInArrow(permute, frame.schema)


def unsteady(frame):
    """Other values of the column `v` at each reading."""

    def redraw(batches):
        rng = np.random.default_rng(int.from_bytes(os.urandom(8), "little"))
        for batch in batches:
            where = batch.schema.get_field_index("v")
            yield batch.set_column(where, "v", pa.array(rng.integers(0, 1000, batch.num_rows)))

    return frame.mapInArrow(redraw, frame.schema)


TRIPLE = pa.schema([("id", pa.int64()), ("i", pa.int64()), ("n", pa.int64()), ("name", pa.string()), ("v", pa.int64()),
                    ("ts", pa.int64())])  # fmt: skip
TRIPLES = dict.fromkeys("rst", TRIPLE)
DISORDER = 3


def triples(folder: Path, batches: int = 3, rows: int = 30, seed: int = 1) -> dict[str, pa.Table]:
    """Three streams with few values, a hot one, NULLs and many equal rows (but for `id`); returns the whole input. In
    one batch a side has no rows."""
    rng = np.random.default_rng(seed)
    whole = {}
    for number, alias in enumerate(TRIPLES):
        tables = []
        for batch in range(batches):
            count = 0 if batch == number % batches and batch else rows
            tables.append(_triple(rng, batch * rows, count))
        write_batches(folder / alias, tables)
        whole[alias] = pa.concat_tables(tables)
    return whole


def _triple(rng: np.random.Generator, first: int, count: int) -> pa.Table:
    numbers = np.arange(first, first + count)
    values = np.where(rng.random((2, count)) < 0.15, 4, rng.integers(0, 14, (2, count)))
    missing = rng.random((2, count)) < 0.04
    names = [("a name that is longer than eight bytes", "b", "", None)[n] for n in rng.zipf(1.7, count) % 4]
    columns = [numbers, *(pa.array(v, pa.int64(), mask=m) for v, m in zip(values, missing, strict=True)), names,
               rng.integers(0, 5, count), numbers // 10 + rng.integers(0, DISORDER, count)]  # fmt: skip
    return pa.table([pa.array(column) for column in columns], schema=TRIPLE)


def triple_streams(spark, folder: Path, upstream=lambda frame: frame, limit: int = 1):
    """The three streams, each after `upstream`."""
    return {alias: upstream(read_stream(spark, folder / alias, TRIPLE, limit)) for alias in TRIPLES}
