"""Python workers that are there, with the engine imported, when the first batch comes.

A worker imports numpy, pyarrow and the engine before its first task: the larger part of a second. Spark keeps workers
for later tasks, so a small job at the start of a query, which runs while Spark plans the first batch, takes that out of
it. Workers that are forked from a process with the engine in it would not need this, but Spark forks only from one
without threads, and importing pyarrow starts one.

Guarantee: nothing depends on it. What fails here fails again in the first batch, or did not matter.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


_WARMED: set[str] = set()
"""The applications whose workers were started: later queries find them."""


def warm(spark: SparkSession, workers: int) -> threading.Thread | None:
    """Start so many Python workers, and let them import what a batch needs. Returns the thread that does it, or None
    where that was done before or the session does not tell its application (Spark Connect)."""
    application = str(getattr(getattr(spark, "sparkContext", None), "applicationId", ""))
    if not application or application in _WARMED:
        return None
    _WARMED.add(application)
    thread = threading.Thread(target=_start, args=(spark, workers), name="evenjoin-warming", daemon=True)
    thread.start()
    return thread


def _start(spark: SparkSession, workers: int) -> None:
    with suppress(Exception):  # the session may be stopped meanwhile
        spark.range(0, workers, 1, workers).mapInArrow(_imported, "id long").write.format("noop").mode("append").save()


def _imported(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a worker runs to be warm."""
    import evenjoin.runtime.spark.tasks  # noqa: F401

    yield from batches
