"""Square, a baseline of A-DSP (Sec. 5.1): one grid of ceil(|R| / V_h) x ceil(|S| / V_h) tasks (eq. 9), V_h = V / 2.

It does not look at codes. So it suits any condition, and pays for pairs that cannot match. It changes its scheme when a
task is above 80 % of V or the mean is below 50 %, with A-DSP's own mapping and alignment (Sec. 5.5).
Not here: when a plan is called for (sized.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from evenjoin.load.adsp import square_lines
from evenjoin.load.items import Items
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import RoutingTable
from evenjoin.strategies.adsp.cells import Scheme
from evenjoin.strategies.adsp.mapping import Area, fitted
from evenjoin.strategies.base import register
from evenjoin.strategies.sized import Sized, volumes


@register("square")
@dataclass(frozen=True, slots=True)
class Square(Sized):
    """One grid, by eq. 9."""

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> RoutingTable | None:
        points = items.alive
        if not points:
            return None
        volume = volumes(points)

        def offer(capacity: float) -> tuple[int, Scheme]:
            scheme = Scheme(*square_lines(*volume, capacity))
            return scheme.tasks, scheme

        return fitted(table, [Area(None, self.made_for(offer, points))], points)
