"""What the tasks of a batch cost, and how long a batch takes: the time model by which `auto` judges tables.

    task(i)      = slow(i) * (c0 + c1 * stored(i) + c2 * probing(i) + c3 * results(i))    milliseconds, per instance
    time(table)  = makespan of the tasks, longest first, on the cores  +  send * copies / cores

`stored` are the tuples that an instance takes in to keep, `probing` those that ask it, `results` the pairs that they
make by key and time, also those that a further predicate sorts out. `slow` is how many times as long as elsewhere a
task takes on instance i; 1, unless something else was measured (strategies/auto/slowness.py).

The coefficients are fitted to what the tasks of the last batches took, results handed over included: non-negative least
squares that are drawn (`RIDGE`) to the defaults times the machine's speed. The ridge is needed: while no key is divided
every tuple is stored and probes at the same instance, so two columns are equal and nothing tells them apart. After a
first fit, times that are three times off are cut to that, and the fit is made again, `CUTS` times; so a pause of the
machine does not become a coefficient. Times are never cut against the defaults: what they call an outlier may be the
hot task itself.

Guarantee: `time` asks `loads`, which asks `place`'s own shares, so it can be asked of any keyed table, and of two
tables on the same items. Coefficients are never negative.
Not guaranteed: that a batch takes `time`. It leaves out what no table changes: reading, dispatch, the commit.
Pure. Not here: which table is better (strategies/auto/).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul

import numpy as np

from evenjoin.load.items import F64, Items, loads, regions_of_items
from evenjoin.load.report import LoadReport
from evenjoin.placement.shares import holdings
from evenjoin.placement.slots import Role
from evenjoin.placement.table import RoutingTable

DEFAULTS = np.array([15.0, 2e-4, 2e-4, 1e-4])
"""Milliseconds of a task, a tuple stored, a tuple that probes, and a result, before anything is measured."""
SEND = 2e-4
"""Milliseconds to send one copy of a tuple, in units of the defaults."""
RIDGE = 0.1
OUTLIER = 3.0
CUTS = 3
"""Once is not enough: the first fit follows a time that is a hundred times off, and so does what is cut against it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one batch showed: features [tasks, 4] and the milliseconds [tasks] that the tasks took."""

    features: F64
    took_ms: F64


@dataclass(frozen=True, slots=True)
class Cost:
    """The coefficients c0 .. c3, and what a copy costs to be sent, in milliseconds. `slow` is by instance; None: all
    are equally fast."""

    each: F64
    send_ms: float
    slow: F64 | None = None

    def slowness(self, table: RoutingTable) -> F64:
        """[instances] How many times as long as elsewhere tasks take. What was measured of another number of instances
        says nothing about these."""
        known = self.slow is not None and len(self.slow) == table.instances
        return self.slow if known and self.slow is not None else np.ones(table.instances)

    def tasks(self, items: Items, table: RoutingTable) -> F64:
        """[instances] What the task of each instance takes, had these items met this table."""
        out: F64 = (features(items, table) @ self.each) * self.slowness(table)
        return out

    def even(self, tasks: F64, table: RoutingTable, cores: int) -> float:
        """How long these tasks would take if all cores had work until the end. Those of slow instances would have less
        of it: with work w and slowness s that is sum of w / mean of 1 / s, over the cores."""
        slow = self.slowness(table)
        return float((tasks / slow).sum() / (1 / slow).mean()) / min(cores, table.instances)

    def time(self, items: Items, table: RoutingTable, cores: int) -> float:
        """How long the tasks of a batch take together, had these items met this table."""
        return makespan(self.tasks(items, table), cores) + self.send_ms * copies(items, table) / cores


NOTHING_SEEN = Cost(DEFAULTS, SEND)


def features(items: Items, table: RoutingTable) -> F64:
    """[instances, 4] What the time of a task is linear in, had these items met this table."""
    units = loads(items, table)
    columns = [np.sum([getattr(unit, name) for unit in units], axis=0) for name in ("arrived", "probes", "results")]
    return np.column_stack([np.ones(table.instances), *columns])


def seen_in(report: LoadReport, items: Items, table: RoutingTable) -> Seen:
    """What the tasks of a batch did and took, given the batch's own items and the table that it ran under. Of instances
    whose tasks were not timed nothing is told.

    What they did is asked of the items, and not of the instances' own counts: an instance counts results, an item every
    pair that was looked at, and a forecast must be of what the fit was made to."""
    timed = [load.instance for load in report.instances if load.elapsed_ms > 0]
    return Seen(features(items, table)[timed], np.array([report.instances[i].elapsed_ms for i in timed], np.float64))


def copies(items: Items, table: RoutingTable) -> float:
    """How many messages more than one a tuple takes, in a batch of these items."""
    regions, total = regions_of_items(items, table), 0.0
    for side in range(table.groups):
        region, _, share = holdings(table, side, Role.STORE)
        many = np.bincount(region, share, len(table.regions))
        total += float(items.arrived[side] @ (many[regions] - 1.0))
    return max(total, 0.0)


def makespan(tasks: F64, cores: int) -> float:
    """How long tasks take on so many cores, each started when a core is free, the longest first."""
    if cores >= len(tasks):
        return float(tasks.max(initial=0.0))
    free = [0.0] * cores
    for task in np.sort(tasks)[::-1].tolist():
        heapq.heapreplace(free, free[0] + task)
    return max(free)


def fit(batches: Sequence[Seen]) -> Cost:
    """The coefficients that explain these batches best, drawn to the defaults; see the top of this file."""
    some = [batch for batch in batches if len(batch.took_ms)]
    if not some:
        return NOTHING_SEEN
    columns, took = np.concatenate([b.features for b in some]), np.concatenate([b.took_ms for b in some])
    cost = _fitted(columns, took)
    for _ in range(CUTS):
        expected = columns @ cost.each
        cost = _fitted(columns, np.clip(took, expected / OUTLIER, expected * OUTLIER))
    return cost


def _fitted(columns: F64, took: F64) -> Cost:
    """The coefficients that explain these times [tasks] of tasks with these features [tasks, 4]."""
    speed = float(took.sum() / (columns @ DEFAULTS).sum())
    base = columns * (DEFAULTS * speed)
    expected = base.sum(axis=1)
    weight = 1.0 / np.sqrt(expected * expected.mean())  # between absolute and relative: the heavy task must count
    scaled = base * weight[:, None]
    factors = drawn(scaled, took * weight, RIDGE)
    return Cost(DEFAULTS * speed * factors, SEND * speed)


ROUNDS = 60
"""Rounds of coordinate descent, at most. Four coefficients with a ridge converge in far fewer."""
STILL = 1e-12
"""A round in which no coefficient moves further than this was the last one."""


def drawn(columns: F64, wanted: F64, ridge: float) -> F64:
    """The non-negative factors [n] whose sum of columns [rows, n] is nearest to what is wanted [rows], by least squares
    that are drawn to 1: `ridge` times the square of their distance from it is added."""
    many = columns.shape[1]
    return _descended(columns.T @ columns + ridge * np.eye(many), columns.T @ wanted + ridge, np.ones(many))


def _descended(matrix: F64, wanted: F64, start: F64) -> F64:
    """The non-negative minimum of a quadratic, coordinate by coordinate. Lists and not arrays: there are four of
    them."""
    rows, goal, out = matrix.tolist(), wanted.tolist(), start.tolist()
    for _ in range(ROUNDS):
        furthest = 0.0
        for j, row in enumerate(rows):
            now = max(0.0, out[j] + (goal[j] - sum(map(mul, row, out))) / row[j])
            furthest = max(furthest, abs(now - out[j]))
            out[j] = now
        if furthest <= STILL:
            break
    return np.array(out)
