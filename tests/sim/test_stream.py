"""Streams are functions of their seed, noisy, and drift or grow as they say."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from evenjoin.bench.catalog import workload
from evenjoin.bench.join_workload import Size
from evenjoin.errors import SpecError
from evenjoin.sim import Scenario, Simulation, Stream
from evenjoin.sim.recorded import recorded, recorded_workload


def totals(stream, side):
    return [sum(one.tuples for one in stream.arrivals(batch)[side]) for batch in range(stream.batches)]


def test_the_same_seed_gives_the_same_arrivals_and_another_one_others():
    """Whatever batch is asked for first."""
    stream = Stream(keys=50, rows=(100, 200), batches=3)
    again = [stream.arrivals(batch) for batch in (2, 1, 0)][::-1]
    for batch in range(3):
        for one, other in zip(stream.arrivals(batch), again[batch], strict=True):
            assert np.array_equal(one[0].codes, other[0].codes)
            assert np.array_equal(one[0].counts, other[0].counts)
    assert not set(stream.arrivals(0)[0][0].codes) & set(Stream(keys=50, seed=2).arrivals(0)[0][0].codes)


def test_rates_may_differ_and_batches_are_noisy():
    """Tracks to orders are 430 : 1."""
    stream = Stream(keys=1000, rows=(43_000, 100), batches=6)
    assert np.mean(totals(stream, 0)) == pytest.approx(43_000, rel=0.02)
    assert np.mean(totals(stream, 1)) == pytest.approx(100, rel=0.2)
    assert len(set(totals(stream, 0))) > 1


def test_a_growing_stream_grows():
    """By its factor, from batch to batch."""
    many = totals(Stream(keys=100, rows=(10_000, 10), mode="growing", growth=1.5, batches=4), 0)
    assert [b / a for a, b in pairwise(many)] == pytest.approx([1.5] * 3, rel=0.05)


def test_hot_keys_change_at_a_drift_and_only_there():
    """Every `every` batches the hottest keys are others; the law stays."""
    stream = Stream(keys=1000, zipf=(1.0, 1.0), mode="drifting", every=3, hot=0.05)
    laws = [stream.weights(0, batch) for batch in range(6)]
    hot = [set(np.argsort(-law)[:20].tolist()) for law in laws]
    assert hot[0] == hot[2]
    assert not hot[2] & hot[3]
    assert np.array_equal(np.sort(laws[0]), np.sort(laws[5]))


def test_sides_share_the_order_of_keys_or_have_their_own():
    """A key hot on both sides is what makes a join hard."""
    for order, same in (("shared", True), ("own", False)):
        stream = Stream(keys=1000, order=order)
        assert (stream.weights(0, 0).argmax() == stream.weights(1, 0).argmax()) == same


def test_what_makes_no_stream_is_refused():
    """With the setting that is wrong."""
    with pytest.raises(SpecError, match="keys=0"):
        Stream(keys=0)


def test_a_recorded_workload_has_the_engine_s_codes_and_all_its_rows():
    """Counts add up to the rows of the files, and the keys are their own codes."""
    found = workload("zipf0.8", Size(rows=300, batches=3))
    source = recorded_workload(found)
    for batch, (left, right) in enumerate(zip(found.streams.side(0), found.streams.side(1), strict=True)):
        for slices, table in zip(source.arrivals(batch), (left, right), strict=True):
            keys, counts = np.unique(np.asarray(table["k"]), return_counts=True)
            whole = {}
            for one in slices:
                for code, count in zip(one.codes.tolist(), one.counts.tolist(), strict=True):
                    whole[code] = whole.get(code, 0) + count
            assert whole == dict(zip(keys.tolist(), counts.tolist(), strict=True))
    assert Simulation(Scenario(source, "fastjoin", 4)).step().alive > 0


def test_recorded_rows_may_be_few_or_none():
    """A side may be missing from a batch."""
    found = workload("zipf0.8", Size(rows=50, batches=1))
    rows = {alias: next(found.streams.side(number)) for number, alias in enumerate(found.aliases)}
    source = recorded(found.spec(), [rows, {"l": rows["l"]}])
    assert [len(side) > 0 for side in source.arrivals(1)] == [True, False]
    simulation = Simulation(Scenario(source, "hash", 2))
    assert [simulation.step().results > 0 for _ in range(2)] == [True, True]
