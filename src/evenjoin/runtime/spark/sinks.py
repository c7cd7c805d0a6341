"""Where results go. A sink is a function of (results of one batch, batch id).

Guarantee: it is called before the batch is committed, and called again with the same id when a batch is replayed. What
that means depends on the format:

| format               | on replay                                            |
|----------------------|------------------------------------------------------|
| parquet json csv orc | the batch's folder `batch_id=<id>` is replaced whole |
| memory               | the batch's rows are replaced                        |
| delta                | skipped by the transaction's app id and version      |
| foreachBatch         | the function is called again with the same id        |
| kafka console noop   | written again                                        |

Not guaranteed: exactly-once output for the last two rows, unless the function itself looks at the id.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from evenjoin.errors import SpecError
from evenjoin.runtime.spark.batch import Sink

FILES = ("parquet", "json", "csv", "orc")
REPLACED = (*FILES, "memory", "noop")
"""Formats that replace what they have of a batch when it is written again."""
FORMATS = (*FILES, "memory", "console", "noop", "delta", "kafka")


def make_sink(
    spark: SparkSession, format_: str, options: Mapping[str, str], name: str | None, partition_by: tuple[str, ...]
) -> Sink:
    """The sink of a format with DataStreamWriter's options."""
    if format_ in FILES:
        return _files(format_, _needed(options, "path", format_), options, partition_by)
    if format_ == "noop":
        return lambda frame, batch: frame.write.format("noop").mode("overwrite").save()
    if format_ == "console":
        rows, cut = int(options.get("numRows", "20")), options.get("truncate", "true").lower() == "true"
        return lambda frame, batch: _show(frame, batch, rows, cut)
    if format_ == "memory":
        if name is None:
            raise SpecError("format('memory') needs queryName(...): the name of the table to fill")
        return Memory(spark, name)
    if format_ == "delta":
        return _delta(options, name)
    if format_ == "kafka":
        return lambda frame, batch: frame.write.format("kafka").options(**options).save()
    raise SpecError(f"unknown format {format_!r}; known: {', '.join(FORMATS)}, or foreachBatch(function)")


def _needed(options: Mapping[str, str], key: str, format_: str) -> str:
    if key not in options:
        raise SpecError(f"format({format_!r}) needs option({key!r}, ...) or start(path)")
    return options[key]


def _files(format_: str, path: str, options: Mapping[str, str], partition_by: tuple[str, ...]) -> Sink:
    more = {k: v for k, v in options.items() if k not in ("path", "checkpointLocation")}

    def write(frame: DataFrame, batch: int) -> None:
        writer = frame.write.format(format_).mode("overwrite").options(**more)
        if partition_by:
            writer = writer.partitionBy(*partition_by)
        writer.save(f"{path.rstrip('/')}/batch_id={batch}")

    return write


def _show(frame: DataFrame, batch: int, rows: int, cut: bool) -> None:
    print(f"-------------------------------------------\nBatch: {batch}\n-------------------------------------------")
    frame.show(rows, cut)


def _delta(options: Mapping[str, str], name: str | None) -> Sink:
    path = _needed(options, "path", "delta")

    def write(frame: DataFrame, batch: int) -> None:
        writer = frame.write.format("delta").mode("append")
        writer.option("txnAppId", name or path).option("txnVersion", batch).save(path)

    return write


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
