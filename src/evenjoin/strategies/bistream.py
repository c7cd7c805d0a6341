"""BiStream's three ways to partition (the baselines of FastJoin, D-JB, LS-Stream and A-DSP). None has a planner.

* Hash: each key is stored on one unit per side and probes one. Least messages, blind to skew.
* Random (the papers' *Bi*): a tuple is stored on any unit of its side and probes all units of the other.
  Perfectly even, most messages; the only one of the three that suits any condition.
* ContRand (*Bi6*, *JB6* with 6 groups): hash into subgroups, random inside a subgroup. The trade-off of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

from evenjoin.errors import SpecError
from evenjoin.placement.table import Buckets, Region, RoutingTable
from evenjoin.placement.topology import Biclique
from evenjoin.strategies.base import Layout, Static, halves, register


@register("hash")
@dataclass(frozen=True, slots=True)
class Hash(Static):
    """BiStream-hash: one bucket per unit, Biclique(1, 1)."""

    @property
    def origin(self) -> str:
        return "hash"

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable:
        groups = halves(instances, sides, layout)
        buckets = lcm(*(len(group) for group in groups))
        regions = tuple(
            Region(Buckets((b,)), Biclique(tuple((group[b % len(group)],) for group in groups))) for b in range(buckets)
        )
        return RoutingTable(0, instances, sides, buckets, regions, f"hash/{layout}")


@register("contrand")
@dataclass(frozen=True, slots=True)
class ContRand(Static):
    """BiStream-ContRand: `groups` buckets, each a Biclique over the members of its subgroup."""

    groups: int = 2

    @property
    def origin(self) -> str:
        return f"contrand(groups={self.groups})"

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable:
        hosts = halves(instances, sides, layout)
        if not isinstance(self.groups, int) or not 1 <= self.groups <= min(map(len, hosts)):
            raise SpecError(f"{self.origin}: between 1 and {min(map(len, hosts))} groups fit on {instances} instances")
        regions = tuple(
            Region(Buckets((g,)), Biclique(tuple(units[g :: self.groups] for units in hosts)))
            for g in range(self.groups)
        )
        return RoutingTable(0, instances, sides, self.groups, regions, f"{self.origin}/{layout}")


@register("random")
@dataclass(frozen=True, slots=True)
class Random(Static):
    """BiStream-random: one region, store at one unit, probe all."""

    @property
    def origin(self) -> str:
        return "random"

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable:
        regions = (Region(Buckets((0,)), Biclique(halves(instances, sides, layout))),)
        return RoutingTable(0, instances, sides, 1, regions, f"random/{layout}")
