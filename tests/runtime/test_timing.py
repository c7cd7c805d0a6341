"""What the time of a batch was spent on: the parts are never negative and add up."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenjoin
from evenjoin.load.receipt import Receipt
from evenjoin.runtime.advance import times_of


def parts(took: float, ended: float, tasks: list[tuple[float, float]]) -> tuple[float, float, float]:
    """(dispatch, join, sink) in ms of a batch whose tasks began and took so long."""
    receipts = [
        Receipt(0, 0, {}, {}, (0, 0), (0, 0), (0, 0), 0.0, began=began, elapsed_ms=elapsed) for began, elapsed in tasks
    ]
    times = times_of(5.0, 5.25, 5.25 + took / 1000, ended, receipts)
    assert times.migrate_ms == 250
    return times.dispatch_ms, times.join_ms, times.sink_ms


TASK = st.tuples(st.just(0.0) | st.floats(990, 1010), st.floats(0, 5000))


@pytest.mark.parametrize(
    ("took", "ended", "tasks", "found"),
    [
        (1000, 101.0, [(100.25, 250), (100.5, 250)], (250, 500, 250)),
        (1000, 101.0, [], (1000, 0, 0)),
        (1000, 101.0, [(0.0, 250)], (1000, 0, 0)),
        (1000, 101.0, [(99.0, 250)], (0, 0, 1000)),
        (1000, 101.0, [(100.5, 9000)], (500, 500, 0)),
        (1000, 101.0, [(300.0, 1)], (1000, 0, 0)),
    ],
    ids=["two tasks", "no task", "none that knows", "a clock behind", "a task too long", "a clock ahead"],
)
def test_the_middle_is_cut_where_tasks_begin_and_end(took, ended, tasks, found) -> None:
    """By the clocks of their own machines, which may be wrong."""
    assert parts(took, ended, tasks) == pytest.approx(found, abs=0.01)


@given(st.floats(0, 10_000), st.lists(TASK, max_size=5))
def test_parts_add_up(took, tasks) -> None:
    """Whatever tasks say of themselves."""
    found = parts(took, 1000.0, tasks)
    assert min(found) >= 0
    assert sum(found) == pytest.approx(took, abs=0.01)


@pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")
def test_a_commit_tells_what_its_batch_spent_its_time_on() -> None:
    """All parts but the commit's own lie within the batch's duration; the second knows how long the first commit
    took to be written. The threshold of the planner is there too."""
    schema = pa.schema([("k", pa.int64())])
    with evenjoin.local({"l": schema, "r": schema}, "k", strategy="fastjoin", instances=2, select=["l.k"]) as join:
        for _ in range(2):
            join.process({alias: pa.table({"k": list(range(50))}) for alias in "lr"})
        last = join._driver.last
    within = last.times.migrate_ms + last.times.dispatch_ms + last.times.join_ms + last.times.sink_ms
    assert 0 < within + last.times.decide_ms <= last.duration_ms + 1
    assert min(last.times.join_ms, last.times.commit_ms, last.times.ended) > 0
    assert last.verdict.threshold == 2.2
