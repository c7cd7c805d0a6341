"""The answer of any inner join by DuckDB: all sides' whole inputs, in one batch query.

    answer({"r": table, "s": table, "t": table}, "r.k = s.k AND s.k = t.k", ["r.id AS a", "t.id AS b"])

It shares nothing with the engine: not its reader of SQL, its classification of conjuncts, its evaluation of
expressions, nor its time. It knows no watermark, so late rows are in its answer. `evenjoin.testing.brute_force` is the
other oracle; that one knows our types and windows, but shares our expressions.

Invariant: the result is a multiset. A combination that comes twice is seen.
Not here: outer joins.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from evenjoin.testing import multiset


@dataclass(frozen=True, slots=True)
class Windows:
    """Sliding windows (tumbling: `slide` is `size`) over whole numbers. `times` is the time's column of each side."""

    size: int
    slide: int
    times: Mapping[str, str]


def answer(
    data: Mapping[str, pa.Table], on: str, select: Sequence[str], windows: Windows | None = None
) -> Counter[tuple[Any, ...]]:
    """The rows of the join of all sides, with their multiplicities. With windows a row comes once for each window that
    holds all of its tuples, and the start of the window is its last column."""
    return multiset(joined(data, on, select, windows))


def joined(
    data: Mapping[str, pa.Table], on: str, select: Sequence[str], windows: Windows | None = None
) -> pa.Table:  # fmt: skip
    """The same as a table, in no order."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for alias, table in data.items():
            connection.register(f"side_{alias}", table)
        return connection.sql(query(data, on, select, windows)).to_arrow_table()


def query(data: Mapping[str, pa.Table], on: str, select: Sequence[str], windows: Windows | None = None) -> str:
    """The join in DuckDB's SQL, over the tables `side_<alias>`."""
    sides = [f"side_{alias} AS {alias}" for alias in data]
    wanted, conditions = list(select), [f"({in_duckdb(on)})"]
    if windows is not None:
        sides.append(f"(SELECT unnest(range({_bounds(data, windows)}, {windows.slide})) AS w) AS starts")
        wanted.append("starts.w AS w")
        conditions += [
            f"starts.w <= {alias}.{time} AND {alias}.{time} < starts.w + {windows.size}"
            for alias, time in windows.times.items()
        ]
    return f"SELECT {', '.join(map(in_duckdb, wanted))} FROM {', '.join(sides)} WHERE {' AND '.join(conditions)}"


def in_duckdb(sql: str) -> str:
    """Our SQL (Spark's) as DuckDB reads it: `<=>`, and numbers with a point, which are doubles and no decimals."""
    sql = sql.replace("<=>", "IS NOT DISTINCT FROM")
    return re.sub(r"(?<![\w.'])(\d+\.\d+)(?![\w.'])", r"\1::DOUBLE", sql)


def _bounds(data: Mapping[str, pa.Table], windows: Windows) -> str:
    """The first start of a window that can hold a tuple, and one beyond the last."""
    ends = [pc.min_max(data[alias][time]).as_py() for alias, time in windows.times.items() if data[alias].num_rows]
    times = [value for end in ends for value in end.values() if value is not None] or [0]
    return f"{(min(times) - windows.size) // windows.slide * windows.slide}, {max(times) + 1}"
