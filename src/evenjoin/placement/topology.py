"""Topologies: how the units of one region lie on instances.

Every topology answers one question, `slots(side)`. It cuts the range of `u` into *slots*. A tuple of the side whose `u`
falls into a slot goes to the slot's targets, each of which is an instance with a role.

    Biclique, R units on 0 and 1, S units on 2        Grid 2 x 2 over cells 0 1 / 2 3
      r: slot 1/2 -> store 0, probe 2                   r: slot 1/2 -> store+probe 0, 1     (a row)
         slot 1/2 -> store 1, probe 2                      slot 1/2 -> store+probe 2, 3
      s: slot 1   -> store 2, probe 0, 1                s: slot 1/2 -> store+probe 0, 2     (a column)
                                                           slot 1/2 -> store+probe 1, 3

A third topology, the Cube, joins any number of sides and may look at codes too (cube.py).

Invariant (decided by placement/check.py, for any topology): for each pair of slots of two sides exactly one
instance stores the first and is probed by the second, and the other way round.
Pure values. Not here: which tuples a topology gets, which its region says (table.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

from evenjoin.placement.cube import Cube
from evenjoin.placement.slots import WHOLE, Division, Role, Slot, even_division

__all__ = [
    "WHOLE",
    "Biclique",
    "Cube",
    "Division",
    "Grid",
    "Meets",
    "Role",
    "Slot",
    "Topology",
    "even_division",
    "meets_from_json",
    "pairs_of",
    "renumbered",
    "topology_from_json",
]


Meets = tuple[tuple[int, int], ...] | None
"""The pairs of groups (a < b, ascending) whose tuples meet; None: every two groups do."""


def pairs_of(meets: Meets, groups: int) -> tuple[tuple[int, int], ...]:
    """The pairs that `meets` stands for."""
    return tuple(combinations(range(groups), 2)) if meets is None else meets


@dataclass(frozen=True, slots=True)
class Biclique:
    """Each group has units; a tuple is stored on one unit of its group and probes every unit of the groups it meets.

    `units[group]` are the instances that host the group's units. `weights[group]` are the shares of these units (D-JB's
    split keys); None: all units have the same share. A unit that is named several times has as many pieces of the range
    of `u`, each with its own weight, and is still one unit: a split key that gets other weights can so leave each unit
    what it has (strategies/djb/division.py). `meets` lists the pairs of groups (a < b) that meet; None: all do.
    """

    units: tuple[tuple[int, ...], ...]
    weights: tuple[tuple[float, ...], ...] | None = None
    meets: Meets = None

    def slots(self, group: int) -> tuple[Slot, ...]:
        met: Sequence[int] = [other for other in range(len(self.units)) if other != group]
        if self.meets is not None:
            met = sorted({one for pair in self.meets if group in pair for one in pair} - {group})
        probed = dict.fromkeys((unit for other in met for unit in self.units[other]), Role.PROBE)
        own = self.units[group]
        shares = self.weights[group] if self.weights is not None else (1.0,) * len(own)
        return tuple(Slot(share, _stored_at(unit, probed)) for unit, share in zip(own, shares, strict=True))

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"kind": "biclique", "units": [list(units) for units in self.units]}
        if self.weights is not None:
            out["weights"] = [list(weights) for weights in self.weights]
        if self.meets is not None:
            out["meets"] = [list(pair) for pair in self.meets]
        return out


@dataclass(frozen=True, slots=True)
class Grid:
    """A matrix of cells, each an instance. A tuple of side 0 takes a row, one of side 1 a column. It stores and probes
    in every cell of its line.

    A *varietal* grid (A-DSP, Sec. 3.1, Fig. 4) has one more line, the adjustive one, of fewer cells (`extra`). If it is
    a row, side 1 is the primary stream: its tuples are in a cell of each regular row and in one of the extra cells.

        <1, 2, 1, row> over cells 0 1, extra 2       r: slot 0.72 -> 0, 1     s: slot 1/2 -> 0, 2
                                                        slot 0.28 -> 2           slot 1/2 -> 1, 2

    `divisions` cut the range of `u` three times: for the lines of side 0, for the lines of side 1, and for the primary
    stream over the extra cells. An empty division is even. The adjustive line is the last line of its side.
    """

    rows: int
    columns: int
    cells: tuple[int, ...]
    extra: tuple[int, ...] = ()
    along: Literal["row", "column"] = "row"
    divisions: tuple[Division, Division, Division] = ((), (), ())

    @property
    def primary(self) -> int:
        """The side whose tuples are spread over the extra cells. It has regular lines only."""
        return 1 if self.along == "row" else 0

    def lines(self, side: int) -> int:
        return (self.rows, self.columns)[side] + (1 if self.extra and side != self.primary else 0)

    def division(self, part: int) -> Division:
        """The division for side 0, for side 1, or (2) for the primary stream over the extra cells."""
        return self.divisions[part] or even_division(len(self.extra) if part == 2 else self.lines(part))

    def slots(self, side: int) -> tuple[Slot, ...]:
        own = self.division(side)
        if not self.extra or side != self.primary:
            return tuple(Slot(width, _both(self._line(side, line))) for line, width in own)
        return tuple(
            Slot(width, _both((*self._line(side, line), self.extra[cell])))
            for width, line, cell in _overlaid(own, self.division(2))
        )

    def _line(self, side: int, index: int) -> tuple[int, ...]:
        if index == (self.rows, self.columns)[side]:
            return self.extra
        if side == 0:
            return self.cells[index * self.columns : (index + 1) * self.columns]
        return self.cells[index :: self.columns]

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"kind": "grid", "rows": self.rows, "columns": self.columns, "cells": list(self.cells)}
        if self.extra:
            out["extra"] = list(self.extra)
        if self.along != "row":
            out["along"] = self.along
        if any(self.divisions):
            out["divisions"] = [[list(piece) for piece in division] for division in self.divisions]
        return out


def _overlaid(one: Division, two: Division) -> list[tuple[int, int, int]]:
    """The pieces that both divisions make together, in order: (width, line of `one`, line of `two`)."""
    out: list[tuple[int, int, int]] = []
    mine, theirs = [list(piece) for piece in one], [list(piece) for piece in two]
    while mine and theirs:
        width = min(mine[0][1], theirs[0][1])
        out.append((width, mine[0][0], theirs[0][0]))
        for pieces in (mine, theirs):
            pieces[0][1] -= width
            if not pieces[0][1]:
                del pieces[0]
    return out


def _stored_at(unit: int, probed: Mapping[int, Role]) -> tuple[tuple[int, Role], ...]:
    """The targets of tuples that are stored on a unit and probe some, each once. Roles are not OR-ed here: an `|` of
    enums takes longer than all else, and a table has thousands of slots."""
    targets = {unit: Role.STORE, **probed}
    if unit in probed:
        targets[unit] = Role.BOTH
    return tuple(targets.items())


def _both(cells: tuple[int, ...]) -> tuple[tuple[int, Role], ...]:
    return tuple((cell, Role.BOTH) for cell in dict.fromkeys(cells))


Topology = Biclique | Grid | Cube


def renumbered(topology: Topology, number: Sequence[int] | Mapping[int, int]) -> Topology:
    """The same topology on other instances: `number[i]` takes the place of instance i."""
    if isinstance(topology, Biclique):
        return replace(topology, units=tuple(tuple(number[unit] for unit in units) for units in topology.units))
    cells = tuple(number[cell] for cell in topology.cells)
    if isinstance(topology, Cube):
        return replace(topology, cells=cells)
    return replace(topology, cells=cells, extra=tuple(number[cell] for cell in topology.extra))


def topology_from_json(data: dict[str, Any]) -> Topology:
    if data["kind"] == "cube":
        return Cube.from_json(data)
    if data["kind"] == "grid":
        one, two, three = data.get("divisions", ((), (), ()))
        return Grid(
            data["rows"],
            data["columns"],
            tuple(data["cells"]),
            tuple(data.get("extra", ())),
            data.get("along", "row"),
            (tuple(map(tuple, one)), tuple(map(tuple, two)), tuple(map(tuple, three))),
        )
    weights = data.get("weights")
    return Biclique(
        tuple(map(tuple, data["units"])), tuple(map(tuple, weights)) if weights else None, meets_from_json(data)
    )


def meets_from_json(data: dict[str, Any]) -> Meets:
    """What `to_json` of a Biclique or a table says of its `meets`."""
    return tuple((a, b) for a, b in data["meets"]) if "meets" in data else None
