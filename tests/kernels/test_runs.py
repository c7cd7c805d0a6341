"""Probing sorted runs, against a loop over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.kernels.runs import (
    Hits,
    Probes,
    bisect,
    code_ranges,
    gathered,
    group_starts,
    pair_chunks,
    ranges,
    shifted,
)
from thorough import examples

LOW, HIGH = -(2**63), 2**63 - 1
codes = st.integers(-2, 3)
times = st.one_of(st.integers(-5, 5), st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH]))
runs = st.lists(st.tuples(codes, times), max_size=14).map(sorted)
probings = st.lists(st.tuples(codes, times, times), max_size=10).map(sorted)


def columns(rows, width, dtype=np.int64):
    """Tuples as arrays."""
    return [np.array([row[i] for row in rows], dtype) for i in range(width)]


@settings(max_examples=examples(300), deadline=None)
@given(runs, probings, st.booleans(), st.booleans(), st.booleans())
def test_ranges_are_exactly_the_matching_positions(run, probing, has_low, has_high, told_span):
    """Every stored tuple of the probe's code within its closed time bounds, and no other."""
    run_codes, run_times = columns(run, 2)
    probe_codes, low, high = columns(probing, 3)
    probes = Probes(probe_codes, group_starts(probe_codes), low if has_low else None, high if has_high else None)
    span = (int(run_times.min()), int(run_times.max())) if told_span and run else None
    found = ranges(run_codes, run_times, probes, span)
    assert (found.stop > found.start).all()
    got = {(row, at) for row, a, b in zip(*map(np.ndarray.tolist, found), strict=True) for at in range(a, b)}
    expected = {
        (row, at)
        for row, (code, first, last) in enumerate(probing)
        for at, (stored, time) in enumerate(run)
        if code == stored and (not has_low or first <= time) and (not has_high or time <= last)
    }
    assert got == expected
    assert found.pairs == len(expected)


@settings(max_examples=examples(100), deadline=None)
@given(runs, st.lists(codes, max_size=10).map(sorted))
def test_ranges_without_times(run, probing):
    """Full history: every stored tuple of the code."""
    run_codes, _ = columns(run, 2)
    probe_codes = np.array(probing, np.int64)
    found = ranges(run_codes, None, Probes(probe_codes, group_starts(probe_codes), None, None))
    got = [(row, at) for row, a, b in zip(*map(np.ndarray.tolist, found), strict=True) for at in range(a, b)]
    assert got == [(r, at) for r, code in enumerate(probing) for at, (stored, _) in enumerate(run) if code == stored]


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(times, max_size=14).map(sorted), st.lists(st.integers(LOW, HIGH), max_size=8, unique=True).map(sorted))
def test_code_ranges(run, groups):
    """Which codes occur, and where; codes anywhere in int64."""
    hits, start, stop = code_ranges(np.array(run, np.int64), np.array(groups, np.int64))
    expected = [(g, run.index(code), run.index(code) + run.count(code)) for g, code in enumerate(groups) if code in run]
    assert list(zip(hits.tolist(), start.tolist(), stop.tolist(), strict=True)) == expected


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(times, max_size=14).map(sorted), st.data())
def test_bisect_is_searchsorted_within_each_range(values, data):
    """Per needle, in its own range, left and right; empty ranges give their start."""
    edge = st.integers(0, len(values))
    asked = data.draw(st.lists(st.tuples(edge, edge, times), max_size=10))
    asked = [(min(a, b), max(a, b), needle) for a, b, needle in asked]
    start, stop, needles = columns(asked, 3)
    array = np.array(values, np.int64)
    for side in ("left", "right"):
        expected = [a + int(np.searchsorted(array[a:b], needle, side)) for a, b, needle in asked]
        assert bisect(array, start, stop, needles, side).tolist() == expected


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 50), st.integers(1, 9)), max_size=8), st.integers(1, 12))
def test_pair_chunks_give_every_pair_once_and_stay_small(found, limit):
    """All pairs in order, full chunks but the last, never more than the limit."""
    rows, start, count = columns(found, 3)
    chunks = list(pair_chunks(Hits(rows, start, start + count), limit))
    sizes = [len(r) for r, _ in chunks]
    assert all(size == limit for size in sizes[:-1])
    assert all(0 < size <= limit for size in sizes)
    got = [pair for r, at in chunks for pair in zip(r.tolist(), at.tolist(), strict=True)]
    assert got == [(row, a + i) for row, a, n in found for i in range(n)]


def test_pair_chunks_of_a_hot_key_are_lazy():
    """20,000 x 20,000 pairs: the first chunk comes without the other 400 million."""
    rows = np.arange(20_000)
    found = Hits(rows, np.zeros(20_000, np.int64), np.full(20_000, 20_000))
    assert found.pairs == 400_000_000
    probing, stored = next(pair_chunks(found, 1 << 17))
    assert len(probing) == len(stored) == 1 << 17
    assert probing.max() == (1 << 17) // 20_000


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_the_drawn_example(dtype):
    """The example at the top of kernels/probe.py."""
    run_codes, run_times = np.array([3, 3, 3, 7, 7, 9], dtype), np.array([1, 5, 9, 2, 25, 4])
    probe = np.array([7], dtype)
    found = ranges(run_codes, run_times, Probes(probe, group_starts(probe), np.array([20]), np.array([30])))
    assert [a.tolist() for a in found] == [[0], [4], [5]]


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(times, max_size=6), st.one_of(st.integers(-9, 9), st.sampled_from([LOW, -HIGH, HIGH, 2**64])))
def test_shifted_times_stop_at_the_ends(values, by):
    """t + by as a bound on int64 times: beyond the ends it is the end, it never wraps around."""
    got = shifted(np.array(values, np.int64), by).tolist()
    assert got == [min(max(value + by, LOW), HIGH) for value in values]


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.integers(1, 9), max_size=12), st.integers(9, 20))
def test_gathered_chunks_are_the_same_pairs_in_fewer_pieces(sizes, limit):
    """Nothing is lost, repeated or out of order; no chunk is above the limit, and none ends early."""
    at = np.split(np.arange(sum(sizes), dtype=np.int32), np.cumsum(sizes)[:-1]) if sizes else []
    chunks = list(gathered([(piece, piece + 100) for piece in at], limit))
    assert [x for rows, _ in chunks for x in rows.tolist()] == list(range(sum(sizes)))
    assert all((positions == rows + 100).all() for rows, positions in chunks)
    assert all(len(rows) <= limit for rows, _ in chunks)
    assert all(len(one) + 9 > limit for one, _ in chunks[:-1])
