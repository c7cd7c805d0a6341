"""Conditions without Spark: the values that Spark gives, constants as Spark reads them, and every refusal by name."""

from __future__ import annotations

import pickle
import re
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import evenjoin
from evenjoin.errors import ConditionError, SpecError
from evenjoin.spec import Scope, read
from evenjoin.spec.expr import Call, conjunction
from evenjoin.spec.refusals import REASONS
from evenjoin.spec.zone import Zone

COLUMNS = {
    "i": pa.array([1, -7, None, 0], pa.int32()),
    "big": pa.array([2**63 - 1, -(2**63), None, 5], pa.int64()),
    "f": pa.array([1.5, float("nan"), None, -0.0], pa.float64()),
    "m": pa.array([Decimal("1.25"), Decimal("-1.25"), None, Decimal("0.00")], pa.decimal128(10, 2)),
    "w": pa.array([Decimal("1.25"), None, None, None], pa.decimal128(38, 2)),
    "s": pa.array(["Abc", "", None, "a%c"], pa.string()),
    "b": pa.array([True, False, None, True], pa.bool_()),
    "ts": pa.array(
        [datetime(2024, 2, 29, 12, 30, 5), datetime(1969, 12, 31, 23, 59, 59, 500000), None, datetime(2024, 1, 1)],
        pa.timestamp("us", "UTC"),
    ),
    "wall": pa.array([datetime(2024, 2, 29, 12, 30, 5), None, None, datetime(2024, 1, 1)], pa.timestamp("us")),
    "d": pa.array([date(2024, 2, 29), date(1969, 12, 31), None, date(2024, 1, 1)], pa.date32()),
    "e": pa.array(["x", "y", None, "x"]).dictionary_encode(),
    "st": pa.array([{"x": 1}, {"x": None}, None, {"x": 4}], pa.struct([("x", pa.int64())])),
    "arr": pa.array([[1], [], None, [2]], pa.list_(pa.int64())),
    "v": pa.array([0, 86_400_000_000, None, -1], pa.duration("us")),
}  # fmt: skip
SCOPE = Scope({"l": pa.schema([(name, array.type) for name, array in COLUMNS.items()])})


def run(sql: str, time_zone: str | None = None) -> list[Any]:
    """The values of a condition."""
    expr = conjunction(read(sql, SCOPE, time_zone))
    assert expr is not None
    found = pickle.loads(pickle.dumps(expr)).evaluate({f"l.{name}": array for name, array in COLUMNS.items()}, 4)
    return list(found.to_pylist())


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("f = 0", [False, False, None, True]),
        ("f > 1e300", [False, True, None, False]),
        ("f <=> NULL", [False, False, True, False]),
        ("i = NULL", [None] * 4),
        ("i + 1 = 2", [True, False, None, False]),
        ("m + 0.125 = 1.375", [True, False, None, False]),
        ("m = i + 0.25", [True, False, None, False]),
        ("0.1 + 0.2 + f = 0.3", [False, False, None, True]),
        ("abs(i) = 7", [False, True, None, False]),
        ("big + 1 > 0", [None, False, None, True]),
        ("big - 1 < 0", [False, None, None, False]),
        ("abs(big) > 0", [True, None, None, True]),
        ("e = 'x'", [True, False, None, True]),
        ("s = 'a%c'", [False, False, None, True]),
        ("st.x + 1 = 5", [False, None, None, True]),
        ("b AND i = 1", [True, False, None, False]),
        ("b = TRUE", [True, False, None, True]),
        ("i IS DISTINCT FROM 1", [False, True, True, True]),
        ("i IN (1, NULL)", [True, None, None, None]),
        ("i NOT BETWEEN 0 AND 5", [False, True, None, False]),
        ("i IN (0, 1.0, 7BD)", [True, False, None, True]),
        ("d <= DATE '2024-01-01'", [False, True, None, True]),
        ("d + 1 = '2024-01-02'", [False, False, None, True]),
        ("d - INTERVAL 1 WEEK = DATE'2024-02-22'", [True, False, None, False]),
        ("wall > d", [True, None, None, False]),
        ("wall = '2024-01-01'", [False, None, None, True]),
        ("wall + INTERVAL 1 DAY 2 HOURS > '2024-03-01 14:30:04'", [True, None, None, False]),
        ("ts = '2024-01-01T00:00:00Z'", [False, False, None, True]),
        ("ts = TIMESTAMP '2024-01-01 05:30:00+05:30'", [False, False, None, True]),
        ("ts + INTERVAL 23 HOURS < TIMESTAMP'2024-01-02 00:00:00Z'", [False, True, None, True]),
        ("v = INTERVAL 1 DAY", [False, True, None, False]),
        ("abs(v) <= INTERVAL 0.000001 SECONDS", [True, False, None, True]),
        ("d - DATE'2024-01-01' = INTERVAL 59 DAYS", [True, False, None, False]),
    ],
)
def test_values(sql: str, values: list[Any]) -> None:
    """What Spark gives in ANSI mode. A sum that leaves its type, for which Spark fails, is NULL."""
    assert run(sql) == values


@pytest.mark.parametrize(
    ("sql", "zone", "values"),
    [
        ("ts > '2024-02-01'", "UTC", [True, False, None, False]),
        ("ts >= d", "UTC", [True, True, None, True]),
        ("ts >= d", "+13:00", [True, True, None, True]),
        ("ts = d", "UTC", [False, False, None, True]),
        ("ts = d", "+05:30", [False, False, None, False]),
        ("ts - INTERVAL 5 HOURS = d", "-05:00", [False, False, None, False]),
        ("ts + INTERVAL 5 HOURS = d", "-05:00", [False, False, None, True]),
        ("ts = wall", "UTC", [True, None, None, True]),
        ("ts > wall", "+01:00", [True, None, None, True]),
        ("ts - wall = INTERVAL 1 HOUR", "+01:00", [True, None, None, True]),
        ("ts - INTERVAL 1 DAY < '2024-01-01'", "UTC", [False, True, None, True]),
        ("d + INTERVAL 12 HOURS < ts", "UTC", [True, True, None, False]),
        ("ts = '2023-12-31 19:00:00'", "America/New_York", [False, False, None, True]),
        ("ts < DATE'2024-01-02'", "America/New_York", [False, True, None, True]),
    ],
)
def test_values_in_a_zone(sql: str, zone: str, values: list[Any]) -> None:
    """Dates, text and timestamps without a zone are wall clocks of the zone. Constants are read in any zone."""
    assert run(sql, zone) == values


REFUSED = {
    "upper(s) = 'A'": "UPPER() is not evaluated by the embedded engine: compute it as a column before the join",
    "CAST(s AS INT) = 1": "CAST() is not evaluated",
    "s LIKE 'a%'": "LIKE is not evaluated",
    "i * 2 = 2": "* is not evaluated",
    "-i = 2": "- of a column is not evaluated",
    "arr[0] = 1": "[ is not evaluated",
    "s || 'x' = 'x'": "|| is not evaluated",
    "b IS TRUE": "IS is not evaluated",
    "CASE WHEN b THEN i ELSE 1 END = 1": "CASE is not evaluated",
    "rand() > 0": "RAND() is not evaluated",
    "abs(s) = 1": "ABS() of string is not evaluated",
    "i IN (SELECT 1)": "a subquery is not supported",
    "i = 300Y": "300Y is not read as a constant by the embedded engine: its type does not have such numbers",
    "f = 0.1F": "0.1F is not read as a constant by the embedded engine: write it as a DOUBLE",
    "s = 'a\\n'": "\\n is not read as a constant by the embedded engine: write the character itself",
    "ts > 'yesterday'": "'yesterday' is not read as a constant by the embedded engine: write 'yyyy-mm-dd hh:mm:ss'",
    "v > INTERVAL '1 12' DAY TO HOUR": "INTERVAL '1 12' DAY TO HOUR is not read as a constant",
    "d > d - INTERVAL 1 MONTH": "INTERVAL 1 MONTH has no fixed length: compute it as a column before the join",
    "i = s": "i = s: int32 and string do not compare without a CAST",
    "i = '1'": "i = '1': int32 and string do not compare",
    "ts = i": "ts = i: timestamp[us, tz=UTC] and int32 do not compare",
    "b = i": "b = i: bool and int32 do not compare",
    "arr = arr": "arr = arr: values of type list<item: int64> are not compared by the embedded engine",
    "st = st": "st = st: values of type struct<x: int64> are not compared",
    "w = f": "w = f: Spark turns the decimals into doubles",
    "m + f > 0": "m + f: Spark turns the decimals into doubles",
    "w + 1 > 0": "w + 1: decimal128(38, 2) and int32 together have more than 38 digits",
    "ts + 1 > ts": "ts + 1: timestamp[us, tz=UTC] + int32 is not computed by the embedded engine",
    "i + NULL > 1": "i + NULL: int32 + null is not computed",
    "d + big > d": "d + big: date32[day] + int64 is not computed",
    "ts = d": "ts = d depends on the time zone: add time_zone='UTC', or the one that is meant",
    "ts > '2024-01-01'": "'2024-01-01' depends on the time zone",
    "ts - ts < v": "ts - ts depends on the time zone",
    "ts + INTERVAL 24 HOURS > ts": "ts + (INTERVAL 24 HOURS) depends on the time zone",
    "d + INTERVAL 1 HOUR > d": "d + (INTERVAL 1 HOUR) depends on the time zone",
}
CHANGING = {
    "ts = d": "ts = d depends on when the clocks of Asia/Tokyo change",
    "ts = wall": "ts = wall depends on when the clocks of Asia/Tokyo change",
    "ts - ts < v": "ts - ts depends on when the clocks of Asia/Tokyo change",
    "ts + v > ts": "ts + v depends on when the clocks of Asia/Tokyo change",
    "ts > '1950-01-01'": "'1950-01-01' depends on when the clocks of Asia/Tokyo change",
}


@pytest.mark.parametrize(
    ("sql", "zone", "says"),
    [*((sql, None, says) for sql, says in REFUSED.items()), *((sql, "Asia/Tokyo", s) for sql, s in CHANGING.items())],
)
def test_refusals(sql: str, zone: str | None, says: str) -> None:
    """At definition, by name, with what to do about it and the place."""
    with pytest.raises(ConditionError) as error:
        read(sql, SCOPE, zone)
    assert str(error.value).startswith(says)
    assert (error.value.text, error.value.position is not None) == (sql, True)


def test_every_reason_is_tried() -> None:
    """Each reason for a refusal has its line in the tables above; that of outputs is in test_join_spec.py."""
    told = []
    for sql, zone in [*((sql, None) for sql in REFUSED), *((sql, "Asia/Tokyo") for sql in CHANGING)]:
        with pytest.raises(ConditionError) as error:
            read(sql, SCOPE, zone)
        told.append(str(error.value).split("\n")[0])
    patterns = {name: re.sub(r"\\{\w+\\}", ".*", re.escape(text)) for name, text in REASONS.items()}
    assert {name for name, p in patterns.items() if any(re.match(p, one) for one in told)} == REASONS.keys() - {
        "output"
    }


@pytest.mark.parametrize("sql", ["i AND b", "NOT i", "i.x = 1", "st.y = 1", "i = 'open", "i ? 1", "i = 1 2"])
def test_mistakes_are_told_from_refusals(sql: str) -> None:
    """What is no SQL, or no condition, does not ask for a column."""
    with pytest.raises(ConditionError) as error:
        read(sql, SCOPE)
    assert "embedded engine" not in str(error.value)


def test_columns_and_text() -> None:
    """The names read, and a text that tells expressions apart."""
    expr = conjunction(read("l.i + 1 > 2 AND (l.s = 'it''s' OR l.b)", SCOPE))
    assert expr is not None
    assert expr.columns == {"l.i", "l.s", "l.b"}
    assert conjunction(read(str(expr), SCOPE)) == expr
    assert str(read("(i - 1) - 2 > 0", SCOPE)[0]) != str(read("i - (1 - 2) > 0", SCOPE)[0])
    equal = {"i": ["1L", "1", "1.0", "-5", "1S", "NULL", "1e0"], "s": ["'1'", "'it''s'", r"'\\'"], "b": ["TRUE"],
             "v": ["INTERVAL 1 SECOND", "INTERVAL -1 DAY"], "wall": ["TIMESTAMP_NTZ'2024-01-01 00:00:00.5'"],
             "ts": ["TIMESTAMP'2024-01-01 00:00:00Z'"], "d": ["DATE'2024-01-01'"]}  # fmt: skip
    texts = [f"{name} = {constant}" for name, constants in equal.items() for constant in constants]
    read_once = [read(text, SCOPE)[0] for text in texts]
    assert [read(str(expr), SCOPE)[0] for expr in read_once] == read_once
    assert len(set(map(str, read_once))) == len(texts)


def test_a_chain_of_constants_is_a_constant() -> None:
    """So that a bound is one number."""
    (found,) = read("ts <= ts + (INTERVAL 1 HOUR - INTERVAL 30 MINUTES)", SCOPE)
    assert isinstance(found, Call)
    assert str(found) == "l.ts <= (l.ts + INTERVAL '1800' SECOND)"


@pytest.mark.parametrize("zone", ["Mars/Phobos", "+5", "", 5])
def test_a_zone_that_does_not_exist(zone: Any) -> None:
    """The message says what a zone looks like."""
    with pytest.raises(SpecError, match=r"time_zone=.* give 'UTC'"):
        Zone.read(zone)


@pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")
def test_an_unsigned_integer_that_is_too_great() -> None:
    """Spark's BIGINT ends at 2^63 - 1; the message says what to do."""
    schema = pa.schema([("k", pa.uint64())])
    rows = {alias: pa.table({"k": [1, 2**63]}, schema) for alias in "lr"}
    with (
        evenjoin.local({"l": schema, "r": schema}, "l.k = r.k") as join,
        pytest.raises(evenjoin.EvenJoinError, match=r"9223372036854775808 .*cast the column to decimal128"),
    ):
        join.process(rows)
