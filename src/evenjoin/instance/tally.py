"""What a receipt says about the load of an instance: exact counts per cell of the table, and its heaviest keys.

Counts of stored tuples cost a look into every run, so they are made only when the strategy has a planner (`stored`
in `Tally`); per cell they are kept with the opened run, which never changes.
Not here: what the counts mean (load/).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from evenjoin.instance.probing import Probing
from evenjoin.instance.verify import key_names
from evenjoin.kernels.hashing import I64, Codes, mix64
from evenjoin.kernels.sorting import expand, group_starts
from evenjoin.load.receipt import CellCount, HeavyKey
from evenjoin.placement.place import cells_of
from evenjoin.placement.table import RoutingTable
from evenjoin.spec import JoinSpec
from evenjoin.state.layout import Tuples


class Kept(NamedTuple):
    """An old run: its tuples, which of them are alive (None: all), and how many of those each cell has."""

    tuples: Tuples
    alive: npt.NDArray[np.bool_] | None
    cells: I64


@dataclass(frozen=True, slots=True)
class Tally:
    """What was seen in one batch: new tuples and probing tuples per side, and the old runs (None: not
    to be counted)."""

    spec: JoinSpec
    table: RoutingTable
    stored: Sequence[Tuples]
    probing: Sequence[Probing]
    runs: Sequence[Sequence[Kept]] | None


def cell_counts(tally: Tally) -> tuple[CellCount, ...]:
    """(side, cell, arrived, stored, results) of every cell that has any, exact."""
    cells = tally.table.cells
    out: list[CellCount] = []
    for side, tuples in enumerate(tally.stored):
        arrived = count_cells(tally.table, tuples.codes)
        stored = np.zeros(cells, np.int64)
        if tally.runs is not None:
            stored += arrived + sum(run.cells for run in tally.runs[side])
        results = np.zeros(cells, np.int64)
        for mine in tally.probing:
            if mine.side != side:
                weights = mine.pairs.astype(np.float64)
                results += np.bincount(cells_of(tally.table, mine.tuples.codes), weights, cells).astype(np.int64)
        for cell in np.flatnonzero(arrived + stored + results).tolist():
            out.append((side, cell, int(arrived[cell]), int(stored[cell]), int(results[cell])))
    return tuple(out)


def count_cells(table: RoutingTable, codes: Codes) -> I64:
    """How many of the codes each cell of the table has."""
    return np.bincount(cells_of(table, codes), minlength=table.cells).astype(np.int64)


def heavy_keys(tally: Tally, most: int, names: Literal["named", "redacted"] = "named") -> tuple[HeavyKey, ...]:
    """The heaviest codes of this batch here, at most `most`; one with more than 1/most of a side's arrivals is
    always among them. A redacted key is known by a hash of its code alone."""
    named: dict[int, tuple[int, Tuples, int]] = {}
    for side, tuples in [*enumerate(tally.stored), *((p.side, p.tuples) for p in tally.probing)]:
        for row in _heads(tuples, most):
            named.setdefault(int(tuples.codes[row]), (side, tuples, int(row)))
    codes = np.array(sorted(named), np.int64)
    arrived = [_rows(t.codes, codes) for t in tally.stored]
    probed = [_rows(mine.tuples.codes, codes) for mine in tally.probing]
    results = [np.zeros(len(codes), np.int64) for _ in tally.stored]
    for mine in tally.probing:
        found = _between(mine.tuples.codes, codes, np.concatenate([[0], np.cumsum(mine.pairs)]))
        results[1 - mine.side] += found
    weight = np.sum(arrived, axis=0) + np.sum(probed, axis=0) + np.sum(results, axis=0)
    top = np.sort(np.lexsort((codes, -weight))[:most])
    kept = _stored(tally, codes[top])
    if names == "named":
        labels = _names(tally.spec, [named[code] for code in codes[top].tolist()])
    else:
        labels = [f"key-{mixed:016x}" for mixed in mix64(codes[top]).tolist()]
    columns = [[list(map(int, side[top])) for side in counts] for counts in (arrived, probed, results)]
    return tuple(
        HeavyKey(
            int(codes[k]),
            labels[n],
            tuple(side[n] for side in columns[0]),
            tuple(side[n] for side in columns[1]),
            tuple(int(side[n]) for side in kept),
            tuple(side[n] for side in columns[2]),
        )
        for n, k in enumerate(top)
    )


def _names(spec: JoinSpec, heads: Sequence[tuple[int, Tuples, int]]) -> list[str]:
    """The keys' names, read in one go per batch of tuples they were found in."""
    names = [""] * len(heads)
    groups: dict[tuple[int, int], list[int]] = {}
    for n, (side, tuples, _) in enumerate(heads):
        groups.setdefault((side, id(tuples)), []).append(n)
    for members in groups.values():
        side, tuples, _ = heads[members[0]]
        rows = np.array([heads[n][2] for n in members], np.int64)
        for n, name in zip(members, key_names(spec, side, tuples, rows), strict=True):
            names[n] = name
    return names


def _stored(tally: Tally, codes: I64) -> list[I64]:
    """Tuples of each side with each code that are alive here after the batch; zeros when not asked for."""
    if tally.runs is None:
        return [np.zeros(len(codes), np.int64) for _ in tally.stored]
    out = []
    for side, tuples in enumerate(tally.stored):
        total = _rows(tuples.codes, codes)
        for run in tally.runs[side]:
            mine = run.tuples.codes
            total += _rows(mine, codes) if run.alive is None else _rows_alive(mine, codes, run.alive)
        out.append(total)
    return out


def _heads(tuples: Tuples, most: int) -> I64:
    """First rows of the largest groups of equal codes, at most `most`."""
    starts = group_starts(tuples.codes)
    sizes = np.diff(starts)
    large = np.flatnonzero(sizes >= min(max(2, len(tuples) // (8 * most)), sizes.max(initial=1)))
    if len(large) > most:
        large = large[np.argpartition(sizes[large], -most)[-most:]]
    return starts[large]


def _rows(sorted_codes: Codes, codes: I64) -> I64:
    wanted = codes.astype(sorted_codes.dtype)
    out: I64 = np.searchsorted(sorted_codes, wanted, "right") - np.searchsorted(sorted_codes, wanted)
    return out


def _rows_alive(sorted_codes: Codes, codes: I64, alive: npt.NDArray[np.bool_]) -> I64:
    wanted = codes.astype(sorted_codes.dtype)
    start, count = np.searchsorted(sorted_codes, wanted), _rows(sorted_codes, codes)
    owner = np.repeat(np.arange(len(codes)), count)
    return np.bincount(owner[alive[expand(start, count)]], minlength=len(codes)).astype(np.int64)


def _between(sorted_codes: Codes, codes: I64, running: I64) -> I64:
    """Sum over each code's rows of what `running` is the running sum of."""
    wanted = codes.astype(sorted_codes.dtype)
    out: I64 = running[np.searchsorted(sorted_codes, wanted, "right")] - running[np.searchsorted(sorted_codes, wanted)]
    return out
