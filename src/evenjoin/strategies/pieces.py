"""Pieces: what a planner that splits nothing can move, and the table once pieces have moved.

A bucket is a set of keys. So is what remains of it once some of its keys are looked at one by one, and such a set can
move like a key. A *piece* is a key that is worth a place of its own, or a bucket with all its other keys:

    bucket 5: 900 tuples = key 42: 700 (heavy)  +  key 7: 150 (has a record)  +  bucket 5 without them: 50
    pieces:                key 42                  key 7                         bucket 5

Together the pieces hold everything, and nothing twice. A key that is no piece goes wherever its bucket goes. A key that
is one keeps its place when its bucket leaves: it gets a record (a `Keys` region). A key that comes to where its bucket
is loses its record. So the routing table has as many records as there are keys away from their buckets.

Sides that move together have the same pieces; a piece can move only if each of these sides has it on one instance, and
all on the same one (`host` -1: it cannot). Cost O(items + buckets); edits of the table O(pieces moved).
Not here: which piece should move (fastjoin/, readj.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.hashing import I64
from evenjoin.load.items import F64, Items, regions_of_items
from evenjoin.placement.place import routed
from evenjoin.placement.shares import holdings
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import Role
from evenjoin.strategies.edit import Edit

PER_UNIT = 8
"""Buckets per unit of tables whose planners move pieces, unless said otherwise. Every one is a cell that the load
report counts. With 8, 16, 48 and 100 instances, 100,000 keys and zipf 0.2 to 1.2, FastJoin ends at the same LI with 8,
16 and 32; with 4 and zipf 0.6 on 100 instances it misses its aim, 1.6, by 0.08."""
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of some sides: first the k keys, then the buckets, m in all.

    items      what they are pieces of
    sides      the sides that move together
    key        [k] the items that are keys of their own
    home       [m] the piece that is the key's bucket; a bucket's own is itself
    recorded   [m] whether it is a key with a record
    host       [m] the instance that has all of it; -1: it cannot move
    """

    items: Items
    sides: tuple[int, ...]
    key: I64
    home: I64
    recorded: Bools
    host: I64

    def __len__(self) -> int:
        return len(self.host)

    def counts(self, of_items: F64) -> F64:
        """[sides, m] Counts of pieces, from those of items [sides, n]."""
        rest, size = np.ones(len(self.items), bool), len(self.host) - len(self.key)
        rest[self.key] = False
        bucket = self.items.bucket[rest]
        buckets = [np.bincount(bucket, row[rest], size) for row in of_items]
        return np.concatenate([of_items[:, self.key], np.stack(buckets)], axis=1)


def recorded(items: Items, table: RoutingTable) -> Bools:
    """[n] Whether an item is a key with a region of its own."""
    out: Bools = items.is_key & (routed(table, items.code) >= 0)
    return out


def pieces(items: Items, table: RoutingTable, sides: tuple[int, ...], heavy: Bools) -> Pieces:
    """The pieces of a load that these sides may move. Keys are pieces if they are `heavy` [n] or have a record."""
    records = recorded(items, table)
    key = np.flatnonzero(items.is_key & (heavy | records))
    regions = np.concatenate([regions_of_items(items, table)[key], table.compiled.region_of_cell[: table.buckets]])
    each = np.stack([_only_hosts(table, side)[regions] for side in sides])
    home = np.concatenate([len(key) + items.bucket[key], len(key) + np.arange(table.buckets)])
    has_record = np.concatenate([records[key], np.zeros(table.buckets, bool)])
    return Pieces(items, sides, key, home, has_record, np.where((each == each[0]).all(axis=0), each[0], -1))


def _only_hosts(table: RoutingTable, side: int) -> I64:
    """[regions] The one instance that stores tuples of a side; -1 where several do."""
    units = holdings(table, side, Role.STORE)
    alone = np.bincount(units.region, minlength=len(table.regions))[units.region] == 1
    only = np.full(len(table.regions), -1, np.int64)
    only[units.region[alone]] = units.instance[alone]
    return only


def relocated(table: RoutingTable, moves: Sequence[tuple[Pieces, I64]]) -> RoutingTable:
    """The table with pieces on other hosts [m]; this very object if none has moved."""
    edit = Edit(table)
    for of, host in moves:  # buckets first: a key without a record is where its bucket is
        first = len(of.key)
        for bucket in np.flatnonzero(host[first:] != of.host[first:]).tolist():
            for side in of.sides:
                edit.move_bucket(bucket, side, (int(host[first + bucket]),))
    for of, host in moves:
        moved = host != of.host
        left_behind = moved[of.home] & ~of.recorded
        first = len(of.key)
        which = np.flatnonzero((moved | left_behind)[:first] & (host[:first] >= 0))
        for side in of.sides:
            edit.move_keys(of.items.code[of.key[which]], side, host[which])
    return edit.table()
