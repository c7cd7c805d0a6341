"""The load report: what one batch showed of the load. A pure fold over the batch's receipts and the manifest after it.

It has, per instance and side, the tuples stored and those that probed in the interval (the papers' |R| and phi),
results and busy time; the same per cell of the table (a bucket, or a key with a region of its own); and the heaviest
keys. The report is recorded in the commit, and it is what the user sees as `query.load()`.

What may be relied on:

* Counts per instance and per cell are exact, also after tuples have expired: receipts say which of the stored tuples
  expire when (`Aging`), and what the manifest has lost is popped. Where nobody asks for them (no planner, no `track`),
  stored tuples are counted per instance only, and those of cells and keys are 0.
* Each instance reports its k heaviest keys (HEAVY_KEYS, or what the planner asks for). What it says of a key is exact
  for that instance. A key that some host of it did not count is listed in `partial`; the others are exact. An
  arrival of a divided key is counted once, however many copies of the tuple are sent; stored tuples of a key, and all
  counts per instance and per cell, are of copies.
* `rates` are smoothed over batches (rates.py); all other counts are of this batch.
* Memory: k keys an instance, whatever the number of keys.

Not here: what the load means for the next table (the papers' models beside this file, and strategies/).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from evenjoin.load.intake import Intake
from evenjoin.load.rates import Rates
from evenjoin.load.receipt import CellAskers, CellCount, HeavyKey, Receipt
from evenjoin.load.sampled import sampled
from evenjoin.load.samples import USUAL_GRAIN, Grain, Sample, Slices, slices_from_json, whole
from evenjoin.placement.place import cells_of
from evenjoin.placement.shares import hosts, shares_by_region
from evenjoin.placement.slots import Role
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import Cube, Grid
from evenjoin.shown import Showing, Shown, size
from evenjoin.state.manifest import Manifest

HEAVY_KEYS = 32
Same = Literal["same", "another"]
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
    they mean in a receipt (receipt.py), as `hubs`, `members`, `waited_ms` and `elapsed_ms` do."""

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
    elapsed_ms: float = 0.0

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
class LoadReport(Showing):
    """The load of one batch.

    instances, heavy, cells   by instance; the heaviest keys, heaviest first; by cell of the table
    intake, expired           what dispatch saw, by side; how many stored tuples expired
    recent[b][i]              tuples that instance i took in, for the last RECENT batches under the same table; this
                              batch is the last
    hash_us, transfer_us      the time to place one row, and to take in one message (a tuple that is stored and probes
                              at the same instance is one message); 0 if there were none
    interval_ms               the trigger's interval, or the time since the last batch; 0 if neither is known
    trigger_ms                the trigger's interval; 0: batches follow each other
    speeds[i]                 the work of instance i per busy ms over the cluster's, smoothed (`speeds_of`)
    partial                   codes of those heavy keys that some host of theirs has not counted
    rates                     arrivals and results, smoothed over batches; None if no planner asks
    samples[s]                points (code, weight, further codes) for the tuples of side s that are alive, copies not
                              counted (load/samples.py); empty if nobody sampled
    rise[s]                   by how much the largest code grows a batch, if most tuples of the batch have larger codes
                              than all before; else 0
    slices[s]                 the same points by sub-window, so that they expire with it; a commit has these
    sizes[s]                  the bytes that a stored tuple of side s takes in memory, on average; 1 if none is stored
    cores                     how many tasks ran at once, at most; 0 if that is not known
    limit                     whether tasks waited for a core, so that there are no more than `cores` (`waited`)
    order                     the instances by how long their tasks took, the longest first: the next batch starts them
                              so, because a long task that starts last keeps the batch waiting. If the next batch has
                              another table: the order that is foreseen of it, () if none is
    askers                    where buckets are ordered, by side and cell the tuples of the other side that may match
                              what is stored there
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
    trigger_ms: float = 0.0
    speeds: tuple[float, ...] = ()
    partial: tuple[int, ...] = ()
    rates: Rates | None = None
    samples: tuple[Sample, ...] = ()
    slices: tuple[Slices, ...] = ()
    rise: tuple[float, ...] = ()
    sizes: tuple[float, ...] = ()
    cores: int = 0
    limit: bool = False
    order: tuple[int, ...] = ()
    askers: tuple[CellAskers, ...] = ()

    @property
    def matches(self) -> int:
        return sum(load.matches for load in self.instances)

    @property
    def imbalance(self) -> float:
        """The busy time of the busiest instance over the mean; 1.0 is even. Strategies have measures of their own."""
        busy = [load.busy_ms for load in self.instances]
        return max(busy) * len(busy) / sum(busy) if busy and sum(busy) > 0 else 1.0

    def shown(self) -> Shown:
        """A row for each instance, and the heaviest keys by name."""
        rows = tuple(
            (str(load.instance), f"{sum(load.stored):,}", f"{sum(load.probes):,}", f"{load.matches:,}",
             f"{load.busy_ms:,.1f}", size(load.bytes))
            for load in self.instances
        )  # fmt: skip
        title = f"Batch {self.batch}: the busiest of {len(rows)} instances worked {self.imbalance:.2f} times the mean"
        keys = ", ".join(f"{key.name} ({sum(key.arrived):,} tuples)" for key in self.heavy[:5])
        columns = ("instance", "stored", "probes", "results", "busy ms", "state")
        return Shown(title, columns, rows, (f"Hottest keys: {keys}",) if keys else ())

    def to_json(self) -> dict[str, Any]:
        data = {name: getattr(self, name) for name in self.__slots__}
        for name in ("instances", "heavy", "intake"):
            data[name] = [item.to_json() for item in data[name]]
        data["rates"] = asdict(self.rates) if self.rates else None
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
                "speeds": tuple(data.get("speeds", ())),
                "partial": tuple(data.get("partial", ())),
                "rates": Rates.from_json(data["rates"]) if data.get("rates") else None,
                "samples": samples,
                "slices": slices,
                "rise": tuple(data.get("rise", ())),
                "sizes": tuple(data.get("sizes", ())),
                "order": tuple(data.get("order", ())),
                "askers": tuple(map(tuple, data.get("askers", ()))),
            }
        )


@dataclass(frozen=True, slots=True)
class Ran:
    """How a batch was run, as far as its report needs to know it.

    table, before   the table, and whether the batch before ran under the same one
    asked           by instance the codes of keys that it was asked for (watch.py); None: no planner wants to know
    packs           the stores of packs, by number, with their names
    grain           how many points stand for a side
    """

    table: RoutingTable
    before: Same = "same"
    asked: Mapping[int, tuple[int, ...]] | None = None
    packs: Mapping[int, str] = field(default_factory=dict)
    grain: Grain = USUAL_GRAIN


def report_of(
    receipts: Sequence[Receipt], stored: Manifest, kept: Manifest, expired: int, last: LoadReport | None, ran: Ran
) -> LoadReport:  # fmt: skip
    """The report of one batch. `stored` is the state with everything that its receipts sealed, and `kept` the part of
    it that has not expired (`expired` tuples have). `last` is the report of the batch before."""
    sides = len(receipts[0].stored)
    gone = _gone(stored, kept, sides)
    living = [unexpired(receipt, gone) for receipt in receipts]
    report = fold(living, kept, sides, last, ran.before)
    report = replace(report, expired=expired, sizes=_sizes(kept, sides), heavy=_once(report.heavy, ran.table))
    if ran.asked is not None:
        report = replace(report, partial=_partial(receipts, ran.table, ran.asked))
    if ran.packs:
        report = replace(
            report,
            instances=tuple(_packed(*both, kept, ran.packs) for both in zip(report.instances, receipts, strict=True)),
        )
    if any(intake.sample for intake in report.intake) or (last is not None and last.samples):
        report = sampled(report, receipts, last, gone, ran.grain)
    return report


def _partial(receipts: Sequence[Receipt], table: RoutingTable, asked: Mapping[int, tuple[int, ...]]) -> tuple[int, ...]:
    """The codes of heavy keys that some host of theirs has not counted, ascending. `asked` are by instance the codes
    that it was asked for (watch.py)."""
    if table.ranged:
        return ()
    named = {(key.code, receipt.instance) for receipt in receipts for key in receipt.heavy}
    codes = np.array(sorted({code for code, _ in named} - {c for of_it in asked.values() for c in of_it}), np.int64)
    count, host = hosts(table, table.compiled.region_of_cell[cells_of(table, codes)])
    missed = [pair not in named for pair in zip(np.repeat(codes, count).tolist(), host.tolist(), strict=True)]
    return tuple(np.unique(np.repeat(codes, count)[np.array(missed, np.bool_)]).tolist())


def _once(heavy: Sequence[HeavyKey], table: RoutingTable) -> tuple[HeavyKey, ...]:
    """The heavy keys, heaviest first, with each arrival counted once. What their instances counted are copies: a tuple
    of a key that is a grid of r rows and q columns goes to q cells if it is of side 0, and to r if it is of side 1.
    Areas are left as they are: there the number of copies depends on the tuple."""
    if table.ranged or not heavy:
        return tuple(heavy)
    region = table.compiled.region_of_cell[cells_of(table, np.array([key.code for key in heavy], np.int64))]
    cut = [isinstance(table.regions[number].topology, (Grid, Cube)) for number in region.tolist()]
    if not any(cut):
        return tuple(heavy)
    sides = range(min(len(heavy[0].arrived), table.groups))
    copies = np.stack([shares_by_region(table, side, Role.STORE).sum(axis=1)[region] for side in sides], axis=1)
    out = [
        replace(
            key, arrived=tuple(round(count / max(many, 1.0)) for count, many in zip(key.arrived, each, strict=True))
        )
        for key, each in zip(heavy, np.rint(copies).tolist(), strict=True)
    ]
    return tuple(sorted(out, key=_heaviest_first))


def _heaviest_first(key: HeavyKey) -> tuple[int, int]:
    return -sum(key.arrived) - sum(key.results), key.code


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


def fold(
    receipts: Sequence[Receipt], manifest: Manifest, sides: int, last: LoadReport | None = None, table: Same = "same"
) -> LoadReport:
    """The report of one batch, without samples, of receipts from which is taken what has expired. `last` is the report
    of the batch before, which ran under the same table or another."""
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
            elapsed_ms=receipt.elapsed_ms,
        )
        for receipt in receipts
    )
    intake = tuple(sum((r.intake[side] for r in receipts if r.intake), Intake()) for side in range(sides))
    taken = tuple(sum(r.stored) + sum(r.probes) for r in receipts)
    before = last.recent if last is not None and table == "same" and len(last.instances) == len(instances) else ()
    tasks = [(r.began, r.elapsed_ms) for r in receipts]
    probes, sent = sum(sum(r.probes) for r in receipts), sum(sum(r.messages) for r in receipts)
    return LoadReport(
        receipts[0].batch,
        instances,
        _heaviest(receipts),
        _cells(receipts),
        intake,
        recent=(*before, taken)[-RECENT:],
        hash_us=sum(r.place_us * sum(r.probes) for r in receipts) / probes if probes else 0.0,
        transfer_us=1000 * sum(r.receive_ms for r in receipts) / sent if sent else 0.0,
        speeds=speeds_of(
            [new + sum(r.results) for new, r in zip(taken, receipts, strict=True)],
            [r.busy_ms for r in receipts],
            last.speeds if last is not None else (),
        ),
        cores=at_once(tasks),
        limit=waited(tasks),
        order=tuple(r.instance for r in sorted(receipts, key=lambda r: (-r.elapsed_ms, r.instance))),
        askers=_cell_askers(receipts),
    )


Gone = Sequence[int | None]
"""By side the latest `until` of what has expired; None if nothing has."""


def _gone(stored: Manifest, kept: Manifest, sides: int) -> Gone:
    """What expired between two manifests. A run expires by its `high` alone, so of a side all that are not later than
    the latest that expired have expired too."""
    out: list[int | None] = [None] * sides
    for (instance, store), runs in stored.runs.items():
        if store < sides:
            left = set(kept.of(instance, store))
            highs = [run.high for run in runs if run not in left]
            out[store] = max((one for one in (out[store], *highs) if one is not None), default=None)
    return out


def unexpired(receipt: Receipt, gone: Gone) -> Receipt:
    """The receipt without the stored tuples that have expired since."""
    if all(until is None for until in gone):
        return receipt
    less: dict[tuple[int, int], int] = defaultdict(int)
    for side, until, cells, counts in receipt.aging:
        if _is_gone(gone, side, until):
            for cell, count in zip(cells, counts, strict=True):
                less[side, cell] += count
    return replace(
        receipt,
        cells=tuple((side, cell, new, old - less[side, cell], found) for side, cell, new, old, found in receipt.cells),
        heavy=tuple(_unexpired_key(key, gone) for key in receipt.heavy),
        asked=tuple(_unexpired_key(key, gone) for key in receipt.asked),
    )


def _unexpired_key(key: HeavyKey, gone: Gone) -> HeavyKey:
    stored = list(key.stored)
    for side, until, count in key.aging:
        if _is_gone(gone, side, until):
            stored[side] -= count
    return replace(key, stored=tuple(stored))


def _is_gone(gone: Gone, side: int, until: int) -> bool:
    last = gone[side]
    return last is not None and until <= last


def _cells(receipts: Sequence[Receipt]) -> tuple[CellCount, ...]:
    total: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for receipt in receipts:
        for side, cell, *counts in receipt.cells:
            total[side, cell] = [a + b for a, b in zip(total[side, cell], counts, strict=True)]
    return tuple((side, cell, *total[side, cell]) for side, cell in sorted(total))  # type: ignore[misc]


def _cell_askers(receipts: Sequence[Receipt]) -> tuple[CellAskers, ...]:
    """The tuples that asked for each cell. An instance that stores the cell has seen all of them, others some."""
    most: dict[tuple[int, int], int] = {}
    for receipt in receipts:
        for side, cell, count in receipt.askers:
            most[side, cell] = max(most.get((side, cell), 0), count)
    return tuple((*key, most[key]) for key in sorted(most))


def _heaviest(receipts: Sequence[Receipt]) -> tuple[HeavyKey, ...]:
    """Every reported key once, the heaviest first.

    Under a Biclique a tuple is stored on one unit of its side, but probes all units of the other. So arrivals are added
    up over the instances, while any instance that a side's tuples probe has seen all of them. A key that no instance
    named is left out, even if some were asked for it.
    """
    names = {key.code: key.name for receipt in receipts for key in receipt.heavy}
    seen: dict[int, list[HeavyKey]] = {code: [] for code in names}
    for receipt in receipts:
        for key in (*receipt.heavy, *receipt.asked):
            if key.code in seen:
                seen[key.code].append(key)
    keys = [_as_one(names[code], parts) for code, parts in seen.items()]
    return tuple(sorted(keys, key=_heaviest_first))


def _as_one(name: str, parts: Sequence[HeavyKey]) -> HeavyKey:
    """A key from what its hosts counted of it."""
    first, *others = parts
    if not others:
        if first.arrived == first.probed and not first.aging and first.name == name:
            return first
        arrived = tuple(map(max, first.arrived, first.probed))
        return HeavyKey(first.code, name, arrived, first.probed, first.stored, first.results, askers=first.askers)
    sides = range(len(first.arrived))
    probed = tuple(max(part.probed[s] for part in parts) for s in sides)
    arrived = tuple(max(sum(part.arrived[s] for part in parts), probed[s]) for s in sides)
    stored = tuple(sum(part.stored[s] for part in parts) for s in sides)
    results = tuple(sum(part.results[s] for part in parts) for s in sides)
    askers = tuple(map(max, zip(*(part.askers for part in parts), strict=True))) if first.askers else ()
    return HeavyKey(first.code, name, arrived, probed, stored, results, askers=askers)


BLURRED_MS = 1.0
"""When a task began and how long it took are read from two clocks, and rounded."""
LONG_MS = 20.0
"""Tasks that take less on average may be over before the next one has been started, whether a core was free or not."""
FILLED = 0.8
"""The part of the time in which as many tasks as ever at once must have been running. Between two tasks a core stands
idle for a moment: Spark reports the end of one, and starts the next."""
SMOOTHING = 0.25
"""The weight of the newest batch in the measured speed of an instance."""
HARDLY_ANY = 0.1
"""The part of the mean work below which an instance's speed is not measured."""

Tasks = Sequence[tuple[float, float]]
"""Of each task when it began (seconds) and how long it took (ms). One that did not say when it began has 0."""


def at_once(tasks: Tasks) -> int:
    """How many tasks ran at the same time, at most. Two that overlap by less than BLURRED_MS followed each other on a
    core."""
    spans = [(began, began + max(took - BLURRED_MS, 0.0) / 1000) for began, took in tasks if began > 0 and took > 0]
    ends = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    running = np.cumsum([change for _, change in ends])
    return int(running.max(initial=min(len(spans), 1)))


def waited(tasks: Tasks) -> bool:
    """Whether the tasks that began last had to wait for a core, so that there are no more cores than `at_once` says: as
    many tasks were running nearly all the time, until the last one began.

        core 1  |----a----||---c---|          at_once 2, and c and d waited: there are two cores
        core 2  |---b---||----d----|

        core 1  |-a-|   |-c-|                 at_once 1, but nobody had to wait for a core:
        core 2        |-b-|   |-d-|           the tasks were over before the next one was started

    Not guaranteed: that every lack of cores is noticed. Where tasks are short, or cores stand idle between two of them,
    the answer is no, and the batch tells nothing about how many cores there are beyond `at_once`."""
    known = np.array([task for task in tasks if task[0] > 0 and task[1] > 0], np.float64).reshape(-1, 2)
    if len(known) < 2 or known[:, 1].mean() < LONG_MS:
        return False
    began, last = known[:, 0], known[:, 0].max()
    running = float((np.minimum(began + known[:, 1] / 1000, last) - began).sum())
    many, time = at_once(tasks), float(last - began.min())
    return many < len(known) and running >= FILLED * many * time


def speeds_of(work: Sequence[float], took_ms: Sequence[float], last: Sequence[float] = ()) -> tuple[float, ...]:
    """How fast each instance is, measured: its work per millisecond over the cluster's. Empty if nobody was busy.

    1 is the cluster's speed; an instance on a node that is half as fast as seven others has 0.56, and they have 1.13.
    A batch's figure is smoothed with the `last` ones, since one batch may meet a pause of the machine; with another
    number of instances they are forgotten. An instance with hardly any work would measure its fixed costs, so it keeps
    the speed that it had.

    What the work is, the caller says. The load report counts tuples taken in and results, per busy millisecond. There
    it is not guaranteed that the same speed means the same processor: a result may take more or less time than a tuple,
    and where batches are so small that the fixed costs of an instance are most of its busy time, an instance that is
    relieved seems slower still. `auto` says the milliseconds that its fitted cost expects, so it is free of both.
    """
    done, busy = np.asarray(work, np.float64), np.asarray(took_ms, np.float64)
    known = tuple(last) if len(last) == len(done) else ()
    if not done.sum() > 0 or not busy.sum() > 0:
        return known
    measured = (done > HARDLY_ANY * done.mean()) & (busy > 0)
    before = np.array(known or (1.0,) * len(done))
    cluster = done[measured].sum() / busy[measured].sum() if measured.any() else 1.0
    now = np.divide(done, busy * cluster, out=before.copy(), where=measured)
    smooth = now if not known else SMOOTHING * now + (1.0 - SMOOTHING) * before
    return tuple(np.round(smooth, 4).tolist())
