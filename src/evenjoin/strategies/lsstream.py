"""LS-Stream: many small partitions, a table of constant size, and partitions that leave stragglers.

Two-level routing (section V-B, eq. 28-29): a key hashes to one of P partitions (buckets), and the table names each
partition's instance. P is much larger than the number of instances and never changes, so neither does the table's size:

    partition  0 1 2 3 4 5        partition  0 1 2 3 4 5
    instance   0 0 0 1 1 1   ->   instance   0 0 1 1 1 1      Fig. 6: partition 2 goes from instance 0 to 1

When LI (eq. 13) exceeds alpha, partitions go from the straggler j_h to the least-loaded j_l, chosen for the largest mif
(eq. 25, Algorithm 1) under eq. 30 and eq. 31 (partition_moves.py). In layout `shared` a partition's units of all sides
live and move together and its load is their sum; in layout `split` each side's group is balanced by itself.

A plan is proposed only if LI sinks by WORTH of itself, and by more than the noise of counting. A partition cannot be
divided, so LI is never below n max R_p / sum R - 1, where R_p are the partitions' and n the instances; more partitions
do not help against one hot key. The planner then stays, and says that number. In layout `split` LI is the larger one of
the two sides': where one side is at its bound, the other one is left alone too.

Beyond the paper:
* `normalised` divides R^m, R^c and lb by their means over the cluster. In the paper's units gamma and lb cannot change
  a decision (load/lsstream.py, load/sojourn.py have the figures), so this is off by default: it is another measure.
* `speeds` divides R by the measured speed of each instance (load/report.py). The paper assumes equal processors
  (III-E), and says that its model supports others, but not how.

Keys with a region of their own (another strategy's) count in the loads and stay. Not here: the models
(load/lsstream.py, load/sojourn.py), which pairs there are (partition_moves.py), the choice of partitions
(partition_selection.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenjoin.load.items import F64, Items
from evenjoin.load.lsstream import (
    Partitions,
    Weights,
    imbalance_degree,
    least_imbalance,
    normalised_weights,
    partitions_of,
    raw_weights,
    resource,
    terms_by_instance,
    whole_partitions,
)
from evenjoin.load.report import LoadReport
from evenjoin.load.sojourn import queues_of
from evenjoin.placement.table import Layout, RoutingTable
from evenjoin.spec import JoinSpec
from evenjoin.strategies.base import Bounds, Plan, Stay, halves, register, require
from evenjoin.strategies.bistream import hash_table
from evenjoin.strategies.edit import Edit, home_of_buckets
from evenjoin.strategies.ordered import refuse_bands
from evenjoin.strategies.partition_moves import Group, counting_noise, even_out, pieces_of
from evenjoin.strategies.partition_selection import Cooling

WORTH = 0.01
"""A plan must lower LI by this part of it."""
NOISE = 2.0
"""And by more than this many standard deviations of what LI differs by from batch to batch, for the straggler's tuples
are counted, unless it lowers LI by a third. Without this 100 instances that share 20,000 tuples a batch had up to five
rebalances in 40 stationary batches; with it two. A stream with thousands of tuples a partition does not notice it."""
SETS = 0.01
"""LI within this part of the least that the heaviest partition allows: then that partition alone sets it."""
PER_UNIT = 8
"""Partitions for each unit of a side, unless said otherwise: chosen by the work (tuples and results) of the busiest
instance over the mean, after rebalancing. These are the cases of 8 to 100 instances and zipf 0.2 to 1.2 in which the
number matters most, as means over three hashes:

    partitions a unit                     2      4      8     16     32
    48 instances, zipf 0.4, 2,000 keys    3.17   3.10   2.85   2.69   2.60
    16 instances, zipf 0.6, 2,000 keys    4.01   3.97   3.74   3.59   3.53
    48 instances, zipf 0.6, 100,000 keys  10.00  9.97   9.47   9.24   9.10
     8 instances, zipf 1.0, a million     5.08   5.06   4.87   4.87   4.86

There the busiest has 4 to 8 % less to do with 8 than with 4, and doubling again gains up to 6 %. In most other cases
the number changes it by less than 2 %: nothing has to move, or one hot key is most of the work. Each partition is two
cells in every report and commit. LI itself cannot be compared between numbers of partitions: R^c is an area, so with
twice as many the mean R halves, while a hot key keeps its R, and LI rises though nobody has more to do (16 instances,
zipf 0.8, 100,000 keys: LI ends at 0.54 with 4, 0.73 with 8, 1.35 with 16)."""
SLOWEST = 0.1
"""The least speed that is believed: an instance that is slower than that is paused, not slow."""


@register("lsstream")
@dataclass(frozen=True, slots=True)
class LsStream:
    """LS-Stream.

    partitions     P; 0: PER_UNIT for each unit of a side. It is rounded up to a multiple of the units
    alpha, aim     the threshold of LI, and the part of it that plans are made for (1: the paper's rule, see
                   strategies/base.py)
    gamma          the weight of memory against computing (eq. 11)
    normalised     whether R^m, R^c and lb are each divided by their mean over the cluster
    speeds         whether R is divided by the measured speed of its instance
    seed           for the annealing
    interval_ms    the window W; 0: the report's interval
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
    normalised: bool = False
    speeds: bool = False

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
            "normalised": ("True or False", type(self.normalised) is bool),
            "speeds": ("True or False", type(self.speeds) is bool),
        }
        require(self, wanted)

    @property
    def origin(self) -> str:
        return f"lsstream(partitions={self.partitions})" if self.partitions else "lsstream"

    def for_join(self, spec: JoinSpec) -> LsStream:
        refuse_bands(
            spec,
            "lsstream counts a partition's work as all it stores times all that queue for it; in a band, a tuple "
            "queues for several partitions, and is compared with a part of each",
        )
        return self

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
        units = max(map(len, halves(instances, sides, layout)))
        return hash_table(self.origin, self.partitions or PER_UNIT * units, instances, sides, layout)

    def load(self, items: Items, table: RoutingTable) -> F64:
        """R of each instance (eq. 12): one row if the sides share instances, else one row for each side. With `speeds`
        it is R over speed."""
        return self._resources(partitions_of(items, table), table)[0] / self._speed(items, table)

    def imbalance(self, items: Items, table: RoutingTable) -> float:
        """LI (eq. 13). If each side has instances of its own, the largest LI of a side."""
        return max(imbalance_degree(group) for group in self.load(items, table))

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> Plan:
        if len(home_of_buckets(table)) < table.buckets:
            return Stay("some partitions are divided, and only whole ones move")
        before = self.imbalance(items, table)
        if before <= self.bounds.goal:
            return None
        parts, speed = partitions_of(items, table), self._speed(items, table)
        edit, rng = Edit(table), np.random.default_rng((self.seed, report.batch))
        cooling = Cooling(self.temperature, self.cooling, self.coldest)
        rows, weights = self._resources(parts, table)
        straggler, noise = -1.0, 0.0
        for sides, resources, each in zip(_groups(rows, table), rows, weights, strict=True):
            queues = queues_of(report, np.nan_to_num(resources), self.interval_ms / 1000.0)
            wait = float(np.mean([queue.wait() for queue in queues])) if self.normalised else 1.0
            pieces, group = pieces_of(parts, table, sides, each, queues), Group(resources, speed, queues, wait or 1.0)
            if imbalance_degree(group.load) > straggler:
                straggler, noise = imbalance_degree(group.load), counting_noise(pieces, group)
            for bucket, instance in even_out(pieces, group, self.bounds.goal, cooling, rng).items():
                for side in sides:
                    edit.move_bucket(bucket, side, (instance,))
        planned = edit.table()
        gain = before - self.imbalance(items, planned)
        if gain > max(WORTH * before, min(NOISE * noise * (1.0 + before), before / 3.0)):
            return planned
        return Stay(_why(before, gain, self._least(parts, table, speed)))

    def _speed(self, items: Items, table: RoutingTable) -> F64:
        """[instances] The measured speeds, or 1 for each."""
        known = self.speeds and items.speed is not None and len(items.speed) == table.instances
        return np.maximum(items.speed, SLOWEST) if known and items.speed is not None else np.ones(table.instances)

    def _resources(self, parts: Partitions, table: RoutingTable) -> tuple[F64, list[Weights]]:
        """[rows, instances] R of each instance, and the weights of each row."""
        used, compared = terms_by_instance(parts, table)
        weights = [
            normalised_weights(self.gamma, *terms) if self.normalised else raw_weights(self.gamma)
            for terms in zip(used, compared, strict=True)
        ]
        factors = np.array([(one.memory, one.computing) for one in weights])
        return factors[:, :1] * used + factors[:, 1:] * compared, weights

    def _least(self, parts: Partitions, table: RoutingTable, speed: F64) -> float:
        """The least LI that the heaviest partition allows; of the sides, the larger one."""
        rows, weights = self._resources(parts, table)
        out = []
        for sides, resources, each in zip(_groups(rows, table), rows, weights, strict=True):
            some = list(sides)
            of_parts = resource(parts.stored[some], parts.queue[some], each).sum(axis=0)
            out.append(least_imbalance(of_parts, whole_partitions(table, sides), speed[~np.isnan(resources)]))
        return max(out)


def _groups(rows: F64, table: RoutingTable) -> list[tuple[int, ...]]:
    """The sides of each row of loads."""
    every = tuple(range(table.groups))
    return [(side,) for side in every] if len(rows) == len(every) else [every]


def _why(before: float, gain: float, least: float) -> str:
    """Why nothing moves, as a sentence."""
    floor = f"n max R_p / sum R - 1 = {least:.2f}"
    if least >= before * (1.0 - SETS):
        return f"the heaviest partition alone sets LI {before:.2f}: it cannot be below {floor}"
    if gain > WORTH * before:
        return f"LI {before:.2f} would sink by {gain:.2f}, which two batches of the same stream may differ by"
    return f"no migration lowers LI {before:.2f} by {WORTH:.0%}; the heaviest partition alone has {floor}"
