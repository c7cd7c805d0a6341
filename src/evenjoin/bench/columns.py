"""What a column that Spark computes for the join costs a row, over the plain column that it is computed from:
``python -m evenjoin.bench.columns``.

A batch frame of ROWS rows is read from parquet and handed to a Python worker in Arrow, as a batch of a join is, on one
core. Each line is the same job twice: with the plain column, and with the expression in its place. The jobs take turns;
shown is the median of ROUNDS rounds, with the least and the greatest. Spark is in ANSI mode, its default.
Not here: filters on results and output expressions, which take the results through the JVM.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table

from evenjoin.bench.session import open_session, quietly
from evenjoin.console import open_console

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS, ROUNDS = 2_000_000, 7
LINES = [("k", "k"), ("k", "k % 100"), ("s", "upper(s)"), ("ts", "ts - INTERVAL 1 MONTH"), ("ts", "CAST(ts AS DATE)")]
"""Plain columns, and expressions of them."""


def write_rows(path: Path) -> None:
    """A key, a text of eight letters and digits and a time, all at random."""
    rng = np.random.default_rng(7)
    keys = rng.integers(0, 1_000_000, ROWS)
    times = pa.array(rng.integers(1_700_000_000, 1_800_000_000, ROWS) * 1_000_000).cast(pa.timestamp("us", "UTC"))
    texts = pa.array([f"cell{k:04d}" for k in range(10_000)]).take(pa.array(keys % 10_000))
    pq.write_table(pa.table({"k": keys, "s": texts, "ts": times, "id": np.arange(ROWS)}), path)


def counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a worker does with its rows: it counts them."""
    yield pa.record_batch({"rows": [sum(batch.num_rows for batch in batches)]})


def seconds(frame: DataFrame, column: str) -> float:
    """The time of the job with this column."""
    began = time.perf_counter()
    (found,) = frame.selectExpr("id", f"{column} AS x").mapInArrow(counted, "rows long").collect()
    assert found["rows"] == ROWS
    return time.perf_counter() - began


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, quietly(Path(folder) / "spark.log"):
        write_rows(Path(folder) / "rows.parquet")
        spark = open_session(1)
        frame = spark.read.parquet(f"{folder}/rows.parquet").coalesce(1)
        nanos: list[list[tuple[float, float]]] = [[] for _ in LINES]
        for number in range(ROUNDS + 2):  # the first two warm the JVM
            for line, (plain, column) in zip(nanos, LINES, strict=True):
                base, whole = seconds(frame, plain), seconds(frame, column)
                if number > 1:
                    line.append((base / ROWS * 1e9, (whole - base) / ROWS * 1e9))
        spark.stop()
    table = Table("column", "plain, ns a row", "computed, ns more", "least to greatest")
    for (_, column), line in zip(LINES, nanos, strict=True):
        more = [each for _, each in line]
        before = f"{median(each for each, _ in line):.0f}"
        table.add_row(column, before, f"{median(more):.0f}", f"{min(more):.0f} to {max(more):.0f}")
    open_console().print(table)


if __name__ == "__main__":
    main()
