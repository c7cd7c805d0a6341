"""Which runs to merge, and merging them.

Size-tiered: runs of one sub-window whose sizes are within a factor FAN of each other form a tier; a tier of FAN
runs becomes one. So a place with n tuples has O(log n) runs, and a tuple is rewritten O(log n) times in its life.
A merge happens in the instance that owns the runs, in the same batch and commit as its other work, and never reads
more than `budget` tuples a batch and side: it takes as many of a tier as that allows, and runs of more than half the
budget stay as they are (n / budget of them: cheap to probe, dear to rewrite).
A masked run is rewritten without its dead tuples once these are more than half.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa

from evenjoin.state.layout import Layout, Tuples
from evenjoin.state.segment import Run, sorted_tuples

FAN = 4


def choose(runs: Sequence[Run], budget: int) -> tuple[Run, ...]:
    """The runs of one place to merge into one now; empty when none should be. Pure, so a retry chooses the same."""
    for run in runs:
        if run.mask is not None and run.alive * 2 < run.rows <= budget:
            return (run,)
    tiers: dict[tuple[int, int], list[Run]] = defaultdict(list)
    for run in runs:
        tiers[run.sub_window, max(run.rows, 1).bit_length() // 2].append(run)
    full = [_affordable(tier, budget) for tier in tiers.values() if len(tier) >= FAN]
    full = [tier for tier in full if len(tier) > 1]
    return min(full, key=lambda tier: sum(r.rows for r in tier)) if full else ()


def _affordable(tier: Sequence[Run], budget: int) -> tuple[Run, ...]:
    """As many of the smallest runs as the budget can read: all of them, unless runs are large."""
    by_size = sorted(tier, key=lambda run: run.rows)
    return tuple(run for run, read in zip(by_size, accumulate(r.rows for r in by_size), strict=True) if read <= budget)


def merged(layout: Layout, runs: Sequence[tuple[Tuples, np.ndarray | None]]) -> Tuples:
    """One sorted run of all live tuples; each run comes with the mask of its live tuples, or None for all."""
    batches = [t.batch if live is None else t.batch.filter(pa.array(live)) for t, live in runs]
    table = pa.Table.from_batches(batches, layout.schema).combine_chunks()
    rows = table.to_batches()
    batch = rows[0] if rows else pa.RecordBatch.from_pylist([], layout.schema)
    return sorted_tuples(Tuples.of(layout, batch))
