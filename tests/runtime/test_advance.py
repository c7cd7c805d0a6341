"""The pure heart: last commit, receipts and the time in, the next commit out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from evenjoin.commit.log import Commit, Watermark
from evenjoin.events import Migration, Totals, Verdict
from evenjoin.instance.migrate import Migrated
from evenjoin.load.intake import Intake
from evenjoin.load.receipt import Receipt
from evenjoin.runtime.advance import Clocks, advance, migrated
from evenjoin.runtime.settings import Guards, Settings
from evenjoin.spec import build_spec
from evenjoin.state.manifest import Manifest
from evenjoin.state.segment import Run
from evenjoin.strategies import Hash
from evenjoin.strategies.base import Static
from stations import work_of

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64())])
SPEC = build_spec({"l": SCHEMA, "r": SCHEMA}, "l.k = r.k AND r.t BETWEEN l.t - 2 AND l.t + 3",
                  event_time="t", watermark=10, select=["l.k"])  # fmt: skip
TABLE = Hash().initial(2, 2, "shared")
HASH = Settings(Hash(), 2)


def clock(now=1000.0):
    """A clock that stands still, and a stopwatch that counts milliseconds by being looked at."""
    looks = iter(range(1000))
    return Clocks(now, 0.0, lambda: next(looks) / 1000)


def run(file, rows=4, high=50):
    return Run(file, 0, rows, rows, 0, high - 5, high, rows * 8, 200, 1)


def receipt(instance, sealed=(), merged=(), latest=(60, 60), batch=1, **more):
    values = {
        "stored": (4, 4), "probes": (4, 4), "results": (3, 1), "busy_ms": 2.0 + instance,
        "intake": tuple(Intake(10, 1, 2, time) for time in latest), **more,
    }  # fmt: skip
    return Receipt(batch, instance, dict(sealed), dict(merged), **values)


BEFORE = Commit(
    0, TABLE.name, TABLE.name, Manifest({(0, 0): (run("a"), run("b")), (1, 1): (run("old", high=40),)}),
    Watermark(20, (30, 31), (900.0, 900.0)), None, HASH.asked, totals=Totals(5, (1, 1), (0, 0), (0, 0), 2),
)  # fmt: skip


def advanced_commit(receipts, last=BEFORE, settings=HASH, migration=None, now=1000.0):
    work = work_of(SPEC, TABLE, (last or Commit(-1, "", "", Manifest(), Watermark(), None)).manifest.runs, batch=1)
    return advance(last, work, migration, receipts, settings, clock(now))


RECEIPTS = [
    receipt(0, {(0, 0): (run("c", 8),)}, {(0, 0): (run("a"), run("b"))}),
    receipt(1, {(1, 1): (run("d"),)}, latest=(55, 58)),
]


def test_a_batch_as_a_literal():
    """Sealed runs come in, merged ones go out, the watermark follows the slower side, what it passed expires."""
    commit, after = advanced_commit(RECEIPTS)
    assert (commit.batch, commit.table, commit.next_table, after) == (1, TABLE.name, TABLE.name, TABLE)
    assert commit.watermark == Watermark(50, (60, 60), (1000.0, 1000.0))
    assert commit.manifest == Manifest({(0, 0): (run("c", 8),), (1, 1): (run("d"),)})
    assert commit.report is not None
    assert commit.report.expired == 4
    assert [load.stored for load in commit.report.instances] == [(8, 0), (0, 4)]
    assert commit.totals == Totals(5 + 8, (21, 21), (2, 2), (4, 4), 2 + 4, (0, 0))
    assert commit.verdict == Verdict(1, None, "no planner")
    assert (commit.asked, commit.migration, commit.duration_ms) == ("hash on 2, shared", None, 0.0)


def test_the_same_arguments_give_the_same_commit():
    """A replay decides as the first run did; the arguments are left as they were."""
    kept = Manifest(dict(BEFORE.manifest.runs))
    assert advanced_commit(RECEIPTS) == advanced_commit(RECEIPTS)
    assert BEFORE.manifest == kept


@pytest.mark.parametrize(("trigger", "since_last", "interval"), [(3000.0, 70.0, 3000.0), (0.0, 70.0, 70.0)])
def test_the_interval_is_the_trigger_s(trigger, since_last, interval):
    """Or the time since the last batch, where batches follow each other without a trigger."""
    clocks, settings = replace(clock(), since_last_ms=since_last), replace(HASH, interval_ms=trigger)
    commit, _ = advance(BEFORE, work_of(SPEC, TABLE, BEFORE.manifest.runs, batch=1), None, RECEIPTS, settings, clocks)
    assert commit.report.interval_ms == interval


def test_the_first_batch_starts_from_nothing():
    """No commit before it: no watermark, no totals."""
    commit, _ = advanced_commit(RECEIPTS[1:], last=None)
    assert commit.watermark == Watermark(45, (55, 58), (1000.0, 1000.0))
    assert commit.manifest == Manifest({(1, 1): (run("d"),)})
    assert commit.totals == Totals(4, (10, 10), (1, 1), (2, 2), 0, (0, 0))


def test_only_the_time_that_is_handed_in_counts():
    """A silent side is idle by the clock given, not by the wall's."""
    quiet = [replace(one, intake=(one.intake[0], Intake())) for one in RECEIPTS]
    patient = advanced_commit(quiet, settings=replace(HASH, idle_timeout=200.0), now=1000.0)[0]
    assert (patient.watermark.value, patient.watermark.last_seen) == (21, (1000.0, 900.0))
    gone = advanced_commit(quiet, settings=replace(HASH, idle_timeout=50.0), now=1000.0)[0]
    assert gone.watermark.value == 50


def test_a_side_is_not_idle_while_the_join_did_not_run():
    """Stopped for a day: the silent side's time-out begins when the join starts again."""
    quiet = [replace(one, intake=(one.intake[0], Intake())) for one in RECEIPTS]
    work = work_of(SPEC, TABLE, BEFORE.manifest.runs, batch=1)
    settings, day = replace(HASH, idle_timeout=50.0), 86_400.0
    for now, mark in ((day + 40, 21), (day + 51, 50)):
        commit, _ = advance(BEFORE, work, None, quiet, settings, Clocks(now, day, lambda: 0.0))
        assert commit.watermark.value == mark


@dataclass(frozen=True)
class Eager(Static):
    """Always has another table to offer."""

    origin, alert, tracked = "eager", -1.0, 0

    def initial(self, instances, sides, layout):
        return TABLE

    def plan(self, report, items, table):
        return replace(table, version=table.version + 1)


def test_a_planner_s_table_is_the_next_one():
    """Its name is in the commit, the table itself is handed back; the verdict says since when."""
    commit, after = advanced_commit(RECEIPTS, settings=Settings(Eager(), 2, guards=Guards(cooldown=0)))
    assert (after.version, commit.next_table, commit.table) == (1, after.name, TABLE.name)
    assert commit.verdict is not None
    assert (commit.verdict.calls_for_rebalance, commit.verdict.planner_ms) == (True, 1.0)


def test_a_migration_is_told_with_what_it_brought():
    """The event made before the batch gets the verdict and the load of the batch itself."""
    event = Migration(1, "hash/shared on 1", "hash/shared on 2", 4, 64, 1.5)
    commit, _ = advanced_commit(RECEIPTS, migration=event)
    assert commit.migration == replace(event, busy_after=1.2, imbalance_after=None)


CALLED = Verdict(0, 3.5, "rebalance", rebalanced=0, planner_ms=0.2, forecast=1.1, moves=5)


@pytest.mark.parametrize(
    ("asked", "why", "forecast"),
    [(HASH.asked, "imbalance", 1.1), ("djb on 3, shared", "asked for", None)],
    ids=["the planner's table", "the user asks for another strategy at the same time"],
)
def test_why_a_table_changed(asked, why, forecast):
    """The planner's verdict is the reason only if the user asks for what was asked for then."""
    last = replace(BEFORE, verdict=CALLED)
    donors = [
        Migrated(0, 0, {(0, 0): (run("a"),)}, {(1, 0): (run("e"),)}, 4, 32, 1.0),
        Migrated(1, 1, {}, {(0, 1): (run("f", 2),)}, 2, 16, 1.0),
    ]
    work = work_of(SPEC, TABLE, BEFORE.manifest.runs, batch=1)
    manifest, event = migrated(last, work, replace(TABLE, version=1), donors, 7.5, asked)
    assert manifest.runs == {
        (0, 0): (run("b"),), (1, 1): (run("old", high=40),), (1, 0): (run("e"),), (0, 1): (run("f", 2),),
    }  # fmt: skip
    assert (event.tuples, event.bytes, event.pause_ms) == (6, 48, 7.5)
    assert (event.why, event.imbalance_forecast) == (why, forecast)
