"""Which instance holds what share of a region: the one way to ask a table that question without asking for tuples.

    region 2, a key split by weight    Biclique R on 0 (0.7) and 1 (0.3), S on 3

    holdings(table, 0, STORE)          (region 2, instance 0, 0.7)  (region 2, instance 1, 0.3)
    holdings(table, 1, PROBE)          (region 2, instance 0, 1.0)  (region 2, instance 1, 1.0)

A share is the part of the range of `u` whose slots have that role at that instance. Since `u` is uniform, it is what
`place` does to a region's tuples in the long run. Planners and load models build on it, so they agree with `place`.

Not guaranteed: that shares add up to 1. Shares of PROBE, and of STORE in a grid, add up to the number of instances that
a tuple goes to. Pure; cost O(regions + distinct topologies * slots).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenjoin.kernels.hashing import I64
from evenjoin.kernels.runs import expand
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import Biclique, Role, Topology

F64 = npt.NDArray[np.float64]


class Holdings(NamedTuple):
    """Entry k: `instance[k]` has the role asked for with the share `share[k]` of the tuples of `region[k]`. Regions
    ascend."""

    region: I64
    instance: I64
    share: F64


def holdings(table: RoutingTable, group: int, role: Role) -> Holdings:
    """Which instances have this role for a group's tuples, region by region."""
    region: list[int] = []
    instance: list[int] = []
    share: list[float] = []
    for number, entry in enumerate(table.regions):
        topology = entry.topology
        if role is Role.STORE and isinstance(topology, Biclique) and len(topology.units[group]) == 1:
            held: tuple[tuple[int, ...], tuple[float, ...]] = topology.units[group], (1.0,)
        else:
            held = _held(topology, group, role)
        region += [number] * len(held[0])
        instance += held[0]
        share += held[1]
    return Holdings(np.array(region, np.int64), np.array(instance, np.int64), np.array(share, np.float64))


@lru_cache(maxsize=1 << 14)
def _held(topology: Topology, group: int, role: Role) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The instances and their shares. Remembered, since a planner asks for the same topologies many times."""
    slots = topology.slots(group)
    total = sum(slot.weight for slot in slots)
    held: dict[int, float] = {}
    wanted = int(role)  # integers, because enums are slow
    for slot in slots:
        for instance, has in slot.targets:
            if int(has) & wanted:
                held[instance] = held.get(instance, 0.0) + slot.weight / total
    return tuple(held), tuple(held.values())


def hosts(table: RoutingTable, region: I64) -> tuple[I64, I64]:
    """For each of these regions, how many instances store tuples of it, of whatever group; and these instances, region
    after region."""
    held = [holdings(table, group, Role.STORE) for group in range(table.groups)]
    pairs = np.unique(np.concatenate([one.region * table.instances + one.instance for one in held]))
    first = np.searchsorted(pairs, np.arange(len(table.regions) + 1) * table.instances)
    count = first[region + 1] - first[region]
    return count, pairs[expand(first[region], count)] % table.instances


def shares_by_region(table: RoutingTable, group: int, role: Role, instances: int = 0) -> F64:
    """[regions, instances] The same as a matrix. `instances` asks for more columns than the table has instances."""
    out = np.zeros((len(table.regions), instances or table.instances))
    region, instance, share = holdings(table, group, role)
    out[region, instance] = share
    return out
