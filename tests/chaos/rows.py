"""The rows of a case, made from its seed: few keys of which one is hot, NULLs, ties, and times that go up with noise.

Invariant: row n of a side has a time of at least n // 2 and below n // 2 + disorder (or none). So with a watermark
delay of `disorder` or more no row is late, however the rows are cut into batches, as long as they stay in order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from chaos.joins import SCHEMA

NAMES = ["", "a", "b", "c", "a name that is longer than eight bytes", "ключ", "d" * 70]


def side(seed: int, number: int, count: int, disorder: int) -> pa.Table:
    """The rows of side `number` (0 or 1), in the order in which they arrive."""
    rng = np.random.default_rng((seed, number))
    keys = np.where(rng.random(count) < 0.3, 1, rng.integers(-2, 7, count))
    times = np.arange(count) // 2 + rng.integers(0, max(disorder, 1), count)
    columns = {
        "id": np.arange(count),
        "k": _with_nulls(rng, keys, 0.05),
        "name": _with_nulls(rng, [NAMES[n] for n in rng.zipf(1.6, count) % len(NAMES)], 0.05),
        "t": _with_nulls(rng, times, 0.02),
        "v": _with_nulls(rng, rng.integers(0, 4, count), 0.05),
        "x": _with_nulls(rng, np.round(rng.normal(0, 4, count), 1), 0.05),
    }
    return pa.table([pa.array(column, field.type) for column, field in zip(columns.values(), SCHEMA, strict=True)],
                    schema=SCHEMA)  # fmt: skip


def _with_nulls(rng: np.random.Generator, values: Any, share: float) -> list[Any]:
    missing = rng.random(len(values)) < share
    plain = values.tolist() if isinstance(values, np.ndarray) else values
    return [None if gone else value for gone, value in zip(missing, plain, strict=True)]
