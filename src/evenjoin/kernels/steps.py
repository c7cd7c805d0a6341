"""Steps: codes of floats by which a band of floats has a constant reach.

The codes of `ordered_int64` are the floats' own bits. There a band of +-2 reaches over few codes around 10^9 and over
half of all codes around 0. Steps are the bits of a coarser float: with `bits` of mantissa, and with 2^exponent as the
least number that is not subnormal. Below that all steps have one size, above it they grow with the values, as rounding
errors do:

    exponent 2, bits 1      value  -3   -1   0   1   2   3   4   5   6   7   8   9   10   11   12  ..   16
    unit = 2^(2 - 1)        step   -1    0   0   0   1   1   2   2   3   3   4   4    4    4    5  ..    6

Guarantee: steps ascend with the values, NaN last. If |y - x| <= half + slack(x), then |step(y) - step(x)| <= `reach`.
Why: let G be the steps before they are cut to whole numbers. Its slope is at most 1 / unit, and at v at most
2^(bits+1) / |v|. So `half` and the absolute slack make up at most their size over unit, and the relative slack, which
is relative * |x|, at most relative * 2^(bits+2), even if y is half as large as x. Cutting adds less than 2.

What is lost: a probe asks for up to one step more at either end than for the codes of the floats themselves.
Cost O(n). Not here: which ranges become bands, and that the condition is checked again (spec/band.py).
"""

from __future__ import annotations

from math import ceil, frexp, ldexp
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.hashing import I64

F64 = npt.NDArray[np.float64]
FINE = 8
"""A band's half width has between 2^(FINE - 1) and 2^FINE steps around 0."""
MOST_BITS = 51
LARGEST = float(np.finfo(np.float64).max)
NARROW, WIDE = 1e-30, 1e30
"""Bands narrower or wider than this have no steps: their exponents would leave those of floats."""


class Steps(NamedTuple):
    exponent: int
    bits: int

    def reach(self, half: float, relative: float) -> int:
        """By how many steps values differ at most that differ by `half` and `relative` of their size."""
        return ceil(half / ldexp(1.0, self.exponent - self.bits) + relative * ldexp(1.0, self.bits + 2)) + 2


def steps_for(half: float, relative: float) -> Steps | None:
    """Steps for a band of this half width. The relative slack makes up as many steps as the half width, or fewer; None
    if there are none."""
    if not NARROW < half < WIDE:
        return None
    bits = min(FINE - 2 - frexp(relative)[1], MOST_BITS)
    return Steps(frexp(half)[1] - FINE + bits, bits)


def step_codes(values: F64, steps: Steps) -> I64:
    """The step of each value."""
    size = np.abs(values)
    with np.errstate(all="ignore"):
        small = np.ldexp(size, steps.bits - steps.exponent)
        low = np.where(size < ldexp(1.0, steps.exponent), np.floor(small), 0.0).astype(np.int64)
    high = (size.view(np.int64) >> np.int64(52 - steps.bits)) - np.int64((steps.exponent + 1022) << steps.bits)
    codes = np.where(size < ldexp(1.0, steps.exponent), low, high)
    return np.where(np.isnan(values), _last(steps) + 1, np.where(values < 0, -codes, codes))


def step_bounds(codes: I64, steps: Steps) -> tuple[F64, F64]:
    """Between which values those of each step lie. Infinite values have a step of their own, and so has NaN."""
    nearer, farther = _least(np.abs(codes), steps), np.minimum(_least(np.abs(codes) + 1, steps), LARGEST)
    endless = np.abs(codes) >= _last(steps)
    nearer, farther = np.where(endless, np.inf, nearer), np.where(endless, np.inf, farther)
    low, high = np.where(codes > 0, nearer, -farther), np.where(codes < 0, -nearer, farther)
    nan = codes > _last(steps)
    return np.where(nan, np.nan, low), np.where(nan, np.nan, high)


def _least(sizes: I64, steps: Steps) -> F64:
    """The least value of steps that are not negative."""
    one = 1 << steps.bits
    above = np.maximum(sizes - one, 0)
    mantissa = np.where(sizes < one, sizes, one + (above & (one - 1))).astype(np.float64)
    octave = np.where(sizes < one, 0, above >> steps.bits) + (steps.exponent - steps.bits)
    with np.errstate(over="ignore"):
        out: F64 = np.ldexp(mantissa, octave.astype(np.int32))
    return out


def _last(steps: Steps) -> int:
    """The step of infinity."""
    return (1025 - steps.exponent) << steps.bits
