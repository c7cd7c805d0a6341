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
from evenjoin.instance.program import Path, Program, Step, Store, checks_between
from evenjoin.instance.spreads import prove
from evenjoin.instance.tree import tree
from evenjoin.instance.trijoin import trijoin
from evenjoin.spec import JoinSpec
from evenjoin.spec.graph import Edge


def direct(spec: JoinSpec) -> Program:
    """Each side's new tuples probe the other sides one after the other; no intermediate result is kept.

    The next side is one that an edge connects with the sides already found. An edge with an equality is preferred, then
    one with a band, then one with neither; of equals the one that bounds times.
    """
    sides = range(len(spec.sides))
    return Program(
        order=tuple(sides),
        stores=tuple(Store((side,), side, side, spec.sides[side].horizon) for side in sides),
        paths=tuple(Path(side, tuple(_steps(spec, side))) for side in sides),
        meeting="pairs" if len(sides) == 2 else "together",
    )


_BEST_FIRST = ("equal", "band", "none")


def _rank(edge: Edge) -> tuple[int, int]:
    """The edge of the lowest rank is followed first: what drives it counts, then how many ends its time bounds lack."""
    return _BEST_FIRST.index(edge.drive), (edge.low is None) + (edge.high is None)


def _steps(spec: JoinSpec, source: int) -> Iterable[Step]:
    found = {source}
    while len(found) < len(spec.sides):
        leaving = [edge for edge in spec.edges if len(found & set(edge.sides)) == 1]
        best = min(leaving, key=_rank)
        (side,), (near,) = set(best.sides) - found, found & set(best.sides)
        others = [check for other in sorted(found - {near}) for check in checks_between(spec, other, side)]
        yield Step(side, best.seen_from(near), tuple(others))
        found.add(side)


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
