"""Streams of parquet files for the tests on Spark: one file per batch and side, read one a trigger, in order."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def write_batches(folder: Path, batches: Sequence[pa.Table], first: int = 0) -> None:
    """One file a batch, with ascending modification times."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(batches, start=first):
        path = folder / f"{number:05d}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))


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
