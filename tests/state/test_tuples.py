"""Which columns a run stores, which are rebuilt, and that rebuilt ones are the original ones."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from evenjoin.placement import Biclique, Buckets, Region, RoutingTable
from evenjoin.runtime.dispatch import Dispatcher
from evenjoin.spec import build_spec, tumbling
from evenjoin.state.tuples import CODE, POSITION, ROLE, TIME, Tuples, tuple_schemas
from stations import work_of

SCHEMA = pa.schema([
    ("k", pa.int64()), ("small", pa.int32()), ("name", pa.string()), ("price", pa.decimal128(8, 2)),
    ("x", pa.float64()), ("day", pa.date32()), ("t", pa.timestamp("us")), ("tz", pa.timestamp("us", "UTC")),
    ("ms", pa.timestamp("ms")), ("n", pa.int64()),
])  # fmt: skip


def schema_of(on, select, **options):
    """What the tuples of side l look like."""
    return tuple_schemas(build_spec({"l": SCHEMA, "r": SCHEMA}, on, select=[f"l.{c}" for c in select], **options))[0]


BOUND = " AND r.{t} BETWEEN l.{t} AND l.{t} + INTERVAL 5 SECONDS"


@pytest.mark.parametrize(
    ("on", "options", "select", "stored", "rebuilt"),
    [
        ("l.k = r.k", {}, ["k", "n"], ["n"], {"k": CODE}),
        ("l.k = r.k", {}, ["n"], ["n"], {}),
        ("l.k = r.k", {}, [], [], {}),
        ("l.small = r.small", {}, ["small"], [], {"small": CODE}),
        ("l.small = r.k", {}, ["small"], ["small"], {}),
        ("l.day = r.day", {}, ["day"], [], {"day": CODE}),
        ("l.tz = r.tz", {}, ["tz"], [], {"tz": CODE}),
        ("l.x = r.x", {}, ["x"], ["x"], {}),
        ("l.price = r.price", {}, ["price"], ["price"], {}),
        ("l.k + 1 = r.k", {}, ["k"], ["k"], {}),
        ("l.name = r.name", {}, ["n"], ["n", "name"], {}),
        ("l.name = r.name", {}, ["name"], ["name"], {}),
        ("l.k <=> r.k", {}, ["n"], ["n", "k"], {}),
        ("l.k = r.k AND l.name = r.name", {}, ["k"], ["k", "name"], {}),
        ("l.k = r.k" + BOUND.format(t="t"), {"event_time": "t"}, ["k", "t", "n"], ["n"], {"k": CODE, "t": TIME}),
        ("l.k = r.k" + BOUND.format(t="tz"), {"event_time": "tz"}, ["tz"], [], {"tz": TIME}),
        ("l.k = r.k" + BOUND.format(t="ms"), {"event_time": "ms"}, ["ms"], ["ms"], {}),
        ("l.k = r.k AND r.n >= l.n", {"event_time": "n"}, ["n"], [], {"n": TIME}),
        ("l.k = r.k", {"event_time": "t"}, ["t"], ["t"], {}),
        ("l.k = r.k", {"event_time": "t", "window": tumbling(10)}, ["t", "k"], ["t"], {"k": CODE}),
        ("l.k = r.k AND l.n <> r.n + l.small", {}, ["k"], ["small", "n"], {"k": CODE}),
        ("l.k < r.k", {}, ["k", "n"], ["n"], {"k": CODE}),
        ("l.small < r.k", {}, ["small"], [], {"small": CODE}),
        ("l.x < r.x", {}, ["n"], ["n", "x"], {}),
        ("l.t < r.t", {}, ["t"], [], {"t": CODE}),
        ("l.k <> r.k", {}, ["n"], ["n", "k"], {}),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_stored(on, options, select, stored, rebuilt):
    """Each value once: what equals the code or the time is rebuilt; keys behind a hash are kept to compare."""
    found = schema_of(on, select or ["n"], **options)
    if not select:
        found = tuple_schemas(build_spec({"l": SCHEMA, "r": SCHEMA}, on, select=["r.n"], **options))[0]
    assert (sorted(found.stored.names), dict(found.rebuilt)) == (sorted(stored), rebuilt)


@pytest.mark.parametrize(
    ("on", "options", "names"),
    [
        ("l.k = r.k", {}, [CODE, POSITION, "n"]),
        ("l.k = r.k" + BOUND.format(t="t"), {"event_time": "t"}, [CODE, TIME, POSITION, "n"]),
        ("l.k < r.k" + BOUND.format(t="t"), {"event_time": "t"}, [CODE, POSITION, "k", "n"]),
        ("abs(l.k - r.k) < 3" + BOUND.format(t="t"), {"event_time": "t"}, [CODE, TIME, POSITION, "n"]),
    ],
    ids=["full history", "timed", "the event time drives", "a band drives"],
)  # fmt: skip
def test_the_schema_of_a_run(on, options, names):
    """Code, time if there is one, position, payload; on the wire the role comes last."""
    found = schema_of(on, ["n"], **options)
    assert found.run.names == names
    assert found.wire.names == [*names, ROLE]


def test_codes_are_narrow_when_hashed():
    """Exact codes are int64, hashed ones int32."""
    assert schema_of("l.k = r.k", ["n"]).run.field(CODE).type == pa.int64()
    assert schema_of("l.name = r.name", ["n"]).run.field(CODE).type == pa.int32()


def test_rebuilt_columns_are_the_original_ones():
    """Through dispatch and a run: every column of a tuple as it came in, type and all."""
    on = "l.day = r.day" + BOUND.format(t="tz")
    spec = build_spec({"l": SCHEMA, "r": SCHEMA}, on, event_time="tz", select=["l.day", "l.tz", "l.name", "r.n"])
    side = spec.sides[0]
    zone = dt.timezone.utc
    rows = {
        "day": [dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31)],
        "tz": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999, zone), dt.datetime(2024, 1, 1, tzinfo=zone)] * 2,
        "name": ["a", None, "c"],
    }
    data = pa.RecordBatch.from_arrays(
        [pa.array(rows[c][:3], SCHEMA.field(c).type) for c in side.columns], names=list(side.columns)
    )
    table = RoutingTable(0, 1, 2, 1, (Region(Buckets((0,)), Biclique(((0,), (0,)))),))
    sent = Dispatcher(work_of(spec, table), None).dispatch(0, data)
    ((_, piece, _),) = sent.pieces
    tuples = Tuples.of(tuple_schemas(spec)[0], piece.select(tuple_schemas(spec)[0].run.names))
    assert set(tuples.schema.rebuilt) == {"day", "tz"}
    assert tuples.schema.stored.names == ["name"]
    for name in side.columns:
        got = tuples.column(name, np.arange(3))
        assert got.equals(data.column(name).cast(SCHEMA.field(name).type))
