"""Tuples: which columns the tuples of a store have, in a run and on their way to an instance; and tuples as arrays.

    code   int64, or int32 for hashed keys      first sort key; decides placement
    code1  the same for a further index         only where a side is compared by more than one key
    time   int64 (absent without an order,      second sort key; in a windowed join the start of the window
           or when it is the code)
    u      uint32                               position; decides placement
    ...    the columns the answer still needs   payload

A column is *rebuilt* rather than stored when it equals the code (a plain integer-like key) or the time (the
event-time column itself): the state then holds each value once. With a hashed code the key's columns are kept,
because equal hashes must be checked against the real keys.

Where only equal codes can match, the exact codes of a join whose keys are redacted are salted (kernels/hashing.py): a
rebuilt column takes the salt off again. The start of a window and a code that is compared by order are never salted.

A side that is compared by several keys has several indexes (spec/graph.py). Its tuples are sorted by index 0. In the
order of another index they are seen through a permutation (`by_index`), which a process makes once for each run that it
opens. An index without expressions has the code 0 for every tuple and no column.

Invariant: a run's tuples are sorted by (code, time). `Tuples` are immutable; sorting or taking some makes new ones.
Not here: files (segment.py), and which instance has which tuples (manifest.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenjoin.kernels.hashing import I64, Codes, KeyCodec, from_ordered_int64, is_rebuildable
from evenjoin.kernels.runs import run_order
from evenjoin.placement.place import At
from evenjoin.spec import Expr, JoinSpec, SideSpec
from evenjoin.spec.expr import Column

Timed = Literal["timed", "untimed", "coded"]
"""Tuples have a time of their own, or none, or their code is their time (where the event time drives a band)."""

CODE, TIME, POSITION, ROLE = "~code", "~time", "~u", "~role"


def code_column(index: int) -> str:
    """The name of the column with the codes of an index."""
    return CODE if index == 0 else f"{CODE}{index}"


class InOrder(NamedTuple):
    """Tuples in the order of one of their indexes: codes, times, and which row each is. Rows of None: as they are."""

    codes: Codes
    times: I64 | None
    rows: npt.NDArray[Any] | None


@dataclass(frozen=True, slots=True)
class TupleSchema:
    """The columns of one side's tuples. `codecs` are by index. `stored` are the payload columns that are kept as they
    are. `rebuilt` maps a column that is not to the one (a code or the time) from which it is rebuilt. `types` has the
    type of every column read."""

    alias: str
    codecs: tuple[KeyCodec, ...]
    timed: Timed
    stored: pa.Schema
    rebuilt: Mapping[str, str]
    types: Mapping[str, pa.DataType]

    @property
    def codec(self) -> KeyCodec:
        """The codec of index 0."""
        return self.codecs[0]

    @property
    def coded(self) -> tuple[int, ...]:
        """The indexes whose codes are columns: index 0, and each further one that has expressions."""
        return (0, *(k for k, codec in enumerate(self.codecs) if k and codec.types))

    @property
    def run(self) -> pa.Schema:
        """The columns of a run: codes, time, u and the stored payload."""
        fields = [
            pa.field(code_column(k), pa.from_numpy_dtype(self.codecs[k].dtype), nullable=False) for k in self.coded
        ]
        if self.timed == "timed":
            fields.append(pa.field(TIME, pa.int64(), nullable=False))
        return pa.schema([*fields, pa.field(POSITION, pa.uint32(), nullable=False), *self.stored])

    @property
    def wire(self) -> pa.Schema:
        """The columns of tuples on their way to an instance: those of a run, and the role."""
        return self.run.append(pa.field(ROLE, pa.uint8(), nullable=False))

    def joined(self, batches: Sequence[pa.RecordBatch], columns: pa.Schema) -> Tuples:
        """The tuples of several batches with these columns, sorted as a run is."""
        return Tuples.joined(self, batches, columns)


def tuple_schemas(
    spec: JoinSpec, seed: int = 0, keys: Literal["shown", "redacted"] = "shown"
) -> tuple[TupleSchema, ...]:
    """By side, the columns of its tuples. `seed` is the checkpoint's, and so is whether keys are redacted."""
    return tuple(_tuple_schema(spec, number, seed, keys) for number in range(len(spec.sides)))


def _tuple_schema(spec: JoinSpec, number: int, seed: int, shown: Literal["shown", "redacted"]) -> TupleSchema:
    side = spec.sides[number]
    codecs = tuple(_codec(spec, number, k, seed, shown) for k in range(len(side.indexes)))
    types = {name: side.schema.field(name).type for name in side.columns}
    kept = list(side.payload)
    hashed = [index for index, codec in zip(side.indexes, codecs, strict=True) if not codec.exact]
    used = {q for index in hashed for key in index.exprs for q in key.columns}
    kept += [name for name in side.columns if f"{side.alias}.{name}" in used and name not in kept]
    rebuilt: dict[str, str] = {}
    for name in kept:
        source = _same_as_a_code(side, codecs, name) if is_rebuildable(types[name]) else None
        if source is not None:
            rebuilt[name] = code_column(source)
        elif name == side.event_time and spec.window is None and spec.bounded(number) and _fits_time(types[name]):
            rebuilt[name] = TIME
    stored = pa.schema([pa.field(name, types[name]) for name in kept if name not in rebuilt])
    timed: Timed = "timed" if side.order is not None else "untimed"
    if any(edge.band is not None and edge.band.on_time for edge in spec.edges_of(number)):
        timed = "coded"
    return TupleSchema(side.alias, codecs, timed, stored, rebuilt, types)


def _codec(spec: JoinSpec, number: int, k: int, seed: int, shown: Literal["shown", "redacted"]) -> KeyCodec:
    """The codec of index k of a side. Codes that are compared by order are never salted, and where there are such no
    others are: an index may be compared by order with one side and for equality with another."""
    index = spec.sides[number].indexes[k]
    hidden = shown == "redacted" and bool(index.exprs) and not spec.ordered_codes
    return KeyCodec(index.types, index.null_safe, seed, "salted" if hidden else "plain")


def _same_as_a_code(side: SideSpec, codecs: Sequence[KeyCodec], name: str) -> int | None:
    """The index whose codes are the values of this column; None if there is none."""
    for k, (index, codec) in enumerate(zip(side.indexes, codecs, strict=True)):
        if codec.exact and index.exprs and _is_plain(index.exprs[0], side.alias, name):
            return k
    return None


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
    more: tuple[Codes, ...] = ()

    @classmethod
    def of(cls, schema: TupleSchema, batch: pa.RecordBatch) -> Tuples:
        codes = np.asarray(batch.column(CODE))
        times = np.asarray(batch.column(TIME)) if schema.timed == "timed" else codes
        more: list[Codes] = [
            np.asarray(batch.column(code_column(k))) if codec.types else np.zeros(len(codes), np.int64)
            for k, codec in enumerate(schema.codecs)
            if k
        ]
        return cls(
            schema,
            codes,
            None if schema.timed == "untimed" else times,
            np.asarray(batch.column(POSITION)),
            batch,
            tuple(more),
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
        """What placement may know of the tuples: codes and position."""
        return At(self.codes, self.u, self.more)

    @property
    def ages(self) -> I64 | None:
        """The times by which the tuples expire."""
        return self.times

    @property
    def hubs(self) -> Tuples:
        """The tuples by which rows of this kind are probed: these themselves (packs have hubs, packs.py)."""
        return self

    @property
    def codes_by(self) -> tuple[Codes, ...]:
        """The codes by index."""
        return (self.codes, *self.more)

    def by_index(self, index: int) -> InOrder:
        """The tuples in the order of an index. O(n log n), but for index 0."""
        if index == 0:
            return InOrder(self.codes, self.times, None)
        codes = self.codes_by[index]
        rows = run_order(codes, self.times).astype(np.int32)
        return InOrder(codes[rows], None if self.times is None else self.times[rows], rows)

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
        if source != TIME:
            index = int(source.removeprefix(CODE) or 0)
            ordered = self.schema.codecs[index].ordered(np.take(self.codes_by[index], rows))
            return from_ordered_int64(ordered, self.schema.types[name])
        assert self.times is not None
        return pc.take(pa.array(self.times), pa.array(rows), boundscheck=False).cast(self.schema.types[name])
