"""One donor's part of a migration: an instance sends away those of its stored tuples that a new table stores elsewhere.

    stored tuples that enter another instance      are copied into a new segment for that recipient
    a run that loses nothing                       stays as it is
    a run that loses at most MASK_SHARE            stays, and is masked: the new table says which tuples are alive
    a run that loses more, or is masked already    what stays of it is copied into a new segment
    a run that loses everything                    is dropped
    an instance that gets another number           sends no more for that: the manifest renumbers it (advance.py)
    packs that the new table's program has not     are dropped

Guarantee: what is sent is the `enter` of `diff(old, new)` for the tuples alive, each exactly once. Of several instances
that store a tuple the lowest one sends it. A tuple that the old table does not store here is a StateCorruptionError:
somebody else would send it too. No file is changed or deleted: until the commit that names the new table the
old runs are the state, so a crash on the way undoes the migration.
Not here: which table to use (strategies/), and the manifest that names the new runs (runtime/advance.py).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenjoin.errors import StateCorruptionError
from evenjoin.instance.batch import sealed
from evenjoin.instance.programs import program_of
from evenjoin.instance.work import Work
from evenjoin.placement.diff import diff, heirs
from evenjoin.placement.place import place, stored_here
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import Role
from evenjoin.state.files import Folder
from evenjoin.state.manifest import Place
from evenjoin.state.packs import Rows
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


Parcels = dict[int, list[pa.RecordBatch]]
"""By recipient: the tuples that it gets."""


def migrate_instance(
    work: Work, new: RoutingTable, instance: int, folder: Folder, segments: Segments, attempt: str
) -> Migrated:  # fmt: skip
    """Send away what `new` stores elsewhere. `work` holds the old table and the runs that it places."""
    started = time.perf_counter()
    gone: dict[Place, tuple[Run, ...]] = defaultdict(tuple)
    come: dict[Place, tuple[Run, ...]] = defaultdict(tuple)
    sent = sent_bytes = 0
    kept, heir = lasting(work, new), int(heirs(work.table, new)[instance])
    for store in range(len(work.program.stores)):
        if store not in kept:
            gone[instance, store] = work.runs.get((instance, store), ())
            continue
        parcels: Parcels = defaultdict(list)
        for run in work.runs.get((instance, store), ()):
            tuples = segments.read(work.schemas[store], run)
            stays, leaves = _split(work, new, instance, store, run, tuples)
            for recipient, rows in leaves:
                parcels[recipient].append(tuples.batch.filter(pa.array(rows)))
                sent += int(rows.sum())
            left = int(stays.sum())
            if left == run.alive and heir >= 0:
                continue
            gone[instance, store] += (run,)
            if left and run.mask is None and run.rows - left <= MASK_SHARE * run.rows:
                come[heir, store] += (replace(run, alive=left, mask=new.name),)
            elif left:
                parcels[heir].append(tuples.batch.filter(pa.array(stays)))
        for recipient, parts in parcels.items():
            whole = work.schemas[store].joined(parts, work.schemas[store].run)
            name = f"segments/{work.batch}/{store}-moved-i{recipient}-from{instance}-{work.mark}-{attempt}.arrow"
            come[recipient, store] += sealed(work, store, cut(whole, work.sub_windows[store]), folder, name)
            sent_bytes += whole.batch.nbytes if recipient != heir else 0
    if work.step is not None:
        work.step("moved", instance)
    return Migrated(instance, heir, dict(gone), dict(come), sent, sent_bytes, (time.perf_counter() - started) * 1000)


def lasting(work: Work, new: RoutingTable) -> set[int]:
    """The stores that the program of the new table has as well."""
    if new.program == work.table.program:
        return set(range(len(work.program.stores)))
    stores = program_of(work.spec, new.program).stores
    both = zip(work.program.stores, stores, strict=False)
    return {
        number for number, (old, kept) in enumerate(both) if not old.packs or replace(old, packing=kept.packing) == kept
    }


def _split(
    work: Work, new: RoutingTable, instance: int, store: int, run: Run, tuples: Rows
) -> tuple[npt.NDArray[np.bool_], list[tuple[int, npt.NDArray[np.bool_]]]]:
    """Which tuples of a run stay alive here, and for each recipient which of them this donor sends to it."""
    group, at = work.program.stores[store].group, tuples.at
    alive = work.alive(instance, store, run, tuples)
    live = np.ones(len(tuples), np.bool_) if alive is None else alive
    moves = diff(work.table, new, group, at)
    before = place(work.table, group, at).only(Role.STORE)
    here = np.zeros(len(tuples), np.bool_)
    here[before.row[before.instance == instance]] = True
    if (live & ~here).any():
        raise StateCorruptionError(
            f"instance {instance} holds tuples in {run.file} that table {work.table.name} does not store there: "
            "restore the checkpoint from a copy or start a new one"
        )
    lowest = np.full(len(tuples), np.iinfo(np.int32).max, np.int32)
    np.minimum.at(lowest, before.row, before.instance)
    mine = live & (lowest == instance)
    leaves = []
    for recipient in np.unique(moves.enter_instance):
        rows = np.zeros(len(tuples), np.bool_)
        rows[moves.enter_row[moves.enter_instance == recipient]] = True
        rows &= mine
        if rows.any():
            leaves.append((int(recipient), rows))
    heir = int(heirs(work.table, new)[instance])
    return (stored_here(new, group, at, heir) & live if heir >= 0 else ~live & live), leaves
