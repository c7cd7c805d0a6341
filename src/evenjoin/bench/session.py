"""The one Spark session both systems are measured in, and the demo runs in.

Invariant: EvenJoin and its peer get the same master, memory, time zone and files; only what belongs to one of them
(state store provider, shuffle partitions) is added by its runner.

``quietly`` gives the JVM a log file for its standard error from birth, so that the console shows only our output.
Not here: what the engine itself asks of a session (``runtime/spark``).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from evenjoin.runtime.spark.session import ARROW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
SETTINGS = {
    "spark.driver.memory": "6g",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "localhost",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    "spark.shuffle.compress": "false",  # one machine: nothing to gain, for either system
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.driver.extraJavaOptions": ARROW,  # only EvenJoin's results pass through Arrow
    "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,  # 75 to 135 ms a batch less, for both
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",  # an inner join gains nothing from an empty batch
}


def open_session(cores: int, extra: Mapping[str, str] | None = None, name: str = "evenjoin-bench") -> SparkSession:
    """A fresh local session on ``cores`` cores; ``extra`` settings win over the common ones."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    for key, value in {**SETTINGS, **(extra or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextmanager
def quietly(log: Path) -> Iterator[None]:
    """Standard error of every process started inside goes to ``log`` for its whole life; ours comes back at the end."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
