"""The arguments of a join, put together."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest

from evenjoin.errors import ConditionError, SpecError
from evenjoin.spec import JoinSpec, build_spec, sliding, tumbling

TS = pa.timestamp("us", "UTC")
ORDERS = pa.schema(
    [("id", pa.int64()), ("cell", pa.string()), ("ts", TS), ("price", pa.float64()), ("unused", pa.int8())]
)
TRACKS = pa.schema([("taxi", pa.int32()), ("cell", pa.string()), ("ts", TS), ("cost", pa.float64())])
BETWEEN = "o.cell = t.cell AND t.ts BETWEEN o.ts - INTERVAL 10 MINUTES AND o.ts + INTERVAL 1 MINUTE"
MINUTE = 60_000_000


def spec(on: Any = BETWEEN, **options: Any) -> JoinSpec:
    return build_spec({"o": ORDERS, "t": TRACKS}, on, **options)


def expiry(found: JoinSpec) -> list[tuple[int | None, int | None]]:
    return [(side.horizon, side.lateness) for side in found.sides]


@pytest.mark.parametrize(
    "type_", [pa.string_view(), pa.list_(pa.binary_view()), pa.map_(pa.string(), pa.struct([("a", pa.string_view())]))]
)
def test_views_of_texts_are_refused_where_they_are_read(type_: pa.DataType) -> None:
    """Arrow cannot pick rows of them. A column that the join does not read may have any type."""
    sides = {"l": pa.schema([("k", pa.int64()), ("v", type_)]), "r": pa.schema([("k", pa.int64())])}
    assert build_spec(sides, "l.k = r.k", select=["l.k"]).schema.names == ["k"]
    with pytest.raises(SpecError, match=r"declare 'v' with (string|binary) in place of .*_view; data is cast"):
        build_spec(sides, "l.k = r.k", select=["l.v"])


def test_a_whole_join() -> None:
    """The example of the design page."""
    found = spec(
        BETWEEN + " AND o.price < t.cost AND o.price > 0",
        event_time={"o": "ts", "t": "ts"},
        watermark={"o": "30 seconds", "t": 60},
        select=["o.id", "t.taxi AS taxi", "o.ts"],
    )
    o, t = found.sides
    assert (o.delay, t.delay) == (30_000_000, 60_000_000)
    assert (o.event_time, t.event_time) == ("ts", "ts")
    assert (str(o.filter), t.filter) == ("o.price > 0", None)
    assert ([str(k) for k in o.index.exprs], [str(k) for k in t.index.exprs]) == (["o.cell"], ["t.cell"])
    assert (found.edges[0].low, found.edges[0].high) == (-10 * MINUTE, MINUTE)
    assert str(found.edges[0].residual) == "o.price < t.cost"
    assert expiry(found) == [(MINUTE, 0), (10 * MINUTE, 0)]
    assert o.columns == ("id", "cell", "ts", "price")
    assert o.payload == ("id", "ts", "price")
    assert (t.columns, t.payload) == (("taxi", "cell", "ts", "cost"), ("taxi", "cost"))
    assert [(out.name, out.type) for out in found.select] == [("id", pa.int64()), ("taxi", pa.int32()), ("ts", TS)]
    assert found.unbounded_sides() == ()
    assert pickle.loads(pickle.dumps(found)) == found


def test_order_is_int64_in_time_units() -> None:
    """Timestamps of any unit and zone, dates and integers all become int64."""
    for t, value, expected in [
        (pa.timestamp("s"), 3, 3_000_000),
        (pa.timestamp("ns", "Europe/Zurich"), -1, -1),
        (pa.date32(), 1, 86_400_000_000),
        (pa.date64(), 86_400_000, 86_400_000_000),
        (pa.int16(), 7, 7),
        (pa.uint32(), 7, 7),
    ]:
        schema = pa.schema([("k", pa.int64()), ("t", t)])
        side = build_spec({"l": schema, "r": schema}, "k", event_time="t").sides[0]
        assert side.order is not None
        array = side.order.evaluate({"l.t": pa.array([value, None], t)}, 2)
        assert (array.type, array.to_pylist()) == (pa.int64(), [expected, None])


def test_expiry_needs_the_other_sides_watermark() -> None:
    """A tuple waits for the other side, so it is the other side's delay that lets it go."""
    one = spec(event_time="ts", watermark={"t": 5})
    assert expiry(one) == [(MINUTE, None), (None, 0)]
    assert one.unbounded_sides() == ("t",)
    assert spec(event_time="ts").unbounded_sides() == ("o", "t")
    half = spec("o.cell = t.cell AND t.ts >= o.ts", event_time="ts", watermark=5)
    assert (half.edges[0].low, half.edges[0].high, expiry(half)) == (0, None, [(None, 0), (0, 0)])


def test_equal_event_times_bound_the_state() -> None:
    """o.ts = t.ts is a key and a bound."""
    found = spec("o.cell = t.cell AND o.ts = t.ts + INTERVAL 1 MINUTE", event_time="ts", watermark=5)
    assert (found.edges[0].low, found.edges[0].high, len(found.sides[0].index.types), found.edges[0].residual) == (
        -MINUTE,
        -MINUTE,
        2,
        None,
    )
    assert found.unbounded_sides() == ()


def test_ranges_off_the_order_stay_in_the_residual() -> None:
    """With event times declared only a range on them is the bound; without, the first usable range is."""
    on = "o.cell = t.cell AND o.price < t.cost AND o.id <= t.taxi"
    assert str(spec(on, event_time="ts").edges[0].residual) == "(o.price < t.cost) AND (o.id <= t.taxi)"
    free = spec(on)
    assert (str(free.edges[0].residual), free.edges[0].low, free.edges[0].high) == ("o.price < t.cost", 0, None)
    assert [str(side.order) for side in free.sides] == ["time(o.id)", "time(t.taxi)"]
    assert expiry(free) == [(None, None), (None, None)]


def test_nanoseconds_widen_the_bound() -> None:
    """An order rounded to microseconds keeps the exact range in the residual."""
    schema = pa.schema([("k", pa.int64()), ("t", pa.timestamp("ns"))])
    found = build_spec({"l": schema, "r": schema}, "l.k = r.k AND r.t >= l.t", event_time="t")
    assert (found.edges[0].low, str(found.edges[0].residual)) == (-1, "r.t >= l.t")


def test_windows() -> None:
    """With a window: low = high = 0, horizon and lateness are its size, event-time ranges stay in the residual."""
    found = spec(
        window=sliding("10 minutes", "1 minute"),
        event_time="ts",
        watermark={"o": 5},
        select=["window.end AS e", "o.id"],
    )
    assert (found.window, found.edges[0].low, found.edges[0].high) == ((10 * MINUTE, MINUTE), 0, 0)
    assert expiry(found) == [(10 * MINUTE, 10 * MINUTE)] * 2
    assert "INTERVAL" in str(found.edges[0].residual)
    assert found.select[0].type == TS
    assert expiry(spec("TRUE", window=tumbling(60), event_time="ts")) == [(None, None)] * 2


def test_default_select_is_one_struct_per_alias() -> None:
    """select=None: every column, in a struct under its alias; with a window also the window."""
    found = spec(event_time="ts", window=tumbling("1 minute"))
    assert [out.name for out in found.select] == ["o", "t", "window"]
    assert found.sides[0].payload == tuple(ORDERS.names)
    columns = {f"t.{f.name}": pa.array([None, None], f.type) for f in TRACKS}
    built = found.select[1].expr.evaluate(columns, 2)
    assert built.type == pa.struct(list(TRACKS)) == found.select[1].type
    assert built.to_pylist() == [dict.fromkeys(TRACKS.names)] * 2


def test_select_names() -> None:
    """Stars, aliases and literals; what would have to be evaluated and a duplicate name are refused with the remedy."""
    assert [o.name for o in spec(select=["o.*", "taxi"]).select] == [*ORDERS.names, "taxi"]
    assert [o.name for o in spec(select=["O.ID", "7", "o.ts AS when"]).select] == ["id", "7", "when"]
    with pytest.raises(ConditionError, match=r"\* is not evaluated .* compute it from the columns of the results"):
        spec(select=["o.price * 2"])
    for bad in (["*"], ["o.cell", "t.CELL"], [], [1]):
        with pytest.raises(SpecError):
            spec(select=bad)
    with pytest.raises(SpecError, match="AS"):
        spec(select=["o.ts", "t.ts"])
    with pytest.raises(ConditionError, match="no window"):
        spec(select=["window.start"])
    with pytest.raises(ConditionError, match="unknown alias 'x'"):
        spec(select=["x.*"])


def test_fingerprint() -> None:
    """The same question in other words has the same fingerprint; another question has another; delays do not matter."""
    base = spec(event_time="ts", watermark=5, select=["o.id"])
    text = json.dumps(base.fingerprint())
    same = [
        spec(
            BETWEEN.replace("o.cell", "O.CELL").replace(" AND", "\n  and"),
            event_time="ts",
            watermark=5,
            select=["o.id"],
        ),
        spec(event_time="ts", watermark=99, late="keep", watermark_policy="max", select=["ID"]),
        spec(BETWEEN.replace("10 MINUTES", "600 seconds"), event_time="ts", select=["o.id AS id"]),
    ]
    assert [json.dumps(other.fingerprint()) for other in same] == [text] * 3
    others = [
        spec(BETWEEN.replace("10", "11"), event_time="ts", select=["o.id"]),
        spec(event_time="ts", select=["o.id AS i"]),
        spec(event_time="ts", select=["o.id"], window=tumbling(1)),
        spec(select=["o.id"]),
        build_spec({"t": TRACKS, "o": ORDERS}, BETWEEN, event_time="ts", select=["o.id"]),
    ]
    assert len({json.dumps(other.fingerprint()) for other in others} | {text}) == 6
    assert base.fingerprint()["condition"] == (
        "(o.cell = t.cell) AND (t.ts >= (o.ts - INTERVAL '600' SECOND)) AND (t.ts <= (o.ts + INTERVAL '60' SECOND))"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"how": "left"}, "not supported yet"),
        ({"how": "sideways"}, "how='sideways' is not one of"),
        ({"late": "maybe"}, "late"),
        ({"watermark_policy": "mean"}, "watermark_policy"),
        ({"watermark": "5 seconds"}, "watermark without event time"),
        ({"watermark": {"o": 5}, "event_time": {"t": "ts"}}, "watermark without event time for o"),
        ({"watermark": {"x": 5}, "event_time": "ts"}, "unknown alias 'x'"),
        ({"window": tumbling(5)}, "no event time with a window for o, t: add event_time"),
        ({"window": "10 seconds", "event_time": "ts"}, "tumbling"),
        ({"event_time": "tz"}, "did you mean 'ts'"),
        ({"event_time": "cell"}, "must be a timestamp, a date or an integer"),
        ({"event_time": {"o": "id", "t": "ts"}}, "all be timestamps"),
        ({"event_time": 5}, "event_time must be"),
    ],
)
def test_refused(options: dict[str, Any], message: str) -> None:
    """A wrong argument is a SpecError that says what to do."""
    with pytest.raises(SpecError, match=message):
        spec(**options)


def test_refused_sides() -> None:
    """Aliases are distinct names; one side is no join; an outer join is refused by its name, whatever its sides."""
    for schemas, message in [
        ({"o": ORDERS}, "at least two sides, not 1"),
        ({"o": ORDERS, "O": TRACKS}, "duplicate alias"),
        ({"window": ORDERS, "t": TRACKS}, "reserved"),
        ({"a.b": ORDERS, "t": TRACKS}, "without a dot"),
        ({"a": pa.schema([("k", pa.int8()), ("k", pa.int8())]), "t": TRACKS}, "two columns"),
    ]:
        with pytest.raises(SpecError, match=message):
            build_spec(schemas, "cell")
    with pytest.raises(SpecError, match="how='left' is not supported yet"):
        build_spec({"a": ORDERS, "b": ORDERS, "c": ORDERS}, "cell", how="left")


def test_without_an_equality_a_range_drives() -> None:
    """The band has one key per side; what it does not enforce is in the residual; the event time still expires."""
    found = spec("abs(o.id - t.taxi) <= 2 AND t.ts BETWEEN o.ts AND o.ts + INTERVAL 1 MINUTE AND o.price < t.cost",
                 event_time="ts", watermark=5, select=["o.price"])  # fmt: skip
    assert found.edges[0].band is not None
    assert (
        found.edges[0].band.kind,
        found.edges[0].band.low,
        found.edges[0].band.high,
        found.edges[0].band.on_time,
    ) == ("integer", -2, 2, False)
    assert [str(key) for side in found.sides for key in side.index.exprs] == ["o.id", "t.taxi"]
    assert (found.edges[0].low, found.edges[0].high, str(found.edges[0].residual)) == (0, MINUTE, "o.price < t.cost")
    assert expiry(found) == [(MINUTE, 0), (0, 0)]
    assert not found.equal_codes
    assert (found.reach, spec().reach, spec("o.id <> t.taxi").reach) == ((-2, 2), (0, 0), (None, None))
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("on", "options", "keys", "kind", "residual"),
    [
        ("o.id < t.taxi", {}, "o.id t.taxi", "integer", None),
        ("o.id < t.taxi AND abs(o.price - t.cost) <= 1", {}, "o.price t.cost", "real", "both"),
        ("o.id < t.taxi AND o.ts < t.ts", {"event_time": "ts"}, "o.id t.taxi", "integer", None),
        ("o.id < t.taxi AND t.ts BETWEEN o.ts AND o.ts + INTERVAL 1 HOUR", {"event_time": "ts"}, "o.ts t.ts", "integer",
         "o.id < t.taxi"),
        ("o.ts <= t.ts AND t.ts <= o.ts", {"event_time": "ts"}, "o.ts t.ts", "integer", None),
        ("o.price < t.cost AND o.id <= t.taxi", {}, "o.id t.taxi", "integer", "o.price < t.cost"),
        ("o.id + o.unused <= t.taxi", {}, "capped t.taxi", "integer", "all"),
        ("o.id <> t.taxi", {}, "", None, "all"),
        ("o.cell < t.cell", {}, "", None, "all"),
        ("t.cost - o.price > 1.5", {}, "", None, "all"),
        ("o.price + 0.5 - o.price < t.cost", {}, "", None, "all"),
    ],
)  # fmt: skip
def test_which_range_drives(on: str, options: Any, keys: str, kind: str | None, residual: str | None) -> None:
    """Two ends before one, other columns before the event time, exact before rounded, then as written."""
    found = spec(on, select=["o.id"], **options)
    exprs = [str(key) for side in found.sides for key in side.index.exprs]
    assert len(exprs) == len(keys.split())
    assert all(part in expr for part, expr in zip(keys.split(), exprs, strict=True))
    assert (found.edges[0].band and found.edges[0].band.kind) == kind
    if residual in (None, "all", "both"):
        assert (found.edges[0].residual is None) == (residual is None)
    else:
        assert str(found.edges[0].residual) == residual


def test_what_nan_does_decides_whether_a_float_range_drives() -> None:
    """TRUE for a NaN whose code is not asked for: cannot drive. Never TRUE: such values are dropped early."""
    assert spec("t.cost - o.price > 1.5").edges[0].band is None
    assert "finite" not in str(spec("t.cost > o.price + 1.5").sides[0].index.exprs[0])
    assert "finite" in str(spec("abs(t.cost - o.price) < 1.5").sides[0].index.exprs[0])


@pytest.mark.parametrize(
    ("on", "kind", "bounds", "reach"),
    [
        ("abs(l.d - r.e) <= 0.01", "integer", (-10, 10), (-10, 10)),
        ("r.x BETWEEN l.x + 4 AND l.x + 8", "real", (-2, 2), (-259, 259)),
        ("l.x < r.x", "integer", (0, None), (0, None)),
        ("l.x + 1 < r.x", "real", (1, None), (None, None)),
        ("l.i < r.x + 1", "real", (-1, None), (None, None)),
        ("l.wide < r.d", "real", (0, None), (None, None)),
    ],
)
def test_codes_of_decimals_add_and_codes_of_floats_compare(on: str, kind: str, bounds: Any, reach: Any) -> None:
    """Decimals of up to 18 digits count units of the common scale; floats that are only compared are their codes; a
    band of floats with two ends counts steps, and is shifted so that it is as wide to both sides. Range bounds of such
    numbers do not say < or <=, so the condition is checked again."""
    schema = pa.schema(
        [
            ("d", pa.decimal128(10, 2)),
            ("e", pa.decimal128(9, 3)),
            ("x", pa.float64()),
            ("i", pa.int64()),
            ("wide", pa.decimal128(30, 2)),
        ]
    )
    found = build_spec({"l": schema, "r": schema}, on)
    assert found.edges[0].band is not None
    assert (found.edges[0].band.kind, (found.edges[0].band.low, found.edges[0].band.high)) == (kind, bounds)
    assert found.reach == found.edges[0].band.reach == reach
    assert found.edges[0].residual is not None


def test_key_types_meet() -> None:
    """Both sides of a key evaluate to one type; floats have one NaN and one zero."""
    schemas = {
        "l": pa.schema(
            [
                ("i", pa.int8()),
                ("f", pa.float32()),
                ("d", pa.dictionary(pa.int8(), pa.string())),
                ("n", pa.decimal128(5, 2)),
            ]
        ),
        "r": pa.schema([("i", pa.uint32()), ("f", pa.float64()), ("d", pa.large_string()), ("n", pa.int32())]),
    }
    found = build_spec(schemas, ["i", "f", "d", "n"])
    assert found.sides[0].index.types == (pa.int64(), pa.float64(), pa.string(), pa.decimal128(12, 2))
    for side in found.sides:
        types = {f"{side.alias}.{f.name}": f.type for f in side.schema}
        assert tuple(key.type(types) for key in side.index.exprs) == side.index.types == found.sides[0].index.types
    zeros = found.sides[1].index.exprs[1].evaluate({"r.f": pa.array([0.0, -0.0])}, 2)
    assert zeros.buffers()[1].to_pybytes()[:16] == bytes(16)
