"""What dispatch tasks saw of a batch, and what they say they sent.

A dispatch task ends with a note. One instance reads it, and its receipt hands on what it says.

Guarantee: a note holds no clock and no name of a task. A task that runs again on the same rows, in any order, says the
same. Not here: dispatch itself (runtime/dispatch.py), and what the sums are for (receipt.py).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from evenjoin.load.samples import Slice, Slices, joined, slices_from_json


@dataclass(frozen=True, slots=True)
class Intake:
    """What dispatch saw of one side.

    rows, late, unmatchable   rows read; of these the late ones, and those that nothing can match (a NULL key, no time
                              although the join has time bounds, or the side's filter fails)
    latest                    the latest event time of the rows that the watermark sees: all but those that are
                              unmatchable or ahead
    sample                    samples of the codes by sub-window, where a planner looks at codes
    ahead, ahead_from         rows set aside because their event time is too far ahead, and the least of their times
    """

    rows: int = 0
    late: int = 0
    unmatchable: int = 0
    latest: int | None = None
    sample: Slices = field(default=(), compare=False)
    ahead: int = 0
    ahead_from: int | None = None

    def __post_init__(self) -> None:
        """A sample that comes from JSON has lists for slices."""
        if any(not isinstance(one, Slice) for one in self.sample):
            object.__setattr__(self, "sample", slices_from_json(self.sample))

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
            joined((*self.sample, *other.sample)) if self.sample and other.sample else self.sample or other.sample,
            self.ahead + other.ahead,
            min(least) if least else None,
        )


@dataclass(frozen=True, slots=True)
class Note:
    """What a dispatch task says when it has sent everything: what it saw of each side, and the sum of the lines that it
    sent (kernels/content.py), modulo 2^64."""

    intake: tuple[Intake, ...]
    sent: int

    def to_bytes(self) -> bytes:
        return json.dumps([self.sent, [intake.to_json() for intake in self.intake]]).encode()

    @classmethod
    def from_bytes(cls, text: bytes) -> Note:
        sent, intake = json.loads(text)
        return cls(tuple(Intake(**i) for i in intake), sent)

    @property
    def line(self) -> int:
        """The note's own line in the books."""
        return int.from_bytes(blake2b(self.to_bytes(), digest_size=8).digest(), "little")
