"""The shape of a slice: which function is called, and with which arguments.

    shape("left(l.s, l.i + 1)")               Shape("left", ("l.s", "l.i + 1"))
    shape("l.s || l.t")                       Shape("concat", ("l.s", "l.t"))
    shape("CASE WHEN l.b THEN 1 ELSE 0 END")  Shape("case", ("l.b", "1", "0"), roles ("WHEN", "THEN", "ELSE"))
    shape("CAST(l.i AS STRING)")              Shape("cast", ("l.i",))
    shape("l.m['a']"), shape("f(l.s).q")      Shape("[]", ("l.m", "'a'")), Shape(".", ("f(l.s)",))
    shape("l.s LIKE 'a%'")                    Shape("like", ("l.s",))
    shape("l.x"), shape("5"), shape("DATE'2024-03-10'")     Shape("")

Read from tokens alone, like the skeleton. Each argument is SQL text of its own.
Guarantee: a shape that is returned is the only one that Spark's grammar knows for the text. None stands for everything
else: arithmetic, lambdas, special syntax.
Not here: what the functions do (safety.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from evenjoin.spec.skeleton import Token, names, tokens

_LITERALS = {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "X"}
_OPEN, _CLOSE = {"(", "[", "CASE"}, {")", "]", "END"}
_ROLES = {"WHEN", "THEN", "ELSE"}
_LOOSE = {"", "concat", "like"}


@dataclass(frozen=True, slots=True)
class Shape:
    """A function in lower case with its arguments; of CASE, `roles` has the word before each argument."""

    name: str
    args: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()


def shape(text: str) -> Shape | None:
    """The shape of an expression that is a slice of the skeleton."""
    found = tokens(text)
    words = _words(found)
    if not words:
        return None
    if _is_plain(text, words):
        return Shape("")
    reader = _Shaper(text, found, words)
    return reader.concat() or reader.like() or reader.case() or reader.call() or reader.look_up() or reader.field()


def _words(found: list[Token]) -> list[str]:
    """The tokens in upper case; a name after a dot is never a keyword."""
    after_dot = [False, *(word == "." for word, _, _ in found)]
    return [f".{word}" if dotted else word.upper() for (word, _, _), dotted in zip(found, after_dot, strict=False)]


def _is_plain(text: str, words: list[str]) -> bool:
    """Whether it is a column, a field or a literal."""
    if len(words) == 1 or names(text) is not None:
        return True
    if len(words) == 2:
        quoted = words[1][0] in "'\"" and words[0] in _LITERALS
        return quoted or (words[0] in "+-" and words[1][0].isdigit())
    return words[0] == "INTERVAL" and "(" not in words


class _Shaper:
    """The tokens of a slice. Each method reads one shape, or returns None."""

    def __init__(self, text: str, found: list[Token], words: list[str]) -> None:
        self.text, self.found, self.words = text, found, words
        self.depth = []
        depth = 0
        for word in words:
            depth -= word in _CLOSE
            self.depth.append(depth)
            depth += word in _OPEN

    def between(self, first: int, last: int) -> str:
        """The text from a token to the one before another."""
        return self.text[self.found[first][1] : self.found[last - 1][2]] if first < last else ""

    def split(self, first: int, last: int, word: str) -> tuple[str, ...]:
        """The texts between the tokens that are this word, outside of any bracket in there."""
        least = min(self.depth[first:last])
        cuts = [k for k in range(first, last) if self.words[k] == word and self.depth[k] == least]
        return tuple(self.between(a, b) for a, b in zip([first, *(k + 1 for k in cuts)], [*cuts, last], strict=True))

    def concat(self) -> Shape | None:
        """Nothing but terms with || in between."""
        outer = {word for word, depth in zip(self.words, self.depth, strict=True) if depth == 0}
        looser = {"+", "-", "*", "/", "%", "&", "|", "^", "LIKE", "ILIKE", "DIV", "NOT", "IN", "IS", "BETWEEN", "::"}
        if "||" not in outer or outer & looser or any(word.startswith("RLIKE") for word in outer):
            return None
        return Shape("concat", self.split(0, len(self.words), "||"))

    def like(self) -> Shape | None:
        """LIKE with a pattern that is a literal without escapes, which is never invalid."""
        if len(self.words) < 3 or self.words[-2] not in ("LIKE", "ILIKE") or self.depth[-2]:
            return None
        end = len(self.words) - (3 if self.words[-3] == "NOT" else 2)
        pattern = re.fullmatch(r"""'[^'\\]*'|"[^"\\]*\"""", self.found[-1][0])
        return Shape("like", (self.between(0, end),)) if pattern and end else None

    def case(self) -> Shape | None:
        if self.words[0] != "CASE" or self.words[-1] != "END" or 0 in self.depth[1:-1]:
            return None
        inner = [k for k, word in enumerate(self.words) if word in _ROLES and self.depth[k] == 1]
        marks = [0, *inner, len(self.words) - 1]
        parts = [(self.words[a], self.between(a + 1, b)) for a, b in pairwise(marks)]
        parts = [(role, part) for role, part in parts if part]
        return Shape("case", tuple(part for _, part in parts), tuple(role for role, _ in parts))

    def call(self) -> Shape | None:
        """A function, by its name alone, whose parentheses hold all the rest."""
        if len(self.words) < 3 or self.words[1] != "(" or self.words[-1] != ")" or 0 in self.depth[2:-1]:
            return None
        name = self.found[0][0].strip("`").lower()
        if not re.fullmatch(r"[a-z_]\w*", name):
            return None
        args = () if len(self.words) == 3 else self.split(2, len(self.words) - 1, ",")
        if name not in ("cast", "try_cast"):
            return Shape(name, args)
        cuts = [k for k, word in enumerate(self.words) if word == "AS" and self.depth[k] == 1]
        return Shape(name, (self.between(2, cuts[-1]),)) if cuts else None

    def look_up(self) -> Shape | None:
        if self.words[-1] != "]":
            return None
        start = max(k for k, word in enumerate(self.words) if word == "[" and self.depth[k] == 0)
        base = self.between(0, start)
        whole = base and self._is_base(start)
        return Shape("[]", (base, self.between(start + 1, len(self.words) - 1))) if whole else None

    def field(self) -> Shape | None:
        """A field of what a function or a look-up gives."""
        end = len(self.words) - 2
        if end < 1 or self.words[end] != "." or not re.fullmatch(r"\.(\w+|`.*`)", self.words[-1]):
            return None
        return Shape(".", (self.between(0, end),)) if self._is_base(end) else None

    def _is_base(self, end: int) -> bool:
        """Whether the tokens before `end` are one operand, to which a bracket or a dot binds as a whole."""
        base = self.between(0, end)
        return names(base) is not None or (
            self.words[end - 1] in (")", "]") and (found := shape(base)) is not None and found.name not in _LOOSE
        )
