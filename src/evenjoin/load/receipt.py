"""What one join instance saw and did in one batch, written by its task and read by the driver.

A task that is retried or speculated leaves another receipt of the same content (its files have other names); the
driver takes any one. A receipt is written when the instance's last result has been handed over, so a missing one
means the instance's work was not consumed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from evenjoin.state.segment import Run


@dataclass(frozen=True, slots=True)
class HeavyKey:
    """One of the heaviest keys an instance saw in a batch: tuples that arrived per side, and its results."""

    code: int
    name: str
    arrived: tuple[int, ...]
    matches: int

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Intake:
    """What dispatch saw of one side: rows read, late, unmatchable (NULL key or filtered out), span of event times."""

    rows: int = 0
    late: int = 0
    unmatchable: int = 0
    latest: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def __add__(self, other: Intake) -> Intake:
        times = [t for t in (self.latest, other.latest) if t is not None]
        return Intake(
            self.rows + other.rows,
            self.late + other.late,
            self.unmatchable + other.unmatchable,
            max(times) if times else None,
        )


@dataclass(frozen=True, slots=True)
class Receipt:
    batch: int
    instance: int
    sealed: tuple[tuple[Run, ...], ...]
    merged: tuple[tuple[Run, ...], ...]
    stored: tuple[int, ...]
    probes: tuple[int, ...]
    matches: int
    busy_ms: float
    buckets: tuple[tuple[int, int, int], ...] = ()
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
        data["heavy"] = tuple(HeavyKey(**{**h, "arrived": tuple(h["arrived"])}) for h in data["heavy"])
        data["intake"] = tuple(Intake(**i) for i in data["intake"])
        data["buckets"] = tuple(map(tuple, data["buckets"]))
        for name in ("stored", "probes", "late_files"):
            data[name] = tuple(data[name])
        return cls(**data)
