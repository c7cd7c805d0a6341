"""Parquet folders read by the dispatch tasks: the same rows as Spark's own reader, with its view of old files."""

from __future__ import annotations

import datetime as dt
import logging
from decimal import Decimal
from threading import Barrier
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenjoin
from evenjoin.errors import SpecError
from evenjoin.runtime.spark import division, files
from evenjoin.runtime.spark.division import Piece
from evenjoin.runtime.spark.files import Reading, read_rows, row_groups
from evenjoin.runtime.spark.in_driver import InDriver
from evenjoin.runtime.spark.where import Size
from evenjoin.testing import multiset
from spark_streams import Collected, read_stream, write_batches

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")]

SCHEMA = pa.schema(
    [("id", pa.int64()), ("k", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("price", pa.decimal128(9, 2))]
)
SELECT = ["l.id AS a", "r.id AS b", "l.k", "r.ts", "l.price"]


def rows(first, count):
    at = dt.datetime(2024, 5, 1, tzinfo=dt.timezone.utc)
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": list(numbers),
            "k": [None if n % 11 == 0 else f"cell {n % 7}" for n in numbers],
            "ts": [at + dt.timedelta(seconds=n) for n in numbers],
            "price": [Decimal(n) / 4 if n % 2 else None for n in numbers],
        },
        schema=SCHEMA,
    )


def run(spark, folder, sides, name):
    seen = Collected()
    joined = evenjoin.join(sides, on="l.k = r.k AND l.price < 9", select=SELECT, instances=2)
    writer = joined.writeStream.foreachBatch(seen).option("checkpointLocation", str(folder / name))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return multiset(pa.concat_tables(seen.batches.values())), query


def test_the_same_as_sparks_reader(spark, tmp_path):
    """Both sides from files, one side only, and none: the same results; rows are counted in the section evenjoin."""
    for alias in "lr":
        write_batches(tmp_path / alias, [rows(0, 30), rows(30, 20)])
    files = {alias: evenjoin.parquet(spark, str(tmp_path / alias), maxFilesPerTrigger=1) for alias in "lr"}
    frames = {alias: read_stream(spark, tmp_path / alias, SCHEMA) for alias in "lr"}
    expected, _ = run(spark, tmp_path, frames, "frames")
    found, query = run(spark, tmp_path, files, "files")
    assert found == expected
    assert found
    assert query.lastProgress["evenjoin"]["total"]["rows"] == [50, 50]
    assert run(spark, tmp_path, {"l": files["l"], "r": frames["r"]}, "mixed")[0] == expected


@pytest.mark.parametrize("place", ["executors", "driver"])
def test_the_files_that_spark_reads(place, spark, tmp_path):
    """Whatever they are called, but for names that begin with _ or a dot; or those that an option names."""
    for number, name in enumerate(["a", "b.parq", "c.parquet", "_hidden.parquet", ".dot.parquet", "_metadata"]):
        (tmp_path / "l").mkdir(exist_ok=True)
        pq.write_table(rows(10 * number, 10), tmp_path / "l" / name)
    for options, count in ({}, 30), ({"pathglobfilter": "*.parquet"}, 10):
        ours = evenjoin.parquet(spark, str(tmp_path / "l"), schema="id long", **options)
        theirs = spark.read.schema("id long").options(**options).parquet(str(tmp_path / "l"))
        joined = evenjoin.join({"l": ours, "r": ours}, on="l.id = r.id", select=["l.id"], instances=2, execution=place)
        seen = Collected()
        writer = joined.writeStream.foreachBatch(seen).option("checkpointLocation", str(tmp_path / f"ck{count}"))
        writer.trigger(availableNow=True).start().awaitTermination()
        found = [table["id"].to_pylist() for table in seen.batches.values()]
        assert [sorted(ids) for ids in found] == [sorted(row.id for row in theirs.collect())]
        assert len(found[0]) == count


def test_restart_reads_only_new_files(spark, tmp_path):
    """Which files were read is in the checkpoint."""
    for alias in "lr":
        write_batches(tmp_path / alias, [rows(0, 30)])
    files = {alias: evenjoin.parquet(spark, str(tmp_path / alias), maxFilesPerTrigger=1) for alias in "lr"}
    first, _ = run(spark, tmp_path, files, "ck")
    for alias in "lr":
        write_batches(tmp_path / alias, [rows(30, 20)], first=1)
    second, query = run(spark, tmp_path, files, "ck")
    assert query.lastProgress["evenjoin"]["total"]["rows"] == [50, 50]
    frames = {alias: read_stream(spark, tmp_path / alias, SCHEMA) for alias in "lr"}
    assert first + second == run(spark, tmp_path, frames, "frames")[0]


def test_old_files(tmp_path):
    """A column a file lacks is NULL, nanoseconds are cut, a narrower integer is widened."""
    at = pa.array([1_000_000_999], pa.timestamp("ns"))
    pq.write_table(pa.table({"id": pa.array([5], pa.int32()), "ts": at}), tmp_path / "a.parquet")
    batch = next(read_rows([Piece(f"file:{tmp_path}/a.parquet")], Reading(["id", "k", "ts"]), SCHEMA))
    assert batch.schema == pa.schema([SCHEMA.field(name) for name in ("id", "k", "ts")])
    assert batch.to_pylist()[0]["k"] is None
    assert batch.column("ts").cast(pa.int64()).to_pylist() == [1_000_000]


OLD_TIMES = ["0001-01-01 00:00:00", "1500-01-01 12:00:00.000001", "1677-09-21 00:12:43", "1969-12-31 23:59:59.999999",
             "2262-04-11 23:47:17", "9999-12-31 23:59:59.999999"]  # fmt: skip
"""Times within and outside of what 64 bits of nanoseconds can tell."""


@pytest.mark.parametrize("writer", ["spark", "pyarrow"])
def test_int96_is_read_as_spark_reads_it(writer, spark, tmp_path):
    """Spark's default form of timestamps, at the top level and nested, from the year 1 to 9999."""
    times = pa.array(OLD_TIMES).cast(pa.timestamp("us")).cast(SCHEMA.field("ts").type)
    nested = pa.ListArray.from_arrays(range(len(times) + 1), times)
    table = pa.table({"id": range(len(times)), "ts": times, "all": nested})
    if writer == "spark":
        spark.createDataFrame(table).coalesce(1).write.mode("overwrite").parquet(str(tmp_path))
    else:
        pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    (path,) = tmp_path.glob("*.parquet")
    assert "int96" in str(pq.read_metadata(path).schema).lower()
    (batch,) = read_rows([Piece(f"file:{path}")], Reading(table.schema.names), table.schema)
    wanted = spark.read.parquet(str(tmp_path)).toArrow()
    assert batch.column("ts").equals(times)
    for name in ("ts", "all"):
        assert wanted[name].cast(table.schema.field(name).type).combine_chunks().equals(batch.column(name))


def test_what_it_does_not_read(tmp_path):
    """A folder's value and a column of a type that does not fit are refused by name."""
    (tmp_path / "id=0x1").mkdir()
    pq.write_table(pa.table({"k": ["a"]}), tmp_path / "id=0x1" / "a.parquet")
    with pytest.raises(SpecError, match="id = '0x1' is not int64"):
        next(read_rows([Piece(f"file:{tmp_path}/id=0x1/a.parquet")], Reading(["id", "k"], str(tmp_path)), SCHEMA))
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "b.parquet")
    with pytest.raises(SpecError, match="column 'id' is string"):
        next(read_rows([Piece(f"file:{tmp_path}/b.parquet")], Reading(["id"]), SCHEMA))


PARTITIONED = """SELECT id, concat('v', id % 5) AS k, CAST(id % 2 AS int) AS n,
    date_add(DATE'2024-02-28', CAST(id % 3 AS int)) AS d,
    CASE WHEN id % 3 = 0 THEN NULL ELSE concat('a b/=%:ü', id % 2) END AS s, id % 2 = 0 AS b,
    TIMESTAMP'2024-05-01 12:00:01.5' AS t, CAST(id % 2 AS decimal(5, 2)) AS m FROM range(24)"""
TYPED = "id long, k string, n int, d date, s string, b boolean, t timestamp, m decimal(5,2), x int"


@pytest.mark.parametrize("place", ["executors", "driver"])
def test_partitioned_folders_as_spark_reads_them(place, spark, tmp_path):
    """Names of folders as columns: numbers, dates, times, special characters, NULL; types inferred or given; a folder
    above the base is none; restarted in the middle, when a new folder has come."""
    base = tmp_path / "x=7" / "base"
    first, second = (spark.sql(f"{PARTITIONED} WHERE {which}").coalesce(1) for which in ("id < 17", "id >= 17"))
    for alias in "lr":
        first.write.partitionBy("n", "d", "s", "b", "t", "m").parquet(str(base / alias))
    for schema in (None, TYPED):
        names = ["n", "d", "s", "b", "t", "m"] + (["x"] if schema else [])
        sides = {alias: evenjoin.parquet(spark, str(base / alias), schema, maxFilesPerTrigger=9) for alias in "lr"}
        rows, checkpoint = {}, tmp_path / f"ck{schema is None}"
        joined = evenjoin.join(
            sides, on="l.k = r.k AND l.n = r.n", select=["l.id AS a", "r.id AS b", *(f"r.{n} AS r{n}" for n in names)],
            instances=2, execution=place,
        )  # fmt: skip
        for _ in range(2):
            seen = Collected()
            writer = joined.writeStream.foreachBatch(seen).option("checkpointLocation", str(checkpoint))
            writer.trigger(availableNow=True).start().awaitTermination()
            assert not rows.keys() & seen.batches.keys()
            rows |= seen.batches
            if schema is None and _ == 0:
                for alias in "lr":
                    second.write.partitionBy("n", "d", "s", "b", "t", "m").mode("append").parquet(str(base / alias))
        reader = spark.read if schema is None else spark.read.schema(schema)
        for alias in "lr":
            reader.parquet(str(base / alias)).createOrReplaceTempView(f"side_{alias}")
        columns = ", ".join(f"r.{name} AS r{name}" for name in names)
        wanted = spark.sql(
            f"SELECT l.id AS a, r.id AS b, {columns} FROM side_l l JOIN side_r r ON l.k = r.k AND l.n = r.n"
        )
        assert multiset(pa.concat_tables(rows.values())) == multiset(wanted.toArrow())


@pytest.mark.parametrize("place", ["executors", "driver"])
def test_a_large_file_for_several_tasks_and_small_ones_for_few(place, spark, tmp_path, monkeypatch):
    """One file of 40 row groups, and 30 small files on the other side: divided, and each row read once."""
    monkeypatch.setattr(division, "LEAST", 2000)
    monkeypatch.setattr(division, "OPEN", 100)
    tasks = []
    divided = division.divided

    def watched(*arguments):
        tasks.append(divided(*arguments))
        return tasks[-1]

    monkeypatch.setattr("evenjoin.runtime.spark.in_driver.divided", watched)
    (tmp_path / "l").mkdir()
    pq.write_table(rows(0, 4000), tmp_path / "l" / "a.parquet", row_group_size=100)
    write_batches(tmp_path / "r", [rows(10 * n, 10) for n in range(30)])
    sides = {alias: evenjoin.parquet(spark, str(tmp_path / alias)) for alias in "lr"}
    joined = evenjoin.join(sides, on="l.id = r.id", select=["l.id", "r.k"], instances=2, execution=place)
    seen = Collected()
    writer = joined.writeStream.foreachBatch(seen).option("checkpointLocation", str(tmp_path / "ck"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert query.lastProgress["evenjoin"]["total"]["rows"] == [4000, 300]
    found = pa.concat_tables(seen.batches.values())
    assert sorted(found.column("id").to_pylist()) == list(range(300))
    (batch,) = tasks
    assert len(batch) == 2
    assert all(any(side == 0 for side, _ in task) for task in batch)
    assert sum(side for task in batch for side, _ in task) == 30


def test_sizes_of_row_groups(tmp_path):
    pq.write_table(rows(0, 100), tmp_path / "a.parquet", row_group_size=30)
    (sizes,) = row_groups([f"file:{tmp_path}/a.parquet"])
    assert len(sizes) == 4
    assert all(sizes)


def test_a_plain_folder_is_advised_in_one_line(spark, tmp_path, caplog):
    """The line is there for select and simple filters; not for computed columns, other sources and evenjoin.parquet."""
    for alias in "lr":
        write_batches(tmp_path / alias, [rows(0, 5)])
    right = evenjoin.parquet(spark, str(tmp_path / "r"))
    plain = read_stream(spark, tmp_path / "l", SCHEMA)
    rate = spark.readStream.format("rate").load().selectExpr("value AS id", "CAST(value AS string) AS k")
    cases = [(plain, 1), (plain.select("id", "k"), 1), (plain.where("id > 2 AND k IS NOT NULL"), 1), (rate, 0),
             (plain.selectExpr("id + 1 AS id", "k"), 0), (plain.where("upper(k) = 'A'"), 0), (right, 0)]  # fmt: skip
    for left, lines in cases:
        caplog.clear()
        with caplog.at_level(logging.WARNING, "evenjoin"):
            evenjoin.join({"l": left, "r": right}, on="l.k = r.k", select=["l.id"])
        told = [line for line in caplog.messages if "evenjoin.parquet(" in line]
        assert len(told) == lines
        assert all(repr(str(tmp_path / "l")) in line and "'l'" in line for line in told)


def in_driver_of(paths):
    """The driver's place for a self-join of some files."""
    slots = SimpleNamespace(files=(Reading(["id"]), Reading(["id"])))
    offsets = SimpleNamespace(files=lambda batch, sides: [paths, paths])
    return InDriver(None, None, slots, offsets)


def test_the_size_of_a_self_join_counts_a_file_for_each_side(tmp_path):
    write_batches(tmp_path, [rows(0, 30), rows(30, 20)])
    size = in_driver_of([f"file:{path}" for path in sorted(tmp_path.iterdir())]).known(0, 1 << 20)
    assert size.rows == 100
    assert size.bytes > 100 * 8


def test_footers_are_read_several_at_a_time_or_not_at_all(tmp_path, monkeypatch):
    """Files that are larger than the driver takes are not looked into."""
    write_batches(tmp_path, [rows(n, 1) for n in range(4)])
    paths = [f"file:{path}" for path in sorted(tmp_path.iterdir())]
    read, seen, at_once = files._footer, [], Barrier(4)

    def together(path):
        seen.append(path)
        at_once.wait(30)
        return read(path)

    monkeypatch.setattr(files, "_footer", together)
    stored = 2 * sum(path.stat().st_size for path in tmp_path.iterdir())
    assert in_driver_of(paths).known(0, stored - 1) == Size(0, stored)
    assert seen == []
    assert in_driver_of(paths).known(0, stored).rows == 8
    assert sorted(seen) == sorted(paths * 2)
