"""Band: which stored codes a probing tuple asks for when its key need not be equal, only near or beyond.

    low <= stored - mine <= high          a closed range of codes per probing code; equality is low = high = 0

    codes mine  3   7        band -1 .. 2        asks for  [2, 5]  [6, 9]

Guarantee: every stored code that can satisfy the band is asked for. Of kind

* ``integer`` nothing else is asked for: the range is exact, also at the ends of int64.
* ``real``    codes are those of floats, or their steps (steps.py). The range is wider by `slack`, for what rounding can
              do. So the condition must be checked again.

As in Spark's comparisons NaN is the greatest value, and the infinities are values. Cost O(n). Not here: which range
becomes a band (spec/band.py).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenjoin.kernels.hashing import I64, Codes, ordered_int64
from evenjoin.kernels.runs import shifted
from evenjoin.kernels.steps import Steps, step_bounds, step_codes

Kind = Literal["integer", "real"]
MIN, MAX = -(2**63), 2**63 - 1
CAP = 2**62
"""Sums stop at this size."""
SURE = CAP + 2**61
"""Sums that floats say are smaller than this fit an int64: what rounding does there is less than 2**52."""


class Slack(NamedTuple):
    """How far a real bound is moved outwards: relative to the probing value, and absolute. `steps` are what the codes
    count; None: they are the codes of the floats themselves."""

    relative: float
    absolute: float
    steps: Steps | None = None


NO_SLACK = Slack(0.0, 0.0)


def asked_codes(
    codes: Codes, kind: Kind, low: float | None, high: float | None, slack: Slack = NO_SLACK
) -> tuple[I64, I64]:
    """(first, last): the closed range of codes that each code asks for; empty where first > last. A bound of None is no
    bound."""
    if kind == "real":
        return _real(codes, low, high, slack)
    return _integer(codes, None if low is None else int(low), None if high is None else int(high))


def _integer(codes: Codes, low: int | None, high: int | None) -> tuple[I64, I64]:
    first = np.full(len(codes), MIN, np.int64) if low is None else shifted(codes, low)
    last = np.full(len(codes), MAX, np.int64) if high is None else shifted(codes, high)
    nothing = np.zeros(len(codes), np.bool_)
    if low is not None and low > 0:
        nothing |= codes > MAX - low
    if high is not None and high < 0:
        nothing |= codes < MIN - high
    if nothing.any():
        first, last = np.where(nothing, MAX, first), np.where(nothing, MIN, last)
    return first, last


def _real(codes: Codes, low: float | None, high: float | None, slack: Slack) -> tuple[I64, I64]:
    least, most = (float_of(codes),) * 2 if slack.steps is None else step_bounds(codes, slack.steps)
    first = np.full(len(codes), MIN, np.int64)
    last = np.full(len(codes), MAX, np.int64)
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(least), np.abs(most))
        more = np.where(np.isfinite(size), size * slack.relative + slack.absolute, 0.0)
        if low is not None:
            first = _code(np.nextafter(least + low - more, -np.inf), slack.steps)
        if high is not None:
            last = _code(np.nextafter(most + high + more, np.inf), slack.steps)
    return first, last


def _code(values: npt.NDArray[np.float64], steps: Steps | None) -> I64:
    return ordered_int64(pa.array(values)) if steps is None else step_codes(values, steps)


def float_of(codes: Codes) -> npt.NDArray[np.float64]:
    """The floats from which `ordered_int64` made these codes."""
    return np.where(codes < 0, codes ^ np.int64(MAX), codes).view(np.float64)


def capped_sum(terms: list[tuple[I64, int]]) -> I64:
    """sum(coefficient * values), or CAP with its sign where the sum is larger.

    Capping keeps differences within a band that has 0 in it: it moves the larger of two sums down more than the other,
    but never below it. The integer sum is right modulo 2**64, and the float sum is right in size: together they tell
    the true sum. It is exact as long as the sizes of the coefficients add up to at most 2**40.
    """
    with np.errstate(over="ignore"):
        whole = sum(values * np.int64(factor) for values, factor in terms)
    rough = sum(values.astype(np.float64) * factor for values, factor in terms)
    out: I64 = np.where(rough >= SURE, CAP, np.where(rough <= -SURE, -CAP, np.clip(whole, -CAP, CAP)))
    return out
