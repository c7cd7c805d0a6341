"""Pieces of the range of `u`, and what a table stores by volume.

On a piece every slot of a code is constant, so one position stands for all of it and its width is its share of the
code's tuples: what `place` and `diff` say of a few pieces is what they say of any number of tuples, in expectation.
With `points` (codes and weights, per side) for the tuples alive this gives, for any tables,

    stored_volume(t)      per side and instance     sum of weight * share of pieces stored there (the papers' |h|)
    overlap(old, new)     per pair of instances     stored on one under old and on the other under new (A-DSP's lambda)
    moved_volume(old, new)                          what `diff` lets enter

Pure arrays, no randomness. Cost O(pieces * targets); codes that all tables treat alike are one code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.hashing import I64, Codes
from evenjoin.kernels.sorting import expand
from evenjoin.placement.diff import diff
from evenjoin.placement.place import cells_of, place, regions_of
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import WHOLE, Role

F64 = npt.NDArray[np.float64]
Points = tuple[tuple[I64, F64], ...]
"""Per side the codes and weights of points that stand for its tuples alive."""


class Pieces(NamedTuple):
    """Piece k is the share `share[k]` of the tuples of code number `row[k]`; `u[k]` is its first position."""

    row: I64
    u: npt.NDArray[np.uint32]
    share: F64


def pieces(tables: Sequence[RoutingTable], side: int, codes: Codes) -> Pieces:
    """For each code the pieces of `u` on which all tables are constant. Rows ascend; shares of a row add up to 1."""
    whole = np.arange(len(codes), dtype=np.uint64) << np.uint64(32)
    starts = [whole]
    for table in tables:
        flat = table.compiled
        rows, regions = regions_of(table, side, codes)
        index = regions * table.sides + side
        count = flat.first_slot[index + 1] - flat.first_slot[index]
        own = np.repeat(whole if rows is None else whole[rows], count)
        starts.append(own | (flat.slot_start[expand(flat.first_slot[index], count)] & np.uint64(WHOLE - 1)))
    every = np.unique(np.concatenate(starts))
    ends = np.append(every[1:], np.uint64(len(codes) << 32))
    return Pieces(
        (every >> np.uint64(32)).astype(np.int64),
        (every & np.uint64(WHOLE - 1)).astype(np.uint32),
        (ends - every).astype(np.float64) / WHOLE,
    )


def stored_volume(table: RoutingTable, points: Points) -> F64:
    """[sides, instances] What each instance stores of each side."""
    out = np.zeros((table.sides, table.instances))
    for side in range(table.sides):
        codes, u, volume = _volumes((table,), side, points)
        stored = place(table, side, codes, u).only(Role.STORE)
        out[side] = np.bincount(stored.instance, volume[stored.row], table.instances)
    return out


def moved_volume(old: RoutingTable, new: RoutingTable, points: Points) -> float:
    """What a change of table copies: the volume of `diff`'s enter."""
    total = 0.0
    for side in range(old.sides):
        codes, u, volume = _volumes((old, new), side, points)
        total += float(volume[diff(old, new, side, codes, u).enter_row].sum())
    return total


def overlap(old: RoutingTable, new: RoutingTable, points: Points) -> F64:
    """[old instances, new instances] What one stores under `old` and the other under `new`, both sides together."""
    out = np.zeros((old.instances, new.instances))
    for side in range(old.sides):
        codes, u, volume = _volumes((old, new), side, points)
        before, after = (np.zeros((len(codes), table.instances)) for table in (old, new))
        for table, matrix in ((old, before), (new, after)):
            stored = place(table, side, codes, u).only(Role.STORE)
            matrix[stored.row, stored.instance] = 1
        out += (before * volume[:, None]).T @ after
    return out


def _volumes(tables: Sequence[RoutingTable], side: int, points: Points) -> tuple[I64, npt.NDArray[np.uint32], F64]:
    """Code, position and volume of each piece of the side's points."""
    codes, weights = points[side]
    kinds = np.array([_kind(table, codes) for table in tables]).reshape(len(tables), len(codes))
    _, first, kind = np.unique(kinds, axis=1, return_index=True, return_inverse=True)
    alike = np.bincount(kind.reshape(-1), weights, len(first)).astype(np.float64)
    some = pieces(tables, side, codes[first])
    return codes[first][some.row], some.u, alike[some.row] * some.share


def _kind(table: RoutingTable, codes: I64) -> I64:
    """Codes with the same number are in the same regions."""
    if table.ranged:
        return cells_of(table, codes)
    return np.zeros(len(codes), np.int64) if len(table.regions) == 1 else codes
