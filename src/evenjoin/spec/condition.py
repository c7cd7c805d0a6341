"""The condition, taken apart: SQL -> conjuncts -> equality keys, ranges, predicates of one side, residual.

    l.k = r.k AND r.t BETWEEN l.t - 5 AND l.t + 6 AND l.v > 0 AND l.x <> r.x
    keys     l.k = r.k                    also  <=>,  x = y OR (x IS NULL AND y IS NULL),  l.a + r.b = 5,  l.a + 1 = r.a
    ranges   -5 <= r.t - l.t <= 6         low <= right - left <= high, from < <= > >= BETWEEN and abs(x) <= e
    filters  l: l.v > 0
    residual l.x <> r.x

Guarantee: a combination of tuples, one of each side, satisfies the condition  <=>  its tuples pass their filters, all
keys are equal, all ranges hold and the residual is TRUE. A key or a range is between two sides, whatever their number.
Ranges of kind ``integer`` and ``time`` have closed integer bounds and are exact; of kind ``real`` they are a hint, and
their ``sources`` must be checked too. A range that nobody uses is checked through its ``sources``, the conjuncts it was
made of. A constant TRUE vanishes; FALSE and NULL become a filter that nothing passes. A range with low > high is legal
and matches nothing.
Not here: which range becomes the order of the state, what two equalities say together (classes.py), or what a join
supports (join_spec.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, floor

import pyarrow as pa
import pyarrow.types as pt

from evenjoin.spec import coercion
from evenjoin.spec.expr import Call, Cast, Expr, ExprError, Literal, conjunction
from evenjoin.spec.linear import Difference, Kind, as_sum, difference, has_nanos, wrapping
from evenjoin.spec.reader import read
from evenjoin.spec.scope import WINDOW, Scope, condition_text, pointing

_FLIP = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
ALWAYS = Literal(True, pa.bool_())
NEVER = Literal(False, pa.bool_())


@dataclass(frozen=True, slots=True)
class Key:
    """left = right (or <=>): an expression of each side, both of type ``type``. ``members`` are the same two before
    they were brought to that type, ``sources`` the conjunct. ``implied`` is a range that follows.

    ``recheck`` says that terms changed sides with wrapping arithmetic. The keys are then equal modulo 2**64 only, so
    the residual has the conjunct too.
    """

    sides: tuple[str, str]
    left: Expr
    right: Expr
    type: pa.DataType
    null_safe: bool
    implied: Range | None
    members: tuple[Expr, Expr]
    sources: tuple[Expr, ...]
    recheck: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    """low <= right - left <= high; None is unbounded. ``real`` bounds are closed too, and only a hint."""

    sides: tuple[str, str]
    left: Expr
    right: Expr
    kind: Kind
    low: Fraction | None
    high: Fraction | None
    sources: tuple[Expr, ...]

    @staticmethod
    def intersection(ranges: Sequence[Range]) -> Range:
        """The range that holds where all of these do. They are ranges of the same difference."""
        lows = [r.low for r in ranges if r.low is not None]
        highs = [r.high for r in ranges if r.high is not None]
        sources = tuple(dict.fromkeys(source for r in ranges for source in r.sources))
        return replace(ranges[0], low=max(lows, default=None), high=min(highs, default=None), sources=sources)


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition, taken apart; see the top of this file. ``conjuncts`` are all of them, each once, in the order
    written. ``elsewhere`` has the sides of each conjunct that is not among them, because somebody else enforces it on
    the results."""

    text: str
    conjuncts: tuple[Expr, ...]
    keys: tuple[Key, ...]
    ranges: tuple[Range, ...]
    filters: tuple[tuple[str, Expr], ...]
    residual: tuple[Expr, ...]
    elsewhere: tuple[frozenset[str], ...] = ()

    @property
    def canonical(self) -> str:
        return str(conjunction(self.conjuncts) or ALWAYS)

    def filter_of(self, alias: str) -> Expr | None:
        return conjunction([expr for owner, expr in self.filters if owner == alias])

    def left_to_check(self, used: Sequence[Key | Range]) -> list[Expr]:
        """The conjuncts, in the order written, that nothing enforces when the keys and ranges ``used`` are enforced
        elsewhere. Filters are not among them."""
        enforced = set(used)
        parts: list[Key | Range] = [*self.keys, *self.ranges]
        rest = [part for part in parts if part not in enforced]
        left = {source for part in rest for source in part.sources} | set(self.residual)
        return [c for c in self.conjuncts if c in left]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A condition that was read before: its text, the expression that is to be enforced, and the sides of each conjunct
    that is enforced elsewhere. ``evaluated`` says in JSON what a checkpoint must agree on besides."""

    text: str
    expr: Expr
    elsewhere: tuple[frozenset[str], ...] = ()
    evaluated: Mapping[str, object] = field(default_factory=dict)


def read_condition(on: str | Sequence[str] | Prepared, scope: Scope, time_zone: str | None = None) -> Condition:
    """Read ``on``: SQL, one column name, or a list of column names that all sides have; or what was read before."""
    if isinstance(on, Prepared):
        with pointing(on.text):
            found = _classify(on.text, _conjuncts([on.expr]), scope)
        return replace(found, elsewhere=on.elsewhere)
    text = condition_text(on, scope)
    conjuncts = _conjuncts(read(text, scope, time_zone))
    with pointing(text):
        return _classify(text, conjuncts, scope)


def _conjuncts(parts: Sequence[Expr]) -> list[Expr]:
    """What all of these must hold, each once."""
    every = [c for e in parts for c in (e.args if isinstance(e, Call) and e.name == "AND" else (e,))]
    return list(dict.fromkeys(every))


def _classify(text: str, conjuncts: list[Expr], scope: Scope) -> Condition:
    keys: list[Key] = []
    ranges: dict[tuple[Expr, Expr, bool], list[Range]] = {}
    filters: list[tuple[str, Expr]] = []
    residual: list[Expr] = []
    for conjunct in conjuncts:
        sides = scope.sides_of(conjunct)
        if not sides:
            if conjunct.compute({}, 0).as_py() is not True:
                filters += [(alias, NEVER) for alias in scope.aliases]
        elif len(sides) == 1 and WINDOW not in sides:
            filters.append((next(iter(sides)), conjunct))
        elif (key := _key(conjunct, scope)) is not None:
            keys.append(replace(key, sources=(conjunct,)))
            residual += [conjunct] if key.recheck else []
        elif found := _ranges(conjunct, scope):
            for r in found:
                ranges.setdefault((r.left, r.right, r.kind == "real"), []).append(r)
        else:
            residual.append(conjunct)
    merged = tuple(map(Range.intersection, ranges.values()))
    return Condition(text, tuple(conjuncts), tuple(keys), merged, tuple(filters), tuple(residual))


def _key(conjunct: Expr, scope: Scope) -> Key | None:
    if not isinstance(conjunct, Call) or conjunct.name not in ("=", "<=>"):
        return None
    owners = [scope.sides_of(arg) for arg in conjunct.args]
    moved = _moved(conjunct, scope)
    implied = None
    if moved is not None and moved.kind != "real":
        value = -moved.constant / moved.factor
        implied = Range(moved.sides, moved.left, moved.right, moved.kind, value, value, (conjunct,))
    if all(len(o) == 1 and WINDOW not in o for o in owners) and owners[0] != owners[1]:
        left, right = sorted(conjunct.args, key=lambda arg: scope.aliases.index(next(iter(scope.sides_of(arg)))))
        return _typed_key(conjunct, left, right, implied if conjunct.name == "=" else None, scope)
    if implied is None or conjunct.name == "<=>" or implied.low is None:
        return None
    if implied.low.denominator != 1 or has_nanos(conjunct, scope):
        return None
    left, right = (wrapping(e) for e in (implied.left, implied.right))
    exact = left.name == right.name == "time"
    if implied.low:
        left = Call("+" if exact else "wrap_add", (left, Literal(int(implied.low), pa.int64())))
    return replace(_typed_key(conjunct, left, right, implied, scope), recheck=not exact)


def _typed_key(source: Call, left: Expr, right: Expr, implied: Range | None, scope: Scope) -> Key:
    types = left.type(scope.types), right.type(scope.types)
    common = coercion.common_type(*types)
    if common is None or pt.is_nested(common):
        raise ExprError(f"cannot join {left} ({types[0]}) with {right} ({types[1]}): CAST one of them", source.at)
    sides = tuple(next(iter(scope.sides_of(e))) for e in (left, right))
    keys = [as_key(e, common, scope) for e in (left, right)]
    null_safe = source.name == "<=>"
    return Key((sides[0], sides[1]), keys[0], keys[1], common, null_safe, implied, (left, right), (source,))


def as_key(expr: Expr, common: pa.DataType, scope: Scope) -> Expr:
    """The expression in the type that it is compared in, so that equal values have equal bits."""
    expr = expr if expr.type(scope.types) == common else Cast(expr, common, expr.at)
    return Call("key", (expr,), expr.at) if pt.is_floating(common) else expr


def _moved(comparison: Call, scope: Scope) -> Difference | None:
    """second - first of a comparison, as a difference between the two sides; None if it is not one."""
    first, second = (as_sum(arg, scope) for arg in comparison.args)
    return None if first is None or second is None else difference(second.plus(first, Fraction(-1)), scope)


def _ranges(conjunct: Expr, scope: Scope) -> list[Range]:
    if not isinstance(conjunct, Call) or conjunct.name not in _FLIP:
        return []
    name, (a, b) = conjunct.name, conjunct.args
    if isinstance(b, Call) and b.name == "abs" and not a.columns:
        name, a, b = _FLIP[name], b, a
    if isinstance(a, Call) and a.name == "abs" and not b.columns and name in ("<", "<="):
        inner = a.args[0]
        pair = [
            _range(Call(name, (inner, b)), conjunct, scope),
            _range(Call(_FLIP[name], (inner, Call("negate", (b,)))), conjunct, scope),
        ]
        return [r for r in pair if r is not None] if None not in pair else []
    found = _range(conjunct, conjunct, scope)
    return [] if found is None else [found]


def _range(comparison: Call, source: Expr, scope: Scope) -> Range | None:
    """The range of a comparison:  first OP second  <=>  factor * (right - left) + constant  OP'  0."""
    moved = _moved(comparison, scope)
    if moved is None:
        return None
    name = comparison.name if moved.factor < 0 else _FLIP[comparison.name]
    low, high = _closed(name, -moved.constant / moved.factor, moved.kind)
    return Range(moved.sides, moved.left, moved.right, moved.kind, low, high, (source,))


def _closed(name: str, value: Fraction, kind: Kind) -> tuple[Fraction | None, Fraction | None]:
    """The comparison  right - left OP value  as closed bounds (low, high). They are whole unless the kind is real."""
    if kind == "real":
        return (value, None) if name[0] == ">" else (None, value)
    if name[0] == ">":
        return Fraction(ceil(value) if name == ">=" else floor(value) + 1), None
    return None, Fraction(floor(value) if name == "<=" else ceil(value) - 1)
