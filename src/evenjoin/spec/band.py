"""The band: which range between two sides without an equality drives their edge, and by what each side is sorted then.

    abs(l.k - r.k) <= 2 AND l.v < r.v        keys l.k and r.k, low -2, high 2; l.v < r.v is checked pair by pair
    l.a + l.b <= r.c                         keys capped(l.a, 1, l.b, 1) and capped(r.c, 1), low 0
    abs(l.x - r.x) <= 0.5                    of floats: keys steps(l.x, ...) and steps(r.x, ...), low -0.5, high 0.5
    l.x <> r.x                               nothing drives: every pair is looked at

A driving range has one key per side, of one type (int64, timestamp, decimal or float64), whose order-preserving code
sorts the state; a probing tuple asks for a range of codes (kernels/band.py). Codes of integers, times, and decimals of
one scale can be added to. Codes of floats can only be compared. So `l.x < r.x` is a range of codes. A band of floats is
computed from the values; if it has two ends, codes are steps of values (kernels/steps.py), so that it has a reach.
Sums are capped on both sides. Caps, and steps far from 0, bring values together but never apart: where a band does not
have 0 in it, the left key is shifted so that it has.

Guarantee: every pair that satisfies the range is asked for. ``enforced`` ranges are exactly what is asked for, so they
may leave the residual. Any other range stays there, because sums may overflow, nanoseconds are cut and floats round.

A float range drives only if it is sure to be wide enough. Each side's value must occur once in it. What NaN and the
infinities do in it is found out by evaluating it: `r.x - l.x > 5` is TRUE for a NaN, `r.x > l.x + 5` only for one on
the right. Not here: which codes a probe asks for (kernels/band.py), and edges with an equality, which have no band.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, floor
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from evenjoin.kernels.band import CAP, NO_SLACK, Kind, Slack, asked_codes
from evenjoin.kernels.hashing import ordered_int64
from evenjoin.kernels.steps import steps_for
from evenjoin.spec import coercion
from evenjoin.spec.condition import Range
from evenjoin.spec.expr import Call, Cast, Column, Expr, ExprError, Literal
from evenjoin.spec.linear import as_sum, has_nanos
from evenjoin.spec.scope import Scope

_MOST = 1e37
"""Float ranges with larger constants are not used: a 32-bit float may overflow there."""
_COEFFICIENTS = 2**40
"""The sizes of a sum's coefficients may add up to this at most; see `capped_sum` in kernels/band.py."""
_ODD = [float("nan"), float("-inf"), float("inf")]


@dataclass(frozen=True, slots=True)
class Band:
    """low <= key of side 1 - key of side 0 <= high; None is unbounded. ``on_time`` says that the keys are the event
    times, so that this is the time bound as well."""

    kind: Kind
    low: float | None
    high: float | None
    slack: Slack = NO_SLACK
    on_time: bool = False

    @property
    def reach(self) -> tuple[int | None, int | None]:
        """(least, greatest) difference of the codes of a match, code of side 1 - code of side 0. None where there is no
        bound, or none in codes. An empty band (low > high) reports reach (low, low), so that a table can still be
        built."""
        if self.slack.steps is not None and self.low is not None and self.high is not None:
            half = max(abs(self.low), abs(self.high)) + self.slack.absolute
            reach = self.slack.steps.reach(half, self.slack.relative)
            return -reach, reach
        if self.kind != "integer":
            return None, None
        low, high = None if self.low is None else int(self.low), None if self.high is None else int(self.high)
        return low, low if low is not None and high is not None and low > high else high

    @property
    def mirrored(self) -> Band:
        """The same band with its sides exchanged: bounds of key of side 0 - key of side 1."""
        low, high = mirrored(self.low, self.high)
        return replace(self, low=low, high=high)


Number = TypeVar("Number", int, float)


def mirrored(low: Number | None, high: Number | None) -> tuple[Number | None, Number | None]:
    """Bounds of y - x as bounds of x - y."""
    return None if high is None else -high, None if low is None else -low


@dataclass(frozen=True, slots=True)
class DrivingRange:
    """A band, the key expression of each side, their common type, and the ranges that the band enforces."""

    band: Band
    keys: tuple[Expr, Expr]
    type: pa.DataType
    enforced: tuple[Range, ...]


def choose_band(ranges: Sequence[Range], times: Sequence[Expr | None], scope: Scope) -> DrivingRange | None:
    """The range that drives an edge, out of those between its two sides; None if there is none. One with two ends is
    preferred to one with one end, then any other to that of the event times, then an exact one to a rounded one, then
    the first one written.

    ``times`` are the order expressions of the two sides."""
    found: list[tuple[tuple[bool, bool, bool], DrivingRange]] = []
    for r in ranges:
        drive = _integer(r, scope) if r.kind != "real" else _ordered(r, scope) or _decimal(r, scope) or _real(r, scope)
        if drive is not None:
            on_time = tuple(Call("time", (e,)) for e in (r.left, r.right)) == tuple(times)
            if on_time and drive.enforced:
                drive = replace(drive, band=replace(drive.band, on_time=True))
            found.append(((r.low is None or r.high is None, on_time, not drive.enforced), drive))
    return min(found, key=lambda pair: pair[0])[1] if found else None


def _integer(r: Range, scope: Scope) -> DrivingRange | None:
    left, right = _whole(r.left, scope), _whole(r.right, scope)
    if left is None or right is None:
        return None
    nanos = has_nanos(r.left, scope) or has_nanos(r.right, scope)
    low = None if r.low is None else int(r.low) - nanos
    high = None if r.high is None else int(r.high) + nanos
    if _is_capped(left) or _is_capped(right):
        return _summed(left, right, low, high)
    point = all(coercion.is_temporal(coercion.plain_type(e.type(scope.types))) for e in (r.left, r.right))
    enforced = () if nanos else (r,)
    return DrivingRange(
        Band("integer", low, high), (left, right), pa.timestamp("us") if point else pa.int64(), enforced
    )


def _summed(left: Expr, right: Expr, low: int | None, high: int | None) -> DrivingRange:
    """The driving range of sums. Both keys are capped, and a band without 0 in it is shifted, or, if it is too far
    away for that, widened."""
    left, right = (e if _is_capped(e) else Call("capped", (_as_time(e), Literal(1, pa.int64()))) for e in (left, right))
    shift = low if low is not None and low > 0 else high if high is not None and high < 0 else 0
    if abs(shift) > CAP // 2:
        low, high = None if low is None else min(low, 0), None if high is None else max(high, 0)
    elif shift and isinstance(left, Call):
        left = Call("capped", (*left.args, Literal(shift, pa.int64()), Literal(1, pa.int64())))
        low, high = None if low is None else low - shift, None if high is None else high - shift
    return DrivingRange(Band("integer", low, high), (left, right), pa.int64(), ())


def _is_capped(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.name == "capped"


def _whole(expr: Expr, scope: Scope) -> Expr | None:
    """The expression as an int64: itself if its values are codes already, its time units, or a capped sum. None if it
    has no such form."""
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


def _ordered(r: Range, scope: Scope) -> DrivingRange | None:
    """The driving range of two floats that are only compared. Their codes have the order of Spark's comparison, NaN
    last."""
    bare = all(isinstance(s, Call) and set(s.args) == {r.left, r.right} for s in r.sources)
    if not bare or any(not pt.is_floating(coercion.plain_type(e.type(scope.types))) for e in (r.left, r.right)):
        return None
    band = Band("integer", None if r.low is None else 0, None if r.high is None else 0)
    return DrivingRange(band, (Cast(r.left, pa.float64()), Cast(r.right, pa.float64())), pa.float64(), ())


def _decimal(r: Range, scope: Scope) -> DrivingRange | None:
    """The driving range of two decimals of up to 18 digits. Their codes count units of the common scale."""
    types = [coercion.plain_type(e.type(scope.types)) for e in (r.left, r.right)]
    common = coercion.common_type(*types) if all(pt.is_decimal(t) for t in types) else None
    if common is None or common.precision > 18 or any(_has_floats(source, scope) for source in r.sources):
        return None
    low, high = (None if bound is None else bound * 10**common.scale for bound in (r.low, r.high))
    band = Band("integer", None if low is None else ceil(low), None if high is None else floor(high))
    return DrivingRange(band, (Cast(r.left, common), Cast(r.right, common)), common, ())


def _has_floats(expr: Expr, scope: Scope) -> bool:
    """Whether some value in the expression is a float, so that it rounds."""
    return bool(pt.is_floating(expr.type(scope.types))) or any(_has_floats(child, scope) for child in expr.children)


def _real(r: Range, scope: Scope) -> DrivingRange | None:
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
        plain: tuple[Expr, Expr] = Cast(r.left, pa.float64()), Cast(r.right, pa.float64())
        whole = Band("real", low, high, Slack(relative, relative * size + 1e-44))
        band, keys = _stepped(whole, plain)
        seen = _odd_values(r, atoms, band, keys, scope)
    except (ExprError, OverflowError):
        return None
    if seen == "lost":
        return None
    if seen == "never":
        keys = _stepped(whole, (Call("finite", (plain[0],)), Call("finite", (plain[1],))))[1]
    return DrivingRange(band, keys, pa.float64() if band.slack.steps is None else pa.int64(), ())


def _stepped(band: Band, keys: tuple[Expr, Expr]) -> tuple[Band, tuple[Expr, Expr]]:
    """The band and its keys in steps, shifted so that the band is as wide to both sides; as they are if the band has no
    width. What the shift rounds is less than the slack, which is doubled for it."""
    if band.low is None or band.high is None or band.low >= band.high:
        return band, keys
    half, shift = (band.high - band.low) / 2, (band.low + band.high) / 2
    relative = 2 * band.slack.relative
    absolute = band.slack.absolute + relative * abs(shift)
    steps = steps_for(half + absolute, relative)
    if steps is None:
        return band, keys
    left = Call("+", (keys[0], Literal(shift, pa.float64()))) if shift else keys[0]
    sizes = tuple(Literal(number, pa.int64()) for number in steps)
    stepped = Call("steps", (left, *sizes)), Call("steps", (keys[1], *sizes))
    return Band("real", -half, half, Slack(relative, absolute, steps)), stepped


def _types(r: Range, scope: Scope) -> list[pa.DataType]:
    return [coercion.plain_type(scope.types[name]) for source in r.sources for name in source.columns]


def _atom(expr: Expr, scope: Scope) -> Expr | None:
    """The one numeric value of which the expression is a multiple; None if there is no such value."""
    total = as_sum(expr, scope)
    atoms = [] if total is None else list(total.terms)
    while len(atoms) == 1 and isinstance(atoms[0], Cast) and atoms[0].target == pa.float64():
        inner = atoms[0].arg  # `rebuild` put the cast there
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
    """By how much the constants in a sum of atoms can enlarge its intermediate values."""
    if expr in atoms:
        return 0.0
    if not expr.columns:
        return abs(float(expr.compute({}, 0).as_py()))
    if isinstance(expr, Call) and expr.name == "*":
        factor, inner = expr.args if not expr.args[0].columns else expr.args[::-1]
        return max(1.0, _constants(factor, atoms)) * _constants(inner, atoms)
    return sum(_constants(child, atoms) for child in expr.children)


def _odd_values(r: Range, atoms: Sequence[Expr | None], band: Band, keys: tuple[Expr, Expr], scope: Scope) -> str:
    """Try the range on NaN, infinities and values that may overflow. "never": it is never TRUE where a value is not
    finite. "found": where it is TRUE, the codes asked for find the pair. "lost": they do not always."""
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
    for mine, theirs, seen in ((codes[0], codes[1], band), (codes[1], codes[0], band.mirrored)):
        first, last = asked_codes(mine, seen.kind, seen.low, seen.high, seen.slack)
        if (true & ((theirs < first) | (theirs > last))).any():
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
