"""Packs: intermediate results. A pack is one tuple, the hub, and the tuples of another side that match it.

    hub      struct         a tuple of the hub's side, with all columns that its own store would have
    members  list<struct>   tuples of the member's side, likewise

This is TriJoin's TuplePacking (Sec. 3.3, Fig. 7): the hub is the tuple whose side has a condition with the third side,
so a newcomer of the third side is compared once with the hub and not once with every pair. A tuple pair is a pack of
one member.

    sort      by the hub's code towards the third side (its index `index`) and the hub's time: packs are probed by hub
    anchor    what the whole pack is placed and moved by: the codes and the position of the tuple that is stored at the
              unit where the pack was made (the hub or the first member), or a position of hub and first member
              together, where pairs have units of their own
    clock     whose times say when a pack is dead: the hub's, or those of its latest member

Invariant: `Packs` are sorted as a run is, and every pack has a member. Packs of equal hubs may be there more than once
(a hub that is stored gets new members in every batch); they become one when runs are merged, unless `packing` is
"paired".
Not here: which tuples match (instance/follow.py), and files (segment.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenjoin.kernels.content import content, mix_in_place
from evenjoin.kernels.hashing import I64, U64, Codes, KeyCodec, mix64
from evenjoin.kernels.runs import expand, run_order
from evenjoin.placement.place import At
from evenjoin.state.tuples import POSITION, ROLE, Tuples, TupleSchema

HUB, MEMBERS = "hub", "members"
Packing = Literal["packed", "paired"]


@dataclass(frozen=True, slots=True)
class PackSchema:
    """The columns of packs: those of the hub's side and of the member's. `index` is the hub's index towards the third
    side."""

    hub: TupleSchema
    member: TupleSchema
    index: int
    anchor: Literal["hub", "member", "both"]
    clock: Literal["hub", "member"]
    packing: Packing

    @property
    def codec(self) -> KeyCodec:
        """The codec of the codes by which packs are sorted."""
        return self.hub.codecs[self.index]

    @property
    def run(self) -> pa.Schema:
        """The columns of a run."""
        return pa.schema(
            [
                pa.field(HUB, pa.struct(list(self.hub.run)), nullable=False),
                pa.field(MEMBERS, pa.list_(pa.field("item", pa.struct(list(self.member.run)), nullable=False))),
            ]
        )

    @property
    def wire(self) -> pa.Schema:
        """The columns of packs on their way to an instance: those of a run, and the role."""
        return self.run.append(pa.field(ROLE, pa.uint8(), nullable=False))

    def joined(self, batches: Sequence[pa.RecordBatch], columns: pa.Schema) -> Packs:
        """The packs of several batches with these columns, sorted as a run is."""
        pieces = pa.Table.from_batches(batches, columns).combine_chunks().to_batches()
        return Packs.of(self, pieces[0] if pieces else _empty(columns)).in_order()


@dataclass(frozen=True, slots=True)
class Packs:
    """Packs as arrays. The members of pack p are `members[offsets[p]:offsets[p + 1]]`."""

    schema: PackSchema
    hubs: Tuples
    members: Tuples
    offsets: I64
    batch: pa.RecordBatch

    @classmethod
    def of(cls, schema: PackSchema, batch: pa.RecordBatch) -> Packs:
        lists = batch.column(MEMBERS)
        offsets = np.asarray(lists.offsets).astype(np.int64)
        return cls(
            schema,
            Tuples.of(schema.hub, _unstructed(batch.column(HUB), schema.hub.run)),
            Tuples.of(schema.member, _unstructed(lists.flatten(), schema.member.run)),
            offsets - offsets[0],
            batch,
        )

    @classmethod
    def make(cls, schema: PackSchema, hubs: pa.RecordBatch, members: pa.RecordBatch, counts: I64) -> Packs:
        """Packs of these hubs, in any order, with so many of the members each, one after the other."""
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(offsets), _structed(members), type=schema.run.field(MEMBERS).type)
        return cls.of(schema, pa.RecordBatch.from_arrays([_structed(hubs), lists], schema=schema.run)).in_order()

    def __len__(self) -> int:
        return len(self.hubs)

    @property
    def codes(self) -> Codes:
        """The hubs' codes towards the third side."""
        return self.hubs.codes_by[self.schema.index]

    @property
    def times(self) -> I64 | None:
        """The hubs' times."""
        return self.hubs.times

    @property
    def ages(self) -> I64 | None:
        """The times by which the packs expire."""
        if self.schema.clock == "hub" or self.members.times is None or len(self) == 0:
            return self.hubs.times
        return np.maximum.reduceat(self.members.times, self.offsets[:-1])

    @property
    def counts(self) -> I64:
        """How many members each pack has."""
        return np.diff(self.offsets)

    @property
    def at(self) -> At:
        """What placement may know of the packs: codes and position of their anchors."""
        if self.schema.anchor == "hub":
            return self.hubs.at
        first = self.members.at.take(self.offsets[:-1])
        if self.schema.anchor == "member":
            return first
        both = (self.hubs.u.astype(np.uint64) << np.uint64(32)) | first.u
        return At(self.hubs.codes, (mix64(both) >> np.uint64(32)).astype(np.uint32), self.hubs.more)

    def ids(self, seed: int) -> U64:
        """[packs] The sum of a hash of each of the pack's pairs. So the ids of packs add up to the same however their
        pairs are packed: that depends on the order of rows, and on where `pair_limit` cuts."""
        hubs, ids = (content(tuples.batch.columns, seed) for tuples in (self.hubs, self.members))
        if len(self) == 0:
            return hubs
        ids += np.repeat(hubs, self.counts)
        mix_in_place(ids, np.empty_like(ids))
        return np.add.reduceat(ids, self.offsets[:-1])

    def take(self, rows: npt.NDArray[Any]) -> Packs:
        return Packs.of(self.schema, self.batch.take(pa.array(rows)))

    def in_order(self) -> Packs:
        """The same packs, sorted as a run is."""
        return self.take(run_order(self.codes, self.times))

    def of_equal_hubs(self) -> Packs:
        """The same with one pack for each hub, where several have hubs that are equal in all columns but position."""
        if self.schema.packing == "paired" or len(self) == 0:
            return self
        columns = [name for name in self.schema.hub.run.names if name != POSITION]
        ids = content([self.hubs.batch.column(name) for name in columns], 0)
        order = np.lexsort((ids, self.codes) if self.times is None else (ids, self.times, self.codes))
        first = np.flatnonzero(np.diff(ids[order], prepend=ids[order][:1] + np.uint64(1)))
        if len(first) == len(order):
            return self
        members = expand(self.offsets[:-1][order], self.counts[order])
        counts = np.add.reduceat(self.counts[order], first)
        return Packs.make(self.schema, self.hubs.take(order[first]).batch, self.members.take(members).batch, counts)


def _structed(batch: pa.RecordBatch) -> pa.StructArray:
    return pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))


def _unstructed(array: pa.StructArray, columns: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(array.flatten(), schema=columns)


def _empty(columns: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in columns], schema=columns)


Rows = Tuples | Packs
"""What a store keeps."""
Schema = TupleSchema | PackSchema
