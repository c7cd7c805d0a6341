"""Items and tables with finer buckets, so that two tables with different buckets can be compared on the same load.

    32 buckets        | 0         | 1         | ...        a bucket is a contiguous range of hash values, so the buckets
    160 buckets       |0|1|2|3|4|5|6|7|8|9| ...            of a multiple of their number divide each of them exactly

A key is in the fine bucket that its code says. What remains of a bucket is taken to be spread evenly over its parts:
nothing is known of the keys in it.

Guarantee: counts add up to what they were, and a refined table places every tuple as before
(`RoutingTable.refined`). Pure arrays; O(items * times).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from evenjoin.load.items import F64, Items, is_matrix
from evenjoin.placement.place import bucket_of
from evenjoin.placement.table import RoutingTable


class Compared(NamedTuple):
    """A load, and two tables that can both be asked about it."""

    items: Items
    old: RoutingTable
    new: RoutingTable


def comparable(items: Items, old: RoutingTable, new: RoutingTable) -> Compared:
    """The items and the old table with the buckets of the new one, where those refine them; else all as they are.
    Ordered buckets refine none: they are no ranges of hashes."""
    if old.ordered or new.ordered:
        return Compared(items, old, new)
    if is_matrix(old) or is_matrix(new) or new.buckets % old.buckets or not items.fit(old):
        return Compared(items, old, new)
    times = new.buckets // old.buckets
    fine = old.refined(times)
    if new.follows is not None and new.follows.table == old.name:
        new = replace(new, follows=replace(new.follows, table=fine.name))
    return Compared(refined_items(items, times), fine, new)


def refined_items(items: Items, times: int) -> Items:
    """The items with `times` as many buckets."""
    if times == 1:
        return items
    keys, rest = np.flatnonzero(items.is_key), np.flatnonzero(~items.is_key)
    buckets, parts = times * len(rest), np.repeat(rest, times)

    def spread(counts: F64) -> F64:
        return np.concatenate([counts[:, keys], counts[:, parts] / times], axis=1)

    fine = (items.bucket[rest][:, None] * times + np.arange(times)).reshape(-1)
    return replace(
        items,
        code=np.concatenate([items.code[keys], items.code[parts]]),
        is_key=np.arange(len(keys) + buckets) < len(keys),
        bucket=np.concatenate([bucket_of(items.code[keys], buckets), fine]),
        stored=spread(items.stored),
        arrived=spread(items.arrived),
        results=spread(items.results),
    )
