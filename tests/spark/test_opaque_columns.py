"""Columns that Spark cannot turn into Arrow: they may be there, but nobody may use them."""

from __future__ import annotations

import pytest

import evenjoin
from evenjoin.errors import SpecError
from spark_streams import Collected

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")]


def sides(spark, folder):
    """Two streams with a year-month interval, alone and in a struct."""
    made = "id AS k", "make_ym_interval(1, CAST(id AS INT)) AS y", "struct(make_ym_interval(1, 2) AS z) AS s"
    for alias in "lr":
        spark.range(3).selectExpr(*made).write.mode("overwrite").parquet(str(folder / alias))
    schema = spark.read.parquet(str(folder / "l")).schema
    return {alias: spark.readStream.schema(schema).parquet(str(folder / alias)) for alias in "lr"}


def test_a_year_month_interval_that_nobody_uses_does_not_matter(spark, tmp_path):
    """The join runs on the other columns."""
    joined = evenjoin.join(sides(spark, tmp_path), "l.k = r.k", select=["l.k AS a"], instances=1)
    out = Collected()
    query = joined.writeStream.foreachBatch(out).option("checkpointLocation", str(tmp_path / "ck"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert sorted(a for table in out.batches.values() for a in table["a"].to_pylist()) == [0, 1, 2]


@pytest.mark.parametrize(
    "options", [{}, {"select": ["l.y AS y"]}, {"select": ["l.k AS a"], "late": "somewhere"}], ids=str
)
def test_one_that_is_used_is_refused(spark, tmp_path, options):
    """The output without `select` has all columns, and so have late rows that go somewhere."""
    with pytest.raises(SpecError, match=r"l\.y is interval year to month, which Spark cannot turn into Arrow"):
        evenjoin.join(sides(spark, tmp_path), "l.k = r.k", **options)
