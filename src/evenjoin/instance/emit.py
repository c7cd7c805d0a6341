"""From matched pairs to result rows: take the columns that are needed, check the residual, evaluate the select."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenjoin.spec import JoinSpec
from evenjoin.spec.expr import Column
from evenjoin.state.layout import Tuples

Pairs = Mapping[int, tuple[Tuples, npt.NDArray[Any]]]


def output_schema(spec: JoinSpec) -> pa.Schema:
    """The result's columns; those that cannot be NULL say so."""
    known = spec.never_null()
    return pa.schema(
        [
            pa.field(output.name, output.type, not (isinstance(output.expr, Column) and output.expr.name in known))
            for output in spec.select
        ]
    )


class Emitter:
    """What becomes of the pairs of one batch; made once, so that a chunk of pairs costs no more than its values."""

    def __init__(self, spec: JoinSpec) -> None:
        self._spec, self._schema = spec, output_schema(spec)
        self._used = frozenset(name for output in spec.select for name in output.expr.columns)
        self._tested = spec.residual.columns if spec.residual is not None else frozenset()

    def passing(self, pairs: Pairs) -> npt.NDArray[np.uint64] | None:
        """Which of the pairs (side -> tuples and rows) the residual predicate is true for; None: there is none."""
        if self._spec.residual is None:
            return None
        count = len(next(iter(pairs.values()))[1])
        verdict = self._spec.residual.evaluate(_columns(self._spec, pairs, self._tested), count)
        return np.asarray(pc.indices_nonzero(verdict))

    def rows(self, pairs: Pairs) -> pa.RecordBatch:
        """The result rows of the pairs."""
        count = len(next(iter(pairs.values()))[1])
        columns = _columns(self._spec, pairs, self._used)
        arrays = [_typed(output.expr.evaluate(columns, count), output.type) for output in self._spec.select]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


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
