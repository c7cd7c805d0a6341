"""Every case on real Spark: one parquet file per step and side, restarts from the checkpoint where a case has them."""

from __future__ import annotations

from collections import Counter

import pytest
from harness import CASES, EAGER, SIZED, has_equality, read_case, reason_to_wait, strategies

import evenjoin
from evenjoin.testing import multiset
from spark_streams import Collected, read_stream, write_batches

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")]

UPSTREAM = "spark.inner.join_after_window_agg"
RUNNABLE = [case for case in CASES if reason_to_wait(case) is None and case["name"] != UPSTREAM]
QUICK = ("pathway.band.asym_-1_+2", "duckdb.theta.two_inequalities_nulls")
"""Cases that run under further strategies each time; the others do in the slow tests."""


def with_strategies():
    for case in RUNNABLE:
        yield pytest.param(case, None, id=case["name"])
        for strategy in _besides(case):
            slow = [] if case["name"] in QUICK else [pytest.mark.slow]
            yield pytest.param(case, strategy, id=f"{case['name']}-{strategy}", marks=slow)


def _besides(case):
    """The strategies under which a case runs besides the default."""
    if case.get("third"):
        return [strategy for strategy in strategies(case) if strategy is not None]
    return () if has_equality(case) else SIZED


@pytest.mark.parametrize(("case", "strategy"), list(with_strategies()))
def test_case(case, strategy, spark, tmp_path):
    """The same rows as on the embedded engine, step by step."""
    run = read_case(case)
    options = run.options | ({"strategy": strategy, "guards": EAGER} if strategy else {})
    sink, instances, done = Collected(), 2, 0
    parts = _between_restarts(run.steps)
    for part in parts:
        instances += 1 if part[0].rescale else 0
        for alias, schema in run.schemas.items():
            write_batches(tmp_path / alias, [step.rows.get(alias, schema.empty_table()) for step in part], done)
        done += len(part)
        sides = {alias: read_stream(spark, tmp_path / alias, schema) for alias, schema in run.schemas.items()}
        joined = evenjoin.join(sides, on=run.on, select=run.select, instances=instances, **options)
        writer = joined.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "ck"))
        writer.trigger(availableNow=True).start().awaitTermination()
    for number, step in enumerate(run.steps):
        if step.new is not None:
            assert multiset(sink.batches[number]) == step.new
    assert sum((multiset(table) for table in sink.batches.values()), Counter()) == run.expected


def _between_restarts(steps):
    parts = [[]]
    for step in steps:
        if step.restart and parts[-1]:
            parts.append([])
        parts[-1].append(step)
    return parts


def test_join_after_window_aggregation(spark, tmp_path):
    """spark.inner.join_after_window_agg: Spark's own streaming aggregation on each side, then the join."""
    case = next(case for case in CASES if case["name"] == UPSTREAM)
    import pyarrow as pa

    schema = pa.schema([("t", pa.int64()), ("v", pa.int64())])
    sides = {}
    for alias, side in (("l", "left"), ("r", "right")):
        steps = [pa.Table.from_pylist(step[side], schema) for step in case["steps"]]
        write_batches(tmp_path / alias, steps)
        stream = read_stream(spark, tmp_path / alias, schema).selectExpr("timestamp_seconds(t) AS ts", "v")
        sides[alias] = _summed(stream)
    joined = evenjoin.join(sides, on="l.wend = r.wend", select=["l.wend", "l.total AS a", "r.total AS b"], instances=2)
    sink = Collected()
    query = joined.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "ck"))
    query.trigger(availableNow=True).start().awaitTermination()
    got = Counter(
        (row[0].second, row[1], row[2]) for table in sink.batches.values() for row in multiset(table).elements()
    )
    assert got == Counter(tuple(row) for row in case["expected"])


def _summed(stream):
    from pyspark.sql import functions as sf

    windowed = stream.withWatermark("ts", "5 seconds").groupBy(sf.window("ts", "10 seconds"))
    return windowed.agg(sf.sum("v").alias("total")).select(sf.col("window.end").alias("wend"), "total")
