"""LS-Stream's models, equation by equation: partitions, resources, imbalance, the queue, the worth of a migration.

    counts of partitions --7-12--> R of partitions and instances --13-14--> LI
    tuples taken in, busy time --3-4, 15-21--> E, mu, AST
    a set MP of partitions, j_h -> j_l --22-25--> mif, under 30-31; 32 accepts a worse one now and then

A partition is a cell of the table: a bucket, or a key with a region of its own. In this engine it has a unit of each
side, and each unit is one direction of the papers' join: it stores ST tuples of its side and QL tuples of the other
side queued for it in the interval; with more sides, QL tuples of all other sides. A partition whose units live together
has the sum of their R, so a tuple counts once for each store that it probes. The window W is one batch interval. Rates
are tuples per second, times seconds.

Slips mended: eq. 4 divides by the whole time although it leaves two samples out; eq. 18's sum starts at 1; eq. 26 says
min(mif), the text and Algorithm 1 want it large; eq. 32 lacks a sign. Eq. 8's second line (R^m = E W) holds for a store
that keeps one window; here the store may keep more, so R^m is counted, and E is measured.

Pure. Does not choose partitions: that is strategies/lsstream.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.hashing import I64
from evenjoin.kernels.runs import expand
from evenjoin.load.items import F64, Items, cells_of_items
from evenjoin.load.report import LoadReport
from evenjoin.placement.shares import holdings, shares_by_region
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import Cube, Role


@dataclass(frozen=True, slots=True)
class Partitions:
    """`stored` (ST), `queue` (QL) and `taken` (tuples taken in, stored or probing), each [sides, cells]."""

    stored: F64
    queue: F64
    taken: F64


def partitions_of(items: Items, table: RoutingTable) -> Partitions:
    """The items as partitions of a table that has the same buckets. O(items)."""
    cell = cells_of_items(items, table)
    stored, arrived = np.zeros((2, table.groups, table.cells))
    for side in range(table.groups):
        stored[side] = np.bincount(cell, items.stored[side], table.cells)
        arrived[side] = np.bincount(cell, items.arrived[side], table.cells)
    every = arrived.sum(axis=0)
    return Partitions(stored, every - arrived, np.broadcast_to(every, arrived.shape))


def units_of(table: RoutingTable, side: int) -> tuple[I64, I64, F64]:
    """Every unit of a side: its partition, its instance and its share of the partition's stored tuples. O(units)."""
    units = holdings(table, side, Role.STORE)
    first = np.searchsorted(units.region, np.arange(len(table.regions) + 1))
    region = table.compiled.region_of_cell
    count = first[region + 1] - first[region]
    at = expand(first[region], count)
    return np.repeat(np.arange(table.cells), count), units.instance[at], units.share[at]


def memory(stored: F64, queue: F64) -> F64:
    """Eq. 7: R^m = ST + QL. Summed over an instance's partitions it is eq. 8."""
    return stored + queue


def computing(stored: F64, queue: F64) -> F64:
    """Eq. 9: R^c = ST QL, the partition's area in the join matrix. Summed over partitions it is eq. 10."""
    return stored * queue


def resource(stored: F64, queue: F64, gamma: float) -> F64:
    """Eq. 11: R = gamma R^m + (1 - gamma) R^c. Summed over partitions it is eq. 12."""
    out: F64 = gamma * memory(stored, queue) + (1.0 - gamma) * computing(stored, queue)
    return out


def resources_by_instance(parts: Partitions, table: RoutingTable, gamma: float) -> F64:
    """[sides, instances] Eq. 12 of each side's units; NaN where an instance has no unit of the side."""
    out = np.full((table.groups, table.instances), np.nan)
    for side in range(table.groups):
        cell, instance, share = units_of(table, side)
        each = resource(parts.stored[side, cell] * share, _queued(parts, table, side, cell, instance), gamma)
        hosts = np.unique(instance)
        out[side, hosts] = np.bincount(instance, each, table.instances)[hosts]
    return out


def _queued(parts: Partitions, table: RoutingTable, side: int, cell: I64, instance: I64) -> F64:
    """[units] QL of units of a side, given by their cells and instances. All tuples of the other sides are queued for a
    unit, except in a key that is divided by a cube: there the others, too, are where they are stored."""
    queue: F64 = parts.queue[side, cell]
    region = table.compiled.region_of_cell[cell]
    cube = np.array([isinstance(one.topology, Cube) for one in table.regions])[region]
    if not cube.any():
        return queue
    arrived, asked = parts.taken - parts.queue, np.zeros(len(cell))
    for other in range(table.groups):
        if other != side:
            asked += arrived[other, cell] * shares_by_region(table, other, Role.PROBE)[region, instance]
    return np.where(cube, asked, queue)


def imbalance_degree(resources: F64) -> float:
    """Eq. 13-14: LI, the larger of (max - mean)/mean and (mean - min)/mean. NaNs are left out; no load at all is
    even."""
    present = resources[~np.isnan(resources)]
    mean = float(present.mean()) if len(present) else 0.0
    return max(float(present.max()) - mean, mean - float(present.min())) / mean if mean > 0 else 0.0


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


def resource_benefit(before: float, after: float) -> float:
    """Eq. 23: dR = 2 (R_h - R'_h), which is eq. 22 because what j_h loses j_l gains."""
    return 2.0 * (before - after)


def migration_impact(resources: float, latency: float, tuples: float) -> float:
    """Eq. 25: mif = (dR + lb) / card(SK), SK the stored tuples that move (at least 1 is counted)."""
    return (resources + latency) / max(tuples, 1.0)


def least_to_move(straggler: float, mean: float, alpha: float) -> float:
    """Eq. 30, R_h - sum of R over MP < mean (1 + alpha), as the bound the sum must exceed."""
    return straggler - mean * (1.0 + alpha)


def most_to_move(straggler: float, least: float) -> float:
    """Eq. 31, R_h - R_l > 2 sum of R over MP, as the bound the sum must stay below: j_h stays the heavier one."""
    return (straggler - least) / 2.0


def acceptance(new: float, old: float, temperature: float) -> float:
    """Eq. 32 with the sign that makes it a probability: exp((mif_new - mif_old) / T) < 1 for a worse solution."""
    return exp((new - old) / temperature) if new < old else 1.0


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

    def plus(self, resources: float, rate: float) -> Queue:
        """The queue after partitions of this R and E came (negative: left)."""
        return Queue(max(self.resources + resources, 0.0), max(self.rate + rate, 0.0), self.cost, self.window)


def latency_benefit(straggler: Queue, least: Queue, moved: float, rate: float) -> float:
    """Eq. 24: lb = (AST_h - AST'_h) + (AST_l - AST'_l), when partitions of this R and E go from j_h to j_l."""
    return straggler.wait() - straggler.wait(-moved, -rate) + least.wait() - least.wait(moved, rate)


def queues_of(report: LoadReport, resources: F64, window: float) -> list[Queue]:
    """Each instance as a queue, from what was measured.

    E is eq. 4 over the report's recent batches. Batches from before a migration are among them; the trim and the
    driver's cool-down make that bearable. mu is the tuples taken in per second of busy time. An instance that took
    nothing in, or has no R, has no measured cost. It gets the cluster's, since processors are alike (section III-E).

    `resources` [instances] has no NaN. `window` is W in seconds. 0 stands for the busy time of the busiest instance,
    which is the interval when batches follow each other without a pause.
    """
    busy = np.array([load.busy_ms for load in report.instances]) / 1000.0
    window = window or float(busy.max(initial=0.0)) or 1.0
    recent = report.recent or ((0,) * len(busy),)
    rate = trimmed_rate(recent, window)
    taken = np.asarray(recent[-1], np.float64)
    per_tuple = np.divide(busy, taken, out=np.zeros_like(busy), where=taken > 0)
    measured = (taken > 0) & (resources > 0)
    typical = float(busy[resources > 0].sum() / resources.sum()) if resources.sum() > 0 else 0.0
    cost = np.divide(per_tuple * rate * window, resources, out=np.full_like(busy, typical), where=measured)
    return [Queue(*values, window) for values in zip(resources.tolist(), rate.tolist(), cost.tolist(), strict=True)]
