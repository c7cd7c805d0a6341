"""The skeleton of a condition: what a join has to understand of SQL; all else is a slice of the user's text.

    l.k = r.k AND r.t <= l.t + 5 AND upper(l.s) LIKE 'A%'

    AND ── =   ── «l.k»  «r.k»
        ── <=  ── «r.t»  + ── «l.t»  «5»
        ── «upper(l.s) LIKE 'A%'»

Nodes are OR, AND, NOT, comparisons, BETWEEN, IN, IS NULL, IS NOT NULL, sums (+ and - of two operands) and abs. They
come from tokens alone: there is no grammar of SQL here. A slice is never changed. `sql` writes it in parentheses unless
it is a single word, so that it cannot grow together with its neighbours.

Guarantee: none about meaning. That `sql(skeleton(text))` means what the text means is proved by Spark for each
condition (runtime/spark/conditions), and where there is no Spark by what may be in a slice (columns and literals).
Not here: names, types, and what a node is used for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

_TOKEN = re.compile(
    r"""\s+|--(?:\\\n|[^\r\n])*|/\*.*?\*/|(?P<token>
    r?'(?:[^'\\]|\\.|'')*' | r?"(?:[^"\\]|\\.|"")*" | `(?:[^`]|``)*`
    | \d+(?:\.\d*)?(?:[eE][+-]?\d+)?\w* | \.\d+(?:[eE][+-]?\d+)?\w* | \w+
    | <=> | <> | != | == | <= | >= | -> | => | :: | \|\| | . )""",
    re.S | re.X,
)
COMPARISONS = {"=": "=", "==": "=", "<=>": "<=>", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
"""By the operator as written the one that a node has."""
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "<>": "=", "IS NULL": "IS NOT NULL", "IS NOT NULL": "IS NULL"}
_STOP = {"AND", "OR", ",", ")", "THEN", "WHEN", "ELSE", "END", *COMPARISONS}
_WORDS = {"BETWEEN", "IN", "IS", "NOT", "LIKE", "RLIKE", "ILIKE", "REGEXP", "ESCAPE"}
_LOOSE = {"||", "&", "|", "^"}
_CLOSING = {"(": ")", "[": "]", "CASE": "END"}
_OPERAND_ENDS = re.compile(r"""[\w'"`)\]]$""")
_FACTORS = {"INTERVAL", "DIV", "*", "/", "%"}
_SINGLE = re.compile(r"\w+(\.\w+)*\Z|'[^'\\]*'\Z")


class SkeletonError(Exception):
    """The text is not a condition; `at` is the offset of the place where reading stopped."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.message, self.at = message, at


@dataclass(frozen=True, slots=True)
class Slice:
    """A piece of the text as it was written; `at` is its offset there."""

    text: str
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of the skeleton with its operands."""

    op: str
    args: tuple[Tree, ...]


Tree = Slice | Node
Token = tuple[str, int, int]
"""(text, start, end)."""


def skeleton(text: str) -> Tree:
    """The skeleton of one expression. SkeletonError where the tokens do not make one."""
    try:
        return _Reader(text).read()
    except RecursionError:
        raise SkeletonError("this is nested too deeply", 0) from None


def sql(tree: Tree) -> str:
    """The tree as SQL, every operator in parentheses."""
    if isinstance(tree, Slice):
        return tree.text if _SINGLE.match(tree.text) else f"({tree.text})"
    parts = [sql(arg) for arg in tree.args]
    if tree.op in ("AND", "OR"):
        return f"({f' {tree.op} '.join(parts)})"
    if tree.op == "NOT":
        return f"(NOT {parts[0]})"
    if tree.op in ("IS NULL", "IS NOT NULL"):
        return f"({parts[0]} {tree.op})"
    if tree.op == "BETWEEN":
        return f"({parts[0]} BETWEEN {parts[1]} AND {parts[2]})"
    if tree.op == "IN":
        return f"({parts[0]} IN ({', '.join(parts[1:])}))"
    if tree.op == "abs":
        return f"abs({parts[0]})"
    return f"({parts[0]} {tree.op} {parts[1]})"


def conjuncts(tree: Tree) -> list[Tree]:
    """What must all hold. NOT over OR is AND over NOT, BETWEEN is two comparisons, and `x = y OR (x IS NULL AND y IS
    NULL)` is `x <=> y`."""
    if isinstance(tree, Slice):
        return [tree]
    if tree.op == "AND":
        return [c for arg in tree.args for c in conjuncts(arg)]
    if tree.op == "BETWEEN":
        x, low, high = tree.args
        return [Node(">=", (x, low)), Node("<=", (x, high))]
    if tree.op == "NOT" and isinstance(inner := tree.args[0], Node):
        if inner.op == "OR":
            return [c for arg in inner.args for c in conjuncts(Node("NOT", (arg,)))]
        if inner.op == "NOT":
            return conjuncts(inner.args[0])
        if inner.op in _NEGATED:
            return [Node(_NEGATED[inner.op], inner.args)]
    return [_null_safe(tree)]


def _null_safe(tree: Node) -> Tree:
    if tree.op != "OR" or len(tree.args) != 2:
        return tree
    for one, other in (tree.args, tree.args[::-1]):
        if isinstance(one, Node) and one.op == "=" and isinstance(other, Node) and other.op == "AND":
            nulls = {arg.args[0] for arg in other.args if isinstance(arg, Node) and arg.op == "IS NULL"}
            if len(nulls) == len(other.args) == 2 and nulls == set(one.args):
                return Node("<=>", one.args)
    return tree


def place(tree: Tree) -> int:
    """The offset in the text at which a tree begins."""
    while isinstance(tree, Node):
        tree = tree.args[0]
    return tree.at


def tokens(text: str) -> list[Token]:
    """The tokens of a text without white space and comments."""
    return [(m["token"], m.start(), m.end()) for m in _TOKEN.finditer(text) if m["token"]]


def names(text: str) -> list[str] | None:
    """The parts of a dotted name; None if the text is anything else."""
    words = [word for word, _, _ in tokens(text)]
    if not words or any(word != "." for word in words[1::2]) or len(words) % 2 == 0:
        return None
    parts = [_name(word) for word in words[::2]]
    return None if None in parts else [part for part in parts if part is not None]


def identifiers(text: str) -> Iterator[str]:
    """Every word of the text that may be a name, without its backticks. Literals and numbers are none."""
    for word, _, _ in tokens(text):
        name = _name(word)
        if name is not None:
            yield name


def calls(text: str) -> Iterator[str]:
    """The words that are followed by a parenthesis, in lower case: functions, and words such as IN."""
    found = tokens(text)
    for (word, _, _), (after, _, _) in pairwise(found):
        if after == "(" and (word[0].isalpha() or word[0] in "_`"):
            yield word.strip("`").lower()


def _name(word: str) -> str | None:
    if word.startswith("`"):
        return word[1:-1].replace("``", "`")
    return word if (word[0].isalpha() or word[0] == "_") and word[-1] not in "'\"" else None


class _Reader:
    """One walk over the tokens, by recursive descent. A bracket whose inside is no skeleton is part of a slice."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.i = text, tokens(text), 0

    def read(self) -> Tree:
        tree = self.disjunction()
        if self.word() in COMPARISONS:
            raise self.wrong("comparisons in a row: put the one before this in parentheses")
        if self.i < len(self.tokens):
            raise self.wrong("something is missing before this")
        return tree

    def wrong(self, message: str) -> SkeletonError:
        at = self.tokens[self.i][1] if self.i < len(self.tokens) else len(self.text)
        return SkeletonError(message, at)

    def word(self, ahead: int = 0) -> str:
        """The token in upper case; a name after a dot is never a keyword."""
        at = self.i + ahead
        if not 0 <= at < len(self.tokens):
            return ""
        after_dot = at > 0 and self.tokens[at - 1][0] == "."
        return f".{self.tokens[at][0]}" if after_dot else self.tokens[at][0].upper()

    def take(self, *words: str) -> bool:
        found = all(self.word(k) == word for k, word in enumerate(words))
        self.i += len(words) if found else 0
        return found

    def disjunction(self) -> Tree:
        return self.level("OR", lambda: self.level("AND", self.negation))

    def level(self, word: str, inner: Callable[[], Tree]) -> Tree:
        found = [inner()]
        while self.take(word):
            found.append(inner())
        return found[0] if len(found) == 1 else Node(word, tuple(found))

    def negation(self) -> Tree:
        if self.take("NOT") or self.take("!"):
            return Node("NOT", (self.negation(),))
        return self.predicate()

    def predicate(self) -> Tree:
        start, left = self.i, self.total()
        negated = self.word() == "NOT" and self.word(1) in _WORDS and self.take("NOT")
        if self.word() in COMPARISONS and not negated:
            op = COMPARISONS[self.word()]
            self.i += 1
            return Node(op, (left, self.total()))
        found = self.between(left) or self.membership(left) or self.test(left)
        if found is not None:
            return Node("NOT", (found,)) if negated else found
        if self.word() in _WORDS:  # LIKE and its friends
            while self.i < len(self.tokens) and self.word() not in ("AND", "OR", ")", ","):
                self.step()
            return self.slice(start)
        return left

    def between(self, left: Tree) -> Tree | None:
        if not self.take("BETWEEN"):
            return None
        low = self.total()
        if not self.take("AND"):
            raise self.wrong("BETWEEN needs AND here")
        return Node("BETWEEN", (left, low, self.total()))

    def membership(self, left: Tree) -> Tree | None:
        if self.word() != "IN" or self.word(1) != "(" or self.word(2) in ("SELECT", "WITH"):
            return None
        self.i += 2
        values = [self.total()]
        while self.take(","):
            values.append(self.total())
        if not self.take(")"):
            raise self.wrong("a ) is missing before this")
        return Node("IN", (left, *values))

    def test(self, left: Tree) -> Tree | None:
        if self.take("IS", "NULL"):
            return Node("IS NULL", (left,))
        if self.take("IS", "NOT", "NULL"):
            return Node("IS NOT NULL", (left,))
        if self.take("IS", "DISTINCT", "FROM"):
            return Node("NOT", (Node("<=>", (left, self.total())),))
        return Node("<=>", (left, self.total())) if self.take("IS", "NOT", "DISTINCT", "FROM") else None

    def total(self) -> Tree:
        start, tree = self.i, self.term()
        while self.word() in ("+", "-"):
            op = self.word()
            self.i += 1
            tree = Node(op, (tree, self.term()))
        if self.word() not in _LOOSE:
            return tree
        while self.word() in _LOOSE or self.word() in ("+", "-"):  # they bind looser: the whole sum is a slice
            self.i += 1
            self.term()
        return self.slice(start)

    def term(self) -> Tree:
        inner = self.bracket()
        if inner is not None:
            return inner
        start = self.i
        if self.word() in ("+", "-", "~"):
            self.i += 1
        while self.i < len(self.tokens) and not self.ends_term():
            self.step()
        if self.i == start:
            raise self.wrong("something is missing before this")
        return self.slice(start)

    def bracket(self) -> Tree | None:
        """What stands in parentheses, or abs of it; None where that is part of a slice."""
        start, absolute = self.i, self.word() == "ABS" and self.word(1) == "("
        if not absolute and (self.word() != "(" or self.word(1) in ("SELECT", "WITH")):
            return None
        self.i += 2 if absolute else 1
        try:
            inner = self.total() if absolute else self.disjunction()
            closed = self.take(")") and self.word() in _STOP | _WORDS | {"+", "-", ""}
        except SkeletonError:
            closed = False
        if closed:
            return Node("abs", (inner,)) if absolute else inner
        self.i = start
        return None

    def ends_term(self) -> bool:
        word = self.word()
        if word in ("+", "-"):
            before = self.tokens[self.i - 1][0]
            return bool(_OPERAND_ENDS.search(before)) and self.word(-1) not in _FACTORS
        return word in _STOP or word in _WORDS or word in _LOOSE

    def step(self) -> None:
        """Past one token, or a whole bracket, or CASE ... END."""
        closing = _CLOSING.get(self.word())
        self.i += 1
        if closing is None:
            return
        while self.i < len(self.tokens) and self.word() != closing:
            self.step()
        self.i += 1

    def slice(self, start: int) -> Slice:
        first, last = self.tokens[start], self.tokens[min(self.i, len(self.tokens)) - 1]
        return Slice(self.text[first[1] : last[2]], first[1])
