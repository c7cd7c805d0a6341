"""FastJoin's monitors: when a side is uneven, keys of its heaviest unit move to its lightest (section III).

The initial table is the hash table. The `Keys` regions that are added to it are the paper's routing table. There is one
monitor per side, and it sees the units of that side only:

    side 0:  L = 900  100  400      LI = 9 > theta:  unit 0 -> unit 1, the keys by GreedyFit or SAFit
    side 1:  L = 210  200  190      LI = 1.1:        nothing

A migrated key moves its unit of that side; its tuples of the other side stay where they are and probe the new place.
The monitors do not disturb each other: |R_i| and phi_i of a side depend on the units of that side alone.

With three and more sides all tuples of a key must stay together. Then there is one monitor for all sides, a unit is an
instance with its stores of every side, L is the sum of their loads (load/fastjoin.py), and keys move whole:

    all:     L = 1110 300  590      LI = 3.7 > theta:  instance 0 -> instance 1

The paper migrates between one pair at each interval of a second. Here decisions are taken once per micro-batch, which
may be long. So a monitor goes on, from the heaviest to the lightest on the forecast, until LI is what plans are made
for (`aim`, see strategies/base.py) or the heaviest has nothing more to give; at most one round per instance.

* Only keys can move, and only whole. What remains of a bucket stays, and so does a key that another strategy split.
* A monitor's moves are proposed only if they lower its LI. If two units are equally heavy and one of them has nothing
  to give, nothing moves.
* Not guaranteed: LI <= theta. A key heavier than the gap cannot move, and FastJoin does not split keys (D-JB does).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenjoin.errors import SpecError
from evenjoin.kernels.hashing import I64
from evenjoin.load.fastjoin import F64, Pair, Unit, benefits, imbalance
from evenjoin.load.items import Items, UnitLoads, loads, regions_of_items
from evenjoin.load.report import LoadReport
from evenjoin.placement.shares import holdings
from evenjoin.placement.table import Layout, RoutingTable
from evenjoin.placement.topology import Role
from evenjoin.strategies.base import Bounds, register
from evenjoin.strategies.bistream import hash_table
from evenjoin.strategies.edit import Edit
from evenjoin.strategies.fastjoin.greedyfit import chosen_greedily
from evenjoin.strategies.fastjoin.safit import chosen_by_annealing

Selector = Literal["greedyfit", "safit"]
Select = Callable[[F64, F64, float], I64]
"""([K] benefits and [K] stored tuples of the source's keys, gap) -> the positions of the keys to move."""


@register("fastjoin")
@dataclass(frozen=True, slots=True)
class FastJoin:
    """FastJoin.

    theta       the bound of LI (the paper's 2.2)
    selector    how keys are chosen
    theta_gap   the least benefit that is worth a migration, for GreedyFit
    tracked     how many heavy keys each instance reports; only these can move
    seed        for SAFit
    aim         the part of the way from 1 to theta that plans are made for (strategies/base.py; 1: the paper's rule)
    """

    theta: float = 2.2
    selector: Selector = "greedyfit"
    theta_gap: float = 0.0
    tracked: int = 128
    seed: int = 0
    aim: float = 0.5

    def __post_init__(self) -> None:
        if self.selector not in ("greedyfit", "safit"):
            raise SpecError(f"fastjoin: selector={self.selector!r}: use 'greedyfit' or 'safit'")
        if not _is_number(self.theta) or not self.theta > 1:
            raise SpecError(f"fastjoin: theta={self.theta!r}: a number above 1 is needed, LI is never below 1")
        if not _is_number(self.aim) or not 0 < self.aim <= 1:
            raise SpecError(f"fastjoin: aim={self.aim!r}: a number above 0 and at most 1 is needed")
        if not _is_number(self.theta_gap) or not self.theta_gap >= 0:
            raise SpecError(f"fastjoin: theta_gap={self.theta_gap!r}: a number of at least 0 is needed")
        for name, value, least in (("tracked", self.tracked, 1), ("seed", self.seed, 0)):
            if type(value) is not int or value < least:
                raise SpecError(f"fastjoin: {name}={value!r}: a whole number of at least {least} is needed")

    @property
    def origin(self) -> str:
        return "fastjoin"

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
        """BiStream's hash table."""
        return hash_table(self.origin, 0, instances, sides, layout)

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

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> RoutingTable | None:
        """The table after the migrations of all monitors, or None if none is called for or possible."""
        edit = Edit(table)
        units = loads(items, table)
        for sides in _monitored(table):
            home = _hosts(items, table, sides)
            rows = list(sides)
            monitor = _Monitor(
                _hosting(units, sides),
                np.stack([units[side].stored for side in sides]), np.stack([units[side].probes for side in sides]),
                items.stored[rows], items.asking[rows], home.copy(),
            )  # fmt: skip
            before = monitor.imbalance
            rounds = table.instances if before > self.alert else 0
            while rounds and monitor.imbalance > self.bounds.goal and monitor.migrate(self._select):
                rounds -= 1
            if monitor.imbalance < before:
                for item in np.flatnonzero(monitor.host != home).tolist():
                    for side in sides:
                        edit.move_key(int(items.code[item]), side, (int(monitor.host[item]),))
        planned = edit.table()
        return None if planned is table else planned

    def _select(self, benefit: F64, stored: F64, gap: float) -> I64:
        if self.selector == "safit":
            return chosen_by_annealing(benefit, stored, gap, seed=self.seed)
        return chosen_greedily(benefit, stored, gap, self.theta_gap)


def _monitored(table: RoutingTable) -> tuple[tuple[int, ...], ...]:
    """The sides that each monitor sees: one, or all where the tuples of a key must stay together."""
    every = tuple(range(table.groups))
    return (every,) if table.meeting == "together" else tuple((side,) for side in every)


def _hosting(units: Sequence[UnitLoads], sides: tuple[int, ...]) -> I64:
    """The instances that host units of some of these sides."""
    return np.unique(np.concatenate([units[side].hosts for side in sides]))


@dataclass(slots=True)
class _Monitor:
    """The paper's load information table, kept up to date as keys migrate. Mutable, private to one planning.

    `stored`, `probes` are [sides, instances]; `key_stored`, `key_probes` are [sides, items], and `host` is by item (-1:
    it cannot move). The sides are those that the monitor sees.
    """

    hosts: I64
    stored: F64
    probes: F64
    key_stored: F64
    key_probes: F64
    host: I64

    @property
    def loads(self) -> F64:
        """[hosts] L of each unit."""
        out: F64 = (self.stored * self.probes).sum(axis=0)[self.hosts]
        return out

    @property
    def imbalance(self) -> float:
        return imbalance(self.loads)

    def migrate(self, select: Select) -> bool:
        """Make one migration from the heaviest unit to the lightest. Returns whether anything could move."""
        load = self.loads
        source, target = int(self.hosts[load.argmax()]), int(self.hosts[load.argmin()])
        keys = np.flatnonzero(self.host == source)
        benefit, gap = np.zeros(len(keys)), 0.0
        for side in range(len(self.stored)):
            pair = Pair(*(Unit(float(self.stored[side, i]), float(self.probes[side, i])) for i in (source, target)))
            benefit += benefits(pair, self.key_stored[side, keys], self.key_probes[side, keys])
            gap += pair.gap
        useful = benefit > 0
        keys = keys[useful]
        chosen = keys[select(benefit[useful], self.key_stored[:, keys].sum(axis=0), gap)]
        self.host[chosen] = target
        for counts, of_keys in ((self.stored, self.key_stored), (self.probes, self.key_probes)):
            moved = of_keys[:, chosen].sum(axis=1)
            counts[:, source] -= moved
            counts[:, target] += moved
        return len(chosen) > 0


def _hosts(items: Items, table: RoutingTable, sides: tuple[int, ...]) -> I64:
    """[n] The one instance that hosts each key's units of these sides; -1 for an item that cannot move."""
    regions = regions_of_items(items, table)
    each = np.stack([_only_hosts(table, side)[regions] for side in sides])
    return np.where(items.is_key & (each == each[0]).all(axis=0), each[0], -1)


def _only_hosts(table: RoutingTable, side: int) -> I64:
    """[regions] The one instance that hosts units of a side; -1 where several do."""
    units = holdings(table, side, Role.STORE)
    alone = np.bincount(units.region, minlength=len(table.regions))[units.region] == 1
    only = np.full(len(table.regions), -1, np.int64)
    only[units.region[alone]] = units.instance[alone]
    return only


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
