"""FastJoin's load model (section III-B, III-C and III-E), equation by equation.

A unit I_R-i stores |R_i| tuples of its side, and phi_si tuples of the other side come to probe it. Each of them is
compared with all that is stored, so the load is a product, and it does not add up: what leaves one unit is not what
the other gets. What does add up is the *difference* of two loads. With r_k = |R_ik|, p_k = phi_sik:

    L_i = |R_i| * phi_i                                                                     (1)
    L'_i = (|R_i| - r_k) * (phi_i - p_k),   L'_j = (|R_j| + r_k) * (phi_j + p_k)            (5, 6)
    F_k  = (L_i - L_j) - (L'_i - L'_j) = (|R_i| + |R_j|) * p_k + (phi_i + phi_j) * r_k      (7, 8)
    L'_i - L'_j = L_i - L_j - sum of F_k over the keys moved                                (9)

The two products r_k * p_k cancel and both sums in (8) are the same before and after any move, so (9) is exact for any
set of keys: choosing keys is a knapsack of size L_i - L_j.

With three and more sides all tuples of a key are on one instance, and whole keys move. |R_si| are then the tuples of
side s stored on instance i, and phi_si those of all other sides that probe them. Each store is probed as above, so

    L_i = sum over s of |R_si| * phi_si,      F_k = sum over s of F_sk

and (9) stays exact, because it is exact for each term. A tuple counts once for each store that it probes.

Slips of the paper: the second line of (6) prints two minus signs; its first line gives L_j + r_k * phi_j + |R_j| * p_k
+ r_k * p_k, as computed here. (2) divides by a load that may be 0, Definition 2 by a key that may have no stored
tuple: here a zero below a fraction line counts as one, which leaves both finite and large.

Pure; arrays are float64, counts below 2**53 are exact. Does not choose keys: that is strategies/fastjoin.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenjoin.errors import SpecError

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Unit:
    """What the monitor knows of a unit: tuples stored, |R_i|, and tuples that came to probe them, phi_si."""

    stored: float
    probes: float

    @property
    def load(self) -> float:
        """Equation 1."""
        return self.stored * self.probes


@dataclass(frozen=True, slots=True)
class Pair:
    """The source I_R-i, heaviest, and the target I_R-j, lightest, of a migration."""

    source: Unit
    target: Unit

    @property
    def gap(self) -> float:
        """L_i - L_j: the room the benefits of the moved keys must fit in."""
        return self.source.load - self.target.load


def unit_of(stored: F64, probes: F64) -> Unit:
    """A unit from its keys' [K] counts: equations 3 and 4."""
    return Unit(float(stored.sum()), float(probes.sum()))


def imbalance(loads: F64) -> float:
    """LI of the units with these loads, equation 2: heaviest over lightest, at least 1. A load below 1 counts as 1,
    so an idle unit beside a busy one is as uneven as the busy one is heavy, and idle units among themselves are even.
    """
    if len(loads) == 0:
        return 1.0
    return float(max(loads.max(), 1.0) / max(loads.min(), 1.0))


def after_moving(pair: Pair, stored: float, probes: float) -> tuple[float, float]:
    """(L'_i, L'_j) after keys with these counts have moved: equations 5 and 6. For a set of keys give the sums."""
    source = Unit(pair.source.stored - stored, pair.source.probes - probes)
    target = Unit(pair.target.stored + stored, pair.target.probes + probes)
    return source.load, target.load


def benefits(pair: Pair, stored: F64, probes: F64) -> F64:
    """[K] F_k of each key of the source, from its [K] counts: equation 8 (which is 7 worked out)."""
    out: F64 = (pair.source.stored + pair.target.stored) * probes + (pair.source.probes + pair.target.probes) * stored
    return out


def factors(benefit: F64, stored: F64) -> F64:
    """[K] Migration key factors F_k / |R_ik|, Definition 2: difference undone per tuple moved."""
    out: F64 = benefit / np.maximum(stored, 1.0)
    return out


def gap_after(pair: Pair, benefit: F64) -> float:
    """L'_i - L'_j once the keys with these benefits have moved: equation 9. Above 0, the target stays the lighter."""
    return pair.gap - float(benefit.sum())


@dataclass(frozen=True, slots=True)
class WindowCounter:
    """|R| of a unit under a window (section III-E): one count per sub-window, oldest first.

    `head` is the number of the oldest.

    This is a reference: the engine does not use it. The vector has a fixed size, the number of sub-windows that the
    window spans. What expires is popped at its head, and as many zeros come in at its tail. In this engine the runs of
    the manifest already are that vector: a run knows its sub-window and its live rows, and expiry drops whole runs. So
    planners read `stored` from the report. `of(size, pairs)` makes a counter of a unit's (sub_window, alive) pairs.
    """

    head: int
    counts: tuple[int, ...]

    @classmethod
    def of(cls, size: int, pairs: Iterable[tuple[int, int]]) -> WindowCounter:
        """A counter from (sub-window, rows) pairs in any order. The newest sub-window is the tail; what is too old for
        the window is gone."""
        if size < 1:
            raise SpecError(f"a window of {size} sub-windows: at least 1 is needed")
        known = list(pairs)
        newest = max((number for number, _ in known), default=size - 1)
        counter = cls(newest - size + 1, (0,) * size)
        for number, rows in known:
            counter = counter.push(number, rows)
        return counter

    def push(self, sub_window: int, rows: int) -> WindowCounter:
        """With rows stored in a sub-window. One that is newer than the tail pops as many heads; an expired one is
        ignored."""
        counter = self.expire(sub_window - len(self.counts) + 1)
        at = sub_window - counter.head
        if at < 0 or rows == 0:
            return counter
        return WindowCounter(counter.head, (*counter.counts[:at], counter.counts[at] + rows, *counter.counts[at + 1 :]))

    def expire(self, before: int) -> WindowCounter:
        """Without the sub-windows older than `before`."""
        gone = before - self.head
        if gone <= 0:
            return self
        return WindowCounter(before, (*self.counts[gone:], *(0,) * min(gone, len(self.counts))))

    @property
    def total(self) -> int:
        """|R| of the window."""
        return sum(self.counts)
