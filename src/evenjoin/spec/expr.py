"""A scalar expression over qualified column names ("o.id"; the virtual ones are "window.start" and "window.end").

    expr.columns                      the qualified names it reads
    expr.evaluate(columns, rows)      one Arrow array of ``rows`` values, vectorised
    expr.type(schema)                 the type of that array: what zero rows evaluate to
    str(expr)                         SQL text, the same for equal expressions in any version: it goes into checkpoints

Invariants: a frozen, hashable, picklable value; equality ignores where in the text a node stood (``at``);
``evaluate`` of a concatenation is the concatenation of the ``evaluate``s.
A chain of AND or OR is one call with all of its operands, which are never such calls themselves. So a condition of
thousands of terms is a shallow tree, which every walk over it may take recursively.
Not here: SQL text (reader.py), what functions do (functions.py), moving terms between sides (linear.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from evenjoin.errors import ConditionError
from evenjoin.spec import coercion
from evenjoin.spec.coercion import Datum
from evenjoin.spec.functions import FUNCTIONS, TypeMismatch
from evenjoin.spec.render import call_sql, literal_sql, name_sql, type_sql

CHAINS = ("AND", "OR")
_UNSIGNED = ". Spark has no such number: cast the column to decimal128(20, 0) or to a string before the join"
SHOWN = 200
"""How many characters of an expression an error message shows."""


class ExprError(ConditionError):
    """A ConditionError that does not know the whole text yet; ``at`` is the offset of the node at fault."""

    def __init__(self, message: str, at: int | None) -> None:
        super().__init__(message)
        self.message, self.at = message, at


class Expr(ABC):
    """See the top of this file."""

    __slots__ = ()
    at: int | None

    @property
    @abstractmethod
    def children(self) -> tuple[Expr, ...]:
        """The arguments."""

    @abstractmethod
    def compute(self, columns: Mapping[str, pa.Array], rows: int) -> Datum:
        """``evaluate`` without broadcasting constants."""

    @property
    def columns(self) -> frozenset[str]:
        return frozenset().union(*(child.columns for child in self.children))

    def evaluate(self, columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
        value = self.compute(columns, rows)
        if isinstance(value, pa.ChunkedArray):
            value = value.combine_chunks()
        return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value

    def type(self, schema: Mapping[str, pa.DataType]) -> pa.DataType:
        return self.evaluate({name: pa.array([], schema[name]) for name in self.columns}, 0).type


@dataclass(frozen=True, slots=True)
class Column(Expr):
    """A column, by its qualified name."""

    name: str
    at: int | None = field(default=None, compare=False, repr=False)

    @property
    def children(self) -> tuple[Expr, ...]:
        return ()

    @property
    def columns(self) -> frozenset[str]:
        return frozenset((self.name,))

    def compute(self, columns: Mapping[str, pa.Array], rows: int) -> Datum:
        return columns[self.name]

    def __str__(self) -> str:
        alias, _, column = self.name.partition(".")
        return f"{name_sql(alias)}.{name_sql(column)}"


@dataclass(frozen=True, slots=True)
class Literal(Expr):
    """A constant. An INTERVAL is an integer of microseconds with type duration[us]."""

    value: Any
    datatype: pa.DataType
    at: int | None = field(default=None, compare=False, repr=False)

    @property
    def children(self) -> tuple[Expr, ...]:
        return ()

    def compute(self, columns: Mapping[str, pa.Array], rows: int) -> Datum:
        return pa.scalar(self.value, self.datatype)

    def __str__(self) -> str:
        return literal_sql(self.value, self.datatype)


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """A function or operator (a name in functions.py) with its arguments."""

    name: str
    args: tuple[Expr, ...]
    at: int | None = field(default=None, compare=False, repr=False)

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.args

    def compute(self, columns: Mapping[str, pa.Array], rows: int) -> Datum:
        if self.name in CHAINS:
            return self._fold(columns, rows)
        values = [arg.compute(columns, rows) for arg in self.args]
        return guard(self, lambda: FUNCTIONS[self.name](*values))

    def _fold(self, columns: Mapping[str, pa.Array], rows: int) -> Datum:
        """A chain, operand by operand, so that two values are in memory and not as many as there are operands."""
        whole = self.args[0].compute(columns, rows)
        for arg in self.args[1:]:
            whole = guard(self, partial(FUNCTIONS[self.name], whole, arg.compute(columns, rows)))
        return whole

    def __str__(self) -> str:
        return call_sql(self.name, [str(arg) for arg in self.args])


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """A value in another type that holds it, or as a double. See `convert` in coercion.py."""

    arg: Expr
    target: pa.DataType
    at: int | None = field(default=None, compare=False, repr=False)

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.arg,)

    def compute(self, columns: Mapping[str, pa.Array], rows: int) -> Datum:
        value = self.arg.compute(columns, rows)
        return guard(self, lambda: coercion.convert(value, self.target))

    def __str__(self) -> str:
        return f"CAST({self.arg} AS {type_sql(self.target)})"


@dataclass(frozen=True, slots=True)
class Field(Expr):
    """One field of a struct."""

    arg: Expr
    name: str
    at: int | None = field(default=None, compare=False, repr=False)

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.arg,)

    def compute(self, columns: Mapping[str, pa.Array], rows: int) -> Datum:
        value = self.arg.compute(columns, rows)
        return guard(self, lambda: pc.struct_field(value, self.name))

    def __str__(self) -> str:
        return f"{self.arg}.{name_sql(self.name)}"


@dataclass(frozen=True, slots=True)
class Struct(Expr):
    """A struct of named values: the default output, one per alias."""

    names: tuple[str, ...]
    args: tuple[Expr, ...]
    at: int | None = field(default=None, compare=False, repr=False)

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.args

    def compute(self, columns: Mapping[str, pa.Array], rows: int) -> Datum:
        arrays = [arg.evaluate(columns, rows) for arg in self.args]
        fields = [pa.field(name, array.type) for name, array in zip(self.names, arrays, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=fields) if fields else pa.array([{}] * rows, pa.struct([]))

    def __str__(self) -> str:
        pairs = (f"{literal_sql(name, pa.string())}, {arg}" for name, arg in zip(self.names, self.args, strict=True))
        return f"named_struct({', '.join(pairs)})"


def guard(expr: Expr, work: Callable[[], Datum]) -> Datum:
    """Run ``work``; a failure becomes an ExprError that names the expression and its place."""
    try:
        return work()
    except TypeMismatch as error:
        raise ExprError(f"{_shown(expr)}: {error}", expr.at) from None
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise ExprError(f"{_shown(expr)} is not defined for these types ({error})", expr.at) from None
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        advice = _UNSIGNED if "not in range: 0 to 9223372036854775807" in str(error) else ""
        raise ExprError(f"{_shown(expr)} fails for a value: {error}{advice}", expr.at) from None


def _shown(expr: Expr) -> str:
    text = str(expr)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} ..."


def chain(name: str, parts: Sequence[Expr], at: int | None) -> Expr:
    """The parts, connected with AND or OR (`name`). Parts that are such a chain themselves become part of this one."""
    operands: list[Expr] = []
    for part in parts:
        operands += part.args if isinstance(part, Call) and part.name == name else (part,)
    return operands[0] if len(operands) == 1 else Call(name, tuple(operands), at)


def conjunction(parts: Sequence[Expr]) -> Expr | None:
    """The parts joined with AND, or None for no parts."""
    return chain("AND", parts, parts[0].at) if parts else None
