"""BiStream's three ways to partition (the baselines of FastJoin, D-JB, LS-Stream and A-DSP). None has a planner.

* Hash: each key is stored on one unit per side and probes one. Least messages, blind to skew. Its table is the one
  that FastJoin, D-JB, LS-Stream and Readj start from, so it is what each of them would be without its planner.
* Random (the papers' *Bi*): a tuple is stored on any unit of its side and probes all units of the other.
  Perfectly even, most messages; the only one of the three that suits any condition.
* ContRand (*Bi6*, *JB6* with 6 groups): hash into subgroups, random inside a subgroup. The trade-off of both.

Where a band lets different keys match, Hash and ContRand place by intervals of codes instead of hashes (ordered.py).
Guarantee: otherwise their tables never change, whatever the load is. Not here: planners (the other files of this
folder).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

from evenjoin.errors import SpecError
from evenjoin.placement.table import Buckets, Layout, Region, RoutingTable
from evenjoin.placement.topology import Biclique
from evenjoin.spec import JoinSpec
from evenjoin.strategies.base import Static, Strategy, halves, register
from evenjoin.strategies.ordered import ordered

PER_UNIT = 4
"""Buckets per unit of a hash table, unless a planner asks for more. A planner can move buckets where keys are too small
to matter."""


def hash_table(
    origin: str, buckets: int, instances: int, sides: int, layout: Layout, per_unit: int = PER_UNIT
) -> RoutingTable:
    """P hash buckets, each with one unit per side: bucket b is stored on unit b * units // P of each side.

    P is `buckets` (0: `per_unit` a unit), rounded up so that each side's units get equally many. A bucket is a range of
    hash values, so the unit of a code does not depend on P. A checkpoint may go on under another strategy, or with
    another P, and nothing moves.
    """
    groups = halves(instances, sides, layout)
    step = lcm(*map(len, groups))
    size = -(-(buckets or per_unit * max(map(len, groups))) // step) * step
    shared: dict[tuple[int, ...], list[int]] = {}
    for bucket in range(size):
        shared.setdefault(tuple(group[bucket * len(group) // size] for group in groups), []).append(bucket)
    regions = tuple(
        Region(Buckets(tuple(ids)), Biclique(tuple((unit,) for unit in units))) for units, ids in shared.items()
    )
    return RoutingTable(0, instances, sides, size, regions, origin, layout=layout)


@register("hash")
@dataclass(frozen=True, slots=True)
class Hash(Static):
    """BiStream-hash: `hash_table` and no planner."""

    @property
    def origin(self) -> str:
        return "hash"

    def for_join(self, spec: JoinSpec) -> Strategy:
        return ordered(self, spec)

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable:
        return hash_table(self.origin, 0, instances, sides, layout)


@register("contrand")
@dataclass(frozen=True, slots=True)
class ContRand(Static):
    """BiStream-ContRand: `groups` buckets, each a Biclique over the members of its subgroup."""

    groups: int = 2

    @property
    def origin(self) -> str:
        return f"contrand(groups={self.groups})"

    def for_join(self, spec: JoinSpec) -> Strategy:
        return ordered(self, spec)

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable:
        hosts = halves(instances, sides, layout)
        if not isinstance(self.groups, int) or not 1 <= self.groups <= min(map(len, hosts)):
            raise SpecError(f"{self.origin}: between 1 and {min(map(len, hosts))} groups fit on {instances} instances")
        regions = tuple(
            Region(Buckets((g,)), Biclique(tuple(units[g :: self.groups] for units in hosts)))
            for g in range(self.groups)
        )
        return RoutingTable(0, instances, sides, self.groups, regions, self.origin, layout=layout)


@register("random")
@dataclass(frozen=True, slots=True)
class Random(Static):
    """BiStream-random: one region, store at one unit, probe all."""

    @property
    def origin(self) -> str:
        return "random"

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable:
        regions = (Region(Buckets((0,)), Biclique(halves(instances, sides, layout))),)
        return RoutingTable(0, instances, sides, 1, regions, self.origin, layout=layout)
