"""The output columns of a join.

    "o.id"  "t.taxi AS taxi"  "*"  "o.*"  "o.a + t.b AS total"  "window.start"  None: a struct per alias and the window

Invariant: output names are unique without regard to case, as a Spark sink needs them; each Output knows its type.
Not here: which columns a side must therefore carry (join_spec.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from evenjoin.errors import SpecError
from evenjoin.spec.expr import Column, Expr, Struct
from evenjoin.spec.parse import parse_select
from evenjoin.spec.scope import WINDOW, Scope


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the result."""

    name: str
    expr: Expr
    type: pa.DataType


def read_select(select: str | Sequence[str] | None, scope: Scope) -> tuple[Output, ...]:
    """The outputs of a select list; of None, one struct column per alias."""
    if select is None:
        pairs = _structs(scope)
    else:
        entries = [select] if isinstance(select, str) else list(select)
        if not entries or not all(isinstance(entry, str) for entry in entries):
            raise SpecError(f"select must be a list of SQL expressions, not {select!r}; leave it out for all columns")
        pairs = [pair for entry in entries for pair in parse_select(entry, scope)]
    _check_unique([name for name, _ in pairs])
    return tuple(Output(name, expr, expr.type(scope.types)) for name, expr in pairs)


def _structs(scope: Scope) -> list[tuple[str, Expr]]:
    pairs: list[tuple[str, Expr]] = [(alias, _struct(alias, schema.names)) for alias, schema in scope.schemas.items()]
    return pairs if scope.window is None else [*pairs, (WINDOW, _struct(WINDOW, ["start", "end"]))]


def _struct(alias: str, names: Sequence[str]) -> Struct:
    return Struct(tuple(names), tuple(Column(f"{alias}.{name}") for name in names))


def _check_unique(names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            raise SpecError(
                f"select gives two columns named {name!r}; rename one with AS, such as 'x.{name} AS x_{name}'"
            )
        seen[name.lower()] = name
