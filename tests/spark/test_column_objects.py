"""Column objects as condition and output: their text is turned into SQL, and Spark proves that it means the same."""

from __future__ import annotations

import pytest
from own_join import ours, rows, sparks
from pyspark.sql import functions as sf
from pyspark.sql.functions import col

from evenjoin.errors import ConditionError
from evenjoin.runtime.spark.prepare import prepare

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")]


@pytest.fixture(scope="module")
def sides(_session):
    columns = "k int, x double, s string, ts timestamp, arr array<int>, m map<string,int>, st struct<f:int>"
    values = [f"{n}, {n}.5, 's{n % 3}', TIMESTAMP'2024-03-10 12:0{n}:00', array({n}), map('a', {n}), struct({n})"
              for n in range(5)]  # fmt: skip
    return {alias: rows(_session, columns, *values).cache() for alias in "lr"}


def conditions():
    return {
        "equality": col("l.k") == col("r.k"),
        "expr": sf.expr("l.k = r.k AND upper(l.s) LIKE 'S%'"),
        "and": (col("l.k") == col("r.k")) & ~(col("l.x") > 2) & (col("r.s") != "s1"),
        "or": (col("l.k") == col("r.k")) | (col("l.s") == "it's"),
        "null safe": col("l.k").eqNullSafe(col("r.k")),
        "band": sf.abs(col("l.k") - col("r.k")) <= 1,
        "between": col("l.k").between(col("r.k") - 1, col("r.k") + 1),
        "interval": col("r.ts") <= col("l.ts") + sf.expr("INTERVAL 1 MINUTE"),
        "double": (col("l.x") > 1.5) & (col("l.k") == col("r.k")),
        "functions": sf.lower("l.s") == sf.concat(sf.lit("s"), col("r.k").cast("string")),
        "in": col("l.k").isin(1, 2) & (col("l.k") == col("r.k")),
        "null": col("l.k").isNull() & col("r.k").isNotNull(),
        "like": col("l.s").like("s%") & (col("l.k") == col("r.k")),
        "items": (col("l.arr")[0] == col("r.arr")[0]) & (col("l.m")["a"] == col("r.m")["a"]),
        "field": col("l.st.f") == col("r.st.f"),
        "case": sf.when(col("l.k") > 1, col("l.k")).otherwise(0) == col("r.k"),
        "product": col("l.k") * 2 == col("r.k"),
    }


def test_a_column_is_a_condition(sides):
    """The same rows as Spark's own join with the same Column."""
    select = ["l.id AS a", "r.id AS b"]
    left, right = (frame.alias(alias) for alias, frame in sides.items())
    for name, on in conditions().items():
        mine, _ = ours(sides, on, select)
        expected = left.join(right, on).selectExpr(*select).collect()
        assert sorted(mine.elements()) == sorted(map(str, expected)), name


def test_columns_in_select(sides):
    """A Column in `select` is the same as its SQL."""
    select = [col("l.id"), (col("l.k") + col("r.x")).alias("total"), sf.upper("r.s").alias("s")]
    mine, ready = ours(sides, [col("l.k") == col("r.k"), col("l.x") > 1], select)
    assert mine == sparks(sides, "l.k = r.k AND l.x > 1", ["l.id", "l.k + r.x AS total", "upper(r.s) AS s"])
    assert ready.schema.names == ["id", "total", "s"]


def test_what_is_not_proved_is_refused_with_advice(sides):
    """Columns of a DataFrame print without their side; the message says what to write."""
    with pytest.raises(ConditionError, match="Write it as SQL"):
        prepare(sides, sides["l"].k == sides["r"].k)
