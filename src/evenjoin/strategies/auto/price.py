"""What a change of table costs: a pause, and time for every tuple that moves. Learned from the migrations of the run.

    price(tuples) = pause + move * tuples / lanes               lanes: the cores that have work

Before the first migration both are defaults. After it they are fitted to the last migrations: non-negative least
squares of relative errors, drawn to the defaults as if one migration had taken what they say (RIDGE), and a migration
counts NEWER times as much as the one before it. So the two are told apart by what moved:

    300 ms for 50 tuples            a pause of 200 ms; a tuple costs what it did
    2 s for a million on one core   a tuple costs more; the pause is hardly touched

Guarantee: neither is ever negative, and a migration of hardly anything says nothing about the price of a tuple.
Not guaranteed: that the next migration takes as long. On Spark the first one of a run took three to five times as long
as later ones, because workers have to load the code first.
Pure values. Not here: whether a change is worth it (planner.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenjoin.load.cost import drawn

PAUSE_MS = 100.0
"""A migration of hardly anything. On Spark (local[2], 8 instances, 400,000 tuples stored) it is one job of a few short
tasks: nine migrations of 0 to 15,000 tuples took 70 to 171 ms, the median 95, and the first of the run 394. With two to
five times as many busy processes as cores the median was 350 ms. Embedded it is 4 ms (``python -m evenjoin.bench.moves
--tuples 1000000``): there the first migration is priced too high, and teaches it."""
MOVE_MS = 7e-4
"""A tuple that is read, sorted and sealed elsewhere. Embedded, on one core: 10,000 of a key 13 ms, 31,000 of a bucket
28 ms, 495,000 of all buckets 330 ms (the same command); three to four times as much on the busy machine."""
RIDGE = 1.0
NEWER = 1.4
"""After four migrations one has a quarter of the say that it had."""
KEPT = 8
"""Migrations that are remembered."""

Moves = tuple[tuple[float, float], ...]
"""Of each of the last migrations, oldest first: tuples moved per lane, and the milliseconds that it took."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a migration on so many cores (`lanes`: as many as have work). `move_ms` is that of a tuple on one
    core."""

    lanes: int
    pause_ms: float = PAUSE_MS
    move_ms: float = MOVE_MS

    def of(self, tuples: float) -> float:
        """Milliseconds that a migration of so many tuples takes."""
        return self.pause_ms + self.move_ms * tuples / self.lanes


def with_move(moves: Moves, lanes: int, tuples: int, pause_ms: float) -> Moves:
    """The last migrations, with one more."""
    return (*moves, (round(tuples / lanes, 3), round(pause_ms, 3)))[-KEPT:]


def learned(lanes: int, moves: Sequence[tuple[float, float]]) -> Price:
    """The price after these migrations."""
    if not moves:
        return Price(lanes)
    tuples, took = np.array(moves, np.float64).T
    base = np.column_stack([np.full(len(moves), PAUSE_MS), MOVE_MS * tuples])
    weight = NEWER ** (0.5 * np.arange(1 - len(moves), 1)) / base.sum(axis=1)
    pause, move = drawn(base * weight[:, None], took * weight, RIDGE)
    return Price(lanes, PAUSE_MS * float(pause), MOVE_MS * float(move))
