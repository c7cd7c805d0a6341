"""Paths of more than one step: three sides on one instance, against three loops over all rows."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from alone import Alone, one_region
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.instance.programs import direct
from evenjoin.spec import build_spec
from thorough import examples

NUMBERS = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("v", pa.int64()), ("odd", pa.bool_())])
NAMES = pa.schema([("k", pa.string()), ("t", pa.int64()), ("v", pa.int64()), ("odd", pa.bool_())])


def three_sides(a_b, b_c, a_c=None, schema=NUMBERS):
    """A join of a, b and c: the conditions of each two of them together."""
    on = " AND ".join(one for one in (a_b, b_c, a_c) if one is not None)
    sides = dict.fromkeys("abc", schema)
    return build_spec(sides, on, event_time="t", select=["a.v AS a", "b.v AS b", "c.v AS c"])


def equal(one, two):
    return one["k"] == two["k"]


def soon(one, two):
    return one["k"] == two["k"] and 0 <= two["t"] - one["t"] <= 4


def odd(one, two):
    return one["k"] == two["k"] and one["odd"] != two["odd"]


def beyond(one, two):
    return one["k"] <= two["k"] <= one["k"] + 1


SQL = {
    equal: "{0}.k = {1}.k",
    soon: "{0}.k = {1}.k AND {1}.t BETWEEN {0}.t AND {0}.t + 4",
    odd: "{0}.k = {1}.k AND {0}.odd <> {1}.odd",
    beyond: "{1}.k BETWEEN {0}.k AND {0}.k + 1",
}
rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=5)


@settings(max_examples=examples(150), deadline=None)
@given(
    st.sampled_from(
        [(soon, soon, None), (equal, odd, soon), (equal, soon, odd), (odd, equal, equal), (soon, odd, None)]
    ),
    st.sampled_from([NUMBERS, NAMES]),
    st.lists(st.tuples(rows, rows, rows), min_size=1, max_size=3),
    st.integers(1, 9),
)
def test_three_sides_give_the_triples_of_the_whole(edges, schema, batches, limit):
    """Equalities, time bounds and residuals, as a chain or with every pair connected; exact and hashed keys; every
    triple once, whatever the batches and the limit."""
    check(edges, schema, batches, limit)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(rows, rows, rows), min_size=1, max_size=3), st.integers(1, 9))
def test_bands_are_followed_and_checked(batches, limit):
    """A range drives one step, and is checked row by row where both of its sides are found already."""
    check((beyond, beyond, beyond), NUMBERS, batches, limit)


def check(edges, schema, batches, limit):
    texts = [None if e is None else SQL[e].format(*pair) for e, pair in zip(edges, ("ab", "bc", "ac"), strict=True)]
    alone = Alone(three_sides(*texts, schema=schema), one_region(sides=3))
    every, found, number = {alias: [] for alias in "abc"}, Counter(), 0
    for batch in batches:
        data = {alias: [] for alias in "abc"}
        for alias, drawn in zip("abc", batch, strict=True):
            for k, t in drawn:
                number += 1
                data[alias].append(
                    {"k": f"key {k}" if schema is NAMES else k, "t": t, "v": number, "odd": number % 2 == 1}
                )
        results, receipt = alone.batch(data, pair_limit=limit)
        assert sum(receipt.results) == len(results)
        found.update(results)
        for alias in "abc":
            every[alias] += data[alias]
    a_b, b_c, a_c = edges
    wanted = Counter(
        (a["v"], b["v"], c["v"])
        for a in every["a"]
        for b in every["b"]
        for c in every["c"]
        if a_b(a, b) and b_c(b, c) and (a_c is None or a_c(a, c))
    )
    assert found == wanted


def test_chunks_are_bounded_at_every_depth():
    """27,000 triples of one key, at most 100 at a time."""
    alone = Alone(three_sides("a.k = b.k", "b.k = c.k"), one_region(sides=3))
    data = {alias: [{"k": 1, "t": 0, "v": v} for v in range(30)] for alias in "abc"}
    sizes = [batch.num_rows for batch in alone.stream(data, pair_limit=100)]
    assert (sum(sizes), max(sizes) <= 100) == (27_000, True)


def test_pairs_are_counted_for_the_tuples_that_began_the_path():
    """What the newest tuple found, at each of its steps, is its own load: three b, and with each of them two a."""
    alone = Alone(three_sides("a.k = b.k", "b.k = c.k"), one_region(sides=3))
    alone.batch({"a": [{"k": 1, "t": 0, "v": 1}] * 2, "b": [{"k": 1, "t": 0, "v": 2}] * 3})
    results, receipt = alone.batch({"c": [{"k": 1, "t": 0, "v": 3}, {"k": 2, "t": 0, "v": 4}]})
    assert len(results) == 6
    assert direct(alone.spec).paths[2].steps[-1].store == 1
    assert receipt.results == (0, 6, 0)
    assert {key.name: key.results for key in receipt.heavy} == {"1": (2, 6, 0), "2": (0, 0, 0)}
    assert {side: results for side, _, _, _, results in receipt.cells} == {0: 2, 1: 6, 2: 0}


def test_pairs_that_become_no_result_are_load():
    """Key 1 is hot on a and b, and c never has it: 40 pairs and no result."""
    alone = Alone(three_sides("a.k = b.k", "b.k = c.k"), one_region(sides=3))
    alone.batch({"a": [{"k": 1, "t": 0, "v": 1}] * 5})
    results, receipt = alone.batch({"b": [{"k": 1, "t": 0, "v": 2}] * 8})
    assert (results, receipt.results) == ([], (0, 0, 0))
    assert [key.results for key in receipt.heavy] == [(40, 0, 0)]


def test_a_side_that_has_nothing_ends_the_path():
    """No b at all: no triple, and no error."""
    alone = Alone(three_sides("a.k = b.k", "b.k = c.k"), one_region(sides=3))
    assert alone.batch({"a": [{"k": 1, "t": 0, "v": 1}], "c": [{"k": 1, "t": 0, "v": 1}]})[0] == []


@pytest.mark.parametrize("late", ["a", "b", "c"])
def test_each_side_may_come_last(late):
    """The last one finds the others, wherever they are stored."""
    alone = Alone(three_sides("a.k = b.k", "b.k = c.k", "a.k = c.k"), one_region(sides=3))
    one = {alias: [{"k": 5, "t": 0, "v": n}] for n, alias in enumerate("abc")}
    assert alone.batch({alias: rows for alias, rows in one.items() if alias != late})[0] == []
    assert alone.batch({late: one[late]})[0] == [(0, 1, 2)]
