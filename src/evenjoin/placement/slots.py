"""Slots: what every topology says of itself. They cut the range of `u`, and name the targets of each part.

Pure values. Not here: the topologies (topology.py, cube.py), and how tuples find their slot (place.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag


class Role(IntFlag):
    """What a tuple does at an instance."""

    STORE = 1
    PROBE = 2
    BOTH = 3


@dataclass(frozen=True, slots=True)
class Slot:
    """A part of the range of `u`, and where its tuples go. Its share is `weight` over the sum of the side's weights."""

    weight: float
    targets: tuple[tuple[int, Role], ...]


WHOLE = 2**32
"""The size of the range of `u`. The widths of a division add up to it."""

Division = tuple[tuple[int, int], ...]
"""Which line of a grid each part of the range of `u` belongs to: consecutive pieces as (line, width). A line may have
several pieces (start-point alignment, strategies/adsp/mapping.py)."""


def even_division(lines: int) -> Division:
    """One piece for each line, all of the same width but for the remainder of the integer division."""
    cuts = [i * WHOLE // lines for i in range(lines + 1)]
    return tuple((i, cuts[i + 1] - cuts[i]) for i in range(lines))
