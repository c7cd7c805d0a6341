"""Streams whose conditions and outputs Spark evaluates in part: the rows of Spark's own join, whatever the zone."""

from __future__ import annotations

import logging
from collections import Counter

import pyarrow as pa
import pytest
from own_join import session, sparks

import evenjoin
from evenjoin.cli.inspect import evaluated
from evenjoin.commit.history import read_history
from evenjoin.errors import CheckpointMismatchError, SpecError
from evenjoin.testing import multiset
from spark_streams import Collected, read_stream, write_batches

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")]

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("n", pa.int32())])
BEFORE_CHANGE = 1_710_028_800_000_000
"""2024-03-10 00:00 UTC: the clocks of New York change seven hours later."""


def make(folder, batches=2, rows=12):
    """Two streams around a change of clocks: an hour between two rows, keys in different spelling."""
    for side, alias in enumerate("lr"):
        tables = []
        for batch in range(batches):
            numbers = range(batch * rows, (batch + 1) * rows)
            times = [BEFORE_CHANGE + n * 3_600_000_000 + side * 600_000_000 for n in numbers]
            names = [None if n % 7 == 6 else ("Key" if side else "kEY") + str(n % 3) for n in numbers]
            values = [pa.array(numbers), names, pa.array(times).cast(SCHEMA.field("ts").type), [n % 4 for n in numbers]]
            tables.append(pa.table([pa.array(v) for v in values], schema=SCHEMA))
        write_batches(folder / alias, tables)


def run(spark, folder, on, select, sides=None, checkpoint="ck", **options):
    sides = sides or {alias: read_stream(spark, folder / alias, SCHEMA) for alias in "lr"}
    sink = Collected()
    joined = evenjoin.join(sides, on=on, select=select, instances=2, **options)
    writer = joined.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    return joined, sink


def texts(spark, folder, on, select):
    frames = {alias: spark.read.parquet(str(folder / alias)) for alias in "lr"}
    return sparks(frames, on, select)


def as_texts(spark, joined, sink):
    tables = [t for t in sink.batches.values() if t.num_rows]
    frame = spark.createDataFrame(pa.concat_tables(tables), joined.schema) if tables else None
    return Counter() if frame is None else Counter(map(str, frame.collect()))


@pytest.mark.parametrize(
    ("on", "select"),
    [
        (
            "upper(l.s) = upper(r.s) AND hour(l.ts) < hour(r.ts)",
            ["l.id", "r.id AS b", "date_format(l.ts, 'HH:mm') AS t"],
        ),
        ("upper(l.s) = upper(r.s) AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 1 DAY", ["l.id", "r.id AS b"]),
        ("CAST(l.ts AS DATE) = CAST(r.ts AS DATE) AND concat(l.n, r.n) = '12'", ["l.id", "r.id AS b"]),
        ("l.n = r.n AND 100 / l.n > r.id AND l.n <> 0", ["l.id", "r.id AS b", "l.n + r.n"]),
    ],
)
def test_streams_give_what_sparks_own_join_gives(on, select, spark, tmp_path):
    """Expression keys, calendar intervals, filters of several sides and output expressions, in New York."""
    make(tmp_path)
    with session(spark, "America/New_York"):
        joined, sink = run(spark, tmp_path, on, select, event_time="ts", watermark="1 hour")
        expected = texts(spark, tmp_path, on, select)
        assert as_texts(spark, joined, sink) == expected
        assert expected


def test_the_default_output_with_a_filter_of_sparks(spark, tmp_path):
    """Structs by alias, without the columns that Spark computed; they are not in the late rows either."""
    make(tmp_path)
    late = []
    joined, sink = run(
        spark, tmp_path, "upper(l.s) = upper(r.s) AND concat(l.n, r.n) = '12'", None, event_time="ts",
        watermark="0 seconds", late=lambda frame, alias, batch: late.append(frame.columns),
    )  # fmt: skip
    assert joined.schema.names == ["l", "r"]
    assert joined.schema["l"].dataType.names == SCHEMA.names
    assert all(columns == SCHEMA.names for columns in late)
    assert sum(table.num_rows for table in sink.batches.values())


def test_zone_and_mode_belong_to_a_checkpoint_where_spark_evaluates(spark, tmp_path):
    """A computed column depends on the session's zone: another zone is refused, if there is such a column."""
    make(tmp_path)
    select = ["l.id", "r.id AS b"]
    run(spark, tmp_path, "hour(l.ts) = hour(r.ts)", select)
    run(spark, tmp_path, "l.s = r.s", select, checkpoint="plain")
    for zone, ansi in (("Asia/Tokyo", True), ("UTC", False)):
        with session(spark, zone, ansi), pytest.raises(CheckpointMismatchError, match="evaluated"):
            run(spark, tmp_path, "hour(l.ts) = hour(r.ts)", select)
    with session(spark, "UTC", False):
        run(spark, tmp_path, "l.s = r.s", select, checkpoint="plain")
    recorded = read_history(tmp_path / "ck").join.evaluated
    assert recorded["time zone"] == "UTC"
    assert ("Spark computes", "l.~0 = (hour(l.ts))") in evaluated(recorded)
    assert read_history(tmp_path / "plain").join.evaluated == {}


def test_parquet_folders_are_scanned_by_spark_only_if_it_computes_a_column(spark, tmp_path, caplog):
    """`evenjoin.parquet` keeps its bypass for plain columns; otherwise the log says why it does not."""
    make(tmp_path)
    select = ["l.id", "r.id AS b"]
    for number, (on, scanned) in enumerate([("l.n = r.n AND l.id > 3", False), ("upper(l.s) = upper(r.s)", True)]):
        files = {a: evenjoin.parquet(spark, str(tmp_path / a), maxFilesPerTrigger=1) for a in "lr"}
        caplog.clear()
        with caplog.at_level(logging.INFO, "evenjoin"):
            _, sink = run(spark, tmp_path, on, select, files, f"ck{number}")
        assert any("scans the files" in line for line in caplog.messages) == scanned
        got = sum((multiset(table) for table in sink.batches.values()), Counter())
        assert sum(got.values()) == sum(texts(spark, tmp_path, on, select).values())


def test_the_log_and_the_progress_say_what_spark_does_with_results(spark, tmp_path, caplog):
    """A Spark filter or output expression sends results through the JVM; nobody has to guess."""
    make(tmp_path)
    with caplog.at_level(logging.INFO, "evenjoin"):
        sides = {alias: read_stream(spark, tmp_path / alias, SCHEMA) for alias in "lr"}
        joined = evenjoin.join(sides, on="l.n = r.n AND concat(l.s, r.s) > 'K'", select=["l.id"], instances=2)
    assert any("Spark filters" in line and "concat" in line for line in caplog.messages)
    writer = joined.writeStream.foreachBatch(Collected()).option("checkpointLocation", str(tmp_path / "ck"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert "concat" in query.lastProgress["evenjoin"]["evaluated"]["filter"]


@pytest.mark.parametrize(("zone", "ansi"), [("Asia/Tokyo", True), ("UTC", False)])
def test_the_mode_of_the_definition_is_that_of_the_start(zone, ansi, spark, tmp_path):
    """A join that Spark evaluates in part is not started in a session whose zone or ANSI mode has changed since; one of
    plain columns is."""
    make(tmp_path, batches=1)
    sides = {alias: read_stream(spark, tmp_path / alias, SCHEMA) for alias in "lr"}
    select = ["l.id", "r.id AS b"]
    made = [
        evenjoin.join(sides, "l.ts > '2024-03-10 01:00:00' AND hour(l.ts) = hour(r.ts)", select=select, instances=2),
        evenjoin.join(sides, "l.n = r.n", select=["l.id", "r.id + 1 AS b"], instances=2),
        evenjoin.join(sides, "l.n = r.n", select=select, instances=2),
    ]
    with session(spark, zone, ansi):
        for number, joined in enumerate(made):
            sink = Collected()
            writer = joined.writeStream.foreachBatch(sink).trigger(availableNow=True)
            writer = writer.option("checkpointLocation", str(tmp_path / f"ck{number}"))
            if number == 2:
                writer.start().awaitTermination()
                assert sum(table.num_rows for table in sink.batches.values()) == 36
            else:
                with pytest.raises(SpecError, match="when the join was defined"):
                    writer.start()


def test_a_python_function_that_fails_for_a_null(spark, tmp_path):
    """It sees the rows only that pass the side's other filters; the others are not counted."""
    make(tmp_path, batches=1)
    spark.udf.register("lowered", lambda text: text.lower(), "string")
    on = "l.s IS NOT NULL AND lowered(l.s) = lowered(r.s) AND r.s IS NOT NULL AND l.n = 1"
    joined, sink = run(spark, tmp_path, on, ["l.id", "r.id AS b"])
    expected = texts(spark, tmp_path, on, ["l.id", "r.id AS b"])
    assert expected
    assert as_texts(spark, joined, sink) == expected
    assert read_history(tmp_path / "ck").commits[-1].totals.rows == (3, 11)
