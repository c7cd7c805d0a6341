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
from evenjoin.spec.expr import Column, Expr, Struct
from evenjoin.spec.reader import read_output
from evenjoin.spec.scope import WINDOW, Scope


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


def _structs(scope: Scope) -> list[tuple[str, Expr]]:
    pairs: list[tuple[str, Expr]] = [(alias, struct_of(alias, schema.names)) for alias, schema in scope.schemas.items()]
    return pairs if scope.window is None else [*pairs, (WINDOW, struct_of(WINDOW, ["start", "end"]))]


def struct_of(alias: str, names: Sequence[str]) -> Struct:
    """A struct of some columns of a side."""
    return Struct(tuple(names), tuple(Column(f"{alias}.{name}") for name in names))


def check_unique(names: Sequence[str]) -> None:
    """Refuse names that differ by case only."""
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            raise SpecError(
                f"select gives two columns named {name!r}; rename one with AS, such as 'x.{name} AS x_{name}'"
            )
        seen[name.lower()] = name
