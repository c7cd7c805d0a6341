"""Programs: what an instance keeps, and what its new tuples do with what is kept. Every join is one of these values.

    two sides, direct       stores T0, T1        paths   0: probe T1 -> results    1: probe T0 -> results
    three sides, direct     stores T0, T1, T2    paths   0: T1, then T2    1: T0, then T2    2: T0, then T1

A `Store` is something an instance keeps: the tuples of a side, or packs, the intermediate results of two sides
(state/packs.py). A `Path` says what the new rows of one store do: they follow its steps, each of which probes one store
by one edge of the join graph. What has matched every step is a result, or a pack that is kept here (`into`) or sent to
other instances (`send`). No code that runs a program asks how many sides there are.

What is sent is read at the next *hop*, after one more shuffle. A store is written by one hop, and a side enters (is
stored and probes) at one hop.

The order rule (invariant 2) is one comparison. Within a batch the sides count as arriving in the order `order`:

    a path whose source has `latest` = k sees all committed rows of a store,
    and of this batch's rows those of stores with `latest` < k that its own hop writes

So of any combination exactly one member, the last to arrive, sees all the others, and each result is made once.
`meeting` says what a routing table must bring together for that: every two tuples that can match (`pairs`; `meets` says
of which groups), or all tuples of a combination at one instance (`together`). The engine states it on the table, and
placement/check.py decides whether the table keeps it. spreads.py decides whether a program makes each result once.

Pure values. Not here: which programs there are (programs.py), how a step is probed (follow.py), and where tuples are
placed (placement/).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from evenjoin.placement.table import Meeting
from evenjoin.spec import JoinSpec
from evenjoin.spec.graph import View
from evenjoin.state.packs import Packing, PackSchema, Schema
from evenjoin.state.tuples import TupleSchema


@dataclass(frozen=True, slots=True)
class Store:
    """Something an instance keeps. Its number in the program is the second half of a manifest's Place.

    covers    the sides whose tuples a row of it holds: one side, or (hub, member) of packs
    group     the group of the routing table by which its rows are placed
    latest    the position in `Program.order` of the last side that makes its rows
    horizon   a row is dead once time + horizon <= watermark; None: never
    clock     of packs: the side whose time that is
    anchor    of packs: the side whose tuple is stored where the pack is; None: pairs have units of their own
    packing   of packs: whether a hub has all its members in one pack, or a pack is a pair
    hop       the one hop that writes it
    """

    covers: tuple[int, ...]
    group: int
    latest: int
    horizon: int | None
    clock: int | None = None
    anchor: int | None = None
    packing: Packing = "packed"
    hop: int = 0

    @property
    def packs(self) -> bool:
        """Whether its rows are packs, not tuples of a side."""
        return len(self.covers) == 2


@dataclass(frozen=True, slots=True)
class Step:
    """Probe one store. `along` is the edge to probe by, as the side that is already found sees it; of packs it leads to
    the hub. `checks` are the other edges between the sides already found and those of the store; every match must
    satisfy them as well."""

    store: int
    along: View
    checks: tuple[View, ...] = ()


@dataclass(frozen=True, slots=True)
class Send:
    """Packs of a store for the next hop: placed as rows of the group, or sent to all units of the group to probe."""

    store: int
    group: int
    how: Literal["placed", "probe"]


@dataclass(frozen=True, slots=True)
class Path:
    """The new rows of store `source` probe the stores of these steps, one after the other. What they find is kept as
    packs of the store `into`, sent on, or both; with neither it is a result."""

    source: int
    steps: tuple[Step, ...]
    into: int | None = None
    send: Send | None = None
    hop: int = 0


class Hop(NamedTuple):
    """One hop of a program: the stores whose rows come to an instance there (of sides that enter, and of packs sent to
    it), and the paths that are followed."""

    entering: tuple[int, ...]
    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """What an instance keeps and does; see the top of this file.

    order    the sides in the order in which they count as arriving within a batch
    stores   stores 0 .. n-1 are the tuples of the n sides
    paths    sources that count as earlier come first
    meets    the pairs of groups whose rows must meet; None: all of them
    """

    order: tuple[int, ...]
    stores: tuple[Store, ...]
    paths: tuple[Path, ...]
    meeting: Meeting
    meets: tuple[tuple[int, int], ...] | None = None

    @property
    def hops(self) -> tuple[Hop, ...]:
        """The hops: one after dispatch, and one for each time packs are sent on."""
        return tuple(self._hop(hop) for hop in range(1 + max(path.hop for path in self.paths)))

    def _hop(self, hop: int) -> Hop:
        sides = [store for store in range(len(self.order)) if self.stores[store].hop == hop]
        sent = {path.send.store for path in self.paths if path.send is not None and path.hop == hop - 1}
        return Hop((*sides, *sorted(sent)), tuple(path for path in self.paths if path.hop == hop))


def checks_between(spec: JoinSpec, a: int, b: int) -> tuple[View, ...]:
    """What is left to check between two sides that were both found along other edges. Where all sides have a common
    key, equal keys follow from the edges that were taken, so only times and the residual are looked at."""
    edge = spec.between(a, b)
    if edge is None:
        return ()
    view = edge.seen_from(a)
    if not spec.equal_codes:
        return (view,)
    return (replace(view, drive="none"),) if view.bounded or view.residual is not None else ()


def store_schemas(spec: JoinSpec, program: Program, sides: Sequence[TupleSchema]) -> tuple[Schema, ...]:
    """By store, the columns of its rows. `sides` are those of the sides' tuples."""
    return tuple(_schema(spec, program.stores[number], sides) for number in range(len(program.stores)))


def _schema(spec: JoinSpec, store: Store, sides: Sequence[TupleSchema]) -> Schema:
    if not store.packs:
        return sides[store.covers[0]]
    hub, member = store.covers
    (third,) = set(range(len(sides))) - set(store.covers)
    edge = spec.between(hub, third)
    assert edge is not None
    anchored = {hub: "hub", member: "member", None: "both"}[store.anchor]
    index, clock = edge.seen_from(hub).index[0], "member" if store.clock == member else "hub"
    return PackSchema(sides[hub], sides[member], index, anchored, clock, store.packing)  # type: ignore[arg-type]
