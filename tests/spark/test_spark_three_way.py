"""Joins of three sides on real Spark: every program, with and without a hop, against the brute-force join."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

import evenjoin
from evenjoin.spec import build_spec
from evenjoin.testing import brute_force, multiset
from spark_streams import DISORDER, TRIPLE, TRIPLES, Collected, read_stream, triple_streams, triples, write_batches

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")]

SELECT = ["r.id AS a", "s.id AS b", "t.id AS c", "s.name", "t.v"]
BOUNDS = "s.ts BETWEEN r.ts - 2 AND r.ts + 1 AND t.ts BETWEEN s.ts - 1 AND s.ts + 3"
COMMON = "r.i = s.i AND s.i = t.i"
TRIANGLE = "r.i = s.i AND s.n = t.n AND r.n = t.i"
CYCLE = "abs(r.i - s.i) <= 1 AND abs(s.n - t.n) < 2 AND abs(r.n - t.i) <= 1"
CHAIN = "abs(r.i - s.i) <= 1 AND abs(s.n - t.n) <= 1"
TIMED = {"event_time": "ts", "watermark": DISORDER}


@dataclass(frozen=True)
class Shape:
    """One join, and how it is run."""

    on: str
    strategy: str
    instances: int
    layout: str = "shared"
    options: dict[str, Any] = field(default_factory=dict)


SHAPES = {
    "common key, hash": Shape(COMMON, "hash", 3),
    "common key, bounds, hash": Shape(f"{COMMON} AND {BOUNDS} AND r.v <= t.v", "hash", 2, "shared", TIMED),
    "triangle, hypercube": Shape(TRIANGLE, "hypercube", 8),
    "triangle, bounds, hypercube": Shape(f"{TRIANGLE} AND {BOUNDS}", "hypercube", 4, "shared", TIMED),
    "cyclic bands, trijoin": Shape(CYCLE, "trijoin", 3, "split"),
    "cyclic bands, bounds, trijoin of pairs": Shape(
        f"{CYCLE} AND {BOUNDS}", "trijoin(packing=paired)", 2, "shared", TIMED
    ),
    "chain of bands, trijoin": Shape(CHAIN, "trijoin(units=1:2:1)", 4, "split"),
    "chain, bounds, trijoin from the other end": Shape(
        f"r.name = s.name AND s.i = t.i AND {BOUNDS} AND r.v + s.v > t.v", "trijoin(forward=t)", 3, "split", TIMED
    ),
    "chain whose middle comes last, windows, trijoin": Shape(
        "abs(r.i - t.i) <= 1 AND s.n = t.n", "trijoin", 2, "shared", {**TIMED, "window": evenjoin.sliding(4, 2)}
    ),
    "chain of bands, tree": Shape(CHAIN, "tree", 4, "split"),
    "chain, bounds, tree": Shape(f"{CHAIN} AND {BOUNDS}", "tree(last=r)", 2, "shared", TIMED),
    "a side that nothing drives, tree": Shape("r.i = s.i AND t.v <> r.v AND s.v > 2", "tree", 3),
}


@pytest.mark.parametrize(("seed", "name"), list(enumerate(SHAPES)), ids=list(SHAPES))
def test_the_answer_of_brute_force(seed, name, spark, tmp_path):
    """Three batches of each shape of join: every result once."""
    shape, seen = SHAPES[name], Collected()
    whole = triples(tmp_path, seed=seed)
    joined = evenjoin.join(
        triple_streams(spark, tmp_path), on=shape.on, select=SELECT, strategy=shape.strategy,
        instances=shape.instances, layout=shape.layout, **shape.options,
    )  # fmt: skip
    writer = joined.writeStream.foreachBatch(seen).option("checkpointLocation", str(tmp_path / "ck"))
    writer.trigger(availableNow=True).start().awaitTermination()
    expected = brute_force(build_spec(TRIPLES, shape.on, select=SELECT, **shape.options), whole)
    assert multiset(pa.concat_tables(seen.batches.values())) == expected
    assert len(expected) > 20


def run(joined, folder, sink, name="ck"):
    writer = joined.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / name))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def test_sides_from_sources_of_three_kinds(spark, tmp_path):
    """Parquet files read by the dispatch tasks, two of Spark's files a trigger, and Spark's rate source."""
    whole, seen = triples(tmp_path, batches=4), Collected()
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 40).option("startTimestamp", 0).load()
    columns = ["value AS id", "value % 14 AS i", "value * 3 % 14 AS n", "'b' AS name", "value % 5 AS v", "value AS ts"]
    sides = {
        "r": evenjoin.parquet(spark, str(tmp_path / "r"), maxFilesPerTrigger=1),
        "s": read_stream(spark, tmp_path / "s", TRIPLE, limit=2),
        "t": rate.selectExpr(*columns),
    }
    numbers = range(40)
    whole["t"] = pa.table(
        [list(numbers), [n % 14 for n in numbers], [n * 3 % 14 for n in numbers], ["b"] * 40, [n % 5 for n in numbers],
         list(numbers)], schema=TRIPLE,
    )  # fmt: skip
    query = run(evenjoin.join(sides, on=CHAIN, select=SELECT, strategy="trijoin", instances=2), tmp_path, seen)
    assert multiset(pa.concat_tables(seen.batches.values())) == brute_force(
        build_spec(TRIPLES, CHAIN, select=SELECT), whole
    )
    assert query.lastProgress["evenjoin"]["total"]["rows"] == [120, 90, 40]


def test_late_rows_of_the_side_that_enters_at_the_second_hop(spark, tmp_path):
    """They go to the folder of late rows at the first hop, once, and join with nothing."""
    rows = {"r": [(0, 10), (1, 30)], "s": [(0, 10), (1, 30)], "t": [(0, 10), (1, 30), (2, 3), (3, 30)]}
    for alias, some in rows.items():
        tables = [pa.table([[id_], [1], [1], ["b"], [1], [ts]], schema=TRIPLE) for id_, ts in some]
        write_batches(tmp_path / alias, tables)
    seen = Collected()
    joined = evenjoin.join(
        triple_streams(spark, tmp_path), on=f"r.i = s.i AND s.n = t.n AND {BOUNDS}", select=SELECT,
        strategy="tree(last=t)", late=str(tmp_path / "late"), **TIMED,
    )  # fmt: skip
    query = run(joined, tmp_path, seen)
    found = multiset(pa.concat_tables(seen.batches.values()))
    assert sorted(row[:3] for row in found.elements()) == [(0, 0, 0), (1, 1, 1), (1, 1, 3)]
    assert query.lastProgress["evenjoin"]["total"]["late"] == [0, 0, 1]
    assert [row.id for row in spark.read.parquet(str(tmp_path / "late" / "t")).collect()] == [2]


def test_a_restart_with_another_strategy(spark, tmp_path):
    """From packs to pairs, then to a strategy without intermediate results; the way back is refused in words. The
    handle tells of packs, hubs and waiting as long as there are any."""
    whole, seen = triples(tmp_path, batches=1), Collected()

    def go_on(strategy):
        sides = triple_streams(spark, tmp_path)
        on = f"{CHAIN} AND {BOUNDS}"
        return evenjoin.join(sides, on=on, select=SELECT, strategy=strategy, instances=3, layout="shared", **TIMED)

    for number, strategy in enumerate(["trijoin", "trijoin(packing=paired)", "hypercube"]):
        if number:
            more = triples(tmp_path / "more", batches=1, seed=number)
            for alias, table in more.items():
                later = table.set_column(5, "ts", pa.array([ts + number * 3 for ts in table["ts"].to_pylist()]))
                write_batches(tmp_path / alias, [later], first=number)
                whole[alias] = pa.concat_tables([whole[alias], later])
        query = run(go_on(strategy), tmp_path, seen)
        told, loads = query.lastProgress["evenjoin"], query.load().instances
        assert bool(told["packs"][2]) == bool(told["hubs"]) == any(load.packs for load in loads) == (number < 2)
        assert (told["waited_ms"] > 0) == (number < 2)
    expected = brute_force(build_spec(TRIPLES, f"{CHAIN} AND {BOUNDS}", select=SELECT, **TIMED), whole)
    assert multiset(pa.concat_tables(seen.batches.values())) == expected
    write_batches(tmp_path / "r", [whole["r"].slice(0, 0)], first=3)
    with pytest.raises(evenjoin.SpecError, match="keeps no intermediate results"):
        run(go_on("trijoin"), tmp_path, seen)
