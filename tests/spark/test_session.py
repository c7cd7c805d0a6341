"""The settings the engine asks of a session: put on a builder, or advised."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import evenjoin
from evenjoin import UnboundedStateWarning
from evenjoin.runtime.spark import join, warming
from evenjoin.runtime.spark.session import ARROW, AT_START, AT_START_LOCAL, FILE_MANAGER, advice, collectable


class Builder:
    """The part of SparkSession.builder that `tune` uses."""

    def __init__(self, **options):
        self._options = {key.replace("_", "."): value for key, value in options.items()}

    def config(self, key, value):
        self._options[key] = value
        return self


def test_tune_keeps_what_the_user_has_set():
    """A user's own value wins; the rest is filled in; a cluster's shuffles stay compressed."""
    (key,) = AT_START
    own = Builder()
    own.config(key, "false")
    assert evenjoin.tune(own)._options[key] == "false"
    assert evenjoin.tune(Builder(spark_master="local[2]"))._options["spark.shuffle.compress"] == "false"
    assert "spark.shuffle.compress" not in evenjoin.tune(Builder(spark_master="yarn"))._options
    assert FILE_MANAGER not in evenjoin.tune(Builder(spark_master="yarn"))._options


@pytest.mark.parametrize(
    ("given", "found"), [(None, 1 << 30), ("0", 0), ("2g", 2 << 30), ("512MB", 512 << 20), ("77", 77), ("odd", 1 << 30)]
)
def test_what_spark_lets_the_driver_collect(given, found):
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda key, default: given))
    assert collectable(session) == found


def test_java_options_are_added_to_the_users_own():
    """Once, whoever gave them; executors have them too where there are any."""
    own = Builder(spark_master="yarn")
    own.config("spark.driver.extraJavaOptions", "-Xss8m")
    tuned = evenjoin.tune(evenjoin.tune(own))._options
    assert tuned["spark.driver.extraJavaOptions"] == f"-Xss8m {ARROW}"
    assert tuned["spark.executor.extraJavaOptions"] == ARROW
    assert "spark.executor.extraJavaOptions" not in evenjoin.tune(Builder(spark_master="local[2]"))._options


@pytest.mark.spark
def test_a_tuned_session_needs_no_advice(spark, monkeypatch):
    """Nothing to say about a tuned session; otherwise the exact line to add."""
    assert advice(spark) == []
    monkeypatch.setitem(AT_START, "spark.python.unix.domain.socket.enabled", "something else")
    assert advice(spark) == ['.config("spark.python.unix.domain.socket.enabled", "something else")']


@pytest.mark.spark
def test_a_second_writer_of_a_checkpoint_file_is_refused(spark, tmp_path):
    """The file manager that `tune` sets: a file is there whole or not at all, and a name that is taken, before or while
    one writes, stays with its first content."""
    jvm, folder = spark._jvm, tmp_path / "offsets"
    loaded = jvm.Thread.currentThread().getContextClassLoader().loadClass(AT_START_LOCAL[FILE_MANAGER])
    (maker,) = loaded.getConstructors()
    arguments = jvm.java.util.ArrayList()
    for argument in (jvm.org.apache.hadoop.fs.Path(f"file:{folder}"), spark._jsc.hadoopConfiguration()):
        arguments.add(argument)
    manager = maker.newInstance(arguments.toArray())
    manager.mkdirs(jvm.org.apache.hadoop.fs.Path(f"file:{folder}"))
    path = jvm.org.apache.hadoop.fs.Path(f"file:{folder}/0")
    first, second, dead = (manager.createAtomic(path, False) for _ in range(3))
    first.write(bytearray(b"first"))
    second.write(bytearray(b"second"))
    dead.write(bytearray(b"never closed"))
    assert not (folder / "0").exists()
    first.close()
    with pytest.raises(Exception, match="FileAlreadyExists"):
        second.close()
    with pytest.raises(Exception, match="FileAlreadyExists"):
        manager.createAtomic(path, False).close()
    dead.cancel()
    assert (folder / "0").read_bytes() == b"first"
    assert [name.name for name in folder.iterdir() if not name.name.startswith(".")] == ["0"]


@pytest.mark.spark
def test_workers_are_warmed_once(spark, monkeypatch):
    """A job of as many tasks as asked for starts workers that have imported the engine; the next query needs none."""
    monkeypatch.setattr(warming, "_WARMED", {})
    thread = warming.warm(spark, 2)
    assert thread is not None
    thread.join()
    assert warming.warm(spark, 2) is None
    monkeypatch.setattr(warming, "IDLE_S", 0.0)  # Spark may have ended the workers
    again = warming.warm(spark, 2)
    assert again is not None
    again.join()

    def imported(batches):
        import sys

        import pyarrow as pa

        known = "evenjoin.runtime.spark.tasks" in sys.modules
        yield from (pa.RecordBatch.from_pydict({"known": [known] * batch.num_rows}) for batch in batches)

    assert [row.known for row in spark.range(2).coalesce(1).mapInArrow(imported, "known boolean").collect()] == [
        True
    ] * 2


@pytest.mark.spark
@pytest.mark.parametrize(("execution", "warmed"), [("executors", True), ("auto", False), ("driver", False)])
def test_workers_are_started_while_a_join_is_analysed(execution, warmed, spark, monkeypatch):
    """If its batches will be on executors: on a local master only if they are asked for."""
    asked = []
    monkeypatch.setattr(join, "warm", lambda _, workers: asked.append(workers))
    sides = {alias: spark.readStream.format("rate").load() for alias in ("l", "r")}
    with pytest.warns(UnboundedStateWarning):
        evenjoin.join(sides, "l.value = r.value", execution=execution)
    assert asked == [2] * warmed


@pytest.mark.spark
def test_what_fails_while_warming_does_no_harm(spark, monkeypatch):
    """Nothing depends on it: the first batch would tell."""
    monkeypatch.setattr(warming, "_WARMED", {})
    monkeypatch.setattr(type(spark), "newSession", lambda *_: 1 / 0)
    thread = warming.warm(spark, 2)
    assert thread is not None
    thread.join()
