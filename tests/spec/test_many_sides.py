"""The graph of three and four sides: which edges there are, what drives them, and what is left to check."""

from __future__ import annotations

import itertools
import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenjoin.errors import SpecError
from evenjoin.spec import JoinSpec, build_spec, sliding, tumbling
from evenjoin.spec.graph import EVERYTHING
from thorough import examples

SIDE = pa.schema(
    [("k", pa.int64()), ("a", pa.int64()), ("b", pa.int64()), ("i", pa.int32()), ("int", pa.int32()),
     ("x", pa.float64()), ("s", pa.string()), ("t", pa.int64())]
)  # fmt: skip
CASES = {case["name"]: case for case in json.loads((Path(__file__).parents[1] / "cases" / "public.json").read_text())}


def spec(on: Any, sides: str = "rst", **options: Any) -> JoinSpec:
    return build_spec(dict.fromkeys(sides, SIDE), on, **{"select": [f"{s}.k AS {s}" for s in sides], **options})


def drawn(found: JoinSpec) -> dict[str, str]:
    """The edges as text: what each compares, the bounds of its times, and its residual."""
    out = {}
    for edge in found.edges:
        one, two = (found.sides[side] for side in edge.sides)
        mine, theirs = one.indexes[edge.index[0]], two.indexes[edge.index[1]]
        assert (mine.types, mine.null_safe) == (theirs.types, theirs.null_safe)
        parts = [edge.drive, *(f"{a} ~ {b}" for a, b in zip(mine.exprs, theirs.exprs, strict=True))]
        parts += [f"band {edge.band.low}..{edge.band.high}"] if edge.band else []
        parts += [f"time {edge.low}..{edge.high}"] if edge.bounded else []
        parts += [f"if {edge.residual}"] if edge.residual is not None else []
        out[f"{one.alias}-{two.alias}"] = ", ".join(parts)
    return out


def indexes(found: JoinSpec) -> dict[str, list[str]]:
    return {s.alias: [", ".join(map(str, index.exprs)) for index in s.indexes] for s in found.sides}


ALL_EQUAL = {"r-s": "equal, r.k ~ s.k", "r-t": "equal, r.k ~ t.k", "s-t": "equal, s.k ~ t.k"}


@pytest.mark.parametrize(
    "on", ["r.k = s.k AND s.k = t.k", "r.k = s.k AND t.k = r.k", "r.k = s.k AND s.k = t.k AND r.k = t.k", "k", ["k"]]
)
def test_a_common_key_is_index_0_of_every_side(on: Any) -> None:
    """However it is written: every two sides have an edge, also those that no conjunct names together."""
    found = spec(on)
    assert drawn(found) == ALL_EQUAL
    assert indexes(found) == {"r": ["r.k"], "s": ["s.k"], "t": ["t.k"]}
    assert (found.equal_codes, found.reach, found.residual) == (True, (0, 0), None)
    assert pickle.loads(pickle.dumps(found)) == found
    assert found.between(2, 0) == found.between(0, 2) == found.edges[1]
    assert found.between(1, 1) is None


def test_a_composite_common_key_has_every_class_that_covers_all_sides() -> None:
    """Equalities of single pairs are checked on top of it."""
    found = spec("r.k = s.k AND r.a = s.a AND r.b = s.b AND s.k = t.k AND s.a = t.a")
    assert indexes(found) == {alias: [f"{alias}.k, {alias}.a"] for alias in "rst"}
    assert drawn(found)["r-s"] == "equal, r.k ~ s.k, r.a ~ s.a, if r.b = s.b"
    assert drawn(found)["r-t"] == "equal, r.k ~ t.k, r.a ~ t.a"
    assert drawn(spec(["k", "a"])) == drawn(spec("r.k = s.k AND s.k = t.k AND r.a = s.a AND s.a = t.a"))


GRAPHS = {
    "a chain with two keys": (
        "r.a = s.a AND s.b = t.b",
        {"r-s": "equal, r.a ~ s.a", "s-t": "equal, s.b ~ t.b"},
        {"r": ["r.a"], "s": ["s.a", "s.b"], "t": ["t.b"]},
    ),
    "a triangle": (
        "r.b = s.a AND s.b = t.a AND t.b = r.a",
        {"r-s": "equal, r.b ~ s.a", "r-t": "equal, r.a ~ t.b", "s-t": "equal, s.b ~ t.a"},
        {"r": ["r.b", "r.a"], "s": ["s.a", "s.b"], "t": ["t.b", "t.a"]},
    ),
    "the TriJoin paper's cyclic join": (
        "abs(r.i - s.i) < 5 AND abs(s.int - t.int) < 5 AND abs(r.int - t.i) < 5",
        {"r-s": "band, r.i ~ s.i, band -4..4", "r-t": "band, r.int ~ t.i, band -4..4",
         "s-t": "band, s.int ~ t.int, band -4..4"},
        {"r": ["r.i", "r.int"], "s": ["s.i", "s.int"], "t": ["t.i", "t.int"]},
    ),
    "the TriJoin paper's chain": (
        "abs(r.i - s.i) <= 5 AND abs(s.int - t.int) <= 5",
        {"r-s": "band, r.i ~ s.i, band -5..5", "s-t": "band, s.int ~ t.int, band -5..5"},
        {"r": ["r.i"], "s": ["s.i", "s.int"], "t": ["t.int"]},
    ),
    "a band shares the index of another": (
        "abs(r.a - s.a) <= 1 AND abs(r.a - t.a) <= 2",
        {"r-s": "band, r.a ~ s.a, band -1..1", "r-t": "band, r.a ~ t.a, band -2..2"},
        {"r": ["r.a"], "s": ["s.a"], "t": ["t.a"]},
    ),
    "an equality, a band and a difference": (
        "r.v = 1 AND s.a <> t.a AND abs(r.b - t.b) <= 3 AND r.k = s.k AND r.b < s.b".replace("r.v", "r.i"),
        {"r-s": "equal, r.k ~ s.k, if r.b < s.b", "r-t": "band, r.b ~ t.b, band -3..3", "s-t": "none, if s.a <> t.a"},
        {"r": ["r.k", "r.b"], "s": ["s.k", ""], "t": ["t.b", ""]},
    ),
    "an equality comes before a band, which comes first in the text": (
        "abs(r.b - s.b) <= 3 AND r.k = t.k",
        {"r-s": "band, r.b ~ s.b, band -3..3", "r-t": "equal, r.k ~ t.k"},
        {"r": ["r.k", "r.b"], "s": ["s.b"], "t": ["t.k"]},
    ),
    "a residual over three sides": (
        "r.k = s.k AND r.a + s.b = t.a",
        {"r-s": "equal, r.k ~ s.k", "r-t": "none"},
        {"r": ["r.k", ""], "s": ["s.k"], "t": [""]},
    ),
    "nothing but a residual over three sides": (
        "r.a + s.b = t.a",
        {"r-s": "none", "r-t": "none"},
        {"r": [""], "s": [""], "t": [""]},
    ),
    "moved terms are equal modulo 2**64 and are checked again": (
        "r.a + s.a = 5 AND s.b = t.b",
        {"r-s": "equal, wrap_add(wrap_negate(time(r.a)), 5L) ~ time(s.a), if (r.a + s.a) = 5",
         "s-t": "equal, s.b ~ t.b"},
        {"r": ["wrap_add(wrap_negate(time(r.a)), 5L)"], "s": ["time(s.a)", "s.b"], "t": ["t.b"]},
    ),
    "two expressions of one side in a class": (
        "r.a = s.k AND r.b = s.k AND r.a = t.k",
        {"r-s": "equal, r.a ~ s.k, if r.b = s.k", "r-t": "equal, r.a ~ t.k", "s-t": "equal, s.k ~ t.k"},
        {"r": ["r.a"], "s": ["s.k"], "t": ["t.k"]},
    ),
    "a class closes over the second expression of a side": (
        "r.a = s.k AND s.k = t.k AND r.b = t.k",
        {"r-s": "equal, r.a ~ s.k", "r-t": "equal, r.a ~ t.k, if r.b = t.k", "s-t": "equal, s.k ~ t.k"},
        {"r": ["r.a"], "s": ["s.k"], "t": ["t.k"]},
    ),
    "two columns of one side are two classes": (
        "r.a = s.k AND r.b = t.k",
        {"r-s": "equal, r.a ~ s.k", "r-t": "equal, r.b ~ t.k"},
        {"r": ["r.a", "r.b"], "s": ["s.k"], "t": ["t.k"]},
    ),
    "never true": (
        "r.k = s.k AND s.k = t.k AND 1 = 2", ALL_EQUAL, {"r": ["r.k"], "s": ["s.k"], "t": ["t.k"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("on", "edges", "sorted_by"), GRAPHS.values(), ids=GRAPHS)
def test_the_graph_of(on: str, edges: dict[str, str], sorted_by: dict[str, list[str]]) -> None:
    """Edges and indexes of typical joins; an index without expressions is the last."""
    found = spec(on)
    assert drawn(found) == edges
    assert indexes(found) == sorted_by
    common = len(edges) == 3 and all(text.startswith("equal") for text in edges.values()) and len(sorted_by["r"]) == 1
    assert found.reach == ((0, 0) if found.equal_codes else (None, None))
    assert found.equal_codes == common
    assert found.ordered_codes == any("band" in text for text in edges.values())


def test_what_reads_three_sides_is_checked_at_the_end() -> None:
    """Its columns are carried to there, and the sides it names are connected."""
    found = spec("r.k = s.k AND r.a + s.b = t.a", select=["r.k"])
    assert str(found.residual) == "(r.a + s.b) = t.a"
    assert [side.payload for side in found.sides] == [("k", "a"), ("b",), ("a",)]
    assert [side.columns for side in found.sides] == [("k", "a"), ("k", "b"), ("a",)]
    assert (found.equal_codes, found.reach, found.ordered_codes) == (False, (None, None), False)
    assert all(side.indexes[index] == EVERYTHING for side, index in ((found.sides[0], 1), (found.sides[2], 0)))


def test_four_sides_star_and_parts() -> None:
    """A star has a common key only if its rays meet in one column; two pairs are connected by an edge that says
    nothing."""
    star = spec("r.a = s.a AND r.b = t.b AND r.k = u.k", "rstu")
    assert drawn(star) == {"r-s": "equal, r.a ~ s.a", "r-t": "equal, r.b ~ t.b", "r-u": "equal, r.k ~ u.k"}
    assert indexes(star)["r"] == ["r.a", "r.b", "r.k"]
    full = spec("r.k = s.k AND r.k = t.k AND r.k = u.k", "rstu")
    assert (len(full.edges), full.equal_codes) == (6, True)
    part = spec("r.k = s.k AND s.k = t.k AND t.b = u.b AND s.a = t.a", "rstu")
    assert drawn(part) == {
        "r-s": "equal, r.k ~ s.k", "r-t": "equal, r.k ~ t.k", "s-t": "equal, s.k ~ t.k, s.a ~ t.a",
        "t-u": "equal, t.b ~ u.b",
    }  # fmt: skip
    assert indexes(part)["t"] == ["t.k", "t.k, t.a", "t.b"]
    parts = spec("r.k = u.k AND s.k = t.k", "rstu")
    assert drawn(parts) == {"r-s": "none", "r-u": "equal, r.k ~ u.k", "s-t": "equal, s.k ~ t.k"}


def test_a_side_that_no_conjunct_names_with_another_is_refused() -> None:
    """Its rows would be in every result; a filter of its own does not change that."""
    for on in ("r.k = s.k", "r.k = s.k AND t.k > 0", "TRUE"):
        with pytest.raises(SpecError, match=r"says nothing about side '[rt]' and another side"):
            spec(on)
    with pytest.raises(SpecError, match="'t'"):
        spec("r.k = s.k AND t.t > window.start", event_time="t", window=tumbling(5))


def test_types_of_a_class() -> None:
    """The code has the type common to all; what that type cannot tell apart is checked again."""
    types = {"r": pa.int32(), "s": pa.int64(), "t": pa.float64()}
    found = build_spec({a: pa.schema([("k", t)]) for a, t in types.items()}, "r.k = s.k AND s.k = t.k", select="r.k")
    assert {side.index.types for side in found.sides} == {(pa.float64(),)}
    assert [str(edge.residual) for edge in found.edges] == ["r.k = s.k", "None", "None"]
    whole = build_spec({"r": pa.schema([("k", pa.int16())]), "s": pa.schema([("k", pa.int32())]),
                        "t": pa.schema([("k", pa.uint32())])}, "k", select="r.k")  # fmt: skip
    assert {side.index.types for side in whole.sides} == {(pa.int64(),)}
    assert [edge.residual for edge in whole.edges] == [None] * 3
    texts = {"r": pa.string(), "s": pa.large_string(), "t": pa.dictionary(pa.int8(), pa.string())}
    named = build_spec({a: pa.schema([("k", t)]) for a, t in texts.items()}, "k", select="r.k")
    assert ({side.index.types for side in named.sides}, named.equal_codes) == ({(pa.string(),)}, True)


@pytest.mark.parametrize(
    ("r", "s", "t"),
    [
        (pa.decimal128(10, 2), pa.int64(), pa.float64()),
        (pa.timestamp("us"), pa.timestamp("ms"), pa.timestamp("ns")),
    ],
)
def test_classes_that_no_conversion_keeps_equal_stay_apart(r: Any, s: Any, t: Any) -> None:
    """A decimal may equal an integer and differ from it as a double; a microsecond may have no nanosecond."""
    found = build_spec({"r": pa.schema([("k", r)]), "s": pa.schema([("k", s)]), "t": pa.schema([("k", t)])},
                       "r.k = s.k AND s.k = t.k", select="r.k")  # fmt: skip
    assert [edge.sides for edge in found.edges] == [(0, 1), (1, 2)]
    assert [edge.drive for edge in found.edges] == ["equal", "equal"]
    assert (len(found.sides[1].indexes), found.equal_codes) == (2, False)


def test_zones_do_not_matter_to_equality() -> None:
    schemas = {
        a: pa.schema([("k", pa.timestamp("us", z))]) for a, z in (("r", "UTC"), ("s", None), ("t", "Asia/Tokyo"))
    }
    found = build_spec(schemas, "k", select="r.k", time_zone="UTC")
    assert (found.equal_codes, [edge.residual for edge in found.edges]) == (True, [None] * 3)


def test_one_equals_keeps_nulls_out_of_a_class() -> None:
    """A class is null-safe only if all its conjuncts are; what cannot be NULL is declared so."""
    mixed, safe = spec("r.k <=> s.k AND s.k = t.k"), spec("r.k <=> s.k AND s.k <=> t.k")
    assert [side.index.null_safe for side in mixed.sides] == [(False,)] * 3
    assert [side.index.null_safe for side in safe.sides] == [(True,)] * 3
    assert [field.nullable for field in mixed.schema] == [False] * 3
    assert [field.nullable for field in safe.schema] == [True] * 3
    chain = spec("r.a = s.a AND s.b <=> t.b", select=["s.a", "s.b", "r.k"])
    assert [field.nullable for field in chain.schema] == [False, True, True]


TIMED = {"event_time": "t", "watermark": 5}


def test_bounds_of_event_times_close_over_all_sides() -> None:
    """r waits 12 for t although no conjunct says so; edges that are there are tightened, and none is added."""
    on = "r.k = s.k AND s.k = t.k AND s.t BETWEEN r.t AND r.t + 5 AND t.t BETWEEN s.t AND s.t + 7"
    found = spec(on, **TIMED)
    assert drawn(found) == {
        "r-s": "equal, r.k ~ s.k, time 0..5", "r-t": "equal, r.k ~ t.k, time 0..12",
        "s-t": "equal, s.k ~ t.k, time 0..7",
    }  # fmt: skip
    assert [side.horizon for side in found.sides] == [12, 7, 0]
    assert [[found.wait(x, y) for y in range(3) if y != x] for x in range(3)] == [[5, 12], [0, 7], [0, 0]]
    chain = spec(on.replace("r.k = s.k AND s.k = t.k", "r.a = s.a AND s.b = t.b"), **TIMED)
    assert list(drawn(chain)) == ["r-s", "s-t"]
    assert [side.horizon for side in chain.sides] == [12, 7, 0]
    narrow = spec(on + " AND t.t <= r.t + 3", **TIMED)
    assert [(edge.low, edge.high) for edge in narrow.edges] == [(0, 3), (0, 3), (0, 3)]
    assert [str(side.order) for side in narrow.sides] == ["time(r.t)", "time(s.t)", "time(t.t)"]


def test_waiting_needs_a_watermark_of_the_side_waited_for() -> None:
    """And an event time of the one that waits."""
    on = "r.k = s.k AND s.k = t.k AND abs(r.t - s.t) <= 5 AND abs(s.t - t.t) <= 7"
    found = spec(on, event_time="t", watermark={"r": 5, "s": 5})
    assert [side.horizon for side in found.sides] == [None, None, 12]
    assert (found.wait(0, 1), found.wait(0, 2), found.wait(2, 0)) == (5, None, 12)
    assert [side.lateness for side in found.sides] == [0, 0, None]
    assert found.unbounded_sides() == ("r", "s")
    two = spec("r.k = s.k AND s.k = t.k AND abs(r.t - s.t) <= 5", event_time={"r": "t", "s": "t"}, watermark=5)
    assert ([side.horizon for side in two.sides], two.wait(0, 1), two.wait(2, 0)) == ([None] * 3, 5, None)
    assert [side.order is None for side in two.sides] == [False, False, True]
    assert [two.bounded(side) for side in range(3)] == [True, True, False]


def test_times_alone_drive_nothing() -> None:
    """State with one code is sorted by time, so a probe finds the times it needs by themselves."""
    found = spec("r.t <= s.t AND s.t <= t.t AND t.t <= r.t + 9", **TIMED)
    assert drawn(found) == {"r-s": "none, time 0..9", "r-t": "none, time 0..9", "s-t": "none, time 0..9"}
    assert [side.horizon for side in found.sides] == [9, 9, 0]
    assert spec("abs(r.t - s.t) <= 1 AND abs(s.t - t.t) <= 1").ordered_codes, "without event times they are a band"


def test_equal_event_times_are_a_class_and_a_bound() -> None:
    """Where another key is common to all sides, the bound says it all."""
    found = spec("r.t = s.t AND s.k = t.k", **TIMED)
    assert drawn(found) == {"r-s": "equal, r.t ~ s.t, time 0..0", "s-t": "equal, s.k ~ t.k"}
    both = spec("r.k = s.k AND s.k = t.k AND r.t = s.t + 2", **TIMED)
    assert drawn(both) == {**ALL_EQUAL, "r-s": "equal, r.k ~ s.k, time -2..-2"}
    odd = spec("r.k = s.k AND s.k = t.k AND r.t + r.t = s.t + s.t + 1", **TIMED)
    assert "if (r.t + r.t) = ((s.t + s.t) + 1)" in drawn(odd)["r-s"]


def test_nanoseconds_widen_a_bound_and_stay_in_the_residual() -> None:
    schema = pa.schema([("k", pa.int64()), ("t", pa.timestamp("ns"))])
    found = build_spec(dict.fromkeys("rst", schema), "r.k = s.k AND s.k = t.k AND s.t >= r.t AND t.t = s.t",
                       event_time="t", select="r.k")  # fmt: skip
    assert drawn(found) == {
        "r-s": "equal, r.k ~ s.k, time -1..None, if s.t >= r.t", "r-t": "equal, r.k ~ t.k, time -2..None",
        "s-t": "equal, s.k ~ t.k, time -1..1, if t.t = s.t",
    }  # fmt: skip


def test_with_a_window() -> None:
    """Every edge is bounded by 0 .. 0, ranges of the event times are checked, and the window is no key."""
    options = {"event_time": "t", "watermark": {"s": 5}, "window": sliding(10, 5)}
    found = spec("r.k = s.k AND s.a <> t.a AND t.t > s.t AND abs(r.b - t.b) <= 1", **options)
    assert drawn(found) == {
        "r-s": "equal, r.k ~ s.k, time 0..0", "r-t": "band, r.b ~ t.b, band -1..1, time 0..0",
        "s-t": "none, time 0..0, if (s.a <> t.a) AND (t.t > s.t)",
    }  # fmt: skip
    assert [(side.horizon, side.lateness) for side in found.sides] == [(10, 10)] * 3
    assert (found.wait(0, 2), found.wait(2, 0)) == (10, 10)
    late = spec("r.k = s.k AND s.k = t.k AND r.t > window.start AND r.a + s.a > t.a", **options)
    assert drawn(late) == {pair: f"{text}, time 0..0" for pair, text in ALL_EQUAL.items()}
    assert str(late.residual) == "(r.t > window.start) AND ((r.a + s.a) > t.a)"
    assert spec("k", event_time="t", window=tumbling(5)).wait(0, 1) is None


def test_the_default_select_has_a_struct_for_each_side() -> None:
    found = spec("k", select=None)
    assert found.schema.names == ["r", "s", "t"]
    assert [side.columns for side in found.sides] == [tuple(SIDE.names)] * 3
    assert found.fingerprint()["condition"] == "(r.k = s.k) AND (s.k = t.k)"


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.get("third")])
def test_three_way_cases_of_the_peers(name: str) -> None:
    """Inner ones have a spec; others are refused by what they ask for."""
    case = CASES[name]
    schemas = {
        a: pa.Table.from_pylist(case[side]).schema for a, side in zip("lrt", ("left", "right", "third"), strict=True)
    }
    if case["how"] != "inner":
        with pytest.raises(SpecError, match="how="):
            build_spec(schemas, case["condition"], how=case["how"], select=case["select"])
        return
    found = build_spec(schemas, case["condition"], select=[f"{s} AS c{i}" for i, s in enumerate(case["select"])])
    assert found.equal_codes == (name == "flink.three_way.inner")


gap = st.integers(-5, 5)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.integers(3, 4),
    st.dictionaries(st.sampled_from(list(itertools.combinations(range(4), 2))), st.tuples(gap, gap), min_size=1),
    st.sets(st.integers(0, 3)),
    st.sampled_from(["chain", "common"]),
)
def test_waits_are_the_shortest_paths(n: int, bounds: Any, delayed: set[int], keys: str) -> None:
    """d[x][y] by all paths that visit no side twice; each edge has the bounds that follow from all."""
    names = "rstu"[:n]
    bounds = {pair: sorted(ends) for pair, ends in bounds.items() if max(pair) < n}
    steps = {**{(x, y): high for (x, y), (_, high) in bounds.items()},
             **{(y, x): -low for (x, y), (low, _) in bounds.items()}}  # fmt: skip

    def least(x: int, y: int) -> int | None:
        others = [z for z in range(n) if z not in (x, y)]
        paths = [(x, *middle, y) for k in range(n - 1) for middle in itertools.permutations(others, k)]
        lengths = [
            sum(steps[s] for s in itertools.pairwise(p))
            for p in paths
            if all(s in steps for s in itertools.pairwise(p))
        ]
        return min(lengths, default=None)

    cycles = [(x, y) for x, y in itertools.permutations(range(n), 2) if None not in (least(x, y), least(y, x))]
    assume(all(least(x, y) + least(y, x) >= 0 for x, y in cycles))  # type: ignore[operator]
    on = [f"{names[i]}.k = {names[i + 1]}.{'k' if keys == 'common' else 'a'}" for i in range(n - 1)]
    on += [
        f"{names[y]}.t BETWEEN {names[x]}.t + {low} AND {names[x]}.t + {high}" for (x, y), (low, high) in bounds.items()
    ]
    watermark = {names[i]: 3 for i in delayed if i < n}
    found = spec(" AND ".join(on), names, event_time="t", watermark=watermark)
    for x, y in itertools.permutations(range(n), 2):
        assert found.wait(x, y) == (least(x, y) if y in delayed else None)
    for edge in found.edges:
        back = least(*edge.sides[::-1])
        assert (edge.low, edge.high) == (None if back is None else -back, least(*edge.sides))
    for x, side in enumerate(found.sides):
        waits = [found.wait(x, y) for y in range(n) if y != x]
        assert side.horizon == (None if None in waits else max(waits))  # type: ignore[type-var]
