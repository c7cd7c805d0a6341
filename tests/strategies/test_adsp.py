"""A-DSP: the paper's worked examples, the bound of its dichotomy, and plans that check accepts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from evenjoin.errors import SpecError
from evenjoin.load.adsp import matrix_of, square_tasks
from evenjoin.load.items import items_of
from evenjoin.load.report import LoadReport
from evenjoin.placement import (
    EVERYTHING,
    At,
    Buckets,
    Grid,
    Ranges,
    Reach,
    Region,
    RoutingTable,
    check,
    diff,
    stored_here,
)
from evenjoin.placement.pieces import moved_volume, overlap, stored_volume
from evenjoin.placement.topology import WHOLE, even_division
from evenjoin.strategies import Adsp, Square, resolve
from evenjoin.strategies.adsp.areas import dichotomy, partition
from evenjoin.strategies.adsp.cells import Scheme, cells, varietal_tasks
from evenjoin.strategies.adsp.mapping import Area, aligned, fitted, fitting, mapped
from evenjoin.strategies.adsp.migration import migration_plan
from thorough import examples


def grid_table(grid, version=0):
    instances = len(grid.cells) + len(grid.extra)
    return RoutingTable(version, instances, 2, 1, (Region(Buckets((0,)), grid),), reach=EVERYTHING)


def volumes(rows, columns):
    """So many tuples of both sides, all of one code."""
    return tuple((np.zeros(1, np.int64), np.array([float(volume)])) for volume in (rows, columns))


def test_figure_4():
    """V = 10, 9 x 7: <1, 2, 1, row>, 3 tasks; a regular row has 6.5 of the 9, each task at most 10."""
    scheme = cells(9, 7, 10)
    assert (scheme.rows, scheme.columns, scheme.extra, scheme.along, scheme.tasks) == (1, 2, 1, "row", 3)
    assert scheme.regular == pytest.approx(6.5 / 9)
    table = check(fitted(grid_table(Grid(1, 1, (0,))), [Area(None, scheme)], volumes(9, 7)))
    np.testing.assert_allclose(sorted(stored_volume(table, volumes(9, 7)).sum(axis=0)), [9.5, 10, 10], atol=1e-6)


def test_figure_3():
    """V = 10, 6 x 6: 4 tasks by eq. 9, 2 by Alg. 1: one column with two cells."""
    assert square_tasks(np.array([6.0]), np.array([6.0]), 10)[0].tolist() == [4]
    assert cells(6, 6, 10) == Scheme(2, 1)


@settings(max_examples=examples(200), deadline=None)
@example(6.0, 2.6573185373314076e-09, 5.0)
@given(st.floats(0, 200), st.floats(0, 200), st.floats(5, 50))
def test_alg_1_never_needs_more_than_eq_9_and_never_overfills(rows, columns, capacity):
    """Theorem 2, and eq. 6: every task within V. The arrays say the same as the scheme."""
    scheme = cells(rows, columns, capacity)
    (tasks,), _ = varietal_tasks(np.array([rows]), np.array([columns]), capacity)
    (square,), _ = square_tasks(np.array([rows]), np.array([columns]), capacity)
    assert scheme.tasks == tasks <= square
    assume(scheme.tasks <= 60)
    table = check(fitted(grid_table(Grid(1, 1, (0,))), [Area(None, scheme)], volumes(rows, columns)))
    assert table.instances == scheme.tasks
    assert stored_volume(table, volumes(rows, columns)).sum(axis=0).max() <= capacity * (1 + 1e-6)


def test_figure_8_naive():
    """One dimension, 4 tasks to 5, even ranges, the best mapping of Alg. 4: 1/20 + 1/5 + 1/20 = 3/10 of the data."""
    old, new = grid_table(Grid(4, 1, (0, 1, 2, 3))), grid_table(Grid(5, 1, tuple(range(5))))
    points = volumes(1, 0)
    assert mapped(overlap(old, new, points)) == [0, 1, -1, 2, 3]
    assert moved_volume(old, grid_table(Grid(5, 1, (0, 1, 4, 2, 3))), points) == pytest.approx(3 / 10)


def test_figure_8_aligned():
    """Aligned at the start points each of the four gives 1/20 to the new one: 1/5 of the data moves."""
    fifth, rest = WHOLE / 5, WHOLE / 20
    division = aligned(even_division(4), (1.0,) * 5)
    assert [line for line, _ in division] == [0, 4, 1, 4, 2, 4, 3, 4]
    np.testing.assert_allclose([width for _, width in division], [fifth, rest] * 4, atol=2)
    old = grid_table(Grid(4, 1, (0, 1, 2, 3)))
    new = fitted(old, [Area(None, Scheme(5, 1))], volumes(1, 0))
    assert new.regions[0].topology.divisions[0] == division
    assert moved_volume(old, new, volumes(1, 0)) == pytest.approx(1 / 5)
    back = fitted(new, [Area(None, Scheme(4, 1))], volumes(1, 0))
    assert moved_volume(new, back, volumes(1, 0)) == pytest.approx(1 / 5)


def figure_9():
    old = grid_table(Grid(2, 2, (0, 1, 2, 3)))
    new = grid_table(Grid(2, 3, (0, 1, 2, 3, 4, 5)))
    return old, new, volumes(1, 1)


def test_figure_9_pairs():
    """2 x 2 to 2 x 3: m00 stays m00, m01 becomes m02, m10 stays m10, m11 becomes m12; the middle column is new."""
    old, new, points = figure_9()
    assert mapped(overlap(old, new, points)) == [0, -1, 1, 2, -1, 3]


def test_figure_9_migration_ranges():
    """The new m01 gets R [0, 1/2] from m00, S [1/3, 1/2] from m00 and [1/2, 2/3] from m01; m11 the like; m00 and m01
    (now m02) drop the thirds they no longer need."""
    old, _, points = figure_9()
    plan = migration_plan(old, grid_table(Grid(2, 3, (0, 4, 1, 2, 5, 3))), points)

    def ranges(moves):
        return {(*who, round(m.begin / WHOLE, 6), round(m.end / WHOLE, 6)) for m, who in moves}

    third = round(1 / 3, 6), round(2 / 3, 6)
    assert ranges((copy, (copy.side, copy.source, copy.target)) for copy in plan.copies) == {
        (0, 0, 4, 0.0, 0.5), (0, 2, 5, 0.5, 1.0),
        (1, 0, 4, third[0], 0.5), (1, 1, 4, 0.5, third[1]), (1, 0, 5, third[0], 0.5), (1, 1, 5, 0.5, third[1]),
    }  # fmt: skip
    assert ranges((drop, (drop.side, drop.target)) for drop in plan.discards) == {
        (1, 0, third[0], 0.5), (1, 2, third[0], 0.5), (1, 1, 0.5, third[1]), (1, 3, 0.5, third[1]),
    }  # fmt: skip
    assert plan.volume == pytest.approx(2 * 1 / 2 + 2 * 1 / 3)


# ---- areas ----


def points_of(*sides):
    return tuple((np.array(side, np.int64), np.ones(len(side))) for side in sides)


def test_a_toy_matrix():
    """12 tuples a side, |x - y| <= 2, V = 8: one grid needs 9 tasks by eq. 9, the areas 4; all within capacity."""
    keys = [1, 2, 3, 11, 12, 13, 21, 22, 23, 31, 32, 33]
    matrix = matrix_of(points_of(keys, keys), Reach(-2, 2), 24)
    plan = partition(matrix, partial(square_tasks, capacity=8))
    assert (plan.tasks, len(plan.areas)) == (4, 4)
    assert square_tasks(np.array([12.0]), np.array([12.0]), 8)[0].tolist() == [9]


def test_a_split_keeps_what_is_reached():
    """Rows below 10 reach columns up to 11, rows from 10 on columns from 8: what lies between is in both."""
    low, high = dichotomy(Ranges(), 0, 10, Reach(-2, 2))
    assert (low.rows.last, low.columns.last, high.rows.first, high.columns.first) == (9, 11, 10, 8)
    low, high = dichotomy(Ranges(), 1, 10, Reach(1, None))
    assert (low.columns.last, low.rows.last, high.columns.first, high.rows.low) == (9, 8, 10, None)


keys_of_a_side = st.lists(st.integers(0, 30), min_size=1, max_size=25)
bands = st.tuples(st.integers(-6, 6), st.integers(0, 8)).map(lambda t: Reach(t[0], t[0] + t[1]))
some_reach = st.one_of(bands, st.sampled_from([Reach(1, None), Reach(None, -1), Reach(0, 0)]))


@settings(max_examples=examples(150), deadline=None)
@given(keys_of_a_side, keys_of_a_side, some_reach, st.sampled_from([4.0, 6.0, 10.0, 20.0]), st.booleans())
def test_areas_never_need_more_tasks_than_one_grid(one, two, reach, capacity, naive):
    """Alg. 2 starts from the whole matrix and only accepts less; each area alone is counted by eq. 9 or Alg. 1."""
    tasks = partial(square_tasks if naive else varietal_tasks, capacity=capacity)
    matrix = matrix_of(points_of(one, two), reach, 24)
    plan = partition(matrix, tasks)
    (whole,), _ = tasks(np.array([float(len(one))]), np.array([float(len(two))]))
    assert plan.tasks <= whole
    sizes = np.array([matrix.volumes(area) for area in plan.areas]).T
    assert plan.tasks == tasks(*sizes)[0].sum()
    regions = tuple(Region(area, Grid(1, 1, (n,))) for n, area in enumerate(plan.areas))
    check(RoutingTable(0, len(regions), 2, 0, regions, reach=reach))


enough_keys = st.lists(st.integers(0, 9), min_size=5, max_size=10)


@settings(max_examples=examples(30), deadline=None)
@given(enough_keys, enough_keys, bands)
def test_theorem_4(one, two, reach):
    """xi = Alg. 2 over the least of all dichotomies (eq. 14) <= ab / (ab - a - b + 3), with tasks by eq. 9 as in the
    proof. (Def. 7 prints the fraction upside down.)"""
    capacity = 8.0
    tasks = partial(square_tasks, capacity=capacity)
    matrix = matrix_of(points_of(one, two), reach, 2 * 10)
    found = partition(matrix, tasks, follow=None).tasks
    least = partition(matrix, tasks, follow=None, rule="exhaust").tasks
    a, b = (int(np.ceil(len(side) / 4)) for side in (one, two))
    assert least <= found
    assert found / least <= a * b / (a * b - a - b + 3) + 1e-9


# ---- plans ----


def report(points, batch=0):
    samples = tuple(tuple(zip(c.tolist(), w.tolist(), strict=True)) for c, w in points)
    return LoadReport(batch, (), (), (), (), samples=samples)


def sampled(rng, rows, centre=0, spread=1000):
    codes = np.unique(rng.integers(centre - spread, centre + spread, 200))
    return codes, np.full(len(codes), rows / len(codes))


def planned(strategy, table, points):
    seen = report(points)
    items = items_of(seen, table)
    made = strategy.plan(seen, items, table)
    return table if made is None else made, strategy.imbalance(items, table), items


weighted = st.tuples(st.integers(-40, 40), st.integers(1, 40))
drawn_sides = st.lists(weighted, min_size=1, max_size=15, unique_by=lambda point: point[0])


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(drawn_sides, drawn_sides), min_size=1, max_size=3), some_reach, st.integers(1, 5))
def test_whatever_is_proposed_is_valid_and_within_capacity(rounds, reach, instances):
    """Over changing volumes and codes: check accepts the table, no task is above `fill` of V, tasks are no more than
    Alg. 1 needs for one grid, and the plan of Alg. 5 has the volume of the tables' difference."""
    strategy = Adsp(task_capacity=100)
    table = replace(strategy.initial(instances, 2, "shared"), reach=reach)
    for sides in rounds:
        points = tuple((np.array([c for c, _ in s]), np.array([float(w) for _, w in s])) for s in sides)
        made, _, items = planned(strategy, table, points)
        check(made)
        assert made.reach == reach
        assert made.instances <= cells(*(float(w.sum()) for _, w in points), 65).tasks
        assert strategy.load(items, made).max() <= 65 * (1 + 1e-6)
        assert migration_plan(table, made, points).volume == pytest.approx(moved_volume(table, made, points))
        table = made


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(drawn_sides, drawn_sides), min_size=2, max_size=3), some_reach, st.sampled_from([30, 60, 200])
)
def test_what_a_fit_moves_is_the_difference_of_the_tables(rounds, reach, capacity):
    """From grids to areas, to one grid and back, with more tasks and with fewer: what is stored less what
    stays by lambda is what enters by `diff`."""
    table = replace(Adsp().initial(3, 2, "shared"), reach=reach)
    for sides in rounds:
        points = tuple((np.array([c for c, _ in s]), np.array([float(w) for _, w in s])) for s in sides)
        tasks = partial(varietal_tasks, capacity=float(capacity))
        matrix = matrix_of(points, reach, 24)
        whole = [Area(None, cells(*(float(w.sum()) for _, w in points), capacity))]
        areas = [Area(area, cells(*matrix.volumes(area), capacity)) for area in partition(matrix, tasks).areas]
        for some in (areas, whole, areas):
            fit = fitting(table, some, points)
            assert fit.moved == pytest.approx(moved_volume(table, fit.table, points), abs=1e-4)
            table = fit.table


@settings(max_examples=examples(30), deadline=None)
@given(st.tuples(drawn_sides, drawn_sides), st.tuples(drawn_sides, drawn_sides), some_reach)
def test_alg_5_is_the_difference_of_the_tables(first, second, reach):
    """Tuple by tuple: the copies that cover a tuple are the instances it enters, the discards those it leaves, and a
    copy's source stored it under the old table."""
    strategy = Adsp(task_capacity=60)
    tables = [replace(strategy.initial(2, 2, "shared"), reach=reach)]
    for sides in (first, second):
        points = tuple((np.array([c for c, _ in s]), np.array([float(w) for _, w in s])) for s in sides)
        tables.append(planned(strategy, tables[-1], points)[0])
    old, new = tables[1:]
    plan = migration_plan(old, new, points)
    u = (np.arange(23, dtype=np.uint64) * (WHOLE // 23)).astype(np.uint32)
    for side in (0, 1):
        tuples = list(product(points[side][0].tolist(), u.tolist()))
        moves = diff(old, new, side, At(np.array([c for c, _ in tuples]), np.array([p for _, p in tuples], np.uint32)))
        for kind, rows, instances in (
            (plan.copies, moves.enter_row, moves.enter_instance),
            (plan.discards, moves.leave_row, moves.leave_instance),
        ):
            said = {
                (n, move.target)
                for n, (code, position) in enumerate(tuples)
                for move in kind
                if move.side == side and code in move.codes and move.begin <= position < move.end
            }
            assert said == set(zip(rows.tolist(), instances.tolist(), strict=True))
        for copy in plan.copies:
            at = At(np.array([copy.codes.first]), np.array([copy.begin], np.uint32))
            assert stored_here(old, copy.side, at, copy.source).all()


def test_not_equal_is_one_grid():
    """Without a bound on what may match, the plan is 2-DSP: Alg. 1 over everything."""
    points = (sampled(np.random.default_rng(1), 900), sampled(np.random.default_rng(2), 700))
    table = replace(Adsp().initial(4, 2, "shared"), reach=EVERYTHING)
    made, _, _ = planned(Adsp(task_capacity=1000, fill=0.8, high=1.0), table, points)
    assert not made.ranged
    assert (made.instances, made.regions[0].topology.rows, len(made.regions[0].topology.extra)) == (
        cells(900, 700, 800).tasks, cells(900, 700, 800).rows, cells(900, 700, 800).extra,
    )  # fmt: skip


def test_without_samples_it_goes_by_what_the_grid_stores():
    """2 x 2 cells store 1,200 and 800 copies: 600 and 400 tuples; one grid by Alg. 1 for those."""
    table = replace(Adsp().initial(4, 2, "shared"), reach=Reach(-2, 2))
    seen = LoadReport(0, (), (), ((0, 0, 0, 1200, 0), (1, 0, 0, 800, 0)), ())
    items = items_of(seen, table)
    strategy = Adsp(task_capacity=400)
    assert strategy.load(items, table).tolist() == [[500.0] * 4]
    assert strategy.imbalance(items, table) == pytest.approx(500 / 320)
    assert strategy.plan(seen, items, table).instances == cells(600, 400, 260).tasks


def test_over_capacity_and_under_use_call_for_a_plan():
    """One task of V = 100: 81 tuples are above 80 %; two tasks with 45 each below 50 %; 50 or 60
    each are neither."""
    strategy = Adsp(task_capacity=100)
    one, two = (replace(strategy.initial(n, 2, "shared"), reach=Reach(0, 0)) for n in (1, 2))
    imbalance = [
        strategy.imbalance(items_of(report(volumes(*sizes)), table), table)
        for table, sizes in ((one, (41, 40)), (one, (20, 20)), (two, (10, 80)), (two, (30, 60)), (two, (0, 0)))
    ]
    assert [value > strategy.threshold for value in imbalance] == [True, False, False, False, False]
    assert strategy.imbalance(items_of(report(volumes(5, 80)), two), two) > 1
    assert imbalance[1:] == pytest.approx([40 / 80, 50 / 50, 50 / 60, 0.0])


def test_a_plan_stays_while_it_fits():
    """Its load calls for no other, the same areas with the same cells are the very table, and so is one grid."""
    strategy = Adsp(task_capacity=300)
    points = (sampled(np.random.default_rng(1), 900), sampled(np.random.default_rng(2), 700))
    first, _, _ = planned(strategy, replace(strategy.initial(4, 2, "shared"), reach=Reach(-9, 9)), points)
    assert first.ranged
    again, imbalance, _ = planned(strategy, first, points)
    assert imbalance <= strategy.threshold
    assert again.instances <= first.instances
    scheme = {region.takes: region.topology for region in first.regions}
    same = [Area(takes, Scheme(g.rows, g.columns, len(g.extra), g.along)) for takes, g in scheme.items()]
    assert fitted(first, same, points) is first
    whole, _, _ = planned(strategy, replace(strategy.initial(4, 2, "shared"), reach=EVERYTHING), points)
    assert planned(strategy, whole, points)[0] is whole


def test_the_number_of_tasks_has_a_limit():
    """At most `most`: then tasks hold more than V."""
    strategy = Adsp(task_capacity=10, most=12)
    points = (sampled(np.random.default_rng(1), 900), sampled(np.random.default_rng(2), 700))
    made, _, items = planned(strategy, replace(strategy.initial(2, 2, "shared"), reach=Reach(-9, 9)), points)
    assert check(made).instances <= 12
    assert strategy.load(items, made).max() > 10
    assert strategy.imbalance(items, made) <= 1  # as even as can be: not planned again after every batch


@pytest.mark.parametrize("kind", [Adsp, Square])
def test_there_are_never_fewer_tasks_than_least(kind):
    """With room for everything in one task, `least` of them share it evenly; and then nothing more is planned."""
    strategy = kind(task_capacity=100_000, least=4, most=8)
    points = (sampled(np.random.default_rng(1), 900), sampled(np.random.default_rng(2), 900))
    start = replace(strategy.initial(4, 2, "shared"), reach=Reach(-9, 9))
    made, _, items = planned(strategy, start, points)
    load = strategy.load(items, check(made))[0]
    assert made.instances == 4
    assert load.max() <= 1.3 * load.mean()
    if kind is Adsp:
        assert made.ranged
        assert load.sum() < 0.7 * strategy.load(items, start).sum()
    assert strategy.imbalance(items, made) <= 1


@pytest.mark.parametrize("wrong", ["task_capacity=0", "high=0.4", "fill=0.9", "lines=1", "most=0", "least=0"])
def test_settings_that_make_no_sense(wrong):
    """Refused when the strategy is named."""
    with pytest.raises(SpecError, match="adsp: "):
        resolve(f"adsp({wrong})")


def test_it_is_known_by_name():
    """With its settings; two sides only."""
    assert resolve("adsp(task_capacity=500)") == Adsp(task_capacity=500)
    with pytest.raises(SpecError, match="two streams"):
        Adsp().initial(4, 3, "shared")
