"""Watermark guards: a row whose time is far too late to be true, and rows that can match nothing, move no watermark."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import evenjoin
from evenjoin.commit.log import Watermark
from evenjoin.load.intake import Intake
from evenjoin.runtime.ahead import jumped, time_limit
from evenjoin.spec import build_spec
from evenjoin.state.files import MemoryFolder
from evenjoin.testing import Crash, Hooks, run_stream

SCHEMA = pa.schema([("id", pa.string()), ("k", pa.int64()), ("t", pa.int64())])
ON = "l.k = r.k AND r.t BETWEEN l.t - 10 AND l.t + 10"
NEVER = 2**62


def start(on=ON, schema=SCHEMA, **options):
    options = {"event_time": "t", "watermark": 5, "select": ["l.id AS a", "r.id AS b"], **options}
    return evenjoin.local({"l": schema, "r": schema}, on, **options)


def rows(*times, side, k=1):
    return pa.table({"id": [f"{side}{t}" for t in times], "k": [k] * len(times), "t": list(times)}, SCHEMA)


def batch(left=(), right=()):
    return {"l": rows(*left, side="l"), "r": rows(*right, side="r")}


def pairs(table):
    return sorted(f"{row['a']}-{row['b']}" for row in table.to_pylist())


BAD = batch([101, NEVER], [102, NEVER])
"""One row of a side has a time that nobody lives to see."""


def test_without_the_setting_one_row_makes_all_others_late():
    """As in Spark: nothing is set aside unless it is asked for."""
    with start() as join:
        join.process(batch([100], [100]))
        join.process(BAD)
        assert join.progress().watermark == NEVER - 5
        assert pairs(join.process(batch([103], [103]))) == []
        assert (join.progress().late, join.progress().total.ahead) == ((1, 1), (0, 0))


@pytest.mark.parametrize("late", ["drop", "keep"])
def test_a_row_too_far_ahead_is_set_aside(late):
    """It joins nothing, not even its equal on the other side; it is counted; and the others go on."""
    with start(max_event_time_ahead=50, late=late) as join:
        join.process(batch([100], [100]))
        assert pairs(join.process(BAD)) == ["l100-r102", "l101-r100", "l101-r102"]
        shown = join.progress()
        assert (shown.watermark, shown.ahead, shown.late, shown.stored) == (96, (1, 1), (0, 0), (2, 2))
        assert "l103-r103" in pairs(join.process(batch([103], [103])))
        assert (join.progress().ahead, join.progress().total.ahead) == ((0, 0), (1, 1))
        assert [side.ahead for side in join.load().intake] == [0, 0]


@pytest.mark.parametrize(("time", "ahead"), [(150, 0), (151, 1)])
def test_the_limit_is_the_latest_committed_time_and_the_setting(time, ahead):
    """Of both sides; what the same batch brings does not count, in whatever order its tasks read it."""
    with start(max_event_time_ahead=50) as join:
        join.process(batch([20], [100]))
        join.process(batch([99, time], [140]))
        assert join.progress().ahead == (ahead, 0)


def test_the_late_output_gets_the_rows_with_those_that_are_late(tmp_path):
    """In the order in which they came."""
    with start(max_event_time_ahead=50, late=tmp_path) as join:
        join.process(batch([100], [100]))
        join.process(batch([NEVER, 99, 95, 151], [NEVER]))
        assert (join.progress().late, join.progress().ahead) == ((1, 0), (2, 1))
    found = {path.parent.name: parquet.read_table(path)["id"].to_pylist() for path in tmp_path.rglob("*.parquet")}
    assert found == {"l": [f"l{NEVER}", "l95", "l151"], "r": [f"r{NEVER}"]}


def test_a_jump_of_all_rows_costs_one_batch():
    """Integer times have no clock. After a pause all rows are ahead of the old ones: they are then compared with each
    other, and one wrong row among them is still set aside."""
    with start(max_event_time_ahead=50) as join:
        join.process(batch([100], [100]))
        join.process(batch([1000], [1001]))
        assert (join.progress().ahead, join.progress().watermark) == ((1, 1), 95)
        join.process(batch())
        assert pairs(join.process(batch([1002, NEVER], [1003]))) == ["l1002-r1003"]
        assert (join.progress().ahead, join.progress().watermark) == ((1, 0), 997)


def test_one_wrong_row_alone_in_its_batch_changes_nothing():
    """The batch after it is in time, and then the limit is the old one."""
    with start(max_event_time_ahead=50) as join:
        join.process(batch([100], [100]))
        join.process(batch([NEVER]))
        assert pairs(join.process(batch([101], [101]))) == ["l100-r101", "l101-r100", "l101-r101"]
        join.process(batch([NEVER]))
        assert (join.progress().total.ahead, join.progress().watermark) == ((2, 0), 96)


def test_the_first_batch_of_integer_times_has_nothing_to_be_compared_with():
    """Whatever its times are, they are taken."""
    with start(max_event_time_ahead=1) as join:
        join.process(batch([10**15], [5]))
        assert join.progress().ahead == (0, 0)


TIMES = pa.schema([("id", pa.string()), ("k", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
NOW = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)


def at(*times, schema=TIMES):
    return pa.table({"id": [str(t) for t in times], "k": [1] * len(times), "t": list(times)}, schema)


def clocked(clock, schema=TIMES, **options):
    options = {"watermark": "1 minute", "max_event_time_ahead": "1 hour", **options}
    on = "l.k = r.k AND r.t BETWEEN l.t - INTERVAL 1 HOUR AND l.t"
    return start(on, schema, hooks=Hooks(now=lambda: clock[0]), **options)


def test_times_are_compared_with_the_clock_too():
    """From the first batch on; after a pause nothing good is set aside; times may run ahead of the clock if they do so
    in steps."""
    clock, hour = [NOW.timestamp()], timedelta(hours=1)
    with clocked(clock) as join:
        seen = []
        for wait, *ahead in [(0, 0, 1, 2), (48, 48, 50), (0, 49), (0, 50, 52), (0, 51)]:
            clock[0] += wait * 3600
            join.process({"l": at(*(NOW + hour * h for h in ahead))})
            seen.append(join.progress().ahead[0])
        assert seen == [1, 1, 0, 1, 0]


def test_old_data_is_joined_whatever_the_clock_says():
    """A replay of data from years ago: only a time beyond the clock is noticed."""
    clock, then = [NOW.timestamp()], datetime(2001, 1, 1, tzinfo=timezone.utc)
    with clocked(clock) as join:
        for day in range(3):
            times = [then + timedelta(days=400 * day), datetime(9999, 1, 1, tzinfo=timezone.utc)]
            join.process({"l": at(*times), "r": at(*times)})
        assert join.progress().total.ahead == (3, 3)
        assert join.progress().total.late == (0, 0)
        assert join.progress().total.results == 3


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("ms"), pa.date32()])
def test_times_without_a_zone_may_be_those_of_any_zone(kind):
    """Where it is 14 hours later than in UTC a row of now is not ahead."""
    schema = TIMES.set(2, pa.field("t", kind))
    with clocked([NOW.timestamp()], schema, time_zone="+14:00") as join:
        local = (NOW + timedelta(hours=14)).replace(tzinfo=None)
        times = [local, local + timedelta(days=2)]
        join.process({"l": at(*(t.date() if pa.types.is_date(kind) else t for t in times), schema=schema)})
        assert join.progress().ahead == (1, 0)


@pytest.mark.parametrize("step", ["executed", "receipts", "commit", "committed"])
def test_a_replay_sets_the_same_rows_aside(step):
    """The limit comes from the last commit: a run with crashes gives what one without gives."""
    stream = [batch([100], [100]), BAD, batch([103, 160], [103]), batch([500], [501]), batch([502], [503])]
    seen = []
    for crashes in ([], [Crash(step)]):
        folder = MemoryFolder()
        parts = [item for part in stream for item in (*crashes, part)]

        def make(hooks, folder=folder):
            return start(max_event_time_ahead=50, checkpoint=folder, hooks=hooks)

        sunk = run_stream(make, parts)
        with make(Hooks()) as join:
            seen.append(([pairs(table) for table in sunk.values()], join.progress().total))
    assert seen[0] == seen[1]
    assert seen[0][1].ahead == (3, 2)


def test_it_may_be_asked_for_on_a_restart(tmp_path):
    """And not be asked for on the next."""
    counts = []
    for ahead in (None, 50, None):
        with start(max_event_time_ahead=ahead, checkpoint=tmp_path, watermark=1000) as join:
            join.process(batch([100 if ahead is None else 200], [100]))
            counts.append(join.progress().total.ahead)
    assert counts == [(0, 0), (1, 0), (1, 0)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_event_time_ahead": 0}, "max_event_time_ahead=0: a whole number of at least 1"),
        ({"max_event_time_ahead": "1 day"}, "has no meaning for an integer event-time column"),
        ({"max_event_time_ahead": -5}, "negative"),
        ({"max_event_time_ahead": 5, "event_time": None, "watermark": None}, "add event_time="),
    ],
)
def test_what_makes_no_sense_is_refused(options, message):
    """Before anything runs."""
    with pytest.raises(evenjoin.SpecError, match=message):
        start(**options)


def test_a_limit_beyond_the_last_time_is_none():
    """Times at the end of int64 do not wrap around."""
    spec = build_spec({"l": SCHEMA, "r": SCHEMA}, ON, event_time="t", watermark=5)
    assert time_limit(Watermark(None, (2**63 - 10, 3), ()), spec, 100, 0.0) is None
    assert time_limit(Watermark(None, (7, None), (), jump=9), spec, 100, 0.0) == 109
    assert time_limit(Watermark(), spec, 100, 1e9) is None


def test_jumped():
    """Only if all rows that the watermark could see are ahead; a batch without rows says nothing new."""
    far = Intake(3, unmatchable=1, ahead=2, ahead_from=70)
    assert jumped(None, [far, Intake()]) == 70
    assert jumped(None, [far, Intake(2, ahead=2, ahead_from=60)]) == 60
    assert jumped(5, [far, Intake(1, latest=3)]) is None
    assert jumped(5, [Intake(), Intake(2, unmatchable=2)]) == 5


FILTERED = {
    "the side's filter": (f"{ON} AND l.k < 7 AND r.k < 7", 7),
    "a NULL key": (ON, None),
    "a NULL in a band": ("r.k BETWEEN l.k - 1 AND l.k AND r.t BETWEEN l.t - 10 AND l.t + 10", None),
}


@pytest.mark.parametrize("case", FILTERED)
def test_a_row_that_can_match_nothing_moves_no_watermark(case):
    """The condition takes it out before the watermark sees it, so it makes no other row late."""
    on, k = FILTERED[case]
    with start(on) as join:
        join.process(batch([100], [100]))
        join.process({"l": rows(900, side="l", k=k), "r": rows(900, side="r", k=k)})
        assert (join.progress().watermark, join.progress().total.unmatchable) == (95, (1, 1))
        assert pairs(join.process(batch([101], [101]))) == ["l100-r101", "l101-r100", "l101-r101"]


@pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")
def test_a_row_without_a_time_moves_no_watermark():
    """Where nothing bounds the times of matches it is joined; it is not taken for a row of time 0."""
    with start("l.k = r.k", watermark=None, max_event_time_ahead=50) as join:
        for times in ([-900], [None, -800]):
            table = pa.table({"id": [str(t) for t in times], "k": [1] * len(times), "t": times}, SCHEMA)
            found = join.process({"l": table, "r": table})
        assert join.progress().ahead == (1, 1)
        assert pairs(found) == ["-900-None", "None--900", "None-None"]


def test_rows_that_can_match_nothing_do_not_keep_a_side_from_being_idle():
    """A side that sends only such rows would hold the watermark back for ever."""
    clock = [0.0]
    with start(idle_timeout="1 minute", hooks=Hooks(now=lambda: clock[0])) as join:
        join.process(batch([100], [50]))
        clock[0] = 61.0
        join.process({"l": rows(300, side="l"), "r": rows(301, side="r", k=None)})
        assert join.progress().watermark == 295


@pytest.mark.parametrize("window", [evenjoin.tumbling(10), evenjoin.sliding(20, 5)])
def test_counts_are_of_rows_and_not_of_windows(window):
    """A row with a NULL key counts once, in however many windows it is."""
    with start("l.k = r.k", window=window, max_event_time_ahead=50) as join:
        join.process({"l": rows(100, 101, side="l", k=None), "r": rows(100, side="r")})
        join.process({"l": rows(50, 400, side="l", k=None)})
        total = join.progress().total
    assert (total.rows, total.unmatchable, total.late, total.ahead) == ((4, 1), (3, 0), (0, 0), (1, 0))
