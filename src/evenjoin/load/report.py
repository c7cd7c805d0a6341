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

import numpy as np

from evenjoin.load.intake import Intake
from evenjoin.load.receipt import CellCount, HeavyKey, Receipt
from evenjoin.load.samples import Sample, merge_samples, scaled
from evenjoin.state.manifest import Manifest

HEAVY_KEYS = 32
RECENT = 8
"""For how many batches the report remembers what each instance took in (for LS-Stream's trimmed rate)."""

SMOOTHING = 0.25
"""The weight of the newest batch in the measured speed of an instance."""
HARDLY_ANY = 0.1
"""The part of the mean work below which an instance's speed is not measured."""


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
    interval_ms               the trigger's interval, or the time between commits; 0 if not known
    speeds[i]                 the work of instance i per busy ms over the cluster's, smoothed (`speeds_of`)
    samples[s]                up to SAMPLE_POINTS points (code, weight, further codes) for the tuples of side s, copies
                              not counted (load/samples.py); empty if nobody sampled
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
    interval_ms: float = 0.0
    speeds: tuple[float, ...] = ()
    samples: tuple[Sample, ...] = ()

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
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> LoadReport:
        return cls(
            **{
                **data,
                "instances": tuple(map(InstanceLoad.from_json, data["instances"])),
                "heavy": tuple(map(HeavyKey.from_json, data["heavy"])),
                "cells": tuple(map(tuple, data["cells"])),
                "intake": tuple(Intake(**intake) for intake in data["intake"]),
                "recent": tuple(map(tuple, data["recent"])),
                "speeds": tuple(data.get("speeds", ())),
                "samples": tuple(tuple(map(tuple, side)) for side in data.get("samples", ())),
            }
        )


def report_of(
    receipts: Sequence[Receipt], stored: Manifest, kept: Manifest, expired: int, last: LoadReport | None,
    packs: Mapping[int, str] | None = None,
) -> LoadReport:  # fmt: skip
    """The report of one batch. `stored` is the state with everything that its receipts sealed, and `kept` the part of
    it that has not expired (`expired` tuples have). `last` is the report of the batch before. `packs` names the stores
    of packs."""
    report = fold(receipts, stored, len(receipts[0].stored), last)
    report = replace(stored_under(report, kept), expired=expired)
    if packs:
        report = replace(
            report,
            instances=tuple(_packed(*both, kept, packs) for both in zip(report.instances, receipts, strict=True)),
        )
    return sampled(report, receipts, last)


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
        speeds=speeds_of(
            [new + sum(r.results) for new, r in zip(taken, receipts, strict=True)],
            [r.busy_ms for r in receipts],
            last.speeds if last is not None else (),
        ),
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


def sampled(report: LoadReport, receipts: Sequence[Receipt], last: LoadReport | None) -> LoadReport:
    """The report with its samples: those of the last report, less what has expired, and those of this batch.

    How many tuples are alive is estimated: the copies stored, over the copies that a tuple of this batch has.
    """
    if not any(intake.sample for intake in report.intake) and not (last is not None and last.samples):
        return report
    out = []
    for side, intake in enumerate(report.intake):
        old = last.samples[side] if last is not None and last.samples else ()
        arrived = intake.seen - intake.late
        copies = sum(receipt.stored[side] for receipt in receipts)
        stored = sum(load.stored[side] for load in report.instances)
        if copies and arrived:
            alive = stored * arrived / copies
        else:
            before = sum(load.stored[side] for load in last.instances) if last is not None else 0
            alive = sum(point[1] for point in old) * stored / before if before else 0.0
        points = merge_samples(scaled(old, alive - min(arrived, alive)), intake.sample)
        out.append(scaled(points, alive))  # where nobody sampled before, the new points stand for the old tuples too
    return replace(report, samples=tuple(out)) if any(out) else report


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


def speeds_of(work: Sequence[float], busy_ms: Sequence[float], last: Sequence[float] = ()) -> tuple[float, ...]:
    """How fast each instance is, measured: its work (tuples taken in, and results) per busy millisecond over the
    cluster's. Empty if nobody was busy.

    1 is the cluster's speed; an instance on a node that is half as fast as seven others has 0.56, and they have 1.13.
    A batch's figure is smoothed with the `last` ones, since one batch may meet a pause of the machine; with another
    number of instances they are forgotten. An instance with hardly any work would measure its fixed costs, so it keeps
    the speed that it had. Not guaranteed: that the same speed means the same processor, for a result may take more or
    less time than a tuple.
    """
    done, busy = np.asarray(work, np.float64), np.asarray(busy_ms, np.float64)
    known = tuple(last) if len(last) == len(done) else ()
    if not done.sum() > 0 or not busy.sum() > 0:
        return known
    measured = (done > HARDLY_ANY * done.mean()) & (busy > 0)
    before = np.array(known or (1.0,) * len(done))
    cluster = done[measured].sum() / busy[measured].sum() if measured.any() else 1.0
    now = np.divide(done, busy * cluster, out=before.copy(), where=measured)
    smooth = now if not known else SMOOTHING * now + (1.0 - SMOOTHING) * before
    return tuple(np.round(smooth, 4).tolist())
