"""SQL text to a sqlglot tree, and places in the text.

    read("a.id = b.id AND", ...)  ->  ConditionError: something is missing next to 'AND', with a caret under it

Invariant: what comes back is one expression; what does not parse is an ExprError with the offset of the place. The time
taken grows with the length of the text, not with its square.
Not here: what the tree means (parse.py).
"""

from __future__ import annotations

import re
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from evenjoin.errors import SpecError
from evenjoin.spec.expr import ExprError


def read(text: str) -> exp.Expression:
    """The tree of one expression in Spark's SQL."""
    if not isinstance(text, str) or not text.strip():
        raise SpecError("the SQL text is empty; write an expression such as a.id = b.id")
    try:
        trees = _trees(text)
    except ParseError as error:
        raise ExprError(*_syntax(text, error)) from None
    except TokenError:
        quotes = max(text.rfind("'"), text.rfind('"'), text.rfind("`"), 0)
        raise ExprError("this is not SQL: the text ends inside quotes or a comment", quotes) from None
    if len(trees) != 1 or trees[0] is None or type(trees[0]).__name__ == "Block":
        raise ExprError("one expression is needed, not several statements", max(text.find(";"), 0))
    return trees[0]


@lru_cache(maxsize=256)
def _trees(text: str) -> list[exp.Expression | None]:
    """Parsing takes longer than all else that is done with a condition. Trees are read here, never changed."""
    return sqlglot.parse(text, dialect="spark")  # type: ignore[return-value]


def places(tree: exp.Expression) -> dict[int, int]:
    """By the id of each node, the offset in the text at which the node begins: the least offset that sqlglot remembers
    of the node and what is below it. Where it remembers none, that of the node above."""
    downwards = list(tree.bfs())
    starts: dict[int, int] = {}
    for node in reversed(downwards):
        known = [at for at in (node.meta.get("start"), starts.get(id(node))) if at is not None]
        if known:
            starts[id(node)] = min(known)
            above = id(node.parent)
            starts[above] = min(starts.get(above, starts[id(node)]), starts[id(node)])
    for node in downwards:
        if id(node) not in starts and id(node.parent) in starts:
            starts[id(node)] = starts[id(node.parent)]
    return starts


def refusal(node: exp.Expression, text: str, at: int | None) -> str:
    """Why a node that nobody reads is not supported; a function goes by the name it has in the text, at this offset."""
    if isinstance(node, exp.Alias):
        return "this is not a condition: an operator such as AND is missing, or a name was given with AS"
    if isinstance(node, exp.Window | exp.AggFunc):
        return "aggregates and window functions are not supported in a stream join; aggregate before or after it"
    if isinstance(node, exp.Query | exp.Subquery | exp.Exists):
        return "a subquery is not supported in a stream join"
    word = re.match(r"\w+", text[at or 0 :]) if isinstance(node, exp.Func) else None
    name = word[0] if word else node.key
    return f"{name.upper()} is not supported in a stream join; compute it as a column before the join"


def _syntax(text: str, error: ParseError) -> tuple[str, int | None]:
    if not error.errors:
        return "this is not SQL", 0
    first = error.errors[0]
    line, column = int(first.get("line") or 1), int(first.get("col") or 1)
    highlight = str(first.get("highlight") or " ")
    before = sum(len(part) + 1 for part in text.split("\n")[: line - 1])
    description = str(first.get("description") or "syntax error")
    if description.startswith("Required keyword"):
        description = f"something is missing next to {highlight!r}"
    return f"this is not SQL: {description}", max(0, min(before + column - len(highlight), len(text)))
