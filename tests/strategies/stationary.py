"""A stationary stream in front of a planner: batches of the same zipf law with Poisson noise, `decide` after each.

Counts are drawn by partition (a sum of Poisson counts is one), so a batch costs what its decision costs. Arrivals are
smoothed over batches, as planners see them; stored tuples are not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenjoin.load.lsstream import units_of
from evenjoin.load.report import InstanceLoad, LoadReport, speeds_of
from evenjoin.placement.place import bucket_of
from evenjoin.runtime.rebalance import decide
from evenjoin.runtime.settings import Guards

SMOOTHING = 0.25


@dataclass(frozen=True)
class Stream:
    """Both sides have `rows` tuples a batch over keys that a permutation of this seed hashes. Tuples stay for `window`
    batches, 0: for ever. `speed` is that of the instances, 1 unless said."""

    instances: int
    zipf: float
    seed: int
    window: int = 0
    keys: int = 2_000
    rows: int = 20_000
    batches: int = 40
    layout: str = "shared"
    speed: tuple[float, ...] = ()


def verdicts(strategy, stream):
    """The verdict after each batch, and the last table."""
    table = strategy.initial(stream.instances, 2, stream.layout)
    law = np.arange(1, stream.keys + 1) ** -float(stream.zipf)
    bucket = bucket_of(np.random.default_rng(stream.seed).permutation(stream.keys), table.buckets)
    mean = stream.rows * np.bincount(bucket, law / law.sum(), table.buckets)
    pairs = stream.rows**2 * np.bincount(bucket, (law / law.sum()) ** 2, table.buckets)
    rng, past, out, last, rate = np.random.default_rng([stream.seed, 1]), [], [], None, 0.0
    for batch in range(stream.batches):
        past.append(rng.poisson(mean, (2, table.buckets)))
        kept = past[-stream.window :] if stream.window else past
        rate = past[0] if not batch else rate + max(1 / (batch + 1), SMOOTHING) * (past[-1] - rate)
        last = report_of(batch, table, np.rint(rate), sum(kept), np.rint(pairs * len(kept)), stream.speed, last)
        decision = decide(strategy, last, table, Guards(), out[-1].rebalanced if out else None, lambda: 0.0)
        table = decision.table
        out.append(decision.verdict)
    return out, table


def report_of(batch, table, arrived, stored, results, speed, last):
    """The report of a batch; an instance is busy in proportion to its tuples and results, and to its slowness."""
    taken, found = np.zeros((2, table.instances))
    for side in range(2):
        cell, instance, _ = units_of(table, side)
        taken += np.bincount(instance, arrived.sum(axis=0)[cell], table.instances)
        found += np.bincount(instance, results[cell], table.instances)
    cells = tuple(
        (side, cell, *counts)
        for side in range(2)
        for cell, counts in enumerate(np.stack([arrived[side], stored[side], results], axis=1).astype(int).tolist())
    )
    busy = (taken + found) / 1000 / np.array(speed or (1.0,) * table.instances)
    loads = tuple(InstanceLoad(i, (0, 0), (0, 0), (0, 0), 0, ms) for i, ms in enumerate(busy.tolist()))
    recent = (*(last.recent if last else ()), tuple(taken.astype(int).tolist()))[-8:]
    speeds = speeds_of(taken + found, busy, last.speeds if last else ())
    return LoadReport(batch, loads, (), cells, (), recent=recent, speeds=speeds)
