"""A reader that looks at an output folder all the time, while the join that writes it is killed and started again.

It reads every parquet file below the folder, in turn with DuckDB, which skips no folder, and with pyarrow. What it must
see at each look, with `wanted[n]` the number of batch n's results and a sum over them:

    found = {n: wanted[n] for n in range(k)}    for a k that never becomes smaller

So it notices a batch of which a part is missing or doubled, one that is left out, one that vanishes, and files that
cannot be read.
"""

from __future__ import annotations

import threading
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

FACTOR = 1_000_003
"""A result (a, b) counts as a * FACTOR + b in a batch's sum."""
Seen = dict[int, tuple[int, int]]


class Reader(threading.Thread):
    """Looks until `close`. `problems` are what it has seen that may not be, `polls` the number of looks."""

    def __init__(self, output: Path, wanted: Seen) -> None:
        super().__init__(daemon=True)
        self.output, self.wanted = output, wanted
        self.problems: list[str] = []
        self.polls = self.batches = 0
        self._ended = threading.Event()
        self._duck = duckdb.connect()

    def __enter__(self) -> Reader:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        while not self._ended.wait(0.03):
            self.look()

    def look(self) -> None:
        """One look with each of the two."""
        for read in (self._by_duckdb, self._by_pyarrow):
            self.polls += 1
            try:
                found = read()
            except Exception as error:  # whatever it is, a reader should not have met it
                self.problems.append(f"{read.__name__}: {type(error).__name__} {error}")
                continue
            whole = {batch: self.wanted[batch] for batch in range(len(found))}
            if found != whole or len(found) < self.batches:
                odd = {batch: seen for batch, seen in found.items() if seen != whole.get(batch)}
                self.problems.append(f"{read.__name__}: {len(found)} batches after {self.batches}, wrong: {odd}")
            self.batches = max(self.batches, len(found))

    def _by_duckdb(self) -> Seen:
        files = f"read_parquet('{self.output}/**/*.parquet', hive_partitioning = true)"
        sums = f"count(*), sum(a::HUGEINT * {FACTOR} + b)::BIGINT"
        try:
            rows = self._duck.sql(f"SELECT batch_id, {sums} FROM {files} GROUP BY batch_id").fetchall()
        except duckdb.IOException as error:
            if "No files found" in str(error):
                return {}
            raise
        return {int(batch): (count, total) for batch, count, total in rows}

    def _by_pyarrow(self) -> Seen:
        if not self.output.exists():
            return {}
        table = ds.dataset(self.output, format="parquet", partitioning="hive").to_table()
        if table.num_rows == 0:
            return {}
        batches, numbers = np.unique(table["batch_id"].to_numpy(), return_inverse=True)
        worth = table["a"].to_numpy() * FACTOR + table["b"].to_numpy()
        sums = np.zeros(len(batches), np.int64)
        np.add.at(sums, numbers, worth)
        counts = np.bincount(numbers)
        return {int(b): (int(c), int(s)) for b, c, s in zip(batches, counts, sums, strict=True)}


def wanted_of(sides: dict[str, pa.Table | str], condition: str, rows: int) -> Seen:
    """What each batch should hold where row n of a side is of batch n // rows: by DuckDB's join of the whole input. Its
    results are those of which the later row is in the batch."""
    found = duckdb.connect()
    for alias, rows_of in sides.items():
        if isinstance(rows_of, str):
            found.execute(f"CREATE VIEW {alias} AS FROM '{rows_of}'")
        else:
            found.register(alias, rows_of)
    batch = f"greatest(l.id, r.id) // {rows}"
    sums = f"count(*), sum(l.id::HUGEINT * {FACTOR} + r.id)::BIGINT"
    answer = found.execute(f"SELECT {batch}, {sums} FROM l, r WHERE {condition} GROUP BY ALL").fetchall()
    return {int(number): (count, total) for number, count, total in answer}
