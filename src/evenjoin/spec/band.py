"""The band: which range of a condition without an equality drives the join, and by what each side is sorted then.

    abs(l.k - r.k) <= 2 AND l.v < r.v        keys l.k and r.k, low -2, high 2; l.v < r.v is checked pair by pair
    l.a + l.b <= r.c                         keys capped(l.a, 1, l.b, 1) and r.c, low 0
    l.x <> r.x                               nothing drives: every pair is looked at

A driving range has one key per side, of one type (int64, timestamp, decimal or float64), whose order-preserving code
sorts the state; a probing tuple asks for a range of codes (kernels/band.py). Codes of integers, times, and decimals of
one scale can be added to; codes of floats can only be compared, so `l.x < r.x` is a range of codes and a band of floats
goes by the values.

Invariant: a pair that satisfies the range is asked for. ``enforced`` ranges are exactly what is asked for, and may
leave the residual; any other range stays there, because sums may overflow, nanoseconds are cut and floats round.
A float range drives only if it is sure to be wide enough: each side's value occurs once in it, and what NaN and the
infinities do in it (`r.x - l.x > 5` is TRUE for a NaN, `r.x > l.x + 5` only for one on the right) is found out by
asking it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, floor

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from evenjoin.kernels.band import NO_SLACK, Kind, Slack, asked_codes
from evenjoin.kernels.hashing import ordered_int64
from evenjoin.spec import coercion
from evenjoin.spec.condition import Condition, Range
from evenjoin.spec.expr import Call, Cast, Column, Expr, ExprError, Literal
from evenjoin.spec.linear import as_sum, has_nanos
from evenjoin.spec.scope import Scope

_MOST = 1e37
"""Float ranges with larger constants are not used: a 32-bit float may overflow there."""
_COEFFICIENTS = 2**40
"""What the sizes of a sum's coefficients may add up to; see kernels/band.py."""
_ODD = [float("nan"), float("-inf"), float("inf")]


@dataclass(frozen=True, slots=True)
class Band:
    """low <= key of side 1 - key of side 0 <= high; None is unbounded. ``on_time``: this is the bound on order, too."""

    kind: Kind
    low: float | None
    high: float | None
    slack: Slack = NO_SLACK
    on_time: bool = False

    @property
    def reach(self) -> tuple[int | None, int | None]:
        """The least and the greatest that code of side 1 - code of side 0 of a match can be; None where there is no
        bound, or none in codes. A band that nothing can be in has the reach of one difference: its tables cover it."""
        if self.kind != "integer":
            return None, None
        low, high = None if self.low is None else int(self.low), None if self.high is None else int(self.high)
        return low, low if low is not None and high is not None and low > high else high

    def seen_from(self, side: int) -> tuple[float | None, float | None]:
        """Bounds of the other side's key minus this side's."""
        if side == 0:
            return self.low, self.high
        return None if self.high is None else -self.high, None if self.low is None else -self.low


@dataclass(frozen=True, slots=True)
class Drive:
    """A band with the key expression of each side, their type, and the ranges it enforces."""

    band: Band
    keys: tuple[Expr, Expr]
    type: pa.DataType
    enforced: tuple[Range, ...]


def choose_band(condition: Condition, times: Sequence[Expr | None], scope: Scope) -> Drive | None:
    """The range to drive by: one with two ends before one with one, any other before the event time's, exact before
    rounded, then as written. ``times`` are the order expressions of the sides."""
    found: list[tuple[tuple[bool, bool, bool], Drive]] = []
    for r in condition.ranges:
        drive = _integer(r, scope) if r.kind != "real" else _ordered(r, scope) or _decimal(r, scope) or _real(r, scope)
        if drive is not None:
            on_time = tuple(Call("time", (e,)) for e in (r.left, r.right)) == tuple(times)
            if on_time and drive.enforced:
                drive = replace(drive, band=replace(drive.band, on_time=True))
            found.append(((r.low is None or r.high is None, on_time, not drive.enforced), drive))
    return min(found, key=lambda pair: pair[0])[1] if found else None


def _integer(r: Range, scope: Scope) -> Drive | None:
    left, right = _whole(r.left, scope), _whole(r.right, scope)
    if left is None or right is None:
        return None
    summed = any(isinstance(e, Call) and e.name == "capped" for e in (left, right))
    nanos = has_nanos(r.left, scope) or has_nanos(r.right, scope)
    low = None if r.low is None else int(r.low) - nanos
    high = None if r.high is None else int(r.high) + nanos
    band = Band("capped" if summed else "integer", low, high)
    point = all(coercion.is_temporal(coercion.plain_type(e.type(scope.types))) for e in (r.left, r.right))
    return Drive(band, (left, right), pa.timestamp("us") if point else pa.int64(), () if nanos or summed else (r,))


def _whole(expr: Expr, scope: Scope) -> Expr | None:
    """An int64 for the expression: itself if its values are codes already, its time units, or a capped sum."""
    total = as_sum(expr, scope)
    if total is None or any(c.denominator != 1 for c in total.terms.values()):
        return None
    if list(total.terms.values()) == [1] and not total.constant:
        t = expr.type(scope.types)
        plain = (pt.is_integer(t) and t != pa.uint64()) or (pt.is_timestamp(t) and t.unit == "us")
        return expr if plain and isinstance(expr, Column) else _as_time(expr)
    if sum(abs(c) for c in total.terms.values()) > _COEFFICIENTS or total.constant:
        return None
    parts = [(_as_time(atom), Literal(int(c), pa.int64())) for atom, c in total.terms.items()]
    return Call("capped", tuple(e for part in parts for e in part))


def _as_time(expr: Expr) -> Expr:
    return expr if isinstance(expr, Call) and expr.name == "time" else Call("time", (expr,))


def _ordered(r: Range, scope: Scope) -> Drive | None:
    """Two floats that are only compared: their codes are in the order Spark compares them in, NaN last."""
    bare = all(isinstance(s, Call) and set(s.args) == {r.left, r.right} for s in r.sources)
    if not bare or any(not pt.is_floating(coercion.plain_type(e.type(scope.types))) for e in (r.left, r.right)):
        return None
    band = Band("integer", None if r.low is None else 0, None if r.high is None else 0)
    return Drive(band, (Cast(r.left, pa.float64()), Cast(r.right, pa.float64())), pa.float64(), ())


def _decimal(r: Range, scope: Scope) -> Drive | None:
    """Two decimals of up to 18 digits: their codes count units of the common scale."""
    types = [coercion.plain_type(e.type(scope.types)) for e in (r.left, r.right)]
    common = coercion.common_type(*types) if all(pt.is_decimal(t) for t in types) else None
    if common is None or common.precision > 18 or any(_has_floats(source, scope) for source in r.sources):
        return None
    low, high = (None if bound is None else bound * 10**common.scale for bound in (r.low, r.high))
    band = Band("integer", None if low is None else ceil(low), None if high is None else floor(high))
    return Drive(band, (Cast(r.left, common, "convert"), Cast(r.right, common, "convert")), common, ())


def _has_floats(expr: Expr, scope: Scope) -> bool:
    """Some value in the expression is a float, so it rounds."""
    return bool(pt.is_floating(expr.type(scope.types))) or any(_has_floats(child, scope) for child in expr.children)


def _real(r: Range, scope: Scope) -> Drive | None:
    atoms = [_atom(e, scope) for e in (r.left, r.right)]
    if atoms[0] is None or atoms[1] is None:
        return None
    if any(_count(source, atom) != 1 for source in r.sources for atom in atoms if atom is not None):
        return None
    try:
        low, high = (None if x is None else float(x) for x in (r.low, r.high))
        size = sum(_constants(source, atoms) for source in r.sources) + max(abs(low or 0.0), abs(high or 0.0))
        if size > _MOST:
            return None
        narrow = any(pt.is_floating(t) and t.bit_width < 64 for t in _types(r, scope))
        relative = 2.0**-18 if narrow else 2.0**-45
        band = Band("real", low, high, Slack(relative, relative * size + 1e-44))
        keys: tuple[Expr, Expr] = Cast(r.left, pa.float64()), Cast(r.right, pa.float64())
        seen = _odd_values(r, atoms, band, keys, scope)
    except (ExprError, OverflowError):
        return None
    if seen == "lost":
        return None
    if seen == "never":
        keys = Call("finite", (keys[0],)), Call("finite", (keys[1],))
    return Drive(band, keys, pa.float64(), ())


def _types(r: Range, scope: Scope) -> list[pa.DataType]:
    return [coercion.plain_type(scope.types[name]) for source in r.sources for name in source.columns]


def _atom(expr: Expr, scope: Scope) -> Expr | None:
    """The one value of a number type that the expression is a multiple of."""
    total = as_sum(expr, scope)
    atoms = [] if total is None else list(total.terms)
    while len(atoms) == 1 and isinstance(atoms[0], Cast) and atoms[0].target == pa.float64():
        inner = atoms[0].arg  # put there by rebuild
        if inner == expr or not inner.columns:
            break
        atoms = [inner]
    if len(atoms) != 1 or not coercion.is_numeric(coercion.plain_type(atoms[0].type(scope.types))):
        return None
    return atoms[0]


def _count(expr: Expr, part: Expr) -> int:
    """How often a part occurs in an expression."""
    return 1 if expr == part else sum(_count(child, part) for child in expr.children)


def _constants(expr: Expr, atoms: Sequence[Expr | None]) -> float:
    """How large the constants of a sum of atoms can make its intermediate values."""
    if expr in atoms:
        return 0.0
    if not expr.columns:
        return abs(float(expr.compute({}, 0).as_py()))
    if isinstance(expr, Call) and expr.name == "*":
        factor, inner = expr.args if not expr.args[0].columns else expr.args[::-1]
        return max(1.0, _constants(factor, atoms)) * _constants(inner, atoms)
    return sum(_constants(child, atoms) for child in expr.children)


def _odd_values(r: Range, atoms: Sequence[Expr | None], band: Band, keys: tuple[Expr, Expr], scope: Scope) -> str:
    """What the range says where a value is NaN, infinite or may overflow: "never" TRUE where one is not finite,
    "found" by the codes asked for, or "lost"."""
    types = [a.type(scope.types) for a in atoms if a is not None]
    choices = [[0.0, 1.0, -1.0, *_most(t), *_ODD] if pt.is_floating(t) else [0.0] for t in types]
    pairs = list(product(*choices))
    odd = np.array([not np.isfinite(pair).all() for pair in pairs])
    if not odd.any():
        return "found"
    names = dict(zip(atoms, (Column("~left"), Column("~right")), strict=True))
    columns = {
        name: pa.array([pair[i] for pair in pairs]).cast(t)
        for i, (name, t) in enumerate(zip(("~left", "~right"), types, strict=True))
    }
    true = np.ones(len(pairs), np.bool_)
    for source in r.sources:
        true &= np.asarray(_with(source, names).evaluate(columns, len(pairs)).fill_null(False))
    codes = [ordered_int64(_with(key, names).evaluate(columns, len(pairs))) for key in keys]
    for side in (0, 1):
        first, last = asked_codes(codes[side], band.kind, *band.seen_from(side), band.slack)
        if (true & ((codes[1 - side] < first) | (codes[1 - side] > last))).any():
            return "lost"
    return "found" if (true & odd).any() else "never"


def _most(t: pa.DataType) -> list[float]:
    most = float(np.finfo(t.to_pandas_dtype()).max)
    return [most, -most]


def _with(expr: Expr, names: dict[Expr | None, Column]) -> Expr:
    """The expression with columns in place of some of its parts."""
    if expr in names:
        return names[expr]
    if isinstance(expr, Call):
        return replace(expr, args=tuple(_with(arg, names) for arg in expr.args))
    return replace(expr, arg=_with(expr.arg, names)) if isinstance(expr, Cast) else expr
