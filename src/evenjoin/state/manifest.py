"""The manifest: which runs each instance holds for each side. A frozen value; every change makes a new one.

Applying a batch is arithmetic on sets of runs: what the receipts sealed comes in, what they merged goes out, what
the watermark has passed is dropped. Files named by no manifest are garbage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from evenjoin.state.segment import Run

Place = tuple[int, int]
"""(instance, side)"""


@dataclass(frozen=True, slots=True)
class Manifest:
    runs: Mapping[Place, tuple[Run, ...]] = field(default_factory=dict)

    def of(self, instance: int, side: int) -> tuple[Run, ...]:
        return self.runs.get((instance, side), ())

    def __iter__(self) -> Iterator[tuple[int, int, Run]]:
        for (instance, side), runs in sorted(self.runs.items()):
            for run in runs:
                yield instance, side, run

    @property
    def files(self) -> set[str]:
        return {run.file for _, _, run in self}

    def stored(self, instance: int, side: int) -> int:
        """Live tuples of a side on an instance."""
        return sum(run.alive for run in self.of(instance, side))

    def changed(self, place: Place, gone: Iterable[Run], come: Iterable[Run]) -> Manifest:
        """Some runs of one place replaced by others."""
        gone = set(gone)
        kept = tuple(run for run in self.runs.get(place, ()) if run not in gone)
        return Manifest({**self.runs, place: (*kept, *come)})

    def expired(self, horizons: tuple[int | None, ...], watermark: int | None) -> tuple[Manifest, int]:
        """Without the runs whose every tuple is dead (time + horizon <= watermark), and how many tuples those had."""
        if watermark is None or all(h is None for h in horizons):
            return self, 0
        kept: dict[Place, tuple[Run, ...]] = {}
        dropped = 0
        for (instance, side), runs in self.runs.items():
            horizon = horizons[side]
            live = tuple(r for r in runs if horizon is None or r.high + horizon > watermark)
            dropped += sum(r.alive for r in runs) - sum(r.alive for r in live)
            kept[instance, side] = live
        return (self, 0) if kept == self.runs else (Manifest(kept), dropped)

    def to_json(self) -> list[dict[str, Any]]:
        return [{"instance": i, "side": s, **run.to_json()} for i, s, run in self]

    @classmethod
    def from_json(cls, data: list[dict[str, Any]]) -> Manifest:
        runs: dict[Place, tuple[Run, ...]] = {}
        for item in data:
            run = {name: value for name, value in item.items() if name not in ("instance", "side")}
            place = item["instance"], item["side"]
            runs[place] = (*runs.get(place, ()), Run.from_json(run))
        return cls(runs)
