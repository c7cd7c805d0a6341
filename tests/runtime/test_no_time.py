"""Tuples without an event time, where nothing bounds event times: they match by their keys, are never late, and stay.

Spark's own stream-stream join does the same: `ts <= watermark` is not TRUE of a NULL, so such a row is neither dropped
as late nor evicted. Where the condition bounds event times, or with a window, a NULL matches nothing.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import evenjoin
from evenjoin.state.files import MemoryFolder

SCHEMA = pa.schema([("id", pa.string()), ("k", pa.int64()), ("t", pa.int64())])
SIDES = {"l": SCHEMA, "r": SCHEMA}
NAMES = ["l.id AS a", "r.id AS b"]


def rows(side, *times, k=1):
    """Tuples named after their side and time."""
    return pa.table({"id": [f"{side}{t}" for t in times], "k": [k] * len(times), "t": list(times)}, SCHEMA)


def batch(left=(), right=()):
    return {"l": rows("l", *left), "r": rows("r", *right)}


def pairs(table):
    return sorted("-".join(row.values()) for row in table.to_pylist())


FIRST = batch([1000, None], [1000, None])  # the watermark is then 995
SECOND = batch([None, 990, 996], [None])  # 990 is late
ALL = ["l1000-r1000", "l1000-rNone", "l1000-rNone", "l996-r1000", "l996-rNone", "l996-rNone", "lNone-r1000",
       "lNone-r1000", "lNone-rNone", "lNone-rNone", "lNone-rNone", "lNone-rNone"]  # fmt: skip


@pytest.mark.parametrize("event_time", ["t", {"l": "t"}], ids=["both sides", "one side"])
@pytest.mark.parametrize("on", ["l.k = r.k", "l.k <=> r.k", "l.k <= r.k", "l.k = r.k AND l.id <> r.id"])
def test_a_tuple_without_a_time_is_never_late(event_time, on):
    """With a watermark and no time bound it joins with all that its key matches, in its own batch and in later ones;
    a tuple whose time is at or before the watermark is still dropped."""
    with pytest.warns(evenjoin.UnboundedStateWarning):
        join = evenjoin.local(SIDES, on, event_time=event_time, watermark=5, select=NAMES, instances=3)
    with join:
        got = pairs(join.process(FIRST)) + pairs(join.process(SECOND))
        assert sorted(got) == ALL
        assert join.progress().late == (1, 0)


def test_times_far_below_zero_do_not_matter():
    """Whatever stands for a missing time in memory is never compared with the watermark, also not where all times are
    below it."""
    with pytest.warns(evenjoin.UnboundedStateWarning):
        join = evenjoin.local(SIDES, "l.k = r.k", event_time="t", watermark=5, select=NAMES)
    with join:
        join.process(batch([-1000], [-1000]))
        assert pairs(join.process(batch([None], [-1005]))) == ["lNone-r-1000"]
        assert join.progress().watermark == -1005
        assert join.progress().late == (0, 1)


def test_it_goes_to_no_output_of_late_rows():
    """`late=` as a function is not called with tuples that have no time."""
    got = []
    with pytest.warns(evenjoin.UnboundedStateWarning):
        join = evenjoin.local(
            SIDES, "l.k = r.k", event_time="t", watermark=5, select=NAMES,
            late=lambda table, alias, number: got.append((alias, table.column("id").to_pylist())),
        )  # fmt: skip
    with join:
        join.process(FIRST)
        join.process(SECOND)
    assert got == [("l", ["l990"])]


def test_it_never_expires_and_moves_with_its_key():
    """The watermark passes any time: a stored tuple without one is still found, also on another number of instances
    and under another strategy."""
    folder = MemoryFolder()
    for step, (strategy, instances) in enumerate([("hash", 2), ("random", 3), ("hash", 5)]):
        with pytest.warns(evenjoin.UnboundedStateWarning):
            join = evenjoin.local(
                SIDES, "l.k = r.k", event_time="t", watermark=5, select=NAMES, strategy=strategy, instances=instances,
                checkpoint=folder,
            )  # fmt: skip
        with join:
            if step == 0:
                join.process(batch([None, 7], []))
            time = 10**9 * (step + 1)
            assert {f"l7-r{time}", f"lNone-r{time}"} <= set(pairs(join.process(batch([], [time]))))
            join.process(batch([time], []))
            assert join.progress().total.late == (0, 0)


@pytest.mark.parametrize(
    ("on", "window"),
    [
        ("l.k = r.k AND r.t BETWEEN l.t - 5 AND l.t", None),
        ("l.k = r.k", evenjoin.tumbling(10)),
        ("l.k = r.k", evenjoin.sliding(10, 5)),
    ],
    ids=["a time bound", "a tumbling window", "a sliding window"],
)
def test_where_times_are_bounded_it_matches_nothing(on, window):
    """It is counted as unmatchable and not stored, and not as late."""
    with evenjoin.local(SIDES, on, event_time="t", watermark=5, window=window, select=NAMES) as join:
        assert pairs(join.process(FIRST)) == ["l1000-r1000"] * (1 if window is None or window.slide == 10 else 2)
        join.process(batch([None], [None]))
        assert join.progress().late == (0, 0)
        assert join.progress().total.unmatchable == (2, 2)


@pytest.mark.parametrize("strategy", [None, "tree", "trijoin", "trijoin(packing=paired)", "hypercube"])
def test_three_sides_of_which_two_are_bounded(strategy):
    """The third side's tuples without a time match by their keys and wait for ever, in packs too. Of the two others
    they match nothing."""
    on = "l.k = r.k AND r.t BETWEEN l.t AND l.t + 10 AND abs(r.k - s.k) <= 5"
    with pytest.warns(evenjoin.UnboundedStateWarning):
        join = evenjoin.local(
            {**SIDES, "s": SCHEMA}, on, event_time="t", watermark=5, select=[*NAMES, "s.id AS c"], strategy=strategy,
            instances=4,
        )  # fmt: skip
    with join:
        first = join.process({"s": rows("s", None, 3000), **batch([1000], [1000, None])})
        assert pairs(first) == ["l1000-r1000-s3000", "l1000-r1000-sNone"]
        assert pairs(join.process({"s": rows("s", None, 990, k=3)})) == ["l1000-r1000-sNone"]
        assert join.progress().late == (0, 0, 1)
        last = join.process(batch([2000, None], [2000]))
        assert pairs(last) == ["l2000-r2000-s3000", "l2000-r2000-sNone", "l2000-r2000-sNone"]
