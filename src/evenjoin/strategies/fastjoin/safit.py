"""SAFit: FastJoin's key selection by simulated annealing (section IV-A, Algorithm 3), seeded.

A solution is a set of keys, one flag each, that must fit: Benefit = sum of F_k <= L_i - L_j, the gap. The temperature
sinks from T to T_min by the factor a, with L steps at each. A better set is accepted, another one with the chance

    P = exp((Value_new - Value_old) / T)        (11)        the best set seen is the answer

What a set is worth is the `objective`.

"ratio" is Algorithm 3 to the letter: a step flips the flag of one random key, and

    Value(SK) = sum of F_k / sum of |R_k|       (10)        0 for the empty set

A ratio of sums is never above the largest of the single ratios: of keys that store anything the best single one that
fits maximises it, however much of the gap it leaves open. And a few thousand single flips do not reach the keys of a
large unit. So this cannot do what section III-C asks for, "fill the gap as much as possible and at the same time the
number of tuples to be migrated as small as possible", nor what section VI reports, that SAFit is as good as GreedyFit.

"fill", the default, is III-C's goal. With left(SK) = gap - sum of F_k and f = the least factor F_k / |R_k| of the keys
that fit

    Value(SK) = - max(left(SK) - FULL * gap, 0) / gap - f / 2 * sum of |R_k| / gap

A gap of which FULL or less is left counts as closed; then fewer tuples decide. Before that filling pays, whatever the
key: |R_k| tuples cost f / 2 * |R_k|, at most half of what they fill. A step takes a random part of the keys out and
fills the gap again, by descending factors that are blurred as much as the temperature is high: at random in the
beginning, and in the end in GreedyFit's order. It decides on all keys at once, so the flags that are set grow with the
keys while the steps do not. The first set is GreedyFit's, up to where the gap is closed, so the answer is worth at
least as much. Of a few keys (FEW) all sets are looked at instead.

Guarantee: the set fits, and the same seed gives the same set. The paper gives no temperatures; `annealing_for` and
FILLING do. Steps are bounded (MOST_STEPS). A set that stores nothing counts as one tuple in ratios, as everywhere in
load/fastjoin.py. Cost: steps for "ratio", steps * K log K for "fill". Not here: which pair it is (monitor.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, inf, log
from typing import Literal

import numpy as np
import numpy.typing as npt

from evenjoin.errors import SpecError
from evenjoin.kernels.hashing import I64
from evenjoin.load.fastjoin import F64, Pair, benefits, factors
from evenjoin.strategies.fastjoin.greedyfit import taken_in_order

MOST_STEPS = 10_000_000
FEW = 8
"""Of so many keys all sets are looked at, for the objective "fill"."""
FULL = 0.04
"""The part of a gap that may be left when it counts as closed."""
Objective = Literal["fill", "ratio"]
"""What SAFit maximises; see the top of this file."""
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Annealing:
    """T, T_min (both in the unit of Value), a and L of Algorithm 3."""

    start: float
    stop: float
    cooling: float
    steps: int

    def __post_init__(self) -> None:
        if not (0 < self.stop <= self.start < inf and 0 < self.cooling < 1 and self.steps >= 1):
            raise SpecError(f"{self}: 0 < T_min <= T < inf, 0 < a < 1 and L >= 1 are needed")
        count = self.steps * ceil(log(self.start / self.stop) / -log(self.cooling))
        if count > MOST_STEPS:
            raise SpecError(f"{self} takes {count:,} steps, at most {MOST_STEPS:,}: use a smaller a or L")


FILLING = Annealing(0.1, 0.0005, 0.86, 1)
"""For the objective "fill": 36 steps."""


def annealing_for(factor: F64) -> Annealing:
    """For the objective "ratio", temperatures from the keys' factors, so that they mean the same at any load: from the
    mean factor down to a thousandth of it, with as many steps at each as there are keys (between 32 and 256). At most
    17,000 steps."""
    mean = float(factor.mean()) if factor.any() else 1.0
    return Annealing(mean, mean / 1000, 0.9, int(np.clip(len(factor), 32, 256)))


def value(benefit: float, stored: float) -> float:
    """Equation 10 of a set of keys with these sums."""
    return benefit / max(stored, 1.0)


def sa_fit(
    pair: Pair, stored: F64, probes: F64, annealing: Annealing | None = None, seed: int = 0,
    objective: Objective = "fill",
) -> I64:  # fmt: skip
    """The keys to move from the source to the target of a pair: their positions, ascending.

    `stored`, `probes`: float64 [K], |R_ik| and phi_sik of the source's keys. The same arguments choose the same keys.
    """
    return chosen_by_annealing(benefits(pair, stored, probes), stored, pair.gap, annealing, seed, objective)


def chosen_by_annealing(
    benefit: F64, stored: F64, gap: float, annealing: Annealing | None = None, seed: int = 0,
    objective: Objective = "fill",
) -> I64:  # fmt: skip
    """The same from the benefits [K] of the keys, their stored tuples [K] and the gap. For keys that move whole,
    benefits and stored tuples are sums over the sides."""
    rng = np.random.default_rng(seed)
    if objective == "ratio":
        return _by_ratio(benefit, stored, gap, annealing, rng) if len(stored) else np.zeros(0, np.int64)
    fitting = np.flatnonzero((benefit > 0) & (benefit <= gap))
    if not len(fitting):
        return fitting
    if len(fitting) <= FEW:
        return fitting[_of_all_sets(benefit[fitting], stored[fitting], gap)]
    return fitting[_by_filling(benefit[fitting], stored[fitting], gap, annealing or FILLING, rng)]


def _of_all_sets(benefit: F64, stored: F64, gap: float) -> I64:
    """The best of all sets of a few keys."""
    flags = (np.arange(1 << len(benefit))[:, None] >> np.arange(len(benefit)) & 1).astype(bool)
    left = 1.0 - flags @ benefit / gap
    worth = -np.maximum(left - FULL, 0.0) - flags @ stored * _price(benefit, stored, gap)
    return np.flatnonzero(flags[np.where(left < 0, -np.inf, worth).argmax()])


def _price(benefit: F64, stored: F64, gap: float) -> float:
    """What it costs to move a tuple, in the unit of Value."""
    return float(factors(benefit, stored).min()) / 2 / gap


def _by_filling(benefit: F64, stored: F64, gap: float, cooling: Annealing, rng: np.random.Generator) -> I64:
    """Every key has a benefit and fits by itself."""
    order, price = np.log(factors(benefit, stored)), _price(benefit, stored, gap)
    flags = best = _refilled(np.zeros(len(benefit), bool), benefit, order, 0.0, gap, rng)
    worth = most = _worth(flags, benefit, stored, gap, price)
    temperature = cooling.start
    while temperature > cooling.stop:
        blur = temperature / cooling.start * max(float(np.ptp(order)), 1.0)
        for _ in range(cooling.steps):
            new = _refilled(flags & (rng.random(len(flags)) > rng.random()), benefit, order, blur, gap, rng)
            this = _worth(new, benefit, stored, gap, price)
            if this > worth or rng.random() <= exp((this - worth) / temperature):
                flags, worth = new, this
            if this > most:
                best, most = new, this
        temperature *= cooling.cooling
    return np.flatnonzero(best)


def _worth(flags: Flags, benefit: F64, stored: F64, gap: float, price: float) -> float:
    """Value of a set, for "fill"; minus infinity if it does not fit."""
    left = 1.0 - float(benefit[flags].sum()) / gap
    return -inf if left < 0 else -max(left - FULL, 0.0) - float(stored[flags].sum()) * price


def _refilled(flags: Flags, benefit: F64, order: F64, blur: float, gap: float, rng: np.random.Generator) -> Flags:
    """These flags and more, by descending `order` blurred, until the gap is closed."""
    room = gap - float(benefit[flags].sum())
    free = np.flatnonzero(~flags)
    free = free[np.argsort(-(order[free] + blur * rng.standard_normal(len(free))))]
    more = free[taken_in_order(benefit[free], room)]
    enough = int(np.searchsorted(np.cumsum(benefit[more]), room - FULL * gap)) + 1
    out = flags.copy()
    out[more[:enough]] = True
    return out


def _by_ratio(benefit: F64, stored: F64, gap: float, annealing: Annealing | None, rng: np.random.Generator) -> I64:
    """Algorithm 3. The steps depend on each other, hence a Python loop; a step costs the same whatever the number of
    keys is, because the two sums are kept and not recomputed."""
    cooling = annealing or annealing_for(factors(benefit, stored))
    walk = _Walk(benefit, stored, _first(benefit, gap, rng), gap)
    temperature = cooling.start
    while temperature > cooling.stop:
        keys, luck = rng.integers(0, len(stored), cooling.steps), rng.random(cooling.steps)
        for key, chance in zip(keys.tolist(), luck.tolist(), strict=True):
            walk.step(key, chance, temperature)
        temperature *= cooling.cooling
    return np.flatnonzero(walk.best)


def _first(benefit: F64, gap: float, rng: np.random.Generator) -> Flags:
    """The first solution (lines 4-14): random flags, up to the first key with which the set would no longer fit."""
    flags = rng.integers(0, 2, len(benefit)).astype(bool)
    over = np.cumsum(np.where(flags, benefit, 0.0)) > gap
    if over.any():
        flags[int(np.argmax(over)) :] = False
    return flags


class _Walk:
    """SK_old with its sums, and SK_best. Mutable, private to one annealing."""

    def __init__(self, benefit: F64, stored: F64, flags: Flags, gap: float) -> None:
        self._benefit, self._stored, self._flags, self._gap = benefit.tolist(), stored.tolist(), flags, gap
        self._sums = float(benefit[flags].sum()), float(stored[flags].sum())
        self._value = self._best_value = value(*self._sums)
        self.best = flags.copy()

    def step(self, key: int, chance: float, temperature: float) -> None:
        """Lines 19-37: flip one key; keep the new set if it fits and is better, or if luck will have it."""
        sign = -1.0 if self._flags[key] else 1.0
        sums = self._sums[0] + sign * self._benefit[key], self._sums[1] + sign * self._stored[key]
        if sums[0] > self._gap:
            return
        worth = value(*sums)
        if worth <= self._value and chance > exp((worth - self._value) / temperature):
            return
        self._flags[key] = not self._flags[key]
        self._sums, self._value = sums, worth
        if worth > self._best_value:
            self.best, self._best_value = self._flags.copy(), worth
