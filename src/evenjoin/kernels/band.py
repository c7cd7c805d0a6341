"""Band: which stored codes a probing tuple asks for when its key need not be equal, only near or beyond.

    low <= stored - mine <= high          a closed range of codes per probing code; equality is low = high = 0

    codes mine  3   7        band -1 .. 2        asks for  [2, 5]  [6, 9]

Guarantee: every stored code that can satisfy the band is asked for. Of kind

* ``integer`` nothing else is asked for: the range is exact, also at the ends of int64.
* ``capped``  codes are sums that stop at the ends of int64 (spec's function ``capped``). There a bit more is asked for.
* ``real``    codes are those of floats. The range is wider by `slack`, for what rounding can do.

So for the last two kinds the condition must be checked again. As in Spark's comparisons NaN is the greatest value, and
the infinities are values. Cost O(n). Not here: which range becomes a band (spec/band.py).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenjoin.kernels.hashing import I64, Codes, ordered_int64
from evenjoin.kernels.runs import shifted

Kind = Literal["integer", "capped", "real"]
MIN, MAX = -(2**63), 2**63 - 1
CAP = 2**62
"""Sums of at least this size stop at the ends of int64."""
SURE = CAP - 2**52
"""Sums below this size are exact codes: what rounding does near CAP is less than 2**52."""


class Slack(NamedTuple):
    """How far a real bound is moved outwards: relative to the probing value, and absolute."""

    relative: float
    absolute: float


NO_SLACK = Slack(0.0, 0.0)


def asked_codes(
    codes: Codes, kind: Kind, low: float | None, high: float | None, slack: Slack = NO_SLACK
) -> tuple[I64, I64]:
    """(first, last): the closed range of codes that each code asks for; empty where first > last. A bound of None is no
    bound."""
    if kind == "real":
        return _real(codes, low, high, slack)
    whole = None if low is None else int(low), None if high is None else int(high)
    return _capped(codes, *whole) if kind == "capped" else _integer(codes, *whole)


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


def _capped(codes: Codes, low: int | None, high: int | None) -> tuple[I64, I64]:
    """A code at an end of int64 stands for every sum beyond SURE on that side. A bound beyond SURE therefore asks for
    the end too."""
    first = np.full(len(codes), MIN, np.int64)
    last = np.full(len(codes), MAX, np.int64)
    if low is not None:
        bound = shifted(np.minimum(codes, SURE), low)
        first = np.where((bound <= -SURE) | (codes == MIN), MIN, bound)
    if high is not None:
        bound = shifted(np.maximum(codes, -SURE), high)
        last = np.where((bound >= SURE) | (codes == MAX), MAX, bound)
    return first, last


def _real(codes: Codes, low: float | None, high: float | None, slack: Slack) -> tuple[I64, I64]:
    values = float_of(codes)
    first = np.full(len(codes), MIN, np.int64)
    last = np.full(len(codes), MAX, np.int64)
    with np.errstate(all="ignore"):
        more = np.where(np.isfinite(values), np.abs(values) * slack.relative + slack.absolute, 0.0)
        if low is not None:
            first = ordered_int64(pa.array(np.nextafter(values + low - more, -np.inf)))
        if high is not None:
            last = ordered_int64(pa.array(np.nextafter(values + high + more, np.inf)))
    return first, last


def float_of(codes: Codes) -> npt.NDArray[np.float64]:
    """The floats from which `ordered_int64` made these codes."""
    return np.where(codes < 0, codes ^ np.int64(MAX), codes).view(np.float64)


def capped_sum(terms: list[tuple[I64, int]]) -> I64:
    """sum(coefficient * values), or an end of int64 where the sum is CAP or more.

    The integer sum is right modulo 2**64, and the float sum is right in size: together they tell the true sum. It is
    exact as long as the sizes of the coefficients add up to at most 2**40.
    """
    with np.errstate(over="ignore"):
        whole = sum(values * np.int64(factor) for values, factor in terms)
    rough = sum(values.astype(np.float64) * factor for values, factor in terms)
    out: I64 = np.where(rough >= CAP, MAX, np.where(rough <= -CAP, MIN, whole))
    return out
