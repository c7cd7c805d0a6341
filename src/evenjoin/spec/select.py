"""The output columns of a join.

    "o.id"  "t.taxi AS taxi"  "*"  "o.*"  "window.start"  None: a struct per alias and the window

Invariant: output names are unique without regard to case, as a Spark sink needs them; each Output knows its type.
Not here: which columns a side must therefore carry (join_spec.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from evenjoin.errors import SpecError
from evenjoin.spec.expr import Column, Expr, Field, Struct
from evenjoin.spec.reader import read_value
from evenjoin.spec.scope import WINDOW, Scope, pointing
from evenjoin.spec.skeleton import names, tokens


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the result."""

    name: str
    expr: Expr
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Outputs:
    """A select list that was read before, as (name, expression)."""

    pairs: tuple[tuple[str, Expr], ...]


def read_select(select: str | Sequence[str] | Outputs | None, scope: Scope) -> tuple[Output, ...]:
    """The outputs of a select list; of None, one struct column per alias."""
    if isinstance(select, Outputs):
        pairs = list(select.pairs)
    elif select is None:
        pairs = _structs(scope)
    else:
        entries = [select] if isinstance(select, str) else list(select)
        if not entries or not all(isinstance(entry, str) for entry in entries):
            raise SpecError(f"select must be a list of SQL expressions, not {select!r}; leave it out for all columns")
        pairs = [pair for entry in entries for pair in read_output(entry, scope)]
    check_unique([name for name, _ in pairs])
    return tuple(Output(name, expr, expr.type(scope.types)) for name, expr in pairs)


def stars(text: str, scope: Scope) -> list[tuple[str, Expr]]:
    """The columns of an entry `*` or `o.*`, as (name, column); none of any other entry."""
    words = tokens(text)
    aliases: Sequence[str] = ()
    if [word for word, _, _ in words] == ["*"]:
        aliases = scope.aliases
    elif len(words) == 3 and words[1][0] == "." and words[2][0] == "*":
        owner = names(words[0][0]) or [words[0][0]]
        with pointing(text):
            aliases = [scope.alias((owner[0], words[0][1]))]
    return [(name, scope.column(alias, name)) for alias in aliases for name in scope.schemas[alias].names]


def apart(text: str) -> tuple[str, str | None]:
    """An entry as (expression, name given with AS or None)."""
    words = tokens(text)
    given = names(words[-1][0]) if len(words) > 2 and words[-2][0].upper() == "AS" else None
    return (text[: words[-3][2]], given[0]) if given else (text, None)


def read_output(text: str, scope: Scope) -> list[tuple[str, Expr]]:
    """One entry of a select list as (output name, expression); a star gives many."""
    listed = stars(text, scope)
    if listed:
        return listed
    value, name = apart(text)
    expr = read_value(value, scope)
    if isinstance(expr, Column):
        return [(name or expr.name.partition(".")[2], expr)]
    return [(name or (expr.name if isinstance(expr, Field) else str(expr)), expr)]


def _structs(scope: Scope) -> list[tuple[str, Expr]]:
    pairs: list[tuple[str, Expr]] = [(alias, struct_of(alias, schema.names)) for alias, schema in scope.schemas.items()]
    return pairs if scope.window is None else [*pairs, (WINDOW, struct_of(WINDOW, ["start", "end"]))]


def struct_of(alias: str, columns: Sequence[str]) -> Struct:
    """A struct of some columns of a side."""
    return Struct(tuple(columns), tuple(Column(f"{alias}.{name}") for name in columns))


def check_unique(given: Sequence[str]) -> None:
    """Refuse names that differ by case only."""
    seen: dict[str, str] = {}
    for name in given:
        if name.lower() in seen:
            raise SpecError(
                f"select gives two columns named {name!r}; rename one with AS, such as 'x.{name} AS x_{name}'"
            )
        seen[name.lower()] = name
