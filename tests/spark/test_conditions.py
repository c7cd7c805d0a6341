"""Conditions on Spark mean what they mean in Spark's own SQL, on the same rows: the oracle is Spark's batch join."""

from __future__ import annotations

from collections import Counter

import pytest
from own_join import ours, rows, same, session
from pyspark.errors import SparkRuntimeException
from pyspark.sql import functions as sf

from evenjoin import tumbling
from evenjoin.errors import ConditionError
from evenjoin.runtime.spark.prepare import prepare

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")]

TIMES = (
    "TIMESTAMP'2024-03-09 12:00:00Z', TIMESTAMP_NTZ'2024-03-09 12:00:00', DATE'2024-03-09', '2024-03-09 07:00:00'",
    "TIMESTAMP'2024-03-10 06:30:00Z', TIMESTAMP_NTZ'2024-03-10 02:30:00', DATE'2024-03-10', '2024-03-10'",
    "TIMESTAMP'2024-03-10 07:30:00Z', TIMESTAMP_NTZ'2024-03-10 03:30:00', DATE'2024-03-10', '2024-03-10 03:30:00'",
    "TIMESTAMP'2024-03-10 12:00:00Z', TIMESTAMP_NTZ'2024-03-10 12:00:00', DATE'2024-03-11', '2024-03-11'",
    "TIMESTAMP'2024-11-03 05:30:00Z', TIMESTAMP_NTZ'2024-11-03 01:30:00', DATE'2024-11-03', '2024-11-03 01:30:00'",
    "TIMESTAMP'2024-11-03 06:30:00Z', TIMESTAMP_NTZ'2024-11-03 00:00:00', DATE'2024-11-04', '2024-11-04'",
    "TIMESTAMP'2024-03-10 15:00:00Z', TIMESTAMP_NTZ'2024-03-11 00:00:00', DATE'2024-04-09', '2024-04-10'",
    "TIMESTAMP'2024-04-10 05:00:00Z', TIMESTAMP_NTZ'2024-04-10 01:00:00', DATE'2024-04-10', '2024-03-10 00:00:00'",
)
TIME_CONDITIONS = [
    "hour(l.ts) = hour(r.ts)",
    "day(l.ts) = day(r.ts)",
    "CAST(l.ts AS DATE) = r.d",
    "CAST(l.ts AS DATE) = CAST(r.ts AS DATE)",
    "CAST(l.ts AS STRING) = r.s",
    "CAST(l.s AS TIMESTAMP) = r.ts",
    "CAST(l.ts AS TIMESTAMP_NTZ) = r.n",
    "CAST(l.n AS TIMESTAMP) <= r.ts",
    "l.ts = r.n",
    "l.ts < r.n",
    "l.ts = r.d",
    "l.ts >= r.d",
    "l.n > r.d",
    "l.ts = r.s",
    "l.d = r.s",
    "l.ts > TIMESTAMP'2024-03-10 02:30:00' AND l.d = r.d",
    "l.ts > '2024-03-10' AND l.d = r.d",
    "l.ts >= DATE'2024-03-10' AND l.d = r.d",
    "r.ts BETWEEN l.ts AND l.ts + INTERVAL 1 DAY",
    "r.ts = l.ts + INTERVAL 1 DAY",
    "r.ts = l.ts + INTERVAL 24 HOURS",
    "r.ts <= l.ts + INTERVAL 23 HOURS AND r.ts >= l.ts",
    "r.ts <= l.ts + INTERVAL 1 MONTH AND r.ts > l.ts - INTERVAL 2 WEEKS",
    "r.n <= l.n + INTERVAL 1 DAY AND r.n >= l.n",
    "l.ts - r.ts < INTERVAL 5 HOURS AND l.ts - r.ts > INTERVAL -5 HOURS",
    "abs(l.ts - r.ts) <= INTERVAL 23 HOURS",
    "INTERVAL 1 DAY >= r.ts - l.ts AND l.d <= r.d",
    "l.n - r.n = INTERVAL 0 SECONDS",
    "l.d - r.d <= INTERVAL 1 DAY AND l.d >= r.d",
    "r.d BETWEEN l.d AND l.d + 1",
    "r.d <= l.d + INTERVAL 1 MONTH",
    "CAST(l.ts - r.ts AS BIGINT) = 3600",
    "date_trunc('hour', l.ts) = date_trunc('hour', r.ts)",
    "datediff(l.ts, r.ts) = 1",
    "date_format(l.ts, 'HH') = date_format(r.n, 'HH')",
    "unix_timestamp(l.ts) = unix_timestamp(r.n)",
]


SLOW_ZONES = [pytest.param(zone, marks=pytest.mark.slow) for zone in ("UTC", "Asia/Tokyo", "Asia/Kolkata")]


@pytest.mark.parametrize("zone", ["America/New_York", *SLOW_ZONES])
def test_times_in_every_zone(spark, zone):
    """Times, dates, text and intervals are compared by the wall clock of the session's zone, as in Spark."""
    with session(spark, zone):
        columns = "ts timestamp, n timestamp_ntz, d date, s string"
        sides = {alias: rows(spark, columns, *TIMES).cache() for alias in "lr"}
        for on in TIME_CONDITIONS:
            same(sides, on)


NUMBERS = (
    "1, 5, 0.30, 0.3, 0.3D, 0.1F, '0.3'",
    "5, 1, 0.70, 0.7, 0.7D, 0.7F, '5'",
    "2147483647, 9223372036854775807, 999.99, 1234567.891, 'NaN', 'NaN', 'abc'",
    "-2147483648, -9223372036854775808, -999.99, 0.285, -0.0D, 'Infinity', '5.015'",
    "3, 9007199254740993, 5.01, 9007199254740993, 9007199254740992D, 16777216F, '999.99'",
    "0, 0, 0.28, 5.015, 5.015D, 0.0F, ''",
)
NUMBER_TYPES = "i int, b bigint, d decimal(5,2), w decimal(38,10), x double, f float, s string"
NUMBER_CONDITIONS = [
    "l.x = 0.3 AND l.i = r.i",
    "l.d = r.x",
    "l.w = r.x",
    "l.x = 0.7D AND l.i = r.i",
    "l.d = r.w",
    "l.d < r.f",
    "l.b = r.x",
    "l.i = r.f",
    "l.f = r.x",
    "l.b = r.w",
    "l.d * l.d = r.d * r.d",
    "l.w / 3 = r.w / 3",
    "l.x < 10 AND CAST(l.x AS DECIMAL(5,2)) = r.d",
    "CAST(0.285D AS DECIMAL(5,2)) = l.d AND l.i = r.i",
    "round(5.015D, 2) = r.d AND l.i = r.i",
    "round(l.d) = round(r.d)",
    "round(l.x, 2) = round(r.x, 2)",
    "round(l.x, 2) = r.d",
    "ceil(l.d) = ceil(r.d)",
    "floor(l.x) = floor(r.x)",
    "round(1e308D, 1) > l.x AND l.i = r.i",
    "CAST(l.d AS STRING) = r.s",
    "l.i % -1 = r.i % -1",
    "abs(l.x - r.x) <= 0.5",
    "r.x BETWEEN l.x - 0.5 AND l.x + 0.5",
    "abs(l.d - r.d) <= 0.5",
    "l.d - r.d <= 1 AND l.d - r.d >= -1",
    "r.w > l.w + 1",
    "r.f > l.f + 1",
    "l.x - r.f < 1",
    "l.i IN (r.i, r.b)",
    "l.i IN (1, 5, r.i)",
    "l.i NOT IN (1, 2) AND l.b = r.b",
    "NOT (l.i < r.i OR l.x <> r.x)",
    "l.i = r.b OR (l.i IS NULL AND r.b IS NULL)",
    "l.x <=> r.x",
    "l.i IS DISTINCT FROM r.i AND l.x = r.x",
    "(l.i > 1) = (r.i > 1)",
    "CASE WHEN l.i > 1 THEN l.i ELSE 0 END = r.i",
    "coalesce(l.i, 5) = r.i",
    "l.i > 1 AND r.b < 10",
    "l.i = r.i OR l.x > r.x",
    "l.x > 0.25 OR r.d < 0.5",
    "true AND l.i = r.i",
    "l.i = r.i AND 1 = 2",
]
WRAPPING = [
    "l.i + r.i = -2",
    "r.b >= l.b + 5",
    "r.i >= l.i + 5",
    "l.b - r.b < 10 AND l.i = r.i",
    "abs(l.i - r.i) <= 2",
    "l.s = r.i",
    "l.s < r.x",
    "CAST(l.s AS INT) = r.i",
    "CAST(l.x AS DECIMAL(5,2)) = r.d OR l.i = r.i",
    "CAST(l.w AS DECIMAL(5,2)) = r.d",
    "l.i / 0 = r.i OR l.i = r.i",
    "l.x = 0.3 OR l.i * 2 = r.i",
]
ANSI_SUMS = [
    "l.d + r.d > 1",
    "r.i >= l.i - 5 AND l.i < 100 AND l.i > -100",
    "abs(l.i - r.i) <= 2 AND l.i BETWEEN 0 AND 100 AND r.i BETWEEN 0 AND 100",
    "l.i + r.i = 6 AND l.i BETWEEN 0 AND 100 AND r.i BETWEEN 0 AND 100",
]


@pytest.mark.parametrize("ansi", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["ansi", "no ansi"])
def test_numbers(spark, ansi):
    """Decimals, doubles and integers meet in Spark's types; its rounding, its casts, its NaN and its overflow."""
    with session(spark, "UTC", ansi):
        sides = {}
        for alias in "lr":
            values = [row.replace("'abc'", "NULL").replace("''", "NULL") for row in NUMBERS] if ansi else NUMBERS
            sides[alias] = rows(spark, NUMBER_TYPES, *values).cache()
        for on in [*NUMBER_CONDITIONS, *(ANSI_SUMS if ansi else [*ANSI_SUMS, *WRAPPING])]:
            same(sides, on)


TEXTS = (
    "'straße', 'a', X'41', array(1, 2), map('a', 1), named_struct('f', 1, 'g', -0.0D)",
    "'STRASSE', 'A', X'61', array(1, NULL), map('b', 2), named_struct('f', 1, 'g', 0.0D)",
    "'ΟΔΟΣ', 'b', X'', array(), map('a', 2), named_struct('f', NULL, 'g', 2.0D)",
    "'οδος', ' a', X'ff', array(2), map(), named_struct('f', 1, 'g', double('NaN'))",
    "'İ', 'it''s', NULL, NULL, NULL, named_struct('f', 1, 'g', double('NaN'))",
    "'i̇', 'a%', X'41', array(1, 2), map('a', 1), NULL",
)
TEXT_TYPES = "s string, t string, y binary, arr array<int>, m map<string,int>, st struct<f:int,g:double>"
TEXT_CONDITIONS = [
    "upper(l.s) = upper(r.s)",
    "lower(l.s) = lower(r.s)",
    "initcap(l.s) = initcap(r.s)",
    "l.s RLIKE '^[a-z]' AND l.t = r.t",
    "l.t LIKE 'a%' AND l.s = r.s",
    "(l.t LIKE 'a%') = (r.t LIKE 'a%')",
    "l.m['a'] = r.m['a']",
    "l.st.f = r.st.f",
    "l.st = r.st",
    "l.st <=> r.st",
    "l.arr = r.arr",
    "l.y = r.y",
    "l.y < r.y",
    "l.s < r.s",
    "l.s || l.t = r.s || r.t",
    "concat(l.t, r.t) = 'aA'",
    "trim(l.t) = r.t",
    "l.t = 'it''s' AND r.t = \"it's\"",
    "size(l.arr) = size(r.arr)",
    "element_at(l.m, 'a') = 1 AND l.t = r.t",
    "exists(l.arr, x -> x = 2) AND l.t < r.t",
    "l.s COLLATE UTF8_LCASE = r.s",
    "array_contains(l.arr, size(r.arr))",
    "s_twice(l.t) = s_twice(r.t)",
    "xxhash64(l.s) = xxhash64(r.s)",
]


def test_texts_and_nested_values(spark):
    """Any deterministic Spark function of one side works; structs and arrays join."""
    spark.udf.register("s_twice", lambda text: None if text is None else text.strip().lower() * 2, "string")
    sides = {alias: rows(spark, TEXT_TYPES, *TEXTS).cache() for alias in "lr"}
    for on in TEXT_CONDITIONS:
        same(sides, on)


def test_an_expression_that_fails_for_rows_without_a_match_does_no_harm(spark):
    """n = 0 matches nothing, so 100 / n is never computed, nor is an index beyond an array."""
    left = rows(spark, "k int, n int, a array<int>", "1, 5, array(1)", "2, 0, array()")
    right = rows(spark, "k int, x int", "1, 3", "3, 0")
    sides = {"l": left, "r": right}
    same(sides, "l.k = r.k AND 100 / l.n > r.x")
    same(sides, "l.k = r.k AND l.a[0] < r.x")
    same(sides, "l.n <> 0 AND 100 / l.n > 5 AND l.k = r.k")
    same(sides, "l.n <> 0 AND 100 / l.n = 20 * r.k")
    same(sides, "l.n = 0 OR 100 / l.n > r.x")
    same(sides, "l.k < r.x AND l.n > r.x AND 100 / l.n > r.x")


def test_text_that_spark_casts_by_itself_does_no_harm(spark):
    """'abc' is no date, which matters for rows only that match otherwise; no more does a NULL as a key of a map."""
    left = rows(spark, "k int, kind string, s string", "1, 'trip', '2024-03-10'", "2, 'note', 'abc'")
    right = rows(spark, "k int, a date, y int", "1, DATE'2024-03-10', 2025", "3, DATE'2024-03-11', 2023")
    sides = {"l": left.cache(), "r": right.cache()}  # Spark would compute the literals of a plan while it is made
    same(sides, "l.kind = 'trip' AND date(l.s) = r.a")
    same(sides, "l.k = r.k AND year(l.s) <= r.y")
    same(sides, "l.k = r.k AND if(l.s = 5, 1, 0) <= r.y AND l.kind <> 'trip'")
    same(sides, "l.k = r.k AND map(l.s, 1)['2024-03-10'] <= r.y")


def test_a_python_function_sees_only_rows_that_may_match(spark):
    """Spark computes Python functions for all rows of a projection, but below its own joins only for those that pass
    the other filters. So a function that fails for a NULL works here as well."""
    spark.udf.register("s_lower", lambda text: text.lower(), "string")
    values = "1, 'A', 'a'", "2, NULL, 'b'", "3, 'b', NULL", "4, NULL, NULL"
    sides = {alias: rows(spark, "k int, s string, u string", *values) for alias in "lr"}
    for on in (
        "l.s IS NOT NULL AND s_lower(l.s) = r.u",
        "l.s IS NOT NULL AND s_lower(l.s) = 'a' AND l.k = r.k",
        "l.s IS NOT NULL AND s_lower(l.s) IN ('a', 'b') AND r.s IS NOT NULL AND s_lower(l.s) = s_lower(r.s)",
        "l.s = r.s AND s_lower(l.s) = 'a'",
        "l.s IS NOT NULL AND l.k <= r.k AND s_lower(l.s) <> 'b'",
    ):
        assert same(sides, on).split.filtered, on
    ready = same(sides, "l.k = r.k AND l.s IS NOT NULL AND s_lower(l.s) <> r.u")
    assert ready.split.spark_filter is not None


def test_three_sides(spark):
    """Conditions of three sides are split as well, also those that only Spark can evaluate."""
    sides = {a: rows(spark, "k int, s string, x double", "1, 'a', 0.5", "2, 'B', 1.5", "1, 'b', 2.5") for a in "rst"}
    same(sides, "r.k = s.k AND upper(s.s) = upper(t.s)")
    same(sides, "r.k = s.k AND s.k = t.k AND concat(r.s, t.s) <> 'ab' AND r.x + s.x > t.x")
    same(sides, "concat(r.s, s.s) = 'aa' AND s.x < t.x")


def test_output_expressions_are_sparks(spark):
    """Expressions in `select` have Spark's names, types and values; plain columns need nothing of Spark."""
    columns, values = "k int, d decimal(5,2), ts timestamp, u int", "1, 1.5, TIMESTAMP'2024-03-10 12:00:00', 1"
    sides = {alias: rows(spark, columns, values) for alias in "lr"}
    sides["r"] = sides["r"].withColumnRenamed("u", "v")
    with session(spark, "America/New_York"):
        ready = same(sides, "l.k = r.k", ["l.id", "l.d * r.d AS dd", "hour(r.ts)", "u + v"])
        assert ready.finish is not None
        assert ready.schema["dd"].dataType.simpleString() == "decimal(11,4)"
        assert same(sides, "l.k = r.k", ["l.id", "r.id AS i", "v"]).finish is None
        same(sides, "l.k = r.k AND concat(u, v) = '11'", ["l.id", "r.id AS i", "v", "struct(l.*) AS s"])


CLOCKS = [
    'l.ts > "now"', "l.ts > ' now '", "l.ts > 'now UTC'", "l.ts > TIMESTAMP \"now\"", "l.ts > timestamp('now')",
    "l.ts > date('today')", "l.ts > to_timestamp('today')", "l.ts > to_date('today')", "l.ts > 'now'::timestamp",
    "unix_timestamp('now') > r.k", "date_trunc('DAY', l.ts) = 'today'", "greatest(l.ts, r.ts) > 'now'",
    "l.ts > builtin.current_timestamp()", "l.ts > `current_timestamp`()", "l.ts > CAST('now' AS TIMESTAMP)",
    "l.ts IN ('Today', r.ts)", "r.ts BETWEEN l.ts AND 'TOMORROW'", "l.ts > concat('n', 'ow')",
    "date('today') = '2024-03-10'",
    "year('today') = l.k", "if(l.ts > 'now', 1, 0) = r.k", "l.ts > 'now+01:00'", "coalesce(l.ts, 'now') < r.ts",
]  # fmt: skip
"""Clocks in every spelling."""


def test_texts_that_only_look_like_clocks(spark):
    """Text that is compared with text is no clock, in whichever function of text it stands."""
    sides = {alias: rows(spark, "k int, s string, now string", "1, 'now', 'today'", "2, 'x', 'now'") for alias in "lr"}
    for on in (
        "l.s = 'now' AND l.k = r.k",
        "l.k = r.k AND r.s IN ('today', \"now\", l.s)",
        "concat(l.s, 'today') = concat(r.s, 'today')",
        "l.k = r.k AND l.s LIKE 'now%' AND CASE WHEN r.s = 'now' THEN 1 ELSE 0 END = 1",
        "l.now = r.s AND r.now <> 'tomorrow'",
    ):
        same(sides, on, ["l.k AS a", "'now' AS t", "if(r.s = 'now', 1, 0) AS b"])
    with pytest.raises(ConditionError, match="clock"):
        prepare(sides, "l.k = r.k", select=["timestamp('now') AS t"])


@pytest.mark.parametrize(
    ("on", "says"),
    [
        ("l.k = r.k AND rand() < 0.5", "deterministic"),
        ("l.k = r.k AND l.ts < current_timestamp()", "reads the clock"),
        ("l.k = r.k AND l.ts < now()", "reads the clock"),
        ("l.k = r.k AND l.ts < current_date", "reads the clock"),
        ("l.k = r.k AND l.ts < TIMESTAMP'now'", "reads the clock"),
        ("l.k = r.k AND l.ts < 'today'", "clock"),
        *((f"l.k = r.k AND {clock}", "clock") for clock in CLOCKS),
        ("l.k = r.k AND l.k IN (SELECT 1)", "subquery"),
        ("l.k = r.nothing", "nothing"),
        ("l.k = = r.k", "[Ss]yntax"),
        ("l.k", "BOOLEAN"),
        ("sum(l.k) = r.k", "aggregate"),
        ("k = 1", "[Aa]mbiguous"),
    ],
)
def test_refusals(spark, on, says):
    """What Spark refuses is refused, clocks by name; each with its reason."""
    sides = {alias: rows(spark, "k int, ts timestamp", "1, NULL") for alias in "lr"}
    with pytest.raises(ConditionError, match=says):
        prepare(sides, on)


def test_plain_columns_stay_plain(spark):
    """What the engine compares itself needs no computed column: keys, bands, bounds of time, filters by constants."""
    columns, values = "k int, b bigint, x double, ts timestamp", "1, 1, 0.5, TIMESTAMP'2024-03-10 12:00:00Z'"
    sides = {alias: rows(spark, columns, values) for alias in "lr"}
    for on in (
        "l.k = r.b AND r.ts BETWEEN l.ts - INTERVAL 10 MINUTES AND l.ts",
        "abs(l.k - r.b) <= 5 AND l.x > 0.3 AND r.k IN (1, 2)",
        "abs(l.x - r.x) <= 0.5",
        "l.k + 1 = r.k AND l.ts - r.ts < INTERVAL 1 DAY",
    ):
        ready = same(sides, on, event_time="ts", watermark="1 minute") if "ts" in on else same(sides, on)
        assert not ready.split.computes, on


def test_calendar_intervals_have_a_horizon(spark):
    """A month has no fixed length, but a bound: state expires."""
    with session(spark, "America/New_York"):
        sides = {alias: rows(spark, "k int, ts timestamp", "1, TIMESTAMP'2024-03-10 12:00:00'") for alias in "lr"}
        for on, days in (
            ("l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 1 MONTH", 33),
            ("l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 1 DAY", 3),
            ("l.k = r.k AND abs(l.ts - r.ts) <= INTERVAL 5 MINUTES", 2),
        ):
            ready = same(sides, on, event_time="ts", watermark="1 minute")
            assert 0 < ready.spec.sides[0].horizon <= days * 86_400_000_000, on


def test_collated_and_padded_text(spark, tmp_path):
    """Collations are Spark's to compare; CHAR columns are padded as Spark pads them."""
    sides = {}
    for alias, width in (("l", 5), ("r", 3)):
        spark.sql(f"DROP TABLE IF EXISTS padded_{alias}")
        location = f"LOCATION '{tmp_path / alias}'"
        spark.sql(f"CREATE TABLE padded_{alias} (id INT, c CHAR({width}), v VARCHAR(9)) USING parquet {location}")
        spark.sql(f"INSERT INTO padded_{alias} VALUES (1, 'a', 'A'), (2, 'abc', 'a'), (3, 'b', 'abc'), (4, NULL, NULL)")
        sides[alias] = spark.table(f"padded_{alias}").withColumn("k", sf.expr("v COLLATE UTF8_LCASE"))
    for on in (
        "l.c = r.c",
        "l.c < r.c",
        "l.c = 'abc' AND l.c = r.c",
        "l.k = r.k",
        "l.k < r.k",
        "l.k = 'ABC' AND l.v = r.v",
        "l.k IN (r.k, 'x')",
        "l.id = r.id AND concat(l.k, r.k) = 'AA'",
    ):
        same(sides, on)
    with pytest.raises(ConditionError, match="CHAR"):
        prepare(sides, "l.c = r.c OR concat(l.v, r.v) = 'x'")
    assert same(sides, "l.v = r.v", ["l.k", "r.id"]).schema["k"].dataType.simpleString() == "string collate UTF8_LCASE"
    for alias in sides:
        spark.sql(f"DROP TABLE padded_{alias}")


def test_sums_of_integer_event_times_without_ansi(spark):
    """They keep their bounds, and fail loudly where they might wrap."""
    sides = {alias: rows(spark, "k int, t bigint", "1, 5", "1, 7", "2, 100") for alias in "lr"}
    on = "l.k = r.k AND r.t BETWEEN l.t - 5 AND l.t + 1"
    with session(spark, "UTC", False):
        ready = same(sides, on, event_time="t", watermark=1)
        assert ready.spec.sides[0].horizon == 1
        sides["l"] = rows(spark, "k int, t bigint", "1, 9223372036854775807")
        with pytest.raises(SparkRuntimeException, match="may wrap"):
            ours(sides, on, ["l.id"], event_time="t", watermark=1)


def test_a_window_in_the_condition(spark):
    """The bounds of the window can be compared, and read by expressions that Spark evaluates."""
    columns = "k int, ts timestamp"
    sides = {alias: rows(spark, columns, "1, TIMESTAMP'2024-03-10 12:00:03Z'", "1, TIMESTAMP'2024-03-10 12:00:07Z'")
             for alias in "lr"}  # fmt: skip
    options = {"event_time": "ts", "window": tumbling("10 seconds")}
    near = "l.k = r.k AND l.ts < window.start + INTERVAL 5 SECONDS"
    found, ready = ours(sides, near, ["l.id AS a", "r.id AS b", "second(window.end) AS s"], **options)
    assert found == Counter(["Row(a=0, b=0, s=10)", "Row(a=0, b=1, s=10)"])
    found, ready = ours(sides, "l.k = r.k AND second(window.start) = l.k - 1", ["l.id AS a"], **options)
    assert sum(found.values()) == 4
    assert ready.split.spark_filter is not None
