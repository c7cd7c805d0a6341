"""Expressions give what DuckDB gives: the second opinion on three-valued logic, NaN order and arithmetic."""

from __future__ import annotations

import math
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.spec import Scope, read
from evenjoin.spec.expr import conjunction
from thorough import examples

SCHEMA = pa.schema(
    [
        ("a", pa.int64()),
        ("b", pa.int64()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("p", pa.bool_()),
        ("q", pa.bool_()),
    ]
)
SCOPE = Scope({"l": SCHEMA})

small = st.one_of(st.none(), st.integers(-20, 20))
real = st.one_of(
    st.none(), st.sampled_from([0.0, -0.0, 1.5, -2.25, math.nan, math.inf, -math.inf, 1e10]), st.floats(-50, 50)
)
logical = st.one_of(st.none(), st.booleans())
rows = st.lists(st.tuples(small, small, real, real, logical, logical), max_size=8)

integers = st.recursive(
    st.sampled_from(["l.a", "l.b", "3", "-2", "0"]),
    lambda e: st.one_of(
        st.builds("({} {} {})".format, e, st.sampled_from(["+", "-"]), e),
        st.builds("abs({})".format, e),
    ),
    max_leaves=5,
)
reals = st.one_of(
    st.sampled_from(["l.x", "l.y"]),
    st.builds("(l.x - {})".format, integers),
)
comparison = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])
leaf = st.one_of(
    st.sampled_from(["l.p", "l.q", "TRUE", "FALSE", "NULL"]),
    st.builds("({} {} {})".format, integers, comparison, integers),
    st.builds("({} {} {})".format, reals, comparison, reals),
    st.builds("({} {} {})".format, integers, comparison, reals),
    st.builds("({} BETWEEN {} AND {})".format, integers, integers, integers),
    st.builds("({} IN ({}, {}, 1))".format, integers, integers, integers),
    st.builds("({} IS NULL)".format, reals),
    st.builds("({} IS NOT NULL)".format, integers),
)
conditions = st.recursive(
    leaf,
    lambda e: st.one_of(
        st.builds("({} {} {})".format, e, st.sampled_from(["AND", "OR"]), e),
        st.builds("(NOT {})".format, e),
    ),
    max_leaves=5,
)


def whole(sql: str, scope: Scope) -> Any:
    """A condition as one expression."""
    return conjunction(read(sql, scope))


def ours(sql: str, data: list[tuple[object, ...]]) -> list[object]:
    """Our values."""
    columns = {f"l.{f.name}": pa.array([row[i] for row in data], f.type) for i, f in enumerate(SCHEMA)}
    return list(whole(sql, SCOPE).evaluate(columns, len(data)).to_pylist())


def by_duckdb(sql: str, data: list[tuple[object, ...]]) -> list[object]:
    """DuckDB's values."""
    rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in data]
    with duckdb.connect() as db:
        db.register("l", pa.Table.from_pylist(rows, SCHEMA))
        return [row[0] for row in db.execute(f"SELECT {sql.replace('<=>', 'IS NOT DISTINCT FROM')} FROM l").fetchall()]


@settings(max_examples=examples(150), deadline=None)
@given(conditions, rows)
def test_conditions(sql: str, data: list[tuple[object, ...]]) -> None:
    """Conditions of integers, floats (NaN, infinities, zeros) and booleans with NULLs agree with DuckDB."""
    assert ours(sql, data) == by_duckdb(sql, data)


@settings(max_examples=examples(100), deadline=None)
@given(conditions, rows)
def test_the_text_reads_back(sql: str, data: list[tuple[object, ...]]) -> None:
    """str(expr) is SQL that means the same, and read again it is the same expression."""
    again = str(whole(sql, SCOPE))
    assert ours(again, data) == ours(sql, data)
    assert whole(str(whole(again, SCOPE)), SCOPE) == whole(again, SCOPE)


@settings(max_examples=examples(60), deadline=None)
@given(conditions, rows, st.integers(0, 8))
def test_evaluate_is_row_by_row(sql: str, data: list[tuple[object, ...]], cut: int) -> None:
    """Evaluating two pieces and concatenating equals evaluating the whole."""
    assert ours(sql, data[:cut]) + ours(sql, data[cut:]) == ours(sql, data)
