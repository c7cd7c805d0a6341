"""S2SM, side-to-side migration (D-JB, Algorithm 2): units change sides when the sides' loads diverge.

    before    R: 0 1 (1200 each)    S: 2 3 (400 each)       means 1200 and 400, overall 800
    after     R: 0 1 2 (800 each)   S: 3 (800)              unit 2 gave its S-tuples to 3, and takes over R-tuples

Line 4 computes the means of both sides and of all units. Line 5 chooses PU_out, the heavy side, and PU_in, the light
one, if a mean is further than theta_max from the overall mean. The paper does not say how many units change sides. Here
as many change as make the heavier of the two means least, the lightest ones first; none if they are so divided already.
A unit that changes gives its keys and buckets of the old side to the side's remaining units, the largest first, each to
the least loaded.

Lines 6-15 (MoveOut of the heavy side's units, MoveIn of the new ones) are ISM on each side afterwards. Lines 7 and 12
bound the units by the overall mean. So does `side_gap`, which judges the sides (load/djb.py). But the moves themselves
are bounded by the mean of their side: units come in whole numbers, so a side's mean is seldom the overall one, and all
units of the heavier side would be out of bounds, none of them allowed to take anything.

Invariant: every instance hosts units of one side only, and each side keeps at least one. For layout `split` only.
"""

from __future__ import annotations

import numpy as np

from evenjoin.load.djb import best_division, side_gap
from evenjoin.strategies.djb.draft import Draft


def s2sm(draft: Draft) -> bool:
    """Let units change sides, if the sides' means call for it. Returns whether they did."""
    if len(draft.sides) != 2 or not side_gap(draft.workloads, draft.theta):
        return False
    idle = np.flatnonzero(~draft.hosts.any(axis=0))
    first = best_division(draft.workloads)
    have = draft.hosts.sum(axis=1)
    want = (first, int(have.sum()) + len(idle) - first)
    heavy = int(np.argmax(np.array(want) - have))
    for unit in idle.tolist()[: want[heavy] - int(have[heavy])]:
        draft.hosts[heavy, unit] = True
    units = draft.units(1 - heavy)
    lightest = units[np.argsort(draft.load[1 - heavy, units], kind="stable")]
    for unit in lightest[: max(int(have[1 - heavy]) - want[1 - heavy], 0)].tolist():
        _vacate(draft, 1 - heavy, unit)
        draft.hosts[heavy, unit] = True
    return True


def _vacate(draft: Draft, side: int, unit: int) -> None:
    """Move the unit's keys and buckets of a side to the side's other units. The unit no longer belongs to the side."""
    draft.hosts[side, unit] = False
    remaining = draft.units(side)
    keys = np.flatnonzero(draft.routed & ((draft.at[side] == unit) | (draft.at[side] < 0)))
    for n in keys[np.argsort(-draft.divisible[side, keys], kind="stable")].tolist():
        units, part = draft.split(side, n)
        if unit not in units:
            continue
        share = np.zeros(draft.load.shape[1])
        share[units] = part
        share[unit] = 0.0
        if not share.any():
            share[remaining[np.argmin(draft.load[side, remaining])]] = 1.0
        draft.put(side, n, share)
    work = np.where(draft.routed, 0.0, draft.divisible[side] + draft.fixed[side])
    sizes = np.bincount(draft.items.bucket, work)
    for bucket in np.argsort(-sizes, kind="stable").tolist():
        if draft.stores(side, bucket, unit):
            draft.move_bucket(side, bucket, int(remaining[np.argmin(draft.load[side, remaining])]))
