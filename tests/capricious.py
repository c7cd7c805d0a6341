"""A strategy for tests that migrates after every batch: planners let loose in turn, and random edits besides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenjoin.placement import Biclique, check
from evenjoin.placement.table import RoutingTable
from evenjoin.strategies.base import resolve
from evenjoin.strategies.edit import Edit

EAGER = [
    "fastjoin(theta=1.01)", "fastjoin(theta=1.01, selector=safit)", "djb(theta_max=0.01)", "lsstream(alpha=0.01)",
    "readj(theta=0.01, sigma=0.001)",
]  # fmt: skip


@dataclass(frozen=True)
class Capricious:
    """Lets another planner plan after each batch, in a given order, however even the load is; and when that one has no
    better table, moves and splits a few keys and buckets at random. Tracks nothing itself, so no guard stops it."""

    names: tuple[str, ...]
    seed: int = 0

    origin, threshold, alert, tracked = "capricious", -1.0, -1.0, 0

    def initial(self, instances, sides, layout):
        return resolve("djb").initial(instances, sides, layout)

    def load(self, items, table):
        return resolve("djb").load(items, table)

    def imbalance(self, items, table):
        return resolve("djb").imbalance(items, table)

    def plan(self, report, items, table):
        planned = resolve(self.names[report.batch % len(self.names)]).plan(report, items, table)
        return check(planned) if isinstance(planned, RoutingTable) else self._shuffled(report, items, table)

    def _shuffled(self, report, items, table):
        if table.meeting == "together":
            return self._shuffled_whole(report, items, table)
        rng = np.random.default_rng((self.seed, report.batch))
        edit = Edit(table)
        for code in rng.choice(items.code[items.is_key], min(2, items.is_key.sum()), replace=False).tolist():
            units = rng.permutation(table.instances)[: rng.integers(1, table.instances + 1)].tolist()
            edit.move_key(code, int(rng.integers(2)), tuple(units), tuple(rng.integers(1, 4, len(units)).tolist()))
        edit.move_bucket(int(rng.integers(table.buckets)), int(rng.integers(2)), (int(rng.integers(table.instances)),))
        return edit.table()

    def _shuffled_whole(self, report, items, table):
        """The same where all sides must stay together: keys and a bucket move whole."""
        rng = np.random.default_rng((self.seed, report.batch))
        edit, sides = Edit(table), range(table.groups)
        for code in rng.choice(items.code[items.is_key], min(2, items.is_key.sum()), replace=False).tolist():
            edit.place_key(code, Biclique(((int(rng.integers(table.instances)),),) * table.groups))
        bucket, to = int(rng.integers(table.buckets)), int(rng.integers(table.instances))
        for side in sides:
            edit.move_bucket(bucket, side, (to,))
        return edit.table()
