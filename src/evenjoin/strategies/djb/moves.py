"""MoveOut and MoveIn of D-JB (section 4.2) with its heuristics H1, H2 and H3.

    MoveOut(pu)   H1: whole keys go to the least loaded units, the largest that fit first. If that cannot bring the unit
                  below (1 + theta_max) * mean, H2: its largest piece is split over several units by weight, then again
    MoveIn(pu)    H3: keys in the routing table whose hashing unit is pu come back, and their records are cleared

Bounds of every move: the recipient stays below (1 + theta_max) * mean, the donor above (1 - theta_max) * mean.

Where the paper is silent: what remains of buckets moves whole after the keys (H1); H2 fills units from the least loaded
up, either as few as meet the bound (`narrow`: least duplication) or all that have room (`wide`: most even); a unit too
light to be helped by H3 takes keys and buckets from the heaviest by H1's rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenjoin.kernels.hashing import I64
from evenjoin.load.items import F64
from evenjoin.strategies.djb.draft import WHOLE, Draft

Reach = Literal["narrow", "wide"]
Stop = Literal["donor in bounds", "recipient in bounds"]
KINDS: tuple[Literal["key", "bucket"], ...] = ("key", "bucket")
SPLITS = 16
"""Keys that one MoveOut may split."""
SMALLEST_SHARE = 0.01
"""A unit is not worth the duplication for less of a key."""


@dataclass(frozen=True, slots=True)
class Move:
    """One whole key or bucket (an index of items, or a bucket) to another unit."""

    what: Literal["key", "bucket"]
    index: int
    source: int
    to: int


def move_out(draft: Draft, row: int, donor: int, reach: Reach | None) -> None:
    """MoveOut of an overloaded unit; `reach` None is H1 alone."""
    for _ in range(SPLITS):
        upper = draft.upper(row)
        if draft.load[row, donor] <= upper:
            return
        others = draft.units(row)
        moves, load = whole_moves(draft, row, donor, others[others != donor])
        if reach is None or load[donor] <= upper or not split_largest(draft, row, donor, reach):
            apply(draft, row, moves)
            return


def move_in(draft: Draft, row: int, unit: int) -> None:
    """MoveIn, H3: an underloaded unit takes back any key hashed to it, any unit takes back its split keys that have
    cooled, provided that no touched unit leaves its bounds, or none is further out than one was before."""
    away = np.zeros(len(draft.items), bool)
    split = np.zeros(len(draft.items), bool)
    size = np.zeros(len(draft.items))
    for side in draft.sides[row]:
        abroad = draft.routed & (draft.home[side] == unit) & (draft.shares[side, :, unit] < WHOLE)
        away |= abroad
        split |= abroad & ((draft.shares[side] > 0).sum(axis=1) > 1)
        size += abroad * (draft.divisible[side] + draft.fixed[side])
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
    """H1: keys of the donor, then buckets, the largest that fit first, each to the least loaded recipient.

    Returns the moves, not yet applied, and the row's load after them."""
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
            continue
        for side in draft.sides[row]:
            if draft.edit.bucket(move.index).units[side] == (move.source,):
                draft.move_bucket(side, move.index, move.to)


def split_largest(draft: Draft, row: int, donor: int, reach: Reach) -> bool:
    """H2: the donor's piece with the most divisible work is partitioned. False if no split would relieve the donor."""
    on_donor = {
        (side, int(n)): float(draft.shares[side, n, donor] * draft.divisible[side, n])
        for side in draft.sides[row]
        for n in np.flatnonzero(draft.items.is_key & (draft.shares[side, :, donor] > 0))
    }
    for side, n in sorted(on_donor, key=lambda piece: (-on_donor[piece], piece))[:SPLITS]:
        now = draft.work(side, n)
        base = draft.load[row] - now
        units = draft.units(row)
        share = np.zeros(len(now))
        share[units] = fill(base[units], draft.divisible[side, n], draft.fixed[side, n], draft.theta, reach)
        after = base + share * draft.divisible[side, n] + (share > 0) * draft.fixed[side, n]
        peak = after[share > 0].max(initial=0.0)
        if max(after[donor], peak) < draft.load[row, donor] - 1e-9:
            draft.put(side, n, share)
            return True
    return False


def fill(base: F64, divisible: float, fixed: float, theta_max: float, reach: Reach) -> F64:
    """[units] Shares of a piece that fill the least loaded units up to one level; `base` is their load without it.

    With the m least loaded units the level is (divisible + m * fixed + their base) / m; a unit belongs if it is below
    the level even when probed. `wide` is the lowest level, `narrow` the fewest units half way within theta_max.
    """
    order = np.argsort(base, kind="stable")
    ranked = base[order]
    count = np.arange(1, len(base) + 1)
    level = (divisible + count * fixed + np.cumsum(ranked)) / count
    belongs = level > ranked + fixed
    chosen = int(np.flatnonzero(belongs)[-1]) if belongs.any() else 0
    if reach == "narrow":
        mean = (base.sum() + divisible + count * fixed) / len(base)
        enough = np.flatnonzero(belongs & (level <= (1 + theta_max / 2) * mean))
        chosen = int(enough[0]) if len(enough) else chosen
    share = np.zeros(len(base))
    members = order[: chosen + 1]
    share[members] = (level[chosen] - base[members] - fixed) / divisible if divisible > 0 else 1.0
    share[share < min(SMALLEST_SHARE, share.max())] = 0.0
    out: F64 = share / share.sum()
    return out


def _merge_if_bounded(draft: Draft, row: int, n: int, unit: int) -> None:
    """H3 for one key, unless it would put a unit out of its bounds."""
    before, back = draft.load[row], draft.one(unit)
    sides = [s for s in draft.sides[row] if draft.home[s, n] == unit and draft.shares[s, n, unit] < WHOLE]
    after = before.copy()
    for side in sides:
        after += back * (draft.divisible[side, n] + draft.fixed[side, n]) - draft.work(side, n)
    touched = [unit, *np.flatnonzero(np.abs(after - before) > 1e-9).tolist()]
    hosts = len(draft.units(row))
    if _furthest(after, touched, hosts) <= max(draft.theta, _furthest(before, touched, hosts)) + 1e-12:
        for side in sides:
            draft.put(side, n, back)


def _furthest(load: F64, units: list[int], hosts: int) -> float:
    """The largest theta(pu) of some units."""
    mean = load.sum() / hosts
    return float(np.abs(load[units] - mean).max() / mean) if mean > 0 else 0.0
