"""Random inputs for the properties: small streams full of duplicates, NULLs, ties and hot keys."""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from evenjoin.spec import JoinSpec
from evenjoin.testing import Crash

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("name", pa.string()), ("t", pa.int64()), ("v", pa.int64())])

CONDITIONS = [
    "l.k = r.k",
    "l.k = r.k AND r.t BETWEEN l.t - 3 AND l.t + 2",
    "l.k = r.k AND r.t >= l.t AND l.v <> r.v",
    "l.name = r.name AND r.t < l.t + 4",
    "l.k = r.k AND l.name = r.name",
    "l.k <=> r.k AND r.t <= l.t",
    "l.k + 1 = r.k AND l.v > 1",
    "l.name <=> r.name AND l.t = r.t",
    "l.k = r.k AND r.t BETWEEN l.t + 2 AND l.t + 1",
]


@st.composite
def sides(draw: Any, max_rows: int = 14) -> dict[str, pa.Table]:
    return {alias: draw(rows(max_rows)) for alias in ("l", "r")}


VALUES = {
    "k": st.sampled_from([None, *range(5)]),
    "name": st.sampled_from([None, "", "a", "b", "a much longer key than eight bytes"]),
    "t": st.sampled_from([None, *range(-6, 13)]),
    "v": st.sampled_from(range(4)),
}


@cache
def so_many(count: int) -> Any:
    """Lists of exactly so many rows. Making a strategy takes longer than drawing from it."""
    return st.lists(st.tuples(*VALUES.values()), min_size=count, max_size=count)


@st.composite
def rows(draw: Any, max_rows: int) -> pa.Table:
    drawn = draw(so_many(draw(st.integers(0, max_rows))))
    columns = {name: [row[number] for row in drawn] for number, name in enumerate(VALUES)}
    return pa.table({"id": list(range(len(drawn))), **columns}, schema=SCHEMA)


@st.composite
def batches(draw: Any, data: dict[str, pa.Table], max_batches: int = 4) -> list[dict[str, pa.Table]]:
    """The streams cut into micro-batches, each side at its own places."""
    from evenjoin.testing import split

    cuts = draw(st.integers(0, max_batches - 1))
    parts = {
        alias: split(table, draw(st.lists(st.integers(0, table.num_rows), min_size=cuts, max_size=cuts)))
        for alias, table in data.items()
    }
    return [{alias: part[i] for alias, part in parts.items()} for i in range(cuts + 1)]


def without_late(parts: Any, delay: int, spec: JoinSpec) -> tuple[dict[str, pa.Table], tuple[int, int]]:
    """Spark's rule, tuple by tuple: late if t <= least over sides of (greatest t of earlier batches) - delay. Tuples
    whose key is NULL do not count."""
    schema = parts[0]["l"].schema
    tops = {"l": None, "r": None}
    kept, dropped = {"l": [], "r": []}, {"l": 0, "r": 0}
    mark = None
    for part in parts:
        for alias, table in part.items():
            for row in table.to_pylist():
                is_late = mark is not None and row["t"] is not None and row["t"] <= mark
                dropped[alias] += is_late
                if not is_late:
                    kept[alias].append(row)
        for alias, table in part.items():
            tops[alias] = max([t for t in [tops[alias], *_seen(spec, alias, table)] if t is not None], default=None)
        if None not in tops.values():
            new = min(tops.values()) - delay
            mark = new if mark is None else max(mark, new)
    return {a: pa.Table.from_pylist(rows, schema) for a, rows in kept.items()}, (dropped["l"], dropped["r"])


def _seen(spec: JoinSpec, alias: str, table: pa.Table) -> list[int | None]:
    """The times of the tuples that can match."""
    (side,) = (side for side in spec.sides if side.alias == alias)
    columns = {f"{alias}.{name}": table[name].combine_chunks() for name in table.schema.names}
    keys = [expr.evaluate(columns, table.num_rows).to_pylist() for expr in side.index.exprs]
    return [t for t, *key in zip(table["t"].to_pylist(), *keys, strict=True) if None not in key]


STEPS = [Crash(s) for s in ("begin", "migrated", "executed", "receipts", "commit", "committed", "collected")]
STEPS += [Crash(s, i) for s in ("sealed", "joined", "receipt") for i in (0, 1)]
"""Every place a run can die at."""
