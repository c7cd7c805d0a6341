"""BiStream+Tree as one program: two sides are joined, and their pairs with the third (TriJoin Sec. 1, Fig. 1).

    hop 0    a: T(b) -> pairs, sent        b: T(a) -> pairs, sent
    hop 1    pairs: T(c) -> results        c: pairs, old and new -> results

The pairs are a group of their own, the paper's I_RS: they have units, are placed by a position of their own, stored and
probed like the tuples of a side. Everything of the third side happens at hop 1. With its probes at hop 0, results of
this batch's pairs would be lost; that is the waiting that TriJoin avoids.

There is one commit and one watermark, where two joins in a row would have two of each.
Pure. Not here: which tables bring the groups together (strategies/tree.py).
"""

from __future__ import annotations

from evenjoin.errors import SpecError
from evenjoin.instance.program import Path, Program, Send, Step, Store, checks_between
from evenjoin.spec import JoinSpec
from evenjoin.spec.graph import View

_BEST_FIRST = ("equal", "band", "none")
PAIRS = 3
"""The number of the store of pairs, and of their group."""


def tree(spec: JoinSpec, third: str = "") -> Program:
    """The program in which the side of this number is the third; by default the one that leaves the best edge between
    the other two."""
    c = third_of(spec) if not third else int(third)
    a, b = (side for side in range(3) if side != c)
    hub, member = sorted((a, b), key=lambda side: _rank(spec, side, c))
    clock = member if spec.wait(hub, c) is None and spec.wait(member, c) is not None else hub
    order = (a, b, c)
    sides = {
        side: Store((side,), side, order.index(side), spec.sides[side].horizon, hop=int(side == c)) for side in order
    }
    pairs = Store((hub, member), PAIRS, 1, spec.wait(clock, c), clock, None, "paired", hop=1)
    send = Send(PAIRS, PAIRS, "placed")
    return Program(
        order,
        (sides[0], sides[1], sides[2], pairs),
        (
            Path(a, (Step(b, _view(spec, a, b)),), send=send),
            Path(b, (Step(a, _view(spec, b, a)),), send=send),
            Path(PAIRS, (Step(c, _view(spec, hub, c), checks_between(spec, member, c)),), hop=1),
            Path(c, (Step(PAIRS, _view(spec, c, hub), checks_between(spec, c, member)),), hop=1),
        ),
        "pairs",
        ((a, b), (c, PAIRS)),
    )


def third_of(spec: JoinSpec) -> int:
    """The side to be joined last: the one without which the best edge is left."""
    if len(spec.sides) != 3:
        raise SpecError(f"tree joins three sides, not {len(spec.sides)}; use 'hash' or 'hypercube'")
    best = min(spec.edges, key=lambda edge: _BEST_FIRST.index(edge.drive))
    (third,) = {0, 1, 2} - set(best.sides)
    return third


def _rank(spec: JoinSpec, side: int, third: int) -> int:
    edge = spec.between(side, third)
    return len(_BEST_FIRST) if edge is None else _BEST_FIRST.index(edge.drive)


def _view(spec: JoinSpec, a: int, b: int) -> View:
    edge = spec.between(a, b)
    if edge is None:
        aliases = " and ".join(repr(spec.sides[side].alias) for side in (a, b))
        raise SpecError(f"tree: nothing in the condition is about {aliases} alone; choose another last side")
    return edge.seen_from(a)
