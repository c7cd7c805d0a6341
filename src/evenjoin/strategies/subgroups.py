"""ContRand with `instances="auto"`: every subgroup has as many members as its own state needs (A-DSP, Sec. 5.2).

"Bi6 sets up 6 subgroups for each stream and every subgroup contains one task initially. As data flows in, tasks inside
subgroups will scale out dynamically." A key never changes its subgroup, and inside one a tuple may be stored on any
member. So a subgroup whose keys are hot grows, and no other one does:

    contrand(groups=2)     group 0 on 0, group 1 on 1     group 0 too full: group 0 on 0 2 3, group 1 on 1

A subgroup grows when its fullest member stores more than `scale_out` of V, and shrinks when its members store less than
`scale_in` of it on average; the new number leaves `scale_to` of their room used. In layout "split" a subgroup has
members for each side, and each side's number follows that side's state. Members that go are dissolved; others keep
their state, under another number if there must be no gap (`RoutingTable.follows`).

Not guaranteed: `min_instances`, if the subgroups need fewer; and `max_instances`, if there are more subgroups: each has
at least one member. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, isfinite

import numpy as np

from evenjoin.load.items import F64, Items, loads
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import Layout, Region, RoutingTable, Succession
from evenjoin.placement.topology import Biclique
from evenjoin.strategies.adsp.mapping import numbered
from evenjoin.strategies.bistream import ContRand
from evenjoin.strategies.scaling import Scaling

Members = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Subgroups:
    """ContRand whose subgroups grow and shrink. Its load is the tuples that an instance stores."""

    inner: ContRand
    scaling: Scaling

    @property
    def origin(self) -> str:
        return self.inner.origin

    @property
    def threshold(self) -> float:
        return 1.0

    @property
    def alert(self) -> float:
        return 1.0

    @property
    def tracked(self) -> int:
        """Above 0, so that stored tuples are counted."""
        return 32

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable:
        """ContRand's own table, on one member for each subgroup (and side, if they are apart) at least."""
        fewest = self.inner.groups * (1 if layout == "shared" else sides)
        return self.inner.initial(max(instances, fewest), sides, layout)

    def load(self, items: Items, table: RoutingTable) -> F64:
        held = items.held_under(table)
        stored = np.array([unit.stored for unit in loads(items, table)]) if held is None else held
        total: F64 = stored.sum(axis=0, keepdims=True)
        return total

    def imbalance(self, items: Items, table: RoutingTable) -> float:
        """The worst subgroup of those that should have another number of members: its fullest member over what is
        allowed, or what it should at least store over its mean. Where no more instances can be had, being too full
        counts for nothing."""
        load, capacity, worst = self.load(items, table)[0], self.scaling.capacity(items), 0.0
        for members in _subgroups(table):
            some = load[list(members)]
            wanted = _wanted(some, capacity, self.scaling)
            if wanted > len(some) and table.instances < self.scaling.max_instances:
                worst = max(worst, float(some.max()) / (self.scaling.scale_out * capacity))
            if wanted < len(some) and table.instances > self.scaling.min_instances:
                worst = max(worst, self.scaling.scale_in * capacity / max(float(some.mean()), 1e-9))
        return worst

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> RoutingTable | None:
        load, subgroups, capacity = self.load(items, table)[0], _subgroups(table), self.scaling.capacity(items)
        stored = [float(load[list(members)].sum()) for members in subgroups]
        wanted = [_wanted(load[list(members)], capacity, self.scaling) for members in subgroups]
        while sum(wanted) > max(self.scaling.max_instances, len(wanted)):
            several = [n for n, members in enumerate(wanted) if members > 1]
            wanted[min(several, key=lambda n: stored[n] / (wanted[n] - 1))] -= 1  # its members would be the least full
        if wanted == [len(members) for members in subgroups]:
            return None
        return _resized(table, subgroups, wanted)


def _wanted(stored: F64, room: float, scaling: Scaling) -> int:
    """How many members a subgroup should have whose members [n] store so much, each having room for `room` tuples."""
    now = len(stored)
    enough = max(ceil(float(stored.sum()) / (scaling.fill * room)), 1)
    if float(stored.max()) > scaling.scale_out * room:
        return max(enough, now)
    return min(enough, now) if isfinite(room) and float(stored.mean()) < scaling.scale_in * room else now


def _subgroups(table: RoutingTable) -> list[Members]:
    """The members of every subgroup, by side where sides have members of their own."""
    out: dict[Members, None] = {}
    for region in table.regions:
        assert isinstance(region.topology, Biclique)
        out.update(dict.fromkeys(tuple(units) for units in region.topology.units))
    return list(out)


def _resized(table: RoutingTable, subgroups: Sequence[Members], wanted: Sequence[int]) -> RoutingTable:
    """The table with so many members of each subgroup. Members that stay keep their state."""
    before = [[*members[:many], *[-1] * (many - len(members))] for members, many in zip(subgroups, wanted, strict=True)]
    flat = [number for members in before for number in members]
    number = iter(instance := numbered(flat))
    made = {old: tuple(next(number) for _ in some) for old, some in zip(subgroups, before, strict=True)}
    regions = []
    for region in table.regions:
        assert isinstance(region.topology, Biclique)
        units = tuple(made[tuple(side)] for side in region.topology.units)
        regions.append(Region(region.takes, Biclique(units, meets=region.topology.meets)))
    of = tuple(old for _, old in sorted(zip(instance, flat, strict=True)))
    follows = None if max(flat) < len(flat) else Succession(table.name, of)
    return replace(table, version=table.version + 1, instances=len(flat), regions=tuple(regions), follows=follows)
