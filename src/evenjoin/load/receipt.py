"""What one join instance saw and did in one batch, written by its task and read by the driver.

A task that is retried or speculated leaves another receipt of the same content (its files have other names); the
driver takes any one. A receipt is written when the instance's last result has been handed over, so a missing one
means the instance's work was not consumed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from evenjoin.load.samples import Sample, merge_samples
from evenjoin.state.segment import Run


@dataclass(frozen=True, slots=True)
class HeavyKey:
    """One of the heaviest keys an instance saw in a batch. Each count is per side:

    arrived   tuples of the side that were stored here in this batch
    probed    tuples of the side that probed here (the papers' phi of the other side's unit)
    stored    tuples of the side alive here after the batch (the papers' |R_ik|); zeros unless the planner asked
    results   pairs found in the side's store here: results, but for those a residual predicate sorts out
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
    """What dispatch saw of one side: rows read, late, unmatchable (NULL key or filtered out), the latest event time;
    how long it took to hash and place them; and, where a planner looks at codes, a sample of them."""

    rows: int = 0
    late: int = 0
    unmatchable: int = 0
    latest: int | None = None
    hash_ms: float = field(default=0.0, compare=False)
    sample: Sample = field(default=(), compare=False)

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def __add__(self, other: Intake) -> Intake:
        times = [t for t in (self.latest, other.latest) if t is not None]
        return Intake(
            self.rows + other.rows,
            self.late + other.late,
            self.unmatchable + other.unmatchable,
            max(times) if times else None,
            self.hash_ms + other.hash_ms,
            merge_samples(self.sample, other.sample) if self.sample or other.sample else (),
        )


CellCount = tuple[int, int, int, int, int]
"""(side, cell, arrived, stored, results): exact counts of one cell of the table (see placement/place.py); results as
in HeavyKey, for it is pairs that take time."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """`probes[s]` are tuples of side s that probed here; `results[s]` were found in the store of side s.
    `receive_ms` is the part of `busy_ms` spent on taking in and sorting what was sent."""

    batch: int
    instance: int
    sealed: tuple[tuple[Run, ...], ...]
    merged: tuple[tuple[Run, ...], ...]
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
            data[name] = [[run.to_json() for run in side] for side in data[name]]
        for name in ("heavy", "intake"):
            data[name] = [item.to_json() for item in data[name]]
        return json.dumps(data).encode()

    @classmethod
    def from_bytes(cls, text: bytes) -> Receipt:
        data = json.loads(text)
        for name in ("sealed", "merged"):
            data[name] = tuple(tuple(Run.from_json(run) for run in side) for side in data[name])
        data["heavy"] = tuple(map(HeavyKey.from_json, data["heavy"]))
        data["intake"] = tuple(Intake(**i) for i in data["intake"])
        data["cells"] = tuple(map(tuple, data["cells"]))
        for name in ("stored", "probes", "results", "late_files"):
            data[name] = tuple(data[name])
        return cls(**data)
