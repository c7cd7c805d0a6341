"""The Hilbert curve on a 2^order x 2^order grid, as functions on arrays.

Cells that are near on the map are near on the curve, so a hot district is a few short runs of cell numbers:
that is what makes the ride-hailing day skewed *and* clustered, as in the papers' data.

Invariant: ``xy_of(cell_of(x, y, order), order) == (x, y)`` and neighbours on the curve are neighbours on the grid.
Not here: which cells are hot (``ride_hailing``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def cell_of(x: Ints, y: Ints, order: int) -> Ints:
    """Position on the curve of each grid point; x, y int64 of one shape in 0 .. 2^order - 1. O(order) per point."""
    x, y = np.array(x, np.int64), np.array(y, np.int64)
    cell = np.zeros(np.broadcast(x, y).shape, np.int64)
    for bit in reversed(range(order)):
        rx, ry = (x >> bit) & 1, (y >> bit) & 1
        cell += ((3 * rx) ^ ry) << (2 * bit)
        x, y = _rotate(x, y, rx, ry, (1 << order) - 1)
    return cell


def xy_of(cell: Ints, order: int) -> tuple[Ints, Ints]:
    """The grid point of each position on the curve; the inverse of ``cell_of``. O(order) per point."""
    rest = np.array(cell, np.int64)
    x, y = np.zeros_like(rest), np.zeros_like(rest)
    for bit in range(order):
        rx = (rest >> 1) & 1
        ry = (rest ^ rx) & 1
        x, y = _rotate(x, y, rx, ry, (1 << bit) - 1)
        x, y = x + (rx << bit), y + (ry << bit)
        rest >>= 2
    return x, y


def _rotate(x: Ints, y: Ints, rx: Ints, ry: Ints, last: int) -> tuple[Ints, Ints]:
    """Turn the quadrant so that the curve inside it starts and ends where its neighbours expect it."""
    flip = (ry == 0) & (rx == 1)
    x, y = np.where(flip, last - x, x), np.where(flip, last - y, y)
    return np.where(ry == 0, y, x), np.where(ry == 0, x, y)
