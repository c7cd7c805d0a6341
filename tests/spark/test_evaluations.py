"""Only one evaluation counts, on real Spark: results read twice, or in part, or by tasks that outlive their query; rows
in another order at each reading; shuffle files that are lost."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.errors import EvaluationError
from evenjoin.spec import build_spec
from evenjoin.testing import Hooks, brute_force, multiset
from spark_streams import Collected, Twice, permuted, read_stream, unsteady, write_batches

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")]

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
SCHEMAS = {"l": SCHEMA, "r": SCHEMA}
ON, SELECT = "l.k = r.k", ["l.k AS k", "l.v AS a", "r.v AS b"]


def make(folder, batches=3, rows=80, seed=1):
    """Two streams with many equal rows; the whole input."""
    rng = np.random.default_rng(seed)
    whole = {}
    for alias in "lr":
        tables = [pa.table([rng.integers(0, 8, rows), rng.integers(0, 5, rows)], schema=SCHEMA) for _ in range(batches)]
        write_batches(folder / alias, tables)
        whole[alias] = pa.concat_tables(tables)
    return whole


def joined(spark, folder, upstream=lambda frame: frame, **more):
    sides = {alias: upstream(read_stream(spark, folder / alias, SCHEMA)) for alias in "lr"}
    return evenjoin.join(
        sides, on=ON, select=SELECT, execution="executors", **{"strategy": "random", "instances": 3, **more}
    )


def start(join, folder, sink):
    writer = join.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "ck"))
    return writer.trigger(availableNow=True).start()


def expected(whole):
    return brute_force(build_spec(SCHEMAS, ON, select=SELECT), whole)


@pytest.mark.parametrize("upstream", [lambda frame: frame, permuted], ids=["fixed", "permuted"])
def test_a_function_that_counts_and_then_writes(spark, tmp_path, upstream):
    """Two evaluations of each batch, the rows perhaps in another order: the receipts of both agree."""
    whole, seen = make(tmp_path), Twice()
    start(joined(spark, tmp_path, upstream), tmp_path, seen).awaitTermination()
    assert multiset(pa.concat_tables(seen.batches.values())) == expected(whole)


def test_a_function_that_looks_at_one_row(spark, tmp_path):
    """Instances that nobody read are run on the side, in another order of rows: later batches find all state."""
    whole, seen = make(tmp_path), Collected()

    def sink(frame, batch):
        if batch == 2:
            seen(frame, batch)
        else:
            assert frame.limit(1).toArrow().num_rows == 1

    start(joined(spark, tmp_path, permuted), tmp_path, sink).awaitTermination()
    before = {alias: table.slice(0, 160) for alias, table in whole.items()}
    assert multiset(seen.batches[2]) == expected(whole) - expected(before)


def test_values_that_change_at_each_reading_are_an_error(spark, tmp_path):
    """Nothing is committed, and the error says what to do; doing it (`persist`) gives state and output that agree."""
    make(tmp_path, batches=1)
    query = start(joined(spark, tmp_path, unsteady), tmp_path, lambda frame, batch: (frame.count(), frame.count()))
    with pytest.raises(EvaluationError, match=r"batch 0 was not committed.*df\.persist\(\)"):
        query.awaitTermination()
    rows = []

    def kept(frame, batch):
        frame.persist()
        rows.append((frame.count(), frame.toArrow().num_rows))
        frame.unpersist()

    query = start(joined(spark, tmp_path, unsteady), tmp_path, kept)
    query.awaitTermination()
    assert rows == [(query.load().matches, query.load().matches)]


def test_a_sink_that_replaces_gets_another_try(spark, tmp_path):
    """The first try is torn: an instance leaves a receipt that read something else. The second one is committed."""
    whole, torn = make(tmp_path, batches=1), tmp_path / "torn"

    def tear(step, instance, folder=str(tmp_path / "ck" / "receipts" / "0")):
        if step == "receipt" and instance == 1 and not torn.exists():
            torn.touch()
            (mark,) = os.listdir(folder)
            (mine,) = [name for name in os.listdir(f"{folder}/{mark}") if name.startswith("1-")]
            data = Path(folder, mark, mine).read_bytes()
            Path(folder, mark, f"1-{7:016x}-{7:016x}-other.json").write_bytes(data)

    join = joined(spark, tmp_path, hooks=Hooks(worker_step=tear))
    writer = join.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "ck"))
    writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    assert torn.exists()
    assert multiset(spark.read.parquet(str(tmp_path / "out" / "batch_id=0")).toArrow()) == expected(whole)


def test_lost_shuffle_files_are_made_again(spark, tmp_path):
    """Deleted when the first instance has finished: Spark runs dispatch again, finds the same rows, and goes on."""
    whole, seen, lost = make(tmp_path, batches=2), Collected(), tmp_path / "lost"
    local = spark.conf.get("spark.local.dir")

    def lose(step, instance):
        if step == "receipt" and instance == 0 and not lost.exists():
            lost.touch()
            for path in Path(local).rglob("shuffle_*"):
                path.unlink(missing_ok=True)

    join = joined(spark, tmp_path, instances=4, hooks=Hooks(worker_step=lose))
    start(join, tmp_path, seen).awaitTermination()
    assert lost.exists()
    assert multiset(pa.concat_tables(seen.batches.values())) == expected(whole)


@pytest.mark.parametrize("instances", [3, 2], ids=["as before", "on fewer instances"])
def test_tasks_that_outlive_their_query_are_not_believed(spark, tmp_path, instances):
    """Stopped while its tasks are slow, and started again at once: what the old tasks still report is not read."""
    whole, seen, slow = make(tmp_path), Collected(), tmp_path / "slow"

    def linger(step, instance):
        if step == "sealed":
            slow.touch()
            time.sleep(1.5)

    first = start(joined(spark, tmp_path, hooks=Hooks(worker_step=linger)), tmp_path, Collected())
    while not slow.exists() and first.isActive:
        time.sleep(0.01)
    first.stop()
    start(joined(spark, tmp_path, instances=instances), tmp_path, seen).awaitTermination()
    time.sleep(1.6)
    assert sum((multiset(table) for table in seen.batches.values()), Counter()) == expected(whole)
    assert set(seen.batches) == {0, 1, 2}
