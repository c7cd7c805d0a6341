"""Pieces of the range of `u`, and how many tuples a table stores where: an answer without looking at the tuples.

A piece is a part of the range of `u` on which a code's slot does not change. All tuples of a code whose `u` is in one
piece go to the same places, and the width of the piece is their share of the code's tuples, because `u` is uniform. So
one position can stand for the whole piece, and `place` and `diff` need to be asked about a few pieces only.

`points` stand for the tuples alive: codes with weights, per side. With them this file says, for any tables,

    stored_volume(t)      per side and instance     sum of weight * share of pieces stored there (the papers' |h|)
    overlap(old, new)     per pair of instances     stored on one under old and on the other under new (A-DSP's lambda)
    moved_volume(old, new)                          the volume that enters an instance, by `diff`

Volumes are expectations: exact for the points, not for the tuples that they stand for. Where a table is a cube that
goes by codes, a few thousand tuples are drawn from the points instead, because the codes by all indexes of a tuple
decide together. Where the points have no codes by further indexes, all values of them are taken to be equally likely.
Pure arrays, no randomness. Cost O(pieces * targets); codes that all tables treat alike are counted as one code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.content import scrambled
from evenjoin.kernels.hashing import I64, U64, Codes, mix64
from evenjoin.kernels.runs import expand
from evenjoin.placement.diff import diff
from evenjoin.placement.place import At, cells_of, place, regions_of
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import WHOLE, Role

F64 = npt.NDArray[np.float64]
Points = tuple[tuple[I64, F64], ...]
"""Per group (side) the codes and the weights of the points that stand for its tuples alive."""
Further = tuple[tuple[I64, ...], ...]
"""Per group the codes of its points by each further index; empty where they are not known."""
DRAWN = 4096
"""How many tuples stand for a group where codes by further indexes decide."""


class Pieces(NamedTuple):
    """Piece k has the share `share[k]` of the tuples of code number `row[k]`. `u[k]` is its first position."""

    row: I64
    u: npt.NDArray[np.uint32]
    share: F64


def pieces(tables: Sequence[RoutingTable], group: int, codes: Codes) -> Pieces:
    """For each code the pieces of `u` on which no table changes its slot. Rows ascend; shares of a row add up to 1."""
    whole = np.arange(len(codes), dtype=np.uint64) << np.uint64(32)
    starts = [whole]
    for table in tables:
        flat = table.compiled
        rows, regions = regions_of(table, group, codes)
        index = regions * table.groups + group
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


def stored_volume(table: RoutingTable, points: Points, further: Further = ()) -> F64:
    """[sides, instances] The volume that each instance stores of each side."""
    out = np.zeros((table.groups, table.instances))
    for group in range(table.groups):
        at, volume = _volumes((table,), group, points, further)
        stored = place(table, group, at).only(Role.STORE)
        out[group] = np.bincount(stored.instance, volume[stored.row], table.instances)
    return out


def moved_volume(old: RoutingTable, new: RoutingTable, points: Points, further: Further = ()) -> float:
    """The volume that a change of table copies to other instances: what enters, by `diff`."""
    total = 0.0
    for group in range(old.groups):
        at, volume = _volumes((old, new), group, points, further)
        total += float(volume[diff(old, new, group, at).enter_row].sum())
    return total


def overlap(old: RoutingTable, new: RoutingTable, points: Points, further: Further = ()) -> F64:
    """[old instances, new instances] The volume that one stores under `old` and the other under `new`, all sides
    added. O(pieces * old places * new places of a tuple)."""
    out = np.zeros((old.instances, new.instances))
    for group in range(old.groups):
        at, volume = _volumes((old, new), group, points, further)
        before, after = (place(table, group, at).only(Role.STORE) for table in (old, new))
        count = np.bincount(after.row, minlength=len(volume))
        many = count[before.row]  # with so many new places each old one is a pair
        other = after.instance[expand((np.cumsum(count) - count)[before.row], many)]
        pair = np.repeat(before.instance.astype(np.int64), many) * new.instances + other
        out += np.bincount(pair, np.repeat(volume[before.row], many), out.size).reshape(out.shape)
    return out


def _volumes(tables: Sequence[RoutingTable], group: int, points: Points, further: Further) -> tuple[At, F64]:
    """Code, position and volume of each piece of the group's points."""
    if any(table.cube is not None for table in tables):
        return _drawn(tables, group, points, further)
    codes, weights = points[group]
    kinds = np.array([_kind(table, codes) for table in tables]).reshape(len(tables), len(codes))
    _, first, kind = np.unique(kinds, axis=1, return_index=True, return_inverse=True)
    alike = np.bincount(kind.reshape(-1), weights, len(first)).astype(np.float64)
    some = pieces(tables, group, codes[first])
    return At(codes[first][some.row], some.u), alike[some.row] * some.share


def _drawn(tables: Sequence[RoutingTable], group: int, points: Points, further: Further) -> tuple[At, F64]:
    """Tuples at even distances of rank among the group's points, with hashes of their numbers as positions."""
    codes, weights = points[group]
    ends = np.cumsum(weights)
    total = float(ends[-1]) if len(ends) else 0.0
    number = np.arange(DRAWN if total > 0 else 0, dtype=np.uint64)
    rows = np.minimum(np.searchsorted(ends, (number + 0.5) / DRAWN * total), len(ends) - 1)
    known = further[group] if group < len(further) else ()
    indexes = max((dim.index_of(group) or 0) + 1 for table in tables if table.cube for dim in table.cube.dims)
    more = tuple(
        known[k][rows] if k < len(known) else _hashes(number, k + 1).view(np.int64) for k in range(indexes - 1)
    )
    u = (_hashes(number, 0) >> np.uint64(32)).astype(np.uint32)
    return At(codes[rows], u, more), np.full(len(rows), total / DRAWN)


def _hashes(number: U64, salt: int) -> U64:
    return mix64(number + np.uint64(scrambled(salt)))


def _kind(table: RoutingTable, codes: I64) -> I64:
    """[codes] A number for each code. Codes with the same number are taken by the same regions."""
    if table.ranged:
        return cells_of(table, codes)
    return np.zeros(len(codes), np.int64) if len(table.regions) == 1 else codes
