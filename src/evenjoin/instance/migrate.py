"""One donor's part of a migration: an instance sends away those of its stored tuples that a new table stores elsewhere.

    stored tuples that enter another instance      are copied into a new segment for that recipient
    a store of which nothing here can change       is not opened; an instance with only such stores needs no task
    a run that loses nothing                       stays as it is
    a run that loses at most MASK_SHARE            stays, and is masked: the new table says which tuples are alive
    a run that loses more, or is masked already    what stays of it is copied into a new segment
    a run that loses everything                    is dropped
    an instance that gets another number           sends no more for that: the manifest renumbers it (advance.py)
    packs that the new table's program has not     are dropped

Of a run that is opened only the rows of changed cells are compared (`changed` in placement/diff.py). Runs are sorted by
code, so the rows of single codes are found by binary search; where buckets change the distinct codes are hashed. Packs
are not sorted by what they are placed by: the codes of all their anchors are looked at. What stays of a run is read as
a whole only if it is copied. Between tables of areas, or cubes by code, every row is compared.

Guarantee: what is sent is the `enter` of `diff(old, new)` for the tuples alive, each exactly once. Of several instances
that store a tuple the lowest one sends it. A tuple that is compared, and that the old table does not store here, is a
StateCorruptionError: somebody else would send it too. No file is changed or deleted: until the commit that names the
new table the old runs are the state, so a crash on the way undoes the migration.
Not guaranteed: that damage is noticed in what does not move. The batch that reads it next checks its files.
Not here: which table to use (strategies/), and the manifest that names the new runs (runtime/advance.py).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from evenjoin.errors import StateCorruptionError
from evenjoin.instance.batch import sealed
from evenjoin.instance.programs import program_of
from evenjoin.instance.work import Work
from evenjoin.kernels.hashing import I64
from evenjoin.placement.diff import Changed, changed, heirs, stored_and_moved
from evenjoin.placement.table import RoutingTable
from evenjoin.state.files import Folder
from evenjoin.state.manifest import Place
from evenjoin.state.packs import Packs, Rows
from evenjoin.state.segment import Run, Segments, cut

MASK_SHARE = 0.25
"""A run without a mask that loses at most this share of its tuples gets one. Any other run is rewritten."""


@dataclass(frozen=True, slots=True)
class Migrated:
    """What one donor did: runs that go from its own places (its number is that of the old table), runs that come to any
    place (numbered as in the new table), and the tuples and bytes that it wrote for other instances. `heir` is its own
    number in the new table; -1: it has none, and nothing is left of it."""

    instance: int
    heir: int
    gone: Mapping[Place, tuple[Run, ...]]
    come: Mapping[Place, tuple[Run, ...]]
    tuples: int
    bytes: int
    busy_ms: float

    def to_json(self) -> dict[str, Any]:
        runs = {
            name: [[*place_, [run.to_json() for run in runs]] for place_, runs in getattr(self, name).items()]
            for name in ("gone", "come")
        }
        return {
            "instance": self.instance,
            "heir": self.heir,
            **runs,
            "tuples": self.tuples,
            "bytes": self.bytes,
            "busy_ms": self.busy_ms,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Migrated:
        gone, come = (
            {(instance, store): tuple(map(Run.from_json, runs)) for instance, store, runs in data[name]}
            for name in ("gone", "come")
        )
        return cls(data["instance"], data["heir"], gone, come, data["tuples"], data["bytes"], data["busy_ms"])


@dataclass(frozen=True, slots=True)
class Moving:
    """A change of table, as all its donors are told of it. `work` holds the old table and the runs that it places.

    heirs     by old instance its number in the new table; -1: it has none
    changed   by group what changes place; None: anything may
    kept      the stores that the program of the new table has as well
    """

    work: Work
    new: RoutingTable
    heirs: tuple[int, ...]
    changed: tuple[Changed | None, ...]
    kept: frozenset[int]

    @classmethod
    def to(cls, new: RoutingTable, work: Work) -> Moving:
        old = work.table
        groups = range(min(old.groups, new.groups))  # a program may have one more, of packs that the other has not
        some = tuple(changed(old, new, group) for group in groups)
        return cls(work, new, tuple(heirs(old, new).tolist()), some, lasting(work, new))

    def reads(self, instance: int) -> list[int]:
        """The stores whose runs an instance must open: those that it has, and that may lose or send something."""
        return [
            store for store in sorted(self.kept) if (instance, store) in self.work.runs and self._may(instance, store)
        ]

    def _may(self, instance: int, store: int) -> bool:
        some = self.changed[self.work.program.stores[store].group]
        return some is None or self.heirs[instance] < 0 or bool(some.holders[instance])

    @property
    def donors(self) -> list[int]:
        """The instances that must read something."""
        return [instance for instance in range(self.work.table.instances) if self.reads(instance)]

    def completed(self, donors: Iterable[Migrated]) -> list[Migrated]:
        """What all instances did, by number: the donors, and those that read nothing."""
        done = {donor.instance: donor for donor in donors}
        every = range(self.work.table.instances)
        return [done.get(i) or Migrated(i, self.heirs[i], self.dropped(i), {}, 0, 0, 0.0) for i in every]

    def dropped(self, instance: int) -> dict[Place, tuple[Run, ...]]:
        """The runs of packs that the new table's program has not."""
        stores = set(range(len(self.work.program.stores))) - self.kept
        return {(instance, store): runs for store in stores if (runs := self.work.runs.get((instance, store)))}


def migrate_here(
    work: Work, new: RoutingTable, folder: Folder, segments: Segments, attempt: Callable[[], str]
) -> list[Migrated]:  # fmt: skip
    """A whole migration in this process, one donor after the other. Each is an `attempt` of its own."""
    moving = Moving.to(new, work)
    return moving.completed(migrate_instance(moving, donor, folder, segments, attempt()) for donor in moving.donors)


Parcels = dict[int, list[pa.RecordBatch]]
"""By recipient: the tuples that it gets."""


def migrate_instance(moving: Moving, instance: int, folder: Folder, segments: Segments, attempt: str) -> Migrated:
    """Send away what the new table stores elsewhere."""
    started = time.perf_counter()
    work, heir = moving.work, moving.heirs[instance]
    gone: dict[Place, tuple[Run, ...]] = defaultdict(tuple, moving.dropped(instance))
    come: dict[Place, tuple[Run, ...]] = defaultdict(tuple)
    sent = sent_bytes = 0
    for store in moving.reads(instance):
        parcels: Parcels = defaultdict(list)
        for run in work.runs[instance, store]:
            tuples = segments.read(work.schemas[store], run)
            lost, leaves = _compared(moving, instance, store, run, tuples)
            for recipient, rows in leaves:
                parcels[recipient].append(tuples.batch.take(pa.array(rows)))
                sent += len(rows)
            if not len(lost) and heir >= 0:
                continue
            gone[instance, store] += (run,)
            left = run.alive - len(lost)
            if left and run.mask is None and len(lost) <= MASK_SHARE * run.rows:
                come[heir, store] += (replace(run, alive=left, mask=moving.new.name),)
            elif left:
                alive = work.alive(instance, store, run, tuples)
                stays = np.ones(len(tuples), np.bool_) if alive is None else alive
                stays[lost] = False
                parcels[heir].append(tuples.batch.filter(pa.array(stays)))
        for recipient, parts in parcels.items():
            whole = work.schemas[store].joined(parts, work.schemas[store].run)
            name = f"segments/{work.batch}/{store}-moved-i{recipient}-from{instance}-{work.mark}-{attempt}.arrow"
            come[recipient, store] += sealed(work, store, cut(whole, work.sub_windows[store]), folder, name)
            sent_bytes += whole.batch.nbytes if recipient != heir else 0
    if work.step is not None:
        work.step("moved", instance)
    return Migrated(instance, heir, dict(gone), dict(come), sent, sent_bytes, (time.perf_counter() - started) * 1000)


def lasting(work: Work, new: RoutingTable) -> frozenset[int]:
    """The stores that the program of the new table has as well."""
    if new.program == work.table.program:
        return frozenset(range(len(work.program.stores)))
    stores = program_of(work.spec, new.program).stores
    both = zip(work.program.stores, stores, strict=False)
    return frozenset(
        number for number, (old, kept) in enumerate(both) if not old.packs or replace(old, packing=kept.packing) == kept
    )


def _compared(
    moving: Moving, instance: int, store: int, run: Run, tuples: Rows
) -> tuple[I64, list[tuple[int, I64]]]:  # fmt: skip
    """Which rows of a run are no longer alive here, and for each recipient which rows this donor sends to it."""
    old, group = moving.work.table, moving.work.program.stores[store].group
    at, rows = tuples.at, np.arange(len(tuples))
    some = moving.changed[group]
    if some is not None and moving.heirs[instance] >= 0:
        rows = some.rows(at.codes, "any" if isinstance(tuples, Packs) else "sorted")
        at = at.take(rows)
    if not len(rows):
        return rows, []
    live = moving.work.alive_at(instance, store, run, at) if run.mask else np.ones(len(rows), np.bool_)
    before, moves = stored_and_moved(old, moving.new, group, at)
    here = np.zeros(len(rows), np.bool_)
    here[before.row[before.instance == instance]] = True
    if (live & ~here).any():
        raise StateCorruptionError(
            f"instance {instance} holds tuples in {run.file} that table {old.name} does not store there: "
            "restore the checkpoint from a copy or start a new one"
        )
    first = np.flatnonzero(np.diff(before.row, prepend=-1))
    lowest = np.full(len(rows), -1, np.int32)
    lowest[before.row[first]] = np.minimum.reduceat(before.instance, first)
    mine = (live & (lowest == instance))[moves.enter_row]
    row, recipient = moves.enter_row[mine], moves.enter_instance[mine]
    leaves = [(int(number), rows[row[recipient == number]]) for number in np.unique(recipient)]
    lost = moves.leave_row[moves.leave_instance == instance]
    return rows[lost[live[lost]]], leaves
