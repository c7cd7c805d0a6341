"""How the tasks of a batch ran: how many at once, whether they waited for a core, and how fast each instance is.

What is observable of a cluster are the times of tasks: when each began and how long it took by the clock.

    at_once     the most tasks that ran at the same time. There are at least as many cores.
    waited      whether there are no more cores than that: as many tasks were running all the time, until the last one
                began. So those that began later had waited for a core.

                    core 1  |----a----||---c---|          at_once 2, and c and d waited: there are two cores
                    core 2  |---b---||----d----|

                    core 1  |-a-|   |-c-|                 at_once 1, but nobody had to wait for a core:
                    core 2        |-b-|   |-d-|           the tasks were over before the next one was started

    speeds_of   the speed of each instance over the cluster's, smoothed over batches

Guarantee: pure functions of the times. `at_once` is never more than the cores, as far as clocks agree.
Not guaranteed: that `waited` notices every lack of cores. It says no where tasks are short, or cores stand idle between
two of them; a batch of which it says no tells nothing about how many cores there are beyond `at_once`.
Not here: for how long a number of cores is believed (strategies/auto/memory.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

BLURRED_MS = 1.0
"""When a task began and how long it took are read from two clocks, and rounded."""
LONG_MS = 20.0
"""Tasks that take less on average may be over before the next one has been started, whether a core was free or not."""
FILLED = 0.8
"""The part of the time in which as many tasks as ever at once must have been running. Between two tasks a core stands
idle for a moment: Spark reports the end of one, and starts the next."""
SMOOTHING = 0.25
"""The weight of the newest batch in the measured speed of an instance."""
HARDLY_ANY = 0.1
"""The part of the mean work below which an instance's speed is not measured."""

Tasks = Sequence[tuple[float, float]]
"""Of each task when it began (seconds) and how long it took (ms). One that did not say when it began has 0."""


def at_once(tasks: Tasks) -> int:
    """How many tasks ran at the same time, at most. Two that overlap by less than BLURRED_MS followed each other on a
    core."""
    spans = [(began, began + max(took - BLURRED_MS, 0.0) / 1000) for began, took in tasks if began > 0 and took > 0]
    ends = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    running = np.cumsum([change for _, change in ends])
    return int(running.max(initial=min(len(spans), 1)))


def waited(tasks: Tasks) -> bool:
    """Whether the tasks that began last had to wait for a core; see the top of this file."""
    known = np.array([task for task in tasks if task[0] > 0 and task[1] > 0], np.float64).reshape(-1, 2)
    if len(known) < 2 or known[:, 1].mean() < LONG_MS:
        return False
    began, last = known[:, 0], known[:, 0].max()
    running = float((np.minimum(began + known[:, 1] / 1000, last) - began).sum())
    many, time = at_once(tasks), float(last - began.min())
    return many < len(known) and running >= FILLED * many * time


def speeds_of(work: Sequence[float], took_ms: Sequence[float], last: Sequence[float] = ()) -> tuple[float, ...]:
    """How fast each instance is, measured: its work per millisecond over the cluster's. Empty if nobody was busy.

    1 is the cluster's speed; an instance on a node that is half as fast as seven others has 0.56, and they have 1.13.
    A batch's figure is smoothed with the `last` ones, since one batch may meet a pause of the machine; with another
    number of instances they are forgotten. An instance with hardly any work would measure its fixed costs, so it keeps
    the speed that it had.

    What the work is, the caller says. The load report counts tuples taken in and results, per busy millisecond. There
    it is not guaranteed that the same speed means the same processor: a result may take more or less time than a tuple,
    and where batches are so small that the fixed costs of an instance are most of its busy time, an instance that is
    relieved seems slower still. `auto` says the milliseconds that its fitted cost expects, so it is free of both.
    """
    done, busy = np.asarray(work, np.float64), np.asarray(took_ms, np.float64)
    known = tuple(last) if len(last) == len(done) else ()
    if not done.sum() > 0 or not busy.sum() > 0:
        return known
    measured = (done > HARDLY_ANY * done.mean()) & (busy > 0)
    before = np.array(known or (1.0,) * len(done))
    cluster = done[measured].sum() / busy[measured].sum() if measured.any() else 1.0
    now = np.divide(done, busy * cluster, out=before.copy(), where=measured)
    smooth = now if not known else SMOOTHING * now + (1.0 - SMOOTHING) * before
    return tuple(np.round(smooth, 4).tolist())
