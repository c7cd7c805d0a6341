"""D-JB's definitions with numbers: factors (eq. 1, 2), costs (Definition 3) and their weights (eq. 3)."""

from __future__ import annotations

import numpy as np
import pytest

from evenjoin.load.djb import (
    Costs,
    best_division,
    costs,
    duplicated,
    factors,
    imbalance,
    mean_workload,
    side_gap,
    total_costs,
    weights,
    workloads,
)
from evenjoin.load.items import items_of
from evenjoin.strategies import DJB
from evenjoin.strategies.edit import Edit
from strategies.counted import counted

NONE = np.nan


def test_eq_1_and_2():
    """theta(pu) = |L(pu) - mean| / mean, both for units above and below; nothing where there is no unit."""
    load = np.array([[120.0, 80.0, NONE, 100.0], [0.0, 0.0, 0.0, NONE]])
    assert mean_workload(load).tolist() == [100.0, 0.0]
    assert factors(load)[0, [0, 1, 3]] == pytest.approx([0.2, 0.2, 0.0])
    assert np.isnan(factors(load)[0, 2])
    assert factors(load)[1, :3].tolist() == [0.0, 0.0, 0.0]
    assert imbalance(load[:1]) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("load", "first", "gap"),
    [
        ([[1200, 1200, NONE, NONE], [NONE, NONE, 400, 400]], 3, 0.5),
        ([[400, 400, NONE, NONE], [NONE, NONE, 1200, 1200]], 1, 0.5),
        ([[500, 500, NONE, NONE], [NONE, NONE, 400, 400]], 2, 0.0),
        ([[900, NONE], [NONE, 100]], 1, 0.0),
        ([[600, NONE, NONE], [NONE, 300, NONE]], 2, pytest.approx(1 / 3)),
        ([[0, NONE, NONE], [NONE, 0, 0]], 1, 0.0),
    ],
    ids=[
        "a unit should go to the first side",
        "a unit should go to the second side",
        "a small difference is not worth a unit",
        "each side keeps one unit, however uneven",
        "an idle instance is given to the heavy side",
        "no work, no gap",
    ],
)
def test_division_of_units_between_sides(load, first, gap):
    """Units belong where they make the heavier mean least; if they are so divided there is no gap to close."""
    assert best_division(np.array(load, float)) == first
    assert side_gap(np.array(load, float)) == gap


@pytest.mark.parametrize(
    ("layout", "expected"),
    [("shared", [[2 + 3 + 5 + 3 + 2 + 7, 0.0]]), ("split", [[2 + 3 + 5, NONE], [NONE, 3 + 2 + 7]])],
)
def test_total_workload(layout, expected):
    """L(pu) is tuples stored, tuples that probed and results: of the instance (shared), or of a side's unit (split)."""
    table = DJB(buckets=2).initial(2, 2, layout)
    items = items_of(counted(table, {3: (2, 3, 90, 90, 5, 7)}), table)
    np.testing.assert_array_equal(workloads(items, table), expected)


def test_definition_3():
    """A split over three units adds one record, sends the other side's arrivals twice more, and moves what is stored
    elsewhere; merging costs the way back only."""
    table = DJB(buckets=3).initial(3, 2, "shared")
    items = items_of(counted(table, {3: (20, 5, 100, 40, 9, 9)}), table)
    edit = Edit(table)
    edit.move_key(3, 0, (0, 1, 2), (0.5, 0.3, 0.2))
    assert edit.home(3).units == ((0,), (0,))
    split = edit.table()
    assert costs(items, table, split) == Costs(1, 10, pytest.approx(50))
    back = items_of(counted(split, {3: (20, 5, 100, 40, 9, 9)}), split)
    assert duplicated(back, split) == 10
    assert costs(back, split, table) == Costs(0, 0, pytest.approx(50))


def test_eq_3():
    """T_total = T_hash + m T_trans + n T_trans with T_hash 2, T_trans 0.5, m 4, n 12: 2 + 2 + 6 = 10."""
    plan = Costs(routing=3, duplication=4, migration=12)
    assert weights([plan], 2.0, 0.5) == pytest.approx((0.2, 0.2, 0.6))
    assert total_costs([plan], 2.0, 0.5) == [pytest.approx(0.2 * 3 + 0.2 * 4 + 0.6 * 12)]


def test_a_plan_that_costs_more_in_everything_is_dearer():
    """Plans are compared by the same weights, so more duplication at the same migration is never cheaper."""
    less, more = Costs(1, 7296, 41607), Costs(1, 15808, 41937)
    one, two = total_costs([less, more], 0.4, 1.3)
    assert one < two


@pytest.mark.parametrize(("hash_us", "transfer_us"), [(0.0, 0.0), (3.0, 0.0), (0.0, 0.7)])
def test_times_that_were_not_measured(hash_us, transfer_us):
    """A missing time counts as long as the other, so that only the numbers of records and tuples decide."""
    assert weights([Costs(1, 1, 2)], hash_us, transfer_us) == pytest.approx((0.25, 0.25, 0.5))
