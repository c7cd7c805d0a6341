"""A moment: one committed batch, as far as a page shows it. A commit of 80 kB becomes a value of about 2 kB.

Guarantee: a moment is a pure function of its commit and of whether keys may be named. Under `redact_keys` it has no
keys at all.
Not here: reading commits (follow.py), and what is made of many moments (model.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import numpy as np
import numpy.typing as npt

from evenjoin.commit.log import Commit, Watermark
from evenjoin.events import Migration, Times, Totals
from evenjoin.load.report import InstanceLoad, LoadReport

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

MOST_KEYS = 24
"""So many of a batch's heaviest keys are remembered."""


@dataclass(frozen=True, slots=True)
class HotKey:
    """A key of a batch: its code and name, how many tuples of each side arrived, and the pairs that were found."""

    code: int
    name: str
    arrived: tuple[int, ...]
    pairs: int


@dataclass(frozen=True, slots=True)
class Side:
    """What came of one side in a batch: rows, of which late, too far ahead and unmatchable; and the tuples of it that
    were sent to instances, copies too."""

    rows: int = 0
    late: int = 0
    ahead: int = 0
    unmatchable: int = 0
    messages: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """One batch.

    ended         when it was over, seconds since the epoch; 0: not known
    busy          [instances] milliseconds of processor time
    stored        [instances, sides] tuples kept after it
    bytes         [instances] what they take
    busy_ratio    the busiest instance over the mean
    own           the imbalance by the strategy's own measure; NaN without a planner
    threshold     above which that measure calls for a plan; NaN if it has no such bound
    taken_in      the part of the instances' busy time that went into taking in what was sent to them
    sentence      what the planner said after it; under `redact_keys` a key in it is its salted code
    migration     the one made before the batch; `migrated` is the entry of the commit that has the one before
    previous      the entry of the commit before
    """

    entry: int
    previous: int | None
    batch: int
    ended: float
    busy: F32
    stored: I64
    bytes: I64
    busy_ratio: float
    own: float
    threshold: float
    sides: tuple[Side, ...]
    results: int
    expired: int
    duration_ms: float
    trigger_ms: float
    times: Times
    taken_in: float
    watermark: Watermark
    totals: Totals
    keys: tuple[HotKey, ...]
    sentence: str
    asked: str
    next_table: str
    migration: Migration | None
    migrated: int | None

    @property
    def instances(self) -> int:
        return len(self.busy)

    @property
    def rows(self) -> int:
        return sum(side.rows for side in self.sides)


def moment_of(commit: Commit, keys: bool) -> Moment:
    """The moment of a commit; `keys` says whether its keys may be named."""
    report = commit.report or LoadReport(commit.batch, (), (), (), ())
    verdict, loads = commit.verdict, report.instances
    own = verdict.imbalance if verdict is not None else None
    bound = verdict.threshold if verdict is not None else None
    hot = tuple(HotKey(key.code, key.name, key.arrived, key.matches) for key in report.heavy[:MOST_KEYS])
    return Moment(
        commit.entry,
        commit.previous,
        commit.batch,
        commit.times.ended or max(commit.watermark.last_seen, default=0.0),
        np.array([load.busy_ms for load in loads], np.float32),
        np.array([load.stored for load in loads], np.int64).reshape(len(loads), -1),
        np.array([load.bytes for load in loads], np.int64),
        report.imbalance,
        nan if own is None else own,
        nan if bound is None else bound,
        tuple(_side(report, number) for number in range(len(report.intake))),
        report.matches,
        report.expired,
        commit.duration_ms,
        report.trigger_ms,
        commit.times,
        _taken_in(report, loads),
        commit.watermark,
        commit.totals,
        hot if keys else (),
        verdict.sentence if verdict is not None else "",
        commit.asked,
        commit.next_table,
        commit.migration,
        commit.migrated,
    )


def _side(report: LoadReport, number: int) -> Side:
    seen = report.intake[number]
    sent = sum(load.messages[number] for load in report.instances if load.messages)
    return Side(seen.rows, seen.late, seen.ahead, seen.unmatchable, sent)


def _taken_in(report: LoadReport, loads: tuple[InstanceLoad, ...]) -> float:
    busy, messages = sum(load.busy_ms for load in loads), sum(sum(load.messages) for load in loads)
    return min(report.transfer_us * messages / 1000 / busy, 1.0) if busy > 0 else 0.0
