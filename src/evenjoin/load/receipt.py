"""What one join instance saw and did in one batch, written by its task and read by the driver.

A receipt is written when the instance's last result has been handed over. So a missing receipt means that nobody took
all of the instance's results.

The file is a line with the CRC-32 of the rest, then JSON: a damaged one is noticed and replayed, never believed.
Which receipts may become a commit is decided by their *books* (`balance`).

Spark may run any part of a batch more than once: a task is retried or runs twice at the same time, files of a shuffle
are lost and made again, a user's function reads the results twice. Each run of an instance leaves a receipt. Receipts
of different runs may only be put together if all runs saw the same rows in the same places.

A tuple that is sent to an instance in a role is a *line* (kernels/content.py). Each packed row carries the sum of its
lines, and the closing note of each dispatch task the sum of all lines that it sent. So a receipt can name

    got    the sum of the lines of all rows that the instance read
    said   the sum of what was sent, of the notes that the instance read
    sent   the sum of the lines of what the instance itself sent on to the next hop

and receipts are accepted exactly if, at every hop,

    (a) each instance has a receipt                                  otherwise the missing instances are run
    (b) all receipts of an instance name the same sums               otherwise they read different rows
    (c) the `got` of all instances add up to the `said` of all       otherwise a tuple was lost, or placed twice

Then any receipt of each instance may be taken: all its runs read the same tuples, so they sealed the same state and
gave the same results.

Guarantee, up to a 64-bit collision: what `balance` accepts are receipts of one and the same set of rows, each placed
once. Not guaranteed: that these rows are the right ones, if the query above gives a task that runs again the rows of
another.
Not here: how the counts are made (instance/tally.py), what they mean (report.py), and who runs what is missing
(runtime/driver.py).
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evenjoin.errors import ReceiptError
from evenjoin.load.intake import Intake
from evenjoin.state.manifest import Place
from evenjoin.state.segment import Run

Sums = tuple[int, int, int]
"""What a receipt's name tells: (got, said, sent)."""
ResultFile = tuple[str, int, int]
"""A file of results: (its name in the output's folder of the batch, rows, bytes). See instance/results.py."""


def receipt_name(start: int, trial: int, hop: int, instance: int, sums: Sums, attempt: str) -> str:
    """The name of a receipt's file. It says which start and try wrote it, and the sums of its instance's book, so that
    the driver need not read receipts that it will not take."""
    return f"s{start}t{trial}/{hop}-{instance}-{'-'.join(f'{one:016x}' for one in sums)}-{attempt}.json"


@dataclass(frozen=True, slots=True)
class HeavyKey:
    """One of the heaviest keys an instance saw in a batch. Each count is per side:

    arrived   tuples of the side that were stored here in this batch
    probed    tuples of the side that probed here (the papers' phi of the other side's unit)
    stored    tuples of the side alive here after the batch (the papers' |R_ik|); zeros unless the planner asked
    results   pairs found in the side's store here by any step of a path, before a residual predicate or a further edge
              rejects some of them. With two sides these are the candidates of results; with more, partial combinations
              count too, because they are work

    askers    where buckets are ordered: tuples of the other side that probed here and may match tuples of this side
              and key; else nothing, because only tuples with the same key ask for it

    `aging` says of the stored tuples that may expire when they do: (side, until, count), see Aging.
    """

    code: int
    name: str
    arrived: tuple[int, ...]
    probed: tuple[int, ...]
    stored: tuple[int, ...]
    results: tuple[int, ...]
    aging: tuple[tuple[int, int, int], ...] = ()
    askers: tuple[int, ...] = ()

    @property
    def matches(self) -> int:
        return sum(self.results)

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> HeavyKey:
        counts = {name: tuple(data[name]) for name in ("arrived", "probed", "stored", "results")}
        aging, askers = tuple(map(tuple, data["aging"])), tuple(data.get("askers", ()))
        return cls(code=data["code"], name=data["name"], **counts, aging=aging, askers=askers)


CellCount = tuple[int, int, int, int, int]
"""(side, cell, arrived, stored, results): counts of one cell of the table (see `cells_of` in placement/place.py). They
mean the same as in HeavyKey."""


CellAskers = tuple[int, int, int]
"""(side, cell, tuples): how many tuples of the other side may match what the side stores in a cell, where buckets are
ordered. Every instance that stores tuples of the cell is probed by all of them."""


Aging = tuple[int, int, tuple[int, ...], tuple[int, ...]]
"""(side, until, cells, counts): the stored tuples of these cells that are in runs which expire by `until`, their `high`
(state/manifest.py). Over all `until` of a side this is FastJoin's vector of sub-window counts (III-E): expiry pops it.
A side of which nothing expires has none."""

PackCount = tuple[int, int, int, int, int]
"""(store, packs, pairs, messages, bytes): what was made of a store of packs, and what of it was sent on."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What one instance did in one batch, at one hop; or at all hops (`over_hops`).

    sealed, merged     the runs that come to a place; those that leave it, because they were merged into others
    stored, probes     per side, the tuples that were stored here and that probed here in this batch
    results            per side, the results that were found in the store of that side
    busy_ms            processor time of the instance
    receive_ms         the part of it spent on taking in and sorting what was sent
    cells, heavy       the load by cell of the table, and of the heaviest keys
    asked              the load of the keys that this instance was asked for (watch.py) and has, heavy or not. Their
                       names are left empty
    aging              when the stored tuples of the cells expire
    intake             per side, what the dispatch tasks saw that sent their notes to this instance
    late_files         the files with late rows that this instance wrote
    place_us           microseconds that placing one tuple takes, measured here; 0 if no planner wants to know
    hop                the hop of the program at which this was
    began              when the instance began to work at this hop, in seconds of wall time
    messages           per side, the tuples that were sent to this instance
    sent_bytes         per side, the bytes of these
    packs              of each store of packs: (store, packs made here, pairs in them, messages sent on, their bytes)
    hubs, members      packs whose hub was compared here, and members that were compared one by one
    waited_ms          from the beginning of the first hop to that of the last: the paper's waiting time
    elapsed_ms         how long the task took by the clock, with the time in which its results were taken over
    askers             where buckets are ordered, the tuples that asked here for each cell
    files              the files of results that the instance wrote, where join tasks write them
    """

    batch: int
    instance: int
    sealed: Mapping[Place, tuple[Run, ...]]
    merged: Mapping[Place, tuple[Run, ...]]
    stored: tuple[int, ...]
    probes: tuple[int, ...]
    results: tuple[int, ...]
    busy_ms: float
    receive_ms: float = 0.0
    cells: tuple[CellCount, ...] = ()
    heavy: tuple[HeavyKey, ...] = ()
    asked: tuple[HeavyKey, ...] = ()
    aging: tuple[Aging, ...] = ()
    intake: tuple[Intake, ...] = ()
    late_files: tuple[str, ...] = field(default=())
    place_us: float = 0.0
    hop: int = 0
    began: float = 0.0
    messages: tuple[int, ...] = ()
    sent_bytes: tuple[int, ...] = ()
    packs: tuple[PackCount, ...] = ()
    hubs: int = 0
    members: int = 0
    waited_ms: float = 0.0
    elapsed_ms: float = 0.0
    askers: tuple[CellAskers, ...] = ()
    files: tuple[ResultFile, ...] = ()

    def to_bytes(self) -> bytes:
        data = {name: getattr(self, name) for name in self.__slots__}
        for name in ("sealed", "merged"):
            data[name] = [[*place, [run.to_json() for run in runs]] for place, runs in data[name].items()]
        for name in ("heavy", "asked", "intake"):
            data[name] = [item.to_json() for item in data[name]]
        body = json.dumps(data).encode()
        return b"%08x\n%s" % (zlib.crc32(body), body)

    @classmethod
    def from_bytes(cls, text: bytes, name: str = "a receipt") -> Receipt:
        """The receipt in a file of this name. ReceiptError if it is damaged."""
        mark, _, body = text.partition(b"\n")
        if mark != b"%08x" % zlib.crc32(body):
            raise ReceiptError(f"{name} of the checkpoint is damaged; the batch will be replayed")
        data = json.loads(body)
        for name in ("sealed", "merged"):
            data[name] = {(instance, store): tuple(map(Run.from_json, runs)) for instance, store, runs in data[name]}
        for name in ("heavy", "asked"):
            data[name] = tuple(map(HeavyKey.from_json, data[name]))
        data["aging"] = tuple((*when, tuple(cells), tuple(counts)) for *when, cells, counts in data["aging"])
        data["intake"] = tuple(Intake(**i) for i in data["intake"])
        for name in ("cells", "packs", "askers", "files"):
            data[name] = tuple(map(tuple, data.get(name, ())))
        for name in ("stored", "probes", "results", "late_files", "messages", "sent_bytes"):
            data[name] = tuple(data[name])
        return cls(**data)


_NAME = re.compile(r"(\d+)-(\d+)-([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{16})-[\w.-]+\.json")


@dataclass(frozen=True, slots=True)
class Books:
    """What the names of a try's receipts tell.

    chosen    for each instance the files of its receipts, one for each hop at which it left any
    missing   the instances that left none at some hop
    wrong     why the receipts cannot be put together; empty if they can
    """

    chosen: dict[int, list[str]]
    missing: tuple[int, ...]
    wrong: str = ""


def balance(names: Iterable[str], instances: int, hops: int = 1) -> Books:
    """Compare the receipts of one try, given by the names of their files (load/receipt.py). `wrong` is filled in only
    if none is missing."""
    sums: list[dict[int, set[Sums]]] = [{} for _ in range(hops)]
    chosen: dict[tuple[int, int], str] = {}
    for name in sorted(names):
        found = _NAME.fullmatch(name)
        if found is None or int(found[1]) >= hops or int(found[2]) >= instances:
            raise ReceiptError(f"receipt {name!r} is not one of this batch: remove it; the batch will be replayed")
        hop, instance = int(found[1]), int(found[2])
        sums[hop].setdefault(instance, set()).add((int(found[3], 16), int(found[4], 16), int(found[5], 16)))
        chosen.setdefault((instance, hop), name)
    missing = tuple(i for i in range(instances) if any((i, hop) not in chosen for hop in range(hops)))
    by_instance = {i: [chosen[i, hop] for hop in range(hops) if (i, hop) in chosen] for i in range(instances)}
    return Books(by_instance, missing, "" if missing else next(filter(None, map(_wrong, sums)), ""))


def _wrong(sums: dict[int, set[Sums]]) -> str:
    torn = sorted(instance for instance, several in sums.items() if len(several) > 1)
    if torn:
        return f"instance {torn[0]} was run {len(sums[torn[0]])} times on different rows"
    got, said = (sum(one[k] for several in sums.values() for one in several) % 2**64 for k in (0, 1))
    return "" if got == said else "the instances did not get what was sent to them"


def over_hops(receipts: Sequence[Receipt]) -> Receipt:
    """The receipts of one instance, one for each hop, as one. It began when the first did, and `waited_ms` after that
    began the last."""
    first, *others = receipts
    if not others:
        return first
    return replace(
        first,
        stored=_added([r.stored for r in receipts]),
        probes=_added([r.probes for r in receipts]),
        results=_added([r.results for r in receipts]),
        messages=_added([r.messages for r in receipts]),
        sent_bytes=_added([r.sent_bytes for r in receipts]),
        sealed={place: runs for r in receipts for place, runs in r.sealed.items()},
        merged={place: runs for r in receipts for place, runs in r.merged.items()},
        busy_ms=round(sum(r.busy_ms for r in receipts), 3),
        receive_ms=round(sum(r.receive_ms for r in receipts), 3),
        cells=tuple(cell for r in receipts for cell in r.cells),
        heavy=tuple(key for r in receipts for key in r.heavy),
        asked=tuple(key for r in receipts for key in r.asked),
        aging=tuple(one for r in receipts for one in r.aging),
        packs=tuple(count for r in receipts for count in r.packs),
        hubs=sum(r.hubs for r in receipts),
        members=sum(r.members for r in receipts),
        elapsed_ms=round(sum(r.elapsed_ms for r in receipts), 3),
        files=tuple(file for r in receipts for file in r.files),
        waited_ms=round((receipts[-1].began - first.began) * 1000, 3),
    )


def _added(counts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Counts per side, added up."""
    return tuple(map(sum, zip(*counts, strict=True)))
