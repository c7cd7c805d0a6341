"""The Spark settings that make a join fast or, for one of them, right: who sets them, and when.

Some can only be given before Spark starts. `tune` puts them on a builder; where they are missing, the log names the
lines to add. The others are set for each batch, on the clone of the session that the batch gets.

Guarantee: the user's own session is never changed, and what the user has set on a builder stays.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from typing import Any

log = logging.getLogger("evenjoin")

AT_START = {
    "spark.python.unix.domain.socket.enabled": "true",
}
"""Needed before Spark starts. Python tasks then talk to the JVM over Unix sockets instead of TCP."""

ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
"""The settings that take Java options; with a local master only the first, as there are no executors. The options are
there because the JVM reads results out of Arrow one value at a time. By default Arrow checks its buffers' bounds for
each value, which is about half of the time of handing results over."""

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
AT_START_LOCAL = {
    "spark.shuffle.compress": "false",
    FILE_MANAGER: "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
}
"""On one machine a shuffle never leaves memory or the local disk, so compressing it gains nothing.

The file manager writes Spark's own part of a checkpoint. On local disks the usual one starts a process for each file; a
small batch took 268 ms with it and 200 ms with this one (402 and 346 ms on executors, 842 and 442 ms for Spark's own
join; one run each). Both make a file visible whole, by a rename, and both refuse a name that is taken. What is
committed rests on neither, but on the engine's own log (commit/log.py).

A session does not know where its queries will have their checkpoints. On another file system this one gains nothing and
costs nothing (not run): it renames by FileSystem.rename where the usual one asks FileContext.rename. HDFS renames
atomically and refuses a taken name in both; an object store is atomic in neither, and there two drivers that wrote the
same batch of Spark's log at once are told apart by the engine's lease and by the digest of what was read
(commit/position.py). Who needs a manager made for a store sets it on the builder: what the user has set stays."""

PER_BATCH = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "268435456",
    "spark.sql.adaptive.enabled": "false",
}
"""Set for each batch: large Arrow batches; and no adaptive execution, which could run fewer join tasks than there are
instances."""


def tune(builder: Any) -> Any:
    """Put the settings that EvenJoin wants on a `SparkSession.builder`. What the user has set stays.

    `spark = evenjoin.tune(SparkSession.builder.master("local[4]")).getOrCreate()`
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    given = getattr(builder, "_options", {})
    local = str(given.get("spark.master", "")).startswith("local")
    for key, value in {**AT_START, **(AT_START_LOCAL if local else {})}.items():
        if key not in given:
            builder = builder.config(key, value)
    for key in JAVA_OPTIONS[:1] if local else JAVA_OPTIONS:
        if "-Darrow." not in str(given.get(key, "")):
            builder = builder.config(key, f"{given.get(key, '')} {ARROW}".strip())
    return builder


def advice(spark: Any) -> list[str]:
    """The lines to add to a session that was started without `tune`; empty when nothing is missing."""
    lines = []
    for key, value in AT_START.items():
        if str(_static(spark, key)).lower() != value:
            lines.append(f'.config("{key}", "{value}")')
    local = str(_static(spark, "spark.master")).startswith("local")
    for key in JAVA_OPTIONS[:1] if local else JAVA_OPTIONS:
        if "-Darrow." not in str(_static(spark, key)):
            lines.append(f'.config("{key}", "{ARROW}")')
    return lines


def advise(spark: Any) -> None:
    """Say in the log what would make the join faster. Called once per start."""
    lines = advice(spark)
    if lines:
        log.warning(
            "faster with these lines on the SparkSession builder (or evenjoin.tune(builder)):\n  %s", "\n  ".join(lines)
        )


def prepare_batch(spark: Any) -> None:
    """Set what one batch needs on its own session, which is a clone of the user's."""
    for key, value in PER_BATCH.items():
        spark.conf.set(key, value)


def cores(spark: Any) -> int | None:
    """How many tasks Spark runs at once; None where it does not tell."""
    try:
        return max(int(spark.sparkContext.defaultParallelism), 1)
    except Exception:  # Spark Connect does not tell
        return None


def on_one_machine(spark: Any) -> bool:
    """Whether driver and executors are one process of one machine: a local master."""
    return re.fullmatch(r"local(\[.*\])?", str(_static(spark, "spark.master"))) is not None


def collectable(spark: Any) -> int:
    """How many bytes Spark lets the driver collect at once (spark.driver.maxResultSize); 0: any number."""
    given = str(_static(spark, "spark.driver.maxResultSize") or "1g").strip().lower()
    found = re.fullmatch(r"(\d+)\s*([kmgtp]?)b?", given)
    return int(found[1]) << (10 * " kmgtp".index(found[2] or " ")) if found else 1 << 30


def _static(spark: Any, key: str) -> str | None:
    try:
        value: str | None = spark.conf.get(key, None)
        if value is None and hasattr(spark, "sparkContext"):
            value = spark.sparkContext.getConf().get(key, None)
        return value
    except Exception:  # Spark Connect hides core settings: nothing to advise on
        return None
