"""ISM, internal-side migration (D-JB, Algorithm 1): balance the units of one row.

    MoveIn    for every unit below (1 - theta_max) * mean, and for split keys that have cooled
    MoveOut   for every unit above (1 + theta_max) * mean, the heaviest first

Algorithm 1 goes over the units in their order and calls whichever applies. Here all of MoveIn comes first, so that
MoveOut knows which records were cleared and which duplication has ended. Then split keys get other shares where units
are still out of bounds, and units that are still too light take from the heaviest. The planner says which of H1, H2 and
H3 may be used: each choice is a migration function f of eq. 4 (planner.py). Where H1 alone cannot relieve a unit, a
function without H2 is given up.

Not guaranteed: that every unit is within its bounds afterwards. Not here: the moves themselves (moves.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenjoin.strategies.djb.draft import Draft
from evenjoin.strategies.djb.moves import Spread, hopeless, move_in, move_out, share_again, take


@dataclass(frozen=True, slots=True)
class Heuristics:
    """The heuristics that a migration function uses: H3 (merge), H1 (move), and H2 (split; None: not used)."""

    merge: bool
    move: bool
    split: Spread | None = None


def ism(draft: Draft, row: int, use: Heuristics) -> None:
    """Algorithm 1, on one row of the draft."""
    if use.merge:
        for unit in _ascending(draft, row):
            move_in(draft, row, unit)
    if not use.move:
        return
    for unit in reversed(_ascending(draft, row)):
        if use.split is None and hopeless(draft, row, unit):
            draft.stuck = True
            return
        move_out(draft, row, unit, use.split)
    if use.split is not None:
        share_again(draft, row)
    dry: set[int] = set()
    for unit in _ascending(draft, row):
        take(draft, row, unit, dry)


def _ascending(draft: Draft, row: int) -> list[int]:
    """The row's units, the lightest first."""
    units = draft.units(row)
    out: list[int] = units[np.argsort(draft.load[row, units], kind="stable")].tolist()
    return out
