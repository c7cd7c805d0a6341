"""Spark's own part of the checkpoint deleted, rolled back or swapped: the right answer or an error, never less."""

from __future__ import annotations

import shutil
from collections import Counter

import pyarrow as pa
import pytest

import evenjoin
from evenjoin.commit.repair import take_back
from evenjoin.state.files import open_folder
from evenjoin.testing import Hooks, multiset
from spark_streams import Collected, read_stream, write_batches

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")]

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64())])


def arrive(folder, numbers):
    """One file a number and side, with one row of key 0: every l joins every r."""
    for side in "lr":
        for n in numbers:
            write_batches(folder / side, [pa.table([[n], [0]], schema=SCHEMA)], n)


def run(spark, folder, sink, limit=1, step=None):
    """Join what is there on the checkpoint, until nothing is left."""
    sides = {side: read_stream(spark, folder / side, SCHEMA, limit) for side in "lr"}
    hooks = Hooks(step=step) if step else None
    joined = evenjoin.join(sides, on="l.k = r.k", select=["l.id AS a", "r.id AS b"], instances=2, hooks=hooks)
    writer = joined.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "ck"))
    writer.trigger(availableNow=True).start().awaitTermination()


def total(sink):
    return sum((multiset(table) for table in sink.batches.values()), Counter())


def all_pairs(count):
    return Counter((a, b) for a in range(count) for b in range(count))


def test_spark_deleted_and_another_limit(spark, tmp_path):
    """Batch 0 would now hold twice as much, and be left out as committed already: an error that says what happened, at
    every start, and nothing is written."""
    sink = Collected()
    arrive(tmp_path, range(2))
    run(spark, tmp_path, sink)
    arrive(tmp_path, range(2, 4))
    shutil.rmtree(tmp_path / "ck/spark")
    for _ in range(2):
        with pytest.raises(evenjoin.StateCorruptionError, match=r"batch 0 held other data.*deleted.*Restore spark/"):
            run(spark, tmp_path, sink, limit=2)
    assert total(sink) == all_pairs(2)


def test_spark_deleted_and_the_same_data_again(spark, tmp_path):
    """Spark plans the same files under the same numbers: they are left out, and what is new is joined."""
    sink = Collected()
    arrive(tmp_path, range(2))
    run(spark, tmp_path, sink)
    arrive(tmp_path, [2])
    shutil.rmtree(tmp_path / "ck/spark")
    run(spark, tmp_path, sink)
    assert total(sink) == all_pairs(3)


@pytest.mark.parametrize("limit", [1, 3])
def test_spark_rolled_back_to_a_copy(limit, spark, tmp_path):
    """New files have arrived. One at a time the old ones come first again, under their numbers; three at a time old and
    new ones would share a number."""
    sink = Collected()
    arrive(tmp_path, range(1))
    run(spark, tmp_path, sink)
    shutil.copytree(tmp_path / "ck/spark", tmp_path / "copy")
    arrive(tmp_path, range(1, 3))
    run(spark, tmp_path, sink)
    shutil.rmtree(tmp_path / "ck/spark")
    shutil.move(tmp_path / "copy", tmp_path / "ck/spark")
    arrive(tmp_path, range(3, 4))
    if limit == 1:
        run(spark, tmp_path, sink)
        assert total(sink) == all_pairs(4)
    else:
        with pytest.raises(evenjoin.StateCorruptionError, match="batch 1 held other data"):
            run(spark, tmp_path, sink, limit)
        assert total(sink) == all_pairs(3)


def test_offsets_of_another_batch(spark, tmp_path):
    """With the offsets of batch 0 in the place of those of batch 1, Spark would read the files of batch 1 twice."""
    sink = Collected()
    arrive(tmp_path, range(2))
    run(spark, tmp_path, sink)
    offsets = tmp_path / "ck/spark/offsets"
    shutil.copy(offsets / "0", offsets / "1")
    shutil.copy(offsets / ".0.crc", offsets / ".1.crc")
    arrive(tmp_path, [2])
    with pytest.raises(evenjoin.StateCorruptionError, match="batch 1 held other data"):
        run(spark, tmp_path, sink)
    assert total(sink) == all_pairs(2)


@pytest.mark.parametrize("step", ["executed", "committed"])
def test_a_crash_and_a_restart_go_on(step, spark, tmp_path):
    """Before the commit batch 1 is joined again, after it it is left out; both times Spark reads with another limit by
    then, which is for new batches only."""
    sink = Collected()
    arrive(tmp_path, range(2))

    def crash(name, batch):
        if (name, batch) == (step, 1):
            raise RuntimeError("the machine is gone")

    with pytest.raises(Exception, match="the machine is gone"):
        run(spark, tmp_path, sink, step=crash)
    arrive(tmp_path, range(2, 4))
    run(spark, tmp_path, sink, limit=2)
    assert total(sink) == all_pairs(4)
    assert sorted(sink.batches) == [0, 1, 2]


def test_a_commit_that_is_taken_back_is_replayed(spark, tmp_path):
    """`evenjoin repair --back`: Spark gives the batch again, the sink replaces it, and new files follow."""
    seen = Collected()
    arrive(tmp_path, range(3))
    run(spark, tmp_path, seen)
    assert take_back(open_folder(str(tmp_path / "ck"))).batch == 2
    seen.batches[2] = None
    arrive(tmp_path, [3])
    run(spark, tmp_path, seen)
    assert total(seen) == all_pairs(4)
