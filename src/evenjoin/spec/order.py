"""The order of the state: what sides are sorted by within a key, and the bound on it that a probe enforces.

    event time on both sides, -5 <= r.t - l.t <= 6:     order l.t and r.t, low -5, high 6

Two sides without event times are ordered by a range of other columns. Three and more sides are not: a side would need
an order for each of its edges. There the order is the event time or nothing, and each pair of sides has its own bound.

Invariant: ``enforced`` ranges say exactly low <= order(1) - order(0) <= high, so they may leave the residual.
Nanosecond timestamps are rounded down to microseconds in the order. Their bound is one wider, and the range stays in
the residual.
Not here: how long a tuple must wait for others (graph.py), and the watermark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from evenjoin.spec import coercion
from evenjoin.spec.condition import Condition, Range
from evenjoin.spec.event_time import EventTimes
from evenjoin.spec.expr import Call, Column, Expr
from evenjoin.spec.linear import has_nanos
from evenjoin.spec.scope import Scope


@dataclass(frozen=True, slots=True)
class Order:
    """For each side the order expression (int64; None: no order); the closed bound; the ranges that the bound
    enforces."""

    exprs: tuple[Expr | None, ...]
    low: int | None
    high: int | None
    enforced: tuple[Range, ...]


def choose_order(condition: Condition, times: EventTimes, scope: Scope) -> Order:
    """The order of two sides: their event times, else the two sides of the first range that can be used. With a window
    it is bounded by 0 .. 0, because dispatch puts the start of the window there."""
    base = [_event_time(alias, times) for alias in scope.aliases]
    if times.window is not None:
        return Order(_as_time(base), 0, 0, ())
    if not condition.keys and not times.columns:  # a band sorts the state, and nothing expires
        return Order((None, None), None, None, ())
    candidates = [*condition.ranges, *(key.implied for key in condition.keys if key.implied is not None)]
    fitting = [r for r in candidates if _fits(r, base, scope)]
    if None in base:
        fitting = [r for r in fitting if r in condition.ranges]
    if not fitting:
        return Order(_as_time(base), None, None, ())
    first = fitting[0]
    bound = first
    for other in fitting[1:]:
        if (other.left, other.right) == (first.left, first.right):
            bound = Range.intersection([bound, other])
    return _bounded(first, bound, condition, scope)


@dataclass(frozen=True, slots=True)
class TimeBound:
    """low <= time(b) - time(a) <= high of two sides; None is no bound. ``about`` are the ranges of their event times,
    ``enforced`` those of them that the bound says exactly."""

    low: int | None
    high: int | None
    about: tuple[Range, ...]
    enforced: tuple[Range, ...]


def event_order(times: EventTimes, scope: Scope) -> tuple[Expr | None, ...]:
    """The order of many sides: the event time of those that have one."""
    return _as_time([_event_time(alias, times) for alias in scope.aliases])


def time_bound(pair: tuple[str, str], condition: Condition, times: EventTimes, scope: Scope) -> TimeBound:
    """The bound on the event times of two of many sides. An equality of both is one as well. With a window it is
    0 .. 0, and the ranges bound the event times, which are not the order then."""
    base = [_event_time(alias, times) for alias in pair]
    candidates = [*condition.ranges, *(key.implied for key in condition.keys if key.implied is not None)]
    about = tuple(r for r in candidates if r.sides == pair and None not in base and _fits(r, base, scope))
    if times.window is not None:
        return TimeBound(0, 0, about, ())
    if not about:
        return TimeBound(None, None, (), ())
    low, high, exact = _limits(Range.intersection(about), scope)
    return TimeBound(low, high, about, tuple(filter(_is_whole, about)) if exact else ())


def _event_time(alias: str, times: EventTimes) -> Expr | None:
    return Column(f"{alias}.{times.columns[alias]}") if alias in times.columns else None


def _fits(r: Range, base: Sequence[Expr | None], scope: Scope) -> bool:
    """Whether a range can bound the order: it is exact, and about the event time of each side that has one."""
    if r.kind == "real":
        return False
    if any(b is not None and b != e for b, e in zip(base, (r.left, r.right), strict=True)):
        return False
    return all(_is_point(e.type(scope.types)) for e in (r.left, r.right))


def _is_whole(r: Range) -> bool:
    """Whether the bounds are whole numbers. Those of 2 * r.t = 2 * s.t + 1, which nothing satisfies, are not."""
    return all(bound is None or bound.denominator == 1 for bound in (r.low, r.high))


def _is_point(t: pa.DataType) -> bool:
    return bool(pt.is_integer(t) or coercion.is_temporal(coercion.plain_type(t)))


def _bounded(first: Range, bound: Range, condition: Condition, scope: Scope) -> Order:
    low, high, exact = _limits(bound, scope)
    same = [r for r in condition.ranges if (r.left, r.right, r.kind) == (first.left, first.right, first.kind)]
    enforced = tuple(same) if exact else ()
    return Order(_as_time([first.left, first.right]), low, high, enforced)


def _limits(bound: Range, scope: Scope) -> tuple[int | None, int | None, bool]:
    """The range as bounds of the order, and whether they say the same."""
    nanos = has_nanos(bound.left, scope) or has_nanos(bound.right, scope)
    low = None if bound.low is None else int(bound.low) - nanos
    return low, None if bound.high is None else int(bound.high) + nanos, not nanos


def _as_time(exprs: Sequence[Expr | None]) -> tuple[Expr | None, ...]:
    return tuple(None if e is None else Call("time", (e,)) for e in exprs)
