"""The types in which values of a condition are compared and added without Spark: Spark's own, or refused.

* Values are compared in one type, which holds both: integers, decimals of up to 38 digits, floats with integers or
  constants. No text is turned into a number, and no column of decimals into doubles.
* Text that is compared with a time is a time.
* A timestamp with a zone is an instant. One without, and a date, is a wall clock. When they meet is a matter of the
  time zone, and so are a difference of instants (Spark subtracts wall clocks) and a day (an INTERVAL of 24 hours is a
  day of the calendar). All that is exact where the zone's offset never changes, and refused elsewhere. Constants can be
  moved in any zone.
* Sums keep all digits of integers and decimals. A sum of constants is a constant.

Guarantee: an expression that comes back has the value that Spark computes in ANSI mode, wherever Spark does not fail.
Not here: what is compared with what (reader.py), and how (functions.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from functools import reduce

import pyarrow as pa
import pyarrow.types as pt

from evenjoin.spec.coercion import as_decimal_type, common_type, is_numeric, is_temporal, plain_type
from evenjoin.spec.expr import Call, Cast, Expr, Literal
from evenjoin.spec.literals import DAY, UTC, moment, whole_days
from evenjoin.spec.refusals import refusal
from evenjoin.spec.skeleton import Node, Slice, Tree, place
from evenjoin.spec.zone import Zone

_INSTANT = pa.timestamp("us", UTC)
_DIGITS = 38


class Meeting:
    """The rules for columns of these types, in a zone; None if none was given."""

    def __init__(self, types: Mapping[str, pa.DataType], zone: Zone | None) -> None:
        self.types, self.zone = types, zone

    def type(self, expr: Expr) -> pa.DataType:
        return plain_type(expr.type(self.types))

    # Comparisons.

    def together(self, values: Sequence[Expr], tree: Tree) -> tuple[pa.DataType, list[Expr]]:
        """The one type in which Spark compares the values, and the values as they are to be compared."""
        typed = [value for value in values if not _is_text(value)]
        target = reduce(lambda t, value: self._meet(t, self.type(value), tree), typed, pa.null())
        if len(typed) < len(values) and not is_temporal(target):
            target = self._meet(target, pa.string(), tree)
        if pt.is_nested(target):
            raise refusal("nested", values[0].at, what=tree, one=target)
        return target, [self._to(value, target, tree) for value in values]

    def _meet(self, one: pa.DataType, two: pa.DataType, tree: Tree) -> pa.DataType:
        common = common_type(one, two)
        if common is None:
            raise refusal("types", place(tree), what=tree, one=one, two=two)
        if pt.is_decimal(common) and common.precision > _DIGITS:
            raise refusal("digits", place(tree), what=tree, one=one, two=two)
        return common

    def _to(self, value: Expr, target: pa.DataType, tree: Tree) -> Expr:
        """A value as it is compared in a type. Where the kernels bring it there without a change it stays as it is."""
        own = self.type(value)
        if _is_text(value) and is_temporal(target):
            return moment(str(value.value), target, self.zone, value.at)  # type: ignore[attr-defined]
        if pt.is_decimal(own) and pt.is_floating(target):
            return self._as_double(value, tree)
        return self._instant(value, tree) if _is_zoned(target) and is_temporal(own) else value

    def _as_double(self, value: Expr, tree: Tree) -> Expr:
        if not isinstance(value, Literal):
            raise refusal("rounding", place(tree), what=tree)
        return Literal(None if value.value is None else float(value.value), pa.float64(), value.at)

    def _instant(self, value: Expr, tree: Tree) -> Expr:
        """A time as an instant: what is one stays, and a wall clock is read in the zone."""
        own = self.type(value)
        if _is_zoned(own):
            return value
        if self.zone is None:
            raise refusal("zone needed", place(tree), what=tree)
        wall = _wall(value)
        moved = None if wall is None else self.zone.instant(wall)
        if moved is not None:
            return Literal(moved, _INSTANT, value.at)
        if self.zone.offset is None:
            raise refusal("clock changes", place(tree), what=tree, zone=self.zone.name)
        unit = own.unit if pt.is_timestamp(own) else "us"
        clock = Cast(value, pa.timestamp(unit, UTC), value.at)
        return Call("-", (clock, _span(self.zone.offset)), value.at) if self.zone.offset else clock

    # Sums.

    def sum(self, tree: Node, a: Expr, b: Expr) -> Expr:
        """a + b or a - b."""
        types = self.type(a), self.type(b)
        if all(map(is_numeric, types)):
            found = self._numbers(tree, a, b)
        elif tree.op == "-" and all(map(is_temporal, types)):
            found = self._difference(tree, a, b)
        elif is_temporal(types[0]):
            found = self._moved(tree, a, b, tree.args[1])
        elif is_temporal(types[1]) and tree.op == "+":
            found = self._moved(tree, b, a, tree.args[0])
        elif all(map(pt.is_duration, types)):
            found = Call(tree.op, (a, b), a.at)
        else:
            raise self._no_sum(tree, a, b)
        return self._constant(found)

    def _no_sum(self, tree: Node, a: Expr, b: Expr) -> Exception:
        return refusal("sum", place(tree), what=tree, one=self.type(a), op=tree.op, two=self.type(b))

    def _constant(self, expr: Expr) -> Expr:
        if expr.columns:
            return expr
        value = expr.compute({}, 0)
        plain = value.cast(pa.int64()) if pt.is_timestamp(value.type) or pt.is_duration(value.type) else value
        return Literal(plain.as_py(), value.type, expr.at)

    def _numbers(self, tree: Node, a: Expr, b: Expr) -> Expr:
        types = self.type(a), self.type(b)
        if any(map(pt.is_floating, types)):
            a, b = (self._as_double(x, tree) if pt.is_decimal(t) else x for x, t in zip((a, b), types, strict=True))
        elif any(map(pt.is_decimal, types)):
            one, two = map(as_decimal_type, types)
            whole = max(one.precision - one.scale, two.precision - two.scale)
            if whole + max(one.scale, two.scale) + 1 > _DIGITS:
                raise refusal("digits", place(tree), what=tree, one=types[0], two=types[1])
        return Call(tree.op, (a, b), a.at)

    def _difference(self, tree: Node, a: Expr, b: Expr) -> Expr:
        """A difference of two times, which Spark makes of wall clocks. In a fixed zone that of instants is the same."""
        types = self.type(a), self.type(b)
        both_dates = all(map(pt.is_date, types))
        both_walls = all(pt.is_timestamp(t) and t.tz is None for t in types)
        if not both_dates and not both_walls:
            self._check_fixed(tree)
            a, b = self._instant(a, tree), self._instant(b, tree)
        return Call("-", (a, b), a.at)

    def _moved(self, tree: Node, start: Expr, by: Expr, written: Tree) -> Expr:
        """A time, moved by a number of days or an INTERVAL that was `written` so."""
        own, step = self.type(start), self.type(by)
        if pt.is_date(own) and pt.is_integer(step) and step.bit_width <= 32:
            return Call(tree.op, (start, by), start.at)
        if not pt.is_duration(step):
            raise self._no_sum(tree, start, by)
        if pt.is_date(own):
            days = whole_days(written.text) if isinstance(written, Slice) else None
            if days is not None:
                return Call(tree.op, (start, Literal(days, pa.int32(), by.at)), start.at)
            if not isinstance(by, Literal) or not isinstance(written, Slice):
                raise self._no_sum(tree, start, by)
            start = self._instant(start, tree)
        short = isinstance(by, Literal) and by.value is not None and abs(by.value) < DAY
        if _is_zoned(self.type(start)) and not short:
            self._check_fixed(tree)
        return Call(tree.op, (start, by), start.at)

    def _check_fixed(self, tree: Tree) -> None:
        if self.zone is None:
            raise refusal("zone needed", place(tree), what=tree)
        if self.zone.offset is None:
            raise refusal("clock changes", place(tree), what=tree, zone=self.zone.name)

    def absolute(self, value: Expr, tree: Tree) -> Expr:
        """abs(value)."""
        own = self.type(value)
        if not is_numeric(own) and not pt.is_duration(own):
            raise refusal("expression", value.at, what=f"ABS() of {own}")
        return self._constant(Call("abs", (value,), value.at))


def _is_text(value: Expr) -> bool:
    return isinstance(value, Literal) and pt.is_string(value.datatype)


def _is_zoned(t: pa.DataType) -> bool:
    return bool(pt.is_timestamp(t) and t.tz is not None)


def _wall(value: Expr) -> datetime | None:
    """The wall clock that a literal shows; None for anything else."""
    if not isinstance(value, Literal) or value.value is None:
        return None
    if isinstance(value.value, date):
        return datetime.combine(value.value, time())
    found = pa.scalar(value.value, value.datatype).as_py()
    return found if isinstance(found, datetime) else None


def _span(micros: int) -> Literal:
    return Literal(micros, pa.duration("us"))
