"""What one join instance saw and did in one batch, written by its task and read by the driver.

A receipt is written when the instance's last result has been handed over. So a missing receipt means that nobody took
all of the instance's results.

Guarantee: the receipts of a task that ran twice say the same, except for times and for the names of files. The driver
takes any one of them, and the files that it does not name are garbage.
Not here: how the counts are made (instance/tally.py), and what they mean (report.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evenjoin.load.samples import Sample, merge_samples
from evenjoin.state.manifest import Place
from evenjoin.state.segment import Run


@dataclass(frozen=True, slots=True)
class HeavyKey:
    """One of the heaviest keys an instance saw in a batch. Each count is per side:

    arrived   tuples of the side that were stored here in this batch
    probed    tuples of the side that probed here (the papers' phi of the other side's unit)
    stored    tuples of the side alive here after the batch (the papers' |R_ik|); zeros unless the planner asked
    results   pairs found in the side's store here, before a residual predicate or a further edge rejects some of them
    """

    code: int
    name: str
    arrived: tuple[int, ...]
    probed: tuple[int, ...]
    stored: tuple[int, ...]
    results: tuple[int, ...]

    @property
    def matches(self) -> int:
        return sum(self.results)

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> HeavyKey:
        counts = (tuple(data[name]) for name in ("arrived", "probed", "stored", "results"))
        return cls(data["code"], data["name"], *counts)


@dataclass(frozen=True, slots=True)
class Intake:
    """What dispatch saw of one side.

    rows, late, unmatchable   rows read; of these the late ones, and those that nothing can match (a NULL key, no time
                              although the join has time bounds, or the side's filter fails)
    latest                    the latest event time of the rows that the watermark sees: all but those that are
                              unmatchable or ahead
    hash_ms                   how long it took to encode keys and place tuples
    sample                    a sample of the codes, where a planner looks at codes
    ahead, ahead_from         rows set aside because their event time is too far ahead, and the least of their times
    """

    rows: int = 0
    late: int = 0
    unmatchable: int = 0
    latest: int | None = None
    hash_ms: float = field(default=0.0, compare=False)
    sample: Sample = field(default=(), compare=False)
    ahead: int = 0
    ahead_from: int | None = None

    @property
    def seen(self) -> int:
        """How many rows the watermark sees."""
        return self.rows - self.unmatchable - self.ahead

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def __add__(self, other: Intake) -> Intake:
        times = [t for t in (self.latest, other.latest) if t is not None]
        least = [t for t in (self.ahead_from, other.ahead_from) if t is not None]
        return Intake(
            self.rows + other.rows,
            self.late + other.late,
            self.unmatchable + other.unmatchable,
            max(times) if times else None,
            self.hash_ms + other.hash_ms,
            merge_samples(self.sample, other.sample) if self.sample or other.sample else (),
            self.ahead + other.ahead,
            min(least) if least else None,
        )


CellCount = tuple[int, int, int, int, int]
"""(side, cell, arrived, stored, results): counts of one cell of the table (see `cells_of` in placement/place.py). They
mean the same as in HeavyKey."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What one instance did in one batch.

    sealed, merged     the runs that come to a place; those that leave it, because they were merged into others
    stored, probes     per side, the tuples that were stored here and that probed here in this batch
    results            per side, the results that were found in the store of that side
    busy_ms            processor time of the instance
    receive_ms         the part of it spent on taking in and sorting what was sent
    cells, heavy       the load by cell of the table, and of the heaviest keys
    intake             per side, what the dispatch tasks saw that sent their notes to this instance
    late_files         the files with late rows that this instance wrote
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
    intake: tuple[Intake, ...] = ()
    late_files: tuple[str, ...] = field(default=())

    def to_bytes(self) -> bytes:
        data = {name: getattr(self, name) for name in self.__slots__}
        for name in ("sealed", "merged"):
            data[name] = [[*place, [run.to_json() for run in runs]] for place, runs in data[name].items()]
        for name in ("heavy", "intake"):
            data[name] = [item.to_json() for item in data[name]]
        return json.dumps(data).encode()

    @classmethod
    def from_bytes(cls, text: bytes) -> Receipt:
        data = json.loads(text)
        for name in ("sealed", "merged"):
            data[name] = {(instance, store): tuple(map(Run.from_json, runs)) for instance, store, runs in data[name]}
        data["heavy"] = tuple(map(HeavyKey.from_json, data["heavy"]))
        data["intake"] = tuple(Intake(**i) for i in data["intake"])
        data["cells"] = tuple(map(tuple, data["cells"]))
        for name in ("stored", "probes", "results", "late_files"):
            data[name] = tuple(data[name])
        return cls(**data)
