"""The graph of three and more sides: which edges there are, what drives each, and what it checks.

    r.k = s.k AND s.k = t.k         a common key: every two sides have an edge, by index 0 of each
    r.a = s.a AND s.b = t.b         a chain: s has two indexes, and r and t have no edge
    r.a = s.a AND abs(s.x - t.x) <= 5 AND r.v <> t.v        drives equal, band and none

* The classes of equal expressions (classes.py) that cover all sides are the common key. With one, every edge is
  driven by it; other equalities are checked pair by pair. Without one, an edge is driven by all classes that both its
  sides are in, else by the best range between them (band.py), else by nothing.
* Ranges of event times never drive. They bound the edge's times, and the bounds of all edges together may bound them
  further (`tightened` in graph.py). No edge is added for that.
* Sides that only a conjunct of three sides connects get an edge that says nothing, from the first side to theirs: a
  path through all sides must always exist.
* The indexes of a side come in this order: those of equalities, those of bands, then the one without expressions,
  where an edge is driven by nothing.
* With a window every edge has the bounds 0 .. 0, because the time of a tuple is then the start of its window. Ranges of
  the event times themselves are checked pair by pair.

Invariant: each conjunct is enforced by its edge or stands in the residual of the edge or the join.
Not here: joins of two sides (two_sides.py), which may be ordered by something other than the event time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from evenjoin.errors import SpecError
from evenjoin.spec.band import Band, choose_band
from evenjoin.spec.classes import EqualClass, equal_classes
from evenjoin.spec.condition import Condition, Key, Range
from evenjoin.spec.event_time import EventTimes
from evenjoin.spec.expr import Expr, conjunction
from evenjoin.spec.graph import EVERYTHING, Drive, Edge, Graph, Index, tightened
from evenjoin.spec.order import event_order, time_bound
from evenjoin.spec.scope import WINDOW, Scope

Pair = tuple[int, int]
_BEST_FIRST = ("equal", "band", "none")


@dataclass(frozen=True, slots=True)
class _Link:
    """An edge before its indexes have numbers and its residual is known. `used` are the keys and ranges it enforces."""

    sides: Pair
    drive: Drive
    indexes: tuple[Index, Index]
    band: Band | None
    low: int | None
    high: int | None
    used: tuple[Key | Range, ...]


def many_sided(condition: Condition, times: EventTimes, scope: Scope) -> Graph:
    """The graph of a join of three or more sides."""
    _check_named(condition, scope)
    classes = equal_classes(condition.keys, scope)
    common = tuple(c for c in classes if c.covers(scope.aliases))
    sides = range(len(scope.aliases))
    possible = [_link(pair, common or classes, condition, times, scope) for pair in combinations(sides, 2)]
    between, residual = _left_to_check(possible, condition, scope)
    links = _connected(possible, [link for link in possible if _says_something(link, between)], len(sides))
    indexes = tuple(_indexes(side, links) for side in sides)
    edges = tightened(len(sides), [_edge(link, indexes, between.get(link.sides, ())) for link in links])
    return Graph(indexes, event_order(times, scope), edges, conjunction(residual))


def _check_named(condition: Condition, scope: Scope) -> None:
    """Refuse a side that no conjunct mentions together with another one."""
    said = [*(scope.sides_of(c) for c in condition.conjuncts), *condition.elsewhere]
    several = [sides - {WINDOW} for sides in said if len(sides - {WINDOW}) > 1]
    for alias in scope.aliases:
        if not any(alias in sides for sides in several):
            raise SpecError(
                f"the condition says nothing about side {alias!r} and another side; add to on= what they have in common"
            )


def _link(pair: Pair, classes: Sequence[EqualClass], condition: Condition, times: EventTimes, scope: Scope) -> _Link:
    """What two sides can be driven by, and how far apart in time they are."""
    names = scope.aliases[pair[0]], scope.aliases[pair[1]]
    bound = time_bound(names, condition, times, scope)
    equal = [c for c in classes if c.covers(names)]
    keys = [key for key in condition.keys if key.sides == names]
    said = [key for key in keys if key.implied in bound.enforced or any(c.says(key) for c in equal)]
    used: tuple[Key | Range, ...] = (*said, *bound.enforced)
    if equal:
        return _Link(pair, "equal", (_key(names[0], equal), _key(names[1], equal)), None, bound.low, bound.high, used)
    ranges = [r for r in condition.ranges if r.sides == names and r not in bound.about]
    drive = choose_band(ranges, (None, None), scope)
    if drive is None:
        return _Link(pair, "none", (EVERYTHING, EVERYTHING), None, bound.low, bound.high, used)
    one, two = (Index((key,), (drive.type,), (False,)) for key in drive.keys)
    return _Link(pair, "band", (one, two), drive.band, bound.low, bound.high, (*used, *drive.enforced))


def _key(alias: str, classes: Sequence[EqualClass]) -> Index:
    """A side's keys in these classes."""
    return Index(
        tuple(c.keys[alias] for c in classes),
        tuple(c.type for c in classes),
        tuple(c.null_safe for c in classes),
    )


def _left_to_check(
    links: Sequence[_Link], condition: Condition, scope: Scope
) -> tuple[dict[Pair, list[Expr]], list[Expr]]:
    """The conjuncts that nothing enforces: of two sides, by pair; and of more, or of a side and its window."""
    between: dict[Pair, list[Expr]] = {}
    residual: list[Expr] = []
    for conjunct in condition.left_to_check([part for link in links for part in link.used]):
        sides = scope.sides_of(conjunct)
        if len(sides) == 2 and WINDOW not in sides:
            a, b = sorted(map(scope.aliases.index, sides))
            between.setdefault((a, b), []).append(conjunct)
        else:
            residual.append(conjunct)
    return between, residual


def _says_something(link: _Link, between: dict[Pair, list[Expr]]) -> bool:
    return link.drive != "none" or bool(link.used) or link.sides in between


def _connected(possible: Sequence[_Link], links: Iterable[_Link], sides: int) -> list[_Link]:
    """The links, and one from the first side to each part of the graph that none of them leads to."""
    out = {link.sides: link for link in links}
    reached = _reached(out)
    for link in possible[: sides - 1]:  # those of the first side
        if link.sides[1] not in reached:
            out[link.sides] = link
            reached = _reached(out)
    return [out[pair] for pair in sorted(out)]


def _reached(pairs: Iterable[Pair]) -> set[int]:
    """The sides that these pairs connect with the first one."""
    reached, rest = {0}, list(pairs)
    while near := [pair for pair in rest if not reached.isdisjoint(pair)]:
        reached.update(*near)
        rest = [pair for pair in rest if pair not in near]
    return reached


def _indexes(side: int, links: Sequence[_Link]) -> tuple[Index, ...]:
    """The different indexes that the links of a side compare; see the top of this file for their order."""
    mine = sorted((link for link in links if side in link.sides), key=lambda link: _BEST_FIRST.index(link.drive))
    return tuple(dict.fromkeys(link.indexes[link.sides.index(side)] for link in mine))


def _edge(link: _Link, indexes: Sequence[Sequence[Index]], residual: Sequence[Expr]) -> Edge:
    a, b = (indexes[side].index(index) for side, index in zip(link.sides, link.indexes, strict=True))
    return Edge(link.sides, link.drive, (a, b), link.band, link.low, link.high, conjunction(residual))
