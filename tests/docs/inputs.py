"""What the blocks of the documentation find when they run: folders of parquet files, and streams that read them.

Everything is small and the same each time. A page may say "orders and tracks are two streaming DataFrames" and use
them. Blocks that make these names themselves (README) replace them.

    orders     id, cell, ts, fare             one cell is hot: 7 is in every other order
    tracks     taxi, cell, ts, speed
    clicks, reviews, rewards   video, user, ts
    quotes, bids               symbol, price, ts
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from spark_streams import write_batches

BATCHES, ROWS = 2, 120
SCHEMAS = {
    "orders": "id LONG, cell LONG, ts TIMESTAMP, fare LONG",
    "tracks": "taxi LONG, cell LONG, ts TIMESTAMP, speed LONG",
    "clicks": "video LONG, user LONG, ts TIMESTAMP",
    "reviews": "video LONG, user LONG, ts TIMESTAMP",
    "rewards": "video LONG, user LONG, ts TIMESTAMP",
    "quotes": "symbol STRING, price LONG, ts TIMESTAMP",
    "bids": "symbol STRING, price LONG, ts TIMESTAMP",
}


def write_inputs(folder: Path) -> None:
    """One folder of parquet files a stream, a file a batch."""
    rng = np.random.default_rng(7)
    for name, ddl in SCHEMAS.items():
        columns = [part.split()[0] for part in ddl.split(", ")]
        write_batches(folder / name, [_table(rng, columns, batch) for batch in range(BATCHES)])


def streams(spark: Any, folder: Path) -> dict[str, Any]:
    """The streams by name, one file a trigger."""
    reader = spark.readStream.option("maxFilesPerTrigger", 1)
    return {name: reader.schema(ddl).parquet(str(folder / name)) for name, ddl in SCHEMAS.items()}


def _table(rng: np.random.Generator, columns: list[str], batch: int) -> pa.Table:
    number = np.arange(ROWS) + batch * ROWS
    cell = np.where(rng.random(ROWS) < 0.5, 7, rng.integers(0, 40, ROWS))
    made: dict[str, Any] = {
        "id": number,
        "taxi": number % 50,
        "cell": cell,
        "ts": pa.array(1_790_000_000 + number * 2).cast(pa.timestamp("s", "UTC")),
        "fare": rng.integers(500, 5000, ROWS),
        "speed": rng.integers(0, 80, ROWS),
        "video": rng.integers(0, 5, ROWS),
        "user": rng.integers(0, 10, ROWS),
        "symbol": [("oil", "tea", "tin")[n % 3] for n in number],
        "price": rng.integers(90, 110, ROWS),
    }
    return pa.table({name: made[name] for name in columns})
