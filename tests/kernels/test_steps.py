"""Steps of floats: in the order of the values, and a band reaches over as many of them everywhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evenjoin.kernels.band import Slack, asked_codes
from evenjoin.kernels.steps import Steps, step_bounds, step_codes, steps_for
from thorough import examples

values = st.one_of(st.floats(), st.floats(-100, 100), st.integers(-20, 20).map(lambda n: n / 4))
sizes = st.sampled_from([(2.0, 2.0**-44), (0.1, 2.0**-44), (1e-9, 2.0**-44), (3e20, 2.0**-44), (2.0, 2.0**-17)])


def code(value, steps):
    return int(step_codes(np.array([value]), steps)[0])


def test_the_example_of_the_docstring():
    """One size up to 8, then twice the size in every octave; infinity and NaN have steps of their own."""
    steps = Steps(2, 1)
    some = [-3.0, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16]
    assert step_codes(np.array(some), steps).tolist() == [-1, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 4, 5, 6]
    odd = step_codes(np.array([-math.inf, 1.7e308, math.inf, math.nan]), steps)
    assert odd[0] == -odd[2]
    assert odd[1] < odd[2] < odd[3]


@settings(max_examples=examples(300), deadline=None)
@given(values, values, sizes)
def test_steps_ascend_and_have_bounds(one, two, size):
    """NaN is last; a value lies within the bounds of its step."""
    steps = steps_for(*size)
    codes = step_codes(np.array([one, two]), steps)
    if math.isnan(one) or one > two:
        assert codes[0] >= codes[1]
    low, high = step_bounds(codes[:1], steps)
    assert math.isnan(low[0]) if math.isnan(one) else low[0] <= one <= high[0]


@settings(max_examples=examples(500), deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(-1, 1), sizes)
@example(-(2.0**30), 1.0, (2.0, 2.0**-17))
@example(-5e-324, 1.0, (2.0, 2.0**-44))
def test_the_reach_is_kept_everywhere(value, part, size):
    """A value that differs by up to half + relative * |x| is within the reach in steps, and is asked for."""
    half, relative = size
    steps = steps_for(half, relative)
    other = value + part * (half + relative * abs(value))
    if not math.isfinite(other):
        return
    reach = steps.reach(half, relative)
    assert abs(code(other, steps) - code(value, steps)) <= reach
    first, last = asked_codes(np.array([code(value, steps)]), "real", -half, half, Slack(relative, 0.0, steps))
    assert first[0] <= code(other, steps) <= last[0]


def test_a_band_is_a_few_hundred_steps():
    """+-2 of doubles: 128 steps for the width, 128 for what rounding may do far away, 2 for the cuts; but a probe asks
    for little more than the band."""
    steps = steps_for(2.0, 2.0**-44)
    assert steps.reach(2.0, 2.0**-44) == 258
    mine = step_codes(np.array([0.0, 1e6, -1e9]), steps)
    first, last = asked_codes(mine, "real", -2.0, 2.0, Slack(2.0**-44, 0.0, steps))
    assert (last - first).tolist() == pytest.approx([258, 257, 257], abs=2)


def test_widths_beyond_floats_have_no_steps():
    """Then the codes are those of the floats."""
    assert steps_for(1e-31, 2.0**-44) is None
    assert steps_for(1e31, 2.0**-44) is None
