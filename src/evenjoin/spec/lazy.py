"""AND, OR, CASE and coalesce, evaluated branch by branch, each for the rows that it decides.

    CASE WHEN b <> 0 THEN a / b END        must not divide by zero in a row whose condition is false

This is the second try. The first one evaluates every branch for all rows, which is faster, but may fail for a value.

Invariant: where the eager way gives a result, this way gives the same one. Each argument is evaluated for the rows
that need it and no others. Cost: one filter of the columns per branch.
Not here: when to take this way (expr.Call.compute decides).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from evenjoin.spec import functions
from evenjoin.spec.coercion import Datum


class Evaluable(Protocol):
    """What this file needs of an expression."""

    @property
    def columns(self) -> frozenset[str]: ...

    def evaluate(self, columns: Mapping[str, pa.Array], rows: int) -> pa.Array: ...


Columns = Mapping[str, pa.Array]


def _both(args: Sequence[Evaluable], columns: Columns, rows: int) -> Datum:
    whole = args[0].evaluate(columns, rows).cast(pa.bool_())
    for arg in args[1:]:
        needed = pc.coalesce(whole, pa.scalar(True))
        whole = functions.OPERATORS["AND"](whole, _where(arg, needed, columns))
    return whole


def _either(args: Sequence[Evaluable], columns: Columns, rows: int) -> Datum:
    whole = args[0].evaluate(columns, rows).cast(pa.bool_())
    for arg in args[1:]:
        needed = pc.coalesce(pc.invert(whole), pa.scalar(True))
        whole = functions.OPERATORS["OR"](whole, _where(arg, needed, columns))
    return whole


def _case(args: Sequence[Evaluable], columns: Columns, rows: int) -> Datum:
    open_rows = pa.repeat(pa.scalar(True), rows)
    decided: list[Datum] = []
    for condition, value in zip(args[0:-1:2], args[1::2], strict=True):
        holds = pc.coalesce(_where(condition, open_rows, columns).cast(pa.bool_()), pa.scalar(False))
        decided += [holds, _where(value, holds, columns)]
        open_rows = pc.and_(open_rows, pc.invert(holds))
    return functions.case(*decided, _where(args[-1], open_rows, columns))


def _coalesce(args: Sequence[Evaluable], columns: Columns, rows: int) -> Datum:
    empty = pa.repeat(pa.scalar(True), rows)
    values: list[Datum] = []
    for arg in args:
        values.append(_where(arg, empty, columns))
        empty = pc.and_(empty, pc.is_null(values[-1]))
    return functions.OPERATORS["coalesce"](*values)


def _where(arg: Evaluable, mask: pa.Array, columns: Columns) -> pa.Array:
    """``arg`` in the rows of the mask, NULL in the others."""
    chosen = {name: columns[name].filter(mask) for name in arg.columns}
    values = arg.evaluate(chosen, pc.sum(mask).as_py() or 0)
    places = pc.if_else(mask, pc.subtract(pc.cumulative_sum(mask.cast(pa.int64())), 1), pa.scalar(None, pa.int64()))
    return values.take(places)


LAZY: dict[str, Callable[[Sequence[Evaluable], Columns, int], Datum]] = {
    "AND": _both,
    "OR": _either,
    "CASE": _case,
    "coalesce": _coalesce,
}
