"""Direct address: it finds what a search finds, and is made only where that is worth while."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.kernels.runs import DEAR, SPARSE, Address, Lookup, code_ranges
from thorough import examples

HIGH = 2**63 - 1
near = st.integers(-4, 20)
codes = st.lists(near, min_size=1, max_size=30).map(sorted)
offsets = st.sampled_from([0, -(2**63) + 4, HIGH - 20, 2**31 - 10])
wanted = st.sets(st.integers(-6, 24), max_size=12).map(sorted)


def same(one, two):
    return all(a.tolist() == b.tolist() and a.dtype == b.dtype for a, b in zip(one, two, strict=True))


@settings(max_examples=examples(200), deadline=None)
@given(codes, wanted, offsets)
def test_it_finds_what_a_search_finds(run, groups, offset):
    """Anywhere in int64, also where a code that probes is beyond either end of the run."""
    stored = np.array([code + offset for code in run], np.int64)
    asked = np.array([c + offset for c in groups if -(2**63) <= c + offset <= HIGH], np.int64)
    assert same(Address.of(stored).ranges(asked), code_ranges(stored, asked))


@given(codes, wanted)
def test_narrow_codes(run, groups):
    stored, asked = np.array(run, np.int32), np.array(groups, np.int32)
    assert same(Address.of(stored).ranges(asked), code_ranges(stored, asked))


def test_it_is_rented_before_it_is_bought():
    """Searched while searches are cheaper in sum than the array; the answers are the same before and after."""
    run, groups, lookup = np.arange(0, 4 * DEAR), np.arange(0, 16, 2), Lookup()
    for _ in range(5):
        assert same(lookup.ranges(run, groups), code_ranges(run, groups))
        bought = lookup.address is not None
        assert bought == (lookup.searched * DEAR >= 2 * len(run))
    assert bought


@pytest.mark.parametrize("run", [np.zeros(0, np.int64), np.array([0, 2 * SPARSE]), np.array([-(2**63), HIGH])])
def test_codes_that_are_far_apart_are_searched(run):
    lookup, groups = Lookup(), np.arange(0, 100)
    for _ in range(3):
        assert same(lookup.ranges(run, groups), code_ranges(run, groups))
    assert lookup.address is None
