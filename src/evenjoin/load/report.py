"""The load report: what one batch showed of the load. A pure fold over the batch's receipts and the manifest after it.

It has, per instance and side, the tuples stored and those that probed in the interval (the papers' |R| and phi),
results and busy time; the same per cell of the table (a bucket, or a key with a region of its own); and the heaviest
keys. The report is recorded in the commit, and it is what the user sees as `query.load()`.

What may be relied on:

* Counts per instance are exact. So are counts per cell, except that expiry is known per side only: when tuples expire,
  the stored tuples of each cell and key shrink by the side's share.
* Each instance reports its k heaviest keys of the batch (HEAVY_KEYS, or what the planner asks for). What it says of a
  key is exact for that instance. A key that some instance did not report is counted without that instance.
* Memory: k keys an instance, whatever the number of keys.

Not here: what the load means for the next table (the papers' models beside this file, and strategies/).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any

from evenjoin.load.intake import Intake
from evenjoin.load.receipt import CellCount, HeavyKey, Receipt
from evenjoin.load.samples import Grain, Sample, Slice, Slices, coarsened, joined, scaled, slices_from_json, whole
from evenjoin.state.manifest import Manifest

HEAVY_KEYS = 32
RECENT = 8
"""For how many batches the report remembers what each instance took in (for LS-Stream's trimmed rate)."""


@dataclass(frozen=True, slots=True)
class PackLoad:
    """What an instance did with one store of packs (state/packs.py). The store is named after who made it where: `s@r`
    are packs that newcomers of s made at units of r, `pairs` those of a tree.

    made, pairs           packs made in the batch, and pairs in them
    sent, sent_bytes      messages with packs that were sent on to the next hop, and their bytes
    alive, alive_pairs    packs kept after the batch, and pairs in them
    """

    name: str
    made: int = 0
    pairs: int = 0
    sent: int = 0
    sent_bytes: int = 0
    alive: int = 0
    alive_pairs: int = 0

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class InstanceLoad:
    """The load of one instance. `stored`, `probes`, `results`, `messages` and `sent_bytes` are per side, and mean what
    they mean in a receipt (receipt.py), as `hubs`, `members` and `waited_ms` do."""

    instance: int
    stored: tuple[int, ...]
    probes: tuple[int, ...]
    results: tuple[int, ...]
    bytes: int
    busy_ms: float
    messages: tuple[int, ...] = ()
    sent_bytes: tuple[int, ...] = ()
    packs: tuple[PackLoad, ...] = ()
    hubs: int = 0
    members: int = 0
    waited_ms: float = 0.0

    @property
    def matches(self) -> int:
        return sum(self.results)

    def to_json(self) -> dict[str, Any]:
        data = {name: getattr(self, name) for name in self.__slots__}
        return {**data, "packs": [pack.to_json() for pack in self.packs]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> InstanceLoad:
        counts = ("stored", "probes", "results", "messages", "sent_bytes")
        packs = tuple(PackLoad(**pack) for pack in data["packs"])
        return cls(**{**data, **{name: tuple(data[name]) for name in counts}, "packs": packs})


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The load of one batch.

    instances, heavy, cells   by instance; the heaviest keys, heaviest first; by cell of the table
    intake, expired           what dispatch saw, by side; how many stored tuples expired
    recent[b][i]              tuples that instance i took in, for the last RECENT batches with as many instances; this
                              batch is the last
    hash_us, transfer_us      the time to encode and place one row, and to take in one tuple that was sent
    samples[s]                points (code, weight, further codes) for the tuples of side s that are alive, copies not
                              counted (load/samples.py); empty if nobody sampled
    rise[s]                   by how much the largest code grows a batch, if most tuples of the batch have larger codes
                              than all before; else 0
    slices[s]                 the same points by sub-window, so that they expire with it; a commit has these
    sizes[s]                  the bytes that a stored tuple of side s takes in memory, on average; 1 if none is stored
    """

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
    slices: tuple[Slices, ...] = ()
    rise: tuple[float, ...] = ()
    sizes: tuple[float, ...] = ()

    @property
    def matches(self) -> int:
        return sum(load.matches for load in self.instances)

    @property
    def imbalance(self) -> float:
        """The busy time of the busiest instance over the mean; 1.0 is even. Strategies have measures of their own."""
        busy = [load.busy_ms for load in self.instances]
        return max(busy) * len(busy) / sum(busy) if busy and sum(busy) > 0 else 1.0

    def to_json(self) -> dict[str, Any]:
        data = {name: getattr(self, name) for name in self.__slots__}
        for name in ("instances", "heavy", "intake"):
            data[name] = [item.to_json() for item in data[name]]
        if self.slices:
            del data["samples"]
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> LoadReport:
        slices = tuple(map(slices_from_json, data.get("slices", ())))
        samples = tuple(map(whole, slices)) or tuple(tuple(map(tuple, side)) for side in data.get("samples", ()))
        return cls(
            **{
                **data,
                "instances": tuple(map(InstanceLoad.from_json, data["instances"])),
                "heavy": tuple(map(HeavyKey.from_json, data["heavy"])),
                "cells": tuple(map(tuple, data["cells"])),
                "intake": tuple(Intake(**intake) for intake in data["intake"]),
                "recent": tuple(map(tuple, data["recent"])),
                "samples": samples,
                "slices": slices,
                "rise": tuple(data.get("rise", ())),
                "sizes": tuple(data.get("sizes", ())),
            }
        )


def report_of(
    receipts: Sequence[Receipt], stored: Manifest, kept: Manifest, expired: int, last: LoadReport | None,
    packs: Mapping[int, str] | None = None, grain: Grain | None = None,
) -> LoadReport:  # fmt: skip
    """The report of one batch. `stored` is the state with everything that its receipts sealed, and `kept` the part of
    it that has not expired (`expired` tuples have). `last` is the report of the batch before. `packs` names the stores
    of packs. `grain` says how many points stand for a side."""
    report = fold(receipts, stored, len(receipts[0].stored), last)
    report = replace(stored_under(report, kept), expired=expired, sizes=_sizes(kept, len(receipts[0].stored)))
    if packs:
        report = replace(
            report,
            instances=tuple(_packed(*both, kept, packs) for both in zip(report.instances, receipts, strict=True)),
        )
    return sampled(report, receipts, last, _gone(stored, kept, len(report.intake)), grain or Grain())


def _sizes(kept: Manifest, sides: int) -> tuple[float, ...]:
    """Per side the bytes of a stored tuple."""
    total = [[0, 0] for _ in range(sides)]
    for _, store, run in kept:
        if store < sides:
            total[store][0] += run.bytes
            total[store][1] += run.rows
    return tuple(round(size / rows, 1) if rows else 1.0 for size, rows in total)


def _packed(load: InstanceLoad, receipt: Receipt, kept: Manifest, names: Mapping[int, str]) -> InstanceLoad:
    """The load of an instance with that of its packs. A store of packs is counted at one hop, and what is sent of it
    where it is made."""
    out = []
    for store, name in names.items():
        counts = [count[1:] for count in receipt.packs if count[0] == store] or [(0, 0, 0, 0)]
        runs = kept.of(load.instance, store)
        alive, pairs = sum(run.alive for run in runs), sum(run.pairs * run.alive // run.rows for run in runs)
        made, inside, sent, sent_bytes = (sum(column) for column in zip(*counts, strict=True))
        out.append(PackLoad(name, made, inside, sent, sent_bytes, alive, pairs))
    return replace(load, packs=tuple(out))


def fold(receipts: Sequence[Receipt], manifest: Manifest, sides: int, last: LoadReport | None = None) -> LoadReport:
    """The report of one batch before expiry and without samples. `last` is the report of the batch before."""
    instances = tuple(
        InstanceLoad(
            receipt.instance,
            tuple(manifest.stored(receipt.instance, side) for side in range(sides)),
            receipt.probes,
            receipt.results,
            manifest.bytes(receipt.instance),
            receipt.busy_ms,
            receipt.messages,
            receipt.sent_bytes,
            hubs=receipt.hubs,
            members=receipt.members,
            waited_ms=receipt.waited_ms,
        )
        for receipt in receipts
    )
    intake = tuple(sum((r.intake[side] for r in receipts if r.intake), Intake()) for side in range(sides))
    taken = tuple(sum(r.stored) + sum(r.probes) for r in receipts)
    before = last.recent if last is not None and len(last.instances) == len(instances) else ()
    received = sum(taken)
    return LoadReport(
        receipts[0].batch,
        instances,
        _heaviest(receipts, sides),
        _cells(receipts),
        intake,
        recent=(*before, taken)[-RECENT:],
        hash_us=mean(r.place_us for r in receipts),
        transfer_us=1000 * sum(r.receive_ms for r in receipts) / received if received else 0.0,
    )


def stored_under(report: LoadReport, manifest: Manifest) -> LoadReport:
    """The report with stored tuples and bytes as of the manifest after expiry.

    How much of a cell or of a key has expired is not known, only how much of the side. Their stored tuples shrink by
    the same share.
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
                bytes=manifest.bytes(load.instance),
            )
            for load in report.instances
        ),
    )


def sampled(
    report: LoadReport, receipts: Sequence[Receipt], last: LoadReport | None, gone: Sequence[int | None] = (),
    grain: Grain | None = None,
) -> LoadReport:  # fmt: skip
    """The report with its samples: those of the last report and those of this batch, without the sub-windows that have
    expired. `gone` is, by side, the latest time that has expired in this batch.

    Where nobody sampled before, the points of this batch stand for the old tuples too. How many these are is estimated:
    the copies stored, over the copies that a tuple of this batch has.
    """
    if not any(intake.sample for intake in report.intake) and not (last is not None and last.samples):
        return report
    out = []
    for side, intake in enumerate(report.intake):
        new, copies = intake.sample, sum(receipt.stored[side] for receipt in receipts)
        stored = sum(load.stored[side] for load in report.instances)
        if not (last is not None and last.samples) and copies and stored > copies:
            more = stored / copies
            new = tuple(one._replace(points=scaled(one.points, more * one.weight)) for one in new)
        latest = gone[side] if side < len(gone) else None
        alive = (one for one in (*_before(last, side), *new) if _lives(one, latest))
        out.append(coarsened(joined(alive), grain or Grain()))
    rise = tuple(_risen(last, side, intake) for side, intake in enumerate(report.intake))
    report = replace(report, intake=tuple(replace(intake, sample=()) for intake in report.intake), rise=rise)
    return replace(report, slices=tuple(out), samples=tuple(map(whole, out))) if any(out) else report


def _risen(last: LoadReport | None, side: int, intake: Intake) -> float:
    """`rise` of a side, halfway between what it was and what this batch shows."""
    new = [point for one in intake.sample for point in one.points]
    if last is None or not last.samples or not last.samples[side]:
        return 0.0
    before = last.rise[side] if last.rise else 0.0
    if not new:
        return before
    top = last.samples[side][-1][0]
    if 2 * sum(point[1] for point in new if point[0] > top) <= sum(point[1] for point in new):
        return 0.0
    now = max(point[0] for point in new) - top
    return (before + now) / 2 if before else now


def _before(last: LoadReport | None, side: int) -> Slices:
    """The slices of the last report. One that has only samples (of an older checkpoint) has them in one slice."""
    if last is None or not last.samples:
        return ()
    return last.slices[side] if last.slices else (Slice(0, None, last.samples[side]),)


def _lives(one: Slice, gone: int | None) -> bool:
    return one.until is None or gone is None or one.until > gone


def _gone(stored: Manifest, kept: Manifest, sides: int) -> list[int | None]:
    """By side, the latest time of the runs that have expired in this batch; None: none has."""
    out: list[int | None] = []
    for side in range(sides):
        alive = {run for (_, store), runs in kept.runs.items() if store == side for run in runs}
        dead = [
            run.high for (_, store), runs in stored.runs.items() if store == side for run in runs if run not in alive
        ]
        out.append(max(dead, default=None))
    return out


def _cells(receipts: Sequence[Receipt]) -> tuple[CellCount, ...]:
    total: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for receipt in receipts:
        for side, cell, *counts in receipt.cells:
            total[side, cell] = [a + b for a, b in zip(total[side, cell], counts, strict=True)]
    return tuple((side, cell, *total[side, cell]) for side, cell in sorted(total))  # type: ignore[misc]


def _heaviest(receipts: Sequence[Receipt], sides: int) -> tuple[HeavyKey, ...]:
    """Every reported key once, the heaviest first.

    Under a Biclique a tuple is stored on one unit of its side, but probes all units of the other. So arrivals are added
    up over the instances, while any instance that a side's tuples probe has seen all of them.
    """
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
