"""A Spark session for looking for differences outside of pytest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def session(folder: Path) -> Iterator[Any]:
    """A small local session with the settings EvenJoin asks for."""
    from pyspark.sql import SparkSession

    import evenjoin

    builder = SparkSession.builder.master("local[2]").appName("differential")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    made = evenjoin.tune(builder).getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    try:
        yield made
    finally:
        made.stop()
