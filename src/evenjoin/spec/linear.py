"""Sums: an expression as  sum(coefficient * atom) + constant, so that terms can change sides.

    r.t >= l.t - 5        r.t - l.t + 5 >= 0           ->  Difference(left=l.t, right=r.t), value >= -5
    l.a + r.b = 5         right - left = 5             ->  left = negate(l.a), right = r.b

An atom is an expression of one side that is not itself a sum (a column, ``abs(l.x)``). Coefficients and constants are
exact Fractions; timestamps, dates and intervals count in microseconds. Sums with a floating-point or decimal column are
of kind ``real``: rounding makes moving terms inexact there, so the original condition must be checked again.

Invariant: for kinds ``integer`` and ``time`` the sum equals the expression wherever that does not overflow.
Not here: what the difference is used for (condition.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import Literal as TypingLiteral

import pyarrow as pa
import pyarrow.types as pt

from evenjoin.kernels.hashing import to_time
from evenjoin.spec import coercion
from evenjoin.spec.expr import Call, Cast, Expr, Literal
from evenjoin.spec.scope import Scope

Kind = TypingLiteral["integer", "time", "real"]
_WRAP = {"+": "wrap_add", "-": "wrap_subtract", "*": "wrap_multiply", "negate": "wrap_negate"}
_SIGN = {"+": Fraction(1), "-": Fraction(-1), "wrap_add": Fraction(1), "wrap_subtract": Fraction(-1)}
_DAY = Fraction(86_400_000_000)


@dataclass(frozen=True, slots=True)
class Sum:
    """sum(coefficient * atom) + constant. Its kind is ``real`` when a floating or decimal value takes part."""

    terms: Mapping[Expr, Fraction]
    constant: Fraction
    kind: Kind

    def plus(self, other: Sum, factor: Fraction) -> Sum:
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            terms[atom] = terms.get(atom, Fraction(0)) + factor * coefficient
        kinds = {self.kind, other.kind}
        kind: Kind = "real" if "real" in kinds else "time" if "time" in kinds else "integer"
        return Sum(terms, self.constant + factor * other.constant, kind)

    def times(self, factor: Fraction) -> Sum:
        return Sum({}, Fraction(0), self.kind).plus(self, factor)


@dataclass(frozen=True, slots=True)
class Difference:
    """``right - left``, each an expression of one side; the original sum is factor * (right - left) + constant."""

    sides: tuple[str, str]
    left: Expr
    right: Expr
    kind: Kind
    factor: Fraction
    constant: Fraction


def as_sum(expr: Expr, scope: Scope) -> Sum | None:
    """``expr`` as a sum; None when it is not a sum, or not one of numbers or times."""
    if not expr.columns:
        return _constant(expr)
    if isinstance(expr, Call) and expr.name in _SIGN:
        return _plus(expr, scope)
    if isinstance(expr, Call) and expr.name == "negate":
        inner = as_sum(expr.args[0], scope)
        return inner and inner.times(Fraction(-1))
    if isinstance(expr, Call) and expr.name == "*":  # `rebuild` made it
        inner, factor = as_sum(expr.args[0], scope), _constant(expr.args[1])
        return None if inner is None or factor is None else inner.times(factor.constant)
    kind = _kind(expr.type(scope.types))
    if isinstance(expr, Cast) and kind != "real" and _widens(expr, scope):
        return as_sum(expr.arg, scope)
    if kind is None or len(scope.sides_of(expr)) != 1:
        return None
    return Sum({expr: Fraction(1)}, Fraction(0), kind)


def difference(total: Sum, scope: Scope) -> Difference | None:
    """The sum as a difference of two sides; None unless it has atoms of exactly two sides.

    None as well if an atom cancels (l.a - l.a): it may not vanish, because the whole is NULL when it is NULL.
    """
    by_side: dict[str, dict[Expr, Fraction]] = {}
    for atom, coefficient in total.terms.items():
        by_side.setdefault(next(iter(scope.sides_of(atom))), {})[atom] = coefficient
    sides = [alias for alias in scope.aliases if alias in by_side]
    if len(sides) != 2 or len(by_side) != 2 or 0 in total.terms.values():
        return None
    coefficients = list(total.terms.values())
    scale = Fraction(1)
    if total.kind != "real":  # floats are not rescaled: they would overflow and round differently
        scale = Fraction(gcd(*(c.numerator for c in coefficients)), lcm(*(c.denominator for c in coefficients)))
    right = by_side[sides[1]]
    factor = (
        scale if sum(right.values()) > 0 or (sum(right.values()) == 0 and next(iter(right.values())) > 0) else -scale
    )
    return Difference(
        sides=(sides[0], sides[1]),
        left=rebuild({a: -c / factor for a, c in by_side[sides[0]].items()}, total.kind),
        right=rebuild({a: c / factor for a, c in right.items()}, total.kind),
        kind=total.kind,
        factor=factor,
        constant=total.constant,
    )


def rebuild(terms: Mapping[Expr, Fraction], kind: Kind) -> Expr:
    """An expression for the terms. A lone atom with coefficient 1 stays itself. Otherwise atoms are turned into int64,
    or into float64 for the kind ``real``."""
    if list(terms.values()) == [1]:
        return next(iter(terms))
    whole: Expr | None = None
    for atom, coefficient in terms.items():
        term: Expr = Call("time", (atom,)) if kind != "real" else Cast(atom, pa.float64())
        size = abs(coefficient)
        if size != 1:
            constant = Literal(int(size), pa.int64()) if size.denominator == 1 else Literal(float(size), pa.float64())
            term = Call("*", (term, constant))
        if whole is None:
            whole = term if coefficient > 0 else Call("negate", (term,))
        else:
            whole = Call("+" if coefficient > 0 else "-", (whole, term))
    assert whole is not None
    return whole


def wrapping(expr: Expr) -> Call:
    """What ``rebuild`` made, in int64 arithmetic modulo 2**64. It cannot fail, and equal sums stay equal."""
    if isinstance(expr, Call) and expr.name in _WRAP:
        return Call(_WRAP[expr.name], tuple(arg if isinstance(arg, Literal) else wrapping(arg) for arg in expr.args))
    return expr if isinstance(expr, Call) and expr.name == "time" else Call("time", (expr,))


def has_nanos(expr: Expr, scope: Scope) -> bool:
    """Whether the expression reads a nanosecond column, which microseconds cannot hold exactly."""
    return any(getattr(coercion.plain_type(scope.types[name]), "unit", "us") == "ns" for name in expr.columns)


def _kind(t: pa.DataType) -> Kind | None:
    t = coercion.plain_type(t)
    if pt.is_integer(t):
        return "integer"
    if pt.is_timestamp(t) or pt.is_date(t) or pt.is_duration(t):
        return "time"
    return "real" if coercion.is_numeric(t) else None


def _constant(expr: Expr) -> Sum | None:
    value = expr.compute({}, 0)
    if isinstance(value, pa.Array) or not value.is_valid:
        return None
    t = coercion.plain_type(value.type)
    if pt.is_integer(t) or pt.is_decimal(t):
        return Sum({}, Fraction(value.as_py()), "integer")
    if pt.is_floating(t):
        number = value.as_py()
        return Sum({}, Fraction(number), "real") if abs(number) < float("inf") else None
    if (pt.is_timestamp(t) or pt.is_duration(t) or pt.is_date(t)) and getattr(t, "unit", "us") != "ns":
        return Sum({}, Fraction(to_time(value).as_py()), "time")
    return None


def _plus(expr: Call, scope: Scope) -> Sum | None:
    sums = [as_sum(arg, scope) for arg in expr.args]
    if sums[0] is None or sums[1] is None:
        return None
    dates = [pt.is_date(coercion.plain_type(arg.type(scope.types))) for arg in expr.args]
    integers = [pt.is_integer(arg.type(scope.types)) for arg in expr.args]
    first = sums[0].times(_DAY) if integers[0] and dates[1] else sums[0]
    second = sums[1].times(_DAY) if integers[1] and dates[0] else sums[1]
    return first.plus(second, _SIGN[expr.name])


def _widens(cast: Cast, scope: Scope) -> bool:
    """Whether a cast changes no value: to the same type, to a wider integer, between timestamps of one unit, or from a
    date to its midnight."""
    source, target = coercion.plain_type(cast.arg.type(scope.types)), cast.target
    if source == target:
        return True
    if pt.is_integer(source) and pt.is_integer(target):
        return bool(source.bit_width <= target.bit_width)
    if pt.is_date(source):
        return bool(pt.is_timestamp(target))
    return bool(pt.is_timestamp(source) and pt.is_timestamp(target) and source.unit == target.unit)
