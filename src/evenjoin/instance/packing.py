"""Packing up: the pairs that a path finds become packs (state/packs.py), to be kept here or sent on.

    found pairs, chunk by chunk  ->  by hub  ->  packs

A newcomer that is the hub gets one pack of all that it matches at this unit, over all runs. A stored tuple that is the
hub gets one pack of all newcomers of the batch that match it. Paired, every pair is a pack.

Memory: pairs are held as row numbers, until they are `LIMIT` times `pair_limit`; then they become packs at once, and a
hub may have several. Members are copied when packs are made.
Pure. Not here: finding pairs (follow.py), sealing packs and sending them (batch.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenjoin.instance.emit import Found
from evenjoin.kernels.hashing import I64
from evenjoin.kernels.runs import group_starts
from evenjoin.state.packs import Packs, PackSchema
from evenjoin.state.tuples import Tuples

LIMIT = 8
"""How many times `pair_limit` pairs are held before packs are made of them."""


@dataclass(slots=True)
class _Column:
    """One tuple for each pair: which tuples, and which row of them. Rows of several sets of tuples are numbered
    through."""

    sets: list[Tuples] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    rows: list[I64] = field(default_factory=list)

    def add(self, tuples: Tuples, rows: npt.NDArray[Any]) -> None:
        if not self.sets or self.sets[-1] is not tuples:
            self.starts.append(self.starts[-1] + len(self.sets[-1]) if self.sets else 0)
            self.sets.append(tuples)
        self.rows.append(rows.astype(np.int64) + self.starts[-1])

    def numbers(self) -> I64:
        """[pairs] The number of each pair's tuple."""
        return np.concatenate(self.rows)

    def batch(self, numbers: I64) -> pa.RecordBatch:
        """The tuples of these numbers, in their order."""
        if len(self.sets) == 1:
            return self.sets[0].batch.take(pa.array(numbers))
        which = np.searchsorted(np.array(self.starts), numbers, "right") - 1
        order = np.argsort(which, kind="stable")
        bounds = np.searchsorted(which[order], np.arange(len(self.sets) + 1))
        parts = [
            tuples.batch.take(pa.array(numbers[order[bounds[k] : bounds[k + 1]]] - self.starts[k]))
            for k, tuples in enumerate(self.sets)
            if bounds[k] < bounds[k + 1]
        ]
        (whole,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return whole.take(pa.array(back))


class Packer:
    """Collects pairs of the sides (hub, member) and makes packs of them."""

    def __init__(self, schema: PackSchema, covers: tuple[int, ...], pair_limit: int) -> None:
        self._schema, (self._hub, self._member) = schema, covers
        self._most = LIMIT * pair_limit
        self._hubs, self._members, self._held = _Column(), _Column(), 0

    def add(self, found: Found) -> None:
        self._hubs.add(*found[self._hub])
        self._members.add(*found[self._member])
        self._held += len(found[self._hub][1])

    @property
    def is_full(self) -> bool:
        return self._held >= self._most

    def packs(self) -> Packs | None:
        """The packs of all pairs held, which are then forgotten; None if there are none."""
        if not self._held:
            return None
        hubs, members = self._hubs.numbers(), self._members.numbers()
        order = np.argsort(hubs, kind="stable")
        if self._schema.packing == "packed":
            starts = group_starts(hubs[order])
        else:
            starts = np.arange(len(order) + 1)
        made = Packs.make(
            self._schema,
            self._hubs.batch(hubs[order][starts[:-1]]),
            self._members.batch(members[order]),
            np.diff(starts),
        )
        self._hubs, self._members, self._held = _Column(), _Column(), 0
        return made
