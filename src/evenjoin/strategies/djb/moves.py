"""MoveOut and MoveIn of D-JB (section 4.2) with its heuristics H1, H2 and H3.

    MoveOut(pu)   H1: whole keys go to the least loaded units, the largest that fit first. If that cannot bring the unit
                  below (1 + theta_max) * mean, H2: its largest piece is split over several units by weight, then again
    MoveIn(pu)    H3: keys in the routing table whose hashing unit is pu come back, and their records are cleared

Bounds of every whole move (H1): the recipient stays below (1 + theta_max) * mean, the donor above (1 - theta_max) *
mean.

Where the paper is silent:
* What remains of buckets moves whole, after the keys (H1).
* H2 fills units from the least loaded up: either as few as meet the bound (`narrow`: least duplication), or all that
  have room (`wide`: most even).
* A unit that is too light for H3 to help takes keys and buckets from the heaviest, by H1's rules.

Not here: in which order units are looked at (ism.py), and what the moves cost (load/djb.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenjoin.kernels.hashing import I64
from evenjoin.load.items import F64
from evenjoin.strategies.djb.draft import Draft

Spread = Literal["narrow", "wide"]
Stop = Literal["donor in bounds", "recipient in bounds"]
KINDS: tuple[Literal["key", "bucket"], ...] = ("key", "bucket")
SPLITS = 16
"""How many keys one MoveOut may split."""
SMALLEST_SHARE = 0.01
"""A smaller share of a key on a unit is not worth the duplication."""


@dataclass(frozen=True, slots=True)
class Move:
    """One whole key or bucket goes to another unit. `index` is the number of the item or of the bucket."""

    what: Literal["key", "bucket"]
    index: int
    source: int
    to: int


def move_out(draft: Draft, row: int, donor: int, spread: Spread | None) -> None:
    """MoveOut of an overloaded unit, by H1 and H2; with `spread` None by H1 alone."""
    for _ in range(SPLITS):
        upper = draft.upper(row)
        if draft.load[row, donor] <= upper:
            return
        others = draft.units(row)
        moves, load = whole_moves(draft, row, donor, others[others != donor])
        if spread is None or load[donor] <= upper or not split_largest(draft, row, donor, spread):
            apply(draft, row, moves)
            return


def move_in(draft: Draft, row: int, unit: int) -> None:
    """MoveIn, H3. An underloaded unit takes back any key that is hashed to it. Any other unit takes back only those of
    its keys that are split. A key comes back if every touched unit is then within its bounds, or at least none is
    further out than the furthest of them was before."""
    away, split, size = draft.abroad(row, unit)
    back = away if draft.load[row, unit] < draft.lower(row) else split
    for n in sorted(np.flatnonzero(back).tolist(), key=lambda n: -float(size[n])):
        _merge_if_bounded(draft, row, n, unit)


def take(draft: Draft, row: int, unit: int) -> None:
    """A unit that is still underloaded takes keys and buckets from the heaviest units, by H1's rules."""
    units = draft.units(row)
    for donor in units[np.argsort(-draft.load[row, units], kind="stable")].tolist():
        if donor == unit or draft.load[row, unit] >= draft.lower(row):
            return
        moves, _ = whole_moves(draft, row, donor, np.array([unit]), stop="recipient in bounds")
        apply(draft, row, moves)


def whole_moves(
    draft: Draft, row: int, donor: int, recipients: I64, stop: Stop = "donor in bounds"
) -> tuple[list[Move], F64]:
    """H1: keys of the donor, then its buckets, the largest that fit first, each to the least loaded recipient.

    Returns the moves, which are not yet applied, and the row's load after them."""
    load, upper, lower = draft.load[row].copy(), draft.upper(row), draft.lower(row)
    moves: list[Move] = []
    whole = draft.whole(row, donor)
    along = ~draft.routed
    for what in KINDS:
        sizes = (
            np.where(draft.items.is_key, whole, 0.0) if what == "key" else _buckets(draft, np.where(along, whole, 0))
        )
        for index in np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes) if len(recipients) else 0].tolist():
            to = int(recipients[np.argmin(load[recipients])])
            if load[donor] <= upper if stop == "donor in bounds" else load[to] >= lower:
                return moves, load
            if load[to] + sizes[index] <= upper and load[donor] - sizes[index] >= lower:
                moves.append(Move(what, index, donor, to))
                load[[donor, to]] += -sizes[index], sizes[index]
                along[index] &= what != "key"
    return moves, load


def _buckets(draft: Draft, work: F64) -> F64:
    """[buckets] The work that would leave with each bucket: its remainder and its keys that have no record."""
    out: F64 = np.bincount(draft.items.bucket, work).astype(float)
    return out


def apply(draft: Draft, row: int, moves: list[Move]) -> None:
    """Make the moves."""
    for move in moves:
        if move.what == "key":
            draft.move_whole(row, move.index, move.source, move.to)
        else:
            draft.move_buckets(row, move.index, move.source, move.to)


def split_largest(draft: Draft, row: int, donor: int, spread: Spread) -> bool:
    """H2: split the donor's piece with the most divisible work; if that does not relieve the donor, the next one.
    False if no split would."""
    on_donor, filled = draft.pieces_on(row, donor), fill if draft.splits == "by weight" else fill_evenly
    for side, n in sorted(on_donor, key=lambda piece: (-on_donor[piece], piece))[:SPLITS]:
        now = draft.work(side, n)
        base = draft.load[row] - now
        units = draft.units(row)
        share = np.zeros(len(now))
        share[units] = filled(base[units], draft.divisible[side, n], draft.fixed[side, n], draft.theta, spread)
        after = base + share * draft.divisible[side, n] + (share > 0) * draft.fixed[side, n]
        peak = after[share > 0].max(initial=0.0)
        if max(after[donor], peak) < draft.load[row, donor] - 1e-9:
            draft.put(side, n, share)
            return True
    return False


def fill(base: F64, divisible: float, fixed: float, theta_max: float, spread: Spread) -> F64:
    """[units] Shares of a piece that fill the least loaded units up to one level; `base` is their load without it.

    With the m least loaded units the level is (divisible + m * fixed + their base) / m. A unit belongs to them if it is
    below the level even when it is probed. `wide` takes as many units as belong. `narrow` takes the fewest with which
    the level is at most (1 + theta_max / 2) * mean.
    """
    order = np.argsort(base, kind="stable")
    ranked = base[order]
    count = np.arange(1, len(base) + 1)
    level = (divisible + count * fixed + np.cumsum(ranked)) / count
    belongs = level > ranked + fixed
    chosen = int(np.flatnonzero(belongs)[-1]) if belongs.any() else 0
    if spread == "narrow":
        mean = (base.sum() + divisible + count * fixed) / len(base)
        enough = np.flatnonzero(belongs & (level <= (1 + theta_max / 2) * mean))
        chosen = int(enough[0]) if len(enough) else chosen
    share = np.zeros(len(base))
    members = order[: chosen + 1]
    share[members] = (level[chosen] - base[members] - fixed) / divisible if divisible > 0 else 1.0
    share[share < min(SMALLEST_SHARE, share.max())] = 0.0
    out: F64 = share / share.sum()
    return out


def fill_evenly(base: F64, divisible: float, fixed: float, theta_max: float, spread: Spread) -> F64:
    """[units] The same with even shares. With the m least loaded units the heaviest of them comes to its base +
    divisible / m + fixed. `wide` takes as many units as make that least. `narrow` takes the fewest with which it is at
    most (1 + theta_max / 2) * mean."""
    order = np.argsort(base, kind="stable")
    count = np.arange(1, len(base) + 1)
    peak = base[order] + divisible / count + fixed
    chosen = int(np.argmin(peak))
    if spread == "narrow":
        enough = np.flatnonzero(peak <= (1 + theta_max / 2) * (base.sum() + divisible + count * fixed) / len(base))
        chosen = int(enough[0]) if len(enough) else chosen
    share = np.zeros(len(base))
    share[order[: chosen + 1]] = 1.0 / (chosen + 1)
    return share


def _merge_if_bounded(draft: Draft, row: int, n: int, unit: int) -> None:
    """H3 for one key, unless that would put a unit further out of its bounds than one was before."""
    before, after = draft.load[row], draft.load_with(row, n, unit)
    touched = [unit, *np.flatnonzero(np.abs(after - before) > 1e-9).tolist()]
    hosts = len(draft.units(row))
    if _furthest(after, touched, hosts) <= max(draft.theta, _furthest(before, touched, hosts)) + 1e-12:
        draft.bring_back(row, n, unit)


def _furthest(load: F64, units: list[int], hosts: int) -> float:
    """The largest theta(pu) of some units."""
    mean = load.sum() / hosts
    return float(np.abs(load[units] - mean).max() / mean) if mean > 0 else 0.0
