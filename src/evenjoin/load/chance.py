"""How far the work of an instance is off by chance: arrivals are counts, and counts of few tuples are never even.

Arrivals are taken to be independent of each other, so that a count of a tuples has the variance a. An item with the
work w from a arrivals is off by w / sqrt(a) in one batch. Rates are smoothed over batches (rates.py), which leaves

    part^2 = 1 / n in the n-th batch, and WEIGHT / (2 - WEIGHT) from the time on that 1 / n is less

of the variance; or 1 / s of s stored tuples, if that is less and nothing expires (then rates go by what is stored).
Results are proportional to what is stored, which is chance as well. While nothing expires, an item that stores too much
by chance also has too high a rate, so the two deviations are added up; if tuples expire, their variances are.

    one instance, 400 arrivals of light keys, work 800       +- 40 in a batch, +- 15 when smoothed:     2 %
    one instance, 20 arrivals of one key, work 800           +- 179 in a batch, +- 68 when smoothed:    8 %

The furthest of n such instances is off by about sqrt(2 ln n) deviations, though all are alike.

Not guaranteed: that arrivals of real streams are independent. If they come in bursts, they vary more than this says.
Pure arrays; cost O(items + units).
"""

from __future__ import annotations

import numpy as np

from evenjoin.load.items import F64, Items, loads, regions_of_items
from evenjoin.load.rates import noise_left
from evenjoin.load.report import LoadReport
from evenjoin.placement.shares import shares_by_region
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import Role


def furthest(units: int) -> float:
    """By how many standard deviations the furthest of so many equal units is off, on average at most."""
    return float(np.sqrt(2 * np.log(max(units, 2))))


def variances(items: Items, report: LoadReport) -> F64:
    """[n] The variance of the work of each item, as a part of the square of that work."""
    part = noise_left(report.rates.batches if report.rates is not None else 1)
    recent, stored = part / np.maximum(items.arrived.sum(axis=0), 1.0), 1.0 / np.maximum(items.stored.sum(axis=0), 1.0)
    rate = recent if report.expired else np.minimum(recent, stored)
    found = np.sqrt(rate + stored) if report.expired else np.sqrt(rate) + np.sqrt(stored)
    tuples, results = (items.arrived + items.asking).sum(axis=0), items.results.sum(axis=0)
    out: F64 = ((tuples * np.sqrt(rate) + results * found) / np.maximum(tuples + results, 1e-9)) ** 2
    return out


def deviations(items: Items, report: LoadReport, table: RoutingTable) -> F64:
    """[instances] The standard deviation of the work of each instance, as a part of that work. 0 for an idle one. The
    sides' deviations are added up: the tuples that one of them stores probe the other."""
    every = variances(items, report)
    regions, total = regions_of_items(items, table), np.zeros(table.instances)
    for side in range(table.groups):
        whole, asked = items.arrived[side] + items.results[side], items.asking[side]
        squares = [
            np.bincount(regions, product * every, len(table.regions))
            for product in (whole * whole, 2 * whole * asked, asked * asked)
        ]
        share = shares_by_region(table, side, Role.STORE)
        variance = squares[0] @ share**2 + squares[1] @ share + squares[2] @ (share > 0)
        total += np.sqrt(variance)
    work = np.sum([unit.work for unit in loads(items, table)], axis=0)
    out: F64 = np.divide(total, work, out=np.zeros(table.instances), where=work > 0)
    return out
