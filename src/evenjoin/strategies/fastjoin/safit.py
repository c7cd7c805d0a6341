"""SAFit: FastJoin's key selection by simulated annealing (section IV-A, Algorithm 3), seeded.

A solution is a set of keys, one flag each. A step flips the flag of one random key; the new set must fit,
Benefit = sum of F_k <= L_i - L_j, and is judged by

    Value(SK) = sum of F_k / sum of |R_k|       (10)        0 for the empty set
    P = exp((Value_new - Value_old) / T)        (11)        the chance to accept one that is not better

After L steps the temperature sinks to T * a, until it is no longer above T_min. The best set seen is the answer.

Value is a ratio, and a ratio of sums is never above the largest of the single ratios: of keys that store anything the
best single one that fits maximises it, however much of the gap it leaves open. That is what the paper asks for and
what is done here, so SAFit moves few tuples for what they bring and needs more migrations than GreedyFit to close a
gap. A set that stores nothing counts as one tuple, as everywhere in load/fastjoin.py.

The steps depend on each other, hence a Python loop. A step costs the same whatever the number of keys is, because the
two sums are kept and not recomputed. Steps are bounded (MOST_STEPS). The paper gives no temperatures; `annealing_for`
does. Guarantee: the set fits, and the same seed gives the same set. Not here: which pair it is (planner.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, inf, log

import numpy as np
import numpy.typing as npt

from evenjoin.errors import SpecError
from evenjoin.kernels.hashing import I64
from evenjoin.load.fastjoin import F64, Pair, benefits, factors

MOST_STEPS = 10_000_000
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


def annealing_for(factor: F64) -> Annealing:
    """Temperatures from the keys' factors, so that they mean the same at any load: from the mean factor down to a
    thousandth of it, with as many steps at each as there are keys (between 32 and 256). At most 17,000 steps."""
    mean = float(factor.mean()) if factor.any() else 1.0
    return Annealing(mean, mean / 1000, 0.9, int(np.clip(len(factor), 32, 256)))


def value(benefit: float, stored: float) -> float:
    """Equation 10 of a set of keys with these sums."""
    return benefit / max(stored, 1.0)


def sa_fit(pair: Pair, stored: F64, probes: F64, annealing: Annealing | None = None, seed: int = 0) -> I64:
    """The keys to move from the source to the target of a pair: their positions, ascending.

    `stored`, `probes`: float64 [K], |R_ik| and phi_sik of the source's keys. The same arguments choose the same keys.
    """
    return chosen_by_annealing(benefits(pair, stored, probes), stored, pair.gap, annealing, seed)


def chosen_by_annealing(
    benefit: F64, stored: F64, gap: float, annealing: Annealing | None = None, seed: int = 0
) -> I64:
    """The same from the benefits [K] of the keys, their stored tuples [K] and the gap. For keys that move whole,
    benefits and stored tuples are sums over the sides."""
    if len(stored) == 0:
        return np.zeros(0, np.int64)
    rng = np.random.default_rng(seed)
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
