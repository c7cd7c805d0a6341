"""The condition of a join without Spark: its skeleton -> expressions of the engine, exactly as Spark means it, or refused.

    read("o.cell = t.cell AND t.ts <= o.ts + INTERVAL 5 MINUTES", scope, None)      ->  [Expr, Expr], one per conjunct

The engine takes columns, literals (literals.py) and the skeleton: AND, OR, NOT, comparisons, BETWEEN, IN, IS NULL, sums
and abs. Everything else is refused by name (refusals.py); compute it as a column before the join.

Guarantee: where Spark's join under ANSI mode, in the session time zone `time_zone`, gives an answer, these expressions
give the same one. Where Spark fails for a row, because a sum overflows, they are anything but do not fail.

* Values are compared in one type, which holds both: integers, decimals of up to 38 digits, doubles with integers or
  constants. No text is turned into a number, and no column of decimals into doubles.
* A timestamp with a zone is an instant; one without, and a date, is a wall clock. Which of them meet is a matter of the
  time zone, and so is a difference of instants (Spark subtracts wall clocks) and a day (24 hours, as an INTERVAL, are a
  day of the calendar). All that is exact where the zone's offset never changes, and refused elsewhere.

Not here: what the conjuncts are for the join (condition.py), and how Spark's conditions get here (runtime/spark).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise

import pyarrow as pa
import pyarrow.types as pt

from evenjoin.errors import SpecError
from evenjoin.spec.coercion import as_decimal_type, common_type, is_numeric, is_temporal, plain_type
from evenjoin.spec.expr import Call, Cast, Expr, ExprError, Literal, chain
from evenjoin.spec.literals import UTC, is_days, literal, moment
from evenjoin.spec.refusals import refusal
from evenjoin.spec.scope import TOO_DEEP, Scope, pointing
from evenjoin.spec.skeleton import COMPARISONS, Node, SkeletonError, Slice, Tree, calls, conjuncts, names, skeleton, sql, tokens
from evenjoin.spec.zone import Zone

MAX_DEPTH = 100
"""How deeply operators may be nested."""
_LOGIC = {"AND", "OR", "NOT", "IS NULL", "IS NOT NULL", "BETWEEN", "IN", *COMPARISONS.values()}
_OPERATORS = {"*", "/", "%", "DIV", "||", "&", "|", "^", "~", "[", "::", "->", "LIKE", "RLIKE", "ILIKE", "REGEXP", "IS"}
_DAY = 86_400_000_000


def read(text: str, scope: Scope, time_zone: str | None = None) -> list[Expr]:
    """The conjuncts of a condition, each once, in the order written. A ConditionError says what is wrong and where."""
    zone = None if time_zone is None else Zone.read(time_zone)
    if not isinstance(text, str) or not text.strip():
        raise SpecError("the SQL text is empty; write a condition such as a.id = b.id")
    with pointing(text):
        tree = _skeleton(text, 0)
        reader = _Reader(scope, zone)
        return list(dict.fromkeys(reader.predicate(part) for part in conjuncts(tree)))


def _skeleton(text: str, start: int) -> Tree:
    try:
        return skeleton(text)
    except SkeletonError as error:
        message = TOO_DEEP if "deeply" in error.message else f"this is not understood: {error.message}"
        raise ExprError(message, start + error.at) from None


class _Reader:
    """One walk over a skeleton."""

    def __init__(self, scope: Scope, zone: Zone | None) -> None:
        self.scope, self.zone, self.depth = scope, zone, 0

    def type(self, expr: Expr) -> pa.DataType:
        return plain_type(expr.type(self.scope.types))

    # Conditions.

    def predicate(self, tree: Tree) -> Expr:
        """A tree that is TRUE, FALSE or NULL."""
        found = self.value(tree)
        type_ = self.type(found)
        if not pt.is_boolean(type_) and not pt.is_null(type_):
            raise ExprError(f"a condition is needed here, not a value of type {type_}", place(tree))
        return found

    def value(self, tree: Tree) -> Expr:
        """Any tree."""
        if self.depth == MAX_DEPTH:
            raise ExprError(TOO_DEEP, place(tree))
        self.depth += 1
        found = self._slice(tree) if isinstance(tree, Slice) else self._node(tree, place(tree))
        self.depth -= 1
        return found

    def _node(self, tree: Node, at: int) -> Expr:
        op, args = tree.op, tree.args
        if op in ("AND", "OR"):
            return chain(op, [self.predicate(arg) for arg in args], at)
        if op == "NOT":
            return Call("NOT", (self.predicate(args[0]),), at)
        if op in ("IS NULL", "IS NOT NULL"):
            test = Call("IS NULL", (self.value(args[0]),), at)
            return test if op == "IS NULL" else Call("NOT", (test,), at)
        if op == "BETWEEN":
            x, low, high = (self.value(arg) for arg in args)
            return chain("AND", [self.compare(">=", x, low, tree), self.compare("<=", x, high, tree)], at)
        if op == "IN":
            return self._membership([self.value(arg) for arg in args], tree)
        if op in COMPARISONS.values():
            return self.compare(op, self.value(args[0]), self.value(args[1]), tree)
        if op == "abs":
            return self._absolute(self.value(args[0]), tree)
        return self.sum(op, self.value(args[0]), self.value(args[1]), tree)

    def compare(self, op: str, a: Expr, b: Expr, tree: Tree) -> Expr:
        """A comparison in the type in which Spark makes it."""
        return Call(op, self.together([a, b], tree), place(tree))

    def _membership(self, values: list[Expr], tree: Tree) -> Expr:
        """Spark brings all values to one type."""
        x, *rest = self.together(values, tree)
        if len(rest) == 1 or any(value.columns for value in rest) or not x.columns:
            return chain("OR", [Call("=", (x, value), place(tree)) for value in rest], place(tree))
        return Call("IN", (x, *rest), place(tree))

    # The type in which values are compared.

    def together(self, values: list[Expr], tree: Tree) -> tuple[Expr, ...]:
        """The values in the one type in which Spark compares them."""
        target = reduce(lambda t, value: self._meet(t, value, tree), values, pa.null())
        if pt.is_nested(target) or not _is_comparable(target):
            raise refusal("nested", place(tree), what=sql(tree), one=target)
        return tuple(self._to(value, target, tree) for value in values)

    def _meet(self, target: pa.DataType, value: Expr, tree: Tree) -> pa.DataType:
        own = self.type(value)
        if isinstance(value, Literal) and pt.is_string(own) and is_temporal(target):
            return target
        if pt.is_string(target) and is_temporal(own) and all(isinstance(v, Literal) for v in self._texts(tree)):
            return own
        common = common_type(target, own)
        if common is None:
            raise refusal("types", place(tree), what=sql(tree), one=target, two=own)
        if pt.is_decimal(common) and common.precision > 38:
            raise refusal("digits", place(tree), what=sql(tree), one=target, two=own)
        if is_temporal(common) and not (pt.is_date(target) or pt.is_date(own)) and _zoned(target) != _zoned(own):
            return pa.timestamp(common.unit, UTC)
        return common
