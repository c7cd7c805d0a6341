"""The user's view of a join on Spark: writers, sinks, handles, restarts and refusals."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime, timezone

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.spec import build_spec
from evenjoin.testing import brute_force, multiset
from spark_streams import Collected, read_stream, write_batches

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")]

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.float64())])
SCHEMAS = {"l": SCHEMA, "r": SCHEMA}
ON = "l.k = r.k AND r.ts BETWEEN l.ts - INTERVAL 2 SECONDS AND l.ts + INTERVAL 2 SECONDS"
OPTIONS = {"event_time": "ts", "watermark": "1 second", "select": ["l.id AS a", "r.id AS b", "l.k", "r.v"]}


def make(folder, batches=3, rows=60, seed=1):
    """Two streams of `batches` files; returns the whole input."""
    rng = np.random.default_rng(seed)
    whole = {}
    for alias in "lr":
        tables = []
        for b in range(batches):
            ts = pa.array(b * 1_000_000 + rng.integers(0, 1_000_000, rows)).cast(SCHEMA.field("ts").type)
            keys = pa.array([None if k == 9 else f"key-{k}" for k in rng.integers(0, 10, rows)])
            tables.append(pa.table([np.arange(b * rows, (b + 1) * rows), keys, ts, rng.random(rows)], schema=SCHEMA))
        write_batches(folder / alias, tables)
        whole[alias] = pa.concat_tables(tables)
    return whole


def sides(spark, folder):
    return {alias: read_stream(spark, folder / alias, SCHEMA) for alias in "lr"}


def expected(whole):
    return brute_force(build_spec(SCHEMAS, ON, **OPTIONS), whole)


def start(joined, folder, sink, **trigger):
    writer = joined.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "ck"))
    return writer.trigger(**(trigger or {"availableNow": True})).start()


def total(sink):
    return sum((multiset(table) for table in sink.batches.values()), Counter())


@pytest.mark.parametrize("seed", range(4))
def test_same_answer_while_strategy_and_size_change(seed, spark, tmp_path):
    """One checkpoint restarted under other strategies, layouts and sizes: the brute-force result, nothing twice."""
    rng = np.random.default_rng(seed)
    sink, whole = Collected(), {alias: [] for alias in "lr"}
    for restart in range(3):
        for alias in "lr":
            part = make(tmp_path / f"part{restart}", batches=1, rows=80, seed=seed * 10 + restart)[alias]
            shift = pa.array(np.full(80, restart * 1_000_000)).cast(pa.duration("us"))
            ids = pa.array(np.arange(80) + restart * 80)
            part = part.set_column(0, "id", ids).set_column(2, "ts", pa.compute.add(part["ts"], shift))
            write_batches(tmp_path / alias, [part.cast(SCHEMA)], restart)
            whole[alias].append(part)
        strategy = ["hash", "random", "contrand(groups=2)"][rng.integers(3)]
        joined = evenjoin.join(
            sides(spark, tmp_path), on=ON, strategy=strategy, instances=int(rng.integers(4, 7)),
            layout=["shared", "split"][rng.integers(2)], **OPTIONS,
        )  # fmt: skip
        query = start(joined, tmp_path, sink)
        query.awaitTermination()
    assert total(sink) == expected({alias: pa.concat_tables(parts) for alias, parts in whole.items()})


def test_migrations_are_told(spark, tmp_path):
    """A restart with another number of instances is a migration, with what moved and how long it took."""
    make(tmp_path, batches=1)
    start(
        evenjoin.join(sides(spark, tmp_path), on=ON, instances=2, **OPTIONS), tmp_path, Collected()
    ).awaitTermination()
    more = make(tmp_path / "more", batches=1, seed=2)
    for alias in "lr":
        write_batches(tmp_path / alias, [more[alias]], 1)
    query = start(evenjoin.join(sides(spark, tmp_path), on=ON, instances=3, **OPTIONS), tmp_path, Collected())
    query.awaitTermination()
    (event,) = query.migrations()
    assert (event.batch, event.source, event.target) == (1, "auto/shared on 2", "auto/shared on 3")
    assert event.tuples > 0
    assert event.pause_ms > 0
    assert query.table().instances == 3
    check_shown(query)


def check_shown(query):
    """A query shows itself: its state, the totals of each side, and a row for each instance."""
    text, page, told = str(query), query._repr_html_(), query.progress()
    assert text.startswith("EvenJoin, ended")
    for alias, rows in zip("lr", told.total.rows, strict=True):
        assert re.search(rf"^{alias} +{rows:,} ", text, re.MULTILINE)
        assert f'">{alias}</td><td style="text-align:right">{rows:,}</td>' in page
    assert f"{told.total.results:,} results, 1 rebalances" in text
    assert f"{told.total.results:,} results, 1 rebalances" in page
    assert re.findall(r"^([0-9]) ", text, re.MULTILINE)[:3] == ["0", "1", "2"]


def test_a_function_that_takes_only_some_rows_loses_no_state(spark, tmp_path):
    """foreachBatch with limit(1) leaves instances unread: the driver runs them, later batches join with all."""
    whole = make(tmp_path, batches=2)
    seen = Collected()

    def picky(frame, batch):
        if batch == 0:
            frame.limit(1).collect()
        else:
            seen(frame, batch)

    start(evenjoin.join(sides(spark, tmp_path), on=ON, instances=3, **OPTIONS), tmp_path, picky).awaitTermination()
    old = {alias: table.slice(0, 60) for alias, table in whole.items()}
    assert total(seen) == expected(whole) - expected(old)


def test_parquet_sink_and_progress(spark, tmp_path):
    """One folder per batch, readable as one data set; the handle tells load, late tuples and imbalance."""
    whole = make(tmp_path)
    joined = evenjoin.join(sides(spark, tmp_path), on=ON, instances=2, **OPTIONS)
    writer = joined.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    query = writer.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True).start()
    query.awaitTermination()
    found = spark.read.parquet(str(tmp_path / "out")).drop("batch_id").toArrow()
    assert multiset(found) == expected(whole)
    told = query.lastProgress["evenjoin"]
    assert told["total"]["rows"] == [180, 180]
    assert told["total"]["results"] == found.num_rows
    assert told["late"] == [0, 0]
    assert len(query.load().instances) == 2
    assert query.load().heavy[0].name.startswith("key-")


def test_struct_columns_without_select(spark, tmp_path):
    """Without select one struct column per alias, so df.select("l.id") reads as in Spark."""
    make(tmp_path, batches=1, rows=10)
    rows = []
    joined = evenjoin.join(sides(spark, tmp_path), on="k", instances=2)
    assert [f.name for f in joined.schema.fields] == ["l", "r"]
    start(joined, tmp_path, lambda df, b: rows.extend(df.select("l.id", "r.v", "l.ts").collect())).awaitTermination()
    assert rows
    assert isinstance(rows[0]["ts"], datetime)


def test_memory_sink(spark, tmp_path):
    """format("memory") fills a temporary view."""
    whole = make(tmp_path, batches=2)
    joined = evenjoin.join(sides(spark, tmp_path), on=ON, instances=2, **OPTIONS)
    joined.writeStream.format("memory").queryName("joined").trigger(availableNow=True).start().awaitTermination()
    assert multiset(spark.table("joined").toArrow()) == expected(whole)


def test_late_rows_to_a_path(spark, tmp_path):
    """Late rows are dropped from the join, counted, and written whole to the side output."""
    early, late = ([(1, "a", _at(10), 0.5)], [(2, "a", _at(3), 1.5), (3, "a", _at(10), 2.5)])
    for alias in "lr":
        write_batches(tmp_path / alias, [_table(early), _table(late)])
    joined = evenjoin.join(
        sides(spark, tmp_path), on=ON, event_time="ts", watermark="1 second", select=["l.id AS a", "r.id AS b"],
        instances=2, late=str(tmp_path / "late"),
    )  # fmt: skip
    sink = Collected()
    query = start(joined, tmp_path, sink)
    query.awaitTermination()
    assert total(sink) == Counter([(1, 1), (1, 3), (3, 1), (3, 3)])
    assert query.lastProgress["evenjoin"]["total"]["late"] == [1, 1]
    rows = spark.read.parquet(str(tmp_path / "late" / "l")).drop("batch_id").collect()
    assert [(r.id, r.k, r.v) for r in rows] == [(2, "a", 1.5)]


def _at(second):
    return datetime.fromtimestamp(second, timezone.utc)


def _table(rows):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def test_refused_at_definition(spark, tmp_path):
    """What cannot run is refused before anything starts, with the engine's own errors."""
    make(tmp_path, batches=1)
    both = sides(spark, tmp_path)
    with pytest.raises(evenjoin.ConditionError, match="nope"):
        evenjoin.join(both, on="l.k = r.nope")
    with pytest.raises(evenjoin.ConditionError):
        evenjoin.join(both, on="l.k + r.id")
    with pytest.raises(evenjoin.SpecError, match="event"):
        evenjoin.join(both, on="l.k = r.k", window=evenjoin.tumbling("5 seconds"))
    with pytest.raises(evenjoin.SpecError, match="readStream"):
        evenjoin.join({"l": spark.range(1), "r": both["r"]}, on="l.id = r.id")
    joined = evenjoin.join(both, on=ON, **OPTIONS)
    with pytest.raises(evenjoin.SpecError, match="append"):
        joined.writeStream.outputMode("complete")
    with pytest.raises(evenjoin.SpecError, match="checkpoint"):
        joined.writeStream.format("parquet").start(str(tmp_path / "out"))
    with pytest.raises(evenjoin.SpecError, match="unknown format"):
        joined.writeStream.format("carrier-pigeon").start()


def test_checkpoint_refusals(spark, tmp_path):
    """Another join on the checkpoint, a second query on it, and a damaged segment each have their error."""
    make(tmp_path, batches=1)
    both = sides(spark, tmp_path)
    joined = evenjoin.join(both, on=ON, **OPTIONS)
    running = start(joined, tmp_path, Collected(), processingTime="1 second")
    with pytest.raises(evenjoin.CheckpointInUseError):
        start(joined, tmp_path, Collected())
    running.processAllAvailable()
    running.stop()
    with pytest.raises(evenjoin.CheckpointMismatchError, match="condition"):
        start(evenjoin.join(both, on="l.id = r.id", **OPTIONS), tmp_path, Collected())
    for segment in (tmp_path / "ck" / "segments").rglob("*.arrow"):
        damaged = bytearray(segment.read_bytes())
        damaged[len(damaged) // 2] ^= 0xFF
        segment.write_bytes(damaged)
    more = make(tmp_path / "more", batches=1, seed=2)
    for alias in "lr":
        write_batches(tmp_path / alias, [more[alias]], 1)
    with pytest.raises(evenjoin.StateCorruptionError, match=r"segments/0/.*\.arrow"):
        start(evenjoin.join(sides(spark, tmp_path), on=ON, **OPTIONS), tmp_path, Collected()).awaitTermination()
