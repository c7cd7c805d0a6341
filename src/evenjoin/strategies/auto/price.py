"""What a change of table costs: a pause, and time for every tuple that moves. Learned from the migrations of the run.

    price(tuples) = factor * (PAUSE_MS + MOVE_MS * tuples / lanes)

`factor` is what migrations took so far over what the defaults say, smoothed; 1 before the first.
Pure values. Not here: whether a change is worth it (planner.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

PAUSE_MS = 300.0
"""A migration of hardly anything: on Spark one job of two short tasks an instance."""
MOVE_MS = 1e-3
"""A tuple that is read, sorted and sealed elsewhere."""
NEWEST = 0.5
"""The weight of the last migration."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a migration on so many cores (`lanes`: as many as have work)."""

    lanes: int
    factor: float = 1.0

    @property
    def move_ms(self) -> float:
        """Of a tuple, on one core."""
        return self.factor * MOVE_MS

    def of(self, tuples: float) -> float:
        """Milliseconds that a migration of so many tuples takes."""
        return self.factor * (PAUSE_MS + MOVE_MS * tuples / self.lanes)

    def after(self, tuples: int, pause_ms: float) -> Price:
        """The price after a migration that took so long."""
        seen = pause_ms / (PAUSE_MS + MOVE_MS * tuples / self.lanes)
        return replace(self, factor=(1 - NEWEST) * self.factor + NEWEST * seen)
