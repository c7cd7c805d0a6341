"""Who held a checkpoint, and when: every process that takes it writes so itself, all of them into one file.

    4711 held 81234.117        process, what happened, the machine's monotonic clock in seconds
    4711 free 81234.530

`held` is written after the checkpoint was taken, `free` before it is given back:

    written hold  <=  true hold        so two written holds that overlap were two true holds at once

Not guaranteed: a `free` of a process that was killed. Its last hold has no end here, so the reader has to know whether
that process lives. A hold that was lost without a `free` lasts, as written, until its process takes the checkpoint
again. Processes of several machines cannot be compared: their clocks have nothing in common.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class Hold:
    """One hold as written. `until` is infinite if its end was not written."""

    process: int
    since: float
    until: float = math.inf

    def overlaps(self, other: Hold) -> bool:
        return self.since < other.until and other.since < self.until


@dataclass(frozen=True, slots=True)
class Book:
    """The file of holds at a path."""

    path: Path

    def write(self, what: Literal["held", "free"]) -> None:
        """Add what has just happened in this process, or is about to."""
        line = f"{os.getpid()} {what} {time.monotonic()!r}\n".encode()
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            os.write(file, line)
        finally:
            os.close(file)

    def holds(self) -> list[Hold]:
        """All holds so far, those that have not ended last."""
        ended, begun = list[Hold](), dict[int, float]()
        for line in self.path.read_text().splitlines() if self.path.exists() else ():
            process, what, at = int(line.split()[0]), line.split()[1], float(line.split()[2])
            if process in begun:
                ended.append(Hold(process, begun.pop(process), at))
            if what == "held":
                begun[process] = at
        return [*ended, *(Hold(process, since) for process, since in begun.items())]


def at_once(holds: list[Hold]) -> list[tuple[Hold, Hold]]:
    """The pairs of holds of two processes that overlap. There must be none."""
    return [(a, b) for a, b in combinations(holds, 2) if a.process != b.process and a.overlaps(b)]
