"""LS-Stream's models, equation by equation: partitions, resources, imbalance, the worth of a migration.

    counts of partitions --7-12--> R of partitions and instances --13-14--> LI
    a set MP of partitions, j_h -> j_l --22-25--> mif, under 30-31; 32 accepts a worse one now and then

A partition is a cell of the table: a bucket, or a key with a region of its own. In this engine it has a unit of each
side, and each unit is one direction of the papers' join: it stores ST tuples of its side and QL tuples of the other
side queued for it in the interval; with more sides, QL tuples of all other sides. A partition whose units live together
has the sum of their R, so a tuple counts once for each store that it probes.

In the paper's units gamma decides next to nothing: R^m counts tuples, R^c tuples times tuples. On 48 instances with
zipf 0.8 over a million keys, 100,000 tuples a side and batch, LI goes from 4.01 to 3.81 while gamma goes from 0.01 to
0.9. `normalised_weights` divide each of the two by its mean over the cluster: the same LI goes from 3.97 to 0.90. Then
gamma is what the paper calls it, the weight of memory against computing.

Slips mended: eq. 26 says min(mif), the text and Algorithm 1 want it large; eq. 32 lacks a sign. Eq. 8's second line
(R^m = E W) holds for a store that keeps one window; here the store may keep more, so R^m is counted.

Pure. Not here: waiting times (sojourn.py), and which partitions move (strategies/lsstream.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.hashing import I64
from evenjoin.kernels.runs import expand
from evenjoin.load.items import F64, Items, cells_of_items
from evenjoin.placement.shares import holdings
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import Cube, Role


@dataclass(frozen=True, slots=True)
class Partitions:
    """`stored` (ST), `queue` (QL) and `taken` (tuples taken in, stored or probing), each [sides, cells]."""

    stored: F64
    queue: F64
    taken: F64


@dataclass(frozen=True, slots=True)
class Weights:
    """What one tuple of R^m and one pair of R^c count in R (eq. 11)."""

    memory: float
    computing: float


def partitions_of(items: Items, table: RoutingTable) -> Partitions:
    """The items as partitions of a table that has the same buckets. O(items)."""
    cell = cells_of_items(items, table)
    stored, arrived = np.zeros((2, table.groups, table.cells))
    for side in range(table.groups):
        stored[side] = np.bincount(cell, items.stored[side], table.cells)
        arrived[side] = np.bincount(cell, items.arrived[side], table.cells)
    every = arrived.sum(axis=0)
    return Partitions(stored, every - arrived, np.broadcast_to(every, arrived.shape))


def units_of(table: RoutingTable, side: int, role: Role = Role.STORE) -> tuple[I64, I64, F64]:
    """Every unit of a side: its partition, its instance and its share of the partition's tuples. O(units)."""
    units = holdings(table, side, role)
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


def resource(stored: F64, queue: F64, weights: Weights) -> F64:
    """Eq. 11: R = gamma R^m + (1 - gamma) R^c, with these weights. Summed over partitions it is eq. 12."""
    out: F64 = weights.memory * memory(stored, queue) + weights.computing * computing(stored, queue)
    return out


def raw_weights(gamma: float) -> Weights:
    """Eq. 11 as printed."""
    return Weights(gamma, 1.0 - gamma)


def normalised_weights(gamma: float, used: F64, compared: F64) -> Weights:
    """Eq. 11 with R^m and R^c each over its mean over the instances; `used` and `compared` [instances] are these, NaN
    where an instance has none. The mean R is then 1."""
    means = [float(np.nanmean(term)) if not np.isnan(term).all() else 0.0 for term in (used, compared)]
    return Weights(*(part / mean if mean > 0 else 0.0 for part, mean in zip((gamma, 1.0 - gamma), means, strict=True)))


def terms_by_instance(parts: Partitions, table: RoutingTable) -> tuple[F64, F64]:
    """[rows, instances] R^m and R^c (eq. 8 and 10) of each side's units; NaN where an instance has no unit of the side.
    One row for each side if no instance has units of two sides, as in layout `split`; else one row, all sides'."""
    both = np.full((2, table.groups, table.instances), np.nan)
    for side in range(table.groups):
        cell, instance, share = units_of(table, side)
        stored, queue = parts.stored[side, cell] * share, _queued(parts, table, side, cell, instance)
        hosts = np.unique(instance)
        for row, term in enumerate((memory(stored, queue), computing(stored, queue))):
            both[row, side, hosts] = np.bincount(instance, term, table.instances)[hosts]
    here = (~np.isnan(both[0])).sum(axis=0)
    if (here > 1).any():
        both = np.nansum(both, axis=1, keepdims=True)
    return both[0], both[1]


def _queued(parts: Partitions, table: RoutingTable, side: int, cell: I64, instance: I64) -> F64:
    """[units] QL of units of a side, given by their cells and instances. All tuples of the other sides are queued for a
    unit, except in a key that is divided by a cube: there the others, too, are where they are stored."""
    queue: F64 = parts.queue[side, cell]
    cube = np.array([isinstance(one.topology, Cube) for one in table.regions])[table.compiled.region_of_cell]
    if not cube.any():
        return queue
    arrived, asked = parts.taken - parts.queue, np.zeros(len(cell))
    unit = cell * table.instances + instance
    for other in range(table.groups):
        if other != side:
            there, on, share = units_of(table, other, Role.PROBE)
            some = cube[there]
            known, part = (there * table.instances + on)[some], (arrived[other, there] * share)[some]
            order = np.argsort(known)
            at = np.minimum(np.searchsorted(known[order], unit), len(known) - 1)
            asked += np.where(known[order][at] == unit, part[order][at], 0.0)
    return np.where(cube[cell], asked, queue)


def imbalance_degree(resources: F64) -> float:
    """Eq. 13-14: LI, the larger of (max - mean)/mean and (mean - min)/mean. NaNs are left out; no load at all is
    even."""
    present = resources[~np.isnan(resources)]
    mean = float(present.mean()) if len(present) else 0.0
    return max(float(present.max()) - mean, mean - float(present.min())) / mean if mean > 0 else 0.0


def whole_partitions(table: RoutingTable, sides: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """[cells] Whether a partition has one unit of each of these sides; a key that is split has more."""
    counts = [np.bincount(units_of(table, side)[0], minlength=table.cells) for side in sides]
    out: npt.NDArray[np.bool_] = np.all(np.array(counts) == 1, axis=0)
    return out


def least_imbalance(each: F64, whole: npt.NDArray[np.bool_], speed: F64) -> float:
    """n max R_p / sum R - 1: LI is never less, wherever partitions of these R are, since the heaviest `whole` one
    cannot be divided. `speed` [instances] is 1 for each, or what is measured: then it is LI with the heaviest partition
    alone on the fastest instance, if all instances took equally long on the mean."""
    total, heaviest = float(each.sum()), float(each[whole].max(initial=0.0))
    return heaviest / float(speed.max()) * float(speed.sum()) / total - 1.0 if total > 0 else 0.0


def resource_benefit(before: float, after: float) -> float:
    """Eq. 23: dR = 2 (R_h - R'_h), which is eq. 22 because what j_h loses j_l gains."""
    return 2.0 * (before - after)


def migration_impact(resources: float, latency: float, tuples: float) -> float:
    """Eq. 25: mif = (dR + lb) / card(SK), SK the stored tuples that move (at least 1 is counted)."""
    return (resources + latency) / max(tuples, 1.0)


def least_to_move(straggler: float, mean: float, alpha: float) -> float:
    """Eq. 30, R_h - sum of R over MP < mean (1 + alpha), as the bound the sum must exceed."""
    return straggler - mean * (1.0 + alpha)


def most_to_move(straggler: float, least: float, speeds: tuple[float, float] = (1.0, 1.0)) -> float:
    """Eq. 31, R_h - R_l > 2 sum of R over MP, as the bound the sum must stay below: j_h stays the heavier one. With the
    speeds of j_h and j_l the heavier one is the one whose R takes longer."""
    return (straggler * speeds[1] - least * speeds[0]) / (speeds[0] + speeds[1])


def acceptance(new: float, old: float, temperature: float) -> float:
    """Eq. 32 with the sign that makes it a probability: exp((mif_new - mif_old) / T) < 1 for a worse solution."""
    return exp((new - old) / temperature) if new < old else 1.0
