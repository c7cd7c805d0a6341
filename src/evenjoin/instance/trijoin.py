"""TriJoin's two schemes as programs (Sec. 3.2). Nobody waits for intermediate results: packs stay where they are made.

The units of R, S and T store the tuples of their own side, and packs. `P(y@z)`, the paper's I_yK_Z, are the packs that
newcomers of y make with the tuples stored at a unit of z. They are kept at that unit.

**Cyclic** (Sec. 3.2.1, Fig. 4). Every two sides have an edge that drives. At a unit of z a newcomer x does two things:

    x: P(y@z) -> results         the pairs of the other two sides that are here already
    x: T(z)   -> P(x@z)          new packs, for those who come later

Of a triple the last tuple finds the pair of the other two, which exists once: at the unit that stored the earlier of
them. (The paper's text joins r with "I_sK_Si and I_tK_Ti"; it must be I_tK_Si and I_sK_Ti, as its figure has it.)

**Chain** e - m - f (Sec. 3.2.2, Fig. 5). The ends have no edge that drives between them. If an end comes last, it finds
the pair of the other two as above. If m comes last, its partners are stored at units of different groups. So the packs
that m makes at the units of e are also sent to all units of f, where they probe T(f) at the next hop:

    e: P(f@m), P(m@f) -> results     T(m) -> P(e@m)              f: the mirror image
    m: T(e) -> P(m@e), sent to f     T(f) -> P(m@f)              hop 1, P(m@e): T(f) -> results

* m counts as the first of its batch, wherever its alias stands. Then e and f of the same batch count as later and find
  m's packs themselves, and hop 1 reads committed tuples only.
* One direction is sent. The paper sends both, and every result whose last tuple is m would come twice.

The hub of a pack is the newcomer, but for P(e@m) and P(f@m): there it is the stored m, because an end has no condition
with the third side (Sec. 3.3).

Pure. Not here: which tables bring the groups together (strategies/trijoin.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import get_args

from evenjoin.errors import SpecError
from evenjoin.instance.program import Path, Program, Send, Step, Store, checks_between
from evenjoin.spec import JoinSpec
from evenjoin.spec.graph import View
from evenjoin.state.packs import Packing


def trijoin(spec: JoinSpec, packing: str = "packed", forward: str = "") -> Program:
    """The cyclic or the chain scheme, as the edges of the join ask for. `packing` is "packed" or "paired"; `forward` is
    the number of the end whose packs are sent on in a chain, by default the first."""
    if packing not in get_args(Packing):
        raise SpecError(f"trijoin: packing={packing!r} is not one of {', '.join(get_args(Packing))}")
    middle = middle_of(spec)
    if middle is None:
        return _Scheme(spec, packing, (0, 1, 2), None).cyclic()
    ends = [side for side in range(3) if side != middle]
    if forward and (not forward.isdigit() or int(forward) not in ends):
        raise SpecError(f"trijoin: forward must be one of the ends {' and '.join(_names(spec, ends))}")
    first = int(forward) if forward else ends[0]
    (other,) = set(ends) - {first}
    return _Scheme(spec, packing, (middle, *ends), middle).chain(middle, first, other)


def middle_of(spec: JoinSpec) -> int | None:
    """The middle side of a chain; None if the join is cyclic. SpecError if it is neither."""
    if len(spec.sides) != 3:
        raise SpecError(f"trijoin joins three sides, not {len(spec.sides)}; use 'hash' or 'hypercube'")
    driven = [edge.sides for edge in spec.edges if edge.drive != "none"]
    if len(driven) == 3:
        return None
    if len(driven) == 2:
        (middle,) = set(driven[0]) & set(driven[1])
        return middle
    lonely = [side for side in range(3) if not any(side in sides for sides in driven)]
    raise SpecError(
        f"trijoin: no equality and no range of the condition leads to side {' or '.join(_names(spec, lonely))}; "
        "use 'hypercube', or 'tree'"
    )


def _names(spec: JoinSpec, sides: Sequence[int]) -> list[str]:
    return [repr(spec.sides[side].alias) for side in sides]


class _Scheme:
    """One scheme for one join. The pack stores are numbered after the sides' own, in the order of `packs`."""

    def __init__(self, spec: JoinSpec, packing: str, order: tuple[int, ...], middle: int | None) -> None:
        self._spec, self._packing, self._order, self._middle = spec, packing, order, middle
        kept = [(y, z) for y, z in permutations(range(3), 2) if middle is None or middle in (y, z)]
        self._packs = {pair: 3 + number for number, pair in enumerate(kept)}

    def cyclic(self) -> Program:
        paths: list[Path] = []
        for x in self._order:
            others = [side for side in range(3) if side != x]
            paths += [self._results(x, y, z) for z in others for y in others if y != z]
            paths += [self._kept(x, z) for z in others]
        return self._program(paths)

    def chain(self, m: int, first: int, other: int) -> Program:
        """The chain first - m - other; the packs of m at the units of `first` are sent on to those of `other`."""
        sent = Send(self._packs[m, first], other, "probe")
        paths = [self._kept(m, first, sent), self._kept(m, other)]
        for x in self._order[1:]:
            (y,) = {first, other} - {x}
            paths += [self._results(x, y, m), self._results(x, m, y), self._kept(x, m)]
        steps = (Step(other, self._edge(m, other), checks_between(self._spec, first, other)),)
        return self._program([*paths, Path(self._packs[m, first], steps, hop=1)])

    def _program(self, paths: Sequence[Path]) -> Program:
        sides = tuple(
            Store((side,), side, self._order.index(side), self._spec.sides[side].horizon) for side in range(3)
        )
        packs = tuple(self._store(y, z) for y, z in self._packs)
        return Program(self._order, (*sides, *packs), tuple(paths), "pairs", ((0, 1), (0, 2), (1, 2)))

    def _store(self, y: int, z: int) -> Store:
        """P(y@z): by whom it expires is the hub, unless the third side says nothing about the hub's time."""
        hub, member = self._covers(y, z)
        (third,) = {0, 1, 2} - {y, z}
        clock = member if self._spec.wait(hub, third) is None and self._spec.wait(member, third) is not None else hub
        return Store(
            (hub, member),
            z,
            self._order.index(y),
            self._spec.wait(clock, third),
            clock,
            z,
            self._packing,  # type: ignore[arg-type]
        )

    def _covers(self, y: int, z: int) -> tuple[int, int]:
        """(hub, member) of P(y@z)."""
        return (z, y) if z == self._middle else (y, z)

    def _kept(self, x: int, z: int, send: Send | None = None) -> Path:
        """x: T(z) -> P(x@z)"""
        return Path(x, (Step(z, self._edge(x, z)),), self._packs[x, z], send)

    def _results(self, x: int, y: int, z: int) -> Path:
        """x: P(y@z) -> results"""
        hub, member = self._covers(y, z)
        return Path(x, (Step(self._packs[y, z], self._edge(x, hub), checks_between(self._spec, x, member)),))

    def _edge(self, a: int, b: int) -> View:
        edge = self._spec.between(a, b)
        assert edge is not None
        return edge.seen_from(a)
