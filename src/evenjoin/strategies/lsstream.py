"""LS-Stream: many small partitions, a table of constant size, and partitions that leave stragglers.

Two-level routing (section V-B, eq. 28-29): a key hashes to one of P partitions (buckets), and the table names each
partition's instance. P is much larger than the number of instances and never changes, so neither does the table's size:

    partition  0 1 2 3 4 5        partition  0 1 2 3 4 5
    instance   0 0 0 1 1 1   ->   instance   0 0 1 1 1 1      Fig. 6: partition 2 goes from instance 0 to 1

When LI (eq. 13) exceeds alpha, partitions go from the straggler j_h to the least-loaded j_l, chosen by simulated
annealing for the largest mif (eq. 25, Algorithm 1) under eq. 30 and eq. 31. In layout `shared` a partition's units of
all sides live and move together and its load is their sum; in layout `split` each side's group is balanced by itself.

Where the paper is silent:
* The paper migrates between one pair at a time. Decisions here are taken once a micro-batch. So a plan goes on with
  further pairs, on the forecast, until LI is what plans are made for (`aim` of alpha, see strategies/base.py) or
  nothing helps; at most one round per instance. A plan with a higher LI than now is not proposed.
* One pair often cannot reach eq. 30, because R_h is more than j_l may take. The pair then moves at least half of what
  eq. 31 allows. If no set does that either, it moves what fits. Later rounds go on from there. For an alpha below 1 the
  other half of LI < alpha (eq. 27), that of j_l, is asked for in the same way.
* Sometimes eq. 31 puts eq. 30 out of reach because j_h's partitions are too big. Then the smallest of those moves, if
  this leaves the heavier one of the pair lighter than before. Two hot partitions on one instance would otherwise stay
  together for ever. What moves is less than R_h - R_l, so neither load leaves the range between the two.
* A straggler from which nothing can go (one partition is its whole load) is passed over, and the next one is looked at.

Keys with a region of their own (another strategy's) count in the loads and stay. Not here: the models
(load/lsstream.py) and the choice of partitions (partition_selection.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenjoin.kernels.hashing import I64
from evenjoin.load.items import F64, Items
from evenjoin.load.lsstream import (
    Partitions,
    Queue,
    imbalance_degree,
    least_to_move,
    most_to_move,
    partitions_of,
    queues_of,
    resource,
    resources_by_instance,
    units_of,
)
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import Layout, RoutingTable
from evenjoin.strategies.base import Bounds, register, require
from evenjoin.strategies.bistream import hash_table
from evenjoin.strategies.edit import Edit, home_of_buckets
from evenjoin.strategies.partition_selection import Cooling, Pair, select

SAME = 1e-9
"""Two sums of the same loads that are added in different orders may differ by this part."""


@register("lsstream")
@dataclass(frozen=True, slots=True)
class LsStream:
    """LS-Stream.

    partitions     P; 0: 4 for each unit of a side. It is rounded up to a multiple of the units
    alpha, aim     the threshold of LI, and the part of it that plans are made for (1: the paper's rule, see
                   strategies/base.py)
    gamma          the weight of memory against computing (eq. 11)
    seed           for the annealing
    interval_ms    the window W, where batches are triggered at an interval; 0: they follow each other
    temperature    annealing starts at this times the spread of the partitions' own mif,
    cooling        cools by this factor (eta),
    coldest        and ends at this part of where it started
    """

    partitions: int = 0
    alpha: float = 1.0
    gamma: float = 0.5
    seed: int = 0
    interval_ms: float = 0.0
    temperature: float = 0.5
    cooling: float = 0.8
    coldest: float = 0.001
    aim: float = 0.5

    def __post_init__(self) -> None:
        wanted = {
            "partitions": ("a whole number of at least 0", type(self.partitions) is int and self.partitions >= 0),
            "alpha": ("above 0", self.alpha > 0),
            "aim": ("above 0 and at most 1", 0 < self.aim <= 1),
            "gamma": ("between 0 and 1", 0 < self.gamma < 1),
            "seed": ("a whole number of at least 0", type(self.seed) is int and self.seed >= 0),
            "interval_ms": ("at least 0", self.interval_ms >= 0),
            "temperature": ("above 0", self.temperature > 0),
            "cooling": ("between 0 and 1", 0 < self.cooling < 1),
            "coldest": ("between 0 and 1", 0 < self.coldest < 1),
        }
        require(self, wanted)

    @property
    def origin(self) -> str:
        return f"lsstream(partitions={self.partitions})" if self.partitions else "lsstream"

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.alpha, self.aim)

    @property
    def threshold(self) -> float:
        return self.alpha

    @property
    def alert(self) -> float:
        return self.bounds.alert

    @property
    def tracked(self) -> int:
        """Above 0, so that partitions are counted exactly. The heavy keys themselves are only for the user to see."""
        return 32

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable:
        return hash_table(self.origin, self.partitions, instances, sides, layout)

    def load(self, items: Items, table: RoutingTable) -> F64:
        """R of each instance (eq. 12): one row if the sides share instances, else one row for each side."""
        by_side = resources_by_instance(partitions_of(items, table), table, self.gamma)
        return by_side if _disjoint(by_side) else np.nansum(by_side, axis=0, keepdims=True)

    def imbalance(self, items: Items, table: RoutingTable) -> float:
        """LI (eq. 13). If each side has instances of its own, the largest LI of a side."""
        return max(imbalance_degree(group) for group in self.load(items, table))

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> RoutingTable | None:
        if len(home_of_buckets(table)) < table.buckets:
            return None
        parts = partitions_of(items, table)
        load = self.load(items, table)
        every = range(table.groups)
        groups = [(side,) for side in every] if len(load) == len(every) else [tuple(every)]
        rng = np.random.default_rng((self.seed, report.batch))
        edit = Edit(table)
        for sides, resources in zip(groups, load, strict=True):
            queues = queues_of(report, np.nan_to_num(resources), self.interval_ms / 1000.0)
            pieces = _pieces(parts, table, sides, self.gamma, queues)
            for bucket, instance in _even_out(pieces, resources, queues, self, rng).items():
                for side in sides:
                    edit.move_bucket(bucket, side, (instance,))
        planned = edit.table()
        worse = self.imbalance(items, planned) > self.imbalance(items, table) * (1 + SAME)
        return None if planned is table or worse else planned


def _disjoint(by_side: F64) -> bool:
    """Whether no instance has units of two sides, as in layout `split`."""
    return not ((~np.isnan(by_side)).sum(axis=0) > 1).any()


@dataclass(frozen=True, slots=True)
class _Pieces:
    """What may move. For each bucket: the instance `home` that has it (-1: several have it, and it stays), R, E and its
    stored tuples."""

    home: I64
    resources: F64
    rate: F64
    tuples: F64

    def lists(self, some: I64) -> tuple[list[float], list[float], list[float]]:
        return self.resources[some].tolist(), self.rate[some].tolist(), self.tuples[some].tolist()


def _pieces(
    parts: Partitions, table: RoutingTable, sides: tuple[int, ...], gamma: float, queues: list[Queue]
) -> _Pieces:
    """The buckets as pieces; a piece is a bucket's units of these sides, which move together. Rates of pieces are
    scaled so that they add up to those of the instances."""
    home = np.full((len(sides), table.cells), -1)
    taken_on = np.zeros(table.instances)
    for row, side in enumerate(sides):
        cell, instance, _ = units_of(table, side)
        home[row, cell] = np.where(np.bincount(cell, minlength=table.cells)[cell] == 1, instance, -1)
        taken_on += np.bincount(instance, parts.taken[side, cell], table.instances)
    rows, own = list(sides), slice(table.buckets)
    one = np.where((home == home[0]).all(axis=0), home[0], -1)[own]
    each = resource(parts.stored[rows], parts.queue[rows], gamma).sum(axis=0)[own]
    scale = np.array([queue.rate for queue in queues]) / np.maximum(taken_on, 1.0)
    rate = parts.taken[rows].sum(axis=0)[own] * scale[one]
    return _Pieces(one, each, rate, parts.stored[rows].sum(axis=0)[own])


def _even_out(
    pieces: _Pieces, resources: F64, queues: list[Queue], strategy: LsStream, rng: np.random.Generator
) -> dict[int, int]:
    """The buckets that move, and the instance that each goes to. `resources` [instances] has NaN for instances outside
    the group."""
    load, home, queues, alpha = resources.copy(), pieces.home.copy(), list(queues), strategy.bounds.goal
    cooling = Cooling(strategy.temperature, strategy.cooling, strategy.coldest)
    stuck = np.isnan(load)
    mean = float(np.nanmean(load)) if not stuck.all() else 0.0
    for _ in range(int((~stuck).sum())):
        if stuck.all() or imbalance_degree(load) <= alpha:
            break
        heavy, light = int(np.argmax(np.where(stuck, -1.0, load))), int(np.nanargmin(load))
        need = max(least_to_move(load[heavy], mean, alpha), mean * (1.0 - alpha) - load[light])
        room = most_to_move(load[heavy], load[light])
        if need < 0 or room <= 0:
            break
        own = np.flatnonzero((home == heavy) & (pieces.resources > 0))
        here = own[pieces.resources[own] < room]
        pair = Pair(queues[heavy], queues[light], need if need < room else room / 2.0, room, *pieces.lists(here))
        chosen = here[select(pair, cooling, rng)]
        if pieces.resources[chosen].sum() <= need:
            chosen = _or_one_above(chosen, own, pieces.resources, load[heavy], load[light])
        if not len(chosen):
            stuck[heavy] = True
            continue
        moved, rate = float(pieces.resources[chosen].sum()), float(pieces.rate[chosen].sum())
        home[chosen] = light
        load[heavy] -= moved
        load[light] += moved
        queues[heavy], queues[light] = pair.straggler.plus(-moved, -rate), pair.least.plus(moved, rate)
    changed = np.flatnonzero(home != pieces.home)
    return dict(zip(changed.tolist(), home[changed].tolist(), strict=True))


def _or_one_above(chosen: I64, own: I64, resources: F64, heavy: float, light: float) -> I64:
    """The partitions chosen under eq. 31; or the smallest one of j_h's `own` that is too big for eq. 31, if moving it
    leaves the pair more even."""
    big = own[resources[own] >= most_to_move(heavy, light)]
    if not len(big):
        return chosen
    one = big[np.argmin(resources[big])]
    return np.array([one]) if light + resources[one] < heavy - resources[chosen].sum() else chosen
