"""Which partitions leave a straggler: LS-Stream's Algorithm 1 (section V-C), for one pair of instances.

    maximise  mif = (dR + lb) / card(SK)                    eq. 25 (eq. 26 says min; text and algorithm want it large)
    where     need < sum of R over MP < room                eq. 30 and eq. 31, both: the paper's "or" is a slip

Up to ENUMERATED partitions all subsets MP of the straggler's partitions SP are tried: 65,536 sets in one sweep of
arrays, and the answer is the best there is. The paper anneals because the choice is NP-complete in general; with this
few partitions it costs no more. A straggler with more partitions is annealed, from a random start. Annealing's best set
is compared with the best single partition and with a greedy set, and the best of them is taken.

Guarantee: randomness comes in as a generator, so the same input gives the same set. If some set that was tried
satisfies both constraints, so does the answer; otherwise the answer satisfies eq. 31 only.
Cost O(2^card(SP)) for ENUMERATED partitions or fewer, else O(card(SP) log card(SP)) + at most MOST_STEPS steps of O(1).
Not here: which pair it is (partition_moves.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log

import numpy as np

from evenjoin.load.items import F64
from evenjoin.load.lsstream import acceptance, migration_impact, resource_benefit
from evenjoin.load.sojourn import Queue, latency_benefit, latency_benefits

ENUMERATED = 16
"""The most partitions whose subsets are all tried."""
MOST_STEPS = 512
"""The most steps of one annealing, whatever the temperatures and the number of partitions."""

Sums = tuple[float, float, float]
"""R, E and stored tuples of a set of partitions."""


@dataclass(frozen=True, slots=True)
class Cooling:
    """Annealing starts at `temperature` times the spread of the partitions' own mif, cools by `factor` (the paper's
    eta) after each sweep, and ends at the part `coldest` of where it started."""

    temperature: float
    factor: float
    coldest: float


@dataclass(frozen=True, slots=True)
class Pair:
    """One migration to decide on: the straggler j_h and the least loaded j_l. The R that moves must be more than `need`
    (eq. 30) and less than `room` (eq. 31). `each`, `rate` and `tuples` are R, E and stored tuples of j_h's partitions
    SP. lb counts in units of `wait` seconds: 1 is the paper's, the cluster's mean AST makes it comparable with a
    normalised dR."""

    straggler: Queue
    least: Queue
    need: float
    room: float
    each: list[float]
    rate: list[float]
    tuples: list[float]
    wait: float = 1.0

    def sums(self, chosen: list[int]) -> Sums:
        """R, E and stored tuples of a set of partitions."""
        moved, rate, tuples = (sum(of[p] for p in chosen) for of in (self.each, self.rate, self.tuples))
        return moved, rate, tuples

    def flipped(self, now: Sums, flag: list[int], flips: list[int]) -> tuple[Sums, list[int]] | None:
        """Flip the first of two partitions (it joins or leaves the set); if eq. 30 or eq. 31 does not hold then, flip
        both. Returns the new sums and the partitions flipped; None if the equations hold neither way."""
        moved, rate, tuples = now
        for count, piece in enumerate(flips, 1):
            if count == 2 and piece == flips[0]:
                break
            sign = 1 - 2 * flag[piece]
            moved, rate = moved + sign * self.each[piece], rate + sign * self.rate[piece]
            tuples += sign * self.tuples[piece]
            if self.need < moved < self.room:
                return (moved, rate, tuples), flips[:count]
        return None

    def mif(self, moved: float, rate: float, tuples: float) -> float:
        """Eq. 25 of partitions of this R and E, with so many stored tuples."""
        benefit = resource_benefit(self.straggler.resources, self.straggler.resources - moved)
        return migration_impact(benefit, latency_benefit(self.straggler, self.least, moved, rate) / self.wait, tuples)

    def mifs(self, moved: F64, rate: F64, tuples: F64) -> F64:
        """`mif` of many sets at once; arrays of one shape."""
        benefit = 2.0 * moved + latency_benefits(self.straggler, self.least, moved, rate) / self.wait
        out: F64 = benefit / np.maximum(tuples, 1.0)
        return out


def select(pair: Pair, cooling: Cooling, rng: np.random.Generator) -> list[int]:
    """MP, as positions in SP: the set with the largest mif that was found. If none was found that satisfies both
    constraints, one that satisfies eq. 31."""
    if not pair.each:
        return []
    return _enumerated(pair) if len(pair.each) <= ENUMERATED else _searched(pair, cooling, rng)


def _enumerated(pair: Pair) -> list[int]:
    """The best of all subsets. If none satisfies both constraints, the one that moves most under eq. 31."""
    moved, rate, tuples = (_subset_sums(of) for of in (pair.each, pair.rate, pair.tuples))
    both = np.flatnonzero((moved > pair.need) & (moved < pair.room))
    if len(both):
        best = int(both[np.argmax(pair.mifs(moved[both], rate[both], tuples[both]))])
    else:
        best = int(np.argmax(np.where(moved < pair.room, moved, -1.0)))
    return [piece for piece in range(len(pair.each)) if best >> piece & 1]


def _subset_sums(each: list[float]) -> F64:
    """[2^n] The sum of every subset; bit i of its position says whether i is in it."""
    sums = np.zeros(1)
    for value in each:
        sums = np.concatenate([sums, sums + value])
    return sums


def _searched(pair: Pair, cooling: Cooling, rng: np.random.Generator) -> list[int]:
    """Three sets are compared by mif: what annealing finds, the best single partition, and partitions taken by falling
    dR / card(SK) until eq. 30 holds. If none of them satisfies both constraints, it is the last one, which satisfies
    eq. 31."""
    each = np.array(pair.each)
    worth = 2.0 * each / np.maximum(pair.tuples, 1.0)
    order = np.argsort(-worth, kind="stable")
    single = order[each[order] > pair.need][:1].tolist()
    filled = _fill(pair, order.tolist())
    start = _fill(pair, rng.permutation(len(each)).tolist())
    heat = cooling.temperature * (float(np.ptp(worth)) or 1.0)
    both = [one for one in (start, filled, single) if pair.need < pair.sums(one)[0] < pair.room]
    if not both:
        return filled
    return max([_anneal(pair, both[0], heat, cooling, rng), *both], key=lambda one: pair.mif(*pair.sums(one)))


def _fill(pair: Pair, order: list[int]) -> list[int]:
    """Go through the partitions in this order and take those that fit under eq. 31, until eq. 30 holds."""
    total, out = 0.0, []
    for piece in order:
        if total > pair.need:
            break
        if total + pair.each[piece] < pair.room:
            total += pair.each[piece]
            out.append(piece)
    return out


def _anneal(pair: Pair, start: list[int], heat: float, cooling: Cooling, rng: np.random.Generator) -> list[int]:
    """Algorithm 1: the best set that was met.

    It starts from a set that satisfies both constraints (a random one, if that does) and flips one partition at a time,
    in O(1). It never leaves the constraints: both must hold, where the paper has "or". The way between them may be
    narrow, so a flip that breaks one of them is tried together with a second flip, which makes it an exchange.
    """
    levels = min(ceil(log(cooling.coldest) / log(cooling.factor)), MOST_STEPS)
    sweep = max(1, min(len(pair.each), MOST_STEPS // levels))
    picks = rng.integers(len(pair.each), size=(levels, sweep, 2)).tolist()
    dice = rng.random((levels, sweep)).tolist()
    now = pair.sums(start)
    score = top = pair.mif(*now)
    flag = np.bincount(start, minlength=len(pair.each)).tolist()
    best = list(flag)
    for level in range(levels):
        for flips, die in zip(picks[level], dice[level], strict=True):
            new = pair.flipped(now, flag, flips)
            if new is not None:
                mif = pair.mif(*new[0])
                if mif > score or die < acceptance(mif, score, heat):
                    now, score = new[0], mif
                    for piece in new[1]:
                        flag[piece] = 1 - flag[piece]
                    if score > top:
                        top, best = score, list(flag)
        heat *= cooling.factor
    return [piece for piece, moves in enumerate(best) if moves]
