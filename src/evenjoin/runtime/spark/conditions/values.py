"""Operands and predicates as expressions of the engine, over plain columns and columns that Spark computes.

    o.ts - INTERVAL 10 MINUTES        o.ts - Literal: a sum keeps its shape, so that bounds and horizons come from it
    upper(l.s)                        l.~0, a computed column: whatever is beyond a plain column is Spark's to evaluate
    0.3 (compared with a double)      Literal(0.3D): Spark's value of `cast(0.3 as double)`
    concat(l.s, r.s)                  Elsewhere: it reads two sides, so only Spark can evaluate it

Sums keep their shape where the engine's arithmetic is Spark's: integers under ANSI (in 64 bits; where Spark's overflow
they may be anything, because Spark fails there), floats, decimals that are not rescaled, times and intervals of fixed
length. In a zone whose offset changes an interval of 24 hours or more is one of the calendar and has no fixed length,
and `ts - ts` is a difference of wall clocks.

Guarantee: an expression that comes back has Spark's value for every row for which Spark does not fail, and does not
fail itself. `Elsewhere` says why there is none.
Not here: which conjunct is made of it (split.py), and bounds that are only hints (hints.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal as TypingLiteral

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    LongType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from evenjoin.runtime.spark.conditions.analyst import KERNEL, Analyst
from evenjoin.runtime.spark.conditions.clocks import clock, is_time_of_clock
from evenjoin.runtime.spark.conditions.safety import cast_may_fail, may_fail, widens
from evenjoin.spec.expr import Call, Cast, Column, Expr, Literal, chain
from evenjoin.spec.scope import WINDOW, Scope
from evenjoin.spec.skeleton import COMPARISONS, Node, Slice, Tree, sql

DAY = 86_400_000_000
SUMS = ("+", "-", "abs")
MOMENTS = (TimestampType, TimestampNTZType, DateType)
_WRAPPING = {"+": "wrap_add", "-": "wrap_subtract"}

Early = TypingLiteral["no", "safe", "guarded"]
"""What may be computed before dispatch: nothing, what cannot fail, or everything, guarded by the side's filters."""


class Elsewhere(Exception):
    """The engine cannot evaluate this; the message says why."""


class Values:
    """Translates trees and collects the columns that Spark must compute. `computed` has them by side, name -> SQL;
    `guards` what the rows of a side must satisfy to match anything, and `filtered` the sides that Spark must filter by
    that beforehand: it computes Python functions for every row, whatever IF or AND stands around them."""

    def __init__(self, analyst: Analyst, scope: Scope, event_time: Mapping[str, str]) -> None:
        self.analyst, self.scope, self.event_time = analyst, scope, event_time
        self.computed: dict[str, dict[str, str]] = {alias: {} for alias in scope.aliases}
        self.types: dict[str, dict[str, DataType]] = {alias: {} for alias in scope.aliases}
        self.guards: dict[str, str] = {}
        self.filtered: set[str] = set()
        self.near_zero: dict[str, set[str]] = {alias: set() for alias in scope.aliases}
        self.early: Early = "safe"

    # What is asked of Spark about a tree.

    def sides(self, tree: Tree) -> frozenset[str]:
        if isinstance(tree, Slice):
            return self.analyst.sides(tree.text)
        return frozenset().union(*(self.sides(arg) for arg in tree.args))

    def type(self, tree: Tree) -> DataType | None:
        return self.analyst.type(sql(tree))

    def may_fail(self, tree: Tree) -> bool:
        return may_fail(tree, self.analyst.ansi, self.analyst.type)

    def plain(self, tree: Tree) -> Column | None:
        """The column that a slice names; None if it is anything else."""
        found = self.scope.plain(tree.text) if isinstance(tree, Slice) else None
        return found if found is not None and len(self.sides(tree)) == 1 else None

    # Columns and constants.

    def column(self, alias: str, text: str, type_: DataType, fails: bool) -> Column:
        """The column of a side that Spark computes from this text."""
        if alias == WINDOW:
            raise Elsewhere("it computes something from the bounds of the window")
        if self.early == "no":
            raise Elsewhere("it must be computed")
        if fails and self.early == "safe":
            raise Elsewhere("it may fail for rows that match nothing")
        if fails and alias in self.guards and self.analyst.calls_users(text):
            self.filtered.add(alias)
        elif fails and alias in self.guards:
            text = f"IF({self.guards[alias]}, {text}, NULL)"
        for name, known in self.computed[alias].items():
            if known == text:
                return Column(f"{alias}.{name}")
        taken = {name.lower() for name in self.scope.schemas[alias].names}
        number = len(self.computed[alias])
        while f"~{number}" in taken:
            number += 1
        self.computed[alias][f"~{number}"] = text
        self.types[alias][f"~{number}"] = type_
        return Column(f"{alias}.~{number}")

    def literal(self, tree: Tree, text: str, target: DataType) -> Literal:
        if isinstance(tree, Slice) and tree.text.isdigit() and isinstance(target, IntegralType):
            return Literal(int(tree.text), self.analyst.arrow_type(target))
        own = self.type(tree)
        try:
            value = self.analyst.constant(text, target)
            meant = self.analyst.constant(sql(tree), own).value if isinstance(own, StringType) else None
        except (PySparkException, pa.ArrowException, OverflowError, ValueError) as error:
            raise Elsewhere(f"its constant has no value: {str(error).splitlines()[0]}") from None
        if isinstance(target, MOMENTS) and is_time_of_clock(meant):
            raise clock(sql(tree))
        return value

    # Predicates.

    def predicate(self, tree: Tree) -> Expr:
        """A boolean tree as an expression. A part of one side that would need a computed column is one as a whole."""
        sides = self.sides(tree)
        if not sides:
            return self.literal(tree, sql(tree), BooleanType())
        if len(sides) > 1 or WINDOW in sides:
            return self._predicate(tree)
        kept, self.early = self.early, "no"
        try:
            return self._predicate(tree)
        except Elsewhere:
            self.early = kept
            return self.column(next(iter(sides)), sql(tree), BooleanType(), self.may_fail(tree))
        finally:
            self.early = kept

    def _predicate(self, tree: Tree) -> Expr:
        if isinstance(tree, Slice):
            found = self.plain(tree)
            if found is None:
                raise Elsewhere(f"{tree.text} is for Spark to evaluate")
            return found
        if tree.op in ("AND", "OR"):
            return chain(tree.op, [self.predicate(arg) for arg in tree.args], None)
        if tree.op == "NOT":
            return Call("NOT", (self.predicate(tree.args[0]),))
        if tree.op in ("IS NULL", "IS NOT NULL"):
            found = self.plain(tree.args[0])
            if found is None:
                raise Elsewhere("a test for NULL of more than a column")
            test = Call("IS NULL", (found,))
            return test if tree.op == "IS NULL" else Call("NOT", (test,))
        if tree.op == "BETWEEN":
            x, low, high = tree.args
            return chain("AND", [self.compare(">=", x, low), self.compare("<=", x, high)], None)
        if tree.op == "IN":
            return self._membership(*tree.args)
        if tree.op in COMPARISONS.values():
            return self.compare(tree.op, *tree.args)
        raise Elsewhere(f"{sql(tree)} is for Spark to evaluate")

    def _membership(self, x: Tree, *values: Tree) -> Expr:
        """Spark brings all values to one type; taken only where that changes none of them."""
        types = [self.type(tree) for tree in (x, *values)]
        whole = all(isinstance(t, IntegralType) for t in types)
        if not whole and any(t != types[0] for t in types):
            raise Elsewhere("the values of IN have different types")
        return chain("OR", [self.compare("=", x, value) for value in values], None)

    def compare(self, op: str, a: Tree, b: Tree) -> Expr:
        """A comparison in the type in which Spark makes it."""
        met = self.analyst.meet(sql(a), op, sql(b))
        if met is None:
            raise Elsewhere("how Spark compares these types is not proved")
        if not KERNEL.fullmatch(met.type.simpleString()):
            raise Elsewhere(f"values of type {met.type.simpleString()} are Spark's to compare")
        return Call(op, (self.operand(a, met.left, met.type), self.operand(b, met.right, met.type)))

    # Operands.

    def operand(self, tree: Tree, text: str, target: DataType) -> Expr:
        """An operand, brought to the target type by `text`."""
        sides, own = self.sides(tree), self.type(tree)
        if not sides:
            return self.literal(tree, text, target)
        if isinstance(tree, Node) and tree.op in SUMS:
            shaped = self._shaped(tree, own, target)
            if shaped is not None:
                return shaped
        if len(sides) != 1:
            raise Elsewhere("it reads several sides")
        found = self.plain(tree)
        if found is not None and text == sql(tree):
            return found
        if found is not None and isinstance(own, IntegralType) and isinstance(target, IntegralType):
            return Cast(found, self.analyst.arrow_type(target))
        fails = self.may_fail(tree) or own is None or cast_may_fail(own, target, self.analyst.ansi)
        return self.column(next(iter(sides)), text, target, fails)

    def leaf(self, tree: Tree, target: DataType) -> Expr:
        """An operand within a sum: a constant, or something of one side, cast to the target if it has another type."""
        same = self.type(tree) == target
        text = sql(tree) if same else f"CAST({sql(tree)} AS {target.simpleString()})"
        return self.operand(tree, text, target)

    def _shaped(self, tree: Node, own: DataType | None, target: DataType) -> Expr | None:
        """A sum whose terms the engine may move; None where it has to be one value."""
        if isinstance(own, IntegralType) and isinstance(target, IntegralType):
            return self._whole(tree) if self.analyst.ansi or self._event_times(tree) else None
        if isinstance(own, DoubleType | FloatType):
            return self._real(tree, own, target)
        if isinstance(own, DecimalType) and isinstance(target, DecimalType) and widens(own, target):
            return self._decimal(tree)
        if isinstance(own, MOMENTS) and own == target:
            return self.moved(tree, own)
        if isinstance(own, DayTimeIntervalType) and len(self.sides(tree)) > 1:
            return self._interval(tree)
        return None

    def _whole(self, tree: Tree) -> Expr | None:
        """A sum of integers, in 64 bits and modulo 2^64: it cannot fail, and is right where Spark does not fail."""
        if isinstance(tree, Node) and tree.op in SUMS:
            inner = [self._whole(arg) for arg in tree.args]
            args = tuple(arg for arg in inner if arg is not None)
            return None if len(args) < len(inner) else Call(_WRAPPING.get(tree.op, tree.op), args)
        own = self.type(tree)
        if not isinstance(own, IntegralType) or len(self.sides(tree)) > 1:
            return None
        if not self.sides(tree):
            return self.literal(tree, f"CAST({sql(tree)} AS BIGINT)", LongType())
        found = self.leaf(tree, own)
        return found if isinstance(own, LongType) else Cast(found, pa.int64())

    def _event_times(self, tree: Node) -> bool:
        """Without ANSI sums wrap. Those of event times keep their shape all the same, because bounds of time come from
        them; a row so near to the end of its type that its sum could wrap fails loudly."""
        summands = terms(tree)
        columns = [found for term in summands if self.sides(term) and (found := self.plain(term)) is not None]
        for column in columns:
            alias, _, name = column.name.partition(".")
            if self.event_time.get(alias) != name:
                return False
        if not columns or len(columns) > 2 or sum(bool(self.sides(t)) for t in summands) != len(columns):
            return False
        for column in columns:
            alias, _, name = column.name.partition(".")
            self.near_zero[alias].add(name)
        return True

    def _real(self, tree: Node, own: DataType, target: DataType) -> Expr | None:
        """A sum of floats: the same operations in the same order, so the same bits. Spark proves the casts of terms."""
        found = self._floats(tree, own)
        if found is None or not self.analyst.same(sql(tree), sql(found[1])):
            return None
        if own == target:
            return found[0]
        return Cast(found[0], pa.float64()) if isinstance(target, DoubleType) else None

    def _floats(self, tree: Tree, own: DataType) -> tuple[Expr, Tree] | None:
        if isinstance(tree, Node) and tree.op in SUMS and self.type(tree) == own:
            inner = [self._floats(arg, own) for arg in tree.args]
            pairs = [pair for pair in inner if pair is not None]
            if len(pairs) < len(inner):
                return None
            return Call(tree.op, tuple(p[0] for p in pairs)), Node(tree.op, tuple(p[1] for p in pairs))
        if len(self.sides(tree)) > 1:
            return None
        cast = tree if self.type(tree) == own else Slice(f"CAST({sql(tree)} AS {own.simpleString()})")
        return self.leaf(tree, own), cast

    def _decimal(self, tree: Tree) -> Expr | None:
        """A sum of decimals in which Spark keeps all digits."""
        own = self.type(tree)
        if isinstance(tree, Node) and tree.op in SUMS and isinstance(own, DecimalType):
            inner = [self._decimal(arg) for arg in tree.args]
            args = tuple(arg for arg in inner if arg is not None)
            kept = tree.op == "abs" or self._keeps_digits(own, [self.type(arg) for arg in tree.args])
            return Call(tree.op, args) if len(args) == len(inner) and kept else None
        if not isinstance(own, DecimalType) or len(self.sides(tree)) > 1:
            return None
        return self.leaf(tree, own)

    @staticmethod
    def _keeps_digits(own: DecimalType, args: Sequence[DataType | None]) -> bool:
        decimals = [t for t in args if isinstance(t, DecimalType)]
        if len(decimals) != len(args):
            return False
        scale = max(t.scale for t in decimals)
        digits = max(t.precision - t.scale for t in decimals) + scale + 1
        return own.scale == scale and own.precision == digits <= 38

    def moved(self, tree: Tree, own: DataType) -> Expr | None:
        """A time moved by intervals of fixed length; None if one of them has none."""
        if self.type(tree) != own or len(self.sides(tree)) != 1:
            return None
        if isinstance(tree, Slice) or tree.op not in ("+", "-"):
            return self.leaf(tree, own)
        taken = self.step(tree)
        if taken is None:
            return None
        base, by = taken
        type_ = self.type(by)
        start = self.moved(base, own)
        if start is None or type_ is None or not self.is_fixed(own, by):
            return None
        return Call(tree.op, (start, self.literal(by, sql(by), type_)))

    def step(self, tree: Node) -> tuple[Tree, Tree] | None:
        """A sum as (what is moved, the constant by which); None if it has no constant."""
        a, b = tree.args
        if not self.sides(b):
            return a, b
        return (b, a) if tree.op == "+" and not self.sides(a) else None

    def is_fixed(self, own: DataType, by: Tree) -> bool:
        """Whether a constant moves every value of a type by the same length of time."""
        type_ = self.type(by)
        if isinstance(own, DateType) and isinstance(type_, IntegralType):
            return True
        if not isinstance(type_, DayTimeIntervalType):
            return False
        if isinstance(own, TimestampType) and not self.analyst.fixed_zone:
            size = self.literal(by, sql(by), type_).value
            return size is not None and abs(size) < DAY
        return True

    def _interval(self, tree: Tree) -> Expr | None:
        """A sum of intervals and of differences of times."""
        own = self.type(tree)
        if isinstance(tree, Node) and tree.op in SUMS:
            types = [self.type(arg) for arg in tree.args]
            if tree.op == "-" and all(isinstance(t, MOMENTS) for t in types):
                return self._difference(*tree.args)
            inner = [self._interval(arg) for arg in tree.args]
            args = tuple(arg for arg in inner if arg is not None)
            return Call(tree.op, args) if len(args) == len(inner) else None
        if not isinstance(own, DayTimeIntervalType) or len(self.sides(tree)) > 1:
            return None
        return self.leaf(tree, own)

    def _difference(self, a: Tree, b: Tree) -> Expr | None:
        """A difference of two times of one type. That of two timestamps is one of wall clocks."""
        own = self.type(a)
        if own != self.type(b) or len(self.sides(a)) != 1 or len(self.sides(b)) != 1 or own is None:
            return None
        if isinstance(own, TimestampType) and not self.analyst.fixed_zone:
            return Call("-", (self.leaf(a, TimestampNTZType()), self.leaf(b, TimestampNTZType())))
        ends = [self.moved(tree, own) or self.leaf(tree, own) for tree in (a, b)]
        return Call("-", (ends[0], ends[1]))


def terms(tree: Tree) -> list[Tree]:
    """The terms of a sum; of anything else, itself."""
    if isinstance(tree, Node) and tree.op in SUMS:
        return [term for arg in tree.args for term in terms(arg)]
    return [tree]
