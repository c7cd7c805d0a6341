"""An instance of LS-Stream as a queue: its input rate E, its service rate mu, and how long a tuple stays (AST).

    tuples taken in, busy time --3-4, 15-21--> E, mu, AST --24--> lb, what a migration does to the waiting

The window W is one batch interval. Rates are tuples per second, times are seconds.

Slips mended: eq. 4 divides by the whole time although it leaves two samples out; eq. 18's sum starts at 1. Eq. 8's
second line (R^m = E W) holds for a store that keeps one window; here the store may keep more, so E is measured.

In the paper's units lb cannot change a decision. It is seconds, at most twice W, and dR is tuples times tuples: on 48
instances lb is at most 2e-8 of dR with 100,000 tuples a side and batch over a million keys, and 2e-5 with 20,000 tuples
over 2,000 keys. `LsStream(normalised=True)` divides each by its mean over the cluster. Then lb counts, and where
batches follow each other without a pause it counts for more than dR: the straggler, which is busy all the time, makes
its tuples wait for W, and the others hardly make them wait.

Pure. Not here: R (lsstream.py), and the choice of partitions (strategies/partition_selection.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from evenjoin.load.items import F64
from evenjoin.load.report import LoadReport


@dataclass(frozen=True, slots=True)
class Queue:
    """One instance as a queue: R, E, and `cost`, the busy seconds that one unit of R takes in a window W.

    This is Theorem 1 (mu falls as R grows) for any state of the instance. Its busy time is proportional to R, hence the
    work of a tuple to R / (E W), and mu = E W / (cost R). The measured mu gives the cost. With R' and E' of another set
    of partitions the cost gives mu'. E' is E less (or plus) the rates of the partitions that leave (or come).
    """

    resources: float
    rate: float
    cost: float
    window: float

    def mu(self, resources: float = 0.0, rate: float = 0.0) -> float:
        """Tuples per second of busy time, after partitions of this R and E came (negative: left)."""
        work = self.cost * (self.resources + resources)
        return (self.rate + rate) * self.window / work if work > 0 else inf

    def wait(self, resources: float = 0.0, rate: float = 0.0) -> float:
        """AST, now or after partitions of this R and E came (negative: left)."""
        return waiting(self.mu(resources, rate), self.rate + rate, self.window)

    def waits(self, resources: F64, rate: F64) -> F64:
        """`wait` of many sets of partitions at once; arrays of one shape."""
        work, after = self.cost * (self.resources + resources), self.rate + rate
        with np.errstate(over="ignore"):  # next to no work: mu has no bound
            slack = np.divide(after * self.window, work, out=np.full_like(work, inf), where=work > 0) - after
        stay = np.divide(1.0, slack, out=np.full_like(work, inf), where=slack > 0)
        return np.where(after > 0, np.minimum(stay, self.window), 0.0)

    def plus(self, resources: float, rate: float) -> Queue:
        """The queue after partitions of this R and E came (negative: left)."""
        return Queue(max(self.resources + resources, 0.0), max(self.rate + rate, 0.0), self.cost, self.window)


def queues_of(report: LoadReport, resources: F64, window: float) -> list[Queue]:
    """Each instance as a queue, from what was measured.

    E is eq. 4 over the report's recent batches. mu is the tuples taken in per second of busy time. An instance that
    took nothing in, or has no R, has no measured cost. It gets the cluster's, since processors are alike (section
    III-E).

    `resources` [instances] has no NaN. `window` is W in seconds. 0 stands for the report's interval, and if that is not
    known, for the busy time of the busiest instance, which is the interval when batches follow each other without a
    pause.
    """
    busy = np.array([load.busy_ms for load in report.instances]) / 1000.0
    window = window or report.interval_ms / 1000.0 or float(busy.max(initial=0.0)) or 1.0
    recent = report.recent or ((0,) * len(busy),)
    rate = trimmed_rate(recent, window)
    taken = np.asarray(recent[-1], np.float64)
    per_tuple = np.divide(busy, taken, out=np.zeros_like(busy), where=taken > 0)
    measured = (taken > 0) & (resources > 0)
    typical = float(busy[resources > 0].sum() / resources.sum()) if resources.sum() > 0 else 0.0
    cost = np.divide(per_tuple * rate * window, resources, out=np.full_like(busy, typical), where=measured)
    return [Queue(*values, window) for values in zip(resources.tolist(), rate.tolist(), cost.tolist(), strict=True)]


def latency_benefit(straggler: Queue, least: Queue, moved: float, rate: float) -> float:
    """Eq. 24: lb = (AST_h - AST'_h) + (AST_l - AST'_l), when partitions of this R and E go from j_h to j_l."""
    return straggler.wait() - straggler.wait(-moved, -rate) + least.wait() - least.wait(moved, rate)


def latency_benefits(straggler: Queue, least: Queue, moved: F64, rate: F64) -> F64:
    """`latency_benefit` of many sets of partitions at once; arrays of one shape."""
    return straggler.wait() - straggler.waits(-moved, -rate) + least.wait() - least.waits(moved, rate)


def input_rate(taken: npt.ArrayLike, window: float) -> F64:
    """Eq. 3: Ir, all tuples the dispatchers sent an instance in a window, per second."""
    return np.asarray(taken, np.float64) / window


def trimmed_rate(recent: Sequence[Sequence[float]], window: float) -> F64:
    """Eq. 4: E, each instance's mean input rate over `recent` [batches, instances], without its highest and its lowest
    batch. With fewer than 3 batches nothing is left out."""
    rates = np.sort(input_rate(recent, window), axis=0)
    kept = rates[1:-1] if len(rates) >= 3 else rates
    mean: F64 = kept.mean(axis=0)
    return mean


def queue_length(mu: float, rate: float) -> float:
    """Eq. 16-19: L = E / (mu - E) of the M/M/1 queue; an unstable one (mu <= E) has no bound."""
    return rate / (mu - rate) if mu > rate else (inf if rate > 0 else 0.0)


def sojourn_time(mu: float, rate: float) -> float:
    """Eq. 15, 20: AST = L / E = 1 / (mu - E), infinite when mu <= E."""
    return 1.0 / (mu - rate) if mu > rate else inf


def sojourn_time_by_memory(mu: float, used: float, window: float) -> float:
    """Eq. 21: AST = W / (W mu - R^m), eq. 20 with R^m = E W (eq. 8)."""
    return window / (window * mu - used) if window * mu > used else inf


def waiting(mu: float, rate: float, window: float) -> float:
    """AST as the planner needs it, which is finite. A tuple waits at most W, however unstable the queue is, because its
    batch ends then. Where no tuple comes, none waits."""
    return min(sojourn_time(mu, rate), window) if rate > 0 else 0.0
