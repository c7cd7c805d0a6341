"""The load of zipf streams as an engine reports it: the heaviest keys of each instance, and what remains of buckets."""

from __future__ import annotations

from collections import deque

import numpy as np

from evenjoin.load.items import Items, regions_of_items
from evenjoin.placement.place import bucket_of
from evenjoin.placement.shares import holdings
from evenjoin.placement.topology import Role


def weights(keys, exponent):
    """The share of each key in all tuples."""
    weight = np.arange(1, keys + 1, dtype=float) ** -exponent
    return weight / weight.sum()


def codes_of(keys, seed):
    return np.random.default_rng(seed).integers(-(2**62), 2**62, keys)


def reported(table, codes, stored, arrived, tracked=128):
    """Items of a batch with these [sides, keys] counts. Named are the keys with a record, and of each instance the
    `tracked` keys of each side that arrive most."""
    bucket = bucket_of(codes, table.buckets)
    every = Items(codes, np.ones(len(codes), bool), bucket, stored, arrived, np.zeros_like(stored))
    named, region = np.isin(codes, table.compiled.key_codes), regions_of_items(every, table)
    for side in range(table.groups):
        units = holdings(table, side, Role.STORE)
        host = np.zeros(len(table.regions), np.int64)
        host[units.region] = units.instance
        order = np.lexsort((-arrived.sum(axis=0), host[region]))
        sorted_hosts = host[region][order]
        named[order[np.arange(len(order)) - np.searchsorted(sorted_hosts, sorted_hosts) < tracked]] = True

    def both(counts):
        rest = [np.bincount(bucket[~named], row[~named], table.buckets) for row in counts]
        return np.concatenate([counts[:, named], np.stack(rest)], axis=1)

    count = int(named.sum())
    return Items(
        np.concatenate([codes[named], np.zeros(table.buckets, np.int64)]),
        np.arange(count + table.buckets) < count,
        np.concatenate([bucket[named], np.arange(table.buckets)]),
        both(stored),
        both(arrived),
        np.zeros((table.groups, count + table.buckets)),
    )


def stationary(weight, tuples, batches, seed, window=None, sides=2, smooth=0.3):
    """Stored and arrived tuples after each batch: Poisson arrivals at constant rates, the arrivals smoothed, and all of
    them kept or those of the last `window` batches."""
    rng = np.random.default_rng(seed)
    stored, arrived, last = np.zeros((sides, len(weight))), None, deque()
    for _ in range(batches):
        new = rng.poisson(weight * tuples, (sides, len(weight))).astype(float)
        last.append(new)
        stored = stored + new - (last.popleft() if window and len(last) > window else 0.0)
        arrived = new if arrived is None else smooth * new + (1 - smooth) * arrived
        yield stored, arrived
