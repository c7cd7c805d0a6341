"""TriJoin's placement: three groups of units; a tuple is stored on one unit of its own group and probes all others.

    trijoin                          packs, groups of equal size
    trijoin(packing=paired)          tuple pairs in place of packs (the paper's TriJoin-pair)
    trijoin(forward=r)               in a chain, the packs made at the units of r are sent on (by default the first end)
    trijoin(units=4:2:2)             n_r, n_s and n_t units; layout "split" only

Sec. 3.2 stores tuples round-robin; here they are placed by their position `u`, which is as even and is the same when a
batch is replayed. In the paper the groups are disjoint (layout "split"). In the layout "shared" every instance hosts a
unit of every group: the answers are the same, but each tuple goes to all instances.

There is no planner. Not here: what units do with tuples (instance/trijoin.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from evenjoin.errors import SpecError
from evenjoin.instance.trijoin import trijoin
from evenjoin.placement.table import Buckets, Layout, Region, RoutingTable
from evenjoin.placement.topology import Biclique, Meets
from evenjoin.spec import JoinSpec
from evenjoin.strategies.base import Static, halves, register


def sized(strategy: str, units: str, instances: int, groups: int, layout: Layout) -> tuple[tuple[int, ...], ...]:
    """The instances that host the units of each group: equally many, or as `units` ("4:2:2") says."""
    if not units:
        return halves(instances, groups, layout)
    try:
        sizes = [int(size) for size in str(units).split(":")]
    except ValueError:
        raise SpecError(f"{strategy}: units={units!r} must be {groups} numbers with colons, such as 2:3:2") from None
    if layout != "split":
        raise SpecError(f"{strategy}: units={units} sizes disjoint groups: add layout='split'")
    if len(sizes) != groups or min(sizes) < 1 or sum(sizes) != instances:
        raise SpecError(f"{strategy}: units={units} must be {groups} numbers of at least 1 that add up to {instances}")
    starts = [sum(sizes[:group]) for group in range(groups)]
    return tuple(tuple(range(start, start + size)) for start, size in zip(starts, sizes, strict=True))


def one_region(
    origin: str, program: str, units: tuple[tuple[int, ...], ...], meets: Meets, instances: int, layout: Layout
) -> RoutingTable:
    """A table in which every tuple is stored on one unit of its group and probes all units of those that it meets."""
    regions = (Region(Buckets((0,)), Biclique(units, meets=meets)),)
    return RoutingTable(0, instances, len(units), 1, regions, origin, layout=layout, program=program, meets=meets)


@register("trijoin")
@dataclass(frozen=True, slots=True)
class TriJoin(Static):
    """See the top of this file. `program` is filled in for a join."""

    packing: str = "packed"
    forward: str = ""
    units: str = ""
    program: str = ""

    @property
    def origin(self) -> str:
        settings = {"packing": self.packing != "packed" and self.packing, "forward": self.forward, "units": self.units}
        told = ", ".join(f"{name}={value}" for name, value in settings.items() if value)
        return f"trijoin({told})" if told else "trijoin"

    def for_join(self, spec: JoinSpec) -> TriJoin:
        aliases = [side.alias for side in spec.sides]
        if self.forward and self.forward not in aliases:
            raise SpecError(f"{self.origin}: forward must be one of the sides {', '.join(aliases)}")
        words = [self.packing, *([str(aliases.index(self.forward))] if self.forward else [])]
        trijoin(spec, *words)  # refuses what it cannot join
        return replace(self, program=" ".join(["trijoin", *words]))

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable:
        if sides != 3:
            raise SpecError(f"trijoin joins three sides, not {sides}")
        units = sized("trijoin", self.units, instances, 3, layout)
        meets = ((0, 1), (0, 2), (1, 2))
        return one_region(self.origin, self.program or "trijoin", units, meets, instances, layout)
