"""FastJoin's equations against their definitions, and the ratio by which it scales."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenjoin.load.fastjoin import (
    Pair,
    Unit,
    after_moving,
    benefits,
    factors,
    gap_after,
    imbalance,
    measured_scaling_gain,
    scaling_gain_of_means,
    scaling_gain_ratio,
    unit_of,
)

counts = st.lists(st.tuples(st.integers(0, 10**4), st.integers(0, 10**4)), min_size=1, max_size=8)
units = st.builds(Unit, st.integers(0, 10**5), st.integers(0, 10**5))


def arrays(keys):
    """Stored and probes of the keys, as float arrays."""
    return tuple(np.array(column, np.float64) for column in zip(*keys, strict=True))


def test_equations_1_3_and_4():
    """|R_i| = 2 + 3, phi_i = 10 + 4, L_i = 5 * 14."""
    unit = unit_of(np.array([2.0, 3.0]), np.array([10.0, 4.0]))
    assert unit == Unit(5.0, 14.0)
    assert unit.load == 70.0


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        ([6.0, 2.0, 3.0], 3.0),
        ([5.0, 5.0], 1.0),
        ([7.0], 1.0),
        ([700.0, 0.0], 700.0),
        ([0.0, 0.0], 1.0),
        ([0.5, 0.25], 1.0),
        ([], 1.0),
    ],
    ids=[
        "heaviest over lightest",
        "equal loads are even",
        "one unit is even",
        "an idle unit counts as one",
        "idle units are even",
        "less than one comparison is idle",
        "no unit is even",
    ],
)
def test_imbalance(loads, expected):
    """Equation 2, finite and at least 1 whatever the loads."""
    assert imbalance(np.array(loads)) == expected


def test_equation_6_adds():
    """The printed second line of (6) subtracts; the product says 20 + 3 * 4 + 5 * 2 + 3 * 2 = 48."""
    assert after_moving(Pair(Unit(10, 10), Unit(5, 4)), stored=3, probes=2) == (56.0, 48.0)


@given(counts, units, units)
def test_benefit_is_the_difference_undone(keys, rest, target):
    """Equation 8 is (L_i - L_j) - (L'_i - L'_j), equation 7, for each key."""
    stored, probes = arrays(keys)
    pair = Pair(Unit(rest.stored + stored.sum(), rest.probes + probes.sum()), target)
    for k, benefit in enumerate(benefits(pair, stored, probes)):
        source_after, target_after = after_moving(pair, stored[k], probes[k])
        assert benefit == pair.gap - (source_after - target_after)


@given(counts, units, units)
def test_benefits_telescope(keys, rest, target):
    """Equation 9: moved one after the other or at once, keys bring the sum of the benefits they had at first."""
    stored, probes = arrays(keys)
    pair = Pair(Unit(rest.stored + stored.sum(), rest.probes + probes.sum()), target)
    first = benefits(pair, stored, probes)
    source, onto = pair.source, pair.target
    for k in range(len(stored)):
        now = Pair(source, onto)
        assert benefits(now, stored, probes)[k] == first[k]
        source = Unit(source.stored - stored[k], source.probes - probes[k])
        onto = Unit(onto.stored + stored[k], onto.probes + probes[k])
        assert source.load - onto.load == gap_after(pair, first[: k + 1])
    assert (source.load, onto.load) == after_moving(pair, stored.sum(), probes.sum())


def test_a_key_without_stored_tuples_has_a_finite_factor():
    """It counts as one tuple: F_k itself."""
    assert factors(np.array([60.0, 60.0, 0.0]), np.array([3.0, 0.0, 0.0])).tolist() == [20.0, 60.0, 0.0]


def test_the_scaling_gain_ratio_is_the_papers():
    """Equations 12 and 13: with c = 10 tuples a key and statistics as large as a tuple it is above 0.9; with the 14
    orders and the 10,000 tracks a location of the paper's city it is more. Without any key it is 1."""
    assert scaling_gain_ratio(100, 1000, 20, 50) == 100_000 / 101_000
    assert scaling_gain_of_means(100, 20, 20) == scaling_gain_ratio(100, 1000, 20, 50)
    assert scaling_gain_of_means(1, 10, 1) > 0.9
    assert scaling_gain_of_means(1, 14, 1) == 14 / 15
    assert scaling_gain_of_means(1, 10_000, 1) > 0.9998
    assert scaling_gain_ratio(100, 1000, 20, 0) == scaling_gain_ratio(1, 0, 1, 0) == 1


def test_the_scaling_gain_of_a_running_join():
    """A gigabyte of state on 48 instances with 8 buckets and 128 named keys each, two sides: 0.05 % are statistics."""
    assert measured_scaling_gain(1e9, 48 * (8 + 128) * 2) == pytest.approx(0.99948, abs=1e-5)
