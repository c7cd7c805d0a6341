"""From matched pairs to result rows: take the columns the answer needs, check the residual, evaluate the select."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenjoin.spec import JoinSpec
from evenjoin.spec.expr import Column
from evenjoin.state.layout import Tuples

Pairs = Mapping[int, tuple[Tuples, npt.NDArray[np.int64]]]


def output_schema(spec: JoinSpec) -> pa.Schema:
    """The result's columns; those that cannot be NULL say so."""
    known = spec.never_null()
    return pa.schema(
        [
            pa.field(output.name, output.type, not (isinstance(output.expr, Column) and output.expr.name in known))
            for output in spec.select
        ]
    )


def results(spec: JoinSpec, pairs: Pairs) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
    """Result rows of the pairs (side -> tuples and rows), and the probing rows that gave them.

    The first entry of `pairs` is the probing side.
    """
    probing = next(iter(pairs))
    if spec.residual is not None:
        columns = _columns(spec, pairs, spec.residual.columns)
        verdict = spec.residual.evaluate(columns, len(pairs[probing][1]))
        keep = np.flatnonzero(np.asarray(pc.fill_null(verdict, False)))
        if len(keep) < len(verdict):
            pairs = {side: (tuples, rows[keep]) for side, (tuples, rows) in pairs.items()}
    rows = pairs[probing][1]
    used = frozenset(name for output in spec.select for name in output.expr.columns)
    columns = _columns(spec, pairs, used)
    arrays = [_typed(output.expr.evaluate(columns, len(rows)), output.type) for output in spec.select]
    return pa.RecordBatch.from_arrays(arrays, schema=output_schema(spec)), rows


def _columns(spec: JoinSpec, pairs: Pairs, names: frozenset[str]) -> dict[str, pa.Array]:
    """Qualified columns of the pairs."""
    columns: dict[str, pa.Array] = {}
    for side, (tuples, rows) in pairs.items():
        start = f"{spec.sides[side].alias}."
        for name in names:
            if name.startswith(start):
                columns[name] = tuples.column(name[len(start) :], rows)
    if spec.window is not None and any(name.startswith("window.") for name in names):
        columns.update(_window_columns(spec, pairs))
    return columns


def _window_columns(spec: JoinSpec, pairs: Pairs) -> dict[str, pa.Array]:
    assert spec.window is not None
    tuples, rows = pairs[0]
    assert tuples.times is not None
    side = spec.sides[0]
    type_ = side.schema.field(side.event_time).type
    start = tuples.times[rows]
    return {
        "window.start": as_time(start, type_),
        "window.end": as_time(start + spec.window[0], type_),
    }


def as_time(values: npt.NDArray[np.int64], type_: pa.DataType) -> pa.Array:
    """Time units back to a column: microseconds for timestamps and dates, the number itself for integers."""
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
