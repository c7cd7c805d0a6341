"""The join graph: signs change in one place, and bounds that follow from others are found."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evenjoin.spec.band import Band
from evenjoin.spec.graph import Edge, closure, tightened
from thorough import examples


def edge(a, b, low, high, **more):
    return Edge(**{"sides": (a, b), "drive": "equal", "index": (0, 0), "band": None, "low": low, "high": high,
                   "residual": None, **more})  # fmt: skip


def test_a_view_has_the_bounds_of_the_others_value_minus_its_own():
    """-5 <= t1 - t0 <= 6 is, seen from side 1, -6 <= t0 - t1 <= 5; codes likewise."""
    one = edge(0, 1, -5, 6, drive="band", band=Band("integer", 1, None), index=(2, 3))
    mine, theirs = one.seen_from(0), one.seen_from(1)
    assert (mine.side, mine.other, mine.low, mine.high, mine.band, mine.index) == (0, 1, -5, 6, one.band, (2, 3))
    assert (theirs.side, theirs.other, theirs.low, theirs.high, theirs.index) == (1, 0, -6, 5, (3, 2))
    assert (theirs.band.low, theirs.band.high) == (None, -1)


bound = st.one_of(st.none(), st.integers(-9, 9))


@given(bound, bound, st.integers(-20, 20), st.integers(-20, 20))
def test_both_sides_of_an_edge_say_the_same_of_a_pair(low, high, one, two):
    """Whoever looks, the pair is in or out."""

    def inside(view, gap):
        return (view.low is None or gap >= view.low) and (view.high is None or gap <= view.high)

    there = edge(0, 1, low, high)
    assert inside(there.seen_from(0), two - one) == inside(there.seen_from(1), one - two)


def test_the_closure_of_two_sides_is_their_own_bound():
    """Nothing follows from one edge; also where its bounds leave nothing."""
    assert closure(2, [edge(0, 1, -5, 6)]) == ((0, 6), (5, 0))
    assert closure(2, [edge(0, 1, 4, -4)]) == ((0, -4), (-4, 0))
    assert closure(2, [edge(0, 1, None, None)]) == ((0, None), (None, 0))


def test_a_chain_bounds_its_ends():
    """0 <= b - a <= 5 and 0 <= c - b <= 7: c is at most 12 after a, and never before it."""
    d = closure(3, [edge(0, 1, 0, 5), edge(1, 2, 0, 7)])
    assert (d[0][2], d[2][0]) == (12, 0)


def test_edges_are_tightened_to_what_all_of_them_allow():
    """An edge without a bound gets the one that follows. Bounds that contradict each other still leave nothing."""
    chain = [edge(0, 1, 0, 5), edge(0, 2, None, None), edge(1, 2, 0, 7)]
    assert [(e.low, e.high) for e in tightened(3, chain)] == [(0, 5), (0, 12), (0, 7)]
    half = [edge(0, 1, 0, None), edge(0, 2, None, 9), edge(1, 2, 2, None)]
    assert [(e.low, e.high) for e in tightened(3, half)] == [(0, 7), (2, 9), (2, 9)]
    never = tightened(3, [edge(0, 1, 5, None), edge(0, 2, None, 0), edge(1, 2, 0, None)])
    assert all(e.high < e.low for e in never)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([(0, 1), (0, 2), (1, 2), (2, 3)]), st.integers(-4, 4), st.integers(0, 5)),
        max_size=4, unique_by=lambda e: e[0],
    )
)  # fmt: skip
@example([((0, 1), 1, 5), ((1, 2), 4, 0), ((2, 3), 4, 0)])
def test_no_times_that_satisfy_every_edge_are_outside_the_closure(drawn):
    """And the closure is tight: brute force reaches each of its bounds.

    A bound is at most 9 away and a way between two sides has at most three edges. So no time is further than 27
    from side 0's, which is 0, and the grid below misses nothing.
    """
    edges = [edge(*sides, low, low + width) for sides, low, width in drawn]
    d = closure(4, edges)
    span = np.arange(-27, 28)
    times = np.meshgrid([0], span, span, span, indexing="ij", sparse=True)
    gap = {(x, y): times[y] - times[x] for x, y in permutations(range(4), 2)}
    fits = np.ones((1, len(span), len(span), len(span)), dtype=bool)
    for each in edges:
        fits &= (each.low <= gap[each.sides]) & (gap[each.sides] <= each.high)
    if fits.any():
        for (x, y), between in gap.items():
            if d[x][y] is not None:
                assert np.broadcast_to(between, fits.shape)[fits].max() == d[x][y]


def test_a_bounded_edge_needs_one_bound():
    """Without any, a tuple without a time can still match."""
    assert edge(0, 1, None, 0).bounded
    assert not edge(0, 1, None, None).bounded


@pytest.mark.parametrize(
    ("made", "checked"),
    [
        (edge(0, 1, 0, 5), False),
        (edge(0, 1, 0, 5, drive="none"), False),
        (edge(0, 1, 0, 5, drive="band", band=Band("integer", 0, 9)), True),
        (edge(0, 1, 0, 5, drive="band", band=Band("integer", 0, 5, on_time=True)), False),
        (edge(0, 1, None, None, drive="band", band=Band("integer", 0, 9)), False),
    ],
    ids=["equal codes", "one code for all", "a band of something else", "the band is the time", "no bound"],
)
def test_times_are_checked_pair_by_pair_only_across_codes(made, checked):
    """Within one code tuples are sorted by time, so the probe enforces the bound."""
    assert made.seen_from(0).times_are_checks is made.seen_from(1).times_are_checks is checked


def test_an_empty_band_still_has_a_reach():
    """low > high matches nothing, and a table can still be made for it."""
    assert replace(edge(0, 1, None, None), drive="band", band=Band("integer", 3, 1)).reach == (3, 3)
