"""The heaviest keys of each instance in a batch, chosen as an instance's own tally chooses them (instance/tally.py).

A row is a key at an instance, with the counts that a HeavyKey has. For keys that are not divided there is one row for
the unit of each side, or one for both where they share an instance. Of divided keys only the heaviest are looked at:
they are on many instances, and a light one is heavy on none of them.

The choice is `heavy_keys`': candidates are the groups of equal codes among the tuples to be stored, among those that
probe, and among all that are stored, that are large enough; and of all candidates the `most` heaviest by their part of
the work or of what is stored. Of groups of the same size any may be passed over, so lists may differ from a tally's in
keys that weigh the same. A tally looks for stored groups run by run, so they may also differ in keys that are light in
each run. Keys that an instance is asked for (load/watch.py) are counted besides.

Pure arrays; cost O(codes log codes). Not here: the receipts (receipts.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.hashing import I64
from evenjoin.kernels.runs import expand
from evenjoin.sim.counting import Keyed
from evenjoin.sim.spread import Entries, Spread, divided, starts

DIVIDED = 4
"""For each key that an instance may name, so many divided keys are looked at."""


@dataclass(frozen=True, slots=True)
class Named:
    """n keys at instances, sorted by instance and code. `key` is the number of the code among those of the state;
    `arrived`, `probed`, `stored` and `results` are [2, n], as in a HeavyKey."""

    instance: I64
    key: I64
    arrived: I64
    probed: I64
    stored: I64
    results: I64

    def take(self, rows: npt.NDArray[np.int64]) -> Named:
        counts = (self.arrived, self.probed, self.stored, self.results)
        return Named(self.instance[rows], self.key[rows], *(some[:, rows] for some in counts))


def named(
    keyed: Keyed, spread: Spread, most: int, salt: int, totals: tuple[I64, I64], asked: I64
) -> tuple[Named, Named]:  # fmt: skip
    """The heaviest keys of every instance, at most `most` of each; and those of the keys asked for that are not among
    them. `totals` are the work and the stored tuples [instances]; `asked` are instance * codes + key, ascending."""
    hosts = [_hosts(spread, side) for side in (0, 1)]
    active = np.flatnonzero((keyed.arrived + keyed.stored).sum(axis=0))
    whole = (hosts[0][keyed.cell[active]] >= 0) & (hosts[1][keyed.cell[active]] >= 0)
    parts = [_whole(keyed, [host[keyed.cell] for host in hosts], active[whole])]
    if not whole.all():
        weight = keyed.arrived.sum(axis=0) + keyed.results.sum(axis=0)
        rest = active[~whole]
        limit = DIVIDED * most * max(1, len(spread.table.regions) if spread.table.ranged else 1)
        parts.append(_divided(keyed, spread, np.sort(rest[np.argsort(-weight[rest], kind="stable")[:limit]]), salt))
    rows = _joined(parts)
    top = _heaviest(rows, most, totals)
    at = rows.instance * len(keyed.cell) + rows.key
    others = np.flatnonzero(np.isin(at, asked))
    others = np.setdiff1d(others, top)
    return rows.take(top), rows.take(others[np.lexsort((rows.key[others], rows.instance[others]))])


def _hosts(spread: Spread, side: int) -> I64:
    """[cells] The one instance that stores a side's tuples of the cell; -1 where there are several or none."""
    held = spread.held[side]
    cell = spread.cell[side][held.row]
    out = np.full(spread.table.cells, -1, np.int64)
    out[cell] = held.instance
    out[np.bincount(cell, minlength=spread.table.cells) != 1] = -1
    return out


def _whole(keyed: Keyed, hosts: list[I64], keys: I64) -> Named:
    """The rows of keys that are not divided, one for each unit, or one for both."""
    one, two = hosts[0][keys], hosts[1][keys]
    apart = np.flatnonzero(one != two)
    instance, key = np.concatenate([one, two[apart]]), np.concatenate([keys, keys[apart]])
    first = np.concatenate([np.ones(len(keys), np.int64), np.zeros(len(apart), np.int64)])
    second = np.concatenate([(one == two).astype(np.int64), np.ones(len(apart), np.int64)])
    here = np.stack([first, second])  # whether the unit of each side is at the row's instance
    arrived, probing = keyed.arrived[:, key], keyed.arrived[:, key] * here[::-1]
    return Named(instance, key, arrived * here, probing, keyed.stored[:, key] * here, keyed.results[:, key] * here)


def _divided(keyed: Keyed, spread: Spread, keys: I64, salt: int) -> Named:
    """The rows of divided keys: one for each instance that stores or is asked for some of them."""
    found: list[tuple[int, int, I64, I64, I64]] = []  # (count, side, key, instance, value)
    for side in (0, 1):
        for number, entries, values in ((0, spread.held, keyed.arrived), (1, spread.asked, keyed.arrived),
                                        (2, spread.held, keyed.stored)):  # fmt: skip
            found.append((number, side, *_parts(keyed, spread, entries[side], side, keys, values[side], salt)))
        of = spread.found[side]
        found.append((3, side, *_parts(keyed, spread, of.entries, of.prober, keys, keyed.results[side], salt)))
    total = len(keyed.cell)
    places = np.unique(np.concatenate([instance * total + key for _, _, key, instance, _ in found]))
    counts = np.zeros((4, 2, len(places)), np.int64)
    for number, side, key, instance, value in found:
        at = np.searchsorted(places, instance * total + key)
        counts[number, side] += np.bincount(at, value, len(places)).astype(np.int64)
    return Named(places // total, places % total, *counts)


def _parts(
    keyed: Keyed, spread: Spread, entries: Entries, side: int, keys: I64, values: I64, salt: int
) -> tuple[I64, I64, I64]:  # fmt: skip
    """(key, instance, value) of every entry of these keys. A key with a cell of its own is divided as its cell is."""
    cell = keyed.cell[keys]
    first = np.searchsorted(spread.cell[side], cell)
    count = np.searchsorted(spread.cell[side], cell, "right") - first
    rows, of_key = expand(first, count), np.repeat(keys, count)
    at, of_row = entries.of_rows(rows)
    key, row = of_key[of_row], rows[of_row]
    own = keyed.cell[key] >= spread.table.buckets
    start = starts(np.where(own, row, row + (key + 1) * spread.table.cells), 2 * salt + side)
    return key, entries.instance[at], divided(values[key], entries.low[at], entries.high[at], start)


def _joined(parts: list[Named]) -> Named:
    if len(parts) == 1:
        return parts[0]
    columns = [[getattr(part, name) for part in parts] for name in Named.__slots__]
    return Named(*(np.concatenate(some, axis=-1) for some in columns))


def _heaviest(rows: Named, most: int, totals: tuple[I64, I64]) -> I64:
    """The rows of each instance's `most` heaviest candidates, sorted by instance and key."""
    candidate = np.zeros(len(rows.key), np.bool_)
    for counts in (*rows.arrived, *rows.probed, *rows.stored):
        candidate[_heads(rows.instance, counts, most, len(totals[0]))] = True
    some = np.flatnonzero(candidate)
    instance, key = rows.instance[some], rows.key[some]
    work = (rows.arrived + rows.probed + rows.results)[:, some].sum(axis=0) / np.maximum(totals[0], 1)[instance]
    stored = rows.stored[:, some].sum(axis=0) / np.maximum(totals[1], 1)[instance]
    order = np.lexsort((key, -np.maximum(work, stored), instance))
    kept = order[_rank(instance[order]) < most]
    return some[kept[np.lexsort((key[kept], instance[kept]))]]


def _heads(instance: I64, counts: I64, most: int, instances: int) -> I64:
    """The rows that one list of an instance's tuples makes candidates: its `most` largest groups that are not small."""
    total = np.bincount(instance, counts, instances)
    largest = np.zeros(instances, np.int64)
    np.maximum.at(largest, instance, counts)
    least = np.minimum(np.maximum(2, total.astype(np.int64) // (8 * most)), np.maximum(largest, 1))
    large = np.flatnonzero(counts >= least[instance])
    if len(large) and np.bincount(instance[large]).max() > most:
        order = large[np.lexsort((-counts[large], instance[large]))]
        large = order[_rank(instance[order]) < most]
    return large


def _rank(sorted_instances: I64) -> I64:
    """[n] The place of each row among those of its instance."""
    begin = np.flatnonzero(np.diff(sorted_instances, prepend=-1))
    size = np.diff(np.append(begin, len(sorted_instances)))
    return np.arange(len(sorted_instances)) - np.repeat(begin, size)
