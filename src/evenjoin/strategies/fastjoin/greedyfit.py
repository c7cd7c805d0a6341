"""GreedyFit: FastJoin's key selection (section III-C, Algorithm 1), on arrays.

The paper goes through the keys by descending factor F_k / |R_ik| and takes each whose benefit is still below the gap
(and at least theta_gap). One key after the other, that is a loop over all keys; here each round settles as many keys
as it takes to halve the gap g. A key is *big* if F_k >= g / 2, else small:

    keys by factor      3   9   2   4   8   1  ...      g = 16: big are 9 and 8
    gap before each    16  13  13  11   7   7  ...      with the small ones taken and the big ones not
                            ^ the first big key that fits, 9 < 13: takes 3 and 9, the gap is 4

While the gap is above g / 2 every small key fits, and the first big key that fits is a real choice of the paper's
loop. So a round ends at the first big key that fits or where the small ones have used up half of the gap, whichever
is earlier, and the next gap is at most g / 2; or it ends with its piece of the keys, and the next piece follows.

Guarantee: the same keys in the same order as the paper's loop, bit for bit, since the gap is lowered by the same
subtractions in the same order. Equation 9 holds: L'_i > L'_j after the migration. Ties in the factor keep the order
given (the paper is silent). Cost O(K log K) for the sort, then K / PIECE + log2(gap / least F_k) rounds of a piece.
"""

from __future__ import annotations

import numpy as np

from evenjoin.kernels.hashing import I64
from evenjoin.load.fastjoin import F64, Pair, benefits, factors

PIECE = 1 << 14
"""Keys a round looks at: large enough to make rounds few, small enough to make one cheap."""
FEW = 256
"""So few keys are gone through one by one, which takes less time than the arrays of some rounds."""


def greedy_fit(pair: Pair, stored: F64, probes: F64, theta_gap: float = 0.0) -> I64:
    """The keys to move from the source to the target of a pair: their positions, in the order they are chosen.

    `stored`, `probes`: float64 [K], |R_ik| and phi_sik of the source's keys. Keys whose benefit is below `theta_gap`
    are not worth a migration.
    """
    return chosen_greedily(benefits(pair, stored, probes), stored, pair.gap, theta_gap)


def chosen_greedily(benefit: F64, stored: F64, gap: float, theta_gap: float = 0.0) -> I64:
    """The same from the benefits [K] of the keys, their stored tuples [K] and the gap. For keys that move whole,
    benefits and stored tuples are sums over the sides."""
    order = np.argsort(-factors(benefit, stored), kind="stable")
    order = order[benefit[order] >= theta_gap]
    return order[taken_in_order(benefit[order], gap)]


def taken_in_order(size: F64, gap: float) -> I64:
    """The positions of what is taken if each size [K] in turn is taken that is still below the gap, and lowers it."""
    if len(size) <= FEW:
        return _one_by_one(size, gap)
    at, chosen = 0, [np.zeros(0, np.int64)]
    while at < len(size) and gap > 0:
        taken, gap, settled = _round(size[at : at + PIECE], gap)
        chosen.append(at + taken)
        at += settled
    return np.concatenate(chosen)


def _one_by_one(size: F64, gap: float) -> I64:
    """The paper's loop."""
    chosen = []
    for position, one in enumerate(size.tolist()):
        if one < gap:
            chosen.append(position)
            gap -= one
    return np.array(chosen, np.int64)


def _round(size: F64, gap: float) -> tuple[I64, float, int]:
    """The positions of the keys taken, the gap they leave, and how many keys are settled."""
    small = size < gap / 2
    left = np.subtract.accumulate(np.concatenate([[gap], np.where(small, size, 0.0)]))
    ends = np.where(small, left[1:] <= gap / 2, size < left[:-1])
    if not ends.any():
        return np.flatnonzero(small), float(left[-1]), len(size)
    last = int(np.argmax(ends))
    taken = np.append(np.flatnonzero(small[:last]), last)
    return taken, float(left[last] - size[last]), last + 1
