"""Joins of any number of sides on a common key: skewed streams, the condition, and DuckDB's answer."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa

from evenjoin.testing import multiset

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("t", pa.int64())])


def schemas(sides):
    return dict.fromkeys("abcd"[:sides], SCHEMA)


def equal_keys(sides, span=None):
    """All sides have the same k; with a span, also times at most that far apart from the first side's."""
    terms = [f"a.k = {other}.k" for other in "abcd"[1:sides]]
    if span is not None:
        terms += [f"{other}.t BETWEEN a.t - {span} AND a.t + {span}" for other in "abcd"[1:sides]]
    return " AND ".join(terms)


def ids(sides):
    return [f"{alias}.id AS i{alias}" for alias in "abcd"[:sides]]


def skewed(sides, sizes, keys=60, exponent=1.0, seed=0, hot=()):
    """Micro-batches with so many rows a side, with keys by a zipf law that is the same for all sides. Times ascend by
    ten a batch. `hot` are the hottest codes, the first one most."""
    rng = np.random.default_rng(seed)
    weight = np.arange(1, keys + 1, dtype=float) ** -exponent
    codes = np.array([*hot, *(k for k in range(keys) if k not in hot)], np.int64)

    def rows(batch, count):
        drawn = codes[rng.choice(keys, count, p=weight / weight.sum())]
        return [np.arange(count) + sum(sizes[:batch]), drawn, batch * 10 + rng.integers(0, 10, count)]

    return [
        {alias: pa.table(rows(batch, count), schema=SCHEMA) for alias in "abcd"[:sides]}
        for batch, count in enumerate(sizes)
    ]


def answer(condition, parts):
    """The results by DuckDB, as a multiset of ids."""
    whole = {alias: pa.concat_tables(part[alias] for part in parts) for alias in parts[0]}
    with duckdb.connect() as db:
        for alias, table in whole.items():
            db.register(alias, table)
        select = ", ".join(ids(len(whole)))
        return multiset(db.sql(f"SELECT {select} FROM {', '.join(whole)} WHERE {condition}").to_arrow_table())
