"""MoveOut and MoveIn of D-JB (section 4.2) with its heuristics H1, H2 and H3.

    MoveOut(pu)   H1: whole keys go to the least loaded units, the largest that fit first. If that cannot bring the unit
                  below (1 + theta_max) * mean, H2: its largest piece is split over several units by weight; then again
                  H1, and so on
    MoveIn(pu)    H3: keys in the routing table whose hashing unit is pu come back, and their records are cleared

Bounds of every whole move (H1): the recipient stays below (1 + theta_max) * mean, the donor above (1 - theta_max) *
mean.

Where the paper is silent:
* What is hashed to a bucket moves whole, as a large key would (H1): with it go the keys that are too small to be known,
  and no record is needed. Of a key and a bucket that are equally large the key moves.
* H2 fills units from the least loaded up: either as few as meet the bound (`narrow`: least duplication), or all that
  have room (`wide`: most even).
* A unit that is too light for H3 to help takes keys and buckets from the heaviest, by H1's rules.

Not here: in which order units are looked at (ism.py), and what the moves cost (load/djb.py).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import Literal

import numpy as np

from evenjoin.kernels.hashing import I64
from evenjoin.load.items import F64
from evenjoin.strategies.djb.draft import Bools, Draft

Spread = Literal["narrow", "wide"]
Stop = Literal["donor in bounds", "recipient in bounds"]
SPLITS = 16
"""How many keys one MoveOut may split, and how many it tries to split before it gives up."""
LIGHTEST = 256
"""How many units may take from one donor by H1, the lightest ones: with more of them the search would take longer, and
the donor has seldom as many keys to give."""
SMALLEST_SHARE = 0.1
"""A share of a key that is smaller than this part of an even share is not worth the duplication."""


@dataclass(frozen=True, slots=True)
class Move:
    """One whole key or bucket goes to another unit. `index` is the number of the item or of the bucket."""

    what: Literal["key", "bucket"]
    index: int
    source: int
    to: int


def move_out(draft: Draft, row: int, donor: int, spread: Spread | None) -> None:
    """MoveOut of an overloaded unit, by H1 and H2; with `spread` None by H1 alone. Keys are split for as long as whole
    moves would not suffice; in any case H1 has the last word."""
    others = draft.units(row)
    others = others[others != donor]
    for number in range(SPLITS + 1):
        upper = draft.upper(row)
        if draft.load[row, donor] <= upper:
            return
        may_split = spread is not None and number < SPLITS
        if may_split and hopeless(draft, row, donor) and split_largest(draft, row, donor, spread or "wide"):
            continue
        moves, load = whole_moves(draft, row, donor, others)
        if load[donor] <= upper or not may_split or not split_largest(draft, row, donor, spread or "wide"):
            draft.stuck |= bool(load[donor] > upper)
            apply(draft, row, moves)
            return


def hopeless(draft: Draft, row: int, donor: int) -> bool:
    """Whether H1 cannot bring a unit below (1 + theta_max) * mean, even if everything left it that fits the lightest
    unit, and filled all others."""
    upper, others = draft.upper(row), draft.load[row, draft.units(row)]
    room = np.maximum(upper - others, 0.0)
    excess = draft.load[row, donor] - upper
    if excess <= 0 or excess > room.sum():
        return bool(excess > 0)
    _, work = draft.whole(row, donor)
    return bool(excess > work[work <= room.max()].sum())


def move_in(draft: Draft, row: int, unit: int) -> None:
    """MoveIn, H3. An underloaded unit takes back any key that is hashed to it. Any other unit takes back only those of
    its keys that are split. A key comes back if every touched unit is then within its bounds, or at least none is
    further out than the furthest of them was before."""
    away, split, size = draft.abroad(row, unit)
    if draft.load[row, unit] >= draft.lower(row):
        away, size = away[split], size[split]
    for n in away[np.argsort(-size, kind="stable")].tolist():
        _merge_if_bounded(draft, row, n, unit)


def take(draft: Draft, row: int, unit: int, dry: set[int]) -> None:
    """A unit that is still underloaded takes keys and buckets from the units above the mean, the heaviest first, by
    H1's rules. `dry` are the donors that had nothing for a unit that was lighter still; more of them are noted."""
    units, lower, mean = draft.units(row), draft.lower(row), draft.mean(row)
    if draft.load[row, unit] >= lower:
        return
    for donor in units[np.argsort(-draft.load[row, units], kind="stable")].tolist():
        if draft.load[row, unit] >= lower or draft.load[row, donor] <= mean:
            return
        if donor in dry:
            continue
        moves, _ = whole_moves(draft, row, donor, np.array([unit]), stop="recipient in bounds")
        apply(draft, row, moves)
        if not moves:
            dry.add(donor)


def whole_moves(
    draft: Draft, row: int, donor: int, recipients: I64, stop: Stop = "donor in bounds"
) -> tuple[list[Move], F64]:
    """H1: keys and buckets of the donor, the largest that fit first, each to the least loaded recipient.

    What does not fit now will not fit later: the donor only gets lighter, and the lightest recipient heavier. So each
    step goes on to the largest that fits. Returns the moves, which are not yet applied, and the row's load after them.
    """
    load, upper, lower = draft.load[row].copy(), draft.upper(row), draft.lower(row)
    some, moves, rank, left = goods(draft, row, donor), [], 0, float(load[donor])
    if len(recipients) > LIGHTEST:
        recipients = recipients[np.argpartition(load[recipients], LIGHTEST)[:LIGHTEST]]
    falling = [-size for size in some.size]
    heap = list(zip(load[recipients].tolist(), recipients.tolist(), strict=True))
    heapify(heap)
    while heap and rank < len(falling):
        light, to = heap[0]
        if left <= upper if stop == "donor in bounds" else light >= lower:
            break
        rank, size = some.taken(bisect_left(falling, -min(upper - light, left - lower), rank))
        if size > 0:
            moves.append(Move("key" if some.key[rank] else "bucket", some.index[rank], donor, to))
            heapreplace(heap, (light + size, to))
            left -= size
        rank += 1
    load[donor] = left
    for light, to in heap:
        load[to] = light
    return moves, load


class Goods:
    """What may leave a unit whole: its keys, and its buckets with all that has no record. Largest first. Lists [k] and
    not arrays, since they are looked at one by one.

    index, key    the number of the item (a key) or of the bucket
    size          the work that would leave with it
    along         the bucket that a key goes along with, as it has no record; -1: none
    """

    def __init__(self, index: I64, key: Bools, size: F64, along: I64) -> None:
        order = np.lexsort((~key, -size))
        self.index: list[int] = index[order].tolist()
        self.key: list[bool] = key[order].tolist()
        self.size: list[float] = size[order].tolist()
        self.along: list[int] = along[order].tolist()
        self._less: dict[int, float] = {}
        self._gone: set[int] = set()

    def taken(self, first: int) -> tuple[int, float]:
        """Take away number `first`, or the next one of which something is left: its number, and its size without what
        has left before. Beyond the last number the size is 0: there is none."""
        gone, along = self._gone, self.along
        for k in range(first, len(along)):
            if not self.key[k]:
                gone.add(self.index[k])
                size = self.size[k] - self._less.get(self.index[k], 0.0)
                if size > 0:
                    return k, size
            elif along[k] not in gone:
                self._less[along[k]] = self._less.get(along[k], 0.0) + self.size[k]
                return k, self.size[k]
        return len(along), 0.0


def goods(draft: Draft, row: int, unit: int) -> Goods:
    """What may leave this unit whole."""
    items, work = draft.whole(row, unit)
    bucket, along = draft.items.bucket[items], ~draft.routed[items]
    keys = draft.items.is_key[items] & (work > 0)
    buckets, number = np.unique(bucket[along], return_inverse=True)
    sizes = np.bincount(number, work[along], len(buckets))
    some = sizes > 0
    return Goods(
        np.concatenate([items[keys], buckets[some]]),
        np.arange(int(keys.sum()) + int(some.sum())) < keys.sum(),
        np.concatenate([work[keys], sizes[some]]),
        np.concatenate([np.where(along, bucket, -1)[keys], np.full(int(some.sum()), -1)]),
    )


def apply(draft: Draft, row: int, moves: list[Move]) -> None:
    """Make the moves."""
    for move in moves:
        if move.what == "key":
            draft.move_whole(row, move.index, move.source, move.to)
        else:
            draft.move_buckets(row, move.index, move.source, move.to)


def split_largest(draft: Draft, row: int, donor: int, spread: Spread) -> bool:
    """H2: split the donor's piece with the most divisible work; if that brings too little, the next one. SPLITS such
    splits must bring the donor within its bound, or relieve it of a mean load. False if no split does."""
    enough = min(draft.load[row, donor] - draft.upper(row), draft.mean(row)) / SPLITS
    for side, n in draft.pieces_on(row, donor, SPLITS):
        if draft.work_on(side, n, donor) <= enough:
            continue  # all of it is too little
        share, after = _filled(draft, row, side, n, spread)
        peak = after[share > 0].max(initial=0.0)
        if draft.load[row, donor] - max(after[donor], peak) > enough:
            draft.put(side, n, share)
            return True
    return False


def share_again(draft: Draft, row: int) -> None:
    """Give the row's largest split keys other shares, if units are still out of bounds: where hot keys were split one
    after the other, the first did not know of the last."""
    for side, n in draft.split_pieces(row, SPLITS):
        now = _furthest(draft.load[row], draft.units(row))
        if now <= draft.theta:
            return
        share, after = _filled(draft, row, side, n, "wide")
        if _furthest(after, draft.units(row)) < now and after.max() <= draft.load[row].max() * (1 + 1e-12):
            draft.put(side, n, share)


def _filled(draft: Draft, row: int, side: int, n: int, spread: Spread) -> tuple[F64, F64]:
    """[instances] The shares that a piece would have if it were split, and the load of the row then."""
    filled = fill if draft.splits == "by weight" else fill_evenly
    units, base, share = draft.units(row), draft.load[row] - draft.work(side, n), np.zeros(draft.load.shape[1])
    share[units] = filled(base[units], draft.divisible[side, n], draft.fixed[side, n], draft.theta, spread)
    return share, base + share * draft.divisible[side, n] + (share > 0) * draft.fixed[side, n]


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
    share[share < SMALLEST_SHARE / len(members)] = 0.0
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
    units = draft.units(row)
    touched = np.append(np.flatnonzero(np.abs(after - before) > 1e-9), unit)
    if _furthest(after, units, touched) <= max(draft.theta, _furthest(before, units, touched)) + 1e-12:
        draft.bring_back(row, n, unit)


def _furthest(load: F64, units: I64, touched: I64 | None = None) -> float:
    """The largest theta(pu) of the units that are touched (None: of all)."""
    mean = load[units].sum() / max(len(units), 1)
    return float(np.abs(load[units if touched is None else touched] - mean).max() / mean) if mean > 0 else 0.0
