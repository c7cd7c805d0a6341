"""Content hashes: a function of what rows hold, whatever their order; ids, positions and sums that follow from them."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.kernels.content import Occurrences, content, repeated
from thorough import examples

SOME = {
    pa.int8(): [0, 1, -1],
    pa.int64(): [0, 1, -1, 2**40, 2**63 - 1],
    pa.uint64(): [0, 2**64 - 1],
    pa.bool_(): [False, True],
    pa.float16(): [0.0, 1.5],
    pa.float32(): [0.0, -0.0, 2.5],
    pa.float64(): [0.0, -0.0, 1.0, 2.0, math.inf],
    pa.decimal128(38, 3): [Decimal("0.001"), Decimal("-0.001"), Decimal(10**30)],
    pa.decimal256(60, 0): [Decimal(1), Decimal(10**50)],
    pa.date32(): [dt.date(2026, 1, 1), dt.date(1970, 1, 1)],
    pa.timestamp("us", "UTC"): [dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)],
    pa.duration("ms"): [dt.timedelta(1), dt.timedelta(0)],
    pa.month_day_nano_interval(): [pa.MonthDayNano([1, 2, 3]), pa.MonthDayNano([2, 1, 3])],
    pa.string(): ["", "a", "ab", "b" * 300, "b" * 301, "ä"],
    pa.large_binary(): [b"", b"\0", b"\0\0", b"x" * 1000],
    pa.binary(3): [b"abc", b"abd"],
    pa.binary(16): [b"a" * 16, b"b" * 16],
    pa.dictionary(pa.int32(), pa.string()): ["a", "b"],
    pa.list_(pa.int32()): [[], [1], [1, 2], [2, 1], [None], [0]],
    pa.list_(pa.string()): [["a", ""], ["", "a"], ["a"]],
    pa.list_(pa.int64(), 2): [[1, 2], [2, 1]],
    pa.struct([("a", pa.int32()), ("b", pa.string())]): [
        {"a": 1, "b": "x"},
        {"a": 1, "b": None},
        {"a": None, "b": "x"},
    ],
    pa.map_(pa.string(), pa.int32()): [[("a", 1)], [("a", 2)], [("a", 1), ("b", 2)], []],
}


@pytest.mark.parametrize("type_", list(SOME), ids=str)
def test_values_that_differ_have_different_hashes(type_):
    """Each type, NULL among the values; also from the middle of a longer array, and wherever its nulls lie."""
    values = [*SOME[type_], None]
    array = pa.array([*values, *values, SOME[type_][0]], type_)
    hashes = content([array], 7)
    assert len(set(hashes.tolist())) == len(values)
    assert hashes[: len(values)].tolist() == hashes[len(values) : -1].tolist()
    for start in range(len(values)):
        assert content([array[start:]], 7).tolist() == hashes[start:].tolist()
    assert content([pa.array(SOME[type_], type_)], 7).tolist() == hashes[: len(values) - 1].tolist()


def test_equal_means_equal_in_every_bit():
    """0.0 and -0.0 are equal keys, but not equal contents: a result shows which of them it is."""
    zeros = content([pa.array([0.0, -0.0])], 1)
    assert zeros[0] != zeros[1]
    nans = pa.array(np.array([0x7FF8000000000000, 0x7FF8000000000001], np.uint64).view(np.float64))
    assert len(set(content([nans], 1).tolist())) == 2


def test_a_hash_depends_on_seed_and_column():
    """The same values in another column, or under another seed, have other hashes."""
    one, two = np.array([1, 2, 3]), np.array([4, 5, 6])
    hashes = [content([one, two], 1), content([two, one], 1), content([one, two], 2), content([one], 1)]
    assert len({h for some in hashes for h in some.tolist()}) == 12


def test_multiples_of_large_powers_do_not_collide():
    """Values that differ in their upper bits only, in several columns: the worst for a sum of products."""
    grid = np.arange(200, dtype=np.int64) << 52
    left, right = np.repeat(grid, 200), np.tile(grid, 200)
    assert len(np.unique(content([left, right], 3))) == 40_000
    floats = np.arange(200, dtype=np.float64)
    columns = [pa.array(np.repeat(floats, 200)), pa.array(np.tile(floats, 200))]
    assert len(np.unique(content(columns, 3))) == 40_000


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.integers(0, 60), max_size=80), st.integers(2, 61), st.data())
def test_repeated_hashes_are_found(values, spread, data):
    """Exactly those that are there twice or more, also where many share a place of the table."""
    hashes = np.array([(v % spread) << data.draw(st.sampled_from([0, 32, 58])) for v in values], np.uint64)
    assert repeated(hashes).tolist() == sorted(h for h, n in Counter(hashes.tolist()).items() if n > 1)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", None]), st.sampled_from([0.0, -0.0])), max_size=40
    ),
    st.randoms(use_true_random=False),
    st.lists(st.integers(0, 40), max_size=4),
)
def test_ids_are_those_of_the_multiset_of_rows(rows, random, cuts):
    """In any order, and cut into batches anywhere, the rows of a task have the same ids, as (row, id) pairs."""

    def ids(some, cuts=()):
        numbers = Occurrences()
        found = []
        edges = [0, *sorted(min(cut, len(some)) for cut in cuts), len(some)]
        for start, stop in pairwise(edges):
            part = some[start:stop]
            columns = [np.array([r[0] for r in part], np.int64), pa.array([r[1] for r in part], pa.string()),
                       pa.array([r[2] for r in part], pa.float64())]  # fmt: skip
            found += zip(map(repr, part), numbers.ids(content(columns, 5)).tolist(), strict=True)
        return Counter(found)

    shuffled = random.sample(rows, len(rows))
    assert ids(rows) == ids(shuffled, cuts)
    assert all(n == 1 for n in ids(rows).values())


@pytest.mark.parametrize("columns", [1, 2])
def test_positions_are_even_even_for_one_hot_key(columns):
    """u is uniform when all tuples of a task are equal: a hot key can be split by u alone."""
    u = Occurrences().ids(content([np.full(50_000, 42)] * columns, 0)) >> np.uint64(32)
    for shift in (22, 0):  # by its highest and its lowest ten bits
        counts = np.bincount((u >> np.uint64(shift)) & np.uint64(1023), minlength=1024)
        assert abs(((counts - counts.mean()) ** 2).sum() / counts.mean() - 1023) / math.sqrt(2 * 1023) < 6
