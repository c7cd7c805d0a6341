"""The load report: a pure fold over a batch's receipts and the manifest after it.

Per instance and side the tuples stored and the probes of the interval (the papers' |R| and phi), results and busy
time; per bucket the arrivals; the heaviest keys with their counts. It is recorded in the commit, so that a replay
decides the same, and it is what the user sees as `query.load()`.

Bound of the heavy keys: each instance reports its HEAVY_KEYS heaviest of the batch, so a key that arrives more than
arrivals/HEAVY_KEYS times at an instance is always among them, with exact counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evenjoin.load.receipt import HeavyKey, Intake, Receipt
from evenjoin.state.manifest import Manifest

HEAVY_KEYS = 32


@dataclass(frozen=True, slots=True)
class InstanceLoad:
    instance: int
    stored: tuple[int, ...]
    probes: tuple[int, ...]
    matches: int
    bytes: int
    busy_ms: float

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class LoadReport:
    batch: int
    instances: tuple[InstanceLoad, ...]
    heavy: tuple[HeavyKey, ...]
    buckets: tuple[tuple[int, int, int], ...]
    intake: tuple[Intake, ...]
    expired: int = 0

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
        return cls(
            data["batch"],
            tuple(
                InstanceLoad(**{**load, "stored": tuple(load["stored"]), "probes": tuple(load["probes"])})
                for load in data["instances"]
            ),
            tuple(HeavyKey(**{**key, "arrived": tuple(key["arrived"])}) for key in data["heavy"]),
            tuple((side, bucket, rows) for side, bucket, rows in data["buckets"]),
            tuple(Intake(**intake) for intake in data["intake"]),
            data["expired"],
        )


def fold(receipts: Sequence[Receipt], manifest: Manifest, sides: int, expired: int = 0) -> LoadReport:
    """The report of one batch."""
    instances = tuple(
        InstanceLoad(
            receipt.instance,
            tuple(manifest.stored(receipt.instance, side) for side in range(sides)),
            receipt.probes,
            receipt.matches,
            sum(run.bytes for side in range(sides) for run in manifest.of(receipt.instance, side)),
            receipt.busy_ms,
        )
        for receipt in receipts
    )
    buckets: dict[tuple[int, int], int] = defaultdict(int)
    for receipt in receipts:
        for side, bucket, rows in receipt.buckets:
            buckets[side, bucket] += rows
    intake = tuple(sum((r.intake[side] for r in receipts if r.intake), Intake()) for side in range(sides))
    counts = tuple((side, bucket, count) for (side, bucket), count in sorted(buckets.items()))
    return LoadReport(receipts[0].batch, instances, _heaviest(receipts, sides), counts, intake, expired)


def _heaviest(receipts: Sequence[Receipt], sides: int) -> tuple[HeavyKey, ...]:
    """The same key may be heavy on several instances (split keys): its arrivals are stored once per tuple."""
    arrived: dict[int, list[int]] = defaultdict(lambda: [0] * sides)
    matches: dict[int, int] = defaultdict(int)
    names: dict[int, str] = {}
    for receipt in receipts:
        for key in receipt.heavy:
            names[key.code] = key.name
            matches[key.code] += key.matches
            for side in range(sides):
                arrived[key.code][side] += key.arrived[side]
    keys = [HeavyKey(code, names[code], tuple(arrived[code]), matches[code]) for code in names]
    return tuple(sorted(keys, key=lambda k: (-sum(k.arrived), k.code))[:HEAVY_KEYS])
