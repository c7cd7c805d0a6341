"""ISM, internal-side migration (D-JB, Algorithm 1): balance the units of one row.

    MoveIn    for every unit below (1 - theta_max) * mean, and for split keys that have cooled
    MoveOut   for every unit above (1 + theta_max) * mean, the heaviest first

Algorithm 1 goes over the units in their order and calls whichever applies. Here all of MoveIn comes first, so that
MoveOut knows which records were cleared and which duplication has ended. Units that are still too light take from the
heaviest at the end. The planner says which of H1, H2 and H3 may be used: each choice is a migration function f of eq.
4.

Not guaranteed: that every unit is within its bounds afterwards. Not here: the moves themselves (moves.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenjoin.strategies.djb.draft import Draft
from evenjoin.strategies.djb.moves import Spread, move_in, move_out, take


@dataclass(frozen=True, slots=True)
class Heuristics:
    """The heuristics that a migration function uses: H3 (merge), H1 (move), and H2 (split; None: not used)."""

    merge: bool
    move: bool
    split: Spread | None


CHOICES = (
    Heuristics(merge=True, move=False, split=None),
    Heuristics(merge=False, move=True, split=None),
    Heuristics(merge=True, move=True, split=None),
    Heuristics(merge=False, move=True, split="narrow"),
    Heuristics(merge=True, move=True, split="narrow"),
    Heuristics(merge=False, move=True, split="wide"),
    Heuristics(merge=True, move=True, split="wide"),
)
"""The paper's F: H3; H1; H3 + H1; and H1 + H2, H3 + H1 + H2 with each way to split."""


def ism(draft: Draft, row: int, use: Heuristics) -> None:
    """Algorithm 1, on one row of the draft."""
    if use.merge:
        for unit in _ascending(draft, row):
            move_in(draft, row, unit)
    if not use.move:
        return
    for unit in reversed(_ascending(draft, row)):
        move_out(draft, row, unit, use.split)
    for unit in _ascending(draft, row):
        take(draft, row, unit)


def _ascending(draft: Draft, row: int) -> list[int]:
    """The row's units, the lightest first."""
    units = draft.units(row)
    out: list[int] = units[np.argsort(draft.load[row, units], kind="stable")].tolist()
    return out
