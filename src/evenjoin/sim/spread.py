"""Where the tuples of a cell go under a table: `place`, asked once for each cell of a table in place of each tuple.

All codes of a cell are taken by the same regions, and within a region the position `u` alone decides. So what `place`
does to n tuples of a cell follows from the slots of its regions (placement/table.py, `Compiled`):

    cell 7, a key split 3:1       held     (row 7, instance 0, low 0.00, high 0.75)  (row 7, instance 4, 0.75, 1.00)
    of side 0, S on 3             asked    (row 7, instance 3, low 0.00, high 1.00)

Of n tuples those with a position in [low, high) are `divided(n, low, high)`: a whole number, and the parts of a
division always add up to n. Positions are taken to be evenly spread from a start that differs from row to row. So the
counts of whole cells are exact, and those of divided ones are within 1 of what is expected.

A row is a pair (cell, region). There is one for each cell, but in a ranged table one for each area that takes the
cell on that side. Nothing here decides where a tuple goes: every number is read from the compiled table.
Not here: which codes a cell has (`cells_of` in placement/place.py), and what is counted (counting.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from evenjoin.errors import SpecError
from evenjoin.kernels.hashing import GOLDEN, I64, mix64
from evenjoin.kernels.runs import expand
from evenjoin.load.items import F64
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import WHOLE, Role

ANY = int(Role.BOTH)


class Entries(NamedTuple):
    """Entry e: `instance[e]` gets those tuples of row `row[e]` whose position is in [low[e], high[e])."""

    row: I64
    instance: I64
    low: F64
    high: F64

    def divided(self, totals: I64, salt: int) -> I64:
        """[entries] How many of the totals [rows] each entry gets."""
        return divided(totals[self.row], self.low, self.high, starts(self.row, salt))

    def of_rows(self, rows: I64) -> tuple[I64, I64]:
        """The entries of some rows, and for each of them the number of the row among those asked for."""
        first = np.searchsorted(self.row, rows)
        count = np.searchsorted(self.row, rows, "right") - first
        return expand(first, count), np.repeat(np.arange(len(rows)), count)


class Found(NamedTuple):
    """Where results are found in the store of a side: the entries, whose rows are those of the side that probes."""

    entries: Entries
    prober: int


class Places(NamedTuple):
    """Place p is cell `cell[p]` at `instance[p]`; they ascend. `held` and `found` are the places of the entries."""

    instance: I64
    cell: I64
    held: I64
    found: I64


@dataclass(frozen=True)
class Spread:
    """Where a table of two sides sends, stores and asks.

    cell, region [side][rows]      the rows of each side
    sent, held, asked [side]       who gets a side's tuples at all, who stores them, and whom they probe
    found [side]                   where results in a side's store are found
    """

    table: RoutingTable
    cell: tuple[I64, I64]
    region: tuple[I64, I64]
    sent: tuple[Entries, Entries]
    held: tuple[Entries, Entries]
    asked: tuple[Entries, Entries]
    found: tuple[Found, Found]

    @cached_property
    def places(self) -> tuple[Places, Places]:
        """By side, the cells that each instance has, and which of them each entry belongs to."""
        return self._places(0), self._places(1)

    def _places(self, side: int) -> Places:
        held, (found, prober), cells = self.held[side], self.found[side], self.table.cells
        mine = held.instance * cells + self.cell[side][held.row]
        theirs = found.instance * cells + self.cell[prober][found.row]
        where, number = np.unique(np.concatenate([mine, theirs]), return_inverse=True)
        return Places(where // cells, where % cells, number[: len(mine)], number[len(mine) :])


def divided(totals: I64, low: F64, high: F64, start: F64) -> I64:
    """How many of `totals` evenly spaced positions, the first at `start` of a space, are in [low, high)."""
    out: I64 = (np.floor(totals * high + start) - np.floor(totals * low + start)).astype(np.int64)
    return out


def starts(rows: I64, salt: int) -> F64:
    """A number in [0, 1) for each row, of 16 bits, so that sums with whole numbers are exact."""
    mixed = mix64(rows.view(np.uint64) + np.uint64((int(GOLDEN) * (2 * salt + 1)) % 2**64))
    out: F64 = (mixed >> np.uint64(48)).astype(np.float64) / 2**16
    return out


@lru_cache(maxsize=4)
def _spread_named(held: _ByName) -> Spread:
    return _spread_of(held.table)


@dataclass(frozen=True)
class _ByName:
    """A table as a key of a cache: tables with the same name are the same."""

    table: RoutingTable

    def __hash__(self) -> int:
        return hash(self.table.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByName) and other.table.name == self.table.name


def spread_of(table: RoutingTable) -> Spread:
    """Where the table sends the tuples of each cell. Made once for each table. O(cells + slots * targets)."""
    return _spread_named(_ByName(table))


def _spread_of(table: RoutingTable) -> Spread:
    if table.groups != 2 or table.cube is not None or table.ordered:
        raise SpecError(f"{table.title}: the simulator knows two sides, no cubes and no ordered buckets")
    rows = [_rows(table, side) for side in (0, 1)]
    parts = [_by_region(table, side) for side in (0, 1)]
    sent, held, asked = (
        tuple(_expanded(_of_role(parts[side], role), rows[side][1]) for side in (0, 1))
        for role in (ANY, int(Role.STORE), int(Role.PROBE))
    )
    found = tuple(
        Found(_expanded(_met(table, parts[side], parts[other]), rows[other][1]), other)
        for side, other in ((0, 1), (1, 0))
    )
    (cell0, region0), (cell1, region1) = rows
    return Spread(table, (cell0, cell1), (region0, region1), sent, held, asked, found)  # type: ignore[arg-type]


def _rows(table: RoutingTable, side: int) -> tuple[I64, I64]:
    """(cells, regions) of the rows of a side."""
    flat = table.compiled
    if not table.ranged:
        return np.arange(table.cells), flat.region_of_cell
    first = side * table.cells + np.arange(table.cells)
    count = flat.span[first + 1] - flat.span[first]
    return np.repeat(np.arange(table.cells), count), flat.span_region[expand(flat.span[first], count)]


class _Parts(NamedTuple):
    """Every target of every slot of a side: the region, the number of the slot, its positions, instance and role."""

    region: I64
    slot: I64
    low: F64
    high: F64
    instance: I64
    role: I64


def _by_region(table: RoutingTable, side: int) -> _Parts:
    flat = table.compiled
    index = np.arange(len(table.regions)) * table.groups + side
    count = flat.first_slot[index + 1] - flat.first_slot[index]
    slot = expand(flat.first_slot[index], count)
    region = np.repeat(np.arange(len(table.regions)), count)
    low = (flat.slot_start[slot] & np.uint64(WHOLE - 1)).astype(np.float64) / WHOLE
    last = np.append(region[1:] != region[:-1], True) if len(region) else np.zeros(0, np.bool_)
    high = np.where(last, 1.0, np.append(low[1:], 1.0)) if len(low) else low
    targets = flat.target[slot + 1] - flat.target[slot]
    at, of = expand(flat.target[slot], targets), np.repeat(np.arange(len(slot)), targets)
    return _Parts(
        region[of], slot[of], low[of], high[of], flat.instance[at].astype(np.int64), flat.role[at].astype(np.int64)
    )


def _of_role(parts: _Parts, role: int) -> Entries:
    some = np.flatnonzero(parts.role & role)
    return Entries(parts.region[some], parts.instance[some], parts.low[some], parts.high[some])


def _met(table: RoutingTable, stored: _Parts, probing: _Parts) -> Entries:
    """Of the pairs of a region, the part that each instance finds.

    A pair meets at the one instance that stores its stored tuple and is probed by the other one (placement/check.py).
    Positions are independent. So of the pairs of a slot each instance that stores it finds the share of the probing
    tuples that ask it, and these shares add up to 1.
    """
    asks = probing.role & int(Role.PROBE) != 0
    key = probing.region[asks] * table.instances + probing.instance[asks]
    where, number = np.unique(key, return_inverse=True)
    share = np.bincount(number, (probing.high - probing.low)[asks], len(where))
    some = np.flatnonzero(stored.role & int(Role.STORE))
    mine = stored.region[some] * table.instances + stored.instance[some]
    at = np.minimum(np.searchsorted(where, mine), max(len(where) - 1, 0))
    part = np.where(where[at] == mine, share[at], 0.0) if len(where) else np.zeros(len(mine))
    sums = np.concatenate([[0.0], np.cumsum(part)])
    begin = np.flatnonzero(np.diff(stored.slot[some], prepend=-1))
    size = np.diff(np.append(begin, len(some)))
    before = np.repeat(sums[begin], size)
    last = np.zeros(len(some), np.bool_)
    last[begin + size - 1] = True
    top = np.where(last, 1.0, sums[1:] - before)  # rounding must not lose a pair
    low, wide = stored.low[some], (stored.high - stored.low)[some]
    return Entries(stored.region[some], stored.instance[some], low + wide * (sums[:-1] - before), low + wide * top)


def _expanded(entries: Entries, regions: I64) -> Entries:
    """The entries of each row, given those of each region and the region of each row."""
    at, row = entries.of_rows(regions)
    return Entries(row, entries.instance[at], entries.low[at], entries.high[at])
