"""Only one evaluation counts, for programs with a second hop: results read twice or in part, rows in another order at
each reading, files of either shuffle that are lost, tasks of either hop that fail or are killed."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

import evenjoin
from evenjoin.errors import EvaluationError
from evenjoin.spec import build_spec
from evenjoin.testing import Hooks, brute_force, multiset
from spark_streams import TRIPLES, Collected, Twice, permuted, triple_streams, triples, unsteady

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")]

ON = "abs(r.i - s.i) <= 1 AND abs(s.n - t.n) <= 1 AND r.v <> t.v"
SELECT = ["r.i AS a", "s.v AS b", "t.v AS c", "s.name"]
HOPS = ["trijoin", "tree"]
TREE_SLOW = ["trijoin", pytest.param("tree", marks=pytest.mark.slow)]
"""Where both go the same way, the quick tests have one of them."""
FEW = {"trijoin": 16, "tree": 1 << 17}
"""A pair limit at which the packs of a batch are made in several goes. (Tree has no packs.)"""


def joined(spark, folder, strategy, upstream=lambda frame: frame, **more):
    sides = triple_streams(spark, folder, upstream)
    return evenjoin.join(
        sides, on=ON, select=SELECT, execution="executors", **{"strategy": strategy, "instances": 2, **more}
    )


def start(join, folder, sink):
    writer = join.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "ck"))
    return writer.trigger(availableNow=True).start()


def expected(whole):
    return brute_force(build_spec(TRIPLES, ON, select=SELECT), whole)


def total(sink):
    return sum((multiset(table) for table in sink.batches.values()), Counter())


@pytest.mark.parametrize("strategy", HOPS)
def test_a_function_that_counts_and_then_writes(strategy, spark, tmp_path):
    """Two evaluations of each batch, with the rows in another order and packs made in several goes: the receipts of
    both agree at both hops."""
    whole, seen = triples(tmp_path), Twice()
    start(joined(spark, tmp_path, strategy, permuted, pair_limit=FEW[strategy]), tmp_path, seen).awaitTermination()
    assert total(seen) == expected(whole)


@pytest.mark.parametrize("strategy", TREE_SLOW)
def test_a_function_that_looks_at_one_row(strategy, spark, tmp_path):
    """Instances that nobody read at the second hop are run on the side; later batches find all state."""
    whole, seen = triples(tmp_path), Collected()

    def sink(frame, batch):
        if batch == 2:
            seen(frame, batch)
        else:
            assert len(frame.take(1)) == 1

    start(joined(spark, tmp_path, strategy, permuted, instances=4), tmp_path, sink).awaitTermination()
    before = {alias: table.slice(0, table.num_rows - last) for (alias, table), last in zip(
        whole.items(), (30, 30, 0), strict=True)}  # fmt: skip
    assert total(seen) == expected(whole) - expected(before)


@pytest.mark.parametrize("strategy", TREE_SLOW)
def test_values_that_change_at_each_reading(strategy, spark, tmp_path):
    """Read twice, they are an error and nothing is committed; with `persist` state and output agree."""
    triples(tmp_path, batches=1)
    query = start(
        joined(spark, tmp_path, strategy, unsteady), tmp_path, lambda frame, batch: (frame.count(), frame.count())
    )
    with pytest.raises(EvaluationError, match=r"batch 0 was not committed.*df\.persist\(\)"):
        query.awaitTermination()
    rows = []

    def kept(frame, batch):
        frame.persist()
        rows.append((frame.count(), frame.toArrow().num_rows))
        frame.unpersist()

    query = start(joined(spark, tmp_path, strategy, unsteady), tmp_path, kept)
    query.awaitTermination()
    assert rows == [(query.load().matches, query.load().matches)]


def once(folder, step, act):
    """A step of workers that acts in the first task that reaches it after batch 0, when there is state to lose. Returns
    it and the file that tells that it was reached."""
    done, first = folder / "done", folder / "ck" / "commits"

    def reached(name, instance):
        if name == step and not done.exists() and len(list(first.iterdir())) > 1:
            done.touch()
            act()

    return Hooks(worker_step=reached), done


@pytest.mark.parametrize(
    ("step", "strategy"),
    [
        ("receipt", "trijoin"),
        ("receipt at hop 1", "tree"),
        pytest.param("receipt", "tree", marks=pytest.mark.slow),
        pytest.param("receipt at hop 1", "trijoin", marks=pytest.mark.slow),
    ],
)
def test_lost_shuffle_files_are_made_again(strategy, step, spark, tmp_path):
    """Deleted when the first task of either hop has finished: Spark makes them again, finds the same rows, goes on."""
    whole, seen, local = triples(tmp_path), Collected(), spark.conf.get("spark.local.dir")

    def lose():
        for path in Path(local).rglob("shuffle_*"):
            path.unlink(missing_ok=True)

    hooks, done = once(tmp_path, step, lose)
    start(joined(spark, tmp_path, strategy, instances=4, hooks=hooks), tmp_path, seen).awaitTermination()
    assert done.exists()
    assert total(seen) == expected(whole)


@pytest.mark.parametrize("strategy", TREE_SLOW)
def test_a_worker_that_is_killed_at_the_second_hop(strategy, spark, tmp_path):
    """It has joined when it dies, and its process has run tasks of the first hop: no result is lost or comes twice."""
    whole, seen = triples(tmp_path), Collected()
    hooks, done = once(tmp_path, "joined at hop 1", lambda: os.kill(os.getpid(), signal.SIGKILL))
    start(joined(spark, tmp_path, strategy, instances=3, hooks=hooks), tmp_path, seen).awaitTermination()
    assert done.exists()
    assert total(seen) == expected(whole)
