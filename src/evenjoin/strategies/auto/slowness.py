"""Which instances are slow: what their tasks take over what tasks with as much to do take elsewhere.

    speed       what the fitted cost expects of a task over what it took, over the cluster's; smoothed (load/report.py)
    wander      how far a batch's figure is from the smoothed one, as a factor's logarithm; smoothed as well
    slowness    median speed / speed, where that is believed; else 1

A slowness is believed if it is more than NOISE away from 1, more than STEADY times as far as it wanders, and if at
least SURE batches have shown it. On Spark a task runs wherever a core is free, so the slow node is another instance's
in each batch: there the speeds wander, and nothing is believed. Where instances stay on their nodes, it is steady.

Guarantee: while all instances are equally fast but for noise below NOISE, every slowness is 1.
Not guaranteed: that what is believed is the node. A key whose tuples take longer than others' makes its instance look
slow as far as the fit does not explain it.
Pure values. Not here: what a slow instance means for a table (load/cost.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evenjoin.load.items import F64
from evenjoin.load.report import SMOOTHING, speeds_of

NOISE = 1.3
STEADY = 2.5
SURE = 6
"""With lognormal noise of 0.2 in the times of 8 tasks, none of 8,000 figures was believed wrongly, and a node at half
speed was in 99 % of the batches after the tenth; with noise of 0.5 that is 0.1 % and 23 %."""
DIGITS = 4


@dataclass(frozen=True, slots=True)
class Pace:
    """What was measured after `batches` batches, by instance."""

    batches: int = 0
    speeds: tuple[float, ...] = ()
    wander: tuple[float, ...] = ()

    def after(self, expected: Sequence[float], took_ms: Sequence[float]) -> Pace:
        """With one more batch: what its tasks were expected to take, and took (0: not known)."""
        known = self if len(self.speeds) == len(expected) else Pace()
        now = speeds_of(expected, took_ms)
        if not now:
            return known
        speeds = speeds_of(expected, took_ms, known.speeds)
        far = np.abs(np.log(np.maximum(now, 1e-6)) - np.log(np.maximum(known.speeds or speeds, 1e-6)))
        before = np.array(known.wander or (0.0,) * len(now))
        weight = max(1 / max(known.batches, 1), SMOOTHING)
        wander = np.round(before + weight * (far - before), DIGITS)
        return Pace(known.batches + 1, speeds, tuple(wander.tolist()))

    def slowness(self, instances: int) -> F64:
        """[instances] How many times as long as elsewhere a task takes there; 1 where nothing is believed."""
        out = np.ones(instances)
        if len(self.speeds) != instances or self.batches < SURE:
            return out
        speeds = np.maximum(np.array(self.speeds), 1e-6)
        found = np.median(speeds) / speeds
        far, steady = np.abs(np.log(found)), STEADY * np.array(self.wander)
        believed = (far > np.log(NOISE)) & (far > steady)
        out[believed] = found[believed]
        return out

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Pace:
        return cls(data.get("batches", 0), tuple(data.get("speeds", ())), tuple(data.get("wander", ())))
