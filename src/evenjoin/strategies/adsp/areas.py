"""From the ordered matrix to areas: A-DSP's area dichotomy (Sec. 3.2, Def. 5 and 6, Alg. 2).

An area is split in two, by a row or by a column, and each part is cut down to what its own rows (columns) may match:

    . . . .            rows above the split keep the columns they reach,      # # # .
    # # # .            rows below it theirs: the parts share columns          # # # .
    # # # #     ->     (their tuples are copied), never cells          ->       - - - -
      # # #                                                                   . # # #
        # #                                                                   .   # #

The paper tries all pairs of corners, but only these splits matter. Candidate cells are monotone: no result at a cell
means none towards one of the off-diagonal corners. So for a given last row of the first part every wider first part,
and every wider rest, only adds cells without results. That leaves one split per row and one per column.

Termination (Def. 6): a split is followed only if its parts need fewer tasks than the area. Of all plans found this way
the one with the fewest tasks counts, and of equal ones the one with the least memory (eq. 1). The printed Def. 6 has
its inequality the wrong way round; line 7 of Alg. 2 and the text say this.

Cost: an area that is reached by different splits is planned once. The paper follows every such split, which is still
O((rows * columns)^2) areas. Here only the FOLLOWED most promising splits of an area are followed, and on each side the
one that peels off as much as one task can hold; of a large area (MANY) only the best one. `follow=None` follows all.
On random matrices of 14 lines that saves one task in eighty and takes 17 times as long; with more lines it takes
minutes.

Invariant: the areas of a plan cover every pair within the reach exactly once and no pair twice, whatever codes come.
Not here: the cells of an area (cells.py), and which instances they are (mapping.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from evenjoin.load.adsp import Matrix
from evenjoin.load.items import F64
from evenjoin.placement.ranges import ACROSS, Interval, Ranges, Reach

Tasks = Callable[[F64, F64], tuple[F64, F64]]
"""Takes volumes |ca^r|, |ca^s| (arrays of one shape) and gives the tasks needed and the memory taken (eq. 1), by eq. 9
or Alg. 1."""


Rule = Literal["terminate", "exhaust"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Areas, and the tasks and the memory that they need together."""

    tasks: int
    memory: float
    areas: tuple[Ranges, ...]


FOLLOWED = 3
"""How many splits of an area are followed: those whose parts need the fewest tasks as they are, then the least
memory."""
MANY = 64
"""Of an area that needs more tasks than this only the best split is followed; its parts are looked at more closely."""


def partition(matrix: Matrix, tasks: Tasks, follow: int | None = FOLLOWED, rule: Rule = "terminate") -> Plan:
    """Alg. 2. With `rule` "exhaust" it is eq. 14: splits are followed even if their parts need more tasks at first."""
    return _Partition(matrix, tasks, follow, rule).best(Ranges())


def dichotomy(area: Ranges, side: int, at: int, reach: Reach) -> tuple[Ranges, ...]:
    """The parts of an area below code `at` of a side, and from it on. A part in which nothing may match is left out."""
    own = area.side(side)
    parts = []
    for half in (Interval.between(own.first, at - 1), Interval.between(at, own.last)):
        near = reach.columns_of(half) if side == 0 else reach.rows_of(half)
        other = _common(area.side(ACROSS[side]), near)
        if other is not None:
            parts.append(Ranges(half, other) if side == 0 else Ranges(other, half))
    return tuple(parts)


def _common(one: Interval, two: Interval) -> Interval | None:
    first, last = max(one.first, two.first), min(one.last, two.last)
    return Interval.between(first, last) if first <= last else None


class _Cut(NamedTuple):
    """A split of an area at code `at` of a side, and the tasks and the memory that each part needs unsplit."""

    side: int
    at: int
    sizes: tuple[tuple[float, float], tuple[float, float]]


class _Partition:
    """One execution of Alg. 2. It remembers the areas planned so far."""

    def __init__(self, matrix: Matrix, tasks: Tasks, follow: int | None, rule: Rule) -> None:
        self._matrix, self._tasks, self._follow, self._rule = matrix, tasks, follow, rule
        self._known: dict[Ranges, Plan] = {}

    def best(self, area: Ranges, whole: tuple[float, float] | None = None) -> Plan:
        """The plan of an area; `whole` are the tasks and the memory that it needs unsplit, if they are known."""
        if area not in self._known:
            self._known[area] = self._planned(area, whole or self._unsplit(area))
        return self._known[area]

    def _unsplit(self, area: Ranges) -> tuple[float, float]:
        rows, columns = self._matrix.volumes(area)
        (needed,), (taken,) = self._tasks(np.array([rows]), np.array([columns]))
        return needed, taken

    def _planned(self, area: Ranges, unsplit: tuple[float, float]) -> Plan:
        whole = best = Plan(int(unsplit[0]), float(unsplit[1]), (area,))
        for side, at, sizes in self._splits(area, whole.tasks):
            parts = dichotomy(area, side, at, self._matrix.reach)
            known = sizes if len(parts) == 2 else [None] * len(parts)
            plans = [self.best(part, size) for part, size in zip(parts, known, strict=True)]
            offer = Plan(
                sum(p.tasks for p in plans), sum(p.memory for p in plans), tuple(a for p in plans for a in p.areas)
            )
            if offer.tasks < whole.tasks and (offer.tasks, offer.memory) < (best.tasks, best.memory):
                best = offer
        return best

    def _splits(self, area: Ranges, whole: int) -> list[_Cut]:
        """The splits to follow, the most promising first."""
        if whole == 1:
            return []
        found = [self._matrix.splits(area, side) for side in (0, 1)]
        cuts = np.concatenate([at for at, _ in found])
        sides = np.repeat([0, 1], [len(at) for at, _ in found])
        rows, columns = np.concatenate([volumes for _, volumes in found], axis=2)
        both, taken = self._tasks(rows, columns)
        first, needed = both[0], both.sum(axis=0)
        order = np.lexsort((taken.sum(axis=0), needed))
        if self._rule == "terminate":
            order = order[needed[order] < whole]
        if self._follow is not None:
            if whole > MANY:
                order = order[:1]
            single = order[first[order] == 1]
            peels = [some[np.argmax(cuts[some])] for side in (0, 1) if len(some := single[sides[single] == side])]
            order = np.array(list(dict.fromkeys([*order[: self._follow], *peels])), np.int64)
        sizes = np.stack([both[:, order], taken[:, order]]).T.tolist()  # [splits, parts, (tasks, memory)]
        return [
            _Cut(side, at, ((one[0], one[1]), (two[0], two[1])))
            for side, at, (one, two) in zip(sides[order].tolist(), cuts[order].tolist(), sizes, strict=True)
        ]
