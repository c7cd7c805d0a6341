"""Which items are on a unit, and which in a bucket, without looking at all items.

Items are sorted once. What comes to a unit later is noted beside it, and whoever has left is left out when a unit is
asked for. Cost O(items log items) once, then O(items of the unit) a question.
Private to one planning. Not here: where the items are (draft.py, which says so with every question).
"""

from __future__ import annotations

from copy import copy
from typing import Self

import numpy as np

from evenjoin.kernels.hashing import I64
from evenjoin.placement.table import RoutingTable


class Index:
    """The items of each unit and bucket, from `at` [sides, n] and `bucket` [n]."""

    def __init__(self, at: I64, bucket: I64, table: RoutingTable) -> None:
        self._units = [_grouped(side, table.instances) for side in at]
        self._buckets = _grouped(bucket, table.buckets)
        self._came: dict[tuple[int, int], tuple[I64, ...]] = {}

    def copy(self) -> Self:
        out = copy(self)
        out._came = dict(self._came)
        return out

    def within(self, bucket: int) -> I64:
        """The items of a bucket."""
        order, first = self._buckets
        return order[first[bucket] : first[bucket + 1]]

    def on(self, side: int, unit: int, at: I64) -> I64:
        """The items that are whole on a unit, given where each is now; ascending."""
        order, first = self._units[side]
        some = order[first[unit] : first[unit + 1]]
        came = self._came.get((side, unit))
        if came:
            some = np.unique(np.concatenate([some, *came]))
        out: I64 = some[at[some] == unit]
        return out

    def came(self, side: int, unit: int, items: I64) -> None:
        """Some items have come to a unit."""
        self._came[side, unit] = (*self._came.get((side, unit), ()), items)


def _grouped(number: I64, count: int) -> tuple[I64, I64]:
    """The items in the order of their numbers, and where each of the numbers 0 to count begins among them."""
    order = np.argsort(number, kind="stable")
    return order, np.searchsorted(number[order], np.arange(count + 1))
