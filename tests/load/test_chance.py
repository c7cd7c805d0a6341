"""What chance makes of few tuples: which keys are known, which rates are believed, how far loads are off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evenjoin.load.items import Items, deviations, furthest
from evenjoin.load.rates import ENOUGH, known, rates_after, smoothed
from evenjoin.placement.table import Buckets, Keys, Region, RoutingTable
from evenjoin.placement.topology import Biclique

HOME = tuple(Region(Buckets((b,)), Biclique(((b,), (b,)))) for b in (0, 1))
TABLE = RoutingTable(0, 2, 2, 2, HOME)


def items(keys, rest, stored=None):
    """Keys 0, 1, ... of bucket 0 and the rest of two buckets, with so many arrivals on side 0; side 1 is silent."""
    arrived = np.array([*keys, *rest], np.float64)
    number, counts = np.arange(len(arrived)), np.stack([arrived, np.zeros_like(arrived)])
    held = counts if stored is None else np.stack([np.array(stored, np.float64), np.zeros_like(arrived)])
    is_key = number < len(keys)
    return Items(
        np.where(is_key, number, 0), is_key, np.array([0] * len(keys) + [0, 1]), held, counts, np.zeros_like(counts)
    )


def test_a_key_of_which_little_is_known_is_part_of_its_bucket():
    """Key 1 is; key 0 has enough arrivals, and key 2 enough stored tuples."""
    seen = known(items((ENOUGH, ENOUGH - 1, 1), (50, 60), (ENOUGH, ENOUGH - 1, ENOUGH, 50, 60)), TABLE)
    assert seen.code[seen.is_key].tolist() == [0, 2]
    assert seen.arrived[0].tolist() == [ENOUGH, 1, 50 + ENOUGH - 1, 60]
    assert seen.stored[0].tolist() == [ENOUGH, ENOUGH, 50 + ENOUGH - 1, 60]


def test_a_key_with_a_region_stays_an_item():
    """The table places it, whatever is known of it."""
    placed = TABLE.with_regions((*HOME, Region(Keys((1,)), Biclique(((1,), (1,))))))
    assert known(items((2, 2), (50, 60)), placed).code[:1].tolist() == [1]


def test_a_key_named_now_begins_with_what_is_stored_of_it():
    """Nine batches of 200 tuples without it are counted. It has 20 of 2,000 stored tuples, so 2 a batch, and 6 now: a
    quarter of the way from 2 to 6 is 3, not 6. Its bucket has what it had."""
    rates = None
    for _ in range(9):
        rates = rates_after(rates, items((), (100, 100)))
    now = items((6,), (94, 100), (20 + 6, 980 + 94, 1000 + 100))
    after = rates_after(rates, now)
    assert after.of_keys[0] == pytest.approx([3.0])
    assert after.in_buckets[0] == pytest.approx((100, 100))


def test_a_key_that_becomes_hot_is_believed_at_once():
    """None of it was stored, and 60 of 200 cannot be chance."""
    rates = None
    for _ in range(9):
        rates = rates_after(rates, items((), (100, 100)))
    after = rates_after(rates, items((60,), (70, 70), (60, 1070, 1070)))
    assert after.of_keys[0] == pytest.approx([60], rel=0.02)
    assert after.in_buckets[0][0] > 125


@pytest.mark.parametrize(
    ("stored", "expected"),
    [((1000, 1000), [100, 100]), ((1600, 400), [105, 95])],
    ids=["a longer memory that agrees is believed", "one that contradicts the last batches is not"],
)
def test_rates_and_what_is_stored(stored, expected):
    """Buckets had 105 and 95 tuples a batch lately, and as many batches are stored as 2,000 tuples are."""
    rates = None
    for _ in range(9):
        rates = rates_after(rates, items((), (105, 95)))
    wide = replace(items((), (105, 95)), stored=np.array([stored, (0, 0)], np.float64))
    assert smoothed(wide, rates).arrived[0] == pytest.approx(expected)


def test_few_tuples_are_further_off_than_many():
    """Four times as many tuples are off by half as much; and one key by as much as its tuples say."""
    few, many = (deviations(items((), (n, n)), TABLE) for n in (100, 400))
    assert few == pytest.approx([0.1, 0.1])
    assert many == pytest.approx([0.05, 0.05])
    assert deviations(items((), (0, 100)), TABLE)[0] == 0


def test_the_furthest_of_many_is_further():
    """That of 48 equal units is off by almost three deviations."""
    assert furthest(2) < furthest(48) < furthest(100)
    assert furthest(48) == pytest.approx(2.78, abs=0.01)
