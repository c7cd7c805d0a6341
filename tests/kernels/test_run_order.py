"""The order of a run, whatever the spans of codes and times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.kernels.runs import FEW, expand, group_starts, radix_order, run_order
from thorough import examples

LOW, HIGH = -(2**63), 2**63 - 1
wide = st.one_of(st.integers(-3, 3), st.integers(LOW, HIGH), st.sampled_from([LOW, LOW + 1, -1, 0, 1, HIGH - 1, HIGH]))
narrow = st.one_of(st.integers(-3, 3), st.sampled_from([-(2**31), 2**31 - 1]))


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.tuples(wide, wide), max_size=12))
def test_sorted_by_code_then_time(pairs):
    """Codes and times anywhere in int64, also where their spans together pass 64 bits."""
    codes, times = (np.array([p[i] for p in pairs], np.int64) for i in range(2))
    order = run_order(codes, times)
    assert sorted(order.tolist()) == list(range(len(pairs)))
    assert [pairs[i] for i in order] == sorted(pairs)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(narrow, wide), max_size=12))
def test_narrow_codes(pairs):
    """Hashed codes are int32."""
    codes, times = np.array([p[0] for p in pairs], np.int32), np.array([p[1] for p in pairs], np.int64)
    assert [pairs[i] for i in run_order(codes, times)] == sorted(pairs)


@pytest.mark.parametrize("time_bits", [0, 1, 31, 32, 33, 61, 62, 63])
def test_at_the_limit_of_packing(time_bits):
    """Spans that just fit into 63 bits together, and those that just do not."""
    for code_bits in (62 - time_bits, 63 - time_bits, 64 - time_bits):
        if 0 <= code_bits <= 63:
            codes = [LOW, LOW + 2**code_bits - 1 if code_bits else LOW]
            times = [HIGH, HIGH - (2**time_bits - 1)]
            pairs = [(c, t) for c in reversed(codes) for t in times]
            order = run_order(np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs]))
            assert [pairs[i] for i in order] == sorted(pairs)


@given(st.lists(wide, max_size=12))
def test_without_times(values):
    """Full history has no times: by code alone."""
    codes = np.array(values, np.int64)
    assert codes[run_order(codes, None)].tolist() == sorted(values)


@pytest.mark.parametrize("bits", [1, 15, 16, 17, 32, 40, 63])
@pytest.mark.parametrize("rows", [FEW - 1, FEW, 5 * FEW])
def test_digit_by_digit(bits, rows):
    """As numpy's stable sort, at either side of a digit's edge and of the least number of rows."""
    values = np.random.default_rng([bits, rows]).integers(0, 2**bits, rows)
    values[:2] = 2**bits - 1, 0
    assert radix_order(values, bits).tolist() == np.argsort(values, kind="stable").tolist()


def test_ties_keep_their_order():
    codes, times = np.tile([5, -7, 5], FEW), np.tile([1, 1, 1], FEW)
    for order in (run_order(codes, times), run_order(codes, None)):
        assert order.tolist() == np.argsort(codes, kind="stable").tolist()


@given(st.lists(st.integers(-2, 2), max_size=12).map(sorted))
def test_group_starts(values):
    """Each distinct code once, and the length at the end."""
    starts = group_starts(np.array(values, np.int64))
    assert starts.tolist() == [i for i, v in enumerate(values) if i == 0 or values[i - 1] != v] + [len(values)]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 4)), max_size=8))
def test_expand(ranges):
    """The ranges one after the other, empty ones too."""
    starts, counts = (np.array([r[i] for r in ranges], np.int64) for i in range(2))
    assert expand(starts, counts).tolist() == [start + i for start, count in ranges for i in range(count)]
