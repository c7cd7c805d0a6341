"""SQL text (sqlglot, dialect "spark") to expressions.

    parse("o.cell = t.cell AND t.ts <= o.ts", scope)  ->  Expr
    parse_select("t.taxi AS taxi", scope)             ->  [(name, Expr)]

Sugar goes away here: BETWEEN is two comparisons, IF and NULLIF are CASE, IS DISTINCT FROM is NOT <=>, and IN is a chain
of OR where one of its values reads a column. A chain of AND or OR is one call, however long. What is nested deeper than
MAX_DEPTH is refused, because expressions are walked recursively.
Invariant: every failure is a ConditionError with the offset of the place; what is not in the tables below is refused by
name, never passed on. Not here: syntax (sql.py), and what a condition means for a join (condition.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal

import pyarrow as pa
from sqlglot import exp

from evenjoin.spec import sql
from evenjoin.spec.expr import Call, Cast, Column, Expr, ExprError, Field, Literal, chain
from evenjoin.spec.scope import TOO_DEEP, Scope, pointing
from evenjoin.spec.window import interval_micros

MAX_DEPTH = 100
"""How deeply operators, functions and parentheses may be nested. (sqlglot itself gives up at some 45 parentheses.)"""
_BINARY: dict[type[exp.Expression], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.GT: ">", exp.LTE: "<=", exp.GTE: ">=", exp.NullSafeEQ: "<=>",
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%",
    exp.IntDiv: "DIV", exp.Like: "LIKE", exp.DPipe: "concat",
}  # fmt: skip
_CHAINS: dict[type[exp.Expression], str] = {exp.And: "AND", exp.Or: "OR"}
_UNARY: dict[type[exp.Expression], str] = {
    exp.Not: "NOT", exp.Neg: "negate", exp.Abs: "abs", exp.Upper: "upper", exp.Lower: "lower", exp.Length: "length",
    exp.Floor: "floor", exp.Ceil: "ceil", exp.Year: "year", exp.Month: "month", exp.Day: "day", exp.DayOfMonth: "day",
    exp.Hour: "hour", exp.Minute: "minute", exp.Second: "second",
}  # fmt: skip
_TYPES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "TEXT": pa.string(), "VARCHAR": pa.string(), "CHAR": pa.string(),
    "BINARY": pa.binary(), "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"), "TIMESTAMPLTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMPNTZ": pa.timestamp("us"),
}  # fmt: skip
# The arguments of sqlglot's nodes that are read below, or that say nothing. A node with any other one is refused:
# a newer sqlglot may put NOT, ESCAPE or SYMMETRIC there, and to overlook it would change the answer.
_UNDERSTOOD = {
    "this", "expression", "expressions", "low", "high", "query", "ifs", "default", "true", "false", "unit", "to",
    "_type",
    "table", "db", "catalog", "is_string", "safe", "typed", "coalesce", "start", "length", "decimals",
}  # fmt: skip


def parse(text: str, scope: Scope) -> Expr:
    """One scalar expression, typed: it evaluates without a type error on the scope's schemas."""
    with pointing(text):
        return _typed(text, sql.read(text), scope)


def parse_select(text: str, scope: Scope) -> list[tuple[str, Expr]]:
    """One entry of a select list: (output name, expression); a star gives many."""
    with pointing(text):
        tree = sql.read(text)
        if isinstance(tree, exp.Star):
            return [pair for alias in scope.aliases for pair in _all(alias, scope)]
        if isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star):
            owner = tree.args["table"]
            return _all(scope.alias((owner.name, owner.meta.get("start"))), scope)
        if isinstance(tree, exp.Alias):
            return [(tree.alias, _typed(text, tree.this, scope))]
        expr = _typed(text, tree, scope)
        if isinstance(expr, Column):
            return [(expr.name.partition(".")[2], expr)]
        return [(expr.name if isinstance(expr, Field) else str(expr), expr)]


def _all(alias: str, scope: Scope) -> list[tuple[str, Expr]]:
    return [(name, scope.column(alias, name)) for name in scope.schemas[alias].names]


def _typed(text: str, tree: exp.Expression, scope: Scope) -> Expr:
    expr = _Reader(text, scope, sql.places(tree)).read(tree)
    expr.type(scope.types)
    return expr


class _Reader:
    """One walk over a sqlglot tree."""

    def __init__(self, text: str, scope: Scope, places: Mapping[int, int]) -> None:
        self.text, self.scope, self.places = text, scope, places
        self.depth = 0

    def read(self, node: exp.Expression) -> Expr:
        at = self.places.get(id(node))
        if self.depth == MAX_DEPTH:
            raise ExprError(TOO_DEEP, at)
        self.depth += 1
        expr = self._read(node, at)
        self.depth -= 1
        return expr

    def _read(self, node: exp.Expression, at: int | None) -> Expr:
        kind = type(node)
        if not (kind in _BINARY or kind in _CHAINS or kind in _UNARY or kind in _SPECIAL):
            raise ExprError(sql.refusal(node, self.text, at), at)
        odd = sorted(name for name, value in node.args.items() if value and name not in _UNDERSTOOD)
        if odd and (kind, odd) != (exp.Like, ["negate"]):
            raise ExprError(f"{node.key.upper()} with {odd[0].upper()} is not supported in a stream join", at)
        if kind in _BINARY:
            call = Call(_BINARY[kind], (self.read(node.this), self.read(node.expression)), at)
            return Call("NOT", (call,), at) if odd else call
        if kind in _CHAINS:
            return chain(_CHAINS[kind], [self.read(operand) for operand in _operands(node)], at)
        return self._unary(_UNARY[kind], node, at) if kind in _UNARY else _SPECIAL[kind](self, node, at)

    def _unary(self, name: str, node: exp.Expression, at: int | None) -> Expr:
        inner = node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this
        if node.args.get("decimals") is not None or node.args.get("to") is not None:
            raise ExprError(f"{name} takes one argument here", at)
        arg = self.read(inner)
        if name == "negate" and isinstance(arg, Literal) and type(arg.value) in (int, float, Decimal):
            return Literal(-arg.value, arg.datatype, at)
        return Call(name, (arg,), at)

    def column(self, node: exp.Expression, at: int | None) -> Expr:
        parts = node.parts if isinstance(node, exp.Column | exp.Dot) else []
        if not all(isinstance(p, exp.Identifier) for p in parts):
            raise ExprError("a column name is needed here", at)
        return self.scope.resolve([(p.name, p.meta.get("start")) for p in parts])

    def literal(self, node: exp.Expression, at: int | None) -> Expr:
        text = str(node.this)
        if node.is_string:
            return Literal(text, pa.string(), at)
        if "e" in text.lower():
            return Literal(float(text), pa.float64(), at)
        if "." in text:
            value = Decimal(text)
            return Literal(value, pa.scalar(value).type, at)
        number = int(text)
        if number >= 2**63:
            return Literal(Decimal(number), pa.decimal128(max(len(text), 20), 0), at)
        return Literal(number, pa.int32() if number < 2**31 else pa.int64(), at)

    def interval(self, node: exp.Expression, at: int | None) -> Expr:
        unit = node.args.get("unit")
        value = node.this
        micros = None
        if isinstance(value, exp.Literal) and not isinstance(unit, exp.IntervalSpan):
            micros = interval_micros(f"{value.this} {unit.name if unit else ''}")
        if micros is None or micros.denominator != 1:
            raise ExprError(
                "this INTERVAL is not supported; write a constant such as INTERVAL 10 MINUTES (weeks to microseconds)",
                at,
            )
        return Literal(int(micros), pa.duration("us"), at)

    def between(self, node: exp.Expression, at: int | None) -> Expr:
        x, low, high = self.read(node.this), self.read(node.args["low"]), self.read(node.args["high"])
        return chain("AND", [Call(">=", (x, low), at), Call("<=", (x, high), at)], at)

    def within(self, node: exp.Expression, at: int | None) -> Expr:
        if node.args.get("query") is not None or not node.expressions:
            raise ExprError("a subquery is not supported in a stream join's condition; IN takes a list of values", at)
        x, values = self.read(node.this), [self.read(value) for value in node.expressions]
        if len(values) == 1 or any(value.columns for value in values):
            return chain("OR", [Call("=", (x, value), at) for value in values], at)
        return Call("IN", (x, *values), at)

    def is_(self, node: exp.Expression, at: int | None) -> Expr:
        x = self.read(node.this)
        if isinstance(node.expression, exp.Null):
            return Call("IS NULL", (x,), at)
        return Call("<=>", (x, self.read(node.expression)), at)

    def case(self, node: exp.Expression, at: int | None) -> Expr:
        subject = self.read(node.this) if node.this is not None else None
        args: list[Expr] = []
        for branch in node.args["ifs"]:
            test = self.read(branch.this)
            args += [test if subject is None else Call("=", (subject, test), test.at), self.read(branch.args["true"])]
        default = node.args.get("default")
        return Call("CASE", (*args, self.read(default) if default is not None else Literal(None, pa.null(), at)), at)

    def if_(self, node: exp.Expression, at: int | None) -> Expr:
        other = node.args.get("false")
        default = self.read(other) if other is not None else Literal(None, pa.null(), at)
        return Call("CASE", (self.read(node.this), self.read(node.args["true"]), default), at)

    def nullif(self, node: exp.Expression, at: int | None) -> Expr:
        a, b = self.read(node.this), self.read(node.expression)
        return Call("CASE", (Call("=", (a, b), at), Literal(None, pa.null(), at), a), at)

    def cast(self, node: exp.Expression, at: int | None) -> Expr:
        if node.args.get("safe"):
            raise ExprError("TRY_CAST is not supported; use CAST", at)
        target = node.args["to"]
        name = target.this.value if hasattr(target.this, "value") else str(target.this)
        arg = self.read(node.this)
        if name == "DECIMAL":
            sizes = [int(p.name) for p in target.expressions] or [10]
            return Cast(arg, pa.decimal128(sizes[0], sizes[1] if len(sizes) > 1 else 0), at=at)
        if name not in _TYPES:
            raise ExprError(f"CAST to {name} is not supported", at)
        return self._constant(Cast(arg, _TYPES[name], at=at))

    @staticmethod
    def _constant(cast: Cast) -> Expr:
        """A cast of a literal becomes a literal, because sqlglot gives 10L and 1.5D as casts."""
        if isinstance(cast.arg, Literal) and (pa.types.is_integer(cast.target) or pa.types.is_floating(cast.target)):
            return Literal(cast.compute({}, 0).as_py(), cast.target, cast.at)
        return cast

    def date_add(self, node: exp.Expression, at: int | None) -> Expr:
        unit = node.args.get("unit")
        if unit is not None and unit.name.upper() not in ("DAY", "DAYS"):
            raise ExprError("write + INTERVAL for units other than days", at)
        return Call("+", (Cast(self.read(node.this), pa.date32(), at=at), self.read(node.expression)), at)

    def function(self, name: str, args: list[exp.Expression | None], at: int | None) -> Expr:
        return Call(name, tuple(self.read(a) for a in args if a is not None), at)


def _operands(node: exp.Expression) -> list[exp.Expression]:
    """What a chain of AND (or of OR) connects, in the order written: `a AND b AND (c AND d)` has four operands.

    sqlglot's tree of a chain is as deep as the chain is long, so this is not recursive.
    """
    found, waiting = [], [node]
    while waiting:
        inner = waiting.pop()
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if type(inner) is type(node):
            waiting += [inner.expression, inner.this]
        else:
            found.append(inner)
    return found


_Special = Callable[[_Reader, exp.Expression, int | None], Expr]
_SPECIAL: dict[type[exp.Expression], _Special] = {
    exp.Paren: lambda r, n, at: r.read(n.this),
    exp.Column: _Reader.column,
    exp.Dot: _Reader.column,
    exp.Literal: _Reader.literal,
    exp.Boolean: lambda r, n, at: Literal(bool(n.this), pa.bool_(), at),
    exp.Null: lambda r, n, at: Literal(None, pa.null(), at),
    exp.Interval: _Reader.interval,
    exp.Between: _Reader.between,
    exp.In: _Reader.within,
    exp.Is: _Reader.is_,
    exp.NullSafeNEQ: lambda r, n, at: Call("NOT", (Call("<=>", (r.read(n.this), r.read(n.expression)), at),), at),
    exp.Case: _Reader.case,
    exp.If: _Reader.if_,
    exp.TsOrDsAdd: _Reader.date_add,
    exp.Nullif: _Reader.nullif,
    exp.Cast: _Reader.cast,
    exp.TryCast: _Reader.cast,
    exp.Coalesce: lambda r, n, at: r.function("coalesce", [n.this, *n.expressions], at),
    exp.Concat: lambda r, n, at: r.function("concat", list(n.expressions), at),
    exp.Substring: lambda r, n, at: r.function("substring", [n.this, n.args.get("start"), n.args.get("length")], at),
    exp.Round: lambda r, n, at: r.function("round", [n.this, n.args.get("decimals")], at),
}
