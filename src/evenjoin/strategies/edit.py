"""Edits of a routing table, in a planner's words: this key's unit moves, this key is split, this bucket moves.

    edit = Edit(table)
    edit.move_key(42, side=0, to=(3,))            FastJoin: key 42's tuples of side 0 now live on instance 3
    edit.move_key(77, side=0, to=(0, 1), weights=(0.7, 0.3))     D-JB: key 77 is split
    edit.move_bucket(5, side=1, to=(2,))          LS-Stream: partition 5
    edit.place_key(42, Biclique(((3,), (3,), (3,))))             three sides: key 42 moves whole
    edit.table()                                  the next version, or the same object if nothing changed

Guarantee: if the table passes `check`, so does the result, as long as the instances named exist and each `to` names at
least one. Where all sides must be together, that holds once all sides of a key or bucket have moved alike. Every bucket
keeps a region, and a key has at most one. A key whose units are again those of its bucket has no region any more
(D-JB's H3: the record is cleared).
Only buckets with a Biclique can be edited. Not here: whether an edit is wise (the planners).

A record is a key that has a region of its own. A stream whose hot keys are new ones every few batches would make the
table grow for ever. So of a plan that is about to be made `bounded` drops two kinds of records, if the plan itself
leaves them as they are:

    cold     nothing is stored of the key, and none of its tuples came in the batch: nothing moves
    light    where there are more than RECORDS an instance: the lightest, by tuples stored and come, down to that number

Guarantee: after it a table has at most RECORDS records an instance, or as many as the plan has placed, if these are
more. What a light record moves is part of the plan, and the guards judge it. Not guaranteed: that nothing cold is kept
while no plan is made. `auto` has a bound of its own and keeps divided keys that are silent, because they may come back.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.hashing import I64
from evenjoin.load.report import LoadReport
from evenjoin.placement.place import buckets_of
from evenjoin.placement.table import Buckets, Keys, Region, RoutingTable
from evenjoin.placement.topology import Biclique, Topology

RECORDS = 16
"""Records an instance."""


class Edit:
    """A table while it is rewritten. Mutable, and private to one planning."""

    def __init__(self, table: RoutingTable) -> None:
        self._table = table
        self._before = home_of_buckets(table)
        self._buckets: dict[int, Biclique] = dict(self._before)
        self._keys: dict[int, Topology] = keys_of(table)

    @property
    def routed(self) -> tuple[int, ...]:
        """The keys that have a region of their own: the papers' routing table."""
        return tuple(sorted(self._keys))

    def home(self, code: int) -> Biclique:
        """Where the key's bucket lives: the papers' hashing unit of the key."""
        return self._buckets[int(buckets_of(self._table, np.array([code], np.int64))[0])]

    def units(self, code: int) -> Biclique:
        """Where the key lives now."""
        topology = self._keys.get(code)
        return topology if isinstance(topology, Biclique) else self.home(code)

    def topology(self, code: int) -> Topology:
        """How the key's units lie now, whatever the topology is."""
        return self._keys.get(code, self.home(code))

    def place_key(self, code: int, topology: Topology) -> None:
        """From now on the key's tuples of all sides live as the topology says."""
        self._place(code, topology, self.home(code))

    def _place(self, code: int, topology: Topology, home: Biclique) -> None:
        if topology == home:
            self._keys.pop(code, None)
        else:
            self._keys[code] = topology

    def bucket(self, bucket: int) -> Biclique:
        return self._buckets[bucket]

    def move_key(self, code: int, side: int, to: tuple[int, ...], weights: tuple[float, ...] | None = None) -> None:
        """From now on the key's tuples of a side live on these instances, with these shares (None: even ones)."""
        self.place_key(code, _with(self.units(code), side, to, weights))

    def move_keys(self, codes: I64, side: int, to: I64) -> None:
        """The same for many keys [k], each whole to one instance [k]."""
        buckets = buckets_of(self._table, codes).tolist()
        for code, bucket, unit in zip(codes.tolist(), buckets, to.tolist(), strict=True):
            home, now = self._buckets[bucket], self._keys.get(code)
            units = now if isinstance(now, Biclique) else home
            self._place(code, _with(units, side, (unit,), None), home)

    def send_home(self, code: int, side: int) -> None:
        """The key's tuples of a side go back to its hashing unit."""
        home = self.home(code)
        self.move_key(code, side, home.units[side], home.weights[side] if home.weights else None)

    def move_bucket(self, bucket: int, side: int, to: tuple[int, ...]) -> None:
        """The bucket's tuples of a side live on these instances; keys with regions of their own stay where they are."""
        self._buckets[bucket] = _with(self._buckets[bucket], side, to, None)

    def place_bucket(self, bucket: int, topology: Biclique) -> None:
        """The same for all sides at once."""
        self._buckets[bucket] = topology

    def table(self) -> RoutingTable:
        """The table with all edits."""
        codes = sorted(self._keys)
        homes = buckets_of(self._table, np.array(codes, np.int64)).tolist()
        keys = {
            code: self._keys[code]
            for code, home in zip(codes, homes, strict=True)
            if self._keys[code] != self._buckets.get(home)
        }
        if self._buckets == self._before and keys == keys_of(self._table):
            return self._table
        regions: list[Region] = []
        shared: dict[Biclique, list[int]] = {}
        for bucket in range(self._table.buckets):
            shared.setdefault(self._buckets[bucket], []).append(bucket)
        for topology, buckets in shared.items():
            regions.append(Region(Buckets(tuple(buckets)), topology))
        alike: dict[Topology, list[int]] = {}
        for code, units in keys.items():
            alike.setdefault(units, []).append(code)
        regions += [Region(Keys(tuple(codes)), topology) for topology, codes in alike.items()]
        return self._table.with_regions(tuple(regions))


def keys_of(table: RoutingTable) -> dict[int, Topology]:
    """The topology of each key that has a region of its own."""
    return {
        code: region.topology
        for region in table.regions
        if isinstance(region.takes, Keys)
        for code in region.takes.codes
    }


def home_of_buckets(table: RoutingTable) -> dict[int, Biclique]:
    """The topology of each bucket; buckets that are not in a Biclique are left out."""
    return {
        bucket: region.topology
        for region in table.regions
        if isinstance(region.takes, Buckets) and isinstance(region.topology, Biclique)
        for bucket in region.takes.ids
    }


def _with(topology: Biclique, side: int, to: tuple[int, ...], weights: tuple[float, ...] | None) -> Biclique:
    units = (*topology.units[:side], to, *topology.units[side + 1 :])
    if topology.weights is None and weights is None:
        return Biclique(units, None, topology.meets)
    shares = [
        (weights or (1.0,) * len(to)) if s == side else (topology.weights[s] if topology.weights else (1.0,) * len(own))
        for s, own in enumerate(units)
    ]
    even = all(len(set(share)) == 1 for share in shares)
    return replace(topology, units=units, weights=None if even else tuple(tuple(share) for share in shares))


def bounded(table: RoutingTable, planned: RoutingTable, report: LoadReport) -> RoutingTable:
    """The plan that is to follow a table, without the records that are for nothing. The report is of a batch that ran
    under the table, with exact counts of its cells."""
    records, before = keys_of(planned), keys_of(table)
    if planned.instances != table.instances or planned.buckets != table.buckets or planned.cuts != table.cuts:
        return planned
    weight = dict(zip(table.compiled.key_codes.tolist(), _weights(table, report).tolist(), strict=True))
    kept = sorted(
        (code for code in records if before.get(code) == records[code]), key=lambda code: (weight[code], code)
    )
    surplus = max(len(records) - RECORDS * planned.instances, 0)
    dropped = [code for rank, code in enumerate(kept) if rank < surplus or weight[code] == 0]
    if not dropped:
        return planned
    edit = Edit(planned)
    for code in dropped:
        edit.place_key(code, edit.home(code))
    return replace(edit.table(), version=planned.version, follows=planned.follows)


def _weights(table: RoutingTable, report: LoadReport) -> npt.NDArray[np.float64]:
    """[keys] The tuples stored and come of each key with a record, of all sides."""
    out = np.zeros(len(table.compiled.key_codes))
    for _, cell, arrived, stored, _ in report.cells:
        if cell >= table.buckets:
            out[cell - table.buckets] += arrived + stored
    return out
