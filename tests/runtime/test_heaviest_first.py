"""Heaviest first: Spark starts tasks by number, so the task with the least number is the one that takes longest."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.load.items import planning_items, work_by_instance
from evenjoin.load.report import Ran, report_of
from evenjoin.placement import Biclique, Keys, Region
from evenjoin.runtime.rebalance import longest_first
from evenjoin.state.manifest import Manifest
from evenjoin.strategies import Hash
from evenjoin.strategies.handover import resized
from runtime.test_advance import SPEC, receipt
from stations import work_of
from strategies.counted import counted

THREE = Hash().initial(3, 2, "shared")


def test_the_task_that_took_longest_is_started_first():
    """5, 90 and 30 ms: instance 1, then 2, then 0. Busy time says the opposite and does not count: a task that takes
    its results over to the sink keeps the batch waiting all the same."""
    took = (5.0, 90.0, 30.0)
    receipts = [receipt(i, elapsed_ms=ms, busy_ms=100 - ms) for i, ms in enumerate(took)]
    report = report_of(receipts, Manifest(), Manifest(), 0, None, Ran(THREE))
    assert report.order == (1, 2, 0)
    work = work_of(SPEC, THREE, order=report.order)
    assert work.instance_of == (1, 2, 0)
    assert work.task_of == {1: 0, 2: 1, 0: 2}
    assert [work.task_of[work.instance_of[task]] for task in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("order", [(), (1, 0), (3, 2, 1, 0)])
def test_without_an_order_for_so_many_instances_tasks_go_by_number(order):
    """As in the first batch, and after a restart with another size."""
    assert work_of(SPEC, THREE, order=order).instance_of == (0, 1, 2)


def test_after_a_change_of_table_the_order_is_the_one_foreseen():
    """Key 5 is most of the work of its instance. It goes to instance 2, and that is then the first, though it was not
    in the last batch; instance 9 of nine is none of the old ones, and has a place by its buckets."""
    keys = {5: (900, 900, 900, 900, 9000, 9000), **dict.fromkeys(range(100, 160), (9, 9, 9, 9, 9, 9))}
    report = counted(THREE, keys)
    items = planning_items(report, THREE)
    home = int(work_by_instance(items, THREE).argmax())
    to = (home + 1) % 3
    moved = THREE.with_regions((*THREE.regions, Region(Keys((5,)), Biclique(((to,), (to,))))))
    assert longest_first(items, THREE, THREE)[0] == home
    assert longest_first(items, THREE, moved)[0] == to
    grown = resized(THREE, 9, items)
    order = longest_first(items, THREE, grown)
    assert sorted(order) == list(range(9))
    assert order[0] == home


def test_a_commit_tells_the_next_batch_the_order_of_its_own_table(tmp_path):
    """Whatever the last verdict decided: the next batch starts its tasks by the table that it has."""

    schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])
    guards = evenjoin.Guards(cooldown=0, min_gain=0, min_work=0)
    changed = 0
    with evenjoin.local(
        {"l": schema, "r": schema}, "l.k = r.k AND r.t BETWEEN l.t - 9 AND l.t + 9", strategy="djb", instances=3,
        event_time="t", watermark=0, guards=guards,
    ) as join:  # fmt: skip
        for batch in range(6):
            keys = np.random.default_rng(batch).zipf(1.4, 500) % 90
            join.process({alias: pa.table([keys, np.full(500, 5 * batch)], schema=schema) for alias in "lr"})
            last = join._driver.last
            assert sorted(last.report.order) == [0, 1, 2]
            if last.verdict.calls_for_rebalance:
                changed += 1
                old, new = join._driver.table_named(last.table), join.table()
                assert last.report.order == longest_first(planning_items(last.report, old), old, new)
    assert changed
