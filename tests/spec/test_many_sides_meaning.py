"""The parts of a join of three and four sides mean the whole: edges, filters and residual against brute force.

`results` is a second reading of the guarantee in spec/graph.py, with loops over all combinations. It knows nothing of
placement, state or probing. `brute_force` knows nothing of the parts.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.kernels.band import asked_codes
from evenjoin.kernels.hashing import ordered_int64
from evenjoin.spec import JoinSpec, build_spec, sliding, tumbling
from evenjoin.spec.graph import EVERYTHING, Edge
from evenjoin.testing import brute_force
from thorough import examples

START = "~start"
NOTHING = pa.scalar(False)


# --- the meaning of a spec --------------------------------------------------------------------------------------------


def results(spec: JoinSpec, data: dict[str, pa.Table]) -> Counter:
    """The ids of the combinations that are results by the parts of the spec, with the start of their window."""
    rows = [windowed(spec, number, data[side.alias]) for number, side in enumerate(spec.sides)]
    shape = [table.num_rows for table in rows]
    picked = np.indices(shape).reshape(len(shape), -1)
    count = picked.shape[1]
    columns, times = {}, []
    for side, table, at in zip(spec.sides, rows, picked, strict=True):
        taken = table.take(pa.array(at)).combine_chunks()
        columns |= {f"{side.alias}.{name}": _one(taken[name]) for name in table.schema.names if name != START}
        if spec.window is not None:
            times.append(_one(taken[START]))
        else:
            times.append(None if side.order is None else side.order.evaluate(columns, count))
    if spec.window is not None:
        columns |= {"window.start": times[0], "window.end": pc.add(times[0], spec.window[0])}
    keep = np.ones(count, np.bool_)
    for number, side in enumerate(spec.sides):
        keep &= true(side.filter, columns, count)
        keep &= matchable(spec, number, columns, times[number], count)
    for edge in spec.edges:
        keep &= satisfied(spec, edge, columns, times, count)
    keep &= true(spec.residual, columns, count)
    ids = [columns[f"{side.alias}.id"].to_pylist() for side in spec.sides]
    starts = columns["window.start"].to_pylist() if spec.window is not None else [None] * count
    return Counter((*(column[i] for column in ids), starts[i]) for i in np.flatnonzero(keep))


def windowed(spec: JoinSpec, number: int, table: pa.Table) -> pa.Table:
    """With a window, each row once for each window that it is in, and the window's start."""
    if spec.window is None:
        return table
    size, slide = spec.window
    side = spec.sides[number]
    times = side.order.evaluate({f"{side.alias}.{n}": _one(table[n]) for n in table.schema.names}, table.num_rows)
    pairs = [
        (row, start)
        for row, time in enumerate(times.to_pylist())
        if time is not None
        for start in range(time // slide * slide, time - size, -slide)
    ]
    taken = table.take(pa.array([row for row, _ in pairs], pa.int64()))
    return taken.append_column(START, pa.array([start for _, start in pairs], pa.int64()))


def _one(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def true(expr: Any, columns: Any, count: int) -> Any:
    if expr is None:
        return np.ones(count, np.bool_)
    return np.asarray(pc.fill_null(expr.evaluate(columns, count), NOTHING))


def matchable(spec: JoinSpec, number: int, columns: Any, times: Any, count: int) -> Any:
    """A tuple with a NULL key (but under <=>) matches nothing, nor one without a time where an edge is bounded."""
    keep = np.ones(count, np.bool_)
    for index in spec.sides[number].indexes:
        for expr, null_safe in zip(index.exprs, index.null_safe, strict=True):
            keep &= null_safe | np.asarray(expr.evaluate(columns, count).is_valid())
    return keep & np.asarray(times.is_valid()) if times is not None and spec.bounded(number) else keep


def satisfied(spec: JoinSpec, edge: Edge, columns: Any, times: Any, count: int) -> Any:
    """Whether two tuples have in common what their edge asks for."""
    mine, theirs = (spec.sides[side].indexes[i] for side, i in zip(edge.sides, edge.index, strict=True))
    keep = true(edge.residual, columns, count)
    values = [[expr.evaluate(columns, count) for expr in index.exprs] for index in (mine, theirs)]
    if edge.drive == "none":
        assert mine == theirs == EVERYTHING
    elif edge.drive == "equal":
        assert (mine.types, mine.null_safe) == (theirs.types, theirs.null_safe)
        for one, two, type_, null_safe in zip(*values, mine.types, mine.null_safe, strict=True):
            assert one.type == two.type == type_
            keep &= same(one, two, null_safe)
    else:
        codes = [ordered_int64(pc.fill_null(key, pa.scalar(0).cast(key.type))) for (key,) in values]
        for view, (here, there) in (
            (edge.seen_from(edge.sides[0]), codes),
            (edge.seen_from(edge.sides[1]), codes[::-1]),
        ):
            first, last = asked_codes(here, view.band.kind, view.band.low, view.band.high, view.band.slack)
            keep &= (there >= first) & (there <= last)
    if edge.bounded:
        gap = pc.subtract(times[edge.sides[1]], times[edge.sides[0]])
        for bound, kernel in ((edge.low, pc.greater_equal), (edge.high, pc.less_equal)):
            keep &= bound is None or np.asarray(pc.fill_null(kernel(gap, bound), NOTHING))
    return keep


def same(one: pa.Array, two: pa.Array, null_safe: bool) -> Any:
    """Whether keys are equal bit by bit, as codes are: there is one NaN and one zero."""
    left, right = (
        ([str(v) for v in key.to_pylist()] if pa.types.is_floating(key.type) else key.to_pylist()) for key in (one, two)
    )
    nulls = np.asarray(pc.or_(one.is_null(), two.is_null()))
    equal = np.array([a == b for a, b in zip(left, right, strict=True)], np.bool_)
    return equal & (~nulls | null_safe)


# --- random joins -----------------------------------------------------------------------------------------------------

BIG = [2**53, 2**53 + 1]
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "a": (pa.int32(), [0, 0, 0, 0, 0, 1, 1, 2]),
    "b": (pa.int64(), [0, 0, 0, 0, 0, 1, 1, *BIG]),
    "c": (pa.int64(), [0, 0, 0, 0, 1, 1, *BIG]),
    "x": (pa.float64(), [0.0, 0.0, 0.0, -0.0, 1.0, 1.0, float(2**53), float("nan")]),
    "d": (pa.decimal128(20, 2), [Decimal(n) for n in ("0.00", "0.00", "0.00", "1.00", "1.00", "1.50")]),
    "s": (pa.string(), ["", "", "", "0", "one"]),
    "t": (pa.int64(), [0, 1, 1, 1, 2, 2, 3]),
}
SCHEMA = pa.schema([("id", pa.int64()), *((name, type_) for name, (type_, _) in VALUES.items())])
number = st.sampled_from(["a", "a", "b", "c", "x"])
exact = st.sampled_from(["a", "b", "d", "d"])
whole = st.sampled_from(["a", "b", "c"])
size = st.sampled_from([-1, 0, 0, 1, 1, 2, 3])
BETWEEN = [
    st.builds("{{0}}.{} = {{1}}.{}".format, number, number),
    st.builds("{{0}}.{} = {{1}}.{}".format, exact, exact),
    st.builds("abs({{0}}.{} - {{1}}.{}) <= {}".format, exact, exact, size),
    st.builds("{{0}}.{} = {{1}}.{}".format, st.just("a"), whole),
    st.builds("{{0}}.{0} {1} {{1}}.{0}".format, number, st.sampled_from(["=", "=", "<=>"])),
    st.builds("{{0}}.{} <=> {{1}}.{}".format, whole, whole),
    st.builds("{{0}}.{0} = {{1}}.{0} OR ({{1}}.{0} IS NULL AND {{0}}.{0} IS NULL)".format, whole),
    st.builds("{{0}}.s {} {{1}}.s".format, st.sampled_from(["=", "<=>", "<>", "<"])),
    st.builds("{{0}}.{} + {} = {{1}}.{}".format, whole, size, whole),
    st.builds("{{0}}.{} + {{1}}.{} = {}".format, whole, whole, size),
    st.builds("abs({{0}}.{} - {{1}}.{}) <= {}".format, number, number, size),
    st.builds("{{0}}.{} {} {{1}}.{}".format, number, st.sampled_from(["<", ">=", "<>"]), number),
    st.builds("{{0}}.a + {{0}}.b <= {{1}}.{} + {}".format, whole, size),
    st.builds("{{1}}.t BETWEEN {{0}}.t - {} AND {{0}}.t + {}".format, size, size),
    st.builds("{{1}}.t {} {{0}}.t".format, st.sampled_from(["=", ">=", "<", "<=>", "<>"])),
    st.builds("{{1}}.t + {{1}}.t = {{0}}.t + {{0}}.t + {}".format, size),
    st.just("{0}.a > 0 OR {1}.b = 1"),
]
OF_THREE = ["{0}.a + {1}.b = {2}.a", "{0}.a + {1}.a >= {2}.a", "{0}.a = 1 OR {1}.a = 1 OR {2}.a = 1",
            "{0}.a IN ({1}.a, {2}.a)"]  # fmt: skip
OF_ONE = ["{0}.a < 2", "{0}.a = {0}.b", "{0}.t IS NOT NULL", "TRUE", "1 = 1"]
OF_A_WINDOW = ["{0}.t > window.start", "{0}.t + {1}.t < window.end + 3", "window.start >= 0"]
between = st.one_of(*BETWEEN)


@st.composite
def conditions(draw: Any, names: str, windowed: bool) -> str:
    """Conjuncts that connect every side with an earlier one, and some more, in any order."""
    conjuncts = []
    for number in range(1, len(names)):
        pair = [names[draw(st.integers(0, number - 1))], names[number]]
        if number > 1 and draw(st.integers(0, 9)) == 0:
            conjuncts.append(draw(st.sampled_from(OF_THREE)).format(names[0], names[1], names[number]))
        else:
            conjuncts.append(draw(between).format(*draw(st.permutations(pair))))
    for _ in range(draw(st.integers(0, 3))):
        sides = draw(st.permutations(names))
        more = [between, between, between, st.sampled_from(OF_THREE), st.sampled_from(OF_ONE)]
        conjuncts.append(draw(st.one_of(*more, *[st.sampled_from(OF_A_WINDOW)] * windowed)).format(*sides))
    return " AND ".join(f"({c})" for c in draw(st.permutations(conjuncts)))


def tables(names: str, values: dict[str, tuple[pa.DataType, list[Any]]], most: int) -> Any:
    """Small tables of every side. One value in nine or so is NULL, and most others are the same."""
    columns = [st.sampled_from([*v[:1], None, *v]) for _, v in values.values()]
    rows = st.integers(most // 2, most).flatmap(lambda n: st.lists(st.tuples(*columns), min_size=n, max_size=n))
    schema = pa.schema([("id", pa.int64()), *((name, type_) for name, (type_, _) in values.items())])

    def table(drawn: list[tuple[Any, ...]]) -> pa.Table:
        arrays = [pa.array([row[i] for row in drawn], type_) for i, (type_, _) in enumerate(values.values())]
        return pa.Table.from_arrays([pa.array(range(len(drawn)), pa.int64()), *arrays], schema=schema)

    return st.fixed_dictionaries({name: rows.map(table) for name in names})


TIMES = st.sampled_from([None, "t", "t", "part"])
WINDOWS = st.sampled_from([None, None, None, tumbling(2), sliding(3, 1), sliding(3, 2)])


def compare(names: str, on: str, data: Any, options: Any) -> int:
    """The parts give what the whole gives; how many results there are."""
    select = [f"{name}.id AS {name}" for name in names]
    select.append("window.start AS w" if options.get("window") else "NULL AS w")
    spec = build_spec({name: data[name].schema for name in names}, on, select=select, time_zone="UTC", **options)
    found = results(spec, data)
    assert found == brute_force(spec, data)
    return found.total()


@pytest.mark.parametrize(("names", "most"), [("rst", 6), ("rstu", 4)])
def test_the_parts_mean_the_whole(names: str, most: int) -> None:
    """Random conjuncts over two sides, three, one and the window; types that meet; NULLs, NaN and big numbers."""

    @settings(max_examples=examples(200), deadline=None)
    @given(tables(names, VALUES, most), TIMES, WINDOWS, st.data())
    def check(data: Any, event_time: str | None, window: Any, more: Any) -> None:
        on = more.draw(conditions(names, window is not None))
        part = dict.fromkeys(names[1:], "t")
        options: dict[str, Any] = {"event_time": part if event_time == "part" else event_time}
        if window is not None:
            options = {"event_time": "t", "window": window}
        compare(names, on, data, options)

    check()


EQUALITIES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "a": (pa.int32(), [0, None]),
    "b": (pa.int64(), [0, *BIG]),
    "x": (pa.float64(), [0.0, float(2**53)]),
    "t": (pa.int64(), [0, 0, 1]),
}
equality = st.builds(
    "{{0}}.{} {} {{1}}.{}".format,
    st.sampled_from(["a", "b", "b", "x"]),
    st.sampled_from(["=", "=", "<=>"]),
    st.sampled_from(["a", "b", "b", "x"]),
)


@settings(max_examples=examples(200), deadline=None)
@given(
    tables("rst", EQUALITIES, 6),
    st.lists(equality, min_size=2, max_size=4),
    st.sampled_from([None, "r.t + r.t = s.t + s.t + 1", "r.t = s.t", "t.t = s.t + 1"]),
    st.sampled_from([None, "t"]),
    st.data(),
)
def test_equalities_mean_what_they_say(data: Any, drawn: Any, more: str | None, event_time: Any, pairs: Any) -> None:
    """Classes of three types, with NULLs, and numbers that are different and equal as doubles."""
    chosen = ["rs", "st", *(pairs.draw(st.sampled_from(["rs", "st", "rt", "ts"])) for _ in drawn[2:])]
    on = [text.format(*pair) for text, pair in zip(drawn, chosen, strict=True)]
    compare("rst", " AND ".join([*on, *([more] if more else [])]), data, {"event_time": event_time})


def test_numbers_that_differ_and_are_equal_as_doubles() -> None:
    """r.b = s.b is checked although the code of all three is that of a double."""
    schema = pa.schema([("id", pa.int64()), ("b", pa.int64()), ("x", pa.float64())])
    table = pa.table({"id": [0, 1], "b": BIG, "x": [float(2**53), 0.0]}, schema=schema)
    assert compare("rst", "r.b = s.b AND s.b = t.x", dict.fromkeys("rst", table), {}) == 2


@pytest.mark.parametrize("window", [None, sliding(3, 1)])
def test_brute_force_may_take_a_few_combinations_at_a_time(window: Any, monkeypatch: Any) -> None:
    """The oracle's answer does not depend on how the cross product is cut."""
    table = pa.table({"id": [0, 1, 2], "a": [0, 1, 1], "t": [0, 1, None]})
    spec = build_spec(dict.fromkeys("rst", table.schema), "r.a = s.a AND s.a <= t.a", event_time="t", window=window)
    whole = brute_force(spec, dict.fromkeys("rst", table))
    monkeypatch.setattr("evenjoin.testing._CHUNK", 4)
    assert brute_force(spec, dict.fromkeys("rst", table)) == whole
    assert whole.total() == (1 * 3 + 4 * 2 if window is None else 3 + 2 + 3)


SECOND = dt.datetime(2024, 2, 28, 23, 59, 59)
MOMENTS = [SECOND + dt.timedelta(seconds=n, microseconds=m) for n, m in ((0, 0), (0, 1), (1, 0), (1, 1))]
NANOS = [pa.scalar(m, pa.timestamp("ns")).value + n for m in MOMENTS for n in (0, 1, 999)]
TEMPORAL: dict[str, tuple[pa.DataType, list[Any]]] = {
    "a": (pa.int32(), [0, 0, 1]),
    "us": (pa.timestamp("us", "UTC"), MOMENTS),
    "ms": (pa.timestamp("ms"), MOMENTS[::2]),
    "ns": (pa.timestamp("ns", "Asia/Tokyo"), NANOS),
    "day": (pa.date32(), [dt.date(2024, 2, 28), dt.date(2024, 2, 29)]),
}
shift = st.sampled_from(["", "", " + INTERVAL 1 SECOND", " - INTERVAL 1 DAY"])
IN_TIME = [
    st.builds("{{0}}.{{2}} {} {{1}}.{{3}}{}".format, st.sampled_from(["=", "<", "<=", ">", "<>"]), shift),
    st.builds("{{0}}.{{2}} {} {{1}}.{{2}}".format, st.sampled_from(["=", "<=>"])),
    st.builds("abs({{0}}.{{2}} - {{1}}.{{3}}) <= INTERVAL {} SECONDS".format, st.sampled_from([0, 1, 7200])),
    st.builds("{{0}}.{{2}} - {{1}}.{{3}} = INTERVAL {} SECONDS".format, st.sampled_from([0, 0, 1])),
    st.just("{0}.a = {1}.a"),
]
columns = st.sampled_from(["us", "ms", "ns", "ns", "day"])


@settings(max_examples=examples(200), deadline=None)
@given(
    tables("rst", TEMPORAL, 6),
    st.lists(st.one_of(*IN_TIME), min_size=2, max_size=5),
    st.tuples(columns, columns).map(sorted),
    st.sampled_from(["first", "last", "none", "part"]),
    st.data(),
)
def test_the_parts_mean_the_whole_in_time(data: Any, drawn: Any, used: Any, timed: str, pairs: Any) -> None:
    """The same for timestamps of mixed units and zones, and dates: as keys, ranges and event times."""
    more = st.sampled_from(["rs", "st", "rt"])
    chosen = ["rs", "st", *(pairs.draw(more) for _ in drawn[2:])]
    on = [text.format(*pairs.draw(st.permutations(pair)), *used) for text, pair in zip(drawn, chosen, strict=True)]
    event_time = {"first": used[0], "last": used[1], "none": None, "part": {"r": used[0], "t": used[1]}}[timed]
    compare("rst", " AND ".join(on), data, {"event_time": event_time})
