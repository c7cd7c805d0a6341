"""From an area to cells: A-DSP's regular and varietal matrices (Sec. 3.1, eq. 10-13, Alg. 1).

One stream is primary (P): it is cut into P_gamma even lines. Each task has V - |P| / P_gamma left for the secondary
stream (D), so D fills D_f whole lines, and what remains of it, D_L, gets one more line (the adjustive one) of only as
many tasks as P needs beside it:

    D_f = floor(|D| / (V - |P| / P_gamma))    D_L = |D| - D_f * (V - |P| / P_gamma)    P_delta = ceil(|P| / (V - D_L))
    N_o = P_gamma * D_f (+ P_delta unless D_L is 0)                                                          (12, 13)

Four values of P_gamma are tried: |ca^r| and |ca^s| over V_h = V / 2, rounded up and down. V = 10, 9 x 7: S primary,
P_gamma = 2, D_f = floor(9 / 6.5) = 1, D_L = 2.5, P_delta = ceil(7 / 7.5) = 1, hence <1, 2, 1, row>: 3 tasks, not 4.

Where the paper is silent: of equal numbers of tasks the first one tried counts. D_f = 0 (all of D fits beside P) leaves
the adjustive line alone, which is a regular matrix of P_delta lines. An area without tuples is one task.
Invariant: no task has more than V, in expectation. Not here: which instances the cells are (mapping.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import Literal

import numpy as np

from evenjoin.load.adsp import ROUNDING
from evenjoin.load.items import F64
from evenjoin.placement.topology import Division, Grid

Along = Literal["row", "column"]


@dataclass(frozen=True, slots=True)
class Scheme:
    """<alpha, beta, P_delta, row | column>: how many rows, columns and extra cells a grid has, and along which side the
    extra ones lie. `regular` is the share of the secondary stream that each of its regular lines takes, if there is an
    adjustive line."""

    rows: int
    columns: int
    extra: int = 0
    along: Along = "row"
    regular: float = 0.0

    @property
    def tasks(self) -> int:
        return self.rows * self.columns + self.extra

    def shares(self, part: int) -> tuple[float, ...]:
        """The shares that the lines of side 0, of side 1, or (2) the extra cells should have of the range of `u`."""
        if part == 2:
            return (1.0,) * self.extra
        lines = (self.rows, self.columns)[part]
        if not self.extra or part == (1 if self.along == "row" else 0):
            return (1.0,) * lines
        return (*(self.regular,) * lines, 1.0 - lines * self.regular)

    def grid(self, first: int, divisions: tuple[Division, Division, Division]) -> Grid:
        """The grid over instances `first`, `first` + 1, ...: first the regular cells, by row, then the extra ones."""
        regular = self.rows * self.columns
        cells, extra = range(first, first + regular), range(first + regular, first + self.tasks)
        return Grid(self.rows, self.columns, tuple(cells), tuple(extra), self.along, divisions)


def cells(rows: float, columns: float, capacity: float) -> Scheme:
    """Alg. 1: the scheme with the fewest tasks for volumes |ca^r| and |ca^s| and task capacity V."""
    best: Scheme | None = None
    half = capacity / 2
    for along, primary, secondary in (("column", rows, columns), ("row", columns, rows)):
        for gamma in (ceil(primary / half - ROUNDING), floor(primary / half + ROUNDING)):
            if gamma > 0:
                offer = _scheme(along, gamma, primary, secondary, capacity)  # type: ignore[arg-type]
                if best is None or offer.tasks < best.tasks:
                    best = offer
    return best or Scheme(1, 1)


def _scheme(along: Along, gamma: int, primary: float, secondary: float, capacity: float) -> Scheme:
    """Eq. 12 and 13 for one value of P_gamma."""
    room = capacity - primary / gamma
    whole = floor(secondary / room + ROUNDING)
    left = max(secondary - whole * room, 0.0)
    delta = max(ceil(primary / (capacity - left) - ROUNDING), 1)
    if whole == 0:
        return Scheme(delta, 1) if along == "column" else Scheme(1, delta)
    extra = delta if left > ROUNDING * secondary else 0
    regular = room / secondary if extra else 0.0
    return Scheme(*((gamma, whole) if along == "column" else (whole, gamma)), extra, along if extra else "row", regular)


def varietal_tasks(rows: F64, columns: F64, capacity: float) -> tuple[F64, F64]:
    """Tasks of Alg. 1 and memory (eq. 1, counting the adjustive line) for arrays of volumes. All four values of P_gamma
    are looked at in one go: arrays are small where plans are made, so calls of numpy are what takes time."""
    primary = np.stack([rows, columns])[:, None]  # [primary side, 1, *shape]; beside it [primary side, way of rounding]
    secondary, lines = primary[::-1], primary / (capacity / 2)
    gamma = np.concatenate([np.ceil(lines - ROUNDING), np.floor(lines + ROUNDING)], axis=1)
    some = np.maximum(gamma, 1.0)
    room = np.maximum(capacity - primary / some, ROUNDING)
    whole = np.floor(secondary / room + ROUNDING)
    left = np.maximum(secondary - whole * room, 0.0)
    delta = np.maximum(np.ceil(primary / np.maximum(capacity - left, ROUNDING) - ROUNDING), 1.0)
    extra = np.where((whole == 0) | (left > ROUNDING * secondary), delta, 0.0)
    tasks = np.where(gamma > 0, some * whole + extra, np.inf).reshape(4, -1)
    taken = (primary * (whole + (extra > 0)) + secondary * some - left * (some - extra)).reshape(4, -1)
    best, every = tasks.argmin(axis=0), np.arange(tasks.shape[1])
    needed, memory = tasks[best, every], taken[best, every]
    empty = np.isinf(needed)
    needed[empty], memory[empty] = 1.0, 0.0
    return needed.reshape(rows.shape), memory.reshape(rows.shape)
