"""Which keys are counted on every instance that hosts a part of them.

An instance names the keys that are heavy on itself. A key may have units on several instances: its sides apart (layout
`split`), or split by weight. Then another host may not name it, and what is stored there would be missing. So the keys
of the last report that have several hosts are *watched*: each of their hosts counts them, heavy or not.

    batch 7   instance 0 names key 42; it also lives on 3, which names others      42 is partial, no planner sees it
    batch 8   0 and 3 are asked for 42                                             42 is whole

Guarantee: a key that the report does not call partial has been counted on all its hosts. Cost O(regions + keys *
hosts). Not here: the counting (instance/tally.py), and which keys are partial (report.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from evenjoin.load.receipt import HeavyKey
from evenjoin.placement.place import cells_of
from evenjoin.placement.shares import hosts
from evenjoin.placement.table import RoutingTable

Watched = Mapping[int, tuple[int, ...]]
"""By instance the codes that it is asked for, ascending."""


def watched(keys: Sequence[HeavyKey], table: RoutingTable) -> Watched:
    """What each instance is asked for in a batch that runs under `table`, given the heavy keys of the last report. A
    key with one host needs no watching. A table of ranges has no keys."""
    if table.ranged or not keys:
        return {}
    codes = np.unique(np.array([key.code for key in keys], np.int64))
    count, host = hosts(table, table.compiled.region_of_cell[cells_of(table, codes)])
    asked: dict[int, list[int]] = defaultdict(list)
    several = np.repeat(count > 1, count)
    for code, instance in zip(np.repeat(codes, count)[several].tolist(), host[several].tolist(), strict=True):
        asked[instance].append(code)
    return {instance: tuple(of_it) for instance, of_it in asked.items()}
