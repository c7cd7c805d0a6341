"""A-DSP's costs with the paper's numbers, and the compressed ordered matrix."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.load.adsp import cpu, matrix_of, memory, network, square_lines, square_tasks
from evenjoin.placement import EVERYTHING, Interval, Ranges, Reach
from thorough import examples


def test_the_costs_of_figure_3():
    """6 x 6 on 2 x 2 tasks: each tuple twice, whatever its side; the work is the whole matrix (eq. 1-3)."""
    assert memory(6, 6, 2, 2) == 24
    assert memory(6, 6, 2, 1) == 18
    assert network(6, 6, 2, 1, (10, 1)) == 72
    assert cpu(6, 6) == 36


def test_square_needs_four_tasks_for_figure_3():
    """V = 10, 6 x 6: 2 x 2 (eq. 9); exactly half of V is one line."""
    assert square_lines(6, 6, 10) == (2, 2)
    assert square_lines(5, 10, 10) == (1, 2)
    assert square_lines(0, 0, 10) == (1, 1)
    tasks, taken = square_tasks(np.array([6.0, 9.0]), np.array([6.0, 7.0]), 10)
    assert (tasks.tolist(), taken.tolist()) == ([4, 4], [24, 32])


codes = st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 9)), min_size=1, max_size=40)
reaches = st.one_of(
    st.tuples(st.integers(-20, 20), st.integers(0, 15)).map(lambda t: Reach(t[0], t[0] + t[1])),
    st.sampled_from([Reach(1, None), Reach(None, 0), EVERYTHING]),
)


def matrix(one, two, reach, lines=12):
    points = tuple((np.array([c for c, _ in side]), np.array([float(w) for _, w in side])) for side in (one, two))
    return points, matrix_of(points, reach, lines)


@settings(max_examples=examples(80), deadline=None)
@given(codes, codes, reaches)
def test_candidates_are_monotone_and_complete(one, two, reach):
    """Each row's candidates are one run whose ends never fall; every pair within the reach is in a candidate cell, and
    every candidate cell has a pair of codes within the reach."""
    _, made = matrix(one, two, reach)
    runs = made.candidates()
    for above, below in pairwise(run for run in runs if len(run)):
        assert above.start <= below.start
        assert above.stop <= below.stop
    for x in range(-60, 61):
        row = int(np.searchsorted(made.lines[0].at, x, "right"))
        for y in range(-60, 61, 7):
            inside = (reach.low is None or y - x >= reach.low) and (reach.high is None or y - x <= reach.high)
            column = int(np.searchsorted(made.lines[1].at, y, "right"))
            assert not inside or column in runs[row]


@settings(max_examples=examples(80), deadline=None)
@given(codes, codes, reaches, st.integers(-40, 40), st.integers(1, 60))
def test_volumes_of_areas_and_of_their_splits(one, two, reach, first, width):
    """What a split says its parts hold is what is there: by counting the points within."""
    points, made = matrix(one, two, reach)
    area = Ranges(Interval(first, first + width), reach.columns_of(Interval(first, first + width)))

    def count(side, interval):
        return sum(w for c, w in zip(*(a.tolist() for a in points[side]), strict=True) if c in interval)

    assert made.volumes(area) == (count(0, area.rows), count(1, area.columns))
    at, volumes = made.splits(area, 0)
    for number, cut in enumerate(at.tolist()):
        for part, rows in enumerate((Interval(first, cut), Interval(cut, first + width))):
            assert volumes[0, part, number] == count(0, rows)
            assert volumes[1, part, number] == pytest.approx(count(1, reach.columns_of(rows)))


def test_lines_are_equi_depth_and_heavy_codes_have_their_own():
    """100 codes of weight 1 in 10 parts: every tenth; a code of weight 50 among them is cut off on both ends."""
    even = (np.arange(100), np.ones(100))
    made = matrix_of((even, (np.zeros(0, np.int64), np.zeros(0))), Reach(0, 0), 20)
    assert made.lines[0].at.tolist() == list(range(10, 100, 10))
    heavy = (np.arange(100), np.where(np.arange(100) == 37, 50.0, 1.0))
    cuts = matrix_of((heavy, even), Reach(0, 0), 20).lines[0].at.tolist()
    assert {37, 38} <= set(cuts)


def test_cuts_follow_the_middle_of_the_reach():
    """y is 100 to 200 above x: the columns are cut 150 further on, where the rows' band is."""
    made = matrix_of(((np.arange(100), np.ones(100)),) * 2, Reach(100, 200), 8)
    assert (made.lines[1].at - made.lines[0].at).tolist() == [150] * len(made.lines[0].at)
