"""Keys of every atomic type on the embedded engine: what is equal meets, NULL only under `<=>`."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pytest

import evenjoin

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

D = Decimal
VALUES = {
    pa.bool_(): [True, False],
    pa.int8(): [-128, 127],
    pa.int16(): [-1, 5],
    pa.int32(): [-(2**31), 2**31 - 1],
    pa.int64(): [-(2**63), 2**63 - 1],
    pa.uint64(): [0, 2**63 - 1],
    pa.float32(): [0.5, math.inf],
    pa.float64(): [-1e300, 5e-324],
    pa.decimal128(10, 2): [D("-1.50"), D("99999999.99")],
    pa.decimal128(38, 5): [D("-1.5"), D("1e30")],
    pa.string(): ["", "longer than eight"],
    pa.large_string(): ["", "longer than eight"],
    pa.binary(): [b"", b"\x00\xff"],
    pa.date32(): [dt.date(1, 1, 1), dt.date(2024, 2, 29)],
    pa.timestamp("us"): [dt.datetime(1969, 12, 31), dt.datetime(2024, 2, 29, 1, 2, 3, 4)],
    pa.timestamp("us", "UTC"): [dt.datetime(1969, 12, 31, tzinfo=dt.timezone.utc)],
    pa.timestamp("ns"): [dt.datetime(1969, 12, 31), dt.datetime(2024, 2, 29, 1, 2, 3, 4)],
    pa.duration("us"): [dt.timedelta(days=-1), dt.timedelta(microseconds=1)],
    pa.dictionary(pa.int32(), pa.string()): ["", "longer than eight"],
}


@pytest.mark.parametrize("equals", ["=", "<=>"])
@pytest.mark.parametrize("type_", VALUES, ids=str)
def test_equal_keys_meet(type_, equals):
    """Each value meets itself once per pair of rows, in the batch and across batches, and its key comes back."""
    schema = pa.schema([("id", pa.int64()), ("k", type_)])
    keys = [*VALUES[type_], None, VALUES[type_][0]]
    rows = pa.Table.from_arrays([pa.array(range(len(keys))), pa.array(keys, type_)], schema=schema)
    select = ["l.id AS a", "r.id AS b", "l.k AS lk", "r.k AS rk"]
    with evenjoin.local({"l": schema, "r": schema}, f"l.k {equals} r.k", select=select, instances=3) as join:
        first = join.process({"l": rows})
        found = pa.concat_tables([first, join.process({"r": rows}), join.process({"l": rows})])
    expected = Counter()
    for a, one in enumerate(keys):
        for b, two in enumerate(keys):
            if one == two and (one is not None or equals == "<=>"):
                expected[a, b, one, two] += 2
    assert Counter(zip(*(c.to_pylist() for c in found.columns), strict=True)) == expected


def test_nan_and_negative_zero_meet_as_in_spark():
    """NaN = NaN and -0.0 = 0.0, alone and in a composite key; the rows keep the zero they had."""
    schema = pa.schema([("k", pa.float64()), ("s", pa.string())])
    left = pa.table({"k": [math.nan, -0.0, 1.0], "s": ["a"] * 3}, schema)
    right = pa.table({"k": [math.nan, 0.0, 2.0], "s": ["a"] * 3}, schema)
    for on in ("l.k = r.k", "l.k = r.k AND l.s = r.s"):
        with evenjoin.local({"l": schema, "r": schema}, on, select=["l.k AS a", "r.k AS b"]) as join:
            join.process({"l": left})
            found = join.process({"r": right}).to_pydict()
        assert sorted(map(str, found["a"])) == ["-0.0", "nan"]
        assert sorted(map(str, found["b"])) == ["0.0", "nan"]


@pytest.mark.parametrize(
    ("left", "right", "key"),
    [
        (pa.int32(), pa.int64(), 5),
        (pa.int64(), pa.float64(), 5),
        (pa.decimal128(5, 1), pa.decimal128(7, 3), D("1.5")),
        (pa.string(), pa.large_string(), "abc"),
        (pa.string(), pa.dictionary(pa.int32(), pa.string()), "abc"),
        (pa.timestamp("ms"), pa.timestamp("us"), dt.datetime(2024, 1, 1)),
        (pa.date32(), pa.timestamp("us"), None),
    ],
    ids=str,
)
def test_keys_of_two_types_meet_by_value(left, right, key):
    """The sides' types are brought together first, so equal values meet whatever they are stored as."""
    one, two = (dt.date(2024, 1, 1), dt.datetime(2024, 1, 1)) if key is None else (key, key)
    schemas = {"l": pa.schema([("k", left)]), "r": pa.schema([("k", right)])}
    with evenjoin.local(schemas, "l.k = r.k", select=["l.k AS a", "r.k AS b"]) as join:
        join.process({"l": pa.table({"k": pa.array([one, None], left)})})
        found = join.process({"r": pa.table({"k": pa.array([two, None], right)})})
    assert found.to_pylist() == [{"a": one, "b": two}]
    assert found.schema.types == [left, right]
