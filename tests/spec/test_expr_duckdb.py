"""Expressions give what DuckDB gives: the second opinion on three-valued logic, NaN order and arithmetic."""

from __future__ import annotations

import math

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.spec import Scope
from evenjoin.spec.parse import parse
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
        st.builds("({} {} {})".format, e, st.sampled_from(["+", "-", "*"]), e),
        st.builds("(- {})".format, e),
        st.builds("abs({})".format, e),
        st.builds("coalesce({}, {})".format, e, e),
        st.builds("({} % 7)".format, e),
    ),
    max_leaves=5,
)
reals = st.one_of(
    st.sampled_from(["l.x", "l.y"]),
    st.builds("({} / 4)".format, integers),
    st.builds("coalesce({}, {})".format, st.sampled_from(["l.x", "l.y"]), integers),
)
comparison = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])
leaf = st.one_of(
    st.sampled_from(["l.p", "l.q", "TRUE", "FALSE", "(CAST(NULL AS BOOLEAN))"]),
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
        st.builds("(CASE WHEN {} THEN {} ELSE {} END)".format, e, e, e),
        st.builds("(CASE WHEN {} THEN {} END)".format, e, e),
    ),
    max_leaves=5,
)


def both(sql: str, data: list[tuple[object, ...]]) -> tuple[list[object], list[object]]:
    """Our values and DuckDB's."""
    table = pa.table(
        [pa.array(column, f.type) for column, f in zip(zip(*data, strict=True), SCHEMA, strict=True)]
        if data
        else [pa.array([], f.type) for f in SCHEMA],
        schema=SCHEMA,
    )
    columns = {f"l.{name}": table[name].combine_chunks() for name in table.column_names}
    ours = parse(sql, SCOPE).evaluate(columns, len(data)).to_pylist()
    with duckdb.connect() as db:
        db.register("l", table)
        theirs = [
            row[0] for row in db.execute(f"SELECT {sql.replace('<=>', 'IS NOT DISTINCT FROM')} FROM l").fetchall()
        ]
    return ours, theirs


@settings(max_examples=examples(150), deadline=None)
@given(conditions, rows)
def test_conditions(sql: str, data: list[tuple[object, ...]]) -> None:
    """Conditions of integers, floats (NaN, infinities, zeros) and booleans with NULLs agree with DuckDB."""
    ours, theirs = both(sql, data)
    assert ours == theirs


@settings(max_examples=examples(100), deadline=None)
@given(integers, rows)
def test_integers(sql: str, data: list[tuple[object, ...]]) -> None:
    """Integer arithmetic agrees with DuckDB."""
    ours, theirs = both(sql, data)
    assert ours == theirs


@settings(max_examples=examples(100), deadline=None)
@given(conditions, rows)
def test_the_text_reads_back(sql: str, data: list[tuple[object, ...]]) -> None:
    """str(expr) is SQL for the same expression, and a fixed point."""
    expr = parse(sql, SCOPE)
    assert parse(str(expr), SCOPE) == expr


@settings(max_examples=examples(60), deadline=None)
@given(conditions, rows, st.integers(0, 8))
def test_evaluate_is_row_by_row(sql: str, data: list[tuple[object, ...]], cut: int) -> None:
    """Evaluating two pieces and concatenating equals evaluating the whole."""
    expr = parse(sql, SCOPE)

    def run(part: list[tuple[object, ...]]) -> list[object]:
        columns = {f"l.{f.name}": pa.array([row[i] for row in part], f.type) for i, f in enumerate(SCHEMA)}
        return expr.evaluate(columns, len(part)).to_pylist()

    assert run(data[:cut]) + run(data[cut:]) == run(data)
