"""What a condition is taken apart into, and that the parts together mean the whole."""

from __future__ import annotations

import json
import math
import pathlib
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenjoin
from evenjoin.errors import ConditionError, SpecError
from evenjoin.kernels.band import asked_codes
from evenjoin.kernels.hashing import ordered_int64
from evenjoin.spec import Condition, JoinSpec, Scope, build_spec, read, read_condition, tumbling
from evenjoin.spec.expr import Expr, conjunction
from thorough import examples

INTS = pa.schema([(name, pa.int64()) for name in ("a", "b", "t")])
SCOPE = Scope({"l": INTS, "r": INTS})
CASES = pathlib.Path(__file__).parents[1] / "cases" / "public.json"


def shape(condition: Condition) -> dict[str, list[str]]:
    """The parts as text; empty ones left out."""
    parts = {
        "keys": [f"{k.left} {'<=>' if k.null_safe else '='} {k.right}" for k in condition.keys],
        "ranges": [f"{r.low} <= {r.right} - {r.left} <= {r.high}" for r in condition.ranges],
        "filters": [f"{alias}: {expr}" for alias, expr in condition.filters],
        "residual": [str(expr) for expr in condition.residual],
    }
    return {name: texts for name, texts in parts.items() if texts}


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        ("l.a = r.a", {"keys": ["l.a = r.a"]}),
        ("r.a = l.a", {"keys": ["l.a = r.a"]}),
        ("l.a <=> r.a", {"keys": ["l.a <=> r.a"]}),
        ("l.a IS NOT DISTINCT FROM r.a", {"keys": ["l.a <=> r.a"]}),
        ("l.a = r.a OR (l.a IS NULL AND r.a IS NULL)", {"keys": ["l.a <=> r.a"]}),
        ("(r.a IS NULL AND l.a IS NULL) OR r.a = l.a", {"keys": ["l.a <=> r.a"]}),
        ("l.a = r.a OR (l.a IS NULL AND r.b IS NULL)",
         {"residual": ["(l.a = r.a) OR ((l.a IS NULL) AND (r.b IS NULL))"]}),
        ("l.a + 1 = r.a", {"keys": ["l.a + 1 = r.a"]}),
        ("l.a + r.b = 5",
         {"keys": ["wrap_add(wrap_negate(time(l.a)), 5L) = time(r.b)"], "residual": ["(l.a + r.b) = 5"]}),
        ("l.a - r.b = 0", {"keys": ["time(l.a) = time(r.b)"]}),
        ("l.a - l.a = l.b - r.b", {"residual": ["(l.a - l.a) = (l.b - r.b)"]}),
        ("l.a + r.b <=> 5", {"residual": ["(l.a + r.b) <=> 5"]}),
        ("r.t BETWEEN l.t - 5 AND l.t + 6", {"ranges": ["-5 <= r.t - l.t <= 6"]}),
        ("l.t - 5 < r.t AND r.t < l.t + 6", {"ranges": ["-4 <= r.t - l.t <= 5"]}),
        ("abs(l.t - r.t) <= 3", {"ranges": ["-3 <= r.t - l.t <= 3"]}),
        ("3 > abs(r.t - l.t)", {"ranges": ["-2 <= r.t - l.t <= 2"]}),
        ("abs(l.t - r.t) >= 3", {"residual": ["abs(l.t - r.t) >= 3"]}),
        ("NOT (r.t < l.t OR r.t > l.t + 2)", {"ranges": ["0 <= r.t - l.t <= 2"]}),
        ("r.t - l.t <= 2.5", {"ranges": ["None <= r.t - l.t <= 2"]}),
        ("r.t + r.t <= l.t + l.t + 3", {"ranges": ["None <= r.t - l.t <= 1"]}),
        ("r.t >= l.t + 5 AND r.t <= l.t + 4", {"ranges": ["5 <= r.t - l.t <= 4"]}),
        ("l.b > 4 AND r.b IN (1, 2)", {"filters": ["l: l.b > 4", "r: r.b IN (1, 2)"]}),
        ("l.b <> r.b", {"residual": ["l.b <> r.b"]}),
        ("TRUE", {}),
        ("1 = 1 AND l.a = r.a", {"keys": ["l.a = r.a"]}),
        ("FALSE", {"filters": ["l: FALSE", "r: FALSE"]}),
        ("a", {"keys": ["l.a = r.a"]}),
        (["a", "B"], {"keys": ["l.a = r.a", "l.b = r.b"]}),
    ],
    ids=str,
)  # fmt: skip
def test_shape(on: str, expected: dict[str, list[str]]) -> None:
    """Each conjunct lands in the one part that can use it."""
    assert shape(read_condition(on, SCOPE)) == expected


def test_intervals_become_microseconds() -> None:
    """Timestamps, dates and intervals: bounds in microseconds; a date counts from its midnight."""
    scope = Scope({
        "o": pa.schema([("ts", pa.timestamp("ms", "UTC")), ("day", pa.date32())]),
        "t": pa.schema([("ts", pa.timestamp("us")), ("day", pa.date32())]),
    })  # fmt: skip
    minute, day = 60_000_000, 86_400_000_000
    for on, low, high in [
        ("t.ts BETWEEN o.ts - INTERVAL 10 MINUTES AND o.ts", -10 * minute, 0),
        ("t.ts - o.ts < INTERVAL '1 hour 5 minutes'", None, 65 * minute - 1),
        ("abs(t.ts - o.ts) <= INTERVAL 1 MINUTE", -minute, minute),
        ("t.day <= o.day + 2", None, 2 * day),
        ("t.day <= o.ts + INTERVAL 1 DAY", None, day),
        ("t.day >= o.day - INTERVAL 3 DAYS", -3 * day, None),
        ("t.day < o.day + INTERVAL 36 HOURS", None, 1.5 * day - 1),
        ("t.ts >= o.ts + INTERVAL 1 MINUTE 120 SECONDS", 3 * minute, None),
    ]:
        (found,) = read_condition(on, scope, "UTC").ranges
        assert (found.low, found.high, found.kind) == (low, high, "time")
    (key,) = read_condition("t.ts = o.ts", scope, "UTC").keys
    assert key.type == pa.timestamp("us", "UTC")
    assert [e.type(scope.types) for e in (key.left, key.right)] == [key.type] * 2


def test_every_two_sided_public_case() -> None:
    """Every two-sided condition of the public cases is understood; only <> is left over, and never silently."""
    seen = 0
    for case in json.loads(CASES.read_text()):
        if "third" in case or "(band" in case["condition"] or "(after" in case["condition"]:
            continue
        rows = {"l": case["left"] or [{"i": 1}], "r": case["right"]}
        scope = Scope({alias: pa.Table.from_pylist(part).schema for alias, part in rows.items()})
        condition = read_condition(case["condition"], scope)
        text = case["condition"]
        assert bool(condition.keys) == any(mark in text for mark in (" = ", "<=>")), text
        assert [str(r) for r in condition.residual] == [
            part for part in text.split(" AND ") if "<>" in part and "'" not in part
        ]
        compares = [
            part for part in text.split(" AND ") if any(m in part.replace("<=>", "") for m in ("<", ">", "BETWEEN"))
        ]
        assert bool(condition.ranges) == any("<>" not in part and "l.v > 4" not in part for part in compares), text
        seen += 1
    assert seen == 97


@pytest.mark.parametrize(
    ("on", "message", "caret"),
    [
        ("l.a = r.a AND b = 1", "'b' is ambiguous: write l.b or r.b", "b = 1"),
        ("l.a = q.a", "unknown alias 'q'", "q.a"),
        ("l.a = r.aa", "did you mean 'a'", "aa"),
        ("l.a = r.a AND zz > 1", "no column 'zz' on any side", "zz"),
        ("l.a = 'x'", "int64 and string do not compare", "l.a"),
        ("l.a = r.a AND sum(l.b) > 1", "SUM() is not evaluated", "sum"),
        ("l.a = r.a AND rank() OVER (PARTITION BY l.a) = 1", "RANK() is not evaluated", "rank"),
        ("l.a IN (SELECT 1)", "subquery", "l.a"),
        ("l.a = r.a AND l.b BETWEEN SYMMETRIC 2 AND 1", "SYMMETRIC", "SYMMETRIC"),
        ("l.a = r.a AND my_udf(l.b)", "MY_UDF() is not evaluated", "my_udf"),
        ("l.a = r.a AND date_format(l.t, 'y') = '1'", "DATE_FORMAT() is not evaluated", "date_format"),
        ("l.a = (r.a", "not understood", "(r.a"),
        ("l.a = ", "missing", ""),
        ("l.a = r.a l.b", "not understood", "r.a l.b"),
        ("l.a = 'open", "quotes", "'open"),
        ("l.a + 1", "a condition is needed", "l.a"),
        ("l.a AND r.a = 1", "a condition is needed", "l.a AND"),
        ("l.a\n  = r.zz", "no column 'zz'", "zz"),
        ("l.t > r.t - INTERVAL 1 MONTH", "has no fixed length", "INTERVAL"),
        ("l.t <= r.t + INTERVAL 999999999 WEEKS", "has at most 2^63 - 1 microseconds", "INTERVAL"),
        ("window.start = l.t", "no window", "window"),
    ],
)
def test_errors_point_at_the_place(on: str, message: str, caret: str | None) -> None:
    """A ConditionError says what is wrong and where."""
    with pytest.raises(ConditionError) as error:
        read_condition(on, SCOPE)
    assert message in str(error.value)
    if caret is not None:
        assert error.value.position is not None
        assert on[error.value.position :].startswith(caret)


def test_type_mismatch_names_both_types() -> None:
    """A string does not join an integer; the message names both."""
    scope = Scope({"l": pa.schema([("k", pa.string())]), "r": pa.schema([("k", pa.int64())])})
    with pytest.raises(ConditionError, match=r"string and int64 do not compare"):
        read_condition("k", scope)
    nested = Scope({a: pa.schema([("k", pa.list_(pa.int64()))]) for a in "lr"})
    with pytest.raises(ConditionError, match="list"):
        read_condition("l.k = r.k", nested)


@pytest.mark.parametrize("on", [None, [], 5, [1], ""])
def test_on_must_be_text_or_names(on: object) -> None:
    with pytest.raises(SpecError):
        read_condition(on, SCOPE)  # type: ignore[arg-type]


def test_odd_names() -> None:
    """Backticks, letters in another case and struct fields resolve as in Spark."""
    schema = pa.schema([("my key", pa.int64()), ("Id", pa.int64()), ("s", pa.struct([("x", pa.int64())]))])
    scope = Scope({"l": schema, "r": schema})
    assert shape(read_condition("l.`my key` = r.`my key`", scope)) == {"keys": ["l.`my key` = r.`my key`"]}
    assert shape(read_condition("my key", scope)) == {"keys": ["l.`my key` = r.`my key`"]}
    assert shape(read_condition("L.ID = r.id", scope)) == {"keys": ["l.Id = r.Id"]}
    assert shape(read_condition("l.s.x = r.s.X", scope)) == {"keys": ["l.s.x = r.s.x"]}


# --- the parts together mean the whole -------------------------------------------------------------------------------

value = st.one_of(st.none(), st.integers(-4, 4))
rows = st.lists(st.tuples(value, value, value), min_size=1, max_size=6)
column = st.sampled_from(["l.a", "l.b", "l.t", "r.a", "r.b", "r.t", "2", "1", "1.5"])
term = st.one_of(
    column, st.builds("{} {} {}".format, column, st.sampled_from("+-"), column), st.builds("{0} + {0}".format, column)
)
simple = st.one_of(
    st.builds("{} {} {}".format, term, st.sampled_from(["=", "<", "<=", ">", ">=", "<>", "<=>"]), term),
    st.builds("abs({}) <= {}".format, term, st.integers(-1, 3)),
    st.builds("{} BETWEEN {} AND {}".format, term, term, term),
    st.builds("NOT ({} < {} OR {} = {})".format, term, term, term, term),
    st.just("l.a = r.a OR (l.a IS NULL AND r.a IS NULL)"),
)
conjunctions = st.lists(st.builds("({})".format, simple), min_size=1, max_size=3).map(" AND ".join)


def whole_of(on: str, scope: Scope) -> Expr:
    """The condition as one expression."""
    found = conjunction(read(on, scope, "UTC"))
    assert found is not None
    return found


def matched(spec: JoinSpec, columns: dict[str, pa.Array], n: int) -> pa.Array:
    """Which pairs are results by the parts of the spec; ``columns`` holds one row per pair."""
    holds = pa.repeat(pa.scalar(True), n)
    (edge,) = spec.edges
    for part in (*(side.filter for side in spec.sides), edge.residual):
        if part is not None:
            holds = pc.and_(holds, pc.fill_null(part.evaluate(columns, n), False))
    if edge.band is not None:
        left, right = (side.index.exprs[0].evaluate(columns, n) for side in spec.sides)
        codes = [ordered_int64(key) for key in (left, right)]
        for view in map(edge.seen_from, edge.sides):
            first, last = asked_codes(
                codes[view.side], view.band.kind, view.band.low, view.band.high, view.band.slack
            )  # fmt: skip
            asked = pa.array((codes[view.other] >= first) & (codes[view.other] <= last))
            holds = pc.and_(holds, pc.and_(asked, pc.and_(pc.is_valid(left), pc.is_valid(right))))
    index = spec.sides[0].index
    for i, null_safe in enumerate(index.null_safe if edge.band is None and not index.is_window else ()):
        a, b = (side.index.exprs[i].evaluate(columns, n) for side in spec.sides)
        assert a.type == b.type == index.types[i]
        both = pc.and_(pc.is_null(a), pc.is_null(b)) if null_safe else pa.repeat(pa.scalar(False), n)
        holds = pc.and_(holds, pc.or_(both, pc.fill_null(pc.equal(a, b), False)))
    if spec.window is None and edge.bounded:
        left, right = (side.order.evaluate(columns, n) for side in spec.sides if side.order is not None)
        gap = pc.subtract(right, left)
        for bound, kernel in ((edge.low, pc.greater_equal), (edge.high, pc.less_equal)):
            if bound is not None:
                holds = pc.and_(holds, pc.fill_null(kernel(gap, bound), False))
    return holds


@settings(max_examples=examples(200), deadline=None)
@given(conjunctions, rows, rows, st.sampled_from([None, "t", {"l": "t"}, "window"]))
def test_the_parts_mean_the_whole(on: str, left: list[tuple[int]], right: list[tuple[int]], event_time: str) -> None:
    """filters AND keys (or the band) AND low/high AND residual select the same pairs as the condition itself."""
    windowed = {"window": tumbling(3), "event_time": "t"}
    options = windowed if event_time == "window" else {"event_time": event_time}
    pairs = [(*x, *y) for x in left for y in right]
    names = [f"{alias}.{name}" for alias in "lr" for name in INTS.names]
    columns = {name: pa.array([pair[i] for pair in pairs], pa.int64()) for i, name in enumerate(names)}
    whole = pc.fill_null(whole_of(on, SCOPE).evaluate(columns, len(pairs)), False)
    spec = build_spec({"l": INTS, "r": INTS}, on, **options)  # type: ignore[arg-type]
    assert matched(spec, columns, len(pairs)).to_pylist() == whole.to_pylist()


times = st.one_of(st.none(), st.integers(-3, 3))
moments = st.sampled_from(["o.ts", "t.ts", "o.day", "t.day"])
shifts = st.sampled_from(["", " + INTERVAL 1 DAY", " - INTERVAL 12 HOURS", " + INTERVAL 2 DAYS"])
orders = st.sampled_from(["=", "<", "<=", ">", ">="])
temporal = st.one_of(
    st.builds("{}{} {} {}{}".format, moments, shifts, orders, moments, shifts),
    st.builds("abs({} - {}) <= INTERVAL {} HOURS".format, moments, moments, st.sampled_from([0, 12, 24])),
    st.builds("{} - {} {} INTERVAL {} HOURS".format, moments, moments, orders, st.sampled_from([-12, 0, 24])),
)


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(temporal, min_size=1, max_size=3).map(" AND ".join),
    st.lists(st.tuples(times, times, times, times), min_size=1, max_size=8),
    st.sampled_from([None, "ts", "day", {"o": "ts", "t": "day"}]),
    st.sampled_from(["ms", "us", "ns"]),
)
def test_the_parts_mean_the_whole_in_time(on: str, pairs: list[tuple[int]], event_time: str, unit: str) -> None:
    """The same for timestamps of mixed units and zones, and dates."""
    types = {"o.ts": pa.timestamp(unit, "UTC"), "o.day": pa.date32(), "t.ts": pa.timestamp("us"), "t.day": pa.date32()}
    schemas = {a: pa.schema([("k", pa.int8()), *((n[2:], t) for n, t in types.items() if n[0] == a)]) for a in "ot"}
    half_days = {"ms": 43_200_000, "us": 43_200_000_000, "ns": 43_200_000_000_000}
    columns = {
        "o.k": pa.repeat(pa.scalar(1, pa.int8()), len(pairs)),
        "t.k": pa.repeat(pa.scalar(1, pa.int8()), len(pairs)),
    }
    for i, (name, t) in enumerate(types.items()):
        scale = half_days[t.unit] if pa.types.is_timestamp(t) else 1
        columns[name] = (
            pa.array([None if p[i] is None else p[i] * scale for p in pairs])
            .cast(pa.int64() if scale > 1 else pa.int32())
            .cast(t)
        )
    whole = pc.fill_null(whole_of(on, Scope(schemas)).evaluate(columns, len(pairs)), False)
    for equality in ("o.k = t.k AND ", ""):
        spec = build_spec(schemas, equality + on, event_time=event_time, time_zone="UTC")
        assert matched(spec, columns, len(pairs)).to_pylist() == whole.to_pylist()


NUMBERS = {
    "x": pa.array([0.0, -0.0, 0.1, 0.2, 0.3, 0.1 + 0.2, 0.7, 1.1, -2.5, 1e17, 1e308, 5e-324, math.nan, math.inf, None]),
    "f": pa.array([0.0, 0.1, 0.3, 0.7, 1.1, -2.5, 16777217.0, 3e38, -3e38, math.nan, -math.inf, None], pa.float32()),
    "d": pa.array([Decimal(n) / 100 for n in (-150, 0, 30, 31, 70, 110)], pa.decimal128(6, 2)),
    "e": pa.array([Decimal(n) / 1000 for n in (-1500, 0, 299, 300, 301)], pa.decimal128(7, 3)),
    "w": pa.array([Decimal("0.3"), Decimal("1e19"), None], pa.decimal128(30, 10)),
    "k": pa.array([-1, 0, 1, 10**16, 10**16 + 1, 2**53 + 1, None], pa.int64()),
}
unequal = orders.filter("=".__ne__)


def loose(columns: str, sizes: list[str]) -> st.SearchStrategy[tuple[str, str, str]]:
    """Comparisons of l.a and r.b with such constants, and a column for each."""
    size, of = st.sampled_from(sizes), st.sampled_from(columns)
    texts = st.one_of(
        st.builds("abs(l.a - r.b) {} {}".format, st.sampled_from(["<", "<="]), size),
        st.builds("r.b BETWEEN l.a - {} AND l.a + {}".format, size, size),
        st.builds("l.a {} r.b".format, unequal),
        st.builds("l.a - r.b {} {}".format, unequal, size),
        st.builds("l.a + {} + {} {} r.b".format, size, size, unequal),
        st.builds("l.a + l.a + {} {} r.b".format, size, unequal),
        st.builds("{} - l.a {} r.b - {}".format, size, unequal, size),
    )
    return st.tuples(texts, of, of)


EXACT = ["0", "0.1", "0.2", "0.3", "0.4", "1", "-0.1"]


@settings(max_examples=examples(400), deadline=None)
@given(st.one_of(loose("xf", [*EXACT, "0.3D", "1.5F"]), loose("xfk", ["0", "1", "0.1D", "1e16"]), loose("dewk", EXACT)))
def test_the_parts_mean_the_whole_in_numbers_that_round(drawn: tuple[str, str, str]) -> None:
    """The same for floats and decimals: every pair of values that sit on edges, round, overflow or are no numbers."""
    on, a, b = drawn
    left, right = NUMBERS[a], NUMBERS[b]
    schemas = {"l": pa.schema([("a", left.type)]), "r": pa.schema([("b", right.type)])}
    count = len(left) * len(right)
    columns = {
        "l.a": left.take(pa.array([i // len(right) for i in range(count)])),
        "r.b": right.take(pa.array([i % len(right) for i in range(count)])),
    }
    whole = pc.fill_null(whole_of(on, Scope(schemas)).evaluate(columns, count), False)
    assert matched(build_spec(schemas, on), columns, count).to_pylist() == whole.to_pylist()


def test_a_moved_key_at_the_edge_of_int64_matches_nothing() -> None:
    """A moved key with no int64 value matches nothing and does not fail; one that wraps is checked again."""
    spec = build_spec({"l": INTS, "r": INTS}, "l.a - r.b = 5")
    columns = {"l.a": pa.array([-(2**63), 6, None]), "r.b": pa.array([2**63 - 1, 1, 1])}
    assert matched(spec, columns, 3).to_pylist() == [False, True, False]
    spec = build_spec({"l": INTS, "r": INTS}, "l.a + r.b = -5")
    columns = {"l.a": pa.array([-(2**63), 6, None]), "r.b": pa.array([2**63 - 5, 1, 1])}
    assert matched(spec, columns, 3).to_pylist() == [True, False, False]


@pytest.mark.parametrize("rest", ["l.t = r.t", "l.t < 5", "l.k IS NOT NULL"])
def test_more_than_both_null_is_no_null_safe_equality(rest):
    """`x = y OR (x IS NULL AND y IS NULL) AND more` does not let every pair of NULLs through, as `x <=> y` would."""
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])
    rows = pa.table({"k": [None, None, 1], "t": [1, 9, 1]}, schema)
    on = f"l.k = r.k OR (l.k IS NULL AND r.k IS NULL) AND {rest}"
    with pytest.warns(evenjoin.UnboundedStateWarning):
        join = evenjoin.local({"l": schema, "r": schema}, on)
    with join:
        assert (
            join.process({"l": rows, "r": rows}).num_rows == {"l.t = r.t": 3, "l.t < 5": 3, "l.k IS NOT NULL": 1}[rest]
        )
