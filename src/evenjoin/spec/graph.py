"""The join graph: sides are its nodes, and an edge says what two sides must have in common.

    o.cell = t.cell AND t.ts BETWEEN o.ts - 10 AND o.ts AND o.fare < t.speed

    side o, index (o.cell)  ------------- edge ------------->  side t, index (t.cell)
                             drive     equal
                             low, high -10 .. 0     low <= time(t) - time(o) <= high
                             residual  o.fare < t.speed

* An `Index` is what a side's state can be sorted by, placed by and asked for. Index 0 is the order of its runs. With
  two sides there is one. With more a side has one for each set of expressions that its edges compare.
* An `Edge` holds everything that is checked between its two sides. `drive` is the part that a probe can use: equal
  codes, a band of codes, or nothing (`<>`, or times only); then every pair is looked at. Two sides have one edge at
  most, and the edges of a join connect all of its sides.
* A `View` is an edge as one of its sides sees it. `Edge.seen_from` is the only place where bounds change sign.

Time bounds are difference constraints, so bounds that follow from others are found by shortest paths (`closure`):

    d[x][y] = the largest time(y) - time(x) that a result can have, None where nothing bounds it
    a <= b <= a + 5  and  b <= c <= b + 7   =>   d[a][c] = 12, so `a` must wait 12 for `c` although no conjunct says so

Guarantee: a combination of tuples is a result exactly if every tuple passes its side's filter, every two of them
satisfy their edge, if they have one, and the residual of the whole join is TRUE. A tuple of side x is dead once
time + horizon <= watermark, with horizon = max over y of d[x][y].
Not here: which conjunct became what (two_sides.py, many_sides.py), the watermark, and everything that runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from evenjoin.spec.band import Band, mirrored
from evenjoin.spec.expr import Expr

Drive = Literal["equal", "band", "none"]
Bound = int | None
Closure = tuple[tuple[Bound, ...], ...]
"""`d[x][y]`: the largest time(y) - time(x) of a result; None is unbounded."""


@dataclass(frozen=True, slots=True)
class Index:
    """Expressions of one side whose values, as one code, sort and place its tuples.

    Without expressions but with a type the code is the start of the tuple's window; without both it is always 0.
    """

    exprs: tuple[Expr, ...]
    types: tuple[pa.DataType, ...]
    null_safe: tuple[bool, ...]

    @property
    def is_window(self) -> bool:
        """Whether the code is the start of the tuple's window."""
        return bool(self.types) and not self.exprs


EVERYTHING = Index((), (), ())
"""The index of an edge that nothing drives: all tuples have the code 0."""
WINDOW_START = Index((), (pa.int64(),), (False,))


@dataclass(frozen=True, slots=True)
class View:
    """An edge as `side` sees it: bounds are those of the other side's value minus this side's own."""

    side: int
    other: int
    drive: Drive
    index: tuple[int, int]
    band: Band | None
    low: Bound
    high: Bound
    residual: Expr | None

    @property
    def bounded(self) -> bool:
        """Whether the times of the two sides must be near each other."""
        return self.low is not None or self.high is not None

    @property
    def times_are_checks(self) -> bool:
        """Whether time bounds must be checked pair by pair. They must where a probe is a range of codes, because times
        are in order only within a code."""
        return self.bounded and self.band is not None and not self.band.on_time


@dataclass(frozen=True, slots=True)
class Edge:
    """What two sides a < b must have in common.

    `index` names the index of each side that the drive compares. `low` and `high` bound time(b) - time(a); None is no
    bound. `residual` is the rest of the condition between the two: what nothing else enforces.
    """

    sides: tuple[int, int]
    drive: Drive
    index: tuple[int, int]
    band: Band | None
    low: Bound
    high: Bound
    residual: Expr | None

    @property
    def bounded(self) -> bool:
        """Whether the times of the two sides must be near each other: then a tuple without a time matches nothing."""
        return self.low is not None or self.high is not None

    @property
    def reach(self) -> tuple[Bound, Bound]:
        """The least and the greatest code(b) - code(a) of a match; None where nothing bounds it in codes."""
        if self.drive == "equal":
            return 0, 0
        return (None, None) if self.band is None else self.band.reach

    def seen_from(self, side: int) -> View:
        """The edge as one of its sides sees it."""
        a, b = self.sides
        if side == a:
            return View(a, b, self.drive, self.index, self.band, self.low, self.high, self.residual)
        band = None if self.band is None else self.band.mirrored
        return View(b, a, self.drive, self.index[::-1], band, *mirrored(self.low, self.high), self.residual)


@dataclass(frozen=True, slots=True)
class Graph:
    """What a condition says of the sides and their edges. By side `indexes` and `orders`. `residual` is what reads
    three sides or more; what reads two is in their edge."""

    indexes: tuple[tuple[Index, ...], ...]
    orders: tuple[Expr | None, ...]
    edges: tuple[Edge, ...]
    residual: Expr | None


def closure(sides: int, edges: Sequence[Edge]) -> Closure:
    """The bounds that follow from all edges together: shortest paths over their `high` and `-low`. O(sides^3).

    Bounds that contradict each other leave no result. The closure is then meaningless, but finite.
    """
    d: list[list[Bound]] = [[0 if x == y else None for y in range(sides)] for x in range(sides)]
    for edge in edges:
        for view in map(edge.seen_from, edge.sides):
            d[view.side][view.other] = _less(d[view.side][view.other], view.high)
    for k in range(sides):
        for x in range(sides):
            for y in range(sides):
                first, second = d[x][k], d[k][y]
                if len({x, y, k}) == 3 and first is not None and second is not None:
                    d[x][y] = _less(d[x][y], first + second)
    return tuple(map(tuple, d))


def _less(one: Bound, two: Bound) -> Bound:
    return min((bound for bound in (one, two) if bound is not None), default=None)


def tightened(sides: int, edges: Sequence[Edge]) -> tuple[Edge, ...]:
    """The edges with bounds as narrow as all of them together allow."""
    d = closure(sides, edges)

    def narrow(edge: Edge) -> Edge:
        (a, b), least = edge.sides, d[edge.sides[1]][edge.sides[0]]
        return replace(edge, low=None if least is None else -least, high=d[a][b])

    return tuple(map(narrow, edges))
