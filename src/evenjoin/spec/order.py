"""The order of the state: what two sides are sorted by within a key, and the bound on it that a probe enforces.

    event time on both sides, -5 <= r.t - l.t <= 6:     order l.t and r.t, low -5, high 6

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
    base: list[Expr | None] = [Column(f"{a}.{times.columns[a]}") if a in times.columns else None for a in scope.aliases]
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


def _fits(r: Range, base: Sequence[Expr | None], scope: Scope) -> bool:
    """Whether a range can bound the order: it is exact, and about the event time of each side that has one."""
    if r.kind == "real":
        return False
    if any(b is not None and b != e for b, e in zip(base, (r.left, r.right), strict=True)):
        return False
    return all(_is_point(e.type(scope.types)) for e in (r.left, r.right))


def _is_point(t: pa.DataType) -> bool:
    return bool(pt.is_integer(t) or coercion.is_temporal(coercion.plain_type(t)))


def _bounded(first: Range, bound: Range, condition: Condition, scope: Scope) -> Order:
    nanos = has_nanos(first.left, scope) or has_nanos(first.right, scope)
    low = None if bound.low is None else int(bound.low) - nanos
    high = None if bound.high is None else int(bound.high) + nanos
    same = [r for r in condition.ranges if (r.left, r.right, r.kind) == (first.left, first.right, first.kind)]
    enforced = () if nanos else tuple(same)
    return Order(_as_time([first.left, first.right]), low, high, enforced)


def _as_time(exprs: Sequence[Expr | None]) -> tuple[Expr | None, ...]:
    return tuple(None if e is None else Call("time", (e,)) for e in exprs)
