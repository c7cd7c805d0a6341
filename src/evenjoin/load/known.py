"""Which of the keys that a report names are known well enough to be items of their own, as planners see them.

Of a thin stream every key that comes is among the heaviest of its instance. Which ones are named is then chance, and so
is what a batch has of them: a key with a tuple in every tenth batch is named when it comes, with ten times its rate.
Planners would take this for skew, and would have to plan anew in each batch. So a named key is an item of its own only
if enough of its tuples are known, or if the table has a region for it. What the others have is counted with the
remainder of their bucket, where chance evens out.

    stored + arrived     a key of n tuples is known but for sqrt(n) of them: 25 % of 16
    bucket 0             key 42: 700, key 7: 3, rest 50    ->    key 42: 700, rest 53

A key that becomes hot is known at once: its arrivals alone are enough.

Guarantee: counts of each bucket stay what they were. Pure arrays; O(items).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from evenjoin.placement.place import routed
from evenjoin.placement.table import RoutingTable

if TYPE_CHECKING:
    from evenjoin.load.items import Items

ENOUGH = 16
"""So many tuples of a key, stored or arrived, of all sides, make it an item of its own."""


def known(items: Items, table: RoutingTable) -> Items:
    """The items with the keys of which too little is known counted with the remainders of their buckets. The same
    items, if there are none."""
    tuples = np.maximum(items.stored, items.arrived).sum(axis=0)
    light = np.flatnonzero(items.is_key & (tuples < ENOUGH))
    light = light[routed(table, items.code[light]) < 0]
    if not len(light):
        return items
    rest = np.flatnonzero(~items.is_key)
    remainder = np.empty(len(rest), np.int64)
    remainder[items.bucket[rest]] = rest
    to, kept = remainder[items.bucket[light]], np.ones(len(items), bool)
    kept[light] = False
    counts = {}
    for name in ("stored", "arrived", "results"):
        was = getattr(items, name)
        more = np.stack([np.bincount(to, row, len(items)) for row in was[:, light]])
        counts[name] = (was + more)[:, kept]
    askers = None if items.askers is None else items.askers[:, kept]
    return replace(
        items, code=items.code[kept], is_key=items.is_key[kept], bucket=items.bucket[kept], askers=askers, **counts
    )
