"""From combinations of tuples to result rows: take the needed columns, check a residual predicate, evaluate the select.

A combination is one tuple of each side that was found so far. Many of them are held as `Found`: for each side its
tuples, and which row of them each combination has. The arrays of rows have one length, the number of combinations.

Cost: columns are the expensive part. Only those that an expression names are taken, and only for the combinations that
passed everything before. Pure. Not here: how combinations are found (follow.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenjoin.spec import JoinSpec
from evenjoin.spec.expr import Expr
from evenjoin.state.tuples import Tuples

Found = dict[int, tuple[Tuples, npt.NDArray[Any]]]
"""Combinations, by side: (the tuples, for each combination the row of its tuple)."""


def passing(spec: JoinSpec, found: Found, residual: Expr) -> npt.NDArray[np.uint64]:
    """The numbers of the combinations for which the residual predicate is true (not false, not NULL), ascending."""
    verdict = residual.evaluate(_columns(spec, found, residual.columns), _count(found))
    return np.asarray(pc.indices_nonzero(verdict))


def result_rows(spec: JoinSpec, found: Found) -> pa.RecordBatch:
    """One result row for each combination, with the columns of the join's select."""
    used = frozenset(name for output in spec.select for name in output.expr.columns)
    columns, count = _columns(spec, found, used), _count(found)
    arrays = [_typed(output.expr.evaluate(columns, count), output.type) for output in spec.select]
    return pa.RecordBatch.from_arrays(arrays, schema=spec.schema)


def _count(found: Found) -> int:
    return len(next(iter(found.values()))[1])


def _columns(spec: JoinSpec, found: Found, names: frozenset[str]) -> dict[str, pa.Array]:
    """The named columns of the combinations, under their qualified names (`o.id`, `window.start`)."""
    columns: dict[str, pa.Array] = {}
    for side, (tuples, rows) in found.items():
        start = f"{spec.sides[side].alias}."
        for name in names:
            if name.startswith(start):
                columns[name] = tuples.column(name[len(start) :], rows)
    if spec.window is not None and any(name.startswith("window.") for name in names):
        columns.update(_window_columns(spec, found))
    return columns


def _window_columns(spec: JoinSpec, found: Found) -> dict[str, pa.Array]:
    assert spec.window is not None
    tuples, rows = found[0]
    assert tuples.times is not None
    side = spec.sides[0]
    type_ = side.schema.field(side.event_time).type
    start = tuples.times[rows]
    return {
        "window.start": as_time(start, type_),
        "window.end": as_time(start + spec.window[0], type_),
    }


def as_time(values: npt.NDArray[np.int64], type_: pa.DataType) -> pa.Array:
    """Times as a column of their own type again. A time is in microseconds for timestamps and dates, and the number
    itself for integers."""
    array = pa.array(values)
    if pa.types.is_date(type_):
        return array.cast(pa.timestamp("us")).cast(type_)
    if pa.types.is_timestamp(type_):
        return array.cast(pa.timestamp("us", type_.tz)).cast(type_)
    return array.cast(type_)


def _typed(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return array if array.type == type_ else array.cast(type_)
