"""Hypercube: a join of any number of sides in one shuffle, whose dimensions are the edges of the join graph.

    triangle R(a, b) S(b, c) T(c, a)      hash dims a, b, c      n = 8: 2 x 2 x 2, a tuple goes to 2 instances
    chain R(a) S(a, b) T(b)               hash dims a, b         s goes to one cell, r to a row, t to a column
    |r.x - s.x| <= 5, |s.y - t.y| <= 5    range dims x, y        the same, and a few tuples near a cut go to two rows
    r.x <> s.x, s.y <> t.y                u dims r, s, t         n = 8: each tuple goes to 4 instances, by its `u`

* Classes of equal keys are hash dims. Keys that bands bind to each other are one range dim; its owner is the key by
  which the fullest instance gets least. A side may be divided by `u` where none of these divides it evenly, be it that
  nothing binds it, that bands are wide, or that a value is hot.
* Sizes are chosen by an exhaustive search for the least load of the fullest instance, then the fewest messages
  (load/hypercube.py). This is the Shares algorithm of Afrati and Ullman with unequal volumes, bands and hot values.
* Cuts of a range come from samples, which there are none of at the start. So a join begins with hash dims, and "u" dims
  where these do not divide a side. `plan` puts in ranges once samples are there: as soon as that is a fifth cheaper.
* After that a cube is left as it is until it costs more than `drift` times the best one, by the same measure. That is
  so when volumes have drifted, when values have left the cuts, or when a value has become hot.
* Of the instances that may get a cell, each cell gets the one with which it has most in common (A-DSP's Alg. 4).

The engine states which codes may match (`RoutingTable.links`). `for_join` tells the initial table too. Without it a
cube has "u" dims only, which suits any join. Where keys are redacted and compared by order nothing is sampled, so
no table names a key.
Not here: a range over codes that cannot be subtracted (`l.x + 1 < r.x` of floats). These have no link.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from evenjoin.load.hypercube import best_sizes, cost, even_cuts, known_codes, profile, useful_sizes, volumes
from evenjoin.load.items import F64, Items
from evenjoin.load.report import LoadReport
from evenjoin.load.samples import USUAL_GRAIN, Grain
from evenjoin.placement.cube import Cube, Dim
from evenjoin.placement.links import Bounds, Link, Node, links_of
from evenjoin.placement.pieces import overlap, stored_volume
from evenjoin.placement.ranges import Reach
from evenjoin.placement.table import Buckets, Layout, Region, RoutingTable
from evenjoin.spec import JoinSpec
from evenjoin.strategies.adsp.mapping import mapped, numbered
from evenjoin.strategies.base import register, require

BLIND = 1.2
"""A cube that began without samples is replaced once a cube with ranges is cheaper by this factor."""
TRIED = 8
"""With how many coordinates a dim is tried when dims are compared with each other."""
EVENLY = 1.5
"""A dim divides a side evenly if its fullest coordinate has at most this times its share."""


@register("hypercube")
@dataclass(frozen=True, slots=True)
class Hypercube:
    """`drift`: a cube that costs more than this times the best one is replaced. `links` are the join's (`for_join`)."""

    drift: float = 2.0
    links: tuple[Link, ...] = ()

    def __post_init__(self) -> None:
        require(self, {"drift": ("a number above 1", isinstance(self.drift, (int, float)) and self.drift > 1)})

    @property
    def origin(self) -> str:
        return "hypercube"

    @property
    def threshold(self) -> float:
        return self.drift

    @property
    def alert(self) -> float:
        return self.drift

    @property
    def grain(self) -> Grain:
        return USUAL_GRAIN

    @property
    def tracked(self) -> int:
        """Above 0, so that stored tuples are counted. The heavy keys themselves are only for the user to see."""
        return 32

    def for_join(self, spec: JoinSpec) -> Hypercube:
        """The strategy for this join: its initial table has hash dims where keys must be equal."""
        return replace(self, links=links_of(spec.edges))

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable:
        """Every cell has all sides, whatever the layout says."""
        dims = best_dims(self.links, sides, instances, None)
        cube = Cube(dims, tuple(range(prod(dim.size for dim in dims))))
        return RoutingTable(0, instances, sides, 1, (Region(Buckets((0,)), cube),), self.origin, layout=layout)

    def load(self, items: Items, table: RoutingTable) -> F64:
        """The tuples that each instance stores, copies included."""
        if not items.alive:
            return np.zeros((1, table.instances))
        total: F64 = stored_volume(table, items.alive, items.further).sum(axis=0, keepdims=True)
        return total

    def imbalance(self, items: Items, table: RoutingTable) -> float:
        """What the cube costs, over the cost of the best one. Above the alert if a cube without ranges should get
        some."""
        dims = _dims(table)
        if dims is None or not items.alive:
            return 0.0
        best = best_dims(table.links, table.groups, table.instances, items)
        ratio = cost(dims, table.groups, items).load / cost(best, table.groups, items).load
        blind = not _has_range(dims) and _has_range(best)
        return max(ratio, ratio / BLIND * self.drift) if blind else ratio

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> RoutingTable | None:
        if self.imbalance(items, table) <= self.alert:
            return None
        dims = best_dims(table.links, table.groups, table.instances, items)
        if dims == _dims(table):
            return None
        cells = prod(dim.size for dim in dims)
        draft = _with_cube(table, Cube(dims, tuple(range(cells))))
        instance = numbered(mapped(overlap(table, draft, items.alive, items.further)))
        return _with_cube(table, Cube(dims, tuple(instance[:cells])))


def _dims(table: RoutingTable) -> tuple[Dim, ...] | None:
    """The dims of the table's cube; None if it is none."""
    topology = table.regions[0].topology
    return topology.dims if len(table.regions) == 1 and isinstance(topology, Cube) else None


def _has_range(dims: Sequence[Dim]) -> bool:
    return any(dim.kind == "range" for dim in dims)


def _with_cube(table: RoutingTable, cube: Cube) -> RoutingTable:
    return table.with_regions((replace(table.regions[0], topology=cube),))


def best_dims(links: Sequence[Link], sides: int, instances: int, items: Items | None) -> tuple[Dim, ...]:
    """The dims of the cube that costs least. Hash dims are there even if their size is 1, so that a dim keeps its
    number, by which it hashes."""
    bounds = Bounds(links)
    dims = [*_hash_dims(bounds, sides), *_range_dims(bounds, sides, instances, items)]
    dims += _divided_sides(dims, sides, instances, items)
    useful = useful_sizes(instances)
    every = range(1, instances + 1)
    made = [[_sized(dim, size, items) if size in useful else None for size in every] for dim in dims]
    offers = [[None if one is None else profile(one, sides, items) for one in sizes] for sizes in made]
    sizes = best_sizes(offers, volumes(items, sides), instances)
    chosen = [made[number][size - 1] for number, size in enumerate(sizes)]
    return tuple(dim for dim in chosen if dim is not None and (dim.size > 1 or dim.kind == "hash"))


def _sized(dim: Dim, size: int, items: Items | None) -> Dim | None:
    """The dim with this size; None if it cannot have it, because too few codes are known to cut between."""
    if dim.kind != "range" or size == 1:
        return replace(dim, size=size)
    assert dim.owner is not None
    known = known_codes(items, dim.owner, dim.index_of(dim.owner) or 0)
    cuts = None if known is None else even_cuts(*known, size)
    return None if cuts is None else replace(dim, size=size, cuts=cuts)


def _hash_dims(bounds: Bounds, sides: int) -> Iterator[Dim]:
    """One for each class of keys that are equal in every result, if two sides or more have one."""
    left = list(bounds.nodes)
    while left:
        first, *others = left
        same = [first, *(node for node in others if bounds.equal(first, node))]
        left = [node for node in others if node not in same]
        index = _index_of(same, sides)
        if sum(one is not None for one in index) > 1:
            yield Dim("hash", 1, None, index)


def _index_of(nodes: Sequence[Node], sides: int) -> tuple[int | None, ...]:
    """Per side the first of its nodes."""
    return tuple(next((index for side, index in nodes if side == one), None) for one in range(sides))


def _range_dims(bounds: Bounds, sides: int, instances: int, items: Items | None) -> Iterator[Dim]:
    """One for all keys that bands bind to each other, directly or not, if codes are known. Of the possible owners it
    has the one with the least load."""
    left = list(bounds.nodes)
    while left:
        bound = [left[0]]
        for node in bound:
            bound += [other for other in left if other not in bound and bounds.linked(node, other)]
        left = [node for node in left if node not in bound]
        if all(bounds.equal(bound[0], node) for node in bound):
            continue
        tried = [_tried(_owned(node, bounds, sides), instances, items) for node in bound]
        usable = [dim for dim in tried if dim is not None and dim.size > 1]
        if usable:
            best = min(usable, key=lambda dim: cost((dim,), sides, items).load)
            yield replace(best, size=1, cuts=())


def _owned(owner: Node, bounds: Bounds, sides: int) -> Dim:
    """The range dim that divides the owner's codes. Of each other side the key that is bound most closely decides."""
    nodes: list[Node] = [owner]
    for side in range(sides):
        linked = [node for node in bounds.nodes if node[0] == side != owner[0] and bounds.linked(owner, node)]
        nodes += sorted(linked, key=lambda node: _width(bounds.between(owner, node)))[:1]
    index = _index_of(nodes, sides)
    reach = tuple(
        None if number is None or side == owner[0] else _ascending(bounds.between(owner, (side, number)))
        for side, number in enumerate(index)
    )
    return Dim("range", 1, owner[0], index, (), reach)


def _width(reach: Reach) -> tuple[bool, int]:
    """Narrow reaches first, then those without an end."""
    if reach.low is None or reach.high is None:
        return True, 0
    return False, reach.high - reach.low


def _ascending(reach: Reach) -> Reach:
    """The reach itself; one of conditions that contradict each other is made to have its ends in order."""
    contrary = reach.low is not None and reach.high is not None and reach.low > reach.high
    return Reach(reach.high, reach.low) if contrary else reach


def _tried(dim: Dim, instances: int, items: Items | None) -> Dim | None:
    """The dim with TRIED coordinates, or as many as it can have."""
    sizes = (_sized(dim, size, items) for size in range(min(TRIED, instances), 0, -1))
    return next((made for made in sizes if made is not None), None)


def _divided_sides(dims: Sequence[Dim], sides: int, instances: int, items: Items | None) -> Iterator[Dim]:
    """A "u" dim for each side that no other dim divides evenly. For all others a "u" dim never costs less."""
    tried = [made for dim in dims if (made := _tried(dim, instances, items)) is not None]
    peaks = [(made.size, profile(made, sides, items).peak) for made in tried]
    for side in range(sides):
        if not any(size > 1 and peak[side] <= EVENLY / size for size, peak in peaks):
            yield Dim("u", 1, side)
