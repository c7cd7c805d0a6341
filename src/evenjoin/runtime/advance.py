"""The pure heart of the driver: what one batch makes of the last commit.

    last commit + how the batch was run + its receipts + the time  ->  the next commit, and the table to use next

    receipts ──► manifest (sealed in, merged out) ──► watermark ──► expiry ──► load report ──► verdict ──► commit

It decides four things: which runs are state from now on, how far event time has come, what has expired, and whether the
load calls for another table.

Guarantee: no file, no clock and no randomness is used here. The same arguments give the same commit, but for the time
that the planner took. Not here: running the batch, reading receipts, and making the commit durable (driver.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

from evenjoin.commit.log import Commit, Watermark
from evenjoin.events import Migration, Times, Totals, Verdict
from evenjoin.instance.migrate import Migrated
from evenjoin.instance.work import Work
from evenjoin.load.items import with_rates
from evenjoin.load.receipt import Receipt
from evenjoin.load.report import LoadReport, Ran, Same, report_of
from evenjoin.placement.table import RoutingTable
from evenjoin.runtime.ahead import jumped
from evenjoin.runtime.rebalance import Decision, decide
from evenjoin.runtime.settings import Settings
from evenjoin.state.manifest import Manifest
from evenjoin.strategies.base import Past

NOTHING_YET = Commit(-1, "", "", Manifest(), Watermark(), None)
"""The commit that the first batch starts from: no state, no watermark, no report."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The time, handed in as a value: `now` and when the join `started`, both in seconds since the epoch, a stopwatch
    that times the planner, and the time since the last batch ended (0: not known)."""

    now: float
    started: float
    stopwatch: Callable[[], float]
    since_last_ms: float = 0.0


def advance(
    last: Commit | None, work: Work, migration: Migration | None, receipts: Sequence[Receipt], settings: Settings,
    clocks: Clocks,
) -> tuple[Commit, RoutingTable]:  # fmt: skip
    """The commit of a batch that ran as `work` says, after `migration` if there was one; and the table of the next
    batch."""
    before, spec = last or NOTHING_YET, work.spec
    intake = [sum((r.intake[side] for r in receipts[1:]), receipts[0].intake[side]) for side in range(len(spec.sides))]
    mark = advanced(
        before.watermark, tuple(i.latest for i in intake), tuple(i.seen for i in intake),
        tuple(side.delay for side in spec.sides), spec.watermark_policy, clocks.now, settings.idle_timeout,
        clocks.started,
    )  # fmt: skip
    if settings.max_ahead is not None:
        mark = replace(mark, jump=jumped(before.watermark.jump, intake))
    stored = Manifest(work.runs).changed_by((receipt.merged, receipt.sealed) for receipt in receipts)
    kept, expired = stored.expired(tuple(store.horizon for store in work.program.stores), mark.value)
    same: Same = "same" if before.table == work.table.name else "another"
    ran = Ran(work.table, same, work.watched if work.tracked else None, work.pack_names, work.grain)
    report = report_of(receipts, stored, kept, expired, before.report, ran)
    interval = round(settings.interval_ms or clocks.since_last_ms, 3)
    report = replace(report, interval_ms=interval, trigger_ms=settings.interval_ms)
    items = None
    if work.tracked:
        report, items = with_rates(report, before.report, work.table)
    rebalanced = before.verdict.rebalanced if before.verdict else None
    if settings.strategy.alert == inf:
        decision = Decision(work.table, Verdict(report.batch, None, "no planner", rebalanced))
    else:
        same_strategy = before.asked == settings.asked or settings.differs_in_size_only(before.asked)
        past = Past(before.memory if same_strategy else None, migration)
        decision = decide(
            settings.strategy, report, work.table, settings.guards, rebalanced, clocks.stopwatch, items, past
        )  # fmt: skip
    if decision.table is not work.table:
        report = replace(report, order=decision.order)
    bound = settings.strategy.threshold
    decision = replace(decision, verdict=replace(decision.verdict, threshold=bound if bound < inf else None))
    commit = Commit(
        work.batch, work.table.name, decision.table.name, kept, mark, report, settings.asked,
        migration=followed_by(migration, decision.verdict, report) if migration else None,
        totals=totals_after(before.totals, report), verdict=decision.verdict,
        migrated=before.entry if before.migration else before.migrated, memory=decision.memory,
    )  # fmt: skip
    return commit, decision.table


def times_of(started: float, begun: float, ran: float, ended: float, receipts: Sequence[Receipt]) -> Times:
    """What a batch spent its time on, up to where its receipts are balanced. The first three are seconds by one
    stopwatch: when the batch started, when its migration was over, and when all receipts were there; `ended` is that
    last moment by the clock on the wall. When join tasks ran is known from their receipts, by the clocks of their
    machines, so it is cut off where it leaves the time that the driver measured."""
    known = [(r.began, r.began + r.elapsed_ms / 1000) for r in receipts if r.began > 0]
    first = min((begin for begin, _ in known), default=ended) - (ended - (ran - begun))
    last = max((end for _, end in known), default=ended) - (ended - (ran - begun))
    dispatch = min(max(first, 0.0), ran - begun)
    join = min(max(last - dispatch, 0.0), ran - begun - dispatch)
    spans = (begun - started, dispatch, join, ran - begun - dispatch - join)
    return Times(*(round(max(span, 0.0) * 1000, 3) for span in spans))


def totals_after(before: Totals, report: LoadReport) -> Totals:
    """The totals, with one more batch counted."""
    counts = {
        name: tuple(
            old + getattr(side, name)
            for old, side in zip(getattr(before, name) or [0] * len(report.intake), report.intake, strict=True)
        )
        for name in ("rows", "late", "unmatchable", "ahead")
    }
    return Totals(before.results + report.matches, **counts, expired=before.expired + report.expired)


def migrated(
    last: Commit, work: Work, new: RoutingTable, donors: Sequence[Migrated], pause_ms: float, asked: str
) -> tuple[Manifest, Migration]:  # fmt: skip
    """The state after a migration, and the event that tells of it.

    `asked` is what the user asks for now. If it differs from what the last commit was asked for, then that is the
    reason for the migration, whatever the last verdict said.
    """
    # places of what goes are numbered as in the old table, of what comes as in the new one
    manifest = Manifest(work.runs).changed_by((donor.gone, {}) for donor in donors)
    if any(donor.heir != donor.instance for donor in donors):
        manifest = manifest.renumbered({donor.instance: donor.heir for donor in donors})
    manifest = manifest.changed_by(({}, donor.come) for donor in donors)
    event = Migration(
        work.batch,
        source=work.table.title,
        target=new.title,
        tuples=sum(donor.tuples for donor in donors),
        bytes=sum(donor.bytes for donor in donors),
        pause_ms=pause_ms,
    )
    return manifest, decided_by(event, last.verdict) if last.asked == asked else event


def decided_by(event: Migration, verdict: Verdict | None) -> Migration:
    """A migration with what the last verdict foresaw of it; the same one if that verdict called for no rebalance."""
    if verdict is None or not verdict.calls_for_rebalance:
        return event
    return replace(
        event,
        why="imbalance",
        imbalance_before=verdict.imbalance,
        imbalance_forecast=verdict.forecast,
        planner_ms=verdict.planner_ms,
        forecast_tuples=verdict.moves,
        sentence=verdict.sentence,
        key=verdict.key,
    )


def followed_by(event: Migration, verdict: Verdict, report: LoadReport) -> Migration:
    """A migration with what it brought: the verdict and the load of its own batch."""
    return replace(event, imbalance_after=verdict.imbalance, busy_after=round(report.imbalance, 4))


def advanced(
    mark: Watermark, latest: tuple[int | None, ...], arrived: tuple[int, ...], delays: tuple[int | None, ...],
    policy: str, now: float, idle_timeout: float | None, started: float | None = None,
) -> Watermark:  # fmt: skip
    """The watermark after a batch, as Spark defines it.

    A side's watermark is the greatest event time that it has sent so far minus its delay. The global one is the least
    of them (policy "min") or the greatest ("max"), and never goes back. With "min" there is none until every side that
    has a delay has sent something. A side that has sent nothing for `idle_timeout` seconds of wall time is left out;
    time in which the join did not run, before it `started`, does not count.
    """
    sides = len(delays)
    before = mark.latest or (None,) * sides
    seen = mark.last_seen or (now,) * sides
    tops = tuple(max((t for t in pair if t is not None), default=None) for pair in zip(before, latest, strict=True))
    since = min(seen) if started is None else started
    seen = tuple(now if rows else max(old, since) for rows, old in zip(arrived, seen, strict=True))
    marks = []
    for top, delay, when in zip(tops, delays, seen, strict=True):
        if delay is None or (idle_timeout is not None and now - when > idle_timeout):
            continue
        marks.append(None if top is None else top - delay)
    if not marks or (policy == "min" and None in marks):
        return replace(mark, latest=tops, last_seen=seen)
    known = [m for m in marks if m is not None]
    if not known:
        return replace(mark, latest=tops, last_seen=seen)
    value = min(known) if policy == "min" else max(known)
    return Watermark(value if mark.value is None else max(value, mark.value), tops, seen)
