"""Where results go. A sink is a function of (results of one batch, batch id).

It is made in two steps. `make_sink` and `make_files` refuse a wrong format or option before the checkpoint is touched.
What they return makes the sink when the checkpoint is taken, because an output is bound to its checkpoint: a folder of
files by a marker (commit/outputs.py), a Delta table by the id of its transactions. That id is the uuid of the
checkpoint. A path or a query's name would outlive a deleted checkpoint, and Delta would skip the batches of the new one
as written already.

Guarantee: a sink is called before the batch is committed, and called again with the same id when a batch is replayed.
What that means depends on the format:

| format               | on replay                                            |
|----------------------|------------------------------------------------------|
| parquet json csv orc | written anew where nobody reads; shown by the commit   |
| memory               | the batch's rows are replaced                        |
| delta                | skipped by the transaction's app id and version      |
| foreachBatch         | the function is called again with the same id        |
| kafka console noop   | written again                                        |

Not guaranteed: exactly-once output for the last two rows, unless the function itself looks at the id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from evenjoin.commit.outputs import Output
from evenjoin.commit.staging import open_staging
from evenjoin.errors import SpecError
from evenjoin.runtime.driver import Driver
from evenjoin.runtime.spark.batch import Results, Sink
from evenjoin.runtime.spark.form import OURS, choose_form
from evenjoin.state.locations import NEEDED, lacks_host
from evenjoin.state.places import place_of

log = logging.getLogger("evenjoin")

FILES = ("parquet", "json", "csv", "orc")
REPLACED = (*FILES, "memory", "noop")
"""Formats that replace what they have of a batch when it is written again, or have not shown it yet."""
FORMATS = (*FILES, "memory", "console", "noop", "delta", "kafka")

OfCheckpoint = Callable[[Driver], Sink]
"""Makes the sink for the checkpoint that a driver has taken. CheckpointMismatchError if the output is another's."""


def make_sink(spark: SparkSession, format_: str, options: Mapping[str, str], name: str | None) -> OfCheckpoint:
    """The sink of a format other than files, with DataStreamWriter's options. SpecError if they do not make one."""
    if format_ == "noop":
        return lambda driver: Noop()
    if format_ == "console":
        rows, cut = int(options.get("numRows", "20")), options.get("truncate", "true").lower() == "true"
        return lambda driver: lambda frame, batch: _show(frame, batch, rows, cut)
    if format_ == "memory":
        if name is None:
            raise SpecError("format('memory') needs queryName(...): the name of the table to fill")
        memory = Memory(spark, name)
        return lambda driver: memory
    if format_ == "delta":
        return _delta(_needed(options, "path", format_))
    if format_ == "kafka":
        return lambda driver: lambda frame, batch: frame.write.format("kafka").options(**options).save()
    raise SpecError(f"unknown format {format_!r}; known: {', '.join(FORMATS)}, or foreachBatch(function)")


def _needed(options: Mapping[str, str], key: str, format_: str) -> str:
    if key not in options:
        raise SpecError(f"format({format_!r}) needs option({key!r}, ...) or start(path)")
    return options[key]


def make_files(
    spark: SparkSession, format_: str, options: Mapping[str, str], partition_by: tuple[str, ...], results: Results
) -> OfCheckpoint:
    """The sink of a format of files. Either the join tasks write them, and the sink only makes Spark run the tasks, or
    Spark's writer does; both to where the driver stages them, who shows them after the commit (commit/staging.py)."""
    path = located(spark, _needed(options, "path", format_))
    form, how = choose_form(spark, format_, options, partition_by, results)
    more = {key: value for key, value in options.items() if key.lower() not in OURS}
    asked = next((value for key, value in options.items() if key.lower() == "staginglocation"), None)

    def of_checkpoint(driver: Driver) -> Sink:
        output = Output(path, driver.identity.uuid, driver.folder)
        staging = open_staging(output, place_of(driver.folder), asked, form, how)
        staging.handed = "all" if results.finish is None or results.finish.filter is None else "filtered"
        driver.deliver_to(staging)
        log.info("%s", how)

        def write(frame: DataFrame, batch: int) -> None:
            if form is not None:
                frame.write.format("noop").mode("overwrite").save()
                return
            writer = frame.write.format(format_).mode("overwrite").options(**more)
            if partition_by:
                writer = writer.partitionBy(*partition_by)
            writer.save(staging.tasks.location)

        return write

    return of_checkpoint


def located(spark: SparkSession, path: str) -> str:
    """An output's path as a URI where that is needed, as Hadoop reads it: without a scheme it is on Spark's default
    file system, below the user's home folder there if it is relative, and `hdfs:/out` is on the default host. SpecError
    if Hadoop does not open that file system."""
    if "://" in path or path.startswith("file:"):
        return path
    try:
        settings = spark.sparkContext._jsc.hadoopConfiguration()
        default = str(settings.get("fs.defaultFS") or "")
    except Exception:  # Spark Connect has no such door: it is told a scheme, or means this machine
        return path
    if not lacks_host(path) and (not default or default.startswith("file:")):
        return path
    try:
        jvm: Any = spark.sparkContext._jvm
        named = jvm.org.apache.hadoop.fs.Path(path)
        whole = str(named.getFileSystem(settings).makeQualified(named).toString())
    except Exception as error:
        why = str(getattr(error, "java_exception", error)).splitlines()[0]
        raise SpecError(f"{path!r} is on a file system that Hadoop does not open ({why}): {NEEDED}") from error
    if lacks_host(whole):
        raise SpecError(f"{path!r} is {whole} to Hadoop: {NEEDED}")
    return whole


def _show(frame: DataFrame, batch: int, rows: int, cut: bool) -> None:
    print(f"-------------------------------------------\nBatch: {batch}\n-------------------------------------------")
    frame.show(rows, cut)


def _delta(path: str) -> OfCheckpoint:
    def of_checkpoint(driver: Driver) -> Sink:
        def write(frame: DataFrame, batch: int) -> None:
            writer = frame.write.format("delta").mode("append")
            writer.option("txnAppId", driver.identity.uuid).option("txnVersion", batch).save(path)

        return write

    return of_checkpoint


class Noop:
    """Has results made, and drops them."""

    drops = True

    def __call__(self, frame: DataFrame, batch: int) -> None:
        frame.write.format("noop").mode("overwrite").save()


class Memory:
    """Keeps all results in the driver process, as a temporary view with the query's name. For small results and
    tests."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark, self._name = spark, name
        self._batches: dict[int, pa.Table] = {}

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self._batches[batch] = frame.toArrow()
        table = pa.concat_tables([self._batches[b] for b in sorted(self._batches)])
        self._spark.createDataFrame(table, frame.schema).createOrReplaceTempView(self._name)
