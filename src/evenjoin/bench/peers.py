"""The systems EvenJoin is measured against, on the same parquet files: Spark's own stream-stream join, and DuckDB.

Spark runs with each of its two state store providers as they come (``spark-hdfs``, ``spark-rocksdb``); the better one
counts. It gets shuffle partitions equal to the parallelism asked for (the default of 200 is hopeless on a few cores),
no empty micro-batches, and the ``noop`` sink, for which every row with every selected column is made; the sink's own
count of rows is taken, which costs nothing. ``spark-tuned`` runs besides, for those who tune: RocksDB with changelog
checkpointing, without the count of its rows (one read less per write), with a block cache that holds the state, and
with the newer join format of one store per task.

Spark refuses a stream-stream join without an equality. What its users write instead of a band is ``spark-bucketed``:
one side's buckets of BUCKET values, the other's rows once for each bucket that their band touches, joined on the bucket
and filtered by the condition, on the HDFS-backed store.

DuckDB reads all files at once and joins them as a batch: the oracle for the number of results, and the physical limit.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from evenjoin.bench.cpu import Clock, Usage
from evenjoin.bench.jobs import Job, Outcome
from evenjoin.bench.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROCKSDB = "spark.sql.streaming.stateStore.rocksdb."
_PROVIDERS = "org.apache.spark.sql.execution.streaming.state."
PROVIDERS = {
    "spark-rocksdb": {"spark.sql.streaming.stateStore.providerClass": _PROVIDERS + "RocksDBStateStoreProvider"},
    "spark-tuned": {
        "spark.sql.streaming.stateStore.providerClass": _PROVIDERS + "RocksDBStateStoreProvider",
        "spark.sql.streaming.join.stateFormatVersion": "3",
        _ROCKSDB + "changelogCheckpointing.enabled": "true",
        _ROCKSDB + "trackTotalNumberOfRows": "false",
        _ROCKSDB + "blockCacheSizeMB": "512",
    },
    "spark-hdfs": {"spark.sql.streaming.stateStore.providerClass": _PROVIDERS + "HDFSBackedStateStoreProvider"},
}
PROVIDERS["spark-bucketed"] = PROVIDERS["spark-hdfs"]
BUCKET = 10
"""Values of a bucket: of 4, 10, 20 and 50 the best for a band of 2 (fewer copies against fewer pairs to look at)."""


class Query(Protocol):
    """What is read from a finished query: Spark's own, or EvenJoin's handle of one."""

    @property
    def recentProgress(self) -> Sequence[Any]: ...


def run_spark(job: Job) -> Outcome:
    """Spark's own stream-stream join over the job's files, until they are all read."""
    from pyspark.sql import functions as F

    partitions = {"spark.sql.shuffle.partitions": str(job.instances)}
    spark = open_session(job.cores, {**partitions, **PROVIDERS[job.system], **job.settings})
    left, right = (_timed(stream(spark, folder), job) for folder in job.folders.values())
    condition = job.condition
    if job.band is not None:
        left, right = bucketed(left, right, *job.band)
        condition += f" AND {'._bucket = '.join(job.folders)}._bucket"
    one, two = (frame.alias(alias) for frame, alias in zip((left, right), job.folders, strict=True))
    joined = one.join(two, F.expr(condition)).selectExpr(*job.select)
    clock = Clock()
    query = (
        joined.writeStream.format("noop")
        .option("checkpointLocation", job.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    used = clock.read()
    seen = [json.loads(p.json) for p in query.recentProgress]
    results = sum(max(int(p["sink"]["numOutputRows"]), 0) for p in seen)
    return outcome_of(job, query, sum(p["numInputRows"] for p in seen), results, used)


def bucketed(left: DataFrame, right: DataFrame, column: str, size: int) -> tuple[DataFrame, DataFrame]:
    """Both sides with the bucket of their rows; the right's rows once for each bucket that their band touches."""
    low, high = (f"floor(({column} {sign} {size}) / {BUCKET})" for sign in "-+")
    one = left.selectExpr("*", f"floor({column} / {BUCKET}) AS _bucket")
    return one, right.selectExpr("*", f"explode(sequence({low}, {high})) AS _bucket")


def _timed(frame: DataFrame, job: Job) -> DataFrame:
    return frame.withWatermark(job.event_time, job.watermark) if job.event_time else frame


def run_duckdb(job: Job) -> Outcome:
    """The same join as one batch query; counts the rows, does not build them."""
    import duckdb

    left, right = job.folders
    tables = {alias: f"read_parquet('{Path(folder) / '*.parquet'}')" for alias, folder in job.folders.items()}
    clock = Clock()
    with duckdb.connect() as connection:
        connection.execute(f"SET threads = {job.cores}")
        results = connection.execute(count_query(job, tables[left], tables[right])).fetchone()
        used = clock.read()
        counts = [connection.execute(f"SELECT count(*) FROM {table}").fetchone() for table in tables.values()]
    return Outcome("duckdb", sum(n[0] for n in counts if n), results[0] if results else 0, used)


def count_query(job: Job, left: str, right: str) -> str:
    """SQL that counts the pairs of two tables. Rows that match are at most a band's size or the reach in event time
    apart, so they lie in the same slice of it or in neighbours: with the slice as a key, a hot key's rows meet those
    near them, not those of the whole run."""
    one, two = job.folders
    if job.band is None and not job.reach_us:
        return f"SELECT count(*) FROM {left} {one} JOIN {right} {two} ON {job.condition}"
    column, size = job.band or (f"epoch_us({job.event_time})", job.reach_us)
    slice_of = f"{column} // {size}"
    return (
        f"SELECT count(*) FROM (SELECT *, {slice_of} AS _slice FROM {left}) {one} "
        f"JOIN (SELECT *, {slice_of} + unnest([-1, 0, 1]) AS _slice FROM {right}) {two} "
        f"ON {one}._slice = {two}._slice AND {job.condition}"
    )


def stream(spark: SparkSession, folder: str) -> DataFrame:
    """A folder of parquet files as a stream, one file per micro-batch."""
    schema = spark.read.parquet(folder).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)


def outcome_of(job: Job, query: Query, rows: int, results: int, used: Usage) -> Outcome:
    """The outcome of a finished streaming query, with Spark's own measurement of each batch's time."""
    return Outcome(
        job.system,
        rows=rows,
        results=results,
        used=used,
        batch_ms=batch_ms(query),
    )


def batch_ms(query: Query) -> tuple[float, ...]:
    """How long every micro-batch that read something took, from Spark's progress. (EvenJoin's parquet source hands
    Spark file names: its input rows are files.)"""
    told = (json.loads(progress.json) for progress in query.recentProgress)
    return tuple(float(batch["durationMs"]["triggerExecution"]) for batch in told if batch["numInputRows"])
