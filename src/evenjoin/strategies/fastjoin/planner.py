"""FastJoin: when a side is uneven, keys of its heaviest unit move to its lightest (section III).

The initial table is the hash table. The `Keys` regions that are added to it are the paper's routing table. There is one
monitor per side (monitor.py), and it sees the units of that side only:

    side 0:  L = 900  100  400      LI = 9 > theta:  unit 0 -> unit 1
    side 1:  L = 210  200  190      LI = 1.1:        nothing

A migrated key moves its unit of that side; its tuples of the other side stay where they are and probe the new place.
The monitors do not disturb each other: |R_i| and phi_i of a side depend on the units of that side alone.

With three and more sides all tuples of a key must stay together. Then there is one monitor for all sides, a unit is an
instance with its stores of every side, L is the sum of their loads (load/fastjoin.py), and keys move whole:

    all:     L = 1110 300  590      LI = 3.7 > theta:  instance 0 -> instance 1

In the paper a source knows all of its keys. Here an instance names its heaviest ones, and the many light keys, which
may be half of the load, are known by bucket. But benefits add up exactly over any set of keys (equation 9). So a bucket
with its light keys is chosen and moved like a key (strategies/pieces.py). Single keys lighter than LIGHT of a unit are
left to their buckets even if they are named: they decide nothing, and each would be a record of the routing table.

* What moves, moves whole. A key that another strategy split stays.
* A monitor's moves are proposed only if they lower its LI. If nothing moves, a sentence says why (`Stay`).
* An idle unit, L = 0, is a target like any other once it is sure that it is idle (monitor.py). Equation 2 divides by
  its load; here it counts as 1.
* A plan also sends keys home that have a record and have become light, if LI allows it.
* Not guaranteed: LI <= theta. A key heavier than the gap cannot move, and FastJoin does not split keys (D-JB does).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenjoin.errors import SpecError
from evenjoin.kernels.hashing import I64
from evenjoin.load.fastjoin import F64, imbalance, measured_scaling_gain
from evenjoin.load.items import Items, UnitLoads, loads
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import Layout, RoutingTable
from evenjoin.spec import JoinSpec
from evenjoin.strategies.base import Bounds, Stay, register
from evenjoin.strategies.bistream import hash_table
from evenjoin.strategies.fastjoin.greedyfit import chosen_greedily
from evenjoin.strategies.fastjoin.monitor import Counts, Monitor
from evenjoin.strategies.fastjoin.safit import Objective, chosen_by_annealing
from evenjoin.strategies.ordered import refuse_bands
from evenjoin.strategies.pieces import PER_UNIT, pieces, relocated

Selector = Literal["greedyfit", "safit"]
GAIN = 0.1
"""The part of itself by which LI must sink. Where a key is too heavy to move LI is always high, and small gains would
be found in every batch."""
LIGHT = 1 / 256
"""A key whose benefit is below this part of that of a mean unit has no place of its own, and one that has a record goes
home below a quarter of it."""


@register("fastjoin")
@dataclass(frozen=True, slots=True)
class FastJoin:
    """FastJoin.

    theta       the bound of LI (the paper's 2.2)
    selector    how keys are chosen
    theta_gap   the least benefit that is worth a migration, for GreedyFit
    tracked     how many heavy keys each instance reports; only these can move by themselves
    seed        for SAFit
    aim         the part of the way from 1 to theta that plans are made for (strategies/base.py; 1: the paper's rule)
    objective   what SAFit maximises (safit.py)
    buckets     the size of the hash table (0: PER_UNIT per unit)
    sure        by how many standard deviations of its counts LI must be above the aim; 0 believes the counts, as the
                paper does (monitor.py)
    """

    theta: float = 2.2
    selector: Selector = "greedyfit"
    theta_gap: float = 0.0
    tracked: int = 128
    seed: int = 0
    aim: float = 0.5
    objective: Objective = "fill"
    buckets: int = 0
    sure: float = 1.0

    def __post_init__(self) -> None:
        if self.selector not in ("greedyfit", "safit"):
            raise SpecError(f"fastjoin: selector={self.selector!r}: use 'greedyfit' or 'safit'")
        if not _is_number(self.theta) or not self.theta > 1:
            raise SpecError(f"fastjoin: theta={self.theta!r}: a number above 1 is needed, LI is never below 1")
        if not _is_number(self.aim) or not 0 < self.aim <= 1:
            raise SpecError(f"fastjoin: aim={self.aim!r}: a number above 0 and at most 1 is needed")
        if not _is_number(self.theta_gap) or not self.theta_gap >= 0:
            raise SpecError(f"fastjoin: theta_gap={self.theta_gap!r}: a number of at least 0 is needed")
        if not _is_number(self.sure) or not self.sure >= 0:
            raise SpecError(f"fastjoin: sure={self.sure!r}: a number of at least 0 is needed")
        if self.objective not in ("fill", "ratio"):
            raise SpecError(f"fastjoin: objective={self.objective!r}: use 'fill' or 'ratio'")
        for name, value, least in (("tracked", self.tracked, 1), ("seed", self.seed, 0), ("buckets", self.buckets, 0)):
            if type(value) is not int or value < least:
                raise SpecError(f"fastjoin: {name}={value!r}: a whole number of at least {least} is needed")

    @property
    def origin(self) -> str:
        return f"fastjoin(buckets={self.buckets})" if self.buckets else "fastjoin"

    def for_join(self, spec: JoinSpec) -> FastJoin:
        refuse_bands(
            spec,
            "fastjoin plans with equation 9, by which a key takes its probes along; in a band, tuples that probe a key "
            "also probe its neighbours, which stay",
        )
        return self

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.theta, self.aim, even=1.0)

    @property
    def threshold(self) -> float:
        return self.theta

    @property
    def alert(self) -> float:
        return self.bounds.alert

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable:
        """BiStream's hash table, with more buckets."""
        return hash_table(self.origin, self.buckets, instances, sides, layout, PER_UNIT)

    def load(self, items: Items, table: RoutingTable) -> F64:
        """[monitors, instances] L of each unit, equation 1; NaN where an instance hosts no unit of the monitor's sides.
        There is a monitor for each side, or one for all where keys move whole."""
        units = loads(items, table)
        out = np.full((len(_monitored(table)), table.instances), np.nan)
        for row, sides in enumerate(_monitored(table)):
            hosts = _hosting(units, sides)
            out[row, hosts] = np.sum([units[side].stored * units[side].probes for side in sides], axis=0)[hosts]
        return out

    def imbalance(self, items: Items, table: RoutingTable) -> float:
        """The largest LI of the monitors, equation 2."""
        return max(imbalance(row[~np.isnan(row)]) for row in self.load(items, table))

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> RoutingTable | Stay:
        """The table after the migrations of all monitors, or why none is called for or possible."""
        units = loads(items, table)
        seen = [_Monitored(items, table, sides, units) for sides in _monitored(table)]
        for one in seen:
            if one.before > self.alert:
                one.monitor.settle(self._select, self.bounds, self.sure)
        planned = relocated(table, [(one.pieces, one.hosts()) for one in seen if one.gains])
        return max(seen, key=lambda one: one.before).why(self) if planned is table else planned

    def balanced(self, items: Items) -> tuple[F64, F64]:
        """What another number of instances divides evenly (handover.py): the factors of L, equation 1. To first order
        a part of both is worth the same in L. Results, which hot keys have most of, are no part of it."""
        return items.stored, items.asking

    def scaling_gain(self, report: LoadReport) -> float:
        """SGR (section IV-C, equation 12) of this report: the part of the memory of further instances that can store
        tuples. Statistics take the rest; `tracked` and `buckets` decide how many there are."""
        statistics = len(report.cells) + len(report.heavy) * len(report.intake)
        return measured_scaling_gain(sum(load.bytes for load in report.instances), statistics)

    def _select(self, benefit: F64, stored: F64, gap: float) -> I64:
        """The positions of the pieces to move, from their [K] benefits and stored tuples."""
        if self.selector == "safit":
            return chosen_by_annealing(benefit, stored, gap, seed=self.seed, objective=self.objective)
        return chosen_greedily(benefit, stored, gap, self.theta_gap)


def _monitored(table: RoutingTable) -> tuple[tuple[int, ...], ...]:
    """The sides that each monitor sees: one, or all where the tuples of a key must stay together."""
    every = tuple(range(table.groups))
    return (every,) if table.meeting == "together" else tuple((side,) for side in every)


def _hosting(units: Sequence[UnitLoads], sides: tuple[int, ...]) -> I64:
    """The instances that host units of some of these sides."""
    return np.unique(np.concatenate([units[side].hosts for side in sides]))


class _Monitored:
    """A monitor with what it sees: the pieces of its sides, and the instances that its units are on."""

    def __init__(self, items: Items, table: RoutingTable, sides: tuple[int, ...], units: Sequence[UnitLoads]) -> None:
        rows, self.sides = list(sides), sides
        self.instances = _hosting(units, sides)
        of_units = Counts(*(np.stack([getattr(units[s], name) for s in sides]) for name in ("stored", "probes")))
        of_units = of_units[self.instances]
        size = _size(Counts(items.stored[rows], items.asking[rows]), of_units)
        self.pieces = pieces(items, table, sides, size >= LIGHT)
        counts = Counts(self.pieces.counts(items.stored[rows]), self.pieces.counts(items.asking[rows]))
        cooled = self.pieces.recorded & (_size(counts, of_units) < LIGHT / 4)
        number = np.full(table.instances + 1, -1, np.int64)
        number[self.instances] = np.arange(len(self.instances))
        self.monitor = Monitor(of_units, counts, number[self.pieces.host], self.pieces.home, np.flatnonzero(cooled))
        self.before = self.monitor.imbalance

    @property
    def gains(self) -> bool:
        """Whether migrations have made LI lower."""
        return self.monitor.moves > 0 and self.monitor.imbalance <= (1 - GAIN) * self.before

    def hosts(self) -> I64:
        """[pieces] The instance of each piece; -1 if it cannot move."""
        out: I64 = np.append(self.instances, -1)[self.monitor.host]
        return out

    def why(self, strategy: FastJoin) -> Stay:
        """Why this monitor moves nothing."""
        monitor, light = self.monitor, self.monitor.lightest
        said = f"{'all sides' if len(self.sides) > 1 else f'side {self.sides[0]}'}: LI is {self.before:.2f}"
        heaviest = int(monitor.load.argmax())
        if self.before <= strategy.alert:
            return Stay(f"{said}, no migration is called for")
        if monitor.moves:
            return Stay(f"{said}, and migrations would leave it at {monitor.imbalance:.2f}")
        if not monitor.stuck[heaviest]:
            return Stay(
                f"{said}, which may be chance, since few tuples have come: {light.stored.sum():,.0f} are stored on the "
                f"lightest unit, and {light.probes.sum():,.0f} probe them"
            )
        alone = monitor.heaviest_piece(heaviest)
        lightest, mean = alone / max(float(monitor.load.min()), 1.0), alone / float(monitor.load.mean())
        return Stay(
            f"{said} and stays: nothing worth a migration can leave the heaviest unit. One key or bucket has "
            f"{lightest:.2f} times the lightest load, {mean:.2f} times the mean"
        )


def _size(counts: Counts, units: Counts) -> F64:
    """[n] The benefit of moving something from one mean unit to another, over that of moving a whole mean unit."""
    stored, probes = units.stored.mean(axis=1), units.probes.mean(axis=1)
    whole = 2 * float(stored @ probes)
    out: F64 = (stored @ counts.probes + probes @ counts.stored) / (whole or 1.0)
    return out


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
