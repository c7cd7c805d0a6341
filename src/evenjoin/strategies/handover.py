"""Another number of instances for a keyed table that keeps what it has learned: buckets are handed over, keys stay.

    8 -> 9    the new instance takes buckets from the fullest ones until it has its share          about 1/9 moves
    9 -> 8    the emptiest instance is dissolved: its buckets and keys go to the others            about 1/9 moves

    before    0: # # # # #    1: # # # #    2: # # # # # #              moved keys, divided keys
    after     0: # # # #      1: # # # #    2: # # # #      3: # # #    the same regions

* How full an instance is: its share of what is stored plus its share of the work, as the items say. What they do not
  know is taken to be even, so with nothing known instances get equally many buckets.
* If there are few buckets for each instance (FEW), they are first made finer. That moves nothing, because a bucket is a
  contiguous range of hash values (`RoutingTable.refined`).
* A bucket whose sides are on one instance moves whole; else the units of each side move for themselves. In layout
  "split" a side's units go to instances of that side. New instances are given to the sides, and dissolved ones taken
  from them, such that the sides keep their parts of the instances as nearly as whole numbers allow.
* When instances are dissolved, the others keep their state. One whose number is too large gets a free number, and the
  table says so (`RoutingTable.follows`). A moved key whose unit is dissolved moves on. A divided key gets other
  instances for the cells that are dissolved; where there are too few of them it is divided into fewer cells.
* A table of one region that spreads tuples over all instances (`random`) gives each new unit an even share, and takes
  no more from the others than that.

Guarantee: if the table passes `check`, so does the result. Tuples move only to new instances or from dissolved ones,
but for keys that are divided into fewer cells. Everything is a function of table and items; ties go to the lowest
number.
Not guaranteed: that the load is even afterwards. A hot key stays where it is, for the planner to move or divide.
Not here: how many instances there should be (elastic.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np

from evenjoin.errors import SpecError
from evenjoin.load.items import F64, Items, cells_of_items
from evenjoin.load.refined import comparable
from evenjoin.placement.shares import holdings
from evenjoin.placement.slots import Role
from evenjoin.placement.table import Buckets, Region, RoutingTable, Succession
from evenjoin.placement.topology import Biclique, Cube, Division, Grid, Topology, renumbered
from evenjoin.strategies.adsp.mapping import aligned, numbered
from evenjoin.strategies.djb.division import divided, rounded
from evenjoin.strategies.edit import Edit, home_of_buckets, keys_of

FEW = 8
"""With fewer buckets than this for each unit of a side, they are made finer."""
FINE = 16
"""So many buckets for each unit are made then, at least. There are never more than FEW + FINE for each unit of the most
that there ever were, unless a strategy began with more."""
UNKNOWN = 0.01
"""The part of all load that is spread evenly over the buckets, as if nothing were known of it."""

Atom = tuple[int, tuple[int, ...]]
"""What is handed over in one piece: a bucket, and the sides whose units move."""


def can_resize(table: RoutingTable) -> bool:
    """Whether `resized` is for this table: each bucket has one unit of each side, or one region spreads all tuples over
    its units. One bucket on one unit may be either, and there is nothing to keep. Ordered
    buckets are cut anew for another number of instances (ordered.py)."""
    if table.ordered or table.ranged or table.program != "direct" or table.cube is not None:
        return False
    if _is_spread(table):
        return True
    return (table.buckets > 1 or len(table.regions) > 1) and all(
        isinstance(region.topology, Biclique) and all(len(units) == 1 for units in region.topology.units)
        for region in table.regions
        if isinstance(region.takes, Buckets)
    )


def resized(table: RoutingTable, wanted: int, items: Items) -> RoutingTable:
    """The table on `wanted` instances. SpecError if those are too few for the layout, or if buckets are ordered."""
    if table.ordered:
        raise SpecError("ordered buckets are not handed over: they are cut anew")
    if wanted == table.instances:
        return table
    if _is_spread(table):
        return _Handover(table, wanted, None).spread()
    units = max(len(hosts) for hosts in _hosts(table))
    most = max(-(-units * wanted // table.instances), 1)
    times = -(-FINE * most // table.buckets) if table.buckets < FEW * most else 1
    fine = table.refined(times)
    known = comparable(items, table, fine).items if items.fit(table) else None
    return _Handover(fine, wanted, known).keyed(table)


class _Handover:
    """A table while its size changes. Instances have the numbers of the old table, and new ones the numbers after
    those, until the end. Mutable, and private to one call."""

    def __init__(self, table: RoutingTable, wanted: int, items: Items | None) -> None:
        self.table, self.wanted, self.groups = table, wanted, table.groups
        self.new = list(range(table.instances, wanted))
        self.hosts = [set(hosts) for hosts in _hosts(table)]
        self.weight = _weights(table, items)
        self.load = np.zeros(max(wanted, table.instances))
        for side in range(self.groups):
            region, instance, share = holdings(table, side, Role.STORE)
            of_region = np.bincount(table.compiled.region_of_cell, self.weight[side], len(table.regions))
            np.add.at(self.load, instance, of_region[region] * share)
        self.gone = self._divide_sides()

    def _divide_sides(self) -> set[int]:
        """Give new instances to the sides, or choose those that are dissolved. `hosts` are then the instances that
        there will be, by side; the dissolved ones are returned."""
        if self.table.layout == "shared":
            everyone = range(max(self.wanted, self.table.instances))
            gone = _emptiest(everyone, self.load, len(everyone) - self.wanted)
            self.hosts = [set(everyone) - gone for _ in range(self.groups)]
            return gone
        if self.wanted < self.groups:
            raise SpecError(f"layout 'split' needs at least one instance per side: {self.groups}, got {self.wanted}")
        parts = np.array([len(hosts) for hosts in self.hosts]) / self.table.instances
        for total, instance in enumerate(self.new, self.table.instances + 1):
            lacking = [parts[side] * total - len(hosts) for side, hosts in enumerate(self.hosts)]
            self.hosts[int(np.argmax(np.round(lacking, 9)))].add(instance)
        out: set[int] = set()
        for total in range(self.table.instances - 1, self.wanted - 1, -1):
            needed = {instance for hosts in self.hosts if len(hosts) == 1 for instance in hosts}
            spare = [
                len(hosts) - parts[side] * total if hosts - needed else -np.inf for side, hosts in enumerate(self.hosts)
            ]
            out |= _emptiest(self.hosts[int(np.argmax(np.round(spare, 9)))] - needed, self.load, 1)
            for hosts in self.hosts:
                hosts -= out
        return out

    def keyed(self, before: RoutingTable) -> RoutingTable:
        """The table with buckets handed over, and keys moved from dissolved instances. `before` is the table that it
        follows, whose buckets may be coarser."""
        self.edit = Edit(self.table)
        self.units = home_of_buckets(self.table)
        if self.gone:
            self._dissolve()
        else:
            self._fill()
        return self._numbered(self.edit.table(), before)

    def _fill(self) -> None:
        """New instances take buckets from the fullest ones."""
        for hosts in [set(some) for some in dict.fromkeys(map(frozenset, self.hosts))]:
            sides = tuple(side for side in range(self.groups) if self.hosts[side] == hosts)
            share = float(self.load[list(hosts)].sum()) / len(hosts)
            atoms = self._atoms(sides)
            new = set(self.new)
            taking = [(self.load[i], i) for i in sorted(hosts & new)]
            giving = [(-self.load[i], i) for i in sorted(hosts - new)]
            heapify(taking)
            heapify(giving)
            while taking and giving:  # a step changes the loads of the two that were taken out, and of no others
                (_, to), (_, source) = heappop(taking), heappop(giving)
                atom = self._fitting(atoms.get(source, []), source, to, share)
                if atom is not None:
                    atoms[source].remove(atom)
                    self._move(atom, source, to)
                    heappush(giving, (-self.load[source], source))
                heappush(taking, (self.load[to], to))

    def _atoms(self, sides: tuple[int, ...]) -> dict[int, list[Atom]]:
        """What may be handed over of these sides, by instance; the heaviest first."""
        out: dict[int, list[Atom]] = {}
        for bucket, units in sorted(self.units.items()):
            hosts = {units.units[side][0] for side in sides}
            whole = len(hosts) == 1
            for some in [sides] if whole else [(side,) for side in sides]:
                out.setdefault(units.units[some[0]][0], []).append((bucket, some))
        for atoms in out.values():
            atoms.sort(key=lambda atom: (-self._weight(atom), atom))
        return out

    def _weight(self, atom: Atom) -> float:
        return float(self.weight[list(atom[1]), atom[0]].sum())

    def _fitting(self, atoms: Iterable[Atom], source: int, to: int, share: float) -> Atom | None:
        """The heaviest bucket that brings `to` no further above its share than it is below it now, and that leaves
        `source` no emptier than `to`."""
        for atom in atoms:
            weight = self._weight(atom)
            if self.load[to] + weight / 2 <= share and self.load[to] + weight <= self.load[source]:
                return atom
        return None

    def _move(self, atom: Atom, source: int, to: int) -> None:
        bucket, sides = atom
        for side in sides:
            self.edit.move_bucket(bucket, side, (to,))
        self.load[source] -= self._weight(atom)
        self.load[to] += self._weight(atom)

    def _dissolve(self) -> None:
        """The buckets and keys of dissolved instances go to the emptiest of the others, the heaviest first."""
        every = self._atoms(tuple(range(self.groups)))
        going = [(atom, source) for source in sorted(self.gone) for atom in every.get(source, [])]
        for atom, source in sorted(going, key=lambda one: (-self._weight(one[0]), one[0])):
            room = set.intersection(*(self.hosts[side] for side in atom[1]))
            self._move(atom, source, self._emptiest(room))
        topologies, first = keys_of(self.table), self.table.buckets
        weights = dict(zip(self.table.compiled.key_codes.tolist(), self.weight[:, first:].T, strict=True))
        for code in sorted(topologies, key=lambda code: (-float(weights[code].sum()), code)):
            old = topologies[code]
            if not self.gone.isdisjoint(_instances(old)):
                self.load -= self._vector(old, weights[code])
                new = self._without(old)
                self.load += self._vector(new, weights[code])
                self.edit.place_key(code, new)

    def _emptiest(self, room: set[int]) -> int:
        return min(room, key=lambda i: (self.load[i], i))

    def _vector(self, topology: Topology, weight: F64) -> F64:
        """[instances] What a key of this weight [sides] adds to the load."""
        out = np.zeros(len(self.load))
        for side in range(self.groups):
            slots = topology.slots(side)
            total = sum(slot.weight for slot in slots)
            for slot in slots:
                for instance, role in slot.targets:
                    if role & Role.STORE:
                        out[instance] += weight[side] * slot.weight / total
        return out

    def _without(self, topology: Topology) -> Topology:
        """A key's topology on instances that are not dissolved."""
        if isinstance(topology, Biclique):
            return self._biclique_without(topology)
        left = set().union(*self.hosts)
        coarse = _coarser(topology, len(left), self.gone)
        number = {cell: cell for cell in _instances(coarse)}
        for cell in sorted(number.keys() & self.gone):
            number[cell] = self._emptiest(left - set(number.values()))
        if len(number) > 1:
            return renumbered(coarse, number)
        return Biclique(((*number.values(),),) * self.groups, meets=self.table.meets)

    def _biclique_without(self, biclique: Biclique) -> Biclique:
        """Each dissolved unit is taken over by an instance that has none of the key yet, if there is one. Units of
        several sides on one instance stay together."""
        units = [list(side) for side in biclique.units]
        taken: dict[int, int] = {}
        for side, own in enumerate(units):
            for place, unit in enumerate(own):
                if unit in self.gone:
                    if unit not in taken or taken[unit] not in self.hosts[side]:
                        free = self.hosts[side] - {one for some in units for one in some}
                        taken[unit] = self._emptiest(free or self.hosts[side])
                    own[place] = taken[unit]
        return replace(biclique, units=tuple(map(tuple, units)))

    def spread(self) -> RoutingTable:
        """The one region of a table spread over the instances that there will be, each with an even share."""
        region = self.table.regions[0]
        assert isinstance(region.topology, Biclique)
        pieces = []
        for side, hosts in enumerate(self.hosts):
            units = np.array(sorted(hosts), np.int64)
            pieces.append(divided(region.topology, side, rounded(units, np.ones(len(units)))))
        units_of, weights = (tuple(column) for column in zip(*pieces, strict=True))
        made = Biclique(units_of, weights, region.topology.meets)
        return self._numbered(self.table.with_regions((replace(region, topology=made),)), self.table)

    def _numbered(self, made: RoutingTable, before: RoutingTable) -> RoutingTable:
        """The table with numbers from 0 to wanted - 1. Instances that stay keep theirs, if it is one of them."""
        old = [i for i in range(before.instances) if i not in self.gone] + [-1] * len(self.new)
        number = numbered(old)
        of = tuple(old[number.index(i)] for i in range(self.wanted))
        name = dict(zip([*old[: len(old) - len(self.new)], *self.new], number, strict=True))
        regions = tuple(Region(region.takes, renumbered(region.topology, name)) for region in made.regions)
        same = all(instance in (-1, i) for i, instance in enumerate(of))
        follows = None if same else Succession(before.name, of)
        version = before.version + 1
        return replace(made, version=version, instances=self.wanted, regions=regions, follows=follows)


def _is_spread(table: RoutingTable) -> bool:
    """Whether one region has all tuples, each on any unit of its side."""
    topology = table.regions[0].topology
    return len(table.regions) == 1 and isinstance(topology, Biclique) and any(len(own) > 1 for own in topology.units)


def _hosts(table: RoutingTable) -> list[set[int]]:
    """By side the instances that may host its units. In layout "split" those are the ones that do; one that hosts
    nothing is of the side with the fewest."""
    everyone = set(range(table.instances))
    if table.layout == "shared":
        return [everyone] * table.groups
    out: list[set[int]] = [set() for _ in range(table.groups)]
    for region in table.regions:
        if isinstance(region.takes, Buckets) and isinstance(region.topology, Biclique):
            for side, units in enumerate(region.topology.units):
                out[side] |= set(units)
    for idle in sorted(everyone.difference(*out)):
        min(out, key=len).add(idle)
    return out


def _weights(table: RoutingTable, items: Items | None) -> F64:
    """[sides, cells] The part of the load that each bucket and each key with a region has: of what is stored, and of
    the work. A part of it is taken to be spread evenly over the buckets."""
    out = np.zeros((table.groups, table.cells))
    out[:, : table.buckets] = UNKNOWN / table.buckets / table.groups
    if items is None:
        return out
    cells = cells_of_items(items, table)
    for counts in (items.stored, np.stack([items.work(side) for side in range(table.groups)])):
        if counts.sum() > 0:
            out += np.stack([np.bincount(cells, row, table.cells) for row in counts]) / counts.sum()
    return out


def _emptiest(some: Iterable[int], load: F64, many: int) -> set[int]:
    """The instances with the least load; of equal ones the last, which leave no gap in the numbers."""
    return set(sorted(some, key=lambda i: (round(float(load[i]), 9), -i))[:many])


def _instances(topology: Topology) -> set[int]:
    """The instances that a topology uses."""
    if isinstance(topology, Biclique):
        return {unit for units in topology.units for unit in units}
    return {*topology.cells, *(topology.extra if isinstance(topology, Grid) else ())}


def _coarser(topology: Grid | Cube, most: int, gone: set[int]) -> Grid | Cube:
    """A grid or cube of at most so many cells: lines are left out until there are no more, of the longest dim first,
    and of its lines the one with the most dissolved cells. What it had is divided over the others as they were."""
    if len(_instances(topology)) <= most:
        return topology
    if isinstance(topology, Grid) and topology.extra:
        return _coarser(replace(topology, extra=(), divisions=((), (), ())), most, gone)
    sizes = (topology.rows, topology.columns) if isinstance(topology, Grid) else topology.sizes
    axis = int(np.argmax(sizes))
    lattice = np.array(topology.cells, np.int64).reshape(sizes)
    lines = np.moveaxis(np.isin(lattice, sorted(gone)), axis, 0).reshape(sizes[axis], -1).sum(axis=1)
    line = int(np.flatnonzero(lines == lines.max())[-1])
    cells = tuple(np.delete(lattice, line, axis).reshape(-1).tolist())
    if isinstance(topology, Cube):
        dims = tuple(replace(dim, size=dim.size - (n == axis)) for n, dim in enumerate(topology.dims))
        return _coarser(Cube(dims, cells), most, gone)
    divisions = [topology.divisions[0], topology.divisions[1], ()]
    divisions[axis] = _without_line(topology.division(axis), sizes[axis], line)
    rows, columns = (size - (n == axis) for n, size in enumerate(sizes))
    return _coarser(Grid(rows, columns, cells, divisions=(divisions[0], divisions[1], ())), most, gone)


def _without_line(division: Division, lines: int, line: int) -> Division:
    """The division without one of its lines; the others take over its range in proportion to their own."""
    number = [n - (n > line) if n != line else lines for n in range(lines)]
    shares = np.bincount([n for n, _ in division], [float(width) for _, width in division], lines)
    left: F64 = np.delete(shares, line).astype(np.float64)
    if not left.all():  # a line without a range of its own: all are made even
        left = np.ones(lines - 1)
    return aligned(tuple((number[n], width) for n, width in division), left.tolist())
