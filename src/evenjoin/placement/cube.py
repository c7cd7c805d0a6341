"""The cube: a topology for any number of sides, whose dimensions are what the sides have in common.

    R(a, b)  S(b, c)  T(c, a)  on 8 instances: three hash dims a, b, c of size 2

    r has a coordinate of a and of b     it goes to the 2 cells (a, b, *)
    s has a coordinate of b and of c     it goes to the 2 cells (*, b, c)
    t has a coordinate of c and of a     it goes to the 2 cells (a, *, c)      they are together in the cell (a, b, c)

A cell is an instance, and a tuple is stored and probes in every cell it goes to. There are three kinds of dims:

    u       the tuples of one side, the owner, are divided by their `u`: for what no code separates
    hash    an equality: the sides that have its key are divided by a hash of the key's code
    range   a band: the owner's codes are cut into intervals; another side goes to all intervals within its reach

Along a dim the owner (of a hash dim: each side that has the key) has one coordinate, a side within reach of a range has
the contiguous range of coordinates that its partners may have, and any other side has all of them. So every kind is a
first and a last coordinate per tuple, and the cells of a tuple are the product over all dims.

Guarantee (proven of a cube by cube_check.py, from the links that the engine states): the tuples of a combination that
can match are together in exactly one cell, the one that the owners name. No combination is together in two.
Not guaranteed: that two sides alone meet once. They may be together in several cells, so a cube is for programs that
look for whole combinations (meeting `together`).

Two cubes differ in what they need to know. One with "u" dims only is a topology like any other, for any region and
number of sides: `Cube.divided(0, (3, 5))` splits a hot key by copying all sides but the first. One with hash or range
dims asks for codes, also by further indexes. It must be the table's one region, and `place` asks `spread` instead of
slots. Its slots are what `place` does in the long run if codes are even and bands narrow.

Pure arrays; `spread` costs O(messages * dims). Not here: which sizes and cuts are good (load/hypercube.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.content import scrambled
from evenjoin.kernels.hashing import I64, Codes, mix64
from evenjoin.kernels.runs import expand
from evenjoin.placement.ranges import FIRST_CODE, LAST_CODE, Reach
from evenjoin.placement.slots import Role, Slot, even_division

Coordinates = Literal["one", "near", "all"]
"""How many coordinates the tuples of a side have along a dim: one, those within reach, or all."""


@dataclass(frozen=True, slots=True)
class Dim:
    """A dimension of a cube.

    size     how many coordinates it has
    owner    the side that it divides; None for "hash", where all sides with the key are divided alike
    index    per side the index whose code decides; None: the side has all coordinates. Empty for "u"
    cuts     for "range", ascending: coordinate k has the owner's codes from cuts[k - 1] on, below cuts[k]
    reach    for "range", per side: what its code - the owner's code may be; None for the owner and for sides that have
             all coordinates
    """

    kind: Literal["u", "hash", "range"]
    size: int
    owner: int | None = None
    index: tuple[int | None, ...] = ()
    cuts: tuple[int, ...] = ()
    reach: tuple[Reach | None, ...] = ()

    def index_of(self, side: int) -> int | None:
        """The index whose code decides for a side."""
        return self.index[side] if side < len(self.index) else None

    def reach_of(self, side: int) -> Reach:
        """For "range": what the side's code - the owner's code may be."""
        if side == self.owner:
            return Reach(0, 0)
        return (self.reach[side] if side < len(self.reach) else None) or Reach()

    def takes(self, side: int) -> Coordinates:
        if self.kind == "u":
            return "one" if side == self.owner else "all"
        if self.index_of(side) is None:
            return "all"
        return "one" if self.kind == "hash" or side == self.owner else "near"

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"kind": self.kind, "size": self.size}
        if self.owner is not None:
            out["owner"] = self.owner
        if self.index:
            out["index"] = list(self.index)
        if self.kind == "range":
            out["cuts"] = list(self.cuts)
            out["reach"] = [None if one is None else [one.low, one.high] for one in self.reach]
        return out

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Dim:
        reach = tuple(None if one is None else Reach(*one) for one in data.get("reach", ()))
        return cls(
            data["kind"], data["size"], data.get("owner"), tuple(data.get("index", ())), tuple(data.get("cuts", ())),
            reach,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cube:
    """Dims, and the instance of each cell. The last dim's coordinate changes fastest from one cell to the next."""

    dims: tuple[Dim, ...]
    cells: tuple[int, ...]

    @classmethod
    def divided(cls, side: int, cells: tuple[int, ...]) -> Cube:
        """One side divided over these instances by `u`, the others copied to all of them."""
        return cls((Dim("u", len(cells), side),), cells)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(dim.size for dim in self.dims)

    @property
    def by_code(self) -> bool:
        """Whether codes decide where a tuple goes, and not only its `u`."""
        return any(dim.kind != "u" and dim.size > 1 for dim in self.dims)

    def slots(self, side: int) -> tuple[Slot, ...]:
        """One slot for each combination of coordinates that the side's tuples have; those of `u` change slowest."""
        lattice = np.array(self.cells, np.int64).reshape(self.sizes)
        own = [number for number, dim in enumerate(self.dims) if dim.takes(side) != "all"]
        own.sort(key=lambda number: self.dims[number].kind != "u")
        out = []
        for coordinates in product(*(even_division(self.dims[number].size) for number in own)):
            where: list[int | slice] = [slice(None)] * len(self.dims)
            for number, (coordinate, _) in zip(own, coordinates, strict=True):
                where[number] = coordinate
            weight = prod(width for _, width in coordinates)
            cells = np.atleast_1d(lattice[tuple(where)]).reshape(-1).tolist()
            out.append(Slot(weight, tuple((cell, Role.BOTH) for cell in cells)))
        return tuple(out)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "cube", "dims": [dim.to_json() for dim in self.dims], "cells": list(self.cells)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Cube:
        return cls(tuple(map(Dim.from_json, data["dims"])), tuple(data["cells"]))


def spread(
    cube: Cube, side: int, codes: Sequence[Codes], u: npt.NDArray[np.uint32]
) -> tuple[I64, npt.NDArray[np.int32]]:  # fmt: skip
    """The cells of each tuple of a side, as (row, instance); rows ascend. `codes[k]` are the codes by index k."""
    rows, cell = np.arange(len(u), dtype=np.int64), np.zeros(len(u), np.int64)
    for number, dim in enumerate(cube.dims):
        if dim.size == 1:
            continue
        span = spans(dim, number, side, codes, u)
        if span is None:
            rows = np.repeat(rows, dim.size)
            cell = (cell[:, None] * dim.size + np.arange(dim.size)).reshape(-1)
        elif dim.takes(side) == "one":
            cell = cell * dim.size + span[0][rows]
        else:
            first, count = span[0][rows], (span[1] - span[0] + 1)[rows]
            rows, cell = np.repeat(rows, count), np.repeat(cell * dim.size, count) + expand(first, count)
    return rows, np.array(cube.cells, np.int32)[cell]


def spans(
    dim: Dim, number: int, side: int, codes: Sequence[Codes], u: npt.NDArray[np.uint32]
) -> tuple[I64, I64] | None:  # fmt: skip
    """[n] The first and the last coordinate of each tuple of a side along a dim, the cube's dim `number`; None: the
    tuples have all coordinates."""
    if dim.takes(side) == "all":
        return None
    index = dim.index_of(side)
    if index is None:
        starts = np.cumsum([width for _, width in even_division(dim.size)[:-1]], dtype=np.int64)
        divided = np.searchsorted(starts, u.astype(np.int64), "right").astype(np.int64)
        return divided, divided
    own = codes[index].astype(np.int64)
    if dim.kind == "hash":
        hashed = hash_coordinates(own, number, dim.size)
        return hashed, hashed
    reach = dim.reach_of(side)
    first = np.zeros(len(own), np.int64) if reach.high is None else _cuts_below(dim.cuts, own, reach.high)
    last = np.full(len(own), dim.size - 1) if reach.low is None else _cuts_below(dim.cuts, own, reach.low)
    return first, last


def hash_coordinates(codes: I64, number: int, size: int) -> I64:
    """[n] The coordinate of each code along the hash dim `number`. Coordinates are ranges of hash values, and those of
    two dims are independent of each other even if their codes are the same."""
    mixed = mix64(codes.view(np.uint64) + np.uint64(scrambled(number + 1))) >> np.uint64(32)
    return ((mixed * np.uint64(size)) >> np.uint64(32)).astype(np.int64)


def _cuts_below(cuts: tuple[int, ...], codes: I64, shift: int) -> I64:
    """[n] How many cuts are at most code - shift. The cuts are shifted, not the codes, because those may overflow."""
    shifted = [max(cut + shift, FIRST_CODE) for cut in cuts if cut + shift <= LAST_CODE]
    return np.searchsorted(np.array(shifted, np.int64), codes, "right").astype(np.int64)
