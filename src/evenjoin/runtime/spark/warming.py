"""Python workers that are there, with the engine imported, when the first batch comes.

A worker imports numpy, pyarrow and the engine before its first task, and the JVM loads what a batch's two stages need:
together the larger part of a first batch. Spark keeps workers for later tasks, so a small job of the same shape as a
batch takes that out of it. The job runs in a thread of its own while Spark analyses the join, which keeps one core
busy; and again at the start, if the workers may be gone by then. Workers that are forked from a process with the engine
in it would not need this, but Spark forks only from one without threads, and importing pyarrow starts one.

Guarantee: nothing depends on it, and it reads and writes no data. What fails here fails again in the first batch, or
did not matter.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from evenjoin.runtime.spark.session import prepare_batch

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

IDLE_S = 50.0
"""Spark ends a worker that has had nothing to do for a minute."""
_WARMED: dict[str, float] = {}
"""When the workers of an application were started: queries that come soon after find them."""


def warm(spark: SparkSession, workers: int) -> threading.Thread | None:
    """Start so many Python workers, and let them import what a batch needs. Returns the thread that does it, or None
    where that was done a moment ago or the session does not tell its application (Spark Connect)."""
    application, now = str(getattr(getattr(spark, "sparkContext", None), "applicationId", "")), time.monotonic()
    if not application or now - _WARMED.get(application, -IDLE_S) < IDLE_S:
        return None
    _WARMED[application] = now
    thread = threading.Thread(target=_start, args=(spark, workers), name="evenjoin-warming", daemon=True)
    thread.start()
    return thread


def _start(spark: SparkSession, workers: int) -> None:
    with suppress(Exception):  # the session may be stopped meanwhile
        from evenjoin.runtime.spark.wire import PACKED

        own = spark.newSession()  # the settings of a batch are not the user's
        prepare_batch(own)
        packed = own.range(0, workers, 1, workers).mapInArrow(_sent, PACKED)
        taken = packed.repartitionById(workers, "task").mapInArrow(_taken, "rows long")
        taken.write.format("noop").mode("overwrite").save()


def _sent(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a worker runs to be warm: it imports what tasks need, and sends an empty row."""
    import pyarrow as pa

    import evenjoin.runtime.spark.tasks  # noqa: F401
    from evenjoin.runtime.spark.wire import NOTE, packed_rows

    for _ in batches:
        yield packed_rows([(0, NOTE, 0, pa.py_buffer(b""))])


def _taken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The second stage, which takes what was sent."""
    import pyarrow as pa

    import evenjoin.runtime.spark.tasks  # noqa: F401

    yield pa.record_batch({"rows": [sum(batch.num_rows for batch in batches)]})
