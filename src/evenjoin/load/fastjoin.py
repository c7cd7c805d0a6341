"""FastJoin's load model (sections III-B, III-C and IV-C), equation by equation.

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

Under a window (section III-E) |R_i| is what is alive. The paper keeps a vector of counts, one per sub-window, and pops
its head when a sub-window expires. In this engine the runs of the manifest are that vector: a run knows its sub-window
and its live rows, and expiry drops whole runs. So planners read `stored` from the report.

Pure; arrays are float64, counts below 2**53 are exact. Does not choose keys: that is strategies/fastjoin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
STATISTIC_BYTES = 40
"""chi_k of equation 12: a statistic is five numbers of 8 bytes (side, cell or key, arrived, stored, results)."""


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


def scaling_gain_ratio(tuple_bytes: float, tuples: float, key_bytes: float, keys: float) -> float:
    """SGR, equation 12: the part of new memory that can store new tuples, where each key has statistics beside its
    tuples. 1 if there is nothing to store and nothing to keep."""
    stored = tuple_bytes * tuples
    return stored / (stored + key_bytes * keys) if stored + key_bytes * keys > 0 else 1.0


def scaling_gain_of_means(tuple_bytes: float, tuples_per_key: float, key_bytes: float) -> float:
    """SGR, equation 13: the same by c, the mean number of tuples of a key."""
    return scaling_gain_ratio(tuple_bytes, tuples_per_key, key_bytes, 1)


def measured_scaling_gain(stored_bytes: float, statistics: int) -> float:
    """SGR of a running join, equation 12 with what was measured: the bytes of all stored tuples, and the number of
    statistics (cells and named keys) of the load report. In the paper every key has statistics, here only the heaviest
    have, so K does not grow with the keys, and SGR tends to 1 as state grows."""
    return scaling_gain_ratio(1.0, stored_bytes, STATISTIC_BYTES, statistics)
