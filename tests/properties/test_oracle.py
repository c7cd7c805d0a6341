"""The oracle is right: DuckDB's join of n sides gives the rows that loops over all combinations give."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import rows

from cases.harness import CASES
from oracle import Windows, answer, in_duckdb
from thorough import examples


def near(a, b, most):
    """abs(a - b) <= most, and NULL is no answer."""
    return a is not None and b is not None and abs(a - b) <= most


def equal(*values):
    return None not in values and len(set(values)) == 1


JOINS = {
    "r.k = s.k AND s.k = t.k": lambda r, s, t: equal(r["k"], s["k"], t["k"]),
    "r.k = s.k AND s.name = t.name": lambda r, s, t: equal(r["k"], s["k"]) and equal(s["name"], t["name"]),
    "r.k = s.k AND s.v = t.v AND t.t = r.t": lambda r, s, t: (
        equal(r["k"], s["k"]) and equal(s["v"], t["v"]) and equal(t["t"], r["t"])
    ),
    "r.k <=> s.k AND s.k <=> t.k": lambda r, s, t: r["k"] == s["k"] == t["k"],
    "abs(r.t - s.t) <= 2 AND abs(s.k - t.k) <= 1": lambda r, s, t: near(r["t"], s["t"], 2) and near(s["k"], t["k"], 1),
    "abs(r.k - s.k) < 2 AND abs(s.v - t.v) < 2 AND abs(r.v - t.k) < 2": lambda r, s, t: (
        near(r["k"], s["k"], 1) and near(s["v"], t["v"], 1) and near(r["v"], t["k"], 1)
    ),
    "r.k = s.k AND s.t BETWEEN r.t - 3 AND r.t AND t.t BETWEEN s.t AND s.t + 2 AND t.v <> r.v": lambda r, s, t: (
        equal(r["k"], s["k"])
        and None not in (r["t"], s["t"], t["t"])
        and r["t"] - 3 <= s["t"] <= r["t"]
        and s["t"] <= t["t"] <= s["t"] + 2
        and t["v"] != r["v"]
    ),
    "r.k + s.k = t.t": lambda r, s, t: None not in (r["k"], s["k"], t["t"]) and r["k"] + s["k"] == t["t"],
    "r.k = s.k AND t.v > 1.5": lambda r, s, t: equal(r["k"], s["k"]) and t["v"] > 1.5,
    "TRUE": lambda r, s, t: True,
}
THREE = st.fixed_dictionaries({alias: rows(7) for alias in "rst"})


@settings(max_examples=examples(25), deadline=None)
@pytest.mark.parametrize("on", JOINS)
@given(data=THREE)
def test_three_sides(on, data):
    """Equal keys, NULLs, ranges, cycles, chains, conditions over three sides, and no condition at all."""
    holds = JOINS[on]
    combinations = product(*(data[alias].to_pylist() for alias in "rst"))
    expected = Counter((r["id"], s["id"], t["id"], t["name"]) for r, s, t in combinations if holds(r, s, t))
    assert answer(data, on, ["r.id AS a", "s.id AS b", "t.id AS c", "t.name"]) == expected


@settings(max_examples=examples(25), deadline=None)
@given(data=st.fixed_dictionaries({alias: rows(5) for alias in "abcd"}))
def test_four_sides(data):
    """A star of three and a fourth that is near to one of them."""
    on = "a.k = b.k AND b.k = c.k AND abs(c.t - d.t) <= 1"
    combinations = product(*(data[alias].to_pylist() for alias in "abcd"))
    expected = Counter(
        (a["id"], b["id"], c["id"], d["id"])
        for a, b, c, d in combinations
        if equal(a["k"], b["k"], c["k"]) and near(c["t"], d["t"], 1)
    )
    assert answer(data, on, [f"{alias}.id AS {alias}" for alias in "abcd"]) == expected


@settings(max_examples=examples(25), deadline=None)
@given(data=THREE, shape=st.sampled_from([(5, 5), (6, 2), (3, 4)]))
def test_windows(data, shape):
    """A combination once for each window that holds all its tuples; of (3, 4) some tuples are in none."""
    size, slide = shape
    expected: Counter = Counter()
    for r, s, t in product(*(data[alias].to_pylist() for alias in "rst")):
        times = (r["t"], s["t"], t["t"])
        if not equal(r["k"], s["k"], t["k"]) or None in times:
            continue
        for start in range(-20 * slide, 20 * slide, slide):
            expected[r["id"], s["id"], t["id"], start] += all(start <= time < start + size for time in times)
    windows = Windows(size, slide, dict.fromkeys("rst", "t"))
    found = answer(data, "r.k = s.k AND s.k = t.k", ["r.id AS a", "s.id AS b", "t.id AS c"], windows)
    assert found == +expected


def test_rows_that_come_twice_count_twice():
    """It is a multiset: two equal tuples on each of three sides are eight results."""
    twice = pa.table({"k": [1, 1, None]})
    assert answer(dict.fromkeys("rst", twice), "r.k = s.k AND s.k = t.k", ["r.k AS k"]) == Counter({(1,): 8})


@pytest.mark.parametrize(
    ("ours", "duckdbs"),
    [
        ("l.k <=> r.k", "l.k IS NOT DISTINCT FROM r.k"),
        ("abs(l.x - r.x) <= 0.1", "abs(l.x - r.x) <= 0.1::DOUBLE"),
        ("l.v1 = 12.50 + r.k2", "l.v1 = 12.50::DOUBLE + r.k2"),
        ("r.ts < l.ts + INTERVAL 500 MILLISECONDS", "r.ts < l.ts + INTERVAL 500 MILLISECONDS"),
    ],
)
def test_our_sql_as_duckdb_reads_it(ours, duckdbs):
    """Literals with a point are doubles, as in Spark's parser they are for us."""
    assert in_duckdb(ours) == duckdbs


INNER = [case for case in CASES if case.get("third") and case["how"] == "inner"]


@pytest.mark.parametrize("case", INNER, ids=lambda case: case["name"])
def test_published_cases(case):
    """Flink's and Materialize's own expectations of three-way inner joins."""
    data = {alias: pa.Table.from_pylist(case[side]) for alias, side in (("l", "left"), ("r", "right"), ("t", "third"))}
    assert answer(data, case["condition"], case["select"]) == Counter(map(tuple, case["expected"]))
