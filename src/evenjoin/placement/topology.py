"""How the units of one region are laid out over instances.

Every topology says the same thing in its own words: for each side, the range of `u` is cut into *slots*, and a
tuple whose `u` falls into a slot goes to the slot's targets, each an instance with a role.

    Biclique, R units on 0 and 1, S units on 2        Grid 2 x 2 over cells 0 1 / 2 3
      r: slot 1/2 -> store 0, probe 2                   r: slot 1/2 -> store+probe 0, 1     (a row)
         slot 1/2 -> store 1, probe 2                      slot 1/2 -> store+probe 2, 3
      s: slot 1   -> store 2, probe 0, 1                s: slot 1/2 -> store+probe 0, 2     (a column)
                                                           slot 1/2 -> store+probe 1, 3

Invariant (decided by placement/check.py, for any topology): for each pair of slots of two sides exactly one
instance stores the first and is probed by the second, and the other way round.
Does not know which tuples it gets: that is the region's affair.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import Any


class Role(IntFlag):
    """What a tuple does at an instance."""

    STORE = 1
    PROBE = 2
    BOTH = 3


@dataclass(frozen=True, slots=True)
class Slot:
    """A share of the range of `u` and where its tuples go."""

    weight: float
    targets: tuple[tuple[int, Role], ...]


@dataclass(frozen=True, slots=True)
class Biclique:
    """Each side has units; a tuple is stored on one unit of its side and probes every unit of the others.

    `units[side]` are the instances that host the side's units. `weights[side]` are the shares of the units
    (D-JB's split keys); absent means even.
    """

    units: tuple[tuple[int, ...], ...]
    weights: tuple[tuple[float, ...], ...] | None = None

    def slots(self, side: int) -> tuple[Slot, ...]:
        probed = [unit for other, units in enumerate(self.units) if other != side for unit in units]
        own = self.units[side]
        shares = self.weights[side] if self.weights is not None else (1.0,) * len(own)
        return tuple(
            Slot(share, _merged([(unit, Role.STORE), *((p, Role.PROBE) for p in probed)]))
            for unit, share in zip(own, shares, strict=True)
        )

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"kind": "biclique", "units": [list(units) for units in self.units]}
        if self.weights is not None:
            out["weights"] = [list(weights) for weights in self.weights]
        return out


@dataclass(frozen=True, slots=True)
class Grid:
    """A matrix of cells: side 0 takes a row, side 1 a column, and both store and probe in every cell of it."""

    rows: int
    columns: int
    cells: tuple[int, ...]

    def slots(self, side: int) -> tuple[Slot, ...]:
        lines = self.rows if side == 0 else self.columns
        return tuple(Slot(1.0, _merged([(cell, Role.BOTH) for cell in self._line(side, i)])) for i in range(lines))

    def _line(self, side: int, index: int) -> tuple[int, ...]:
        if side == 0:
            return self.cells[index * self.columns : (index + 1) * self.columns]
        return self.cells[index :: self.columns]

    def to_json(self) -> dict[str, Any]:
        return {"kind": "grid", "rows": self.rows, "columns": self.columns, "cells": list(self.cells)}


Topology = Biclique | Grid


def topology_from_json(data: dict[str, Any]) -> Topology:
    if data["kind"] == "grid":
        return Grid(data["rows"], data["columns"], tuple(data["cells"]))
    weights = data.get("weights")
    return Biclique(tuple(map(tuple, data["units"])), tuple(map(tuple, weights)) if weights else None)


def _merged(targets: list[tuple[int, Role]]) -> tuple[tuple[int, Role], ...]:
    """Messages for the same instance become one: their roles are OR-ed."""
    roles: dict[int, Role] = {}
    for instance, role in targets:
        roles[instance] = roles.get(instance, Role(0)) | role
    return tuple(roles.items())
