"""What a tuple of one side looks like in a run and on the wire.

    code   int64, or int32 for hashed keys      sort key, placement
    time   int64 (absent without an order,      second sort key, window start for windowed joins
           or when it is the code)
    u      uint32                               position, for placement
    ...    the columns the answer still needs   payload

A column is *rebuilt* rather than stored when it equals the code (a plain integer-like key) or the time (the
event-time column itself): the state then holds each value once. With a hashed code the key's columns are kept,
because equal hashes must be checked against the real keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenjoin.kernels.hashing import I64, Codes, KeyCodec, from_ordered_int64, is_rebuildable
from evenjoin.spec import Expr, JoinSpec
from evenjoin.spec.expr import Column

Timed = Literal["timed", "untimed", "coded"]
"""Whether tuples have a time of their own, none, or their code is it (the event time drives a band)."""

CODE, TIME, POSITION, ROLE = "~code", "~time", "~u", "~role"


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of one side's tuples. `rebuilt` maps a column to the physical column that holds its values."""

    alias: str
    codec: KeyCodec
    timed: Timed
    stored: pa.Schema
    rebuilt: Mapping[str, str]
    types: Mapping[str, pa.DataType]

    @property
    def schema(self) -> pa.Schema:
        """The schema of a run."""
        fields = [pa.field(CODE, pa.from_numpy_dtype(self.codec.dtype), nullable=False)]
        if self.timed == "timed":
            fields.append(pa.field(TIME, pa.int64(), nullable=False))
        return pa.schema([*fields, pa.field(POSITION, pa.uint32(), nullable=False), *self.stored])

    @property
    def wire(self) -> pa.Schema:
        """The schema of tuples on their way to an instance: a run's, with the role."""
        return self.schema.append(pa.field(ROLE, pa.uint8(), nullable=False))


def layouts(spec: JoinSpec) -> tuple[Layout, ...]:
    """One layout per side."""
    codec = codec_of(spec)
    return tuple(_layout(spec, number, codec) for number in range(len(spec.sides)))


def codec_of(spec: JoinSpec) -> KeyCodec:
    """The key codec of a join. Without an equality a window's start is the key."""
    if not spec.key_types and spec.window is not None:
        return KeyCodec((pa.int64(),), (False,))
    return KeyCodec(spec.key_types, spec.null_safe)


def _layout(spec: JoinSpec, number: int, codec: KeyCodec) -> Layout:
    side = spec.sides[number]
    types = {name: side.schema.field(name).type for name in side.columns}
    kept = list(side.payload)
    if not codec.exact:
        used = {q for key in side.keys for q in key.columns}
        kept += [name for name in side.columns if f"{side.alias}.{name}" in used and name not in kept]
    rebuilt: dict[str, str] = {}
    for name in kept:
        if codec.exact and side.keys and _is_plain(side.keys[0], side.alias, name) and is_rebuildable(types[name]):
            rebuilt[name] = CODE
        elif name == side.event_time and spec.window is None and _bounded(spec) and _fits_time(types[name]):
            rebuilt[name] = TIME
    stored = pa.schema([pa.field(name, types[name]) for name in kept if name not in rebuilt])
    timed: Timed = "timed" if side.order is not None else "untimed"
    if spec.band is not None and spec.band.on_time:
        timed = "coded"
    return Layout(side.alias, codec, timed, stored, rebuilt, types)


def _is_plain(key: Expr, alias: str, name: str) -> bool:
    return isinstance(key, Column) and key.name == f"{alias}.{name}"


def _bounded(spec: JoinSpec) -> bool:
    return spec.low is not None or spec.high is not None


def _fits_time(type_: pa.DataType) -> bool:
    integer = pa.types.is_integer(type_) and type_ != pa.uint64()
    return bool(integer or (pa.types.is_timestamp(type_) and type_.unit == "us"))


@dataclass(frozen=True, slots=True)
class Tuples:
    """Tuples of one side as arrays: a run, or a batch's arrivals. `batch` holds the stored payload columns."""

    layout: Layout
    codes: Codes
    times: I64 | None
    u: npt.NDArray[np.uint32]
    batch: pa.RecordBatch

    @classmethod
    def of(cls, layout: Layout, batch: pa.RecordBatch) -> Tuples:
        codes = np.asarray(batch.column(CODE))
        times = np.asarray(batch.column(TIME)) if layout.timed == "timed" else codes
        return cls(
            layout, codes, None if layout.timed == "untimed" else times, np.asarray(batch.column(POSITION)), batch
        )

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: npt.NDArray[Any]) -> Tuples:
        return Tuples.of(self.layout, self.batch.take(pa.array(rows)))

    def column(self, name: str, rows: npt.NDArray[Any]) -> pa.Array:
        """Values of a column for the given rows, rebuilt from code or time if it is not stored."""
        source = self.layout.rebuilt.get(name)
        if source is None:
            return pc.take(self.batch.column(name), pa.array(rows), boundscheck=False)
        if source == CODE:
            return from_ordered_int64(np.take(self.codes, rows), self.layout.types[name])
        assert self.times is not None
        return pc.take(pa.array(self.times), pa.array(rows), boundscheck=False).cast(self.layout.types[name])
