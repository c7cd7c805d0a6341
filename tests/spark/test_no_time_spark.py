"""Rows without an event time on Spark: the answer of Spark's own joins, as a stream and in one batch."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest

import evenjoin
from spark_streams import Collected, read_stream, write_batches

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


def rows(first, minutes):
    """Rows of key 1, numbered from `first`, at these minutes after noon; None has no time."""
    times = [None if m is None else NOON + timedelta(minutes=m) for m in minutes]
    return pa.table({"id": range(first, first + len(times)), "k": [1] * len(times), "ts": times}, SCHEMA)


@pytest.mark.spark
def test_rows_without_a_time_are_joined(spark, tmp_path):
    """With a watermark and without a time bound, a row whose event time is NULL joins all rows of its key: in the batch
    that it comes in, with what is stored, and with what comes later. Spark's stream-stream join gives the same rows,
    and so does its batch join, as no other row is late."""
    write_batches(tmp_path / "l", [rows(0, [0, None]), rows(10, [60, None]), rows(20, [120])])
    write_batches(tmp_path / "r", [rows(100, [0, None]), rows(110, [60]), rows(120, [120, None])])
    streams = {alias: read_stream(spark, tmp_path / alias, SCHEMA) for alias in "lr"}
    with pytest.warns(evenjoin.UnboundedStateWarning):
        joined = evenjoin.join(
            streams, "l.k = r.k", event_time="ts", watermark="1 minute", select=["l.id AS a", "r.id AS b"], instances=2
        )
    out = Collected()
    query = joined.writeStream.foreachBatch(out).option("checkpointLocation", str(tmp_path / "ck"))
    query.trigger(availableNow=True).start().awaitTermination()
    ours = Counter(tuple(row.values()) for table in out.batches.values() for row in table.to_pylist())
    assert len(out.batches) >= 3
    assert ours == spark_stream(streams, tmp_path) == spark_batch(spark, tmp_path)
    assert ours.total() == 5 * 5


def spark_stream(streams, folder):
    """What Spark's own stream-stream join gives."""
    left, right = (streams[alias].withWatermark("ts", "1 minute").alias(alias) for alias in "lr")
    out = Collected()
    found = left.join(right, left.k == right.k).selectExpr("l.id AS a", "r.id AS b")
    query = found.writeStream.foreachBatch(out).option("checkpointLocation", str(folder / "spark-ck"))
    query.trigger(availableNow=True).start().awaitTermination()
    return Counter(tuple(row.values()) for table in out.batches.values() for row in table.to_pylist())


def spark_batch(spark, folder):
    """What Spark's batch join of all files gives."""
    for alias in "lr":
        spark.read.parquet(str(folder / alias)).createOrReplaceTempView(f"no_time_{alias}")
    sql = "SELECT l.id AS a, r.id AS b FROM no_time_l l JOIN no_time_r r ON l.k = r.k"
    return Counter(map(tuple, spark.sql(sql).collect()))
