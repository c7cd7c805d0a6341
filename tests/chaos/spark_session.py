"""A small local Spark session for the campaign, and a case's batches as streams of files.

Invariant: each batch is one file a side, with a time stamp of its own, so that Spark makes the batches of the case.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from chaos.case import Case
from chaos.joins import SCHEMA
from spark_streams import write_batches

CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""Spark writes its own checkpoint without starting a process for every file."""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES,
}


def session(retries: int) -> Any:
    """A session of two cores. A task whose worker dies is tried again so often."""
    from pyspark.sql import SparkSession

    import evenjoin

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    builder = SparkSession.builder.master(f"local[2,{retries}]").appName("evenjoin chaos")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = evenjoin.tune(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def write_inputs(case: Case, folder: Path) -> None:
    """The rows of a case as files: FOLDER/l, FOLDER/r and perhaps FOLDER/m."""
    batches = case.data()
    for alias in case.spec.sides:
        write_batches(folder / alias, [batch[alias] for batch in batches])


def sides(spark: Any, case: Case, folder: Path, files: int = 1) -> dict[str, Any]:
    """The streams of a case, so many files a trigger. A restart may ask for another number: the batches that Spark has
    planned already stay what they were."""
    from pyspark.sql.pandas.types import from_arrow_schema

    reader = spark.readStream.schema(from_arrow_schema(SCHEMA)).option("maxFilesPerTrigger", files)
    return {alias: reader.parquet(str(folder / alias)) for alias in case.spec.sides}
