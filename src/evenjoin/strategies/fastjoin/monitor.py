"""One of FastJoin's monitors: its load information table, and the migrations that it calls for (sections III-B, C, D).

    L = 900  100  400      LI = 9 > theta:    unit 0 -> unit 1, the pieces by GreedyFit or SAFit
    L = 480  450  400      LI = 1.2:          enough

The paper migrates from the heaviest unit to the lightest, one pair at each interval of a second. Here decisions are
taken once per micro-batch, which may be long. So a monitor goes on, from the heaviest to the lightest on the forecast,
until LI is what plans are made for.

The paper is silent about a pair between which nothing fits, and would try it for ever. Here

* the heaviest unit tries the next lightest ones (`TARGETS`), since the lightest may be full of tuples that nobody asks
  for, and then every arrival is too much for it;
* a unit that cannot give anything is *stuck*. LI = heaviest / lightest then still sinks when the lightest gains, so
  the next heaviest gives to it.

After every migration L'_source >= L'_target (equation 9; the paper's and GreedyFit's is >). So the heaviest load never
rises, the lightest never sinks, and LI never rises. A migration is not made for less than WORTH of the source's load.
Only what goes home in the end may raise LI, up to what plans are made for.

LI of small counts is chance: of 100 units that 20 tuples probe on average, the extremes differ by a factor of 4 if all
are alike. Counts of arrivals are about Poisson, so the square root of a count is off by 1/2 on average, whatever the
count is. A monitor begins only if the heaviest load, with its counts lowered by `sure` standard deviations, is still
above the aim when compared with the lightest load, raised as much. Not here: which keys go (greedyfit.py, safit.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from evenjoin.kernels.hashing import I64
from evenjoin.load.fastjoin import F64, Pair, Unit, benefits, imbalance
from evenjoin.strategies.base import Bounds

Select = Callable[[F64, F64, float], I64]
"""([K] benefits and [K] stored tuples of the source's pieces, gap) -> the positions of the pieces to move."""
TARGETS = 8
"""How many of the lightest units the heaviest one tries."""
ROUNDS = 4
"""Migrations of one plan, for each unit, at most."""
OTHERS = 0.25
"""The aim for the other units, where one is stuck."""
WORTH = 0.05
"""The part of its load that a migration must take from the source. It is the guards' least gain."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Tuples stored and tuples that probe them, of units or of pieces: [sides, units] or [sides, pieces]."""

    stored: F64
    probes: F64

    def __getitem__(self, which: I64) -> Counts:
        return Counts(self.stored[:, which], self.probes[:, which])

    @property
    def load(self) -> F64:
        """[units] Equation 1, summed over the sides."""
        out: F64 = (self.stored * self.probes).sum(axis=0)
        return out

    def shifted(self, deviations: float) -> Counts:
        """Each count as it is so many standard deviations away."""
        return Counts(*(np.maximum(np.sqrt(c) + deviations / 2, 0.0) ** 2 for c in (self.stored, self.probes)))


class Monitor:
    """The units and pieces of one or several sides while migrations are planned. Mutable, private to one planning.

    units    the counts of the units 0, 1, ...
    host     [pieces] the unit of each piece; -1: it cannot move
    cooled   the pieces that may go home, and `home` [pieces] the piece that is the home of each
    stuck    [units] which tried to give and could not
    moves    how many migrations were made
    """

    def __init__(self, units: Counts, pieces: Counts, host: I64, home: I64, cooled: I64) -> None:
        self.units = Counts(units.stored.copy(), units.probes.copy())
        self.pieces = pieces
        self.host, self._home, self._cooled = host.copy(), home, cooled
        self.moves = 0
        self.load = self.units.load
        self.stuck = np.zeros(len(self.load), bool)
        order = np.argsort(host, kind="stable")
        cuts = np.searchsorted(host[order], np.arange(len(self.load) + 1))
        self._on = [order[start:end] for start, end in pairwise(cuts.tolist())]

    @property
    def imbalance(self) -> float:
        """LI, equation 2."""
        return imbalance(self.load)

    def settle(self, select: Select, bounds: Bounds, sure: float) -> None:
        """Migrate until the units that can give are as even as plans are made for. After any migration the pieces that
        have cooled go home as well, if LI allows it."""
        surely, surely_light = self.units.shifted(-sure).load, _lightest(self.units.shifted(sure).load)
        while self.moves < ROUNDS * len(self.load) and not self.stuck.all() and self.imbalance > bounds.goal:
            source = int(np.where(self.stuck, -1.0, self.load).argmax())
            within = _others(bounds) if self.stuck.any() else bounds
            if self.load[source] <= (within.goal if self.moves else within.alert) * _lightest(self.load):
                break
            surely_above = within.alert if self.stuck.any() else within.goal
            if not self.moves and surely[source] <= surely_above * surely_light:
                break
            if any(self._migrate(source, target, select) for target in self._targets(source)):
                self.moves += 1
            else:
                self.stuck[source] = True
        if self.moves:
            self._send_home(bounds.goal)

    def _send_home(self, goal: float) -> None:
        """Move what has cooled to its home, unless LI would rise above the goal by that."""
        home = self.host[self._home]
        which = self._cooled[(self.host[self._cooled] >= 0) & (home[self._cooled] >= 0)]
        after, sums = Counts(self.units.stored.copy(), self.units.probes.copy()), self.pieces[which]
        for side in range(len(after.stored)):
            for counts, of_pieces in ((after.stored[side], sums.stored[side]), (after.probes[side], sums.probes[side])):
                counts -= np.bincount(self.host[which], of_pieces, len(counts))
                counts += np.bincount(home[which], of_pieces, len(counts))
        if imbalance(after.load) <= max(goal, self.imbalance):
            self.host[which], self.units, self.load = home[which], after, after.load

    @property
    def lightest(self) -> Counts:
        """The counts of the lightest unit."""
        return self.units[np.array([self.load.argmin()])]

    def heaviest_piece(self, unit: int) -> float:
        """The load that the heaviest piece of a unit would have if it were alone."""
        return float(self.pieces[self._on[unit]].load.max(initial=0.0))

    def _targets(self, source: int) -> Iterator[int]:
        """The units to which this one may give, the lightest first. Only the heaviest may give to others than the
        lightest: of other units LI would not know."""
        yield int(self.load.argmin())
        if self.load[source] == self.load.max():
            few = min(TARGETS, len(self.load) - 1)
            lightest = np.argpartition(self.load, few)[:few] if few else np.zeros(0, np.int64)
            yield from lightest[np.argsort(self.load[lightest], kind="stable")][1:].tolist()

    def _migrate(self, source: int, target: int, select: Select) -> bool:
        """Move what is chosen from a unit to another. False, and nothing happens, if that is not worth while."""
        here = self._on[source]
        benefit, gap = np.zeros(len(here)), 0.0
        mine = self.pieces[here]
        for side in range(len(self.units.stored)):
            pair = Pair(
                *(Unit(*(float(c[side, i]) for c in (self.units.stored, self.units.probes))) for i in (source, target))
            )
            benefit += benefits(pair, mine.stored[side], mine.probes[side])
            gap += pair.gap
        useful = np.flatnonzero((benefit > 0) & (benefit <= gap))
        chosen = useful[select(benefit[useful], mine.stored[:, useful].sum(axis=0), gap)]
        sums = Counts(mine.stored[:, chosen].sum(axis=1), mine.probes[:, chosen].sum(axis=1))
        rest = (self.units.stored[:, source] - sums.stored) @ (self.units.probes[:, source] - sums.probes)
        if rest > (1 - WORTH) * self.load[source]:
            return False
        stays = np.ones(len(here), bool)
        stays[chosen] = False
        moved = here[chosen]
        self.host[moved] = target
        self._on[source], self._on[target] = here[stays], np.concatenate([self._on[target], moved])
        self._move(sums, source, target)
        return True

    def _move(self, sums: Counts, source: int, target: int) -> None:
        """Counts of pieces, summed by side, go from a unit to another."""
        for counts, of_pieces in ((self.units.stored, sums.stored), (self.units.probes, sums.probes)):
            counts[:, source] -= of_pieces
            counts[:, target] += of_pieces
        both = np.array([source, target])
        self.load[both] = self.units[both].load
        self.stuck[target] = False


def _lightest(load: F64) -> float:
    """What equation 2 divides by: the lightest load, at least 1."""
    return max(float(load.min(initial=np.inf)), 1.0)


def _others(bounds: Bounds) -> Bounds:
    """The bounds for the units that are not stuck, beside one that is. LI is then above the goal whatever they do, and
    lower the more even they are."""
    return replace(bounds, threshold=bounds.goal, aim=OTHERS)
