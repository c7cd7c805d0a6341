"""The condition of a join without Spark: its skeleton -> expressions of the engine, as Spark means it, or refused.

    read("o.cell = t.cell AND t.ts <= o.ts + INTERVAL 5 MINUTES", scope)      ->  [Expr, Expr], one for each conjunct

The engine takes columns, literals (literals.py) and the skeleton: AND, OR, NOT, comparisons, BETWEEN, IN, IS NULL, sums
and abs. Everything else is refused by name (refusals.py); compute it as a column before the join.

Guarantee: where Spark's join under ANSI mode, in the session time zone `time_zone`, gives an answer, the expression
gives the same one. Where Spark fails for a row, because a sum overflows, it is anything but does not fail.
Not here: the types in which values are compared and added (meeting.py), what the conjuncts are for the join
(condition.py), and how Spark's conditions get here (runtime/spark).
"""

from __future__ import annotations

import pyarrow.types as pt

from evenjoin.errors import SpecError
from evenjoin.spec.coercion import plain_type
from evenjoin.spec.expr import Call, Cast, Expr, ExprError, chain
from evenjoin.spec.literals import literal
from evenjoin.spec.meeting import Meeting
from evenjoin.spec.refusals import refusal
from evenjoin.spec.scope import TOO_DEEP, Scope, pointing
from evenjoin.spec.skeleton import (
    COMPARISONS,
    Node,
    SkeletonError,
    Slice,
    Tree,
    calls,
    conjuncts,
    names,
    place,
    skeleton,
    tokens,
)
from evenjoin.spec.zone import Zone

MAX_DEPTH = 100
"""How deeply operators may be nested."""
_OPERATORS = {"*", "/", "%", "DIV", "||", "&", "|", "^", "~", "[", "::", "->", "LIKE", "RLIKE", "ILIKE", "REGEXP", "IS"}


def read(text: str, scope: Scope, time_zone: str | None = None) -> list[Expr]:
    """The conjuncts of a condition, in the order written. A ConditionError says what is wrong and where."""
    zone = None if time_zone is None else Zone.read(time_zone)
    _check_text(text)
    with pointing(text):
        reader = _Reader(scope, Meeting(scope.types, zone))
        return [reader.predicate(part) for part in conjuncts(_skeleton(text))]


def read_value(text: str, scope: Scope) -> Expr:
    """A column, a field of one, or a literal, as the output of a join."""
    _check_text(text)
    with pointing(text):
        return _Reader(scope, Meeting(scope.types, None)).slice(Slice(text, 0), "output")


def _check_text(text: object) -> None:
    if not isinstance(text, str) or not tokens(text):
        raise SpecError("the SQL text is empty; write an expression such as a.id = b.id")


def _skeleton(text: str) -> Tree:
    try:
        return skeleton(text)
    except SkeletonError as error:
        message = TOO_DEEP if "deeply" in error.message else f"this is not understood: {error.message}"
        raise ExprError(message, error.at) from None


class _Reader:
    """One walk over a skeleton."""

    def __init__(self, scope: Scope, meeting: Meeting) -> None:
        self.scope, self.meeting, self.depth = scope, meeting, 0

    def predicate(self, tree: Tree) -> Expr:
        """A tree that is TRUE, FALSE or NULL."""
        found = self.value(tree)
        type_ = plain_type(found.type(self.scope.types))
        if not pt.is_boolean(type_) and not pt.is_null(type_):
            raise ExprError(f"a condition is needed here, not a value of type {type_}", place(tree))
        return found

    def value(self, tree: Tree) -> Expr:
        """Any tree."""
        if self.depth == MAX_DEPTH:
            raise ExprError(TOO_DEEP, place(tree))
        self.depth += 1
        found = self.slice(tree) if isinstance(tree, Slice) else self._node(tree, place(tree))
        self.depth -= 1
        return found

    def _node(self, tree: Node, at: int) -> Expr:
        op, args = tree.op, tree.args
        if op in ("AND", "OR"):
            return chain(op, [self.predicate(arg) for arg in args], at)
        if op == "NOT":
            return Call("NOT", (self.predicate(args[0]),), at)
        values = [self.value(arg) for arg in args]
        if op in ("IS NULL", "IS NOT NULL"):
            test = Call("IS NULL", (values[0],), at)
            return test if op == "IS NULL" else Call("NOT", (test,), at)
        if op == "BETWEEN":
            x, low, high = values
            return chain("AND", [self._compare(">=", x, low, tree), self._compare("<=", x, high, tree)], at)
        if op == "IN":
            return self._membership(values, tree)
        if op in COMPARISONS.values():
            return self._compare(op, values[0], values[1], tree)
        return self.meeting.absolute(values[0], tree) if op == "abs" else self.meeting.sum(tree, values[0], values[1])

    def _compare(self, op: str, a: Expr, b: Expr, tree: Tree) -> Expr:
        _, values = self.meeting.together([a, b], tree)
        return Call(op, tuple(values), place(tree))

    def _membership(self, values: list[Expr], tree: Tree) -> Expr:
        """IN, as one look-up where it has constants only."""
        target, (x, *rest) = self.meeting.together(values, tree)
        if len(rest) == 1 or any(value.columns for value in rest) or not x.columns:
            return chain("OR", [Call("=", (x, value), place(tree)) for value in rest], place(tree))
        same = plain_type(x.type(self.scope.types)) == target
        return Call("IN", (x if same else Cast(x, target, x.at), *rest), place(tree))

    def slice(self, tree: Slice, reason: str = "expression") -> Expr:
        """A column, a field of one, or a literal."""
        found: Expr | None = literal(tree.text, self.meeting.zone, tree.at)
        if found is not None:
            return found
        parts = names(tree.text)
        if parts is None:
            raise _refused(tree, reason)
        starts = [tree.at + start for _, start, _ in tokens(tree.text)[::2]]
        return self.scope.resolve(list(zip(parts, starts, strict=True)))


def _refused(tree: Slice, reason: str) -> ExprError:
    """Why a slice that is neither a column nor a literal is refused, by the name of what would have to be evaluated."""
    words = [word.upper() for word, _, _ in tokens(tree.text)]
    if "SELECT" in words:
        return refusal("subquery", tree.at)
    called = [f"{name.upper()}()" for name in calls(tree.text) if name.upper() not in _OPERATORS | {"IN", "AND", "OR"}]
    operator = [word for word in words if word in _OPERATORS]
    case = ["CASE"] if words[0] == "CASE" else []
    minus = [f"{words[0]} of a column"] if words[0] in ("-", "+") and len(words) > 1 else []
    found = [*case, *called, *operator, *minus]
    if found:
        return refusal(reason, tree.at, what=found[0])
    if words.count("(") > words.count(")"):
        return ExprError("this is not understood: a ) is missing", tree.at)
    if tree.text.count("'") % 2 or tree.text.count('"') % 2 or tree.text.count("`") % 2:
        return ExprError("this is not understood: the text ends inside quotes", tree.at)
    return ExprError(f"this is not understood: {tree.text!r} is neither a column nor a literal", tree.at)
