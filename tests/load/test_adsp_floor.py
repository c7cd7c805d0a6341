"""The floor of the number of tasks: no scheme is below it, and where it is known by hand it is right."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.load.adsp import floor_of, matrix_of
from evenjoin.placement import EVERYTHING, Reach
from evenjoin.strategies.adsp.areas import partition
from evenjoin.strategies.adsp.cells import varietal_tasks
from evenjoin.strategies.adsp.slabs import slabs
from thorough import examples


def points(rows, columns):
    return tuple((np.array(list(side), np.int64), np.array(list(side.values()), float)) for side in (rows, columns))


def test_a_heavy_code_takes_the_square_of_what_it_is_over_v():
    """30 x 30 tuples of one code and V = 10: 6 x 6 tasks, of which each has 5 of either side. 10 light tuples are one
    task more. Without a bound on what may match, all 40 x 30 pairs meet."""
    some = points({0: 30, 100: 10}, {0: 30})
    assert floor_of(some, Reach(-2, 2)).tasks(10) == pytest.approx(36 + 1)
    assert floor_of(some, EVERYTHING).tasks(10) == pytest.approx(4 * 40 * 30 / 100)


def test_codes_are_paired_by_a_difference_that_may_match():
    """Code 0 meets code 7 where the difference is 7, and nothing where it is 8: then tuples are stored once each."""
    some = points({0: 30}, {7: 30})
    assert floor_of(some, Reach(7, 7)).tasks(10) == pytest.approx(36)
    assert floor_of(some, Reach(8, 8)).tasks(10) == pytest.approx(6)
    assert floor_of(some, Reach(7, None)).tasks(10) == pytest.approx(36)


def test_codes_at_the_end_of_int64_have_no_partner_beyond_it():
    """Two codes that would both be held at the end are not taken for one."""
    end = 2**63 - 1
    some = points({end: 30}, {end: 30, end - 1: 30})
    assert floor_of(some, Reach(-9, -5)).tasks(10) == pytest.approx(9)


sides = st.dictionaries(st.integers(-20, 20), st.floats(0.5, 60), min_size=1, max_size=15)
reaches = st.one_of(
    st.tuples(st.integers(-6, 6), st.integers(0, 8)).map(lambda t: Reach(t[0], t[0] + t[1])),
    st.sampled_from([Reach(1, None), Reach(None, -1), Reach(0, 0)]),
)


@settings(max_examples=examples(100), deadline=None)
@given(sides, sides, reaches, st.floats(4, 80))
def test_no_scheme_has_fewer_tasks(rows, columns, reach, capacity):
    """Neither one grid, nor slabs, nor the areas of Alg. 2."""
    some = points(rows, columns)
    tasks, matrix = partial(varietal_tasks, capacity=capacity), matrix_of(some, reach, 24)
    found = [slabs(matrix, tasks, 0), slabs(matrix, tasks, 1), partition(matrix, tasks)]
    assert min(plan.tasks for plan in found) >= floor_of(some, reach).tasks(capacity) * (1 - 1e-6)


@settings(max_examples=examples(100), deadline=None)
@given(sides, sides, reaches, st.integers(1, 50))
def test_the_capacity_for_a_number_of_tasks(rows, columns, reach, tasks):
    """No smaller one has so few by the floor, and one in a thousand more suffices."""
    floor = floor_of(points(rows, columns), reach)
    capacity = floor.capacity(tasks)
    assert floor.tasks(capacity * (1 - 1e-9)) >= tasks * (1 - 1e-9)
    assert floor.tasks(capacity * 1.0011) <= tasks * (1 + 1e-9)
