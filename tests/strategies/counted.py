"""Reports made of exact counts per key, for planners' tests: what a batch would have left, had it met the table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenjoin.load.receipt import HeavyKey
from evenjoin.load.report import LoadReport
from evenjoin.placement.place import cells_of
from evenjoin.placement.shares import shares_by_region
from evenjoin.placement.topology import Role


def counted(table, keys, heavy=None, **times):
    """The report of a batch in which each key had (arrived 0, arrived 1, stored 0, stored 1, results 0, results 1);
    with more sides each of the three counts has as many numbers. A tuple that has copies is counted with them.

    The `heavy` heaviest keys (None: all) are named in it, the others are only in their cells."""
    codes = np.array(list(keys), np.int64)
    counts = np.array(list(keys.values()), np.int64).reshape(-1, 3, table.groups)
    cells: dict[tuple[int, int], np.ndarray] = {}
    for side in range(table.groups):
        copies = np.rint(shares_by_region(table, side, Role.STORE).sum(axis=1)).astype(np.int64)
        for cell, count in zip(cells_of(table, codes).tolist(), counts[:, :, side], strict=True):
            each = copies[table.compiled.region_of_cell[cell]]
            cells[side, cell] = cells.get((side, cell), 0) + count * [each, each, 1]
    named = np.argsort(-counts.sum(axis=(1, 2)), kind="stable")[:heavy]
    return LoadReport(
        0,
        (),
        tuple(
            HeavyKey(int(codes[n]), str(codes[n]), *(tuple(counts[n, i].tolist()) for i in (0, 0, 1, 2))) for n in named
        ),
        tuple((*place, *map(int, count)) for place, count in sorted(cells.items())),
        (),
        **times,
    )


def zipf(exponent, rows, keys):
    """Expected counts of keys 0, 1, ... in so many rows, largest remainder first to the heaviest."""
    weight = np.arange(1, keys + 1, dtype=float) ** -exponent
    return np.floor(weight / weight.sum() * rows + 0.5).astype(np.int64)


def joined(left, right, stored=1):
    """Counts of a batch that joins `left` with `right` tuples per key, `stored` batches alike having been kept:
    the new of side 1 find all of side 0, the new of side 0 the old of side 1."""
    return {
        key: (a, b, a * stored, b * stored, a * stored * b, a * b * (stored - 1))
        for key, (a, b) in enumerate(zip(left.tolist(), right.tolist(), strict=True))
    }


def together(table):
    """The table as the engine states it for a join of three and more sides on a common key."""
    return replace(table, meeting="together")
