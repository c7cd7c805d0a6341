"""How fast each instance is, measured: its work per busy millisecond over the cluster's.

    speed of i = (work_i / busy_i) / (sum of work / sum of busy)        work: tuples taken in, and results

1 is the cluster's speed; an instance on a node that is half as fast as seven others has 0.56, and they have 1.13. Only
ratios matter to a planner. A batch's figure is smoothed over batches, since one batch may meet a pause of the machine.

Not guaranteed: that the same speed means the same processor. An instance whose work has more results to a tuple may be
busy longer or shorter for it. An instance with hardly any work measures its fixed costs, so it keeps the speed that it
had. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SMOOTHING = 0.25
"""The weight of the newest batch."""
HARDLY_ANY = 0.1
"""The part of the mean work below which an instance's speed is not measured."""


def speeds_of(work: Sequence[float], busy_ms: Sequence[float], last: Sequence[float] = ()) -> tuple[float, ...]:
    """The speeds of the instances after a batch. `last` are those of the batch before; with another number of instances
    they are forgotten. Empty if no instance was busy."""
    done, busy = np.asarray(work, np.float64), np.asarray(busy_ms, np.float64)
    known = tuple(last) if len(last) == len(done) else ()
    if not done.sum() > 0 or not busy.sum() > 0:
        return known
    measured = (done > HARDLY_ANY * done.mean()) & (busy > 0)
    before = np.array(known or (1.0,) * len(done))
    cluster = done[measured].sum() / busy[measured].sum() if measured.any() else 1.0
    now = np.divide(done, busy * cluster, out=before.copy(), where=measured)
    smooth = now if not known else SMOOTHING * now + (1.0 - SMOOTHING) * before
    return tuple(np.round(smooth, 4).tolist())
