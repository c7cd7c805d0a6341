"""A-DSP: An Adaptive Join Algorithm for Dynamic Data Stream on Cloud System. The planner (Sec. 4, Fig. 7).

    samples -> ordered matrix (load/adsp.py) -> areas (Alg. 2) -> cells (Alg. 1) -> instances (Alg. 4) -> table

Alg. 3, the routing, needs no code of its own: the table sends a tuple to every area that has its code, and there to a
line by its `u`. Alg. 5, the migration, is the difference of two tables; migration.py states it in the paper's words.

Several plans compete: one grid over everything (2-DSP), slabs along the diagonal (1-DSP), the areas of Alg. 2, and the
present areas with new cells. Of those that need the fewest tasks, or hardly more, the one that moves least wins. If the
reach has no ends (`<>`, for example), there is only the one grid, as the paper says. The initial table is one grid over
the given instances, because nothing is known of the codes yet.
Not here: when a plan is called for, and the limits of the number of tasks (../sized.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf
from typing import Literal

import numpy as np

from evenjoin.load.adsp import Matrix, floor_of, matrix_of
from evenjoin.load.items import F64, Items
from evenjoin.load.report import LoadReport
from evenjoin.load.samples import SAMPLE_POINTS, Grain
from evenjoin.placement.pieces import Points, stored_volume
from evenjoin.placement.ranges import EVERYTHING, Ranges
from evenjoin.placement.table import RoutingTable, Succession
from evenjoin.strategies.adsp.areas import Plan as Scheme
from evenjoin.strategies.adsp.areas import Tasks, partition
from evenjoin.strategies.adsp.cells import cells, varietal_tasks
from evenjoin.strategies.adsp.exact import filled, fullest, varietal
from evenjoin.strategies.adsp.front import Room, extended, front_of, in_rows
from evenjoin.strategies.adsp.mapping import Area, fitting
from evenjoin.strategies.adsp.slabs import slabs
from evenjoin.strategies.base import Plan, Stay, register, require
from evenjoin.strategies.sized import EVEN, Sized, volumes

POINTS = 16
"""Points of each side for a task."""
NEARLY = 1.05
"""A plan with this many times the fewest tasks may win if it moves less."""
CLOSE = 1.1
"""Alg. 2 is not asked where slabs need at most this many times the tasks that any scheme needs (`Floor`). What it could
save there is little, and on its few lines it seldom does: where codes are heavy, it needs up to twice as many tasks."""
MOST_LINES = 2**18
RESERVE = 4
"""Where codes grow, tasks are too many only if their tuples would fill less than this part of them."""


@register("adsp")
@dataclass(frozen=True, slots=True)
class Adsp(Sized):
    """`lines` bounds the cuts that each side gives to the matrix on which Alg. 2 looks for areas (`matrix_of`). Slabs
    are found on a finer one."""

    lines: int = 64

    def __post_init__(self) -> None:
        Sized.__post_init__(self)
        require(self, {"lines": ("a whole number of at least 2", type(self.lines) is int and self.lines >= 2)})

    @property
    def grain(self) -> Grain:
        """At least POINTS points of each side for every task, if tasks are as full as planned and have as much of one
        side as of the other. Where V is in bytes, or decides nothing, there are as many as `most` tasks need."""
        known = self.unit == "tuples" and not self.is_fixed
        wanted = self.fill * self.task_capacity / (2 * POINTS) if known else 1.0
        return Grain(most=max(POINTS * self.most, SAMPLE_POINTS), tuples=wanted)

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

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> Plan:
        points = self.points(items)
        if not sum(float(weights.sum()) for _, weights in points):
            return None
        front = front_of(report, points, items.alive, table.reach)
        if front is None:
            return self._areas(points, table, "any")
        load = self.load(items, table)[0]
        room, bound = self._room(load)
        full = load > bound
        if table.ranged and not full.any() and load.sum() > table.instances * room.wanted / RESERVE:
            return Stay("codes grow: the tasks that are empty yet are for the codes to come")
        if table.ranged and in_rows(table) and full.sum() <= 1 and table.instances < self.most:
            return extended(table, points, front, room)
        seen = self._areas(points, table, "rows")
        made = extended(seen, points, front, room)
        new = (-1,) * (made.instances - seen.instances)
        follows = (
            None if seen.follows is None or seen is table else Succession(seen.follows.table, (*seen.follows.of, *new))
        )
        return table if made is table else replace(made, version=table.version + 1, follows=follows)

    def _room(self, load: F64) -> tuple[Room, float]:
        """What tasks are to hold where codes grow, and above what they are too full. Where the number of tasks is
        fixed, they hold what there is, evenly."""
        if self.is_fixed:
            return Room(float(load.mean()), inf, self.most), EVEN * float(load.mean())
        return Room(self.fill * self.task_capacity, self.task_capacity, self.most), self.high * self.task_capacity

    def _areas(self, points: Points, table: RoutingTable, cut: Cut) -> RoutingTable:
        """The table for the codes seen."""
        total = sum(volumes(points))
        wanted = max(min(self.fill * self.task_capacity, total / self.least), total / self.most)
        search = _Search(table, points, cut, self.lines, wanted)
        offers = search.celled(*self.made_for(search.offers, search.floor))
        fewest = min(map(_tasks, offers))
        few = min(NEARLY * fewest, max(self.most, fewest))
        some = [filled(offer, self.least, points) for offer in offers if _tasks(offer) <= few]
        return min((fitting(table, offer, points) for offer in some), key=lambda fit: fit.moved).table


Cut = Literal["any", "rows"]
"""Which areas are looked for: any, or only those that are cut by rows."""


def schemes_for(tasks: Tasks, fine: Matrix, coarse: Matrix, enough: float) -> list[Scheme]:
    """Slabs of each side, on the fine matrix. If they need more than `enough` tasks, also the areas of Alg. 2, on the
    coarse one."""
    found = [slabs(fine, tasks, side) for side in (0, 1)]
    return found if min(plan.tasks for plan in found) <= enough else [*found, partition(coarse, tasks)]


class _Search:
    """The schemes for one table and one set of points, for any capacity. The matrices are made once: `fine` has a cut
    at every point, as far as tasks of the wanted capacity can use them, `coarse` has few."""

    def __init__(self, table: RoutingTable, points: Points, cut: Cut, lines: int, wanted: float) -> None:
        self._volumes, self._cut = volumes(points), cut
        self.floor = floor_of(points, table.reach)
        now = tuple(region.takes for region in table.regions if isinstance(region.takes, Ranges))
        self._now = now if cut == "any" or in_rows(table) else ()
        self._bound = table.reach != EVERYTHING
        if self._bound:
            ends = {end for area in self._now for side in (area.rows, area.columns) for end in (side.low, side.high)}
            kept = tuple(end for end in ends if end is not None)
            many = ceil(2 * POINTS * sum(self._volumes) / wanted)
            self._coarse = matrix_of(points, table.reach, lines, kept if len(kept) <= lines else ())
            self._fine = matrix_of(points, table.reach, min(max(lines, many), MOST_LINES), kept)

    def offers(self, capacity: float, enough: int) -> tuple[int, tuple[float, list[tuple[Ranges, ...]]]]:
        """The fewest tasks of this capacity, and schemes as areas: those there are, slabs of each side, and, where
        these are not yet few, what Alg. 2 finds. No area is one grid over everything. `enough` tasks are few."""
        tasks = partial(varietal_tasks, capacity=capacity)
        (fewest,), _ = tasks(*(np.array([volume]) for volume in self._volumes))
        if not self._bound:
            return int(fewest), (capacity, [()])
        if self._cut == "rows":
            plans = [slabs(self._fine, tasks, 0)]
        else:
            few = max(CLOSE * ceil(self.floor.tasks(capacity)), enough)
            plans = schemes_for(tasks, self._fine, self._coarse, few)
        now, _ = tasks(*self._fine.all_volumes(self._now))
        counts = [fewest, *(plan.tasks for plan in plans), *([now.sum()] if self._now else [])]
        schemes = [self._now, *(plan.areas for plan in plans)]
        return int(min(counts)), (capacity, [areas for areas in schemes if len(areas) > 1] + [()])

    def celled(self, capacity: float, schemes: list[tuple[Ranges, ...]]) -> list[list[Area]]:
        """The schemes with the cells of their areas."""
        grid = [Area(None, cells(*self._volumes, capacity))]
        return [self._celled(capacity, areas) if areas else grid for areas in schemes]

    def _celled(self, capacity: float, areas: tuple[Ranges, ...]) -> list[Area]:
        rows, columns = self._fine.all_volumes(areas).tolist()
        return [Area(area, cells(r, c, capacity)) for area, r, c in zip(areas, rows, columns, strict=True)]


def _tasks(offer: list[Area]) -> int:
    return sum(area.scheme.tasks for area in offer)
