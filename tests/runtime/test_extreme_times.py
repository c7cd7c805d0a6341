"""Integer event times at the ends of int64 (a common way to say "always" or "never") join like any others."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import evenjoin

LOW, HIGH = -(2**63), 2**63 - 1
SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64())])
TIMES = [LOW, LOW + 1, LOW + 5, -1, 0, 3, HIGH - 5, HIGH - 1, HIGH]


@pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")
@pytest.mark.parametrize("order", ["left first", "right first", "together"])
def test_bounds_do_not_wrap_around(order):
    """-3 <= r.t - l.t <= 2 by whole numbers, for the earliest and the latest times there are."""
    rows = pa.table({"k": [1] * len(TIMES), "t": TIMES}, SCHEMA)
    steps = {"left first": ["l", "r"], "right first": ["r", "l"], "together": ["lr"]}[order]
    on = "l.k = r.k AND r.t - l.t BETWEEN -3 AND 2"
    with evenjoin.local({"l": SCHEMA, "r": SCHEMA}, on, select=["l.t AS a", "r.t AS b"]) as join:
        found = pa.concat_tables([join.process(dict.fromkeys(step, rows)) for step in steps])
    got = Counter(zip(found["a"].to_pylist(), found["b"].to_pylist(), strict=True))
    assert got == Counter((a, b) for a in TIMES for b in TIMES if -3 <= b - a <= 2)


def test_the_last_time_is_not_late():
    """In a window, t + size passes the end of int64: such a tuple is not taken for a late one."""
    options = {"event_time": "t", "watermark": 0, "window": evenjoin.tumbling(10), "select": ["l.t AS a"]}
    with evenjoin.local({"l": SCHEMA, "r": SCHEMA}, "l.k = r.k", **options) as join:
        join.process({a: pa.table({"k": [1], "t": [5]}, SCHEMA) for a in "lr"})
        found = join.process({a: pa.table({"k": [1], "t": [HIGH]}, SCHEMA) for a in "lr"})
        assert join.progress().late == (0, 0)
    assert found["a"].to_pylist() == [HIGH]


@pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")
@pytest.mark.parametrize(
    "type_", [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.duration("us")], ids=str
)
@pytest.mark.parametrize("on", ["l.k = r.k", "l.k <=> r.k", "l.k <= r.k"])
def test_keys_beyond_the_times_of_python(type_, on):
    """Arrow and Spark have years before 1 and after 9999, Python does not: such keys are joined, and a report names
    them by their numbers."""
    numbers = [5_000_000, -5_000_000] if type_ == pa.date32() else [2**62, -(2**62)]
    schema = pa.schema([("k", type_)])
    rows = pa.table(
        {"k": pa.array(numbers * 3, pa.int32() if type_ == pa.date32() else pa.int64()).cast(type_)}, schema
    )
    with evenjoin.local({"l": schema, "r": schema}, on, track=8, select=["l.k AS k"]) as join:
        assert join.process({"l": rows, "r": rows}).num_rows == (27 if "<= " in on else 18)
