"""Which partitions go where: LS-Stream's migrations from stragglers to the least loaded, one pair after the other.

    while LI is above the goal:   j_h the heaviest instance, j_l the lightest
                                  MP = select(j_h, j_l)        partition_selection.py, under eq. 30 and eq. 31
                                  MP goes from j_h to j_l

Where the paper is silent:
* The paper migrates between one pair at a time. Decisions here are taken once a micro-batch. So a plan goes on with
  further pairs, on the forecast, until LI is at the goal or cannot sink; at most one round per instance.
* One pair often cannot reach eq. 30, because R_h is more than j_l may take. The pair then moves at least half of what
  eq. 31 allows. If no set does that either, it moves what fits. Later rounds go on from there. For an alpha below 1 the
  other half of LI < alpha (eq. 27), that of j_l, is asked for in the same way.
* Sometimes eq. 31 puts eq. 30 out of reach because j_h's partitions are too big. Then the smallest of those moves, if
  this leaves the heavier one of the pair lighter than before. Two hot partitions on one instance would otherwise stay
  together for ever. What moves is less than R_h - R_l, so neither load leaves the range between the two.
* A straggler from which nothing can go (one partition is its whole load) ends the plan, if it sets LI: no other
  migration could lower LI. If the lightest instance sets LI, the straggler is passed over and the next one gives.

A load is R over the speed of its instance; the speed is 1 unless it is measured. Eq. 30 and 31 compare loads, and what
moves is R. Cost O(instances + partitions) and one `select` a round.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenjoin.kernels.hashing import I64
from evenjoin.load.items import F64
from evenjoin.load.lsstream import (
    Partitions,
    Weights,
    imbalance_degree,
    least_to_move,
    most_to_move,
    resource,
    units_of,
)
from evenjoin.load.sojourn import Queue
from evenjoin.placement.table import RoutingTable
from evenjoin.strategies.partition_selection import Cooling, Pair, select


@dataclass(frozen=True, slots=True)
class Pieces:
    """What may move. For each bucket: the instance `home` that has it (-1: several have it, and it stays), R, E, its
    stored tuples, and the variance of its R from batch to batch, though the stream does not change."""

    home: I64
    resources: F64
    rate: F64
    tuples: F64
    variance: F64

    def lists(self, some: I64) -> tuple[list[float], list[float], list[float]]:
        return self.resources[some].tolist(), self.rate[some].tolist(), self.tuples[some].tolist()


@dataclass(frozen=True, slots=True)
class Group:
    """Instances that are balanced together: R of each (NaN: outside the group), its speed, its queue, and the seconds
    that lb is counted in."""

    resources: F64
    speed: F64
    queues: list[Queue]
    wait: float = 1.0

    @property
    def load(self) -> F64:
        return self.resources / self.speed


def pieces_of(
    parts: Partitions, table: RoutingTable, sides: tuple[int, ...], weights: Weights, queues: list[Queue]
) -> Pieces:
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
    each = resource(parts.stored[rows], parts.queue[rows], weights).sum(axis=0)[own]
    scale = np.array([queue.rate for queue in queues]) / np.maximum(taken_on, 1.0)
    rate = parts.taken[rows].sum(axis=0)[own] * scale[one]
    of_one = weights.memory + weights.computing * parts.stored[rows]  # what one more tuple of QL adds to R
    variance = (of_one**2 * parts.queue[rows]).sum(axis=0)[own]
    return Pieces(one, each, rate, parts.stored[rows].sum(axis=0)[own], variance)


def counting_noise(pieces: Pieces, group: Group) -> float:
    """By what part of itself the straggler's R differs from batch to batch (one standard deviation), though the stream
    does not. Arrivals are Poisson: QL has the variance QL, and one tuple more adds gamma + (1 - gamma) ST to R. So a
    partition that stores much and is hardly asked is known exactly."""
    own = pieces.home == int(np.nanargmax(group.load))
    total = float(pieces.resources[own].sum())
    return float(np.sqrt(pieces.variance[own].sum())) / total if total > 0 else 0.0


def even_out(pieces: Pieces, group: Group, goal: float, cooling: Cooling, rng: np.random.Generator) -> dict[int, int]:
    """The buckets that move, and the instance that each goes to."""
    now = _Forecast(pieces, group)
    for _ in range(int((~now.stuck).sum())):
        heavy = now.straggler()
        if heavy is None or imbalance_degree(now.load) <= goal:
            break
        light = int(np.nanargmin(now.load))
        need, room = now.bounds(heavy, light, goal)
        if need < 0 or room <= 0:
            break
        own = np.flatnonzero((now.home == heavy) & (pieces.resources > 0))
        here = own[pieces.resources[own] < room]
        some = need if need < room else room / 2.0
        queues = now.queues[heavy], now.queues[light]
        chosen = here[select(Pair(*queues, some, room, *pieces.lists(here), group.wait), cooling, rng)]
        if pieces.resources[chosen].sum() <= need:
            chosen = now.or_one_above(chosen, own[pieces.resources[own] >= room], heavy, light)
        now.move(chosen, heavy, light)
    changed = np.flatnonzero(now.home != pieces.home)
    return dict(zip(changed.tolist(), now.home[changed].tolist(), strict=True))


class _Forecast:
    """The group after the migrations planned so far. Mutable, and private to one planning.

    R by instance, load (R over speed), the home of each piece, the queues, and the stragglers from which nothing can
    go. Instances outside the group are NaN in R and load, and `stuck`."""

    def __init__(self, pieces: Pieces, group: Group) -> None:
        self.pieces, self.speed = pieces, group.speed
        self.resources, self.home, self.queues = group.resources.copy(), pieces.home.copy(), list(group.queues)
        self.load = group.load
        self.stuck = np.isnan(self.load)

    def straggler(self) -> int | None:
        """The heaviest instance that can give something; None if one that cannot sets LI."""
        if self.stuck.all():
            return None
        top, mean = int(np.nanargmax(self.load)), float(np.nanmean(self.load))
        if self.stuck[top] and self.load[top] - mean >= mean - np.nanmin(self.load):
            return None
        return int(np.argmax(np.where(self.stuck, -1.0, self.load)))

    def bounds(self, heavy: int, light: int, goal: float) -> tuple[float, float]:
        """Eq. 30 (for j_h, and its like for j_l) and eq. 31, as bounds of the R that moves."""
        mean, resources, speed = float(np.nanmean(self.load)), self.resources, self.speed
        least = least_to_move(resources[heavy], mean * speed[heavy], goal)
        wanted = mean * speed[light] * (1.0 - goal) - resources[light]
        return max(least, wanted), most_to_move(resources[heavy], resources[light], (speed[heavy], speed[light]))

    def or_one_above(self, chosen: I64, big: I64, heavy: int, light: int) -> I64:
        """The partitions chosen under eq. 31; or the smallest one of `big`, which are too big for eq. 31, if moving it
        leaves the pair more even."""
        if not len(big):
            return chosen
        each = self.pieces.resources
        one = big[np.argmin(each[big])]
        taken = (self.resources[light] + each[one]) / self.speed[light]
        left = (self.resources[heavy] - each[chosen].sum()) / self.speed[heavy]
        return np.array([one]) if taken < left else chosen

    def move(self, chosen: I64, heavy: int, light: int) -> None:
        """The chosen pieces go from j_h to j_l. If there are none, j_h is stuck."""
        self.stuck[heavy] = not len(chosen)
        moved, rate = float(self.pieces.resources[chosen].sum()), float(self.pieces.rate[chosen].sum())
        self.home[chosen] = light
        for instance, sign in ((heavy, -1.0), (light, 1.0)):
            self.resources[instance] += sign * moved
            self.load[instance] = self.resources[instance] / self.speed[instance]
            self.queues[instance] = self.queues[instance].plus(sign * moved, sign * rate)
