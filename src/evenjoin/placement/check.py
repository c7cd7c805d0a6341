"""check(table): decides the meeting invariant for any table. Every planner's output goes through it.

A table is complete and free of duplicates if

1. every bucket is taken by exactly one region and no code by two (then any two tuples with equal keys, having
   equal codes, are in exactly one region), and
2. inside each region, for each two sides and each pair of their slots, exactly one instance stores the first and
   is probed by the second, and exactly one stores the second and is probed by the first
   (whichever tuple came earlier, the later one meets it once), and
3. every instance named exists.

Does not judge balance. Cost O(regions + distinct topologies * slots^2 * targets).
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from evenjoin.errors import TableError
from evenjoin.placement.table import Buckets, Keys, RoutingTable
from evenjoin.placement.topology import Role, Slot, Topology


def check(table: RoutingTable) -> RoutingTable:
    """The table itself, or TableError saying which results it would lose or repeat."""
    _check_selectors(table)
    for topology in {region.topology for region in table.regions}:
        _check_topology(table, topology)
    return table


def _check_selectors(table: RoutingTable) -> None:
    buckets = Counter(b for region in table.regions if isinstance(region.takes, Buckets) for b in region.takes.ids)
    missing = [b for b in range(table.buckets) if b not in buckets]
    if missing:
        raise TableError(f"no region takes bucket {missing[0]} ({len(missing)} missing): its results would be lost")
    strange = [b for b in buckets if not 0 <= b < table.buckets]
    if strange:
        raise TableError(f"bucket {strange[0]} does not exist: the table has {table.buckets}")
    codes = Counter(c for region in table.regions if isinstance(region.takes, Keys) for c in region.takes.codes)
    for kind, counts in (("bucket", buckets), ("key code", codes)):
        twice = [item for item, count in counts.items() if count > 1]
        if twice:
            raise TableError(f"two regions take {kind} {twice[0]}: results would be lost or repeated")


def _check_topology(table: RoutingTable, topology: Topology) -> None:
    slots = [topology.slots(side) for side in range(table.sides)]
    for side in slots:
        if not side or any(slot.weight <= 0 for slot in side):
            raise TableError(f"a side of {topology} has no unit or a unit without weight")
        for slot in side:
            for instance, _ in slot.targets:
                if not 0 <= instance < table.instances:
                    raise TableError(f"{topology} uses instance {instance}, the table has {table.instances}")
    for first, second in combinations(range(table.sides), 2):
        for one in slots[first]:
            for two in slots[second]:
                for earlier, later in ((one, two), (two, one)):
                    met = _meetings(earlier, later)
                    if met != 1:
                        raise TableError(
                            f"{topology}: a pair of sides {first} and {second} meets {met} times, not once"
                        )


def _meetings(earlier: Slot, later: Slot) -> int:
    stores = {instance for instance, role in earlier.targets if role & Role.STORE}
    return sum(1 for instance, role in later.targets if role & Role.PROBE and instance in stores)
