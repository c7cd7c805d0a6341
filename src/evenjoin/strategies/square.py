"""Square, a baseline of A-DSP (Sec. 5.1): one grid of ceil(|R| / V_h) x ceil(|S| / V_h) tasks (eq. 9), V_h = V / 2.

It does not look at codes. So it suits any condition, and pays for pairs that cannot match. It changes its scheme when a
task is above 80 % of V or the mean is below 50 %, with A-DSP's own mapping and alignment (Sec. 5.5).

Where the number of tasks is fixed, or eq. 9 goes beyond a limit, the grid has that number of tasks and the shape that
stores least. It stays a regular grid, as eq. 9 has no other: 7 tasks are one line of 7, and all of them store the whole
other stream. A-DSP's varietal grids are the remedy for that.

*Ideal* (Fig. 14) is Square "in the condition of adequate resources": eq. 9 without a limit of the number of tasks.
Not here: when a plan is called for (sized.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from evenjoin.load.adsp import square_lines
from evenjoin.load.items import F64, Items
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import RoutingTable
from evenjoin.strategies.adsp.cells import Scheme
from evenjoin.strategies.adsp.exact import fullest, regular
from evenjoin.strategies.adsp.mapping import Area, fitted
from evenjoin.strategies.base import register
from evenjoin.strategies.sized import Sized, volumes

UNLIMITED = 1_000_000


@register("square")
@dataclass(frozen=True, slots=True)
class Square(Sized):
    """One grid, by eq. 9."""

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> RoutingTable | None:
        points = self.points(items)
        if not points:
            return None
        return fitted(table, [Area(None, self.scheme(*volumes(points)))], points)

    def scheme(self, rows: float, columns: float) -> Scheme:
        """Eq. 9 within the limits: fewer tasks than `least` become `least`, and more than `most` those up to `most`
        whose tasks store least."""
        wanted = Scheme(*square_lines(rows, columns, self.fill * self.task_capacity))
        if wanted.tasks < self.least:
            return regular(self.least, rows, columns)
        if wanted.tasks <= self.most:
            return wanted
        offers = (regular(tasks, rows, columns) for tasks in range(self.least, self.most + 1))
        return min(offers, key=lambda some: (fullest(some, rows, columns), some.tasks))

    def needed(self, items: Items, table: RoutingTable, load: F64) -> float:
        """What a task stores, over what it would store in the best grid of so many tasks."""
        if not items.alive:
            return Sized.needed(self, items, table, load)
        volume = volumes(self.points(items))
        return float(load.mean()) / fullest(regular(table.instances, *volume), *volume)


@register("ideal")
@dataclass(frozen=True, slots=True)
class Ideal(Square):
    """Square with as many tasks as eq. 9 asks for, whatever limit there is for others."""

    most: int = UNLIMITED

    def limited(self, least: int, most: int) -> Ideal:
        return replace(self, least=least, most=UNLIMITED)

    def fixed(self, instances: int) -> Ideal:
        """`instances=N` is where it starts."""
        return self
