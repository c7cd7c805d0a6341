"""The least imbalance that a planner can reach where something cannot be divided: the floor, by its own measure.

    the heaviest unit alone on one instance, everything else spread evenly over all others     ->  imbalance

A unit is what the planner moves whole: a key (FastJoin, Readj) or a partition (LS-Stream). D-JB splits keys and has no
floor, and neither have grids and areas. The measure is the strategy's own `imbalance`, asked of such a table. The load
of LS-Stream is a sum over partitions, each with its own: there the floor is n max R_p / sum R - 1, with the load of
each partition as if it had an instance to itself.

Guarantee: a table whose heaviest unit is not divided is hardly better than the floor. Not guaranteed: that the floor
can be reached; and the heaviest unit is sought among those that the report names, by work and by stored x probing.
"""

from __future__ import annotations

import numpy as np

from evenjoin.kernels.hashing import I64
from evenjoin.load.items import F64, Items, items_of
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import Buckets, Region, RoutingTable
from evenjoin.placement.topology import Biclique
from evenjoin.strategies.base import Strategy, halves

WHOLE_UNITS = {"fastjoin": "keys", "readj": "keys", "lsstream": "partitions"}
"""What each planner that divides nothing moves, by the name in front of its settings."""


def floor_of(strategy: Strategy, report: LoadReport, table: RoutingTable) -> float | None:
    """The floor under the load of a report; None where everything can be divided."""
    units = WHOLE_UNITS.get(strategy.origin.partition("(")[0])
    if units is None or table.instances < 2 * table.groups:
        return None
    items = items_of(report, table)
    stored, arrived, results = _units(items, units)
    if units == "partitions":
        return _of_sums(strategy, table, stored[:, 1:], arrived[:, 1:], results[:, 1:])
    found = [
        strategy.imbalance(*_alone(table, stored, arrived, results, unit))
        for unit in _heaviest(stored, arrived, results)
    ]
    return round(max(found), 4) if found else None


def _of_sums(strategy: Strategy, table: RoutingTable, stored: F64, arrived: F64, results: F64) -> float | None:
    """The floor where an instance's load is the sum of what its units have: n max / sum - 1."""
    number = np.arange(stored.shape[1])
    regions = tuple(Region(Buckets((unit,)), Biclique(((unit,),) * table.groups)) for unit in number.tolist())
    each = RoutingTable(0, len(number), table.groups, len(number), regions, table.origin).stating(table)
    load = strategy.load(Items(number * 0, number < 0, number, stored, arrived, results), each)
    total = np.nansum(load, axis=1)
    hosts = np.array([table.instances if len(load) == 1 else len(group) for group in _hosts(table)])[: len(load)]
    over = hosts * np.nanmax(load, axis=1) / np.where(total > 0, total, 1.0) - 1
    return round(max(float(over.max()), 0.0), 4)


def _hosts(table: RoutingTable) -> tuple[tuple[int, ...], ...]:
    return halves(table.instances, table.groups, table.layout)


def _units(items: Items, units: str) -> tuple[F64, F64, F64]:
    """[sides, units] The counts of what moves whole, after those of what does not: unit 0 is the remainders of
    buckets where keys move."""
    if units == "keys":
        own: I64 = np.where(items.is_key, np.cumsum(items.is_key), 0)  # all remainders are one unit, no candidate
    else:
        own = items.bucket + 1
    many = int(own.max(initial=0)) + 1
    stored, arrived, results = (
        np.stack([np.bincount(own, row, many) for row in counts]).astype(np.float64)
        for counts in (items.stored, items.arrived, items.results)
    )
    return stored, arrived, results


def _heaviest(stored: F64, arrived: F64, results: F64) -> list[int]:
    """The candidates for the unit that sets the floor."""
    asking = arrived.sum(axis=0) - arrived
    ranked = [*(stored * asking), stored.sum(axis=0) + arrived.sum(axis=0) + results.sum(axis=0)]
    return sorted({1 + int(np.argmax(weights[1:])) for weights in ranked if weights[1:].any()})


def _alone(table: RoutingTable, stored: F64, arrived: F64, results: F64, unit: int) -> tuple[Items, RoutingTable]:
    """One unit on the first instance of each side, and everything else as even as that allows."""
    hosts = _hosts(table)
    parts = min(map(len, hosts))
    units = tuple(
        Region(Buckets((part,)), Biclique(tuple((group[part * len(group) // parts],) for group in hosts)))
        for part in range(parts)
    )
    even = RoutingTable(0, table.instances, table.groups, parts, units, table.origin, layout=table.layout)
    number: I64 = np.arange(parts)

    def spread(counts: F64) -> F64:
        total = counts.sum(axis=1)
        first = np.maximum(counts[:, unit], total / parts)  # a light unit shares its instance with others
        out: F64 = np.where(number[None, :] == 0, first[:, None], ((total - first) / (parts - 1))[:, None])
        return out

    return Items(number * 0, number < 0, number, spread(stored), spread(arrived), spread(results)), even.stating(table)
