"""Tables that differ a little from another one, as a planner's do: most of what is stored keeps its place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from evenjoin.placement import Biclique, Buckets, Cube, Grid, Keys, Region, RoutingTable, check
from evenjoin.placement.table import Succession
from evenjoin.testing import routing_tables


@st.composite
def neighbours(draw: Any, old: RoutingTable) -> RoutingTable:
    """The table with a few other topologies, keys that gain or lose a region of their own, finer or coarser buckets,
    or other numbers for the same instances."""
    other = draw(routing_tables(old.groups, meeting=old.meeting))
    pool = [region.topology for region in other.regions]
    new = replace(old, instances=max(old.instances, other.instances), version=old.version + 1, follows=None)
    regions = [replace(r, topology=draw(st.sampled_from(pool))) if draw(rarely) else r for r in old.regions]
    regions = [region for region in regions if isinstance(region.takes, Buckets) or not draw(rarely)]
    for code in draw(st.lists(st.integers(0, 12), unique=True, max_size=2)):
        if not any(isinstance(region.takes, Keys) and code in region.takes.codes for region in regions):
            regions.append(Region(Keys((code,)), draw(st.sampled_from(pool))))
    finer = draw(st.sampled_from([1, 1, 1, 2, 3]))
    new = replace(new, buckets=new.buckets * finer, regions=tuple(_refined(region, finer) for region in regions))
    if draw(rarely):
        new = replace(new, buckets=1, regions=tuple(_coarse(new.regions)))
    return check(_renumbered(new, old, draw(st.permutations(range(new.instances)))) if draw(rarely) else new)


rarely = st.sampled_from([False, False, False, True])


def _refined(region: Region, finer: int) -> Region:
    if isinstance(region.takes, Buckets):
        return replace(region, takes=Buckets(tuple(finer * b + k for b in region.takes.ids for k in range(finer))))
    return region


def _coarse(regions: tuple[Region, ...]) -> list[Region]:
    """One bucket, that of the first region, for all."""
    (first, *_) = [region for region in regions if isinstance(region.takes, Buckets)]
    return [Region(Buckets((0,)), first.topology), *(r for r in regions if isinstance(r.takes, Keys))]


def _renumbered(table: RoutingTable, old: RoutingTable, number: list[int]) -> RoutingTable:
    """The same table, its instance i being called `number[i]`; it goes on with what i stored."""
    of = [-1] * table.instances
    for instance in range(old.instances):
        of[number[instance]] = instance
    regions = tuple(replace(region, topology=_named(region.topology, number)) for region in table.regions)
    return replace(table, regions=regions, follows=Succession(old.name, tuple(of)))


def _named(topology: Any, number: list[int]) -> Any:
    def names(instances: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(number[instance] for instance in instances)

    if isinstance(topology, Biclique):
        return replace(topology, units=tuple(map(names, topology.units)))
    if isinstance(topology, Grid):
        return replace(topology, cells=names(topology.cells), extra=names(topology.extra))
    assert isinstance(topology, Cube)
    return replace(topology, cells=names(topology.cells))


@st.composite
def successions(draw: Any, most: int = 4, sides: int = 2) -> tuple[RoutingTable, ...]:
    """Tables that follow each other: mostly neighbours, sometimes any other table, with fewer instances or more."""
    whichever = routing_tables(sides, meeting="pairs" if sides == 2 else "together")
    tables = [replace(draw(whichever), version=0)]
    for version in range(1, draw(st.integers(2, most))):
        new = draw(whichever if draw(rarely) else neighbours(tables[-1]))
        tables.append(replace(new, version=version))
    return tuple(tables)
