"""Square and Dynamic, A-DSP's baselines; and all three side by side as data grows and its sides change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evenjoin.load.items import items_of
from evenjoin.load.report import LoadReport
from evenjoin.placement import EVERYTHING, Grid, Reach, check
from evenjoin.placement.pieces import moved_volume, stored_volume
from evenjoin.strategies import Adsp, Dynamic, Square, resolve
from evenjoin.strategies.dynamic import more_columns, more_rows, quadrupled, reshaped

TWO_BY_TWO = Grid(2, 2, (0, 1, 2, 3))


def report(rows, columns, codes=None, batch=0):
    """Volumes of both sides, on one code or spread over these."""
    spread = codes if codes is not None else [0]
    samples = tuple(tuple((int(c), volume / len(spread)) for c in spread) for volume in (rows, columns))
    return LoadReport(batch, (), (), (), (), samples=samples)


def step(strategy, table, seen):
    """What the driver does after a batch: the next table, and what moves."""
    items = items_of(seen, table)
    if strategy.imbalance(items, table) <= strategy.threshold:
        return table, 0.0
    made = strategy.plan(seen, items, table)
    if made is None or made is table or strategy.imbalance(items, made) >= strategy.imbalance(items, table):
        return table, 0.0
    return check(made), moved_volume(table, made, items.alive)


def test_initial_grids():
    """As square as the number of instances allows; Dynamic takes the largest power of two."""
    shapes = {
        (name, n): (table.regions[0].topology.rows, table.regions[0].topology.columns, table.instances)
        for name in ("square", "dynamic", "adsp")
        for n in (1, 4, 6, 7, 8)
        for table in [check(resolve(name).initial(n, 2, "split"))]
    }
    expected = {1: (1, 1, 1), 4: (2, 2, 4), 6: (2, 3, 6), 7: (1, 7, 7), 8: (2, 4, 8)}
    assert {n: shapes["square", n] for n in expected} == {n: shapes["adsp", n] for n in expected} == expected
    assert {n: shapes["dynamic", n] for n in expected} == {**expected, 6: (2, 2, 4), 7: (2, 2, 4)}


def test_square_is_eq_9():
    """V = 100, planned to 65: 90 and 40 tuples need ceil(90 / 32.5) x ceil(40 / 32.5) = 3 x 2 tasks; for a tenth 1."""
    strategy = Square(task_capacity=100)
    table, _ = step(strategy, strategy.initial(1, 2, "shared"), report(90, 40))
    assert (table.regions[0].topology.rows, table.regions[0].topology.columns, table.instances) == (3, 2, 6)
    assert step(strategy, table, report(90, 40))[0] is table
    assert step(strategy, table, report(9, 4))[0].instances == 1


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        (100, 100, TWO_BY_TWO),
        (200, 100, TWO_BY_TWO),
        (201, 100, Grid(4, 1, (0, 1, 2, 3))),
        (100, 201, Grid(1, 4, (0, 2, 1, 3))),
        (1000, 1000, TWO_BY_TWO),
        (1001, 1000, Grid(4, 4, (0, 4, 1, 5, 6, 7, 8, 9, 2, 10, 3, 11, 12, 13, 14, 15))),
    ],
    ids=[
        "even: as it is", "twofold: both schemes store the same", "R more than doubles: rows double, columns halve",
        "S more than doubles: columns double, rows halve", "half of the capacity is allowed", "above it: four for each",
    ],
)  # fmt: skip
def test_dynamic(rows, columns, expected):
    """From 2 x 2, V = 2,000: what a plan makes of it."""
    assert reshaped(TWO_BY_TWO, rows, columns, 2000, 256) == expected
    strategy = Dynamic(task_capacity=2000)
    start = replace(strategy.initial(4, 2, "shared"), reach=EVERYTHING)
    seen = report(rows, columns)
    made = strategy.plan(seen, items_of(seen, start), start)
    assert made.regions[0].topology == expected


@pytest.mark.parametrize(("rows", "changes"), [(219, False), (221, True)])
def test_dynamic_is_not_called_by_chance(rows, changes):
    """At twofold 4 x 1 and 2 x 2 store the same: a little more must not turn one into the other, a little less back."""
    strategy = Dynamic(task_capacity=2000)
    start = replace(strategy.initial(4, 2, "shared"), reach=EVERYTHING)
    made, _ = step(strategy, start, report(rows, 100))
    assert (made is not start) == changes
    assert step(strategy, made, report(190, 100))[0] is made


def test_dynamic_moves_what_it_must():
    """Doubling rows: each task takes in its neighbour's columns, and drops half its row. Quadrupling: three new tasks
    for each get a quarter of its cell."""
    strategy = Dynamic(task_capacity=2000)
    start = strategy.initial(4, 2, "shared")
    points = tuple((np.zeros(1, np.int64), np.array([volume])) for volume in (400.0, 100.0))
    for made, moved in ((more_rows, 4 * 50), (more_columns, 4 * 200), (quadrupled, 12 * (100 + 25))):
        table = replace(start, instances=16, regions=(replace(start.regions[0], topology=made(TWO_BY_TWO)),))
        assert moved_volume(start, check(table), points) == pytest.approx(moved)


def zipf_codes(rng, skew, rows):
    weight = np.arange(1, 2001, dtype=float) ** -skew
    return rng.permutation(2000)[rng.choice(2000, rows, p=weight / weight.sum())]


QUERIES = {
    "E_Q5: equality, uniform": (Reach(0, 0), 0.0),
    "E_Q5: equality, zipf 1": (Reach(0, 0), 1.0),
    "B_NCI: a narrow band": (Reach(-10, 10), 0.5),
    "B_MR: everything": (EVERYTHING, 1.0),
}


@pytest.mark.parametrize("query", QUERIES)
def test_as_data_grows_adsp_needs_the_fewest_tasks(query):
    """Fig. 10(a): schemes for each batch's volumes, each from the one before: A-DSP <= Square <= Dynamic in tasks, and
    no task above V."""
    reach, skew = QUERIES[query]
    rng = np.random.default_rng(7)
    codes = [np.unique(zipf_codes(rng, skew, 4000), return_counts=True) for _ in (0, 1)]
    tables = {s: replace(s.initial(1, 2, "shared"), reach=reach) for s in (Adsp(2000), Square(2000), Dynamic(2000))}
    history = []
    for batch in range(1, 9):
        samples = tuple(tuple(zip(c.tolist(), (n * batch * 1000 / n.sum()).tolist(), strict=True)) for c, n in codes)
        seen = LoadReport(batch, (), (), (), (), samples=samples)
        for strategy, table in tables.items():
            tables[strategy] = check(strategy.plan(seen, items_of(seen, table), table))
            load = stored_volume(tables[strategy], items_of(seen, table).alive).sum(axis=0)
            assert load.max() <= 2000
        history.append([table.instances for table in tables.values()])
    assert all(adsp <= square <= dynamic for adsp, square, dynamic in history), history
    assert history[-1][0] < history[-1][1] < history[-1][2]


@pytest.mark.parametrize("reach", [Reach(0, 0), Reach(-10, 10), EVERYTHING], ids=["equality", "band", "everything"])
def test_adsp_moves_less_than_dynamic_when_the_sides_change(reach):
    """Fig. 13: |R| / |S| goes 1, 2, 4, 8, 4, 2, 1, 1/2, ... of one total: A-DSP's migration volume is the smaller."""
    codes = np.unique(np.random.default_rng(3).integers(0, 100_000, 200))
    moved = []
    for strategy in (Adsp(2000), Dynamic(2000)):
        table = replace(strategy.initial(1, 2, "shared"), reach=reach)
        table, _ = step(strategy, table, report(4000, 4000, codes))
        total = 0.0
        for ratio in (1, 2, 4, 8, 4, 2, 1, 1 / 2, 1 / 4, 1 / 8, 1 / 4, 1 / 2, 1):
            table, volume = step(strategy, table, report(8000 * ratio / (1 + ratio), 8000 / (1 + ratio), codes))
            total += volume
        moved.append(total)
    assert moved[0] < moved[1], moved
