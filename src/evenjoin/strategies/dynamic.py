"""Dynamic, a baseline of A-DSP (Sec. 5.1; Elseidy et al.): one grid of a power of two of tasks.

* When the workload of one stream doubles, its side gets twice the lines, and the other side half. A plan splits lines
  that hold more than twice what the other side's lines hold. It is called for at DOUBLED times: at exactly twice both
  schemes store the same, so that chance alone would turn one into the other and back.
* When a task stores more than half of V, every task is split into four.

Both keep most tuples where they are: lines are halved in place, and neighbours merge. Not here: a way back to fewer
tasks, since the paper names none. `high`, `low` and `fill` are not used. A number of instances that the user fixes must
be a power of two; then only lines are doubled and halved. Limits of an automatic number are kept in fours: the scheme
stays below `most`, and quadruples until it has `least`.

    2 x 2 over 0 1 / 2 3     R doubles: 4 x 1 over 0 / 1 / 2 / 3     too full: 4 x 4 over 0 4 1 5 / 6 7 8 9 / ...
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evenjoin.errors import SpecError
from evenjoin.load.items import Items
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import Layout, RoutingTable
from evenjoin.placement.topology import Grid
from evenjoin.strategies.base import register
from evenjoin.strategies.sized import Sized, one_grid, volumes

DOUBLED = 2.2
"""A plan is called for when lines hold more than this many times what the other side's lines hold. The paper has 2,
where nothing is gained; at 2.2 a task stores 3 % less after it."""


@register("dynamic")
@dataclass(frozen=True, slots=True)
class Dynamic(Sized):
    """One grid of 2^a x 2^b tasks."""

    def fixed(self, instances: int) -> Dynamic:
        made = Sized.fixed(self, instances)
        if made.is_fixed and instances & (instances - 1):
            power = 2 ** (instances.bit_length() - 1)
            raise SpecError(
                f"dynamic needs a power of two of instances, not {instances}: use instances={power} or {2 * power}"
            )
        return made

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable:
        """One grid over the largest power of two of instances that there are, as square as that allows."""
        Sized.initial(self, 1, sides, layout)
        power = instances.bit_length() - 1
        rows, columns = 2 ** (power // 2), 2 ** (power - power // 2)
        return one_grid(Grid(rows, columns, tuple(range(rows * columns))), self.origin, layout)

    def imbalance(self, items: Items, table: RoutingTable) -> float:
        """Fullest task over half of V, or the fuller line over DOUBLED times the other, whichever is more. Tasks that
        cannot be split any more may be as full as they are."""
        points, grid = self.points(items), table.regions[0].topology
        if not points or not isinstance(grid, Grid):
            return 0.0
        rows, columns = volumes(points)
        row, column = rows / grid.rows, columns / grid.columns
        uneven = [row / (DOUBLED * column)] if column and grid.columns > 1 else []
        uneven += [column / (DOUBLED * row)] if row and grid.rows > 1 else []
        can_grow = 4 * len(grid.cells) <= self.most
        full = float(self.load(items, table).max()) / (self.task_capacity / 2) if can_grow else 0.0
        return max(full, *uneven, self.too_few(table))

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> RoutingTable | None:
        points, grid = self.points(items), table.regions[0].topology
        if not points or not isinstance(grid, Grid):
            return None
        load = self.load(items, table)[0]
        excess = float(load.max() / load.mean()) if load.any() else 1.0  # the fullest task, not the mean, is judged
        made = reshaped(grid, *volumes(points), self.task_capacity / excess, self.most, self.least)
        if made == grid:
            return table
        region = replace(table.regions[0], topology=made)
        return replace(table, version=table.version + 1, instances=len(made.cells), regions=(region,), follows=None)


def reshaped(grid: Grid, rows: float, columns: float, capacity: float, most: int, least: int = 1) -> Grid:
    """The grid for these volumes. It is reached by doubling one side's lines while halving the other's, and by
    quadrupling."""
    while True:
        row, column = rows / grid.rows, columns / grid.columns
        if row > 2 * column and grid.columns > 1:
            grid = more_rows(grid)
        elif column > 2 * row and grid.rows > 1:
            grid = more_columns(grid)
        elif (row + column > capacity / 2 or len(grid.cells) < least) and 4 * len(grid.cells) <= most:
            grid = quadrupled(grid)
        else:
            return grid


def more_rows(grid: Grid) -> Grid:
    """Neighbours of a row share their columns and take half of the row each: (i, 2c + b) becomes (2i + b, c)."""
    cells = np.array(grid.cells).reshape(grid.rows, grid.columns // 2, 2).transpose(0, 2, 1)
    return Grid(grid.rows * 2, grid.columns // 2, tuple(cells.reshape(-1).tolist()))


def more_columns(grid: Grid) -> Grid:
    """Neighbours of a column share their rows: (2c + b, j) becomes (c, 2j + b)."""
    cells = np.array(grid.cells).reshape(grid.rows // 2, 2, grid.columns).transpose(0, 2, 1)
    return Grid(grid.rows // 2, grid.columns * 2, tuple(cells.reshape(-1).tolist()))


def quadrupled(grid: Grid) -> Grid:
    """Every task keeps a quarter of its cell. The other quarters are new tasks."""
    cells = np.full((grid.rows * 2, grid.columns * 2), -1)
    cells[::2, ::2] = np.array(grid.cells).reshape(grid.rows, grid.columns)
    cells[cells < 0] = np.arange(len(grid.cells), 4 * len(grid.cells))
    return Grid(grid.rows * 2, grid.columns * 2, tuple(cells.reshape(-1).tolist()))
