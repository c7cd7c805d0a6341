"""Spark's semantics where DuckDB's differ or cannot be asked, and the failure modes."""

from __future__ import annotations

import pickle
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from evenjoin.errors import ConditionError
from evenjoin.spec import Scope
from evenjoin.spec.parse import parse

COLUMNS = {
    "i": pa.array([1, -7, None, 0], pa.int32()),
    "big": pa.array([2**62, -(2**62), None, 5], pa.int64()),
    "f": pa.array([1.5, float("nan"), None, -0.0], pa.float64()),
    "m": pa.array([Decimal("1.25"), Decimal("-1.25"), None, Decimal("0.00")], pa.decimal128(10, 2)),
    "s": pa.array(["Abc", "", None, "a%c"], pa.string()),
    "b": pa.array([True, False, None, True], pa.bool_()),
    "ts": pa.array(
        [datetime(2024, 2, 29, 12, 30, 5), datetime(1969, 12, 31, 23, 59, 59, 500000), None, datetime(2024, 1, 1)],
        pa.timestamp("us", "UTC"),
    ),
    "d": pa.array([date(2024, 2, 29), date(1969, 12, 31), None, date(2024, 1, 1)], pa.date32()),
    "e": pa.array(["x", "y", None, "x"]).dictionary_encode(),
    "st": pa.array([{"x": 1}, {"x": None}, None, {"x": 4}], pa.struct([("x", pa.int64())])),
}  # fmt: skip
SCOPE = Scope({"l": pa.schema([(name, array.type) for name, array in COLUMNS.items()])})
UTC = timezone.utc


def run(sql: str) -> pa.Array:
    expr = parse(sql, SCOPE)
    array = expr.evaluate({f"l.{name}": column for name, column in COLUMNS.items()}, 4)
    assert array.type == expr.type(SCOPE.types)
    assert pickle.loads(pickle.dumps(expr)) == expr
    assert len(array) == 4
    return array


@pytest.mark.parametrize(
    ("sql", "type_", "values"),
    [
        ("i / 2", pa.float64(), [0.5, -3.5, None, 0.0]),
        ("i + 1", pa.int32(), [2, -6, None, 1]),
        ("i + 1L", pa.int64(), [2, -6, None, 1]),
        ("i % 4", pa.int32(), [1, -3, None, 0]),
        ("i DIV 2", pa.int64(), [0, -3, None, 0]),
        ("f % 1", pa.float64(), None),
        ("f = 0", pa.bool_(), [False, False, None, True]),
        ("f > 1e300", pa.bool_(), [False, True, None, False]),
        ("f <=> NULL", pa.bool_(), [False, False, True, False]),
        ("i = NULL", pa.bool_(), [None] * 4),
        ("NULL + 1", pa.int32(), [None] * 4),
        ("1 + NULL", pa.int32(), [None] * 4),
        ("m + 0.125", None, [Decimal("1.375"), Decimal("-1.125"), None, Decimal("0.125")]),
        ("m = i + 0.25", pa.bool_(), [True, False, None, False]),
        ("m > f", pa.bool_(), [False, False, None, False]),
        ("abs(i)", pa.int32(), [1, 7, None, 0]),
        ("round(m, 1)", None, [Decimal("1.30"), Decimal("-1.30"), None, Decimal("0.00")]),
        ("floor(m)", None, [Decimal(1), Decimal(-2), None, Decimal(0)]),
        ("ceil(i / 2)", pa.int64(), [1, -3, None, 0]),
        ("upper(s)", pa.string(), ["ABC", "", None, "A%C"]),
        ("length(s)", pa.int32(), [3, 0, None, 3]),
        ("concat(s, '-', i)", pa.string(), ["Abc-1", "--7", None, "a%c-0"]),
        ("s || s", pa.string(), ["AbcAbc", "", None, "a%ca%c"]),
        ("substring(s, 2, 1)", pa.string(), ["b", "", None, "%"]),
        ("substring(s, -2)", pa.string(), ["bc", "", None, "%c"]),
        ("s LIKE '_b%'", pa.bool_(), [True, False, None, False]),
        ("s LIKE 'a\\\\%c'", pa.bool_(), [False, False, None, True]),
        ("s NOT LIKE 'A%'", pa.bool_(), [False, True, None, True]),
        ("e = 'x'", pa.bool_(), [True, False, None, True]),
        ("st.x + 1", pa.int64(), [2, None, None, 5]),
        ("if(b, i, 0)", pa.int32(), [1, 0, 0, 0]),
        ("CASE i WHEN 1 THEN 'one' ELSE 'other' END", pa.string(), ["one", "other", "other", "other"]),
        ("nullif(i, 1)", pa.int32(), [None, -7, None, 0]),
        ("nvl(i, 9)", pa.int32(), [1, -7, 9, 0]),
        ("b IS TRUE", pa.bool_(), [True, False, False, True]),
        ("b IS NOT TRUE", pa.bool_(), [False, True, True, False]),
        ("i IS DISTINCT FROM 1", pa.bool_(), [False, True, True, True]),
        ("i IN (1, NULL)", pa.bool_(), [True, None, None, None]),
        ("i NOT BETWEEN 0 AND 5", pa.bool_(), [False, True, None, False]),
        ("CAST(f AS STRING)", None, ConditionError),
        ("CAST(i AS STRING)", pa.string(), ["1", "-7", None, "0"]),
        ("CAST(m AS INT)", pa.int32(), [1, -1, None, 0]),
        ("CAST(ts AS BIGINT)", pa.int64(), [1709209805, -1, None, 1704067200]),
        ("CAST(ts AS DATE)", pa.date32(), [date(2024, 2, 29), date(1969, 12, 31), None, date(2024, 1, 1)]),
        ("CAST(d AS STRING)", pa.string(), ["2024-02-29", "1969-12-31", None, "2024-01-01"]),
        ("CAST(ts AS STRING)", pa.string(),
         ["2024-02-29 12:30:05", "1969-12-31 23:59:59.5", None, "2024-01-01 00:00:00"]),
        ("CAST(i AS DECIMAL(5, 1))", pa.decimal128(5, 1), [Decimal("1.0"), Decimal("-7.0"), None, Decimal("0.0")]),
        ("ts > '2024-02-01'", pa.bool_(), [True, False, None, False]),
        ("ts = '2024-01-01T00:00:00Z'", pa.bool_(), [False, False, None, True]),
        ("d <= DATE '2024-01-01'", pa.bool_(), [False, True, None, True]),
        ("ts >= d", pa.bool_(), [True, True, None, True]),
        ("ts + INTERVAL 1 DAY", pa.timestamp("us", "UTC"),
         [datetime(2024, 3, 1, 12, 30, 5, tzinfo=UTC), datetime(1970, 1, 1, 23, 59, 59, 500000, tzinfo=UTC), None,
          datetime(2024, 1, 2, tzinfo=UTC)]),
        ("d + INTERVAL 1 DAY", pa.date32(), [date(2024, 3, 1), date(1970, 1, 1), None, date(2024, 1, 2)]),
        ("d + 1", pa.date32(), [date(2024, 3, 1), date(1970, 1, 1), None, date(2024, 1, 2)]),
        ("ts - d", pa.duration("us"),
         [timedelta(hours=12, minutes=30, seconds=5), timedelta(seconds=86399, microseconds=500000), None,
          timedelta(0)]),
        ("ts - ts < INTERVAL '1 hour'", pa.bool_(), [True, True, None, True]),
        ("ts > d + 2 * INTERVAL 1 HOUR", pa.bool_(), [True, True, None, False]),
        ("year(ts) * 100 + month(d)", pa.int32(), [202402, 196912, None, 202401]),
        ("hour(ts)", pa.int32(), [12, 23, None, 0]),
        ("second(ts)", pa.int32(), [5, 59, None, 0]),
        ("CAST('12' AS INT) + i", pa.int32(), [13, 5, None, 12]),
        ("i = '1'", pa.bool_(), [True, False, None, False]),
        ("3", pa.int32(), [3, 3, 3, 3]),
    ],
)  # fmt: skip
def test_semantics(sql: str, type_: pa.DataType | None, values: Any) -> None:
    """The value and type Spark gives."""
    if values is ConditionError:
        with pytest.raises(ConditionError):
            run(sql)
        return
    array = run(sql)
    assert type_ is None or array.type == type_
    assert values is None or array.to_pylist() == values


def test_branches_not_taken_do_not_fail() -> None:
    """CASE, AND, OR and coalesce protect a division; unprotected it is a ConditionError naming the expression."""
    assert run("CASE WHEN i <> 0 THEN 14 / i ELSE -1 END").to_pylist() == [14.0, -2.0, -1.0, -1.0]
    assert run("i <> 0 AND 14 / i > 0").to_pylist() == [True, False, None, False]
    assert run("i = 0 OR 14 / i > 0").to_pylist() == [True, False, None, True]
    assert run("coalesce(i, 1 / i, 2)").to_pylist() == [1.0, -7.0, 2.0, 0.0]
    with pytest.raises(ConditionError, match=r"14 / l\.i fails for a value: divide by zero"):
        run("14 / i")
    with pytest.raises(ConditionError, match="overflow"):
        run("big * 4")


@pytest.mark.parametrize(
    "sql",
    ["s + 1", "b + 1", "i AND b", "NOT i", "upper(i)", "ts + ts", "ts + 1", "s = i", "ts = i", "b = i", "year(i)",
     "-s",
     "s LIKE i", "substring(s, i)", "CASE WHEN i THEN 1 END", "coalesce(s, i)", "CAST(b AS DATE)",
     "CAST(i AS ARRAY<INT>)",
     "TRY_CAST(s AS INT)", "i.x", "st.y", "abs(s)", "rand()", "current_timestamp()", "i & 1", "i = 'one'"],
)  # fmt: skip
def test_types_are_checked_when_parsed(sql: str) -> None:
    """No row is needed to find a type error, and it has a place."""
    with pytest.raises(ConditionError) as error:
        parse(sql, SCOPE)
    assert error.value.text == sql


def test_columns_and_text() -> None:
    """The names read, and a text that tells expressions apart."""
    expr = parse("l.i + 1 > 2 AND (l.s = 'it''s' OR l.b)", SCOPE)
    assert expr.columns == {"l.i", "l.s", "l.b"}
    assert parse(str(expr), SCOPE) == expr
    assert str(parse("(i - 1) - 2 > 0", SCOPE)) != str(parse("i - (1 - 2) > 0", SCOPE))
    for sql in ("1L", "1", "1.0", "1e0", "'1'", "INTERVAL 1 SECOND", "TRUE", "NULL", "-5", "1S"):
        assert parse(str(parse(sql, SCOPE)), SCOPE) == parse(sql, SCOPE)
    assert len({str(parse(sql, SCOPE)) for sql in ("1L", "1", "1.0", "1e0", "'1'")}) == 5
