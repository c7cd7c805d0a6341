"""What a tuple's id, position and line in the books cost, in nanoseconds a row.

    python -m evenjoin.bench.positions

Dispatch computes them for every row (kernels/content.py). Rows with an integer key, a time and two integers are the
common case; a short text and equal rows are the dearer ones. Each figure is the best of several runs, because a shared
machine only ever adds to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import click
import numpy as np
import pyarrow as pa
from rich.table import Table

from evenjoin.console import open_console
from evenjoin.kernels.content import Occurrences, content
from evenjoin.placement.place import Scattered

REPEAT = 9


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rows", multiple=True, default=(10_000, 100_000, 1_000_000), show_default=True)
def main(rows: tuple[int, ...]) -> None:
    """Measure content hashes, ids and lines for tasks of so many rows."""
    told = Table("rows of the task", "content, integers", "content, with a text", "ids", "ids, equal rows", "lines")
    for count in rows:
        told.add_row(f"{count:,}", *(f"{found:.0f} ns" for found in measured(count)))
    open_console().print(told)


def measured(count: int) -> list[float]:
    """Nanoseconds a row: content of four integers, the same with a text of 20 bytes, ids of rows that all differ and of
    rows of which ten each are equal, lines of eight instances."""
    rng = np.random.default_rng(0)
    integers = [rng.integers(0, 1_000_000, count), rng.integers(0, 10**9, count), *(pa.array(np.arange(count)),) * 2]
    text = pa.array([f"{number:020d}" for number in range(count)])
    hashes = content(integers, 1)
    ids = Occurrences().ids(hashes)
    some = rng.integers(0, max(count // 10, 1), count)
    bounds = np.linspace(0, count, 9).astype(np.int64)
    sent = Scattered(rng.permutation(count), np.full(count, 3, np.uint8), np.arange(8), bounds)
    return [
        _best(function, count)
        for function in (
            lambda: content(integers, 1),
            lambda: content([*integers, text], 1),
            lambda: Occurrences().ids(hashes),
            lambda: Occurrences().ids(hashes[some]),
            lambda: sent.lines(ids),
        )
    ]


def _best(function: Callable[[], object], count: int) -> float:
    best = float("inf")
    for _ in range(REPEAT):
        began = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - began)
    return best * 1e9 / count


if __name__ == "__main__":
    main()
