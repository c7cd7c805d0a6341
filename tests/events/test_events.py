"""What the engine tells about itself survives JSON; totals add up; a verdict and a migration mean what they say."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenjoin
from evenjoin.events import Migration, Progress, Times, Totals, Verdict, tells_more
from evenjoin.load.intake import Intake
from evenjoin.load.report import InstanceLoad, LoadReport
from evenjoin.runtime.advance import decided_by, followed_by, totals_after

COUNT = st.integers(0, 2**53)
FIGURE = st.floats(0, allow_nan=False)  # an imbalance can be infinite, and Python's JSON can say so
MAYBE = st.none() | FIGURE
SIDES = st.lists(COUNT, max_size=3).map(tuple)
TOTALS = st.builds(Totals, COUNT, SIDES, SIDES, SIDES, COUNT)
EVENTS = st.one_of(
    st.builds(Verdict, COUNT, FIGURE, st.text(), st.none() | COUNT, MAYBE, MAYBE, st.none() | COUNT, MAYBE),
    st.builds(Times, *[FIGURE] * 7),
    st.builds(
        Migration, COUNT, st.text(), st.text(), COUNT, COUNT, FIGURE, st.sampled_from(["imbalance", "asked for"]),
        MAYBE, MAYBE, MAYBE, st.none() | COUNT, MAYBE, MAYBE,
    ),
    TOTALS,
    st.builds(Progress, COUNT, st.none() | st.integers(), COUNT, SIDES, FIGURE, SIDES, FIGURE, TOTALS),
)  # fmt: skip
MOVED = Migration(5, "hash/shared on 2", "hash/shared on 3", 40, 1280, 2.5)
CALLED = Verdict(4, 3.5, "rebalance", rebalanced=4, planner_ms=0.25, forecast=1.25, moves=38)


@given(EVENTS)
def test_every_event_comes_back_from_json_as_it_was(event: Verdict | Migration | Totals | Progress) -> None:
    """And what is written is plain JSON already: reading it back changes nothing, not even a tuple into a list."""
    written = event.to_json()
    read = json.loads(json.dumps(written))
    assert read == written
    assert type(event).from_json(read) == event


def test_the_documents_keep_their_keys() -> None:
    """What `inspect --json`, `compare` and `lastProgress` have always said, whatever the fields are called."""
    assert set(MOVED.to_json()) == {
        "batch", "why", "from", "to", "imbalance_before", "imbalance_forecast", "imbalance_after", "busy_after",
        "planner_ms", "forecast_tuples", "tuples", "bytes", "pause_ms", "verdict", "key",
    }  # fmt: skip
    verdict = {"batch", "imbalance", "verdict", "rebalanced", "planner_ms", "forecast", "moves", "threshold", "key"}
    assert set(CALLED.to_json()) == verdict
    assert Totals(7, (5, 1), (1, 0), (0, 0), 2).to_json() == {
        "results": 7, "rows": [5, 1], "late": [1, 0], "unmatchable": [0, 0], "expired": 2, "ahead": []
    }  # fmt: skip
    assert Progress(3, 95, 7, (1, 0), 1.5, (5, 6), 2.5, Totals()).to_json() == {
        "batch": 3, "watermark": 95, "results": 7, "late": [1, 0], "imbalance": 1.5, "stored": [5, 6],
        "duration_ms": 2.5, "ahead": [], "messages": [], "sent_bytes": [], "packs": [0, 0, 0, 0], "packs_sent": 0,
        "hubs": 0, "members": 0, "waited_ms": 0.0, "verdict": "",
        "total": {"results": 0, "rows": [], "late": [], "unmatchable": [], "expired": 0, "ahead": []},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sentence", "rebalanced", "calls"),
    [("rebalance", 4, True), ("even", None, False), ("cooling down", 3, False), ("whatever it says", 4, True)],
    ids=["now", "never", "the batch before", "the words do not matter"],
)
def test_a_verdict_calls_for_a_rebalance_if_this_batch_is_the_last_one_that_did(sentence, rebalanced, calls) -> None:
    """The fact is the batch of the last rebalance, not the sentence."""
    assert Verdict(4, 1.5, sentence, rebalanced).calls_for_rebalance is calls


def test_a_migration_takes_over_what_its_verdict_foresaw() -> None:
    """Before, forecast, the planner's time and the tuples expected; the figures of the move itself stay."""
    assert decided_by(MOVED, CALLED) == replace(
        MOVED, why="imbalance", imbalance_before=3.5, imbalance_forecast=1.25, planner_ms=0.25, forecast_tuples=38,
        sentence="rebalance",
    )  # fmt: skip


NEWS = "key 7 is 41% of instance 7's time; dividing it saves 20 ms of 2.1 s: waiting, {}% earned"


@pytest.mark.parametrize(
    ("said", "then", "news"),
    [
        (None, "even", True),
        ("even", "even", False),
        ("even", "cooling down", True),
        (NEWS.format(41), NEWS.format(55), False),
        ("9,100 tuples would move", "1,200.5 tuples would move", False),
    ],
)
def test_a_sentence_is_news_if_more_than_its_figures_changed(said, then, news) -> None:
    """The log need not repeat every batch that 41 % are now 55 %."""
    last = None if said is None else replace(CALLED, sentence=said, batch=3, rebalanced=None)
    verdict = replace(CALLED, sentence=then, rebalanced=None)
    assert tells_more(verdict, last) is news
    assert tells_more(replace(verdict, rebalanced=4), last)
    assert tells_more(replace(verdict, key="8"), replace(verdict, key="9"))


def test_a_sentence_without_its_key() -> None:
    """Only the name after the word "key" goes; an instance may have the same number."""
    hidden = "key … is 41% of instance 7's time; dividing it saves 20 ms of 2.1 s: waiting, 9% earned"
    verdict, event = replace(CALLED, sentence=NEWS.format(9), key="7"), replace(MOVED, sentence=NEWS.format(9), key="7")
    assert (verdict.without_key().sentence, event.without_key().sentence) == (hidden, hidden)
    assert (verdict.without_key().key, event.without_key().key) == ("", "")
    assert CALLED.without_key() == CALLED


@pytest.mark.parametrize("verdict", [None, replace(CALLED, rebalanced=2)], ids=["no verdict", "one to stay"])
def test_a_migration_that_no_verdict_called_for_was_asked_for(verdict) -> None:
    """It stays the same object, and nothing is foreseen of it."""
    assert decided_by(MOVED, verdict) is MOVED
    assert (MOVED.why, MOVED.imbalance_before, MOVED.planner_ms) == ("asked for", None, None)


def test_a_migration_is_followed_by_the_load_of_its_own_batch() -> None:
    """The strategy's own measure from the verdict, busy time from the report (here 3 ms of 4 on one of two: 1.5)."""
    after = followed_by(MOVED, Verdict(5, 1.2, "even", 4), report((1, 0), (0, 0)))
    assert after == replace(MOVED, imbalance_after=1.2, busy_after=1.5)


def report(*late_and_lost: tuple[int, int], batch: int = 0, expired: int = 0) -> LoadReport:
    """Two instances with 7 and 3 results; each side read 10 rows, of which so many were late and unmatchable."""
    loads = (InstanceLoad(0, (1, 1), (4, 4), (5, 2), 80, 3.0), InstanceLoad(1, (1, 1), (4, 4), (0, 3), 80, 1.0))
    intake = tuple(Intake(10, late, lost) for late, lost in late_and_lost)
    return LoadReport(batch, loads, (), (), intake, expired)


def test_totals_add_up_batch_by_batch() -> None:
    """The first batch says how many sides there are; each further one adds to every count, side by side."""
    first = totals_after(Totals(), report((1, 0), (0, 2)))
    assert first == Totals(10, (10, 10), (1, 0), (0, 2), 0, (0, 0))
    second = totals_after(first, report((2, 3), (4, 0), batch=1, expired=6))
    assert second == Totals(20, (20, 20), (3, 4), (3, 2), 6, (0, 0))
    assert first == Totals(10, (10, 10), (1, 0), (0, 2), 0, (0, 0))


def test_totals_of_another_number_of_sides_do_not_add_up() -> None:
    """A mistake, never a silently shorter tuple."""
    with pytest.raises(ValueError, match="shorter"):
        totals_after(Totals(0, (1, 2), (0, 0), (0, 0), 0), report((0, 0)))


SCHEMA = pa.schema([("k", pa.int64())])


def rebalanced_join() -> evenjoin.runtime.local.LocalJoin:
    """FastJoin without guards: the hot keys share a unit at first, and some leave it."""
    return evenjoin.local(
        {"l": SCHEMA, "r": SCHEMA},
        "l.k = r.k",
        instances=3,
        strategy="fastjoin",
        guards=evenjoin.Guards(cooldown=0, min_work=0),
    )


@pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")
def test_a_rebalance_is_told_with_everything_the_readme_promises() -> None:
    """Why, the imbalance before, as forecast and after, tuples, bytes, pause and the planner's time, as commits go."""
    rng, loads, rows = np.random.default_rng(7), [], 0
    with rebalanced_join() as join:
        assert join.progress() is None
        for _ in range(6):
            part = {side: pa.table({"k": rng.zipf(1.3, 400) % 50}, SCHEMA) for side in "lr"}
            join.process(part)
            rows += 400
            loads.append((join._driver.last.verdict, join.load(), join.progress()))
            assert join.progress().total.rows == (rows, rows)
        made = join.migrations()
    assert made
    for event in made:
        (called, _, _), (after, load, _) = loads[event.batch - 1], loads[event.batch]
        assert called.calls_for_rebalance
        assert event.why == "imbalance"
        assert event.source == event.target == "fastjoin/shared on 3"
        assert (event.imbalance_before, event.imbalance_forecast) == (called.imbalance, called.forecast)
        assert event.imbalance_forecast < event.imbalance_before
        assert (event.imbalance_after, event.busy_after) == (after.imbalance, round(load.imbalance, 4))
        assert event.tuples > 0
        assert event.bytes > 0
        assert event.pause_ms > 0
        assert event.planner_ms == called.planner_ms > 0
        assert event.forecast_tuples == called.moves > 0
    called_for = [verdict.batch + 1 for verdict, _, _ in loads[:-1] if verdict.calls_for_rebalance]
    assert [event.batch for event in made] == called_for
    results = [progress.results for _, _, progress in loads]
    assert [progress.total.results for _, _, progress in loads] == np.cumsum(results).tolist()
