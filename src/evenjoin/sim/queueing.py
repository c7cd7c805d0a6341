"""Tuple at a time: each instance is a queue, as in the papers' engines; latencies and throughput of an interval.

Two ways to the same question. `Queues` is an approximation for any size, vectorised over instances. It is a fluid model
for the backlog and Pollaczek and Khinchine's mean for what chance adds:

    W      = work that arrives in an interval of T ms; rho = W / T; S = W / tuples, the mean service time
    wait   = mean backlog over the interval (ms of work) + rho S (1 + cv2) / (2 (1 - rho))         with rho <= MOST
    p99    from the exponential tail P(wait > t) = rho exp(-rho t / wait)

A queue with rho > 1 grows: what is not served is the backlog that the next interval begins with. `served_exactly` is
Lindley's recursion on every tuple, seeded, for small cases; tests hold the two against each other.

Not guaranteed: the p99 of a queue that is overloaded for part of an interval only. Not here: how long a tuple takes
(cost.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenjoin.load.items import F64
from evenjoin.sim.counting import Counts

MOST = 0.98
"""The largest utilisation that the stationary formula is asked about; above it the backlog says how long tuples
wait."""
CV2 = 1.0
"""The squared coefficient of variation of service times."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Of an interval: mean and 99th percentile of a tuple's time from arrival to being done, tuples a second that were
    done, and how much work (ms) is left in the fullest queue. `by_instance` are the means."""

    mean_ms: float
    p99_ms: float
    throughput: float
    backlog_ms: float
    by_instance: F64


class Queues:
    """The backlog of each instance, from interval to interval."""

    def __init__(self) -> None:
        self.backlog_ms: F64 = np.zeros(0)

    def interval(self, counts: Counts, busy_ms: F64, length_ms: float) -> Latency:
        """One interval in which the tuples of `counts` arrive, each instance being busy for so long with its own."""
        tuples = counts.messages.sum(axis=0).astype(np.float64)
        before = np.zeros(len(busy_ms))
        few = min(len(before), len(self.backlog_ms))
        before[:few] = self.backlog_ms[:few]
        service = busy_ms / np.maximum(tuples, 1.0)
        rho = busy_ms / length_ms
        after = np.maximum(before + busy_ms - length_ms, 0.0)
        wait = _mean_backlog(before, rho, length_ms) + _by_chance(rho, service)
        done = tuples * np.where(before + busy_ms > 0, (before + busy_ms - after) / np.maximum(busy_ms, 1e-12), 1.0)
        self.backlog_ms = after
        total = wait + service
        weight = tuples / max(tuples.sum(), 1.0)
        return Latency(
            float((total * weight).sum()),
            _percentile(wait, service, np.minimum(rho, MOST), weight, 0.99),
            float(np.minimum(done, tuples + before / np.maximum(service, 1e-12)).sum() / length_ms * 1000),
            float(after.max(initial=0.0)),
            total,
        )


def _mean_backlog(before: F64, rho: F64, length_ms: float) -> F64:
    """[instances] The mean over the interval of the fluid backlog, which changes by rho - 1 ms in a ms until it is
    0."""
    slope = rho - 1
    empty = np.where(slope < 0, np.minimum(before / np.maximum(-slope, 1e-12), length_ms), length_ms)
    out: F64 = (before * empty + slope * empty**2 / 2) / length_ms
    return np.maximum(out, 0.0)


def _by_chance(rho: F64, service: F64) -> F64:
    """[instances] The mean wait of M/G/1."""
    held = np.minimum(rho, MOST)
    out: F64 = held * service * (1 + CV2) / (2 * (1 - held))
    return out


def _percentile(wait: F64, service: F64, rho: F64, weight: F64, share: float) -> float:
    """The percentile of the mixture of all instances' tails, by bisection."""
    low, high = 0.0, float((wait * 50 + service * 50).max(initial=0.0)) + 1e-9
    rate = np.where(wait > 0, rho / np.maximum(wait, 1e-12), np.inf)
    for _ in range(60):
        middle = (low + high) / 2
        over = np.maximum(middle - service, 0.0)
        tail = np.where(middle < service, 1.0, np.where(wait > 0, rho * np.exp(-np.minimum(rate * over, 700.0)), 0.0))
        low, high = (middle, high) if float((tail * weight).sum()) > 1 - share else (low, middle)
    return high


def served_exactly(arrivals_ms: F64, services_ms: F64, backlog_ms: float = 0.0) -> F64:
    """[tuples] The latency of every tuple of one queue, first come first served: Lindley's recursion
    W[n+1] = max(0, W[n] + S[n] - A[n]), as a running minimum of sums. Arrivals ascend."""
    if not len(arrivals_ms):
        return arrivals_ms
    steps = np.concatenate([[backlog_ms - arrivals_ms[0]], services_ms[:-1] - np.diff(arrivals_ms)])
    sums = np.cumsum(steps)
    out: F64 = sums - np.minimum(np.minimum.accumulate(sums), 0.0) + services_ms
    return out
