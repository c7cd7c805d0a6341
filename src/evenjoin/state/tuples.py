"""Tuples: which columns the tuples of a store have, in a run and on their way to an instance; and tuples as arrays.

    code   int64, or int32 for hashed keys      first sort key; decides placement
    time   int64 (absent without an order,      second sort key; in a windowed join the start of the window
           or when it is the code)
    u      uint32                               position; decides placement
    ...    the columns the answer still needs   payload

A column is *rebuilt* rather than stored when it equals the code (a plain integer-like key) or the time (the
event-time column itself): the state then holds each value once. With a hashed code the key's columns are kept,
because equal hashes must be checked against the real keys.

Where only equal codes can match, the exact codes of a join whose keys are redacted are salted (kernels/hashing.py): a
rebuilt column takes the salt off again. The start of a window and a code that is compared by order are never salted.

Invariant: a run's tuples are sorted by (code, time). `Tuples` are immutable; sorting or taking some makes new ones.
Not here: files (segment.py), and which instance has which tuples (manifest.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenjoin.kernels.hashing import I64, Codes, KeyCodec, from_ordered_int64, is_rebuildable
from evenjoin.kernels.runs import run_order
from evenjoin.placement.place import At
from evenjoin.spec import Expr, JoinSpec
from evenjoin.spec.expr import Column

Timed = Literal["timed", "untimed", "coded"]
"""Tuples have a time of their own, or none, or their code is their time (where the event time drives a band)."""

CODE, TIME, POSITION, ROLE = "~code", "~time", "~u", "~role"


@dataclass(frozen=True, slots=True)
class TupleSchema:
    """The columns of one store's tuples. `stored` are the payload columns that are kept as they are. `rebuilt` maps a
    column that is not to the one (code or time) from which it is rebuilt. `types` has the type of every column read."""

    alias: str
    codec: KeyCodec
    timed: Timed
    stored: pa.Schema
    rebuilt: Mapping[str, str]
    types: Mapping[str, pa.DataType]

    @property
    def run(self) -> pa.Schema:
        """The columns of a run: code, time, u and the stored payload."""
        fields = [pa.field(CODE, pa.from_numpy_dtype(self.codec.dtype), nullable=False)]
        if self.timed == "timed":
            fields.append(pa.field(TIME, pa.int64(), nullable=False))
        return pa.schema([*fields, pa.field(POSITION, pa.uint32(), nullable=False), *self.stored])

    @property
    def wire(self) -> pa.Schema:
        """The columns of tuples on their way to an instance: those of a run, and the role."""
        return self.run.append(pa.field(ROLE, pa.uint8(), nullable=False))


def tuple_schemas(
    spec: JoinSpec, seed: int = 0, keys: Literal["shown", "redacted"] = "shown"
) -> tuple[TupleSchema, ...]:
    """By side, the columns of its tuples. `seed` is the checkpoint's, and so is whether keys are redacted."""
    return tuple(_tuple_schema(spec, number, seed, keys) for number in range(len(spec.sides)))


def _tuple_schema(spec: JoinSpec, number: int, seed: int, shown: Literal["shown", "redacted"]) -> TupleSchema:
    side = spec.sides[number]
    hidden = shown == "redacted" and spec.equal_codes and bool(side.index.exprs)
    codec = KeyCodec(side.index.types, side.index.null_safe, seed, "salted" if hidden else "plain")
    keys = side.index.exprs
    types = {name: side.schema.field(name).type for name in side.columns}
    kept = list(side.payload)
    if not codec.exact:
        used = {q for key in keys for q in key.columns}
        kept += [name for name in side.columns if f"{side.alias}.{name}" in used and name not in kept]
    rebuilt: dict[str, str] = {}
    for name in kept:
        if codec.exact and keys and _is_plain(keys[0], side.alias, name) and is_rebuildable(types[name]):
            rebuilt[name] = CODE
        elif name == side.event_time and spec.window is None and spec.bounded(number) and _fits_time(types[name]):
            rebuilt[name] = TIME
    stored = pa.schema([pa.field(name, types[name]) for name in kept if name not in rebuilt])
    timed: Timed = "timed" if side.order is not None else "untimed"
    if any(edge.band is not None and edge.band.on_time for edge in spec.edges_of(number)):
        timed = "coded"
    return TupleSchema(side.alias, codec, timed, stored, rebuilt, types)


def _is_plain(key: Expr, alias: str, name: str) -> bool:
    return isinstance(key, Column) and key.name == f"{alias}.{name}"


def _fits_time(type_: pa.DataType) -> bool:
    integer = pa.types.is_integer(type_) and type_ != pa.uint64()
    return bool(integer or (pa.types.is_timestamp(type_) and type_.unit == "us"))


@dataclass(frozen=True, slots=True)
class Tuples:
    """Tuples of one store as arrays: a run, or the arrivals of a batch. `batch` holds all their columns."""

    schema: TupleSchema
    codes: Codes
    times: I64 | None
    u: npt.NDArray[np.uint32]
    batch: pa.RecordBatch

    @classmethod
    def of(cls, schema: TupleSchema, batch: pa.RecordBatch) -> Tuples:
        codes = np.asarray(batch.column(CODE))
        times = np.asarray(batch.column(TIME)) if schema.timed == "timed" else codes
        return cls(
            schema, codes, None if schema.timed == "untimed" else times, np.asarray(batch.column(POSITION)), batch
        )

    @classmethod
    def joined(cls, schema: TupleSchema, batches: Sequence[pa.RecordBatch], columns: pa.Schema) -> Tuples:
        """The tuples of several batches with these columns, sorted as a run is."""
        pieces = pa.Table.from_batches(batches, columns).combine_chunks().to_batches()
        return cls.of(schema, pieces[0] if pieces else pa.RecordBatch.from_pylist([], columns)).in_order()

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def at(self) -> At:
        """What placement may know of the tuples: code and position."""
        return At(self.codes, self.u)

    def take(self, rows: npt.NDArray[Any]) -> Tuples:
        return Tuples.of(self.schema, self.batch.take(pa.array(rows)))

    def in_order(self) -> Tuples:
        """The same tuples, sorted as a run is."""
        return self.take(run_order(self.codes, self.times))

    def column(self, name: str, rows: npt.NDArray[Any]) -> pa.Array:
        """Values of a column for the given rows, rebuilt from code or time if it is not stored."""
        source = self.schema.rebuilt.get(name)
        if source is None:
            return pc.take(self.batch.column(name), pa.array(rows), boundscheck=False)
        if source == CODE:
            ordered = self.schema.codec.ordered(np.take(self.codes, rows))
            return from_ordered_int64(ordered, self.schema.types[name])
        assert self.times is not None
        return pc.take(pa.array(self.times), pa.array(rows), boundscheck=False).cast(self.schema.types[name])
