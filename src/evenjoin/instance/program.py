"""Programs: what an instance keeps, and what its new tuples do with what is kept. Every join is one of these values.

    two sides, direct       stores T0, T1        paths   0: probe T1 -> results    1: probe T0 -> results
    three sides, direct     stores T0, T1, T2    paths   0: T1, then T2    1: T0, then T2    2: T0, then T1

A `Store` is something an instance keeps: here the tuples of a side. A `Path` says what the new tuples of one store do:
they follow its steps, each of which probes one store by one edge of the join graph. What has matched every step is a
result. No code that runs a program asks how many sides there are.

The order rule (invariant 2) is one comparison. Within a batch the sides count as arriving in the order `order`:

    a path whose source has `latest` = k sees all committed tuples of a store,
    and of this batch's tuples those of stores with `latest` < k

So of any combination exactly one member, the last to arrive, sees all the others, and each result is made once.
`meeting` says what a routing table must bring together for that: every two tuples that can match (`pairs`), or all
tuples of a combination at one instance (`together`). The engine states it on the table, and placement/check.py decides
whether the table keeps it.

Pure values. Not here: how a step is probed (follow.py), and where tuples are placed (placement/).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from evenjoin.errors import SpecError
from evenjoin.placement.table import Meeting
from evenjoin.spec import JoinSpec
from evenjoin.spec.graph import Edge, View


@dataclass(frozen=True, slots=True)
class Store:
    """Something an instance keeps. Its number in the program is the second half of a manifest's Place.

    covers    the sides whose tuples a row of it holds
    group     the group of the routing table by which its rows are placed
    latest    the position in `Program.order` of the last of those sides
    horizon   a row is dead once time + horizon <= watermark; None: never
    """

    covers: tuple[int, ...]
    group: int
    latest: int
    horizon: int | None


@dataclass(frozen=True, slots=True)
class Step:
    """Probe one store. `along` is the edge to probe by, as the side that is already found sees it. `checks` are the
    other edges between the store's side and the sides already found; every match must satisfy them as well."""

    store: int
    along: View
    checks: tuple[View, ...] = ()


@dataclass(frozen=True, slots=True)
class Path:
    """The new tuples of store `source` probe the stores of these steps, one after the other."""

    source: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """What an instance keeps and does; see the top of this file. `order` lists the sides in the order in which they
    count as arriving within a batch."""

    order: tuple[int, ...]
    stores: tuple[Store, ...]
    paths: tuple[Path, ...]
    meeting: Meeting


def direct(spec: JoinSpec) -> Program:
    """Each side's new tuples probe the other sides one after the other; no intermediate result is kept.

    The next side is one that an edge connects with the sides already found. An edge with an equality is preferred, then
    one with a band, then one with neither.
    """
    sides = range(len(spec.sides))
    return Program(
        order=tuple(sides),
        stores=tuple(Store((side,), side, side, spec.sides[side].horizon) for side in sides),
        paths=tuple(Path(side, tuple(_steps(spec.edges, side, len(sides)))) for side in sides),
        meeting="pairs" if len(sides) == 2 else "together",
    )


_BEST_FIRST = ("equal", "band", "none")


def _steps(edges: tuple[Edge, ...], source: int, sides: int) -> Iterable[Step]:
    found = {source}
    while len(found) < sides:
        leaving = [edge for edge in edges if len(found & set(edge.sides)) == 1]
        best = min(leaving, key=lambda edge: _BEST_FIRST.index(edge.drive))
        (side,) = set(best.sides) - found
        along, *checks = (_from(edge, found) for edge in [best, *leaving] if side in edge.sides)
        yield Step(side, along, tuple(view for view in checks if view != along))
        found.add(side)


def _from(edge: Edge, found: set[int]) -> View:
    """The edge, seen from the one of its sides that is already found."""
    (side,) = found & set(edge.sides)
    return edge.seen_from(side)


PROGRAMS: dict[str, Callable[[JoinSpec], Program]] = {"direct": direct}
"""How to make each program, by the name that a routing table carries (`RoutingTable.program`)."""


def program_of(spec: JoinSpec, name: str) -> Program:
    """The program of this name for a join."""
    if name not in PROGRAMS:
        raise SpecError(
            f"no program {name!r}; known: {', '.join(PROGRAMS)}. Was the checkpoint written by a newer one?"
        )
    return PROGRAMS[name](spec)
