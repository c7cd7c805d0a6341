"""Links: which codes of two sides may match, by any of their indexes. What a cube's dims are checked against.

    r.a = s.a                       Link((r, s), (0, 0), 0, 0)          equal codes
    s.b BETWEEN t.b - 2 AND t.b     Link((s, t), (1, 0), 0, 2)          low <= code of t - code of s <= high
    r.c < t.c                       Link((r, t), (1, 1), 1, None)

A link is the part of an edge of the join graph that can be told in codes. An edge without one (`<>`, `r.x + 1 < s.x` of
floats, times only) has no link: then all codes may match.

Links are difference constraints on *nodes*, a node being an index of a side. What they imply together is a shortest
path, so two sides may be bound to each other that no edge connects:

    r.x = s.x  and  s.x BETWEEN t.y - 2 AND t.y + 2     =>     -2 <= code of t.y - code of r.x <= 2

Guarantee: the codes of every result satisfy all bounds. Pure values; cost O(nodes^3).
Not here: how bounds of times are put together (spec/graph.py), which has nothing to do with codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from evenjoin.placement.ranges import Reach
from evenjoin.spec.graph import Edge

Node = tuple[int, int]
"""(side, number of one of its indexes)."""


@dataclass(frozen=True, slots=True)
class Link:
    """low <= code of sides[1] by index[1] - code of sides[0] by index[0] <= high; None is no bound."""

    sides: tuple[int, int]
    index: tuple[int, int]
    low: int | None = None
    high: int | None = None

    @property
    def nodes(self) -> tuple[Node, Node]:
        return (self.sides[0], self.index[0]), (self.sides[1], self.index[1])

    def to_json(self) -> list[Any]:
        return [list(self.sides), list(self.index), self.low, self.high]

    @classmethod
    def from_json(cls, data: list[Any]) -> Link:
        (a, b), (i, j), low, high = data
        return cls((a, b), (i, j), low, high)


def links_of(edges: Iterable[Edge]) -> tuple[Link, ...]:
    """What the edges of a join say of codes."""
    return tuple(Link(edge.sides, edge.index, *edge.reach) for edge in edges if edge.reach != (None, None))


class Bounds:
    """What links imply together."""

    def __init__(self, links: Sequence[Link]) -> None:
        self._most: dict[tuple[Node, Node], int] = {}
        for link in links:
            one, two = link.nodes
            self._tighten(one, two, link.high)
            self._tighten(two, one, None if link.low is None else -link.low)
        self.nodes = tuple(sorted({node for link in links for node in link.nodes}))
        for middle in self.nodes:
            for one in self.nodes:
                for two in self.nodes:
                    first, second = self._most.get((one, middle)), self._most.get((middle, two))
                    if len({one, two, middle}) == 3 and first is not None and second is not None:
                        self._tighten(one, two, first + second)

    def between(self, one: Node, two: Node) -> Reach:
        """The least and the greatest code of `two` - code of `one` in a result; None is no bound."""
        if one == two:
            return Reach(0, 0)
        back = self._most.get((two, one))
        return Reach(None if back is None else -back, self._most.get((one, two)))

    def linked(self, one: Node, two: Node) -> bool:
        """Whether anything bounds the difference of their codes."""
        return self.between(one, two) != Reach()

    def equal(self, one: Node, two: Node) -> bool:
        """Whether their codes are equal in every result."""
        return self.between(one, two) == Reach(0, 0)

    def _tighten(self, one: Node, two: Node, bound: int | None) -> None:
        if bound is not None:
            self._most[one, two] = min(bound, self._most.get((one, two), bound))
