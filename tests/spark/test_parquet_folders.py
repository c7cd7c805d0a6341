"""Parquet folders read by the dispatch tasks: the same rows as Spark's own reader, with its view of old files."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenjoin
from evenjoin.errors import SpecError
from evenjoin.runtime.spark.files import read_rows
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
    batch = next(read_rows([f"file:{tmp_path}/a.parquet"], ["id", "k", "ts"], SCHEMA))
    assert batch.schema == pa.schema([SCHEMA.field(name) for name in ("id", "k", "ts")])
    assert batch.to_pylist()[0]["k"] is None
    assert batch.column("ts").cast(pa.int64()).to_pylist() == [1_000_000]


def test_what_it_does_not_read(tmp_path):
    """A column in a folder's name, and a type that does not fit, are refused by name."""
    (tmp_path / "k=1").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "k=1" / "a.parquet")
    with pytest.raises(SpecError, match="'k' is in the folder's name"):
        next(read_rows([f"file:{tmp_path}/k=1/a.parquet"], ["id", "k"], SCHEMA))
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "b.parquet")
    with pytest.raises(SpecError, match="column 'id' is string"):
        next(read_rows([f"file:{tmp_path}/b.parquet"], ["id"], SCHEMA))
