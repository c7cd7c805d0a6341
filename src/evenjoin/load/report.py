"""The load report: a pure fold over a batch's receipts and the manifest after it.

Per instance and side the tuples stored and the probes of the interval (the papers' |R| and phi), results and busy
time; the same per cell of the table (a bucket, or a key with a region of its own), exact; and the heaviest keys. It
is recorded in the commit, so that a replay decides the same, and it is what the user sees as `query.load()`.

Bound of the heavy keys: each instance reports its k heaviest of the batch (HEAVY_KEYS, or what the planner asks for),
so a key that makes up more than 1/k of an instance's arrivals of a side is always among them, and what is said of it
is exact. Memory: k keys an instance, whatever the number of keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from evenjoin.load.receipt import CellCount, HeavyKey, Intake, Receipt
from evenjoin.load.samples import Sample, merge_samples, scaled
from evenjoin.state.manifest import Manifest

HEAVY_KEYS = 32
RECENT = 8
"""Batches of which the report remembers each instance's input (for LS-Stream's trimmed rate)."""


@dataclass(frozen=True, slots=True)
class InstanceLoad:
    instance: int
    stored: tuple[int, ...]
    probes: tuple[int, ...]
    results: tuple[int, ...]
    bytes: int
    busy_ms: float

    @property
    def matches(self) -> int:
        return sum(self.results)

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class LoadReport:
    """`recent[b][i]`: tuples instance i took in, in one of the last RECENT batches, this one last.
    `hash_us`, `transfer_us`: time to hash and place one row, and to take in one tuple sent.
    `samples[s]`: up to SAMPLE_POINTS (code, weight) points for side s's tuples alive, copies not counted: see
    load/samples.py; empty if nobody sampled."""

    batch: int
    instances: tuple[InstanceLoad, ...]
    heavy: tuple[HeavyKey, ...]
    cells: tuple[CellCount, ...]
    intake: tuple[Intake, ...]
    expired: int = 0
    recent: tuple[tuple[int, ...], ...] = ()
    hash_us: float = 0.0
    transfer_us: float = 0.0
    samples: tuple[Sample, ...] = ()

    @property
    def matches(self) -> int:
        return sum(load.matches for load in self.instances)

    @property
    def imbalance(self) -> float:
        """Busiest instance over the mean, by busy time: 1.0 is even."""
        busy = [load.busy_ms for load in self.instances]
        return max(busy) * len(busy) / sum(busy) if busy and sum(busy) > 0 else 1.0

    def to_json(self) -> dict[str, Any]:
        data = {name: getattr(self, name) for name in self.__slots__}
        for name in ("instances", "heavy", "intake"):
            data[name] = [item.to_json() for item in data[name]]
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> LoadReport:
        counts = ("stored", "probes", "results")
        return cls(
            **{
                **data,
                "instances": tuple(
                    InstanceLoad(**{**load, **{name: tuple(load[name]) for name in counts}})
                    for load in data["instances"]
                ),
                "heavy": tuple(map(HeavyKey.from_json, data["heavy"])),
                "cells": tuple(map(tuple, data["cells"])),
                "intake": tuple(Intake(**intake) for intake in data["intake"]),
                "recent": tuple(map(tuple, data["recent"])),
                "samples": tuple(tuple((code, weight) for code, weight in side) for side in data.get("samples", ())),
            }
        )


def fold(receipts: Sequence[Receipt], manifest: Manifest, sides: int, last: LoadReport | None = None) -> LoadReport:
    """The report of one batch; `last` is the one before it."""
    instances = tuple(
        InstanceLoad(
            receipt.instance,
            tuple(manifest.stored(receipt.instance, side) for side in range(sides)),
            receipt.probes,
            receipt.results,
            sum(run.bytes for side in range(sides) for run in manifest.of(receipt.instance, side)),
            receipt.busy_ms,
        )
        for receipt in receipts
    )
    intake = tuple(sum((r.intake[side] for r in receipts if r.intake), Intake()) for side in range(sides))
    taken = tuple(sum(r.stored) + sum(r.probes) for r in receipts)
    before = last.recent if last is not None and len(last.instances) == len(instances) else ()
    rows, received = sum(i.rows for i in intake), sum(taken)
    return LoadReport(
        receipts[0].batch,
        instances,
        _heaviest(receipts, sides),
        _cells(receipts),
        intake,
        recent=(*before, taken)[-RECENT:],
        hash_us=1000 * sum(i.hash_ms for i in intake) / rows if rows else 0.0,
        transfer_us=1000 * sum(r.receive_ms for r in receipts) / received if received else 0.0,
    )


def stored_under(report: LoadReport, manifest: Manifest) -> LoadReport:
    """The report with stored tuples and bytes as of another manifest: after expiry.

    What expires of a cell or key is not known, only what expires of a side: their stored tuples shrink by its share.
    """
    sides = range(len(report.intake))
    before = [sum(load.stored[side] for load in report.instances) for side in sides]
    left = [sum(manifest.stored(load.instance, side) for load in report.instances) for side in sides]
    share = [after / total if total else 1.0 for after, total in zip(left, before, strict=True)]
    return replace(
        report,
        cells=tuple((side, cell, new, round(old * share[side]), found) for side, cell, new, old, found in report.cells),
        heavy=tuple(
            replace(key, stored=tuple(round(count * share[side]) for side, count in enumerate(key.stored)))
            for key in report.heavy
        ),
        instances=tuple(
            replace(
                load,
                stored=tuple(manifest.stored(load.instance, side) for side in range(len(load.stored))),
                bytes=sum(run.bytes for side in range(len(load.stored)) for run in manifest.of(load.instance, side)),
            )
            for load in report.instances
        ),
    )


def sampled(report: LoadReport, receipts: Sequence[Receipt], last: LoadReport | None) -> LoadReport:
    """The report with its samples: those of the last one, less what has expired, and this batch's.

    How many tuples are alive follows from how many copies are stored, and how many copies a tuple of this batch has.
    """
    out = []
    for side, intake in enumerate(report.intake):
        old = last.samples[side] if last is not None and last.samples else ()
        arrived = intake.rows - intake.late - intake.unmatchable
        copies = sum(receipt.stored[side] for receipt in receipts)
        stored = sum(load.stored[side] for load in report.instances)
        if copies and arrived:
            alive = stored * arrived / copies
        else:
            before = sum(load.stored[side] for load in last.instances) if last is not None else 0
            alive = sum(weight for _, weight in old) * stored / before if before else 0.0
        out.append(merge_samples(scaled(old, alive - min(arrived, alive)), intake.sample))
    return replace(report, samples=tuple(out)) if any(out) else report


def _cells(receipts: Sequence[Receipt]) -> tuple[CellCount, ...]:
    total: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for receipt in receipts:
        for side, cell, *counts in receipt.cells:
            total[side, cell] = [a + b for a, b in zip(total[side, cell], counts, strict=True)]
    return tuple((side, cell, *total[side, cell]) for side, cell in sorted(total))  # type: ignore[misc]


def _heaviest(receipts: Sequence[Receipt], sides: int) -> tuple[HeavyKey, ...]:
    """Every reported key once, the heaviest first. A tuple is stored on one unit, but probes all units of the other
    side: so arrivals add up over instances, and any one instance where a side's tuples probe has seen all of them."""
    seen: dict[int, list[HeavyKey]] = defaultdict(list)
    for receipt in receipts:
        for key in receipt.heavy:
            seen[key.code].append(key)
    keys = []
    for code, parts in seen.items():
        probed = tuple(max(part.probed[s] for part in parts) for s in range(sides))
        arrived = tuple(max(sum(part.arrived[s] for part in parts), probed[s]) for s in range(sides))
        stored = tuple(sum(part.stored[s] for part in parts) for s in range(sides))
        results = tuple(sum(part.results[s] for part in parts) for s in range(sides))
        keys.append(HeavyKey(code, parts[0].name, arrived, probed, stored, results))
    return tuple(sorted(keys, key=lambda k: (-sum(k.arrived) - k.matches, k.code)))
