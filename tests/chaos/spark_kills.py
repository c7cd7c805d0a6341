"""The hooks of a join on Spark that die or stand still where they are told to. They travel to the workers by pickle.

Invariant: each death happens once. It leaves a file in the folder `marks` first, whose name says at which step, so a
restart goes on past it, and deaths can be counted.
"""

from __future__ import annotations

import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path


def mark(folder: str, name: str) -> bool:
    """Leave a file of this name. False if it is there already."""
    try:
        (Path(folder) / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@dataclass(frozen=True)
class DriverKill:
    """SIGKILL to the driver's process group (driver and JVM) at a step of a batch; at that step of any later batch, if
    the step is not reached in this one. Workers are in a group of their own, and outlive it for a moment."""

    marks: str
    start: int
    step: str
    batch: int

    def __call__(self, name: str, batch: int) -> None:
        if name == self.step and batch >= self.batch and mark(self.marks, f"driver-{self.start}-{name}"):
            os.killpg(0, signal.SIGKILL)


@dataclass(frozen=True)
class WorkerKills:
    """SIGKILL to the Python worker itself at random steps, `count` times in a start. With `slow`, the first task that
    reaches that step stands still for `seconds`, once for each of the `stops`."""

    marks: str
    start: int
    count: int
    slow: str | None = None
    stops: int = 0
    seconds: float = 1.7

    def __call__(self, name: str, instance: int) -> None:
        if name == self.slow and any(mark(self.marks, f"slow-{self.start}-{n}") for n in range(self.stops)):
            time.sleep(self.seconds)
        if random.Random(os.urandom(8)).random() > 0.3:
            return
        for number in range(self.count):
            if not list(Path(self.marks).glob(f"worker-{self.start}-{number}-*")):
                if mark(self.marks, f"worker-{self.start}-{number}-{name}"):
                    os.kill(os.getpid(), signal.SIGKILL)
                return


def shuffled(batches):  # type: ignore[no-untyped-def]
    """Rows in another order at each evaluation, for `mapInArrow`: a query whose row order is not fixed."""
    import numpy as np

    for batch in batches:
        yield batch.take(np.random.default_rng().permutation(batch.num_rows))
