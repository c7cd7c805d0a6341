"""What the engine tells about itself, as values: a verdict, a migration, the totals, the progress of a join.

    Verdict     what the monitor decided after a batch, and on what grounds     runtime/rebalance -> the commit
    Migration   one change of the routing table: why, what moved, what it cost   runtime/advance -> the commit
    Totals      counts of the join since its first batch                         folded by runtime/advance
    Times       what the time of a batch was spent on                            runtime/driver -> the commit
    Progress    the last batch and the totals, as the user asks for them         LocalJoin.progress, lastProgress

All who tell of these events (the commit log, the handles, the command line, the benchmarks) read fields of these
values. Only what goes into a file or to Spark is JSON.

Invariant: `from_json(json.loads(json.dumps(x.to_json()))) == x`. `to_json` gives plain JSON (lists, no tuples). Its
keys are the names of the fields, except for three that documents call otherwise (KEYS). Commits use the names of the
fields; `from_json` reads both.

Not here: how a verdict is reached (`runtime/rebalance`), what a batch's load was (`load/report`), and when any of it is
written (`commit/log`). This file imports nothing of EvenJoin at run time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

KEYS = {"sentence": "verdict", "source": "from", "target": "to"}
"""For each field whose key in JSON differs from its name, that key."""

FIGURES = re.compile(r"\d[\d,.]*")
"""The numbers in a sentence."""

Why = Literal["imbalance", "asked for"]
"""Why a table changes: because of a planner's verdict, or because the user restarted with another strategy, size or
layout."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the monitor decided after `batch`.

    imbalance   by the strategy's own measure, in this batch; None for a strategy without a planner
    sentence    the decision in words, for people: "even", "over budget: 9 tuples would move, 8 may", ...
    rebalanced  the batch after which a rebalance was last called for; this one, if it is called for now
    planner_ms  how long the planner took; None if it was not asked or had no table to offer
    forecast    the imbalance expected under the planner's table; None if there is none or it could not be judged, as
                when its buckets are cut anew: the load was counted by others
    moves       stored tuples expected to move; None as for `forecast`, or if the tables cannot be compared
    threshold   the imbalance above which the strategy makes a plan; None if it has no such bound
    key         the key that the sentence names after the word "key"; "" if it names none
    """

    batch: int
    imbalance: float | None
    sentence: str
    rebalanced: int | None = None
    planner_ms: float | None = None
    forecast: float | None = None
    moves: int | None = None
    threshold: float | None = None
    key: str = ""

    @property
    def calls_for_rebalance(self) -> bool:
        """Whether the next batch is to start with the planner's table."""
        return self.rebalanced == self.batch

    def without_key(self) -> Verdict:
        """The same for whom keys are not shown."""
        return replace(self, sentence=_without(self.sentence, self.key), key="")

    def to_json(self) -> dict[str, Any]:
        return _written(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Verdict:
        return cls(**_read(cls, data))


def tells_more(verdict: Verdict, last: Verdict | None) -> bool:
    """Whether a verdict is news after the last one: it calls for a rebalance, or its sentence is another one. Figures
    change with every batch; a sentence that differs in them only is the same."""
    if last is None or verdict.calls_for_rebalance:
        return True
    return (verdict.key, FIGURES.sub("", verdict.sentence)) != (last.key, FIGURES.sub("", last.sentence))


@dataclass(frozen=True, slots=True)
class Migration:
    """One change of the routing table, made before `batch` was joined.

    source, target      the tables, as "strategy/layout on instances"
    tuples, bytes       what was written for other instances
    pause_ms            how long the batch waited for it
    imbalance_before    what the verdict that called for it saw and foresaw (its `imbalance`, `forecast`, `planner_ms`
    imbalance_forecast  and `moves`); all None if the user asked for the change
    planner_ms
    forecast_tuples
    imbalance_after     in `batch` itself, by the strategy's own measure and by busy time (busiest over mean);
    busy_after          the first is None for a strategy without a planner
    sentence, key       of the verdict that called for it; "" if the user asked for the change
    """

    batch: int
    source: str
    target: str
    tuples: int
    bytes: int
    pause_ms: float
    why: Why = "asked for"
    imbalance_before: float | None = None
    imbalance_forecast: float | None = None
    planner_ms: float | None = None
    forecast_tuples: int | None = None
    imbalance_after: float | None = None
    busy_after: float | None = None
    sentence: str = ""
    key: str = ""

    def without_key(self) -> Migration:
        """The same for whom keys are not shown."""
        return replace(self, sentence=_without(self.sentence, self.key), key="")

    def to_json(self) -> dict[str, Any]:
        return _written(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Migration:
        return cls(**_read(cls, data))


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts since the first batch: results found, and stored tuples that expired. Per side: the rows read, those that
    were late, those that nothing can match (a NULL key, no time, or filtered out), and those set aside because their
    event time was too far ahead. Before the first batch there are no counts per side."""

    results: int = 0
    rows: tuple[int, ...] = ()
    late: tuple[int, ...] = ()
    unmatchable: tuple[int, ...] = ()
    expired: int = 0
    ahead: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return _written(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Totals:
        return cls(**_read(cls, data))


@dataclass(frozen=True, slots=True)
class Times:
    """What the time of a batch was spent on, one after the other, in milliseconds by the clock.

    migrate_ms   moving state, where the batch began with another table
    dispatch_ms  until the first join task began: reading the input, dispatch, and the sending half of the shuffle
    join_ms      until the last join task ended: the receiving half, the join, and the sink while it takes results over
    sink_ms      until the sink was done and every receipt was there
    decide_ms    the load report and the verdict, with the planner
    commit_ms    writing the commit of the batch *before*: a commit cannot say how long it took itself
    ended        when all this was over, in seconds since the epoch; 0: not known

    Join tasks tell their times by the clocks of their own machines. Where these differ from the driver's, time goes
    from one of the three middle parts to another; their sum is the driver's.
    """

    migrate_ms: float = 0.0
    dispatch_ms: float = 0.0
    join_ms: float = 0.0
    sink_ms: float = 0.0
    decide_ms: float = 0.0
    commit_ms: float = 0.0
    ended: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return _written(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Times:
        return cls(**_read(cls, data))


@dataclass(frozen=True, slots=True)
class Progress:
    """The last batch, and the totals with it.

    watermark       for the next batch
    results         found in the batch
    late, ahead     by side: rows of the batch that were late, and that were set aside as too far ahead in time
    stored          by side: stored tuples after the batch
    messages        by side: tuples sent to instances, each copy counted
    sent_bytes      by side: the bytes of these
    packs           intermediate results: packs made in the batch, pairs in them, and packs and pairs alive after it
    packs_sent      messages with packs that went on to a second hop
    hubs, members   packs whose hub was compared, and members compared one by one
    waited_ms       how long the instances of a second hop waited for the first, at most
    imbalance       by busy time: the busiest instance over the mean
    duration_ms     how long the batch took
    verdict         what was decided after it, in words; it may name a key, unless keys are redacted
    """

    batch: int
    watermark: int | None
    results: int
    late: tuple[int, ...]
    imbalance: float
    stored: tuple[int, ...]
    duration_ms: float
    total: Totals
    ahead: tuple[int, ...] = ()
    messages: tuple[int, ...] = ()
    sent_bytes: tuple[int, ...] = ()
    packs: tuple[int, int, int, int] = (0, 0, 0, 0)
    packs_sent: int = 0
    hubs: int = 0
    members: int = 0
    waited_ms: float = 0.0
    verdict: str = ""

    def to_json(self) -> dict[str, Any]:
        return {**_written(self), "total": self.total.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Progress:
        return cls(**{**_read(cls, data), "total": Totals.from_json(data["total"])})


def _written(event: Verdict | Migration | Totals | Times | Progress) -> dict[str, Any]:
    """The event as JSON: by key the value of every field, tuples as lists."""
    values = ((field.name, getattr(event, field.name)) for field in fields(event))
    return {KEYS.get(name, name): list(value) if isinstance(value, tuple) else value for name, value in values}


def _without(sentence: str, key: str) -> str:
    return sentence.replace(f"key {key}", "key …", 1) if key else sentence


def _read(kind: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an event of this kind from its JSON, lists as tuples."""
    own = {field.name for field in fields(kind)}
    names = {key: name for name, key in KEYS.items() if name in own}
    return {names.get(key, key): tuple(value) if isinstance(value, list) else value for key, value in data.items()}
