"""The draft of a join of three and more sides: all tuples of a combination must be on one instance.

Then the pieces of an item are not free to be apart. They are on one unit, or the item is split as a whole: one side is
divided evenly over some units (placement/cube.py), and the tuples of all other sides are copied to each of these units.

    key 77 on unit 2           share of each side at each unit     a: 0 0 1    b: 0 0 1    c: 0 0 1
    split over 0 and 2 by a                                        a: .5 0 .5  b: 1 0 1    c: 1 0 1

A tuple is stored, and probes the stores of the n - 1 other sides. So with a_s arrivals of side s, and results found in
the stores of all sides, an item's work at unit i is

    L(i) = n * sum over s of a_s * share_s(i)  +  results * product over s of share_s(i)

For an item on one unit that is n * (all arrivals) + results. For one that is divided by side d, with shares w,

    L(i) = w_i * divisible + fixed    at every unit with a share     divisible = n * a_d + results
                                                                      fixed = n * (arrivals of the other sides)

which has the form of a split in draft.py, with even shares w. The copies are its duplication. With load="stored" an
item stores sum over s of stored_s * share_s(i): divisible = stored_d, and fixed = the stored tuples of the other sides.
The heaviest side is the one that is divided: then the least is copied.

Invariant: as in draft.py. Every item has the same units on all sides, so the one row of loads is that of the instances.
Not here: which edits to make (moves.py, ../readj.py).
"""

from __future__ import annotations

import numpy as np

from evenjoin.kernels.hashing import I64
from evenjoin.load.djb import Measure
from evenjoin.load.items import F64, Items
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import Biclique, Cube, Topology
from evenjoin.strategies.djb.division import Split
from evenjoin.strategies.djb.draft import Abroad, Bools, Draft


def draft_of(items: Items, table: RoutingTable, theta: float, measure: Measure = "work") -> Draft:
    """The draft for what the table's program needs to meet."""
    return (Together if table.meeting == "together" else Draft)(items, table, theta, measure)


class Together(Draft):
    """A draft in which the pieces of an item move together. `divisible` and `fixed` [sides, n] are those of the whole
    item, were it divided by that side; their sum is the work of the item on one unit, whatever the side."""

    splits = "evenly"

    def __init__(self, items: Items, table: RoutingTable, theta: float, measure: Measure = "work") -> None:
        super().__init__(items, table, theta, measure)
        self._found: F64 = np.zeros(len(items)) if measure == "stored" else items.results.sum(axis=0)
        self._each: F64 = items.stored if measure == "stored" else table.groups * items.arrived
        self.divisible = self._each + self._found
        self.fixed = self._each.sum(axis=0) - self._each

    def whole(self, row: int, unit: int) -> tuple[I64, F64]:
        items = self._index.on(0, unit, self.at[0])
        items = items[(self.at[:, items] == unit).all(axis=0)]
        return items, self.divisible[0, items] + self.fixed[0, items]

    def of_row(self, row: int) -> F64:
        out: F64 = self.divisible[0] + self.fixed[0]
        return out

    def work(self, side: int, n: int) -> F64:
        """[instances] The work of each unit for an item, whatever the side."""
        each, found = np.zeros(self.load.shape[1]), np.full(self.load.shape[1], self._found[n])
        for one in range(len(self.at)):
            units, share = self.split(one, n)
            each[units] += share * self._each[one, n]
            of_unit = np.zeros(len(each))
            of_unit[units] = share
            found *= of_unit
        out: F64 = each + found
        return out

    def work_on(self, side: int, n: int, unit: int) -> float:
        return float(self.work(side, n)[unit])

    def put(self, side: int, n: int, share: F64) -> None:
        """Divide a key by this side over the units with a share, evenly, and copy its tuples of the other sides."""
        self.load[0] -= self.work(side, n)
        units = np.flatnonzero(share > 0)
        if len(units) == 1:
            self.at[:, n] = units[0]
            for one in range(len(self.at)):
                self._index.came(one, int(units[0]), np.array([n]))
        else:
            whole = np.ones(len(units))
            self._splits += [Split(units, whole), Split(units, whole / len(units))]
            self.at[:, n] = ~(len(self._splits) - 2)
            self.at[side, n] = ~(len(self._splits) - 1)
        self.load[0] += self.work(side, n)
        self._touched[n] = True
        self.routed[n] = bool((self.at[:, n] != self.at_bucket[:, self.items.bucket[n]]).any())

    def move_whole(self, row: int, n: int, source: int, to: int) -> None:
        if (self.at[:, n] == source).all():
            self.put(0, n, self.one(to))

    def move_buckets(self, row: int, bucket: int, source: int, to: int) -> None:
        if (self.at_bucket[:, bucket] != source).any():
            return
        within = self._index.within(bucket)
        along = within[~self.routed[within]]
        work = float(self.of_row(row)[along].sum())
        self.load[0, [source, to]] += -work, work
        self.at[:, along] = to
        self.at_bucket[:, bucket] = to
        for side in range(len(self.at)):
            self._index.came(side, to, along)

    def abroad(self, row: int, unit: int) -> Abroad:
        some = np.flatnonzero(self.routed)
        some = some[(self.at_bucket[:, self.items.bucket[some]] == unit).all(axis=0)]
        some = some[(self.at[:, some] != unit).any(axis=0)]
        split: Bools = np.any(self.at[:, some] < 0, axis=0)
        return Abroad(some, split, self.of_row(row)[some])

    def load_with(self, row: int, n: int, unit: int) -> F64:
        out: F64 = self.load[0] + self.one(unit) * self.of_row(row)[n] - self.work(0, n)
        return out

    def bring_back(self, row: int, n: int, unit: int) -> None:
        self.put(0, n, self.one(unit))

    def pieces_on(self, row: int, unit: int, most: int) -> list[tuple[int, int]]:
        """Each key once, with the side by which it would be divided: the heaviest one."""
        heaviest, out = self._each.argmax(axis=0), {}
        divided = np.flatnonzero((self.at < 0).any(axis=0))
        for n in (*self.whole(row, unit)[0].tolist(), *divided.tolist()):
            here = np.prod([self.split(side, n).of(unit) for side in range(len(self.at))])
            if self.items.is_key[n] and here > 0:
                out[int(heaviest[n]), n] = float(here * self.divisible[heaviest[n], n])
        return sorted(out, key=lambda piece: (-out[piece], piece))[:most]

    def split_pieces(self, row: int, most: int) -> list[tuple[int, int]]:
        """None: shares are even, so that there are no others to give."""
        return []

    def topology(self, n: int) -> Topology:
        """One unit, or a cube that one side divides. Instances that have the key now come first, in their order, so
        that little moves."""
        if (self.at[:, n] >= 0).all():
            return Biclique(tuple((int(place),) for place in self.at[:, n]))
        if (self.at[:, n] == self._was[:, n]).all():
            return self._old(n)
        shares = [self.split(side, n).share.max() for side in range(len(self.at))]
        now, chosen = self._old(n), self.split(0, n).units.tolist()
        has = now.cells if isinstance(now, Cube) else now.units[0] if isinstance(now, Biclique) else ()
        units = (*(unit for unit in has if unit in chosen), *(unit for unit in chosen if unit not in has))
        return Cube.divided(int(np.argmin(shares)), units)
