"""Samples: weights are kept, heavy codes stay, ranks move little."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.load.report import LoadReport
from evenjoin.load.samples import Smallest, merge_samples, scaled

points = st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats(0.5, 100)), max_size=40).map(tuple)


@settings(max_examples=100, deadline=None)
@given(points, points, st.integers(1, 20))
def test_merging_keeps_the_weight_and_the_order(old, new, limit):
    """Codes ascend and were there before, there are at most `limit`, and the weights add up to both."""
    merged = merge_samples(old, new, limit)
    assert len(merged) <= limit
    assert all(a < b for (a, _), (b, _) in pairwise(merged))
    assert {code for code, _ in merged} <= {code for code, _ in (*old, *new)}
    assert sum(w for _, w in merged) == pytest.approx(sum(w for _, w in (*old, *new)))
    assert all(w > 0 for _, w in merged)


@settings(max_examples=60, deadline=None)
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
        sample = Smallest(64)
        for part in np.array_split(order, 3):
            sample.add(ids[part], codes[part], (codes[part] * 2, codes[part] + 1))
        found.append(sample.sample())
    assert found[0] == found[1]
    assert all((two, three) == (2 * code, code + 1) for code, _, two, three in found[0])
