"""Which programs there are, by the name that a routing table carries.

    direct                        each side's new tuples probe the others one after the other; nothing else is kept
    trijoin <packing> <forward>   TriJoin's two schemes (trijoin.py)
    tree <third>                  BiStream+Tree (tree.py)

Every program is proved when it is made: however the tuples of a combination are spread over batches, they give one
result (spreads.py). Pure. Not here: who chooses a program, which is a strategy (strategies/).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from evenjoin.errors import SpecError
from evenjoin.instance.program import Path, Program, Step, Store
from evenjoin.instance.spreads import prove
from evenjoin.instance.tree import tree
from evenjoin.instance.trijoin import trijoin
from evenjoin.spec import JoinSpec
from evenjoin.spec.graph import Edge, View


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


PROGRAMS: dict[str, Callable[..., Program]] = {"direct": direct, "trijoin": trijoin, "tree": tree}
"""How to make each program, given the join and the words that follow its name."""


def program_of(spec: JoinSpec, name: str) -> Program:
    """The program of this name for a join."""
    kind, *words = name.split()
    if kind not in PROGRAMS:
        raise SpecError(
            f"no program {name!r}; known: {', '.join(PROGRAMS)}. Was the checkpoint written by a newer one?"
        )
    return prove(PROGRAMS[kind](spec, *words), name)
