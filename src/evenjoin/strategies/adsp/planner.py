"""A-DSP: An Adaptive Join Algorithm for Dynamic Data Stream on Cloud System. The planner (Sec. 4, Fig. 7).

    samples -> ordered matrix (load/adsp.py) -> areas (Alg. 2) -> cells (Alg. 1) -> instances (Alg. 4) -> table

Alg. 3, the routing, needs no code of its own: the table sends a tuple to every area that has its code, and there to a
line by its `u`. Alg. 5, the migration, is the difference of two tables; migration.py states it in the paper's words.

Three plans compete: one grid over everything (2-DSP), the areas of Alg. 2, and the present areas with new cells. The
fewest tasks win, then the least movement. If the reach has no ends (`<>`, for example), there is only the one grid, as
the paper says. The initial table is one grid over the given instances, because nothing is known of the codes yet.
Not here: when a plan is called for, and the limits of the number of tasks (../sized.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import ceil

from evenjoin.load.adsp import Matrix, matrix_of
from evenjoin.load.items import F64, Items
from evenjoin.load.report import LoadReport
from evenjoin.placement.pieces import Points, moved_volume, stored_volume
from evenjoin.placement.ranges import EVERYTHING, Ranges
from evenjoin.placement.table import RoutingTable
from evenjoin.strategies.adsp.areas import partition
from evenjoin.strategies.adsp.cells import cells, varietal_tasks
from evenjoin.strategies.adsp.exact import filled, fullest, varietal
from evenjoin.strategies.adsp.mapping import Area, fitted
from evenjoin.strategies.base import register, require
from evenjoin.strategies.sized import Sized, volumes


@register("adsp")
@dataclass(frozen=True, slots=True)
class Adsp(Sized):
    """`lines` bounds the cuts that each side gives to the compressed matrix (`matrix_of`). Where there will be many
    tasks, more cuts are allowed."""

    lines: int = 64

    def __post_init__(self) -> None:
        Sized.__post_init__(self)
        require(self, {"lines": ("a whole number of at least 2", type(self.lines) is int and self.lines >= 2)})

    def may_shrink(self, table: RoutingTable) -> bool:
        """Even at the minimum size a plan may help: one grid stores copies that areas would avoid."""
        grid = table.instances > 1 and not table.ranged and table.reach != EVERYTHING
        return grid or Sized.may_shrink(self, table)

    def needed(self, items: Items, table: RoutingTable, load: F64) -> float:
        """One grid is compared with the best grid of so many tasks, both as forecasts; areas with tasks that all store
        the same."""
        if table.ranged or not items.alive:
            return Sized.needed(self, items, table, load)
        points = self.points(items)
        best = fullest(varietal(table.instances, *volumes(points)), *volumes(points))
        return float(stored_volume(table, points).sum(axis=0).max()) / best

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> RoutingTable | None:
        points = self.points(items)
        if not points:
            return None

        def offer(capacity: float) -> tuple[int, list[list[Area]]]:
            offers = self._offers(table, points, capacity)
            return min(map(_tasks, offers)), offers

        offers = self.made_for(offer, points)
        fewest = min(map(_tasks, offers))
        some = [filled(offer, self.least, points) for offer in offers if _tasks(offer) == fewest]
        tables = [fitted(table, offer, points) for offer in some]
        return min(tables, key=lambda made: moved_volume(table, made, points))

    def _offers(self, table: RoutingTable, points: Points, capacity: float) -> list[list[Area]]:
        offers = [[Area(None, cells(*volumes(points), capacity))]]
        if table.reach == EVERYTHING:
            return offers
        now = [region.takes for region in table.regions if isinstance(region.takes, Ranges)]
        ends = {end for area in now for side in (area.rows, area.columns) for end in (side.low, side.high)}
        lines = max(self.lines, ceil(4 * sum(volumes(points)) / capacity))
        matrix = matrix_of(points, table.reach, lines, tuple(end for end in ends if end is not None))
        found = partition(matrix, partial(varietal_tasks, capacity=capacity)).areas
        return [_celled(areas, matrix, capacity) for areas in (tuple(now), found) if len(areas) > 1] + offers


def _celled(areas: tuple[Ranges, ...], matrix: Matrix, capacity: float) -> list[Area]:
    return [Area(area, cells(*matrix.volumes(area), capacity)) for area in areas]


def _tasks(offer: list[Area]) -> int:
    return sum(area.scheme.tasks for area in offer)
