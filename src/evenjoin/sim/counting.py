"""What every instance sees of one batch, as arrays: the counts of all receipts at once.

    slices of the batch + state + spread  ->  Counts       stored, asked, sent and found by instance, cell and key

These are the counts that an instance's own tally makes of its tuples (instance/tally.py), made of counts per code
instead. For a cell that is not divided they are equal. For a divided one (a split key, a grid) they are what is
expected, in whole numbers.

Arrays are [instances] or lists of entries, in the order of instances. Cost O(codes + entries of the table).
Not here: which keys are named (naming.py), and the receipts (receipts.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenjoin.kernels.hashing import I64
from evenjoin.load.items import F64
from evenjoin.placement.place import cells_of
from evenjoin.placement.ranges import Ranges
from evenjoin.sim.spread import Spread
from evenjoin.sim.state import State
from evenjoin.sim.stream import Arrivals


@dataclass(frozen=True, slots=True)
class Cells:
    """Entry e: of cell `cell[e]` instance `instance[e]` saw these tuples of `side[e]`. Sorted by instance, side, cell;
    entries in which all counts are 0 are left out."""

    instance: I64
    side: I64
    cell: I64
    arrived: I64
    stored: I64
    results: I64

    def without_stored(self) -> Cells:
        """The same where nobody wants stored tuples to be counted."""
        some = np.flatnonzero(self.arrived + self.results)
        columns = (self.instance, self.side, self.cell, self.arrived, np.zeros_like(self.stored), self.results)
        return Cells(*(column[some] for column in columns))


@dataclass(frozen=True, slots=True)
class Keyed:
    """The batch by code, [2, codes]: tuples that arrived, tuples stored after it, results found in each store; and the
    cell of each code."""

    cell: I64
    arrived: I64
    stored: I64
    results: I64


@dataclass(frozen=True, slots=True)
class Counts:
    """[2, instances] tuples stored in the batch, probing, sent, results found, and held before and after it."""

    stored: I64
    probes: I64
    messages: I64
    results: I64
    before: I64
    held: I64
    cells: Cells
    keyed: Keyed


def count(state: State, spread: Spread, arrivals: Arrivals, salt: int) -> Counts:
    """Count one batch, and store its tuples."""
    table, sides = spread.table, (0, 1)
    state.fresh = state.made
    state.admit([one for slices in arrivals for one in slices])
    cells = cells_of(table, state.codes)
    old = np.stack([state.total(side) for side in sides])
    before = np.stack([_held(state, spread, side) for side in sides])
    found = [_found(state, spread, arrivals, side, cells) for side in sides]
    new = np.stack([state.dense(slices) for slices in arrivals])
    rows = [np.bincount(cells, new[side], table.cells).astype(np.int64)[spread.cell[side]] for side in sides]
    got = [state.take(side, arrivals[side], spread, cells) for side in sides]
    asked, sent = (
        np.stack(
            [
                _sums(entries[side].instance, entries[side].divided(rows[side], 2 * salt + side), table.instances)
                for side in sides
            ]
        )
        for entries in (spread.asked, spread.sent)
    )
    hits = [spread.found[side].entries.divided(found[side][1], 2 * salt + side) for side in sides]
    stored = np.stack([_sums(spread.held[side].instance, got[side], table.instances) for side in sides])
    results = np.stack([_sums(spread.found[side].entries.instance, hits[side], table.instances) for side in sides])
    keyed = Keyed(cells, new, old + new, np.stack([found[side][0] for side in sides]))
    return Counts(
        stored, asked, sent, results, before, before + stored, _cells(state, spread, got, hits), keyed
    )  # fmt: skip


def _sums(instance: I64, counts: I64, instances: int) -> I64:
    return np.bincount(instance, counts, instances).astype(np.int64)


def _held(state: State, spread: Spread, side: int) -> I64:
    """[instances] The tuples of a side that each instance holds."""
    return _sums(spread.held[side].instance, _placed(state, spread, side), spread.table.instances)


def _placed(state: State, spread: Spread, side: int) -> I64:
    """[entries] The tuples that each entry of `spread.held` has."""
    out = np.zeros(len(spread.held[side].row), np.int64)
    for layer in state.layers[side]:
        out += layer.placed
    return out


def _found(state: State, spread: Spread, arrivals: Arrivals, side: int, cells: I64) -> tuple[I64, I64]:
    """Results found in the store of a side by the tuples of the other one: by probing code, and by row of the prober.
    It must be asked before the batch is stored."""
    prober = spread.found[side].prober
    also = arrivals[0] if side == 0 else ()
    by_code, by_row = np.zeros(len(state.codes)), np.zeros(len(spread.cell[prober]))
    for probing in arrivals[prober]:
        met = state.met(side, probing, also)
        at = np.searchsorted(state.codes, probing.codes)
        if state.spec.equal_codes and not spread.table.ranged:
            pairs = probing.counts * met[at]
            by_row += np.bincount(cells[at], pairs, spread.table.cells)[spread.cell[prober]]
        else:
            sums = np.concatenate([[0.0], np.cumsum(met)])
            first, end = state.reached(side, probing.codes)
            pairs = probing.counts * (sums[np.maximum(end, first)] - sums[first])
            by_row += _by_area(state, spread, side, cells[at], first, end, probing.counts, sums)
        np.add.at(by_code, at, pairs)
    return np.rint(by_code).astype(np.int64), np.rint(by_row).astype(np.int64)


def _by_area(
    state: State, spread: Spread, side: int, cells: I64, first: I64, end: I64, counts: I64, sums: F64
) -> F64:  # fmt: skip
    """[rows of the prober] Results by the region in which they are found and the cell of the probing code. `cells`,
    `first`, `end` and `counts` are of the probing codes, which ascend; `sums` are prefix sums of what is stored."""
    table, prober = spread.table, spread.found[side].prober
    cell, region = spread.cell[prober], spread.region[prober]
    starts = np.searchsorted(cells, cell), np.searchsorted(cells, cell, "right")
    out = np.zeros(len(cell))
    for row, (begin, stop) in enumerate(zip(*(ends.tolist() for ends in starts), strict=True)):
        if begin == stop:
            continue
        low, high = first[begin:stop], end[begin:stop]
        takes = table.regions[int(region[row])].takes
        if isinstance(takes, Ranges):
            mine = takes.side(side)
            low = np.maximum(low, np.searchsorted(state.codes, mine.first))
            high = np.minimum(high, np.searchsorted(state.codes, mine.last, "right"))
        out[row] = (counts[begin:stop] * (sums[np.maximum(high, low)] - sums[low])).sum()
    return out


def _cells(state: State, spread: Spread, got: list[I64], hits: list[I64]) -> Cells:
    """The counts by instance, side and cell."""
    columns: list[list[I64]] = [[], [], [], [], [], []]
    for side in (0, 1):
        places = spread.places[side]
        many = len(places.cell)
        arrived, stored = (_sums(places.held, some, many) for some in (got[side], _placed(state, spread, side)))
        results = _sums(places.found, hits[side], many)
        some = np.flatnonzero(arrived + stored + results)
        every = (places.instance, np.full(many, side), places.cell, arrived, stored, results)
        for column, values in zip(columns, every, strict=True):
            column.append(values[some])
    order = np.argsort(np.concatenate(columns[0]), kind="stable")
    return Cells(*(np.concatenate(column)[order] for column in columns))
