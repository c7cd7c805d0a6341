"""Another number of instances for a keyed table that keeps what it has learned: buckets are handed over, keys stay.

    8 -> 9    the new instance takes buckets from the fullest ones until it has its share          about 1/9 moves
    9 -> 8    the emptiest instance is dissolved: its buckets and keys go to the others            about 1/9 moves

    before    0: # # # # #    1: # # # #    2: # # # # # #              moved keys, divided keys
    after     0: # # # #      1: # # # #    2: # # # #      3: # # #    the same regions

* How full an instance is: its share of what is stored plus its share of the work, as the items say, unless the
  strategy balances something else (`Measure`). What items do not know is taken to be even, so with nothing known
  instances get equally many buckets.
* A new instance takes what leaves the giver no emptier than it becomes itself. So an instance with a hot bucket keeps
  that one and gives others. No instance gives its last bucket: none becomes idle so that a new one is not.
* If there are few buckets for each instance (FEW), they are first made finer. That moves nothing, because a bucket is a
  contiguous range of hash values (`RoutingTable.refined`). Ordered buckets stay as they are cut: they are handed over
  whole, and where there are fewer of them than instances the strategy cuts anew (ordered.py).
* A bucket whose sides are on one instance moves whole; else the units of each side move for themselves. In layout
  "split" a side's units go to instances of that side. New instances are given to the sides, and dissolved ones taken
  from them, such that the sides keep their parts of the instances as nearly as whole numbers allow.
* When instances are dissolved, the others keep their state. One whose number is too large gets a free number, and the
  table says so (`RoutingTable.follows`). A moved key whose unit is dissolved moves on. A divided key gets other
  instances for the cells that are dissolved; where there are too few of them it is divided into fewer cells.
* A table of one region that spreads tuples over all instances (`random`) gives each new unit an even share, and takes
  no more from the others than that.

Guarantee: if the table passes `check`, so does the result. Tuples move only to new instances or from dissolved ones,
but for keys that are divided into fewer cells. A new instance hosts a bucket, as long as one with more than one is left
that is not hot by itself, and an instance that hosts buckets goes on hosting some until it is dissolved. Everything is
a function of table and items; ties go to the lowest number.
Not guaranteed: that the load is even afterwards. A hot key stays where it is, for the planner to move or divide. An
instance that was idle or nearly so before stays it: only new ones take.
Cost: O((buckets + instances) log instances), and O(instances) for each key of a dissolved one.
Not here: how many instances there should be (elastic.py).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heapreplace
from operator import itemgetter
from sys import maxsize

import numpy as np

from evenjoin.errors import SpecError
from evenjoin.load.items import F64, Items, cells_of_items
from evenjoin.load.refined import comparable
from evenjoin.placement.shares import holdings
from evenjoin.placement.slots import Role
from evenjoin.placement.table import Buckets, Region, RoutingTable, Succession
from evenjoin.placement.topology import Biclique, Cube, Division, Grid, Meets, Topology, renumbered
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
Weighted = tuple[float, Atom]
"""An atom after its weight."""
BEYOND: Atom = (maxsize, ())
"""After every other atom, where weights are the same."""
Measure = Callable[[Items], Sequence[F64]]
"""What a strategy balances, as counts [sides, n] of items. An instance is as full as the sum of its shares of each."""


def stored_and_work(items: Items) -> tuple[F64, F64]:
    """The measure of strategies that do not say what they balance: tuples stored, and the work of a batch."""
    return items.stored, np.stack([items.work(side) for side in range(len(items.stored))])


def measure_of(strategy: object) -> Measure:
    """What a strategy balances, or the one inside it (elastic.py, ordered.py)."""
    while strategy is not None:
        own: Measure | None = getattr(strategy, "balanced", None)
        if own is not None:
            return own
        strategy = getattr(strategy, "inner", None)
    return stored_and_work


def can_resize(table: RoutingTable, wanted: int = 1) -> bool:
    """Whether `resized` is for this table and so many instances: each bucket has one unit of each side, or one region
    spreads all tuples over its units. One bucket on one unit may be either, and there is nothing to keep. Ordered
    buckets stay as they are cut, so there must be one for each instance."""
    if table.ranged or table.program != "direct" or table.cube is not None:
        return False
    if table.ordered and table.buckets < wanted:
        return False
    if _is_spread(table):
        return True
    return (table.buckets > 1 or len(table.regions) > 1) and all(
        isinstance(region.topology, Biclique) and all(len(units) == 1 for units in region.topology.units)
        for region in table.regions
        if isinstance(region.takes, Buckets)
    )


def resized(table: RoutingTable, wanted: int, items: Items, measure: Measure = stored_and_work) -> RoutingTable:
    """The table on `wanted` instances. SpecError if those are too few for the layout."""
    if wanted == table.instances:
        return table
    if _is_spread(table):
        return _Handover(table, wanted, _weights(table, None, measure)).spread()
    units = max(len(hosts) for hosts in _hosts(table))
    most = max(-(-units * wanted // table.instances), 1)
    times = -(-FINE * most // table.buckets) if table.buckets < FEW * most and not table.ordered else 1
    fine = table.refined(times)
    known = comparable(items, table, fine).items if items.fit(table) else None
    return _Handover(fine, wanted, _weights(fine, known, measure)).keyed(table)


class _Handover:
    """A table while its size changes. Instances have the numbers of the old table, and new ones the numbers after
    those, until the end. Mutable, and private to one call."""

    def __init__(self, table: RoutingTable, wanted: int, weight: F64) -> None:
        self.table, self.wanted, self.groups = table, wanted, table.groups
        self.new = list(range(table.instances, wanted))
        self.hosts = [set(hosts) for hosts in _hosts(table)]
        self.weight = weight
        self.load = np.zeros(max(wanted, table.instances))
        for side in range(self.groups):
            region, instance, share = holdings(table, side, Role.STORE)
            of_region = np.bincount(table.compiled.region_of_cell, self.weight[side], len(table.regions))
            self.load += np.bincount(instance, of_region[region] * share, len(self.load))
        self.gone = self._divide_sides()

    def _divide_sides(self) -> set[int]:
        """Give new instances to the sides, or choose those that are dissolved. `hosts` are then the instances that
        there will be, by side; the dissolved ones are returned."""
        if self.table.layout == "shared":
            everyone = range(max(self.wanted, self.table.instances))
            gone = set(_by_emptiness(everyone, self.load)[: len(everyone) - self.wanted])
            self.hosts = [set(everyone) - gone for _ in range(self.groups)]
            return gone
        if self.wanted < self.groups:
            raise SpecError(f"layout 'split' needs at least one instance per side: {self.groups}, got {self.wanted}")
        parts = np.array([len(hosts) for hosts in self.hosts]) / self.table.instances
        for total, instance in enumerate(self.new, self.table.instances + 1):
            lacking = [parts[side] * total - len(hosts) for side, hosts in enumerate(self.hosts)]
            self.hosts[int(np.argmax(np.round(lacking, 9)))].add(instance)
        return self._spared(parts)

    def _spared(self, parts: F64) -> set[int]:
        """The instances that are dissolved in layout "split": one after the other the emptiest of the side with the
        most to spare. The only instance of a side stays."""
        out: set[int] = set()
        fullest_first = [_by_emptiness(hosts, self.load)[::-1] for hosts in self.hosts]
        for total in range(self.table.instances - 1, self.wanted - 1, -1):
            staying = out.union(*(hosts for hosts in self.hosts if len(hosts) == 1))
            for queue in fullest_first:  # who is out, or the only one of a side, is so for good
                while queue and queue[-1] in staying:
                    queue.pop()
            spare = [
                len(hosts) - parts[side] * total if fullest_first[side] else -np.inf
                for side, hosts in enumerate(self.hosts)
            ]
            goes = fullest_first[int(np.argmax(np.round(spare, 9)))].pop()
            out.add(goes)
            for hosts in self.hosts:
                hosts.discard(goes)
        return out

    def keyed(self, before: RoutingTable) -> RoutingTable:
        """The table with buckets handed over, and keys moved from dissolved instances. `before` is the table that it
        follows, whose buckets may be coarser."""
        self.edit = Edit(self.table)
        self.units = home_of_buckets(self.table)
        self.whole: dict[tuple[int, Meets], Biclique] = {}
        if self.gone:
            self._dissolve()
        else:
            self._fill()
        return self._numbered(self.edit.table(), before)

    def _fill(self) -> None:
        """New instances take buckets from the fullest ones. The emptiest new one takes next, so what it cannot take
        from an instance no other can, then or later."""
        new = set(self.new)
        for hosts in [set(some) for some in dict.fromkeys(map(frozenset, self.hosts))]:
            sides = tuple(side for side in range(self.groups) if self.hosts[side] == hosts)
            share = float(self.load[list(hosts)].sum()) / len(hosts)
            atoms = self._atoms(sides)
            taking = [(float(self.load[i]), i) for i in sorted(hosts & new)]
            giving = [(-float(self.load[i]), i) for i in sorted(hosts - new) if i in atoms]
            heapify(taking)
            heapify(giving)
            while taking and giving:
                (least, to), (most, source) = taking[0], giving[0]
                place = _fitting(atoms[source], -most, least, share)
                if place is None:
                    heappop(giving)
                    continue
                self._move(atoms[source].pop(place), source, to)
                heapreplace(giving, (-float(self.load[source]), source))
                heapreplace(taking, (float(self.load[to]), to))

    def _atoms(self, sides: tuple[int, ...]) -> dict[int, list[Weighted]]:
        """What may be handed over of these sides, by instance: the lightest first, of equal ones the last bucket."""
        out: dict[int, list[Weighted]] = {}
        by_side = self.weight[:, : self.table.buckets]
        alone, whole = by_side.tolist(), by_side[list(sides)].sum(axis=0).tolist()
        for bucket, units in sorted(self.units.items()):
            hosts = [units.units[side][0] for side in sides]
            if len(set(hosts)) == 1:
                out.setdefault(hosts[0], []).append((whole[bucket], (bucket, sides)))
                continue
            for side, host in zip(sides, hosts, strict=True):
                out.setdefault(host, []).append((alone[side][bucket], (bucket, (side,))))
        for atoms in out.values():
            atoms.reverse()
            atoms.sort(key=itemgetter(0))
        return out

    def _move(self, one: Weighted, source: int, to: int) -> None:
        weight, (bucket, sides) = one
        if len(sides) == self.groups:
            meets = self.units[bucket].meets
            if (to, meets) not in self.whole:  # one value for all buckets there: a plan moves tens of thousands
                self.whole[to, meets] = Biclique(((to,),) * self.groups, meets=meets)
            self.edit.place_bucket(bucket, self.whole[to, meets])
        else:
            for side in sides:
                self.edit.move_bucket(bucket, side, (to,))
        self.load[source] -= weight
        self.load[to] += weight

    def _dissolve(self) -> None:
        """The buckets and keys of dissolved instances go to the emptiest of the others, the heaviest first."""
        every = self._atoms(tuple(range(self.groups)))
        going = [(*one, source) for source in sorted(self.gone) for one in every.get(source, [])]
        rooms: dict[tuple[int, ...], list[tuple[float, int]]] = {}
        for weight, atom, source in sorted(going, key=lambda one: (-one[0], one[1])):
            if atom[1] not in rooms:
                room = set.intersection(*(self.hosts[side] for side in atom[1]))
                rooms[atom[1]] = [(float(self.load[i]), i) for i in room]
                heapify(rooms[atom[1]])
            heap = rooms[atom[1]]
            while heap[0][0] != self.load[heap[0][1]]:  # it took something of other sides: loads only rise here
                heapreplace(heap, (float(self.load[heap[0][1]]), heap[0][1]))
            to = heap[0][1]
            self._move((weight, atom), source, to)
            heapreplace(heap, (float(self.load[to]), to))
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
        some = np.array(sorted(room), np.int64)
        return int(some[self.load[some].argmin()])

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
        of = tuple(before for _, before in sorted(zip(number, old, strict=True)))
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


def _fitting(atoms: Sequence[Weighted], source: float, to: float, share: float) -> int | None:
    """Which of a giver's atoms, the lightest first, goes to a new instance; `source` and `to` are how full both are.

    It is the heaviest that leaves the giver no emptier than the new instance becomes. If there is none, it is the
    lightest, if both are more even then. It brings the new instance no further above its share than it is below it now,
    and is not the giver's last one."""
    if len(atoms) < 2:
        return None
    room = 2 * (share - to)
    fitting = bisect_right(atoms, (min((source - to) / 2, room), BEYOND))
    if fitting:
        return fitting - 1
    return 0 if atoms[0][0] <= room and atoms[0][0] < source - to else None


def _weights(table: RoutingTable, items: Items | None, measure: Measure) -> F64:
    """[sides, cells] The part of the load that each bucket and each key with a region has, by all counts of the measure
    together. A part of it is taken to be spread evenly over the buckets."""
    out = np.zeros((table.groups, table.cells))
    out[:, : table.buckets] = UNKNOWN / table.buckets / table.groups
    if items is None:
        return out
    cells = cells_of_items(items, table)
    for counts in measure(items):
        if counts.sum() > 0:
            out += np.stack([np.bincount(cells, row, table.cells) for row in counts]) / counts.sum()
    return out


def _by_emptiness(some: Iterable[int], load: F64) -> list[int]:
    """Instances, the one with the least load first; of equal ones the last, which leaves no gap in the numbers."""
    return sorted(some, key=lambda i: (round(float(load[i]), 9), -i))


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
