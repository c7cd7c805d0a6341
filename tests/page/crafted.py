"""A checkpoint whose keys are hot and would do harm, if something let them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import evenjoin

SCRIPT = "<script>alert(1)</script>"
ESCAPE = "\x1b[31mred\u202e$$x$$"
"""Keys that are a script, and that colour a terminal, turn what follows round and ask for a typesetter."""
SHOWN = "\\x1b[31mred\\u202e$$x$$"
SCHEMA = pa.schema([("k", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
ON = "o.k = t.k AND t.ts BETWEEN o.ts - INTERVAL 5 SECONDS AND o.ts + INTERVAL 5 SECONDS"
BEGIN = 1_700_000_000_000_000


def checkpoint(folder: Path, batches: int = 6, schema: pa.Schema = SCHEMA, many: int = 1, **options: object) -> Path:
    """Write a checkpoint at `folder`: from the third batch on a half of all rows has one of the two keys. There are
    500 rows a batch, or so `many` times as many."""
    rng = np.random.default_rng(3)
    names = np.array([*(f"cell-{n}" for n in range(60)), SCRIPT, ESCAPE])

    def rows(batch: int, count: int) -> pa.Table:
        keys, hot = rng.integers(0, 60, count), rng.random(count)
        if batch > 1:
            keys = np.where(hot < 0.3, 60, np.where(hot < 0.5, 61, keys))
        times = BEGIN + batch * 2_000_000 + rng.integers(-1_000_000, 1_000_000, count)
        return pa.table([names[keys], pa.array(times).cast(schema.field("ts").type), np.arange(count)], schema=schema)

    usual = {"on": ON, "strategy": "fastjoin", "instances": 4, "event_time": "ts", "watermark": "2 seconds"}
    with evenjoin.local(
        {"o": schema, "t": schema}, checkpoint=folder, select=["o.v AS a"], durability="os", **{**usual, **options}
    ) as join:
        for batch in range(batches):
            join.process({"o": rows(batch, 200 * many), "t": rows(batch, 300 * many)})
    return folder
