"""The codes a probing tuple asks for, against the definition of a band."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.kernels.band import CAP, MAX, MIN, Slack, asked_codes, capped_sum, float_of
from evenjoin.kernels.hashing import ordered_int64
from evenjoin.kernels.runs import Probes, band_ranges, group_starts, in_time, narrow
from thorough import examples

edges = [MIN, MIN + 1, MIN + 5, -CAP, CAP, MAX - 5, MAX - 1, MAX]
codes = st.one_of(st.integers(-6, 6), st.sampled_from(edges))
bounds = st.one_of(st.none(), st.integers(-4, 4), st.sampled_from([MIN, MAX, 2**64, -(2**65)]))


def array(values, dtype=np.int64):
    return np.array(values, dtype)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(codes, max_size=8), st.lists(codes, max_size=8), bounds, bounds)
def test_integer_bands_are_exact(mine, stored, low, high):
    """Asked for <=> low <= stored - mine <= high, anywhere in int64 and with bounds beyond it."""
    first, last = asked_codes(array(mine), "integer", low, high)
    for code, a, b in zip(mine, first.tolist(), last.tolist(), strict=True):
        for other in stored:
            gap = other - code
            assert (a <= other <= b) == ((low is None or low <= gap) and (high is None or gap <= high))


terms = st.lists(st.tuples(codes, st.sampled_from([1, -1, 2, -3, 1000])), min_size=1, max_size=3)


around_zero = st.tuples(st.one_of(st.none(), st.integers(-9, 0)), st.one_of(st.none(), st.integers(0, 9)))


@settings(max_examples=examples(300), deadline=None)
@given(terms, terms, around_zero)
def test_capped_sums_are_found(mine, stored, band):
    """Sums stop at CAP, exactly, and what satisfies a band with 0 in it is asked for from either side."""
    sums = [sum(value * factor for value, factor in side) for side in (mine, stored)]
    capped = [capped_sum([(array([value]), factor) for value, factor in side]) for side in (mine, stored)]
    assert [code.tolist() for code in capped] == [[min(max(exact, -CAP), CAP)] for exact in sums]
    (low, high), gap = band, sums[1] - sums[0]
    if (low is None or low <= gap) and (high is None or gap <= high):
        first, last = asked_codes(capped[0], "integer", low, high)
        assert first <= capped[1] <= last
        back = None if high is None else -high, None if low is None else -low
        first, last = asked_codes(capped[1], "integer", *back)
        assert first <= capped[0] <= last


floats = st.floats(allow_nan=False, allow_infinity=False)
reals = st.one_of(st.none(), st.floats(-1e30, 1e30), st.sampled_from([0.0, 0.1, 0.3]))


@settings(max_examples=examples(300), deadline=None)
@given(floats, reals, reals, st.integers(-3, 3))
def test_real_bands_ask_for_enough(value, low, high, steps):
    """A float within the band, in exact arithmetic or as floats round, is asked for; so is one just beside its edge."""
    code = ordered_int64(pa.array([value]))
    assert float_of(code).tolist() == [value]
    slack = Slack(2.0**-45, 2.0**-45 * max(abs(low or 0), abs(high or 0)) + 1e-44)
    first, last = asked_codes(code, "real", low, high, slack)
    for edge in (low, high):
        if edge is None or not math.isfinite(other := value + edge):
            continue
        for _ in range(abs(steps)):
            other = math.nextafter(other, math.copysign(math.inf, steps))
        if not math.isfinite(other):
            continue
        gap = Fraction(other) - Fraction(value)
        exact = (low is None or Fraction(low) <= gap) and (high is None or gap <= Fraction(high))
        rounded = (low is None or low <= other - value) and (high is None or other - value <= high)
        if exact or rounded:
            assert first <= ordered_int64(pa.array([other])) <= last


def test_nan_is_the_greatest_and_infinities_are_values():
    """`stored >= mine` asks for NaN everywhere; a NaN asks for NaN only; infinity for itself and NaN."""
    values = [-math.inf, -1.0, 0.0, math.inf, math.nan]
    mine = ordered_int64(pa.array(values))
    first, last = asked_codes(mine, "real", 0.0, None)
    assert [[values[i] for i in range(5) if a <= mine[i] <= b] for a, b in zip(first, last, strict=True)][3:] == [
        [math.inf, values[4]],
        [values[4]],
    ]
    assert (last == MAX).all()


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.tuples(st.integers(-6, 6), st.integers(-3, 3)), max_size=14).map(sorted),
    st.lists(st.tuples(st.integers(-6, 6), st.integers(-3, 3)), max_size=10).map(sorted),
    st.integers(-3, 3), st.integers(-3, 3), st.booleans(),
)  # fmt: skip
def test_band_ranges_and_times(run, probing, low, high, timed):
    """Every stored tuple within the band of each probing row, and of those the ones within its times."""
    run_codes, run_times = (array([r[i] for r in run]) for i in (0, 1))
    mine, times = (array([p[i] for p in probing]) for i in (0, 1))
    probes = Probes(mine, group_starts(mine), times - 1 if timed else None, times + 1)
    asked = asked_codes(mine[probes.starts[:-1]], "integer", low, high)
    found = narrow(None, probes, *band_ranges(run_codes, *asked), None)
    pairs = [(r, at) for r, a, b in zip(*map(np.ndarray.tolist, found), strict=True) for at in range(a, b)]
    assert sorted(pairs) == [
        (row, at)
        for row, (code, _) in enumerate(probing)
        for at, (other, _) in enumerate(run)
        if low <= other - code <= high
    ]
    rows, positions = array([p[0] for p in pairs]), array([p[1] for p in pairs])
    kept = in_time(run_times, probes, rows, positions)
    assert kept.tolist() == [
        (not timed or run[at][1] >= probing[row][1] - 1) and run[at][1] <= probing[row][1] + 1 for row, at in pairs
    ]


@pytest.mark.parametrize("kind", ["integer", "real"])
def test_nothing_asks_for_nothing(kind):
    """No codes, no ranges."""
    first, last = asked_codes(array([]), kind, 0, 1)
    assert len(first) == len(last) == 0
