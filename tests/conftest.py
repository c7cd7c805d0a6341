"""One Spark session for all tests that need it."""

from __future__ import annotations

import os
import sys

import pytest

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
"""Short runs: a JVM that compiles little is a sixth faster here, and leaves the second core alone."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Where tests run two at a time: those on Spark share one worker, and so one session; those that start processes of
    their own follow each other."""
    for item in items:
        if "spark" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("processes"))


@pytest.fixture(scope="session")
def spark():
    """A small local session with the settings EvenJoin asks for; a task whose worker dies is tried again."""
    from pyspark.sql import SparkSession

    import evenjoin

    builder = SparkSession.builder.master("local[2,4]").appName("evenjoin tests")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "2g",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = evenjoin.tune(builder).getOrCreate()
    session.sparkContext.setLogLevel("FATAL")
    yield session
    session.stop()
