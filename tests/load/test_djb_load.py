"""D-JB's definitions with numbers: factors (eq. 1, 2), costs (Definition 3) and their time (T_total)."""

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
    is_split,
    mean_workload,
    side_gap,
    workloads,
)
from evenjoin.load.items import items_of
from evenjoin.placement.place import At, place
from evenjoin.strategies import DJB
from evenjoin.strategies.edit import Edit
from strategies.counted import counted, joined, zipf

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
    assert side_gap(np.array(load, float), 0.05) == gap


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
    """A split over three units adds one record, sends the 5 arrivals of the other side twice more, and half of its own
    20 to another instance than that which they probe; it moves what is stored elsewhere. Merging costs the way back
    only."""
    table = DJB(buckets=3).initial(3, 2, "shared")
    items = items_of(counted(table, {3: (20, 5, 100, 40, 9, 9)}), table)
    edit = Edit(table)
    edit.move_key(3, 0, (0, 1, 2), (0.5, 0.3, 0.2))
    assert edit.home(3).units == ((0,), (0,))
    split = edit.table()
    assert costs(items, table, split) == Costs(1, pytest.approx(20), pytest.approx(50))
    back = items_of(counted(split, {3: (20, 5, 100, 40, 9, 9)}), split)
    assert duplicated(back, split) == pytest.approx(20)
    assert costs(back, split, table) == Costs(0, 0, pytest.approx(50))


def test_t_total():
    """T_hash 2 for each of 3 records, T_trans 0.5 for each of 4 messages and 12 tuples: 6 + 2 + 6 microseconds."""
    assert Costs(routing=3, duplication=4, migration=12).total_us(2.0, 0.5) == pytest.approx(14)


def test_a_plan_that_costs_more_in_everything_is_dearer():
    """More duplication at about the same migration is never cheaper."""
    assert Costs(1, 7296, 41607).total_us(0.4, 1.3) < Costs(1, 15808, 41937).total_us(0.4, 1.3)


@pytest.mark.parametrize(("hash_us", "transfer_us", "total"), [(0.0, 0.0, 4), (3.0, 0.0, 12), (0.0, 0.7, 2.8)])
def test_times_that_were_not_measured(hash_us, transfer_us, total):
    """A missing time counts as long as the other, so that only the numbers of records and tuples decide."""
    assert Costs(1, 1, 2).total_us(hash_us, transfer_us) == pytest.approx(total)


def test_stored_tuples_as_the_load():
    """20,200 tuples stored on one unit and 400 on each of three others, all arrivals alike: by work all are even, by
    what is stored theta is 20,200 / 5,350 - 1, in both layouts."""
    for layout, buckets in (("shared", 4), ("split", 2)):
        table = DJB(buckets=buckets).initial(4, 2, layout)
        one, *others = (code_of(table, (unit,)) for unit in range(buckets))
        keys = dict.fromkeys(others, (5, 5, 200, 200, 0, 0) if layout == "shared" else (5, 5, 400, 400, 0, 0))
        keys[one] = (5, 5, 20_000, 200, 0, 0) if layout == "shared" else (5, 5, 20_200, 400, 0, 0)
        items = items_of(counted(table, keys), table)
        assert DJB().imbalance(items, table) == 0
        assert DJB(load="stored").imbalance(items, table) == pytest.approx(20_200 / 5_350 - 1)


def code_of(table, units):
    """A key whose tuples of side 0 are on these units."""
    return next(code for code in range(200) if Edit(table).home(code).units[0] == units)


@pytest.mark.parametrize("layout", ["shared", "split"])
def test_duplication_is_what_place_sends(layout):
    """Tuples of a zipf stream placed under the plan, and under the plan with its split keys at home."""
    djb = DJB(buckets=32 if layout == "shared" else 16)
    table = djb.initial(8, 2, layout)
    counts = zipf(1.2, 20_000, 2_000)
    keys = joined(counts, counts, 3)
    report = counted(table, keys, 128, hash_us=0.4, transfer_us=1.3)
    plan = djb.plan(report, items_of(report, table), table)
    home = Edit(plan)
    for code in home.routed:
        if is_split(home.topology(code)):
            home.send_home(code, 0)
            home.send_home(code, 1)
    codes, rng = np.repeat(np.arange(2_000), counts), np.random.default_rng(7)
    at = At(codes, rng.integers(0, 2**32, len(codes), dtype=np.uint32))
    sent = [sum(len(place(one, side, at).row) for side in (0, 1)) for one in (plan, home.table())]
    assert sent[0] - sent[1] > 10_000
    items = items_of(counted(plan, keys, 128), plan)
    assert duplicated(items, plan) == pytest.approx(sent[0] - sent[1], rel=0.01)
