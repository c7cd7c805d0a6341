"""Conditions through real streams: what `evenjoin.join` writes is what Spark's batch join of the same rows gives."""

from __future__ import annotations

import pytest

import evenjoin
from differential import oracle
from differential.answers import Pairs, pairs
from differential.conditions import Case
from differential.tables import SIDES, Tables, in_mode
from spark_streams import Collected

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")]

NEW_YORK, TOKYO, KOLKATA = "America/New_York", "Asia/Tokyo", "Asia/Kolkata"
FEW = [
    Case(0, "upper(l.s) = upper(r.s) AND l.t <= r.t + INTERVAL 1 DAY", NEW_YORK, False, "wild", "t"),
    Case(0, "hour(l.t) = hour(r.t) AND l.m <> r.m", NEW_YORK, True, "tame", None),
    Case(0, "CAST(l.t AS DATE) = r.a AND concat(l.vc, r.vc) <> 'x'", TOKYO, False, "wild", None),
    Case(0, "l.st = r.st", "UTC", True, "wild", None),
]
MORE = [
    Case(0, "l.t - r.t <= INTERVAL 1 DAY AND l.i = r.i", NEW_YORK, False, "wild", "t"),
    Case(0, "abs(l.t - r.t) <= INTERVAL 24 HOURS", NEW_YORK, True, "tame", "t"),
    Case(0, "l.t = r.z", NEW_YORK, False, "wild", None),
    Case(0, "l.t <= r.a OR l.t = r.z", KOLKATA, True, "tame", None),
    Case(0, "l.d = 0.3 AND r.d >= 0.7D", "UTC", False, "wild", None),
    Case(0, "l.m = r.d", "UTC", False, "wild", None),
    Case(0, "l.m / 3 <= r.m AND l.b = r.b", "UTC", True, "tame", None),
    Case(0, "l.i + r.i = -2", "UTC", False, "wild", None),
    Case(0, "r.i >= l.i + 5 AND l.b <=> r.b", TOKYO, False, "wild", None),
    Case(0, "CAST(l.t - r.t AS BIGINT) > 3600", NEW_YORK, True, "tame", None),
    Case(0, "l.i % -1 = r.i8 AND floor(l.d) < 7", "UTC", False, "wild", None),
    Case(0, "lower(l.s) = lower(r.s)", TOKYO, False, "wild", None),
    Case(0, "l.i = r.i AND if(l.i = 0, 0, 100 / l.i) > r.d", "UTC", True, "tame", None),
    Case(0, "date_trunc('DAY', l.t) = date_trunc('DAY', r.t)", KOLKATA, True, "tame", None),
    Case(0, "datediff(l.a, r.a) BETWEEN 0 AND 2", NEW_YORK, True, "wild", "a"),
    Case(0, "l.s RLIKE '^[a-z]' AND l.arr[0] = r.mp['a']", "UTC", False, "wild", None),
    Case(0, "l.arr = r.arr", "UTC", False, "wild", None),
    Case(0, "l.u = r.u", "UTC", False, "wild", None),
    Case(0, "l.c = r.c AND r.c <> 'a'", "UTC", True, "wild", None),
    Case(0, "l.a BETWEEN r.a - INTERVAL 1 MONTH AND r.a", TOKYO, True, "tame", "a"),
]
"""Two dozen with the few, of everything that the split can make of a condition."""


@pytest.fixture(scope="module")
def tables(_session, tmp_path_factory):
    return Tables(_session, tmp_path_factory.mktemp("differential"))


@pytest.mark.parametrize("case", FEW, ids=lambda case: case.on)
def test_a_few_streams(tables, case, tmp_path):
    """Streams of tables, until all rows are read."""
    _check(tables, case, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("case", MORE, ids=lambda case: case.on)
def test_two_dozen_streams(tables, case, tmp_path):
    """The same for more conditions."""
    _check(tables, case, tmp_path)


def _check(tables, case, folder):
    expected = oracle.answer(tables, case)
    assert isinstance(expected, Pairs)
    assert expected.ids
    with in_mode(tables.spark, *case.mode):
        streams = {side: tables.spark.readStream.table(tables.name(case.flavour, side)) for side in SIDES}
        joined = evenjoin.join(
            streams, case.on, event_time=case.event_time, select=["l.id AS a", "r.id AS b"], instances=2
        )
        out = Collected()
        query = joined.writeStream.foreachBatch(out).option("checkpointLocation", str(folder / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()
    ids = [(row["a"], row["b"]) for table in out.batches.values() for row in table.to_pylist()]
    assert pairs([a for a, _ in ids], [b for _, b in ids]) == expected
