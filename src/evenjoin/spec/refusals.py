"""Why the engine refuses a condition that is SQL: each reason by its name, with what to do about it.

Without Spark there is nobody who evaluates SQL. The engine takes columns, literals and the skeleton (reader.py), and
what it would have to evaluate otherwise, or could only approximate, it refuses for one of these reasons.

Invariant: a message begins as its reason does, so a refusal can be told from every other error.
Not here: texts that are no SQL, and names that do not exist. Those are mistakes (skeleton.py, scope.py).
"""

from __future__ import annotations

from evenjoin.spec.expr import SHOWN, ExprError
from evenjoin.spec.skeleton import Tree, sql

REASONS = {
    "expression": "{what} is not evaluated by the embedded engine: compute it as a column before the join, or run the "
    "join on Spark",
    "output": "{what} is not evaluated by the embedded engine: compute it from the columns of the results",
    "subquery": "a subquery is not supported in a stream join",
    "literal": "{what} is not read as a constant by the embedded engine: {how}",
    "months": "{what} has no fixed length: compute it as a column before the join",
    "types": "{what}: {one} and {two} do not compare without a CAST, which the embedded engine does not make: "
    "convert one of them in a column before the join",
    "nested": "{what}: values of type {one} are not compared by the embedded engine: compare their parts",
    "digits": "{what}: {one} and {two} together have more than 38 digits, and Spark rounds them: convert one of them "
    "in a column before the join",
    "rounding": "{what}: Spark turns the decimals into doubles, which the embedded engine does for constants only: "
    "convert the column to double before the join",
    "sum": "{what}: {one} {op} {two} is not computed by the embedded engine: compute it as a column before the join",
    "zone needed": "{what} depends on the time zone: add time_zone='UTC', or the one that is meant",
    "clock changes": "{what} depends on when the clocks of {zone} change: compute it as a column before the join, or "
    "give a time_zone whose offset never changes, such as 'UTC' or '+05:30'",
}
"""By name what a message says. What stands in braces is filled in."""


def refusal(reason: str, at: int | None, what: str | Tree = "", **words: object) -> ExprError:
    """The error of a reason, at a place of the text. `what` is shown in short, without parentheses around all of it."""
    text = what if isinstance(what, str) else sql(what)
    if text is not what and text.startswith("("):
        text = text[1:-1]
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]} ..."
    return ExprError(REASONS[reason].format(what=shown, **words), at)
