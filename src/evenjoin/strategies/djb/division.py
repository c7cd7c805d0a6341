"""How a split key's tuples are divided among its units, such that other shares move no more than they must.

A tuple of a split key goes to the unit that has its position `u`. If the units lay in a row, each with a range as wide
as its share, then one other share would shift all the cuts behind it. So a unit that keeps its share keeps its ranges,
one that loses gives up the tails of its ranges, and one that gains takes such tails:

    before     |0        |1        |2        |        u ->
    after      |0    |3  |1        |2    |3  |        unit 3 has got two pieces, all others keep what is theirs

Guarantee: what changes place is the sum of what the units gain, the least that the new shares allow (unless a division
would have more than MOST_PIECES pieces for each of its units: then the ranges are laid out afresh, in the old order).
The same is done for the lines of a grid (strategies/adsp/mapping.py). Not here: which shares are best (moves.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenjoin.kernels.hashing import I64
from evenjoin.load.items import F64
from evenjoin.placement.slots import WHOLE
from evenjoin.placement.topology import Biclique
from evenjoin.strategies.adsp.mapping import aligned, widths

GRAIN = 2**16
"""Shares are multiples of 1 / GRAIN, so that the pieces of a division are few and their widths exact."""
MOST_PIECES = 8


class Split(NamedTuple):
    """The units of a split piece, each once, and the share of each."""

    units: I64
    share: F64

    def of(self, unit: int) -> float:
        """The share of one unit; 0: it has none."""
        return float(self.share[self.units == unit].sum())


def rounded(units: I64, share: F64) -> Split:
    """The shares as multiples of 1 / GRAIN that add up to 1, without the units that would have none."""
    parts = np.rint(share / share.sum() * GRAIN)
    parts[np.argmax(parts)] += GRAIN - parts.sum()
    some = parts > 0
    return Split(units[some], parts[some] / GRAIN)


def divided(now: Biclique, side: int, split: Split) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The pieces of a side's tuples as (units, weights), given how they are divided now."""
    had = now.units[side]
    share = dict(zip(split.units.tolist(), split.share.tolist(), strict=True))
    units = [*dict.fromkeys(unit for unit in had if unit in share), *(unit for unit in share if unit not in had)]
    line = {unit: number for number, unit in enumerate(units)}
    weights = now.weights[side] if now.weights is not None else (1.0,) * len(had)
    old = tuple((line.get(unit, len(units)), width) for unit, width in zip(had, widths(weights), strict=True))
    shares = [share[unit] for unit in units]
    made = aligned(old, shares)
    if len(made) > MOST_PIECES * len(units):
        made = tuple(enumerate(widths(shares)))
    return tuple(units[number] for number, _ in made), tuple(width / WHOLE for _, width in made)
