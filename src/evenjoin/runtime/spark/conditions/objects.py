"""Column objects as SQL text: `col("o.k") == col("t.k")` -> "(o.k = t.k)".

The public API of a Column gives its text only, with operators before their operands:

    Column<'and(=(o.k, t.k), <=(-(o.n, 5), t.n))'>        ((o.k = t.k) AND ((o.n - 5) <= t.n))

So the text is turned into SQL, and Spark proves that both mean the same. What is not proved is refused with the advice
to write SQL: dates in `lit(...)`, for example, print without quotes. `F.expr("...")` always works.
A column of a DataFrame (`orders.k == tracks.k`) prints without its alias, so it cannot be told which side it is of.
Not here: what the text means for the join (split.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column

from evenjoin.errors import ConditionError
from evenjoin.spec.skeleton import Token, tokens

_INFIX = {"=", "<=>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "and", "or", "like", "rlike"}
_TESTS = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}
_PREFIX = {*_INFIX, *_TESTS, "!", "not", "in"}
_BEFORE_OPERAND = {"(", ",", "[", "WHEN", "THEN", "ELSE", "CASE"}
_FLOAT = re.compile(r"(?<![\w.'])(\d+\.\d+(?:[eE][+-]?\d+)?)(?![\w.'])")


def is_object(value: Any) -> bool:
    """Whether it is a Column, or a list of them."""
    if isinstance(value, Column):
        return True
    return not isinstance(value, str) and isinstance(value, Sequence) and any(isinstance(v, Column) for v in value)


def condition_sql(on: Any, same: Callable[[str, Any], bool]) -> str:
    """The SQL of a condition that is a Column or a list of them, all of which must hold. `same` proves a text."""
    whole = on if isinstance(on, Column) else reduce(lambda one, two: one & two, on)
    return column_sql(whole, same)


def column_sql(column: Column, same: Callable[[str, Any], bool]) -> str:
    """The SQL of a Column. ConditionError if none is proved."""
    text = _text(column)
    for proposal in dict.fromkeys(_proposals(text)):
        if same(proposal, column):
            return proposal
    raise ConditionError(
        f'this Column cannot be read: {text}. Write it as SQL over the aliases, such as "o.k = t.k", or as '
        'F.expr("..."); name columns with their alias, as in col("o.k")'
    )


def _text(column: Column) -> str:
    found = re.fullmatch(r"Column<'(.*)'>", str(column), re.S)
    return found[1] if found else str(column)


def _proposals(text: str) -> Iterator[str]:
    try:
        written = _Writer(text).all()
    except IndexError:
        yield text
        return
    yield written
    yield _FLOAT.sub(r"\1D", written)  # a double prints without its D
    yield text


class _Writer:
    """Writes operators between their operands, token by token."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.i = text, tokens(text), 0

    def all(self) -> str:
        out = []
        while self.i < len(self.tokens):
            out.append(self.piece(""))
        return " ".join(out)

    def piece(self, before: str) -> str:
        """One operator with its operands, one bracket, or one token."""
        word = self.tokens[self.i][0]
        follows = self.i + 1 < len(self.tokens) and self.tokens[self.i + 1][0] == "("
        if word.lower() in _PREFIX and follows and (not before or before.upper() in _BEFORE_OPERAND):
            self.i += 2
            return self.written(word.lower(), self.operands())
        self.i += 1
        if word not in ("(", "["):
            return self.glued(word)
        inside = self.until(")" if word == "(" else "]")
        return f"{word}{inside}{')' if word == '(' else ']'}"

    def glued(self, word: str) -> str:
        """The token with a call's bracket right behind it, as `f (x)` and `a . b` would be read otherwise."""
        out, last = word, self.tokens[self.i - 1]
        while self.i < len(self.tokens) and self.touches(last) and self.tokens[self.i][0] not in (",", ")", "]"):
            last = self.tokens[self.i]
            out += self.piece(last[0] if last[0] in ("(", "[") else ".")
            last = self.tokens[self.i - 1]
        return out

    def touches(self, last: Token) -> bool:
        return self.tokens[self.i][1] == last[2]

    def until(self, closing: str) -> str:
        out, before = [], "("
        while self.tokens[self.i][0] != closing:
            before_next = self.tokens[self.i][0]
            out.append(self.piece(before))
            before = before_next
        self.i += 1
        return " ".join(out)

    def operands(self) -> list[str]:
        found: list[list[str]] = [[]]
        before = "("
        while self.tokens[self.i][0] != ")":
            word = self.tokens[self.i][0]
            if word == ",":
                found.append([])
                self.i += 1
            else:
                found[-1].append(self.piece(before))
            before = word
        self.i += 1
        return [" ".join(words) for words in found]

    @staticmethod
    def written(word: str, args: list[str]) -> str:
        if word in _TESTS:
            return f"({args[0]} {_TESTS[word]})"
        if word == "in":
            return f"({args[0]} IN ({', '.join(args[1:])}))"
        if word in ("!", "not"):
            return f"(NOT {args[0]})"
        if len(args) == 1:
            return f"({word}({args[0]}))"
        return f"({f' {word.upper()} '.join(args)})"
