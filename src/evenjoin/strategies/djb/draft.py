"""A draft: a table while it is planned, together with the load that its units would have. Each edit updates both.

A *piece* is the part of an item (a key, or a bucket's remainder) that one side stores. Spread over units by shares w,

    L(i) = w_i * divisible + fixed      for every unit i with a share

             load="work"                                                 load="stored"
    divisible    arrived + results found                                 stored
    fixed        arrivals of the other sides                             0

because a split divides what a unit stores and finds, while every unit is probed by all tuples of the other sides
(D-JB's duplication).

Units are balanced by *row*. In layout `split` a row is the units of one side; in `shared` the one row is all instances,
with the units of all sides.

Nearly all pieces are on one unit, so a draft keeps the number of that unit, and shares of split pieces only: memory is
O(items + instances), not their product.

Invariant: `load` is what load/djb.py says of `table()`, for the hosts of each row, and `costs` what it says of the
change. A key without a record follows its bucket; a key with a record stays when its bucket moves.
Mutable, and private to one planning. Not here: which edits to make (moves.py, s2sm.py, ../readj.py).
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.hashing import I64
from evenjoin.load.djb import Costs, Measure, asked_more, messages, workloads
from evenjoin.load.items import F64, Items, regions_of_items
from evenjoin.placement.diff import entering_share
from evenjoin.placement.shares import holdings
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import Biclique, Role, Topology
from evenjoin.strategies.djb.division import Split, divided, rounded
from evenjoin.strategies.djb.index import Index
from evenjoin.strategies.edit import Edit

ALL_OF_A_PIECE = 1 - 1e-9
"""A unit whose share of a piece is above this has all of it; the difference allows for rounding."""
Bools = npt.NDArray[np.bool_]


class Abroad(NamedTuple):
    """Keys that are not where they are hashed to: their numbers, whether each is on several units, and the work that
    would come back with it."""

    item: I64
    split: Bools
    size: F64


class Draft:
    """A table while it is planned; see the top of this file.

    sides               by row, the sides that it balances
    load, hosts         [rows, instances]; the load, and whether the instance has a unit of the row
    at                  [sides, n]; the instance that a piece is on. A negative number: it is divided, as split ~at says
    at_bucket           [sides, buckets]; the same of what is hashed to each bucket
    divisible, fixed    [sides, n]; the two parts of a piece's work
    routed              [n]; whether the item is a key with a record
    splits              whether the units of a split key may have different shares
    stuck               whether a unit stayed overloaded because keys may not be split
    """

    splits: Literal["by weight", "evenly"] = "by weight"

    def __init__(self, items: Items, table: RoutingTable, theta: float, measure: Measure = "work") -> None:
        self.theta = theta
        self.items = items
        self.old = table
        self.stuck = False
        every = range(table.groups)
        self.sides: tuple[tuple[int, ...], ...] = (
            tuple((side,) for side in every) if table.layout == "split" else (tuple(every),)
        )
        self.divisible: F64 = items.stored if measure == "stored" else items.arrived + items.results
        self.fixed: F64 = np.zeros_like(items.stored) if measure == "stored" else items.asking
        load = workloads(items, table, measure)
        self.hosts: Bools = ~np.isnan(load)
        self.load: F64 = np.nan_to_num(load)
        self._splits: list[Split] = []
        of_region = np.stack([self._of_regions(side) for side in every])
        self._region = regions_of_items(items, table)
        self.at: I64 = of_region[:, self._region]
        self.at_bucket: I64 = of_region[:, table.compiled.region_of_cell[: table.buckets]]
        self.routed: Bools = items.is_key & (self._region != table.compiled.region_of_cell[items.bucket])
        self._was, self._was_bucket, self._had_record = self.at.copy(), self.at_bucket.copy(), self.routed.copy()
        self._touched: Bools = np.zeros(len(items), bool)
        self._index = Index(self.at, items.bucket, table)
        self._ever_split: list[I64] = [np.flatnonzero(at < 0) for at in self.at]  # ascending; some are whole again

    def copy(self) -> Self:
        """The same draft, to be edited in another way."""
        out = copy(self)
        for name in ("hosts", "load", "at", "at_bucket", "routed", "_touched", "_splits", "_index", "_ever_split"):
            setattr(out, name, getattr(self, name).copy())
        return out

    def mean(self, row: int) -> float:
        """Eq. 2, the mean load of the row, as planned so far."""
        return float(self.load[row].sum() / max(int(self.hosts[row].sum()), 1))

    def upper(self, row: int) -> float:
        return (1 + self.theta) * self.mean(row)

    def lower(self, row: int) -> float:
        return (1 - self.theta) * self.mean(row)

    def units(self, row: int) -> I64:
        """The instances of the row."""
        return np.flatnonzero(self.hosts[row])

    @property
    def workloads(self) -> F64:
        """[rows, instances] The load as load/djb.py has it: NaN where there is no unit."""
        out: F64 = np.where(self.hosts, self.load, np.nan)
        return out

    @property
    def home(self) -> I64:
        """[sides, n] Where a piece is hashed to, in the numbers of `at`."""
        return self.at_bucket[:, self.items.bucket]

    @property
    def shares(self) -> F64:
        """[sides, n, instances] The share of each piece at each instance. Made on demand, and large."""
        out = np.zeros((*self.at.shape, self.load.shape[1]))
        for side, n in np.ndindex(*self.at.shape):
            split = self.split(side, n)
            out[side, n, split.units] = split.share
        return out

    def whole_on(self, row: int) -> I64:
        """[n] The unit that has all pieces of an item that the row balances; -1: there is none."""
        first, *others = (self.at[side] for side in self.sides[row])
        alike = np.all([first == other for other in others], axis=0) if others else True
        return np.where(alike & (first >= 0), first, -1)

    def whole(self, row: int, unit: int) -> tuple[I64, F64]:
        """The items with pieces on this unit alone, and the work that would leave the unit with them."""
        on = [self._index.on(side, unit, self.at[side]) for side in self.sides[row]]
        work = [self.divisible[side, n] + self.fixed[side, n] for side, n in zip(self.sides[row], on, strict=True)]
        if all(np.array_equal(on[0], other) for other in on[1:]):  # the usual case: all sides of them are here
            return on[0], np.add.reduce(work)
        items, number = np.unique(np.concatenate(on), return_inverse=True)
        return items, np.bincount(number, np.concatenate(work), len(items)).astype(float)

    def of_row(self, row: int) -> F64:
        """[n] The work of all of a row's pieces of each item, if they are all on one unit."""
        sides = list(self.sides[row])
        out: F64 = (self.divisible[sides] + self.fixed[sides]).sum(axis=0)
        return out

    def split(self, side: int, n: int) -> Split:
        """The units of a piece, and their shares."""
        return self._split(int(self.at[side, n]))

    def stores(self, side: int, bucket: int, unit: int) -> bool:
        """Whether a unit stores a bucket's tuples of a side, or some of them."""
        return unit in self._split(int(self.at_bucket[side, bucket])).units

    def work(self, side: int, n: int) -> F64:
        """[instances] The work of each unit for one piece."""
        units, share = self.split(side, n)
        out: F64 = np.zeros(self.load.shape[1])
        out[units] = share * self.divisible[side, n] + self.fixed[side, n]
        return out

    def work_on(self, side: int, n: int, unit: int) -> float:
        """The work of one unit for one piece."""
        units, share = self.split(side, n)
        has = units == unit
        return float(share[has][0] * self.divisible[side, n] + self.fixed[side, n]) if has.any() else 0.0

    def put(self, side: int, n: int, share: F64) -> None:
        """Place a key's tuples of a side as `share` [instances] says."""
        units = np.flatnonzero(share > 0)
        if len(units) > 1:
            self._splits.append(rounded(units, share[units]))
        self._put(side, n, int(units[0]) if len(units) == 1 else ~(len(self._splits) - 1))

    def move_whole(self, row: int, n: int, source: int, to: int) -> None:
        """Move those pieces of a key from `source` to `to` that are on `source` alone: of all sides, if all are."""
        for side in self.sides[row]:
            if self.at[side, n] == source:
                self._put(side, n, to)

    def move_bucket(self, side: int, bucket: int, to: int) -> None:
        """Move a bucket's tuples of a side to `to`, with those of its keys that have no record."""
        within = self._index.within(bucket)
        self._shift(side, within[~self.routed[within]], int(self.at_bucket[side, bucket]), to)
        self.at_bucket[side, bucket] = to

    def move_buckets(self, row: int, bucket: int, source: int, to: int) -> None:
        """Move a bucket's tuples from `source` to `to`: those of the row's sides that it stores on `source`."""
        for side in self.sides[row]:
            if self.at_bucket[side, bucket] == source:
                self.move_bucket(side, bucket, to)

    def abroad(self, row: int, unit: int) -> Abroad:
        """The keys with a record that are hashed to this unit and not all on it."""
        some = np.flatnonzero(self.routed)
        any_away, split, size = np.zeros(len(some), bool), np.zeros(len(some), bool), np.zeros(len(some))
        for side in self.sides[row]:
            away = (self.at_bucket[side, self.items.bucket[some]] == unit) & (self.at[side, some] != unit)
            any_away |= away
            split |= away & (self.at[side, some] < 0)
            size += away * (self.divisible[side, some] + self.fixed[side, some])
        return Abroad(some[any_away], split[any_away], size[any_away])

    def load_with(self, row: int, n: int, unit: int) -> F64:
        """[instances] The load of the row if a key's pieces that are hashed to this unit came back to it."""
        after: F64 = self.load[row].copy()
        for side in self._away(row, n, unit):
            after -= self.work(side, n)
            after[unit] += self.divisible[side, n] + self.fixed[side, n]
        return after

    def bring_back(self, row: int, n: int, unit: int) -> None:
        """Bring a key's pieces back to this unit that are hashed to it."""
        for side in self._away(row, n, unit):
            self._put(side, n, unit)

    def _away(self, row: int, n: int, unit: int) -> list[int]:
        home = self.at_bucket[:, self.items.bucket[n]]
        return [side for side in self.sides[row] if home[side] == unit and self.at[side, n] != unit]

    def pieces_on(self, row: int, unit: int, most: int) -> list[tuple[int, int]]:
        """The pieces of keys that may be split to relieve this unit, as (side, n): those of which it has the most
        divisible work, largest first."""
        item, work = zip(*(self._divisible_on(side, unit) for side in self.sides[row]), strict=True)
        sides = np.repeat(self.sides[row], [len(some) for some in item])
        items, works = np.concatenate(item), np.concatenate(work)
        best = np.lexsort((items, sides, -works))[:most]
        return list(zip(sides[best].tolist(), items[best].tolist(), strict=True))

    def split_pieces(self, row: int, most: int) -> list[tuple[int, int]]:
        """The split pieces of keys with the most divisible work, as (side, n), largest first."""
        found = [
            (-float(self.divisible[side, n]), side, n) for side in self.sides[row] for n in self._divided(side).tolist()
        ]
        return [(side, n) for _, side, n in sorted(found)[:most]]

    def _divisible_on(self, side: int, unit: int) -> tuple[I64, F64]:
        """The keys of which a unit stores tuples of the side, and the divisible work that it has of each."""
        whole = self._index.on(side, unit, self.at[side])
        whole = whole[self.items.is_key[whole]]
        divided = self._divided(side)
        splits = [self._splits[~place] for place in self.at[side, divided].tolist()]
        number = np.repeat(divided, [len(split.units) for split in splits])
        units = np.concatenate([split.units for split in splits]) if splits else number
        share = np.concatenate([split.share for split in splits]) if splits else np.zeros(0)
        items = np.concatenate([whole, number[units == unit]])
        part = np.concatenate([np.ones(len(whole)), share[units == unit]])
        return items, part * self.divisible[side, items]

    def _divided(self, side: int) -> I64:
        """The keys whose tuples of a side are divided, ascending."""
        some = self._ever_split[side]
        out: I64 = some[(self.at[side, some] < 0) & self.items.is_key[some]]
        return out

    def one(self, unit: int) -> F64:
        """[instances] The shares of a piece that is all on one unit."""
        out = np.zeros(self.load.shape[1])
        out[unit] = 1.0
        return out

    def noise(self, row: int) -> F64:
        """[instances] The standard deviation of each unit's load by chance (load/items.py)."""
        out, variance = np.zeros(self.load.shape[1]), self.items.variance
        whole = self.whole_on(row)
        some = whole >= 0
        out += np.bincount(whole[some], (self.of_row(row) ** 2 * variance)[some], len(out))
        for side in self.sides[row]:
            for n in np.flatnonzero(~some).tolist():
                out += self.work(side, n) ** 2 * variance[n]
        return np.sqrt(out)

    def floor(self) -> tuple[float, str]:
        """A theta that no table reaches, and what it is because of: a bucket's remainder, which is never divided, or a
        key that even if divided over all units is probed too much on each."""
        out = 0.0, "nothing"
        for row, sides in enumerate(self.sides):
            count, mean = len(self.units(row)), self.mean(row)
            part = [self.divisible[side] / max(count, 1) + self.fixed[side] for side in sides]
            least = np.where(self.items.is_key, np.max(part, axis=0), self.of_row(row))
            n = int(np.argmax(least))
            name = (
                f"a key of bucket {self.items.bucket[n]}" if self.items.is_key[n] else f"bucket {self.items.bucket[n]}"
            )
            out = max(out, (float(least[n] / mean - 1) if mean > 0 else 0.0, name))
        return out

    @property
    def changed(self) -> bool:
        """Whether anything is elsewhere than in the old table."""
        return bool((self.at != self._was).any())

    @property
    def costs(self) -> Costs:
        """What the table would cost, as `costs` of load/djb.py says of it."""
        own = self.items.is_key & (self.at != self.home).any(axis=0)
        sent = moved = 0.0
        for n in np.flatnonzero(own & (self.at < 0).any(axis=0)).tolist():
            now, home = self.topology(n), self._home(n)
            if self.items.askers is not None:
                sent += asked_more(self.items, n, now, home)
                continue
            sent += sum(
                float(self.items.arrived[side, n]) * (messages(now, side) - messages(home, side))
                for side in range(len(self.at))
            )
        for side, n in np.argwhere((self.at != self._was) & ((self.at < 0) | (self._was < 0))).tolist():
            moved += float(self.items.stored[side, n]) * entering_share(self._old(n), self.topology(n), side)
        whole = (self.at != self._was) & (self.at >= 0) & (self._was >= 0)
        return Costs(int((own & ~self._had_record).sum()), sent, moved + float(self.items.stored[whole].sum()))

    def table(self) -> RoutingTable:
        """The table with all edits, or the old one if nothing changed."""
        return self.edit.table()

    @property
    def edit(self) -> Edit:
        """The edits of the old table that make the new one."""
        edit = Edit(self.old)
        for side, bucket in np.argwhere(self.at_bucket != self._was_bucket).tolist():
            edit.move_bucket(bucket, side, (int(self.at_bucket[side, bucket]),))
        for n in np.flatnonzero(self._touched).tolist():
            edit.place_key(int(self.items.code[n]), self.topology(n))
        return edit

    def topology(self, n: int) -> Topology:
        """Where the tuples of one item are, as planned so far."""
        old, places = self._old(n), self.at[:, n].tolist()
        assert isinstance(old, Biclique)
        units, weights = [], []
        for side, place in enumerate(places):
            if place >= 0:
                own: tuple[tuple[int, ...], tuple[float, ...]] = (place,), (1.0,)
            elif place == self._was[side, n]:
                own = old.units[side], old.weights[side] if old.weights is not None else (1.0,) * len(old.units[side])
            else:
                own = divided(old, side, self._split(place))
            units.append(own[0])
            weights.append(own[1])
        even = all(len(set(share)) == 1 for share in weights)
        return replace(old, units=tuple(units), weights=None if even else tuple(weights))

    def _old(self, n: int) -> Topology:
        return self.old.regions[int(self._region[n])].topology

    def _home(self, n: int) -> Topology:
        """Where the item's bucket is."""
        bucket = int(self.items.bucket[n])
        old = self.old.regions[int(self.old.compiled.region_of_cell[bucket])].topology
        if (self.at_bucket[:, bucket] == self._was_bucket[:, bucket]).all() or not isinstance(old, Biclique):
            return old
        return replace(old, units=tuple(tuple(self._split(at).units.tolist()) for at in self.at_bucket[:, bucket]))

    def _split(self, place: int) -> Split:
        return self._splits[~place] if place < 0 else Split(np.array([place]), np.ones(1))

    def _put(self, side: int, n: int, place: int) -> None:
        self._shift(side, np.array([n]), int(self.at[side, n]), place)
        if place < 0:
            self._ever_split[side] = np.union1d(self._ever_split[side], [n])
        self._touched[n] = True
        self.routed[n] = bool((self.at[:, n] != self.at_bucket[:, self.items.bucket[n]]).any())

    def _shift(self, side: int, items: I64, before: int, after: int) -> None:
        """Pieces of a side that are all at one place come to another."""
        load = self.load[side if len(self.sides) > 1 else 0]
        divisible, fixed = np.add.reduce(self.divisible[side, items]), np.add.reduce(self.fixed[side, items])
        for place, sign in ((before, -1), (after, 1)):
            if place >= 0:
                load[place] += sign * (divisible + fixed)
            else:
                units, share = self._splits[~place]
                load[units] += sign * (share * divisible + (fixed if len(items) else 0.0))
        self.at[side, items] = after
        if after >= 0:
            self._index.came(side, after, items)

    def _of_regions(self, side: int) -> I64:
        """[regions] Where the tuples of a side are that each region takes, in the numbers of `at`."""
        region, instance, share = holdings(self.old, side, Role.STORE)
        count = np.bincount(region, minlength=len(self.old.regions))
        out = np.full(len(count), -1, np.int64)
        out[region] = instance
        first = np.cumsum(count) - count
        for number in np.flatnonzero(count > 1).tolist():
            held = slice(int(first[number]), int(first[number] + count[number]))
            self._splits.append(Split(instance[held], share[held]))
            out[number] = ~(len(self._splits) - 1)
        return out
