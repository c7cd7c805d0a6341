"""The systems EvenJoin is measured against, on the same parquet files: Spark's own stream-stream join, and DuckDB.

Spark runs with each of its two state store providers as they come (``spark-hdfs``, ``spark-rocksdb``); the better one
counts. It gets shuffle partitions equal to the parallelism asked for (the default of 200 is hopeless on a few cores),
no empty micro-batches, and the ``noop`` sink, for which every row with every selected column is made; the sink's own
count of rows is taken, which costs nothing. (With ``output`` both systems write parquet files instead, and these are
counted.) ``spark-tuned`` runs besides, for those who tune: RocksDB with changelog checkpointing, without the count of
its rows (one read less per write), with a block cache that holds the state, and with the newer join format of one store
per task.

Three sides are two joins for Spark, one after the other in the same query: ``steps`` are their conditions. All inputs
have a watermark and both steps bound the times, so Spark can drop old state, pairs too.

Spark refuses a stream-stream join without an equality. What its users write instead of a band is ``spark-bucketed``:
one side's buckets of BUCKETS times the band, the other's rows once for each bucket that their band touches, joined on
the bucket and filtered by the condition, on the HDFS-backed store. A side that is near to several columns of the sides
before it (the last one of a cyclic join) gets a bucket for each, which sorts out most pairs before they are looked at.
The other way, ``foreachBatch`` with batch joins against the window's parquet files, is not taken: Spark's batch join of
a band is a nested loop, so it needs the same buckets, and besides them its own code for state, late rows and replays.

DuckDB reads all files at once and joins them as a batch: the oracle for the number of results, and the physical limit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from evenjoin.bench.cpu import Clock, Usage
from evenjoin.bench.jobs import Job, Near, Outcome
from evenjoin.bench.session import open_session
from evenjoin.errors import SpecError

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
BUCKETS = 5
"""Width of a bucket over the band's size: for a band of 2 the widths 4, 10, 20 and 50 were tried, and 10 was the best
(fewer copies against fewer pairs to look at)."""


class Query(Protocol):
    """What is read from a finished query: Spark's own, or EvenJoin's handle of one."""

    @property
    def recentProgress(self) -> Sequence[Any]: ...


def run_spark(job: Job) -> Outcome:
    """Spark's own stream-stream join over the job's files, until they are all read."""
    partitions = {"spark.sql.shuffle.partitions": str(job.instances)}
    spark = open_session(job.cores, {**partitions, **PROVIDERS[job.system], **job.settings})
    sides = {alias: _timed(stream(spark, folder), job) for alias, folder in job.folders.items()}
    joined = chained(sides, job)
    clock = Clock()
    query = sunk(joined.writeStream, job).trigger(availableNow=True).start()
    query.awaitTermination()
    used = clock.read()
    seen = [json.loads(p.json) for p in query.recentProgress]
    told = sum(max(int(p["sink"]["numOutputRows"]), 0) for p in seen)
    return outcome_of(job, query, sum(p["numInputRows"] for p in seen), told, used)


def steps_of(job: Job) -> tuple[str, ...]:
    """The condition of each two-way join."""
    if not job.steps and len(job.folders) > 2:
        raise SpecError(f"{len(job.folders)} sides are several two-way joins: give the condition of each as a step")
    return job.steps or (job.condition,)


def chained(sides: Mapping[str, DataFrame], job: Job) -> DataFrame:
    """The job's columns of one two-way join after the other, in the order of the sides. The rewrite joins on buckets of
    what is near. Spark refuses pairs with two event times, so only the side that was joined last keeps its own."""
    from pyspark.sql import functions as F

    near = job.near if job.system == "spark-bucketed" else ()
    (first, joined), *others = sides.items()
    joined, aliases = joined.alias(first), list(sides)
    texts = [*steps_of(job), *job.select]
    for number, (alias, frame) in enumerate(others):
        step = texts[number]
        for bucket, (theirs, mine, size) in enumerate(n for n in near if n[1].startswith(f"{alias}.")):
            frame = bucketed(frame, mine.partition(".")[2], size, f"_bucket{bucket}")
            step += f" AND floor({theirs} / {bucket_width(size)}) = {alias}._bucket{bucket}"
        joined = joined.join(frame.alias(alias), F.expr(step))
        if job.event_time and number + 1 < len(others):
            time, plain = f"{aliases[number]}.{job.event_time}", f"_{aliases[number]}_time"
            joined = joined.withColumn(plain, F.expr(f"timestamp_micros(unix_micros({time}))"))
            texts = [re.sub(rf"\b{re.escape(time)}\b", plain, text) for text in texts]
    return joined.selectExpr(*texts[len(others) :])


def bucketed(frame: DataFrame, column: str, size: int, name: str) -> DataFrame:
    """A side's rows, once for each bucket that the band around their value touches."""
    low, high = (f"floor((`{column}` {sign} {size}) / {bucket_width(size)})" for sign in "-+")
    return frame.selectExpr("*", f"explode(sequence({low}, {high})) AS {name}")


def bucket_width(size: int) -> int:
    return BUCKETS * max(size, 1)


def sunk(writer: Any, job: Job) -> Any:
    """A stream's writer (Spark's or ours) to the job's folder of parquet files, or to nowhere."""
    writer = writer.option("checkpointLocation", job.checkpoint)
    return writer.format("noop") if job.output is None else writer.format("parquet").option("path", job.output)


def written(folder: str) -> tuple[int, str]:
    """The rows of all parquet files below a folder: how many, and a digest that does not depend on their order."""
    import duckdb

    files = [str(path) for path in Path(folder).rglob("*.parquet")]
    if not files:
        return 0, ""
    with duckdb.connect() as connection:
        described = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [files]).fetchall()
        columns = {name: type_ for name, type_, *_ in described if name != "batch_id"}
        # a point in time has a zone in some files and none in others (Spark's INT96)
        values = ", ".join(
            f'epoch_us("{name}")' if columns[name].startswith("TIMESTAMP") else f'"{name}"::VARCHAR'
            for name in sorted(columns)
        )
        asked = f"SELECT count(*), sum(hash({values})::HUGEINT) FROM read_parquet(?)"
        found = connection.execute(asked, [files]).fetchone()
    assert found is not None
    return found[0], str(found[1])


def _timed(frame: DataFrame, job: Job) -> DataFrame:
    return frame.withWatermark(job.event_time, job.watermark) if job.event_time else frame


def run_duckdb(job: Job) -> Outcome:
    """The same join as one batch query. It counts the rows; where the job has a folder for them, it writes them."""
    import duckdb

    tables = parquet_tables(job.folders)
    joined = joined_tables(job, tables)
    clock = Clock()
    with duckdb.connect() as connection:
        connection.execute(f"SET threads = {job.cores}; SET TimeZone = 'UTC'")
        if job.output is None:
            found = connection.execute(f"SELECT count(*) FROM {joined}").fetchone()
            used, results, digest = clock.read(), found[0] if found else 0, ""
        else:
            Path(job.output).mkdir(parents=True)
            rows = f"SELECT {', '.join(job.select)} FROM {joined}"
            connection.execute(f"COPY ({rows}) TO '{Path(job.output) / 'all.parquet'}' (FORMAT parquet)")
            used, (results, digest) = clock.read(), written(job.output)
        counts = [connection.execute(f"SELECT count(*) FROM {table}").fetchone() for table in tables.values()]
    return Outcome("duckdb", sum(n[0] for n in counts if n), results, used, digest=digest)


def parquet_tables(folders: Mapping[str, str]) -> dict[str, str]:
    """The files of each side as a table that DuckDB can read."""
    return {alias: f"read_parquet('{Path(folder) / '*.parquet'}')" for alias, folder in folders.items()}


def joined_tables(job: Job, tables: Mapping[str, str]) -> str:
    """What stands after FROM in DuckDB's SQL for the join. Rows that match are at most a band's size or the reach in
    event time apart, so they lie in the same slice of it or in neighbours: with the slice as a key, a hot key's rows
    meet those near them, not those of the whole run."""
    (first, table), *others = tables.items()
    text, last = f"{table} {first}", others[-1][0]
    for alias, table in others:
        on, sliced = [job.condition] if alias == last else [], _slices(job, first, alias)
        if sliced is not None:
            theirs, mine, size = sliced
            table = f"(SELECT *, {mine} // {size} + unnest([-1, 0, 1]) AS _slice FROM {table} {alias})"
            on = [f"{theirs} // {size} = {alias}._slice", *on]
        text += f" JOIN {table} {alias} ON {' AND '.join(on) or 'TRUE'}"
    return text


def _slices(job: Job, first: str, alias: str) -> Near | None:
    """By what a side can be sliced against the sides before it; event times against the first side's."""
    for theirs, mine, size in job.near:
        if mine.startswith(f"{alias}."):
            return theirs, mine, max(size, 1)
    if not job.reach_us:
        return None
    return f"epoch_us({first}.{job.event_time})", f"epoch_us({alias}.{job.event_time})", job.reach_us


def stream(spark: SparkSession, folder: str) -> DataFrame:
    """A folder of parquet files as a stream, one file per micro-batch."""
    schema = spark.read.parquet(folder).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)


def outcome_of(job: Job, query: Query, rows: int, results: int, used: Usage) -> Outcome:
    """The outcome of a finished streaming query, with Spark's own measurement of each batch's time. Results that were
    written are counted in the files."""
    digest = ""
    if job.output is not None:
        results, digest = written(job.output)
    return Outcome(job.system, rows, results, used, batch_ms(query), digest)


def batch_ms(query: Query) -> tuple[float, ...]:
    """How long every micro-batch took, from Spark's progress. A trigger that found nothing to read has no batch. (The
    input rows do not tell: of files that EvenJoin reads itself Spark counts none.)"""
    told = (json.loads(progress.json) for progress in query.recentProgress)
    return tuple(float(batch["durationMs"]["triggerExecution"]) for batch in told if "addBatch" in batch["durationMs"])
