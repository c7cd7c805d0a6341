"""Samples: weights are kept, heavy codes stay, ranks move little."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.kernels.content import content
from evenjoin.load.report import LoadReport
from evenjoin.load.samples import Grain, Picked, Slice, coarsened, merge_samples, scaled, whole
from thorough import examples

points = st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats(0.5, 100)), max_size=40).map(tuple)


@settings(max_examples=examples(100), deadline=None)
@given(points, points, st.integers(1, 20))
def test_merging_keeps_the_weight_and_the_order(old, new, limit):
    """Codes ascend and were there before, there are at most `limit`, and the weights add up to both."""
    merged = merge_samples(old, new, limit)
    assert len(merged) <= limit
    assert all(a < b for (a, _), (b, _) in pairwise(merged))
    assert {code for code, _ in merged} <= {code for code, _ in (*old, *new)}
    assert sum(w for _, w in merged) == pytest.approx(sum(w for _, w in (*old, *new)))
    assert all(w > 0 for _, w in merged)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=300), st.integers(2, 40))
def test_ranks_move_by_less_than_a_part(codes, limit):
    """The tuples up to any code differ from the truth by at most one part in `limit` and the code's own weight."""
    merged = merge_samples((), tuple((code, 1.0) for code in codes), limit)
    mine, theirs = np.sort(codes), np.array([code for code, _ in merged])
    for code, _ in merged:
        below = sum(w for c, w in merged if c < code)
        assert np.searchsorted(mine, code) - len(codes) / limit - 1 <= below
        assert below <= np.searchsorted(mine, code, "right") + len(codes) / limit + 1
    heavy = [c for c in set(codes) if codes.count(c) > 2 * len(codes) / limit]
    assert set(heavy) <= set(theirs.tolist())


def test_the_same_code_is_one_point():
    """Literals: equal codes add up; neighbours become the heavier of them."""
    assert merge_samples(((1, 2.0), (5, 1.0)), ((5, 3.0),)) == ((1, 2.0), (5, 4.0))
    assert merge_samples(((1, 1.0), (2, 3.0)), ((8, 2.0), (9, 2.0)), 2) == ((2, 4.0), (8, 4.0))


def test_scaling_to_what_is_alive():
    """Expired tuples take weight from every point; nothing alive is no point."""
    assert scaled(((1, 2.0), (5, 6.0)), 4) == ((1, 1.0), (5, 3.0))
    assert scaled(((1, 2.0),), 0) == scaled((), 9) == ()


def test_a_report_keeps_its_samples():
    """Through JSON text; a report of an older checkpoint has none."""
    report = LoadReport(3, (), (), (), (), samples=(((-(2**63), 1.5), (7, 2.0)), ()))
    data = json.loads(json.dumps(report.to_json()))
    assert LoadReport.from_json(data) == report
    del data["samples"]
    assert LoadReport.from_json(data).samples == ()


def test_points_have_the_codes_of_a_tuple_by_all_its_indexes():
    """They stay together when samples are merged and scaled, and in JSON; points differ if any of their codes does."""
    one, two = ((1, 2.0, 7), (1, 1.0, 8)), ((1, 3.0, 7), (0, 1.0, 9))
    merged = merge_samples(one, two)
    assert merged == ((0, 1.0, 9), (1, 5.0, 7), (1, 1.0, 8))
    assert scaled(merged, 14) == ((0, 2.0, 9), (1, 10.0, 7), (1, 2.0, 8))
    report = LoadReport(3, (), (), (), (), samples=(merged, ()))
    assert LoadReport.from_json(json.loads(json.dumps(report.to_json()))).samples == report.samples
    many = tuple((code, 1.0, -code) for code in range(1000))
    few = merge_samples(many, (), 100)
    assert len(few) == 100
    assert all(more == -code for code, _, more in few)
    assert sum(weight for _, weight, _ in few) == pytest.approx(1000)


def test_a_task_samples_whole_tuples():
    """In whatever order they come."""
    rng = np.random.default_rng(0)
    ids, codes = rng.integers(0, 2**63, 5000).astype(np.uint64), rng.integers(-9, 9, 5000)
    found = []
    for order in (np.arange(5000), rng.permutation(5000)):
        picked = Picked(Grain(64, 64), most=512)
        for part in np.array_split(order, 3):
            picked.add(ids[part], codes[part], (codes[part] * 2, codes[part] + 1))
        found.append(picked.slices())
    assert found[0] == found[1]
    ((number, until, points),) = found[0]
    assert (number, until) == (0, None)
    assert all((two, three) == (2 * code, code + 1) for code, _, two, three in points)


def test_round_robin_sensors_all_have_points():
    """64 sensors take turns; a stride of 64 would see one of them. Each has a point of about its weight, however few
    tuples are picked."""
    sensors = np.arange(64_000) % 64
    picked = Picked(Grain(), most=4096)
    for rows in np.array_split(np.arange(64_000), 7):
        picked.add(content([pa.array(rows), pa.array(sensors[rows])], 1), sensors[rows])
    ((_, _, points),) = picked.slices()
    assert [code for code, _ in points] == list(range(64))
    assert all(500 < weight < 1600 for _, weight in points)


def test_a_row_that_is_sent_often_does_not_crowd_out_the_others():
    """Equal ids are equal rows. 900 of 1,000 tuples are one row with the smallest id."""
    ids = np.concatenate([np.zeros(900, np.uint64), np.arange(1, 101, dtype=np.uint64)])
    picked = Picked(Grain(), most=50)
    for part in np.array_split(np.arange(1000), 4):
        picked.add(ids[part], np.where(ids[part] == 0, 7, ids[part].astype(np.int64) + 100))
    ((_, _, points),) = picked.slices()
    assert len(points) == 50
    assert points[0][0] == 7
    assert sum(weight for _, weight in points) == pytest.approx(1000)


def test_sub_windows_have_points_of_their_own():
    """Width 10: times 0 .. 9 and 10 .. 14. The totals are exact, and `until` is the latest time of each."""
    picked = Picked(Grain(8, 8), width=10)
    times = np.repeat(np.arange(15), 20)
    picked.add(np.arange(300, dtype=np.uint64), times * 3, times=times)
    (first, second) = picked.slices()
    assert (first.number, first.until, first.weight) == (0, 9, pytest.approx(200))
    assert (second.number, second.until, second.weight) == (1, 14, pytest.approx(100))
    assert max(code for code, _ in first.points) < 30 <= min(code for code, _ in second.points)


def test_points_grow_with_the_tuples():
    """A grain of 10 tuples a point, between 256 and 1,000 points."""
    grain = Grain(256, 1000, 10.0)
    assert [grain.points(total) for total in (0, 2560, 5000, 10_000, 99_999)] == [256, 256, 500, 1000, 1000]
    slices = (
        Slice(0, 5, tuple((code, 1.0) for code in range(4000))),
        Slice(1, 9, tuple((c, 1.0) for c in range(1000))),
    )
    assert [len(one.points) for one in coarsened(slices, grain)] == [400, 100]
    assert len(whole(coarsened(slices, grain))) <= 500
