"""Batches in the driver's process and on the executors: the same answers, and one checkpoint for both."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from contextlib import nullcontext
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenjoin
from evenjoin.errors import SpecError
from evenjoin.runtime.spark import in_driver, where
from evenjoin.testing import Hooks
from spark_streams import Collected, read_stream, triple_streams, triples, write_batches

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::evenjoin.errors.UnboundedStateWarning")]

SCHEMA = pa.schema(
    [("id", pa.int64()), ("k", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("d", pa.decimal128(9, 2)),
     ("tags", pa.list_(pa.string()))]
)  # fmt: skip
ON = "l.k = r.k AND r.ts BETWEEN l.ts - INTERVAL 30 SECONDS AND l.ts + INTERVAL 30 SECONDS"
SELECT = ["l.id AS a", "r.id AS b", "l.k", "r.ts", "l.d", "r.tags"]
BEGAN = dt.datetime(2024, 5, 1, tzinfo=dt.timezone.utc)


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    columns = {
        "id": list(numbers),
        "k": [None if n % 11 == 0 else f"cell {n % 7}" for n in numbers],
        "ts": [BEGAN + dt.timedelta(seconds=n) for n in numbers],
        "d": [Decimal(n) / 4 if n % 2 else None for n in numbers],
        "tags": [None if n % 5 == 0 else ["x"] * (n % 3) for n in numbers],
    }
    return pa.table(columns, schema=SCHEMA)


@pytest.fixture
def folder(tmp_path):
    """Four batches of a side: small, large, none at all, small."""
    for alias in "lr":
        write_batches(tmp_path / alias, [rows(0, 20), rows(20, 90), rows(0, 0), rows(110, 20)])
    return tmp_path


def multiset(table: pa.Table) -> Counter[str]:
    """The rows and how often each is there; some hold lists."""
    return Counter(map(repr, table.to_pylist()))


def frames(spark, folder, files=1):
    return {alias: read_stream(spark, folder / alias, SCHEMA, files) for alias in "lr"}


def folders(spark, folder):
    return {alias: evenjoin.parquet(spark, str(folder / alias), maxFilesPerTrigger=1) for alias in "lr"}


def run(sides, checkpoint, execution="auto", sink=None, **options):
    """The results so far, and the handle of the ended query."""
    sink = Collected() if sink is None else sink
    arguments = {"on": ON, "select": SELECT, "event_time": "ts", "watermark": "1 minute", "instances": 3, **options}
    joined = evenjoin.join(sides, execution=execution, **arguments)
    writer = joined.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return multiset(pa.concat_tables(sink.batches.values())), query


def written(sides, folder, execution, **options):
    """The results that are in the sink's parquet files after a start."""
    arguments = {"on": ON, "select": SELECT, "event_time": "ts", "watermark": "1 minute", "instances": 3, **options}
    joined = evenjoin.join(sides, execution=execution, **arguments)
    writer = joined.writeStream.option("path", str(folder / "out")).option("checkpointLocation", str(folder / "ck"))
    writer.trigger(availableNow=True).start().awaitTermination()
    tables = [pq.ParquetFile(path).read() for path in sorted(folder.glob("out/*/*.parquet"))]
    return multiset(pa.concat_tables(tables))


def told(query):
    return query.lastProgress["evenjoin"]["execution"]


def test_the_same_answers_in_both_places(spark, folder):
    """Rows that Spark reads, and files that pyarrow reads, in the driver and on the executors; the progress says where.
    What is told of the load is the same but for times."""
    wanted, there = run(frames(spark, folder), folder / "executors", "executors")
    assert wanted
    assert told(there) == {"place": "executors", "why": "asked for", "batches": {"driver": 0, "executors": 4}}
    for name, sides in {"rows": frames, "files": folders}.items():
        found, here = run(sides(spark, folder), folder / name, "driver")
        assert found == wanted
        assert told(here) == {"place": "driver", "why": "asked for", "batches": {"driver": 4, "executors": 0}}
        assert here.lastProgress["evenjoin"]["total"] == there.lastProgress["evenjoin"]["total"]
        assert here.lastProgress["evenjoin"]["stored"] == there.lastProgress["evenjoin"]["stored"]


@pytest.mark.parametrize("sides", [frames, folders], ids=["rows", "files"])
def test_a_larger_batch_than_expected_goes_to_the_executors(sides, spark, folder, monkeypatch):
    """The driver takes 100 rows: it finds out that the second batch has more, by reading or by the files' footers, and
    gives it away. Later batches come back, once none of the last ones was large (rows) or at once (files)."""
    limits = where.ON_CLUSTER._replace(rows=100)
    monkeypatch.setattr("evenjoin.runtime.spark.writer.on_local_master", lambda memory: limits)
    monkeypatch.setattr(where, "RECENT", 1)
    wanted, _ = run(frames(spark, folder), folder / "executors", "executors")
    found, query = run(sides(spark, folder), folder / "ck")
    assert found == wanted
    assert told(query)["batches"] == (
        {"driver": 3, "executors": 1} if sides is folders else {"driver": 2, "executors": 2}
    )


def test_more_results_than_fit_go_to_the_executors(spark, folder, monkeypatch):
    """A sink that wants a table of results gets them from the executors, and the function was not called before. Only
    the first such batch is joined twice."""
    monkeypatch.setattr(in_driver, "RESULT_BYTES", 2000)
    calls, tried, join = [], [], in_driver.InDriver.join

    def watched(self, frame, work, *arguments):
        tried.append(work.batch)
        join(self, frame, work, *arguments)

    monkeypatch.setattr(in_driver.InDriver, "join", watched)

    class Counted(Collected):
        def __call__(self, frame, batch):
            calls.append(batch)
            super().__call__(frame, batch)

    found, query = run(folders(spark, folder), folder / "ck", "driver", Counted())
    assert calls == [0, 1, 2, 3]
    assert tried == [0]
    assert told(query)["batches"] == {"driver": 0, "executors": 4}
    monkeypatch.undo()
    assert found == run(frames(spark, folder), folder / "executors", "executors")[0]


def test_rows_of_more_bytes_than_the_driver_takes(spark, folder, monkeypatch):
    """They are counted when they are there; such a batch goes to the executors, and so do the next ones like it."""
    limits = where.ON_CLUSTER._replace(bytes=7_000)
    monkeypatch.setattr("evenjoin.runtime.spark.writer.on_local_master", lambda memory: limits)
    monkeypatch.setattr("evenjoin.runtime.spark.writer.collectable", lambda spark: 7_000)
    wanted, _ = run(frames(spark, folder), folder / "executors", "executors")
    asked, collected = [], in_driver._collected

    def watched(frame, most):
        asked.append(most.by)
        return collected(frame, most)

    monkeypatch.setattr(in_driver, "_collected", watched)
    found, query = run(frames(spark, folder), folder / "ck")
    assert found == wanted
    assert asked == ["limit", "count"]
    assert told(query)["batches"] == {"driver": 1, "executors": 3}


def test_a_checkpoint_goes_on_in_the_other_place(spark, tmp_path):
    """One batch here, one there, another number of instances, and a join of two hops: the answers of one place."""
    triples(tmp_path, batches=4)
    options = {"on": "abs(r.i - s.i) <= 1 AND abs(s.n - t.n) <= 1 AND abs(r.ts - s.ts) <= 9 AND abs(s.ts - t.ts) <= 9",
               "select": ["r.id AS a", "s.id AS b", "t.id AS c"], "watermark": 3, "strategy": "trijoin"}  # fmt: skip
    wanted, _ = run(triple_streams(spark, tmp_path), tmp_path / "one", "executors", **options)
    assert wanted
    sink = Collected()
    for number, (place, instances) in enumerate([("driver", 3), ("executors", 3), ("driver", 5), ("executors", 4)]):

        def stop(step, batch, after=number):
            if step == "begin" and batch > after:
                raise InterruptedError("enough")

        hooks = Hooks(step=stop)
        arguments = {**options, "instances": instances, "hooks": hooks}
        if number < 3:
            with pytest.raises(Exception, match="enough"):
                run(triple_streams(spark, tmp_path), tmp_path / "ck", place, sink, **arguments)
        else:
            found, query = run(triple_streams(spark, tmp_path), tmp_path / "ck", place, sink, **arguments)
    assert found == wanted
    assert told(query)["batches"] == {"driver": 0, "executors": 1}


INSTANCE_STEPS = ["joined", "sealed", "receipt"]
STEPS = ["begin", *INSTANCE_STEPS, "executed", "receipts", "commit", "committed", "shown", "collected"]


@pytest.mark.parametrize(
    "sides", [pytest.param(frames, id="rows", marks=pytest.mark.slow), pytest.param(folders, id="files")]
)
def test_a_crash_at_each_step_goes_on_in_the_other_place(sides, spark, tmp_path):
    """Each start dies at another step of its second batch, instances' steps among them, and the next one runs in the
    other place: the parquet files hold each result once."""
    for alias in "lr":
        write_batches(tmp_path / alias, [rows(9 * n, 9) for n in range(len(STEPS) + 4)])
    wanted = written(frames(spark, tmp_path), tmp_path / "undisturbed", "executors")
    for number, fatal in enumerate([*STEPS, None]):
        seen = []

        def dies(step, _, fatal=fatal, seen=seen):
            seen.append(step)
            if step == fatal and (step == "begin" or seen.count("begin") > 1):
                raise InterruptedError(f"died at {step}")

        place = "driver" if fatal in INSTANCE_STEPS else ("driver", "executors")[number % 2]
        hooks = Hooks(step=dies, worker_step=dies if place == "driver" else None)
        with nullcontext() if fatal is None else pytest.raises(Exception, match=f"died at {fatal}"):
            found = written(sides(spark, tmp_path), tmp_path / "disturbed", place, hooks=hooks)
    assert found == wanted


def test_files_are_those_of_the_batch(spark, tmp_path):
    """Several files a trigger, names that a URI must escape, more log entries than Spark keeps apart, one folder on
    both sides: what the source's log names is what Spark would read."""
    odd = tmp_path / "a folder, 100%25 odd+"
    write_batches(odd, [rows(7 * n, 7) for n in range(25)])
    sides = {alias: evenjoin.parquet(spark, str(odd), maxFilesPerTrigger=2) for alias in "lr"}
    wanted, _ = run(sides, tmp_path / "executors", "executors")
    found, query = run(sides, tmp_path / "driver", "auto")
    assert told(query)["batches"] == {"driver": 13, "executors": 0}
    assert found == wanted
    assert query.lastProgress["evenjoin"]["total"]["rows"] == [175, 175]


def test_late_rows_spark_filters_and_outputs(spark, folder):
    """What Spark computes before and after the engine, and late rows, are the same in both places."""
    arguments = {"on": f"{ON} AND concat(l.k, r.k) <> upper(l.k)", "watermark": "0 seconds", "sub_window": "5 seconds",
                 "select": ["l.id AS a", "upper(r.k) AS k", "r.ts"]}  # fmt: skip
    write_batches(folder / "l", [rows(0, 15)], first=4)
    write_batches(folder / "r", [rows(130, 9)], first=4)
    seen, late = {}, {"driver": [], "executors": []}
    for place, rejected in late.items():

        def reject(frame, alias, batch, rejected=rejected):
            rejected.append((alias, batch, multiset(frame.toArrow())))

        seen[place], _ = run(frames(spark, folder), folder / place, place, late=reject, **arguments)
    assert seen["driver"] == seen["executors"]
    assert late["driver"] == late["executors"] != []


def test_types_that_only_tasks_exchange(spark, tmp_path):
    """A column with an interval is left to the executors, and the progress says why."""
    for alias in "lr":
        write_batches(tmp_path / alias, [pa.table({"k": [1, 2]})])
    sides = {
        alias: spark.readStream.schema("k long").parquet(str(tmp_path / alias))
        .selectExpr("k", "make_dt_interval(0, 0, 0, k) AS i") for alias in "lr"
    }  # fmt: skip
    options = {"on": "l.k = r.k", "select": ["l.i"], "event_time": None, "watermark": None}
    found, query = run(sides, tmp_path / "ck", "driver", **options)
    assert len(found) == 2
    assert told(query)["why"] == "a column of interval day to second, which only tasks exchange with Spark"


def test_noop_makes_results_and_holds_none(spark, tmp_path, monkeypatch):
    """Results for nobody are counted, however many: none of them is held."""
    monkeypatch.setattr(in_driver, "RESULT_BYTES", 1)
    key = pa.table({"k": np.zeros(600, np.int64), "v": np.arange(600)})
    for alias in "lr":
        write_batches(tmp_path / alias, [key])
    sides = {alias: evenjoin.parquet(spark, str(tmp_path / alias)) for alias in "lr"}
    joined = evenjoin.join(sides, on="l.k = r.k", execution="driver", instances=2)
    query = joined.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "ck")).start()
    query.processAllAvailable()
    query.stop()
    assert told(query)["batches"] == {"driver": 1, "executors": 0}
    assert query.lastProgress["evenjoin"]["total"]["results"] == 360_000


def test_refused(spark, folder):
    with pytest.raises(SpecError, match="execution='workers': use 'auto', 'driver' or 'executors'"):
        evenjoin.join(frames(spark, folder), on="l.k = r.k", execution="workers")
