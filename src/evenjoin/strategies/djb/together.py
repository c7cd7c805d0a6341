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

which has the form of a split in draft.py, with even shares w. The copies are its duplication.
The heaviest side is the one that is divided: then the least is copied.

Invariant: as in draft.py. Every item has the same units on all sides, so the one row of loads is that of the instances.
Not here: which edits to make (moves.py, ../readj.py).
"""

from __future__ import annotations

import numpy as np

from evenjoin.load.items import F64, Items
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import Biclique, Cube, Topology
from evenjoin.strategies.djb.draft import ALL_OF_A_PIECE, Abroad, Bools, Draft


def draft_of(items: Items, table: RoutingTable, theta: float) -> Draft:
    """The draft for what the table's program needs to meet."""
    return Together(items, table, theta) if table.meeting == "together" else Draft(items, table, theta)


class Together(Draft):
    """A draft in which the pieces of an item move together. `divisible` and `fixed` [sides, n] are those of the whole
    item, were it divided by that side; their sum is the work of the item on one unit, whatever the side."""

    splits = "evenly"

    def __init__(self, items: Items, table: RoutingTable, theta: float) -> None:
        super().__init__(items, table, theta)
        self._results: F64 = items.results.sum(axis=0)
        self.divisible = table.groups * items.arrived + self._results
        self.fixed = table.groups * items.asking

    def whole(self, row: int, unit: int) -> F64:
        return self._alone(unit) * self.of_row(row)

    def of_row(self, row: int) -> F64:
        out: F64 = self.divisible[0] + self.fixed[0]
        return out

    def work(self, side: int, n: int) -> F64:
        """[instances] The work of each unit for an item, whatever the side."""
        share, arrived = self.shares[:, n], self.items.arrived[:, n]
        out: F64 = len(arrived) * (arrived @ share) + self._results[n] * share.prod(axis=0)
        return out

    def put(self, side: int, n: int, share: F64) -> None:
        """Divide a key by this side as `share` [instances] says, and copy its tuples of the other sides."""
        share = share / share.sum()
        code = int(self.items.code[n])
        self.load[0] -= self.work(side, n)
        self.shares[:, n] = share > 0
        self.shares[side, n] = share
        self.load[0] += self.work(side, n)
        self.edit.place_key(code, _divided(self.edit.topology(code), side, share, len(self.shares)))
        self.routed[n] = self.edit.topology(code) != self.edit.home(code)

    def move_whole(self, row: int, n: int, source: int, to: int) -> None:
        if self._alone(source)[n]:
            self.put(0, n, self.one(to))

    def move_buckets(self, row: int, bucket: int, source: int, to: int) -> None:
        sides = range(len(self.shares))
        if any(self.edit.bucket(bucket).units[side] != (source,) for side in sides):
            return
        for side in sides:
            self.edit.move_bucket(bucket, side, (to,))
        within = self.items.bucket == bucket
        self.home[:, within] = to
        along = within & ~self.routed
        work = float(self.of_row(row)[along].sum())
        self.load[0, source] -= work
        self.load[0, to] += work
        self.shares[:, along] = self.one(to)

    def abroad(self, row: int, unit: int) -> Abroad:
        away = self.routed & (self.home == unit).all(axis=0) & ~self._alone(unit)
        split = away & ((self.shares > 0).any(axis=0).sum(axis=1) > 1)
        return Abroad(away, split, away * self.of_row(row))

    def load_with(self, row: int, n: int, unit: int) -> F64:
        out: F64 = self.load[0] + self.one(unit) * self.of_row(row)[n] - self.work(0, n)
        return out

    def bring_back(self, row: int, n: int, unit: int) -> None:
        self.put(0, n, self.one(unit))

    def pieces_on(self, row: int, unit: int) -> dict[tuple[int, int], float]:
        """Each key once, with the side by which it would be divided: the one with the most arrivals."""
        heaviest, here = self.items.arrived.argmax(axis=0), self.shares[:, :, unit].prod(axis=0)
        some = np.flatnonzero(self.items.is_key & (here > 0)).tolist()
        return {(int(heaviest[n]), n): float(here[n] * self.divisible[heaviest[n], n]) for n in some}

    def _alone(self, unit: int) -> Bools:
        """[n] Whether an item is on this unit, and nowhere else."""
        out: Bools = self.shares[:, :, unit].min(axis=0) > ALL_OF_A_PIECE
        return out


def _divided(now: Topology, side: int, share: F64, sides: int) -> Topology:
    """The topology of a key that one side divides over the instances with a share; with one of them it is whole there.
    Instances that have the key now come first, in their order, so that as little as possible moves."""
    has = now.cells if isinstance(now, Cube) else now.units[0] if isinstance(now, Biclique) else ()
    chosen = np.flatnonzero(share > 0).tolist()
    units = (*(unit for unit in has if unit in chosen), *(unit for unit in chosen if unit not in has))
    return Cube.divided(side, units) if len(units) > 1 else Biclique((units,) * sides)
