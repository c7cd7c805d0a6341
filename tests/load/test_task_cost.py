"""The cost of tasks: how it is fitted to what was seen, and how long a batch takes on the cores there are."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenjoin
from evenjoin.load.cost import DEFAULTS, NOTHING_SEEN, Seen, copies, features, fit, makespan, seen_in
from evenjoin.load.items import items_of
from evenjoin.load.report import InstanceLoad, at_once, waited
from evenjoin.placement import Biclique, Buckets, Grid, Keys, Region, RoutingTable
from strategies.counted import counted
from thorough import examples


def batches(true, tasks=8, count=8, noise=0.0, apart=False, seed=1):
    """Batches of tasks with these coefficients. Unless `apart`, every tuple is stored where it probes."""
    rng, out = np.random.default_rng(seed), []
    for _ in range(count):
        stored = rng.lognormal(11, 1, tasks)
        probing = rng.lognormal(11, 1, tasks) if apart else stored
        columns = np.column_stack([np.ones(tasks), stored, probing, rng.lognormal(12, 1, tasks)])
        out.append(Seen(columns, columns @ true * rng.lognormal(0, noise, tasks) if noise else columns @ true))
    return out


def forecast_error(cost, some):
    """How far a forecast is off, over all tasks of batches that were not fitted to."""
    said = np.concatenate([one.features @ cost.each for one in some])
    took = np.concatenate([one.took_ms for one in some])
    return float(np.abs(said - took).sum() / took.sum())


def test_before_anything_is_seen_the_defaults_hold():
    """Also if batches were seen, but no task was timed."""
    assert fit([]) is NOTHING_SEEN
    assert fit([Seen(np.zeros((0, 4)), np.zeros(0))]) is NOTHING_SEEN


def test_another_machine_is_another_speed():
    """All coefficients at seven times the defaults: the fit says so, of copies too."""
    cost = fit(batches(7 * DEFAULTS))
    np.testing.assert_allclose(cost.each, 7 * DEFAULTS, rtol=1e-6)
    assert cost.send_ms == pytest.approx(7 * NOTHING_SEEN.send_ms)


def test_columns_that_are_equal_are_told_apart_by_the_defaults():
    """Storing and probing cannot be told apart while no key is divided. Their sum is what was seen, and each has the
    part that the defaults give it."""
    true = DEFAULTS * [1, 3, 1, 1]
    cost = fit(batches(true))
    assert cost.each[1] + cost.each[2] == pytest.approx(true[1] + true[2], rel=0.1)
    assert cost.each[1] == pytest.approx(cost.each[2] * DEFAULTS[1] / DEFAULTS[2], rel=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_results_that_are_ten_times_dearer_are_found_out(seed):
    """Within a fifth of the time of batches to come; the defaults, at the machine's speed, are further off."""
    true = DEFAULTS * [1, 1, 1, 10]
    cost, fresh = fit(batches(true, noise=0.25, seed=seed)), batches(true, seed=seed + 100)
    assert forecast_error(cost, fresh) < 0.2
    speed = np.concatenate([one.took_ms for one in fresh]).sum() / sum((one.features @ DEFAULTS).sum() for one in fresh)
    assert forecast_error(cost, fresh) < 0.5 * forecast_error(type(cost)(DEFAULTS * speed, 0.0), fresh)


@pytest.mark.parametrize("seed", range(5))
def test_a_pause_of_the_machine_is_no_coefficient(seed):
    """One task of 64 takes a hundred times as long as it should."""
    seen = batches(DEFAULTS, seed=seed)
    seen[3].took_ms[2] *= 100
    assert forecast_error(fit(seen), batches(DEFAULTS, seed=seed + 100)) < 0.35


@pytest.mark.parametrize("seed", range(5))
def test_the_hot_task_is_no_outlier(seed):
    """Results are ten times dearer, and only one task of eight has many: its time is forecast, not cut."""
    seen = batches(DEFAULTS * [1, 1, 1, 10], noise=0.25, seed=seed)
    for one in seen:
        one.took_ms[0] += 9 * one.features[0, 3] * DEFAULTS[3] * 10
        one.features[0, 3] *= 10
    cost = fit(seen)
    said, took = (
        sum(each) for each in zip(*((one.features[0] @ cost.each, one.took_ms[0]) for one in seen), strict=True)
    )
    assert said == pytest.approx(took, rel=0.2)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.lists(st.tuples(*[st.integers(0, 10**6)] * 3, st.floats(0.001, 1e6)), max_size=6), max_size=4))
def test_coefficients_are_never_negative(some):
    """Whatever was seen, and they are numbers."""
    seen = [
        Seen(np.array([(1, *row[:3]) for row in rows], float).reshape(-1, 4), np.array([row[3] for row in rows]))
        for rows in some
    ]
    cost = fit(seen)
    assert np.isfinite(cost.each).all()
    assert (cost.each >= 0).all()
    assert cost.send_ms >= 0


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 7))
def test_the_makespan_is_a_schedule_and_close_to_the_best(tasks, cores):
    """Never below the longest task or an even share, never above 4/3 of the best schedule (Graham), which all orders
    of starting are tried for."""
    found = makespan(np.array(tasks, float), cores)
    assert found >= max(max(tasks), sum(tasks) / cores) - 1e-9
    assert found <= 4 / 3 * min(in_order(order, cores) for order in permutations(tasks)) + 1e-9


def in_order(tasks, cores):
    free = [0] * cores
    for task in tasks:
        free[free.index(min(free))] += task
    return max(free)


def test_no_tasks_take_no_time():
    assert makespan(np.zeros(0), 3) == 0.0


def table_with(topology):
    buckets = (Region(Buckets((0,)), Biclique(((0,), (0,)))), Region(Buckets((1,)), Biclique(((1,), (1,)))))
    return RoutingTable(0, 4, 2, 2, (*buckets, Region(Keys((7,)), topology)), "drawn")


def test_copies_are_messages_beyond_the_first():
    """2 x 2: each of 10 + 30 tuples goes to two cells; 4 x 1: side 1 goes to four."""
    keys = {7: (10, 30, 0, 0, 0, 0), 1: (5, 5, 0, 0, 0, 0)}
    for topology, expected in (
        (Grid(2, 2, (0, 1, 2, 3)), 40),
        (Grid(4, 1, (0, 1, 2, 3)), 90),
        (Biclique(((2,), (2,))), 0),
    ):
        table = table_with(topology)
        assert copies(items_of(counted(table, keys), table), table) == pytest.approx(expected)


def test_features_are_what_each_task_takes_in_asks_and_finds():
    """Key 7 in 2 x 1 on instances 2 and 3: half of side 0 and all of side 1 in both; each finds half."""
    table = table_with(Grid(2, 1, (2, 3)))
    found = features(items_of(counted(table, {7: (100, 30, 0, 0, 60, 20)}), table), table)
    np.testing.assert_allclose(found, [[1, 0, 0, 0], [1, 0, 0, 0], [1, 80, 80, 40], [1, 80, 80, 40]])


def test_a_task_on_a_slow_instance_takes_longer():
    """Twice as long on instance 2, all of it; what was measured of another number of instances is left out."""
    table = table_with(Biclique(((2,), (2,))))
    items = items_of(counted(table, {7: (90_000, 10_000, 0, 0, 0, 0), 1: (50, 50, 0, 0, 0, 0)}), table)
    usual = NOTHING_SEEN.tasks(items, table)
    slow = replace(NOTHING_SEEN, slow=np.array([1.0, 1.0, 2.0, 1.0]))
    np.testing.assert_allclose(slow.tasks(items, table), usual * [1, 1, 2, 1])
    assert slow.time(items, table, 4) == pytest.approx(2 * usual[2])
    assert replace(slow, slow=np.array([3.0, 3.0])).time(items, table, 4) == pytest.approx(usual[2])
    assert slow.even(slow.tasks(items, table), table, 4) == pytest.approx(usual.sum() / 3.5)


def test_a_task_without_a_time_tells_nothing():
    """A replayed receipt of another version, or one that was never timed."""
    table = table_with(Biclique(((2,), (2,))))
    report = counted(table, {7: (10, 30, 0, 0, 0, 0)})
    items = items_of(report, table)
    loads = tuple(InstanceLoad(i, (0, 0), (0, 0), (0, 0), 0, 1.0, elapsed_ms=40.0 * (i == 2)) for i in range(4))
    seen = seen_in(replace(report, instances=loads), items, table)
    assert (seen.features.shape, seen.took_ms.tolist()) == ((1, 4), [40.0])
    assert seen.features[0].tolist() == [1, 40, 40, 0]


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.floats(0.1, 900.0), min_size=1, max_size=30), st.integers(1, 8), st.floats(1e9, 2e9))
def test_tasks_that_follow_each_other_on_a_core_are_not_at_once(tasks, cores, start):
    """Times are rounded to microseconds, so the end of a task may seem to be after the begin of the next."""
    free, spans = [start] * cores, []
    for task in tasks:
        core = free.index(min(free))
        spans.append((free[core], round(task, 3)))
        free[core] += task / 1000
    assert 1 <= at_once(spans) <= min(cores, len(tasks))


def test_tasks_that_overlap_are_at_once():
    assert at_once([(100.0, 500.0), (100.1, 500.0), (100.2, 100.0), (100.7, 10.0)]) == 3
    assert at_once([(0.0, 0.0), (0.0, 5.0)]) == 0, "a task that did not say when it began is not counted"


def on_cores(tasks, cores, idle=0.0, start=100.0):
    """When each of these tasks (ms) begins and how long it takes, on so many cores that stand idle between two."""
    free, spans = [start] * cores, []
    for task in tasks:
        core = free.index(min(free))
        spans.append((free[core], task))
        free[core] += (task + idle) / 1000
    return spans


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.floats(50.0, 900.0), min_size=5, max_size=30), st.integers(1, 4))
def test_tasks_that_queue_for_cores_have_waited(tasks, cores):
    """Each core takes its next task 5 ms after the last one."""
    spans = on_cores(tasks, cores, idle=5.0)
    assert waited(spans)
    assert at_once(spans) == cores


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.floats(1.0, 19.0), min_size=2, max_size=30), st.floats(0.0, 40.0), st.floats(100, 900))
def test_tasks_that_are_over_before_the_next_is_started_have_not_waited(tasks, apart, long):
    """Started one after the other, with a core for each: short ones, and long ones that all ran at once."""
    assert not waited([(100.0 + n * apart / 1000, task) for n, task in enumerate(tasks)])
    assert not waited([(100.0 + n / 1000, long) for n in range(len(tasks))])


def test_cores_that_stand_idle_have_not_been_waited_for():
    """Tasks of 50 ms that are started every 100 ms run one at a time on any number of cores."""
    assert not waited([(100.0 + n / 10, 50.0) for n in range(8)])
    assert not waited([(100.0, 50.0)])
    assert not waited([(0.0, 50.0), (0.0, 50.0), (0.0, 70.0)]), "nobody said when"


SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])


@pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")
@pytest.mark.parametrize("condition", ["l.k = r.k", "l.k = r.k AND (l.v = r.v OR l.v + r.v = 1000)"])
def test_what_is_seen_is_counted_as_what_is_forecast(condition: str) -> None:
    """Pairs that a predicate sorts out are work as well. If the fit counted results and the forecast pairs, a task that
    took a second would be forecast to take minutes."""
    rng = np.random.default_rng(3)
    keys = np.where(rng.random((2, 2_000)) < 0.3, 7, rng.integers(0, 500, (2, 2_000)))
    rows = [pa.table([k, rng.integers(0, 1_000, 2_000)], schema=SCHEMA) for k in keys]
    with evenjoin.local({"l": SCHEMA, "r": SCHEMA}, condition, strategy="auto", instances=4) as join:
        table = join.table()
        join.process({"l": rows[0], "r": rows[1]})
        report = join.load()
    assert report is not None
    seen = seen_in(report, items_of(report, table), table)
    np.testing.assert_allclose(seen.features, features(items_of(report, table), table))
    pairs = np.bincount(keys[0], minlength=500) @ np.bincount(keys[1], minlength=500)
    assert seen.features[:, 3].sum() == pytest.approx(pairs)
    assert seen.features[:, 2].sum() == 4_000
    assert seen.took_ms.tolist() == [load.elapsed_ms for load in report.instances]
