"""Bounds on times that follow from a comparison whose constants have no fixed length.

    r.ts <= l.ts + INTERVAL 1 MONTH        follows: r.ts <= l.ts + 31 days + the spread of the zone
    l.ts - r.ts <= INTERVAL 5 MINUTES      in New York: l.ts - r.ts, as instants, <= 5 minutes + the spread
    l.ts >= r.day                          l.ts >= r.day, read as UTC, - the spread

A month has 28 to 31 days. The offset of a zone lies between -12 and +14 hours (-16 in older times), so a wall clock and
an instant differ by less than SPREAD from their difference at any other time. In UTC they never do.

Guarantee: where the comparison is TRUE, its hints are. They give probes, order and horizons; the comparison itself is
enforced all the same, on columns that Spark computes. Comparisons of plain columns and fixed lengths need no hint.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.types import DateType, DayTimeIntervalType, IntegralType, TimestampType, YearMonthIntervalType

from evenjoin.runtime.spark.conditions.values import DAY, MOMENTS, Elsewhere, Values
from evenjoin.spec.expr import Call, Column, Expr, Literal
from evenjoin.spec.skeleton import Node, Tree, sql

SPREAD = 26 * 3_600_000_000
"""Microseconds by which the offset of a zone may change."""
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True, slots=True)
class Moment:
    """A plain time column plus something between `low` and `high` microseconds."""

    column: Column
    low: int
    high: int
    exact: bool


def hints(values: Values, op: str, a: Tree, b: Tree) -> list[Expr]:
    """What follows from `a op b` for the plain time columns in it; nothing where the comparison says it itself."""
    try:
        return _of_difference(values, op, a, b) or _of_moments(values, op, a, b)
    except (Elsewhere, PySparkException):
        return []


def _of_moments(values: Values, op: str, a: Tree, b: Tree) -> list[Expr]:
    x, y = _moment(values, a), _moment(values, b)
    if op not in _FLIPPED or x is None or y is None or values.sides(a) == values.sides(b):
        return []
    types = [values.type(tree) for tree in (a, b)]
    if x.exact and y.exact and types[0] == types[1]:
        return []
    more = 0 if types[0] == types[1] else _spread(values)
    return _bounds(op, x, y, more)


def _of_difference(values: Values, op: str, a: Tree, b: Tree) -> list[Expr]:
    """Hints of `x - y op constant` and `abs(x - y) <= constant`."""
    if op in _FLIPPED and not values.sides(a):
        op, a, b = _FLIPPED[op], b, a
    type_ = values.type(b)
    if values.sides(b) or values.analyst.fixed_zone or not isinstance(type_, DayTimeIntervalType):
        return []
    absolute = isinstance(a, Node) and a.op == "abs"
    inner = a.args[0] if absolute and isinstance(a, Node) else a
    if not isinstance(inner, Node) or inner.op != "-" or (absolute and op not in ("<", "<=")) or op not in _FLIPPED:
        return []
    x, y = (_moment(values, tree) for tree in inner.args)
    size = values.literal(b, sql(b), type_).value
    if x is None or y is None or size is None or values.sides(inner.args[0]) == values.sides(inner.args[1]):
        return []
    found = _bounds(op, x, Moment(y.column, y.low + size, y.high + size, False), SPREAD)
    if absolute:
        found += _bounds(_FLIPPED[op], x, Moment(y.column, y.low - size, y.high - size, False), SPREAD)
    return found


def _bounds(op: str, x: Moment, y: Moment, more: int) -> list[Expr]:
    """x + [low, high] op y + [low, high]  =>  bounds of x - y."""
    found = []
    if op in ("<", "<=", "="):
        found.append(Call("<=", (x.column, _plus(y.column, y.high - x.low + more))))
    if op in (">", ">=", "="):
        found.append(Call(">=", (x.column, _plus(y.column, y.low - x.high - more))))
    return list(found)


def _plus(column: Column, micros: int) -> Expr:
    literal = Literal(abs(micros), pa.duration("us"))
    return Call("+" if micros >= 0 else "-", (column, literal)) if micros else column


def _moment(values: Values, tree: Tree) -> Moment | None:
    own = values.type(tree)
    if not isinstance(own, MOMENTS) or len(values.sides(tree)) != 1:
        return None
    if not isinstance(tree, Node):
        column = values.plain(tree)
        return None if column is None else Moment(column, 0, 0, True)
    taken = values.step(tree) if tree.op in ("+", "-") else None
    base = None if taken is None else _moment(values, taken[0])
    if taken is None or base is None:
        return None
    length = _length(values, own, taken[1])
    if length is None:
        return None
    low, high = length if tree.op == "+" else (-length[1], -length[0])
    exact = base.exact and values.type(taken[0]) == own and values.is_fixed(own, taken[1])
    return Moment(base.column, base.low + low, base.high + high, exact)


def _length(values: Values, own: object, by: Tree) -> tuple[int, int] | None:
    """The least and the greatest length of a constant, in microseconds."""
    type_ = values.type(by)
    spread = _spread(values) if not isinstance(own, DateType) else 0
    if isinstance(type_, IntegralType):
        days = values.literal(by, sql(by), type_).value
        return None if days is None else (days * DAY, days * DAY)
    if isinstance(type_, DayTimeIntervalType):
        size = values.literal(by, sql(by), type_).value
        calendar = isinstance(own, TimestampType) and size is not None and abs(size) >= DAY
        return None if size is None else (size - spread * calendar, size + spread * calendar)
    if isinstance(type_, YearMonthIntervalType):
        text = f"CAST(CAST({sql(by)} AS INTERVAL MONTH) AS INT)"
        found = values.analyst.type(text)
        months = None if found is None else values.analyst.constant(text, found).value
        if months is None:
            return None
        short, long = sorted((28 * months * DAY, 31 * months * DAY))
        return short - spread, long + spread
    return None


def _spread(values: Values) -> int:
    return 0 if values.analyst.zone in ("UTC", "Etc/UTC", "GMT", "Z") else SPREAD
