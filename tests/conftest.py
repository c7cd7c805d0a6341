"""One Spark session for all tests of a worker that need it, and what runs beside it when tests run two at a time."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import pytest

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
"""Short runs: a JVM that compiles little is a sixth faster here, and leaves the second core alone."""

CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""Spark writes its own checkpoint without starting a process for every file: a third of the time of a small query."""

CONDITIONS = ("tests/spark/test_conditions.py", "tests/spark/test_column_objects.py", "tests/differential/")
"""Tests that ask Spark what a condition means: they share a session, and so a worker."""
SESSION = ("tests/spark/", "tests/cases/test_spark.py", "tests/cli/test_examples.py", "tests/docs/test_blocks.py")
"""Tests that share the other session. Elsewhere the fixture `spark` is refused."""
PROCESSES = ("tests/recovery/", "tests/cli/test_demo.py", "tests/cli/test_compare_verb.py", "tests/bench/test_run.py",
             "tests/bench/test_three_sides.py")  # fmt: skip
"""Tests that start Spark processes of their own: they follow each other."""
SHARING = ("tests/bench/test_sized_workloads.py", "tests/chaos/test_chaos.py")
"""Files whose tests share data that takes long to make."""


@pytest.fixture(autouse=True)
def _one_seed(monkeypatch):
    """Every checkpoint has the same seed, so that positions, and with them balance, are the same in every run."""
    from evenjoin.commit import identity

    monkeypatch.setattr(identity.secrets, "randbits", lambda bits: 20_261_117)


def group_of(nodeid: str) -> str:
    """The tests that run on the same worker, one after the other; most are on their own."""
    groups = {"conditions": CONDITIONS, "session": SESSION, "processes": PROCESSES, "sharing": SHARING}
    return next((name for name, files in groups.items() if nodeid.startswith(files)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Whole groups go to one worker, the largest first. (Markers for it, as `--dist loadgroup` reads them, do not reach
    the scheduler with this pytest.)"""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return Groups(config, log)


@pytest.fixture(scope="session")
def _session(tmp_path_factory):
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    import evenjoin

    builder = SparkSession.builder.master("local[2,4]").appName("evenjoin tests")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(tmp_path_factory.mktemp("spark")),
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = evenjoin.tune(builder).getOrCreate()
    session.sparkContext.setLogLevel("FATAL")
    yield session
    with suppress(Py4JError, OSError):  # its JVM may have ended in the minutes since the last test on Spark
        session.stop()


@pytest.fixture
def spark(request, _session):
    """A small local session with the settings EvenJoin asks for; a task whose worker dies is tried again."""
    known = group_of(request.node.nodeid) in ("conditions", "session")
    assert known, "name this file in CONDITIONS or SESSION: a worker has one session"
    return _session
