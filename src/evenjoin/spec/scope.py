"""Names: which column of which side a piece of SQL means.

    Scope(schemas).resolve(["o", "id"])  ->  Column("o.id")

Rules, as in Spark: an exact match wins, then a match without regard to case; a name without alias must be found on
exactly one side; further parts are fields of a struct. ``window.start`` and ``.end`` exist when the join has a window.

Invariant: what ``resolve`` returns reads only columns of ``types``. Failures are ExprErrors at the part that is wrong,
with the nearest name that exists. Not here: SQL syntax (skeleton.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import pairwise

import pyarrow as pa
import pyarrow.types as pt

from evenjoin.errors import ConditionError, SpecError
from evenjoin.spec.expr import Column, Expr, ExprError, Field
from evenjoin.spec.skeleton import names

WINDOW = "window"
TOO_DEEP = "this is nested too deeply for a stream join; compute a part of it as a column before the join"
Part = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class Scope:
    """The sides' schemas by alias, in order, and the type of window bounds (None without a window)."""

    schemas: Mapping[str, pa.Schema]
    window: pa.DataType | None = None
    types: Mapping[str, pa.DataType] = field(init=False)

    def __post_init__(self) -> None:
        types = {f"{a}.{f.name}": f.type for a, schema in self.schemas.items() for f in schema}
        if self.window is not None:
            types |= {f"{WINDOW}.start": self.window, f"{WINDOW}.end": self.window}
        object.__setattr__(self, "types", types)

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(self.schemas)

    def sides_of(self, expr: Expr) -> frozenset[str]:
        """The aliases (and "window") whose columns the expression reads."""
        return frozenset(name.partition(".")[0] for name in expr.columns)

    def resolve(self, parts: Sequence[Part]) -> Expr:
        """The column, or the field of a struct column, that a dotted name means."""
        first = parts[0]
        found: Expr
        alias = _match(first[0], self.aliases) if len(parts) > 1 else None
        if alias is not None:
            found, rest = self._on_side(alias, parts[1]), parts[2:]
        elif len(parts) == 2 and first[0].lower() == WINDOW and self.window is not None:
            found, rest = self._bound(parts[1]), parts[2:]
        elif len(parts) == 1 or self._owners(first[0]):
            found, rest = self._anywhere(first), parts[1:]
        else:
            found, rest = self._on_side(self.alias(first), parts[1]), parts[2:]
        for part in rest:
            found = self._field(found, part)
        return found

    def alias(self, part: Part) -> str:
        """The alias a name means."""
        found = _match(part[0], self.aliases, part[1])
        if found is not None:
            return found
        if part[0].lower() == WINDOW:
            raise ExprError("this join has no window: add window=tumbling(...) or sliding(...)", part[1])
        hint = _hint(part[0], self.aliases, f"the sides are {', '.join(self.aliases)}")
        raise ExprError(f"unknown alias {part[0]!r}: {hint}", part[1])

    def column(self, alias: str, name: str, at: int | None = None) -> Column:
        """A column of one side."""
        return self._on_side(alias, (name, at))

    def plain(self, text: str) -> Column | None:
        """The column that a text names; None if it is anything else."""
        parts = names(text)
        if parts is None:
            return None
        try:
            found = self.resolve([(part, None) for part in parts])
        except ExprError:
            return None
        return found if isinstance(found, Column) else None

    def _on_side(self, alias: str, part: Part) -> Column:
        known = self.schemas[alias].names
        found = _match(part[0], known, part[1])
        if found is None:
            raise ExprError(
                f"no column {part[0]!r} on side {alias!r}: {_hint(part[0], known, _listing(known))}", part[1]
            )
        return Column(f"{alias}.{found}", part[1])

    def _bound(self, part: Part) -> Column:
        if part[0].lower() not in ("start", "end"):
            raise ExprError(f"a window has start and end, not {part[0]!r}", part[1])
        return Column(f"{WINDOW}.{part[0].lower()}", part[1])

    def _owners(self, name: str) -> list[str]:
        exact = [a for a in self.aliases if name in self.schemas[a].names]
        return exact or [a for a in self.aliases if _match(name, self.schemas[a].names)]

    def _anywhere(self, part: Part) -> Column:
        owners = self._owners(part[0])
        if len(owners) > 1:
            choices = " or ".join(f"{a}.{part[0]}" for a in owners)
            raise ExprError(f"column {part[0]!r} is ambiguous: write {choices}", part[1])
        if not owners:
            known = sorted({n for schema in self.schemas.values() for n in schema.names})
            raise ExprError(f"no column {part[0]!r} on any side: {_hint(part[0], known, _listing(known))}", part[1])
        return self._on_side(owners[0], part)

    def _field(self, owner: Expr, part: Part) -> Expr:
        t = owner.type(self.types)
        if not pt.is_struct(t):
            raise ExprError(f"{owner} is not a struct, it has no field {part[0]!r}", part[1])
        known = [t.field(i).name for i in range(t.num_fields)]
        found = _match(part[0], known, part[1])
        if found is None:
            raise ExprError(f"{owner} has no field {part[0]!r}: {_hint(part[0], known, _listing(known))}", part[1])
        return Field(owner, found, part[1])


def condition_text(on: str | Sequence[str], scope: Scope) -> str:
    """SQL for ``on``: column names become equalities of neighbouring sides."""
    if isinstance(on, str):
        everywhere = all(on.strip(" `").lower() in map(str.lower, s.names) for s in scope.schemas.values())
        if not (on.strip() and everywhere):
            return on
        on = [on.strip(" `")]
    if not isinstance(on, Sequence) or not on or not all(isinstance(name, str) for name in on):
        raise SpecError(f"on must be SQL text, a column name or a list of column names, not {on!r}")
    parts = []
    for name in on:
        columns = []
        for alias in scope.aliases:
            try:
                columns.append(scope.column(alias, name))
            except ExprError as error:
                raise SpecError(f"on: {error.message}") from None
        parts += [f"{a} = {b}" for a, b in pairwise(columns)]
    return " AND ".join(parts)


@contextmanager
def pointing(text: str) -> Iterator[None]:
    """Errors inside become ConditionErrors that draw a caret under ``text``."""
    try:
        yield
    except ExprError as error:
        raise ConditionError(error.message, text, error.at) from error.__cause__
    except RecursionError:
        raise ConditionError(TOO_DEEP, text) from None


def check_aliases(schemas: Mapping[str, pa.Schema]) -> None:
    """Refuse sides that are not named, aliases that are no names or differ by case only, and sides that have a column
    twice."""
    check_named(schemas)
    seen: dict[str, str] = {}
    for alias, schema in schemas.items():
        if not isinstance(alias, str) or not alias or "." in alias:
            raise SpecError(f"alias {alias!r} must be a non-empty name without a dot")
        if alias.lower() == WINDOW:
            raise SpecError(f"alias {alias!r} is reserved for window.start and window.end; choose another")
        if alias.lower() in seen:
            raise SpecError(f"duplicate alias: {seen[alias.lower()]!r} and {alias!r} differ only in case")
        seen[alias.lower()] = alias
        twice = sorted({n for n in schema.names if schema.names.count(n) > 1})
        if twice:
            raise SpecError(f"side {alias!r} has two columns named {twice[0]!r}; rename one")


def check_named(sides: object) -> None:
    """Refuse sides that are given without their aliases, as a list for instance."""
    if not isinstance(sides, Mapping):
        kind = type(sides).__name__
        raise SpecError(f"the sides must be given by alias, such as {{'l': ..., 'r': ...}}, not as {kind}")


def _match(name: str, names: Sequence[str], at: int | None = None) -> str | None:
    if name in names:
        return name
    loose = [n for n in names if n.lower() == name.lower()]
    if len(loose) > 1:
        raise ExprError(f"{name!r} is ambiguous: {' or '.join(loose)}", at)
    return loose[0] if loose else None


def _hint(name: str, names: Sequence[str], otherwise: str) -> str:
    near = get_close_matches(name.lower(), [n.lower() for n in names], 1, 0.5)
    return f"did you mean {next(n for n in names if n.lower() == near[0])!r}?" if near else otherwise


def _listing(names: Sequence[str]) -> str:
    return "it has " + ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
