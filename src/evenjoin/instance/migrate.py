"""One instance's part of a migration: what its stored tuples do under a new table.

Nothing is moved: the tuples that the new table stores elsewhere are copied into new segments for their recipients,
and the old runs stay as they are, are masked (few tuples left), or are rewritten (many left); the commit that names
the new table retires the old ones. A tuple stored on several instances is sent by the lowest of them.
Sends exactly what `diff(old, new)` says, and nothing else.
"""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evenjoin.instance.two_way import Work, alive
from evenjoin.instance.verify import dirty_codes
from evenjoin.placement.diff import diff
from evenjoin.placement.place import place, stored_here
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import Role
from evenjoin.state.compaction import merged
from evenjoin.state.files import Folder
from evenjoin.state.layout import Tuples
from evenjoin.state.segment import Run, Segments, cut, seal

MASK_SHARE = 0.25
"""A run that loses at most this share of its tuples is masked, otherwise rewritten."""


@dataclass(frozen=True, slots=True)
class Migrated:
    """What one donor did: runs gone from its own places, runs come to any place, tuples and bytes sent."""

    instance: int
    gone: Mapping[int, tuple[Run, ...]]
    come: Mapping[tuple[int, int], tuple[Run, ...]]
    tuples: int
    bytes: int
    busy_ms: float

    def to_json(self) -> dict[str, Any]:
        return {
            "instance": self.instance,
            "gone": [[side, [r.to_json() for r in runs]] for side, runs in self.gone.items()],
            "come": [[*place_, [r.to_json() for r in runs]] for place_, runs in self.come.items()],
            "tuples": self.tuples,
            "bytes": self.bytes,
            "busy_ms": self.busy_ms,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Migrated:
        return cls(
            data["instance"],
            {side: tuple(map(Run.from_json, runs)) for side, runs in data["gone"]},
            {(instance, side): tuple(map(Run.from_json, runs)) for instance, side, runs in data["come"]},
            data["tuples"],
            data["bytes"],
            data["busy_ms"],
        )


def migrate_instance(work: Work, new: RoutingTable, instance: int, folder: Folder, segments: Segments) -> Migrated:
    """Send away what `new` stores elsewhere. `work` names the old table and the runs."""
    started = time.perf_counter()
    attempt = uuid.uuid4().hex[:12]
    gone: dict[int, tuple[Run, ...]] = {}
    come: dict[tuple[int, int], tuple[Run, ...]] = defaultdict(tuple)
    sent = sent_bytes = 0
    for side in range(len(work.layouts)):
        leaving: list[Run] = []
        parcels: dict[int, list[tuple[Tuples, npt.NDArray[np.bool_] | None]]] = defaultdict(list)
        for run in work.runs.get((instance, side), ()):
            tuples = segments.read(side, run)
            mask = alive(work, instance, side, run, tuples)
            live = np.ones(len(tuples), np.bool_) if mask is None else mask
            stay = stored_here(new, side, tuples.codes, tuples.u, instance) & live
            for recipient, rows in _sent(work.table, new, side, instance, tuples, live):
                parcels[recipient].append((tuples, rows))
                sent += int(rows.sum())
            kept = int(stay.sum())
            if kept == run.alive:
                continue
            leaving.append(run)
            if kept and run.mask is None and run.rows - kept <= MASK_SHARE * run.rows:
                come[instance, side] += (replace(run, alive=kept, mask=f"{new.version}-{new.digest}"),)
            elif kept:
                parcels[instance].append((tuples, stay))
        if leaving:
            gone[side] = tuple(leaving)
        for recipient, parts in parcels.items():
            whole = merged(work.layouts[side], parts)
            pieces = [(n, t, dirty_codes(work.spec, side, t)) for n, t in cut(whole, work.sub_windows[side])]
            name = f"segments/{work.batch}/{side}-moved-i{recipient}-from{instance}-{attempt}.arrow"
            come[recipient, side] += seal(folder, name, pieces)
            sent_bytes += whole.batch.nbytes if recipient != instance else 0
    work.step("moved", instance)
    return Migrated(instance, gone, dict(come), sent, sent_bytes, (time.perf_counter() - started) * 1000)


def _sent(
    old: RoutingTable, new: RoutingTable, side: int, instance: int, tuples: Tuples, live: npt.NDArray[np.bool_]
) -> list[tuple[int, npt.NDArray[np.bool_]]]:
    """Per recipient the mask of the rows this donor sends it."""
    moves = diff(old, new, side, tuples.codes, tuples.u)
    before = place(old, side, tuples.codes, tuples.u).only(Role.STORE)
    lowest = np.full(len(tuples), np.iinfo(np.int32).max, np.int32)
    np.minimum.at(lowest, before.row, before.instance)
    mine = live & (lowest == instance)
    out = []
    for recipient in np.unique(moves.enter_instance):
        rows = np.zeros(len(tuples), np.bool_)
        rows[moves.enter_row[moves.enter_instance == recipient]] = True
        rows &= mine
        if rows.any():
            out.append((int(recipient), rows))
    return out
