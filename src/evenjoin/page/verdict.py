"""The verdict of a page: one word, how good the news is, and the sentences that it is based on.

    Even: the busiest of 8 instances worked 1.12 times the mean over the last 20 batches. The last rebalance, before
    batch 12, moved 1,838 tuples in 90 ms and took the strategy's own measure from 3.41 to 1.10.

The worst thing gives the word. What stands (a silent side, a watermark, results; concerns.py) comes before balance,
because a join can be even and yet find nothing. Where there is hardly any work, balance is noise and gives no word.

    balance    is the busiest instance's time over the mean. Under `auto` it is what the planner acts by: how long the
               tasks of a batch take on the cores there are, over what even ones would take. On one core eight uneven
               tasks take as long as even ones, and then the page says so too.

Guarantee: text only, made of numbers and of names from the data; whoever shows it escapes it. A pure function of a past
and of the clock that is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from statistics import median

import numpy as np

from evenjoin.events import Migration
from evenjoin.page.concerns import Concern, Tone, concerns, resting
from evenjoin.page.follow import Past
from evenjoin.page.model import hottest, recent, settled
from evenjoin.page.moments import Moment
from evenjoin.page.words import duration

EVEN, NEARLY = 1.25, 1.75
"""The busiest instance over the mean, up to which a join is called even, and nearly even. An instance that works a
quarter more than the mean makes a batch at most a quarter longer."""
HOT = 5.0
"""A key with more percent of the rows than this is named in the verdict."""
LITTLE_ROWS, LITTLE_MS = 20.0, 1.0
"""With fewer rows an instance and batch, or less busy time, what an instance works is what a batch costs anyhow."""
WORST_FIRST: tuple[Tone, ...] = ("bad", "fair", "none", "good")


@dataclass(frozen=True, slots=True)
class Said:
    """A verdict: the one word, what it is based on, whether it is good news, and what the planner said last."""

    word: str
    sentences: tuple[str, ...]
    tone: Tone
    planner: str = ""


def verdict(past: Past, now: float | None = None) -> Said:
    """How the join is doing. `now` is the clock of a page that is live; a report has none, and is as old as it is."""
    last = past.last
    if last is None:
        return Said("Waiting", ("No batch is committed yet.",), "none")
    balance, sentences = _balance(past, last)
    found = sorted([*concerns(past), *resting(past, now), balance], key=lambda one: WORST_FIRST.index(one.tone))
    said = [one.sentence for one in found if one is not balance] + sentences
    return Said(found[0].word, tuple(said), found[0].tone, _planner(last))


def planner_of(strategy: str) -> str:
    """The name of a strategy without its settings."""
    return strategy.partition(" on ")[0].partition("(")[0]


def _planner(last: Moment) -> str:
    """What the planner said after the last batch; nothing of a strategy without one."""
    if not last.sentence or isnan(last.own):
        return ""
    own = "" if isnan(last.threshold) else f" Its own measure is {last.own:.2f}, and it acts above {last.threshold:g}."
    return f"{planner_of(last.asked)} after batch {last.batch}: {last.sentence}.{own}"


def _balance(past: Past, last: Moment) -> tuple[Concern, list[str]]:
    """How even the work is; and the sentences on it, what was done about it and what it means for the time."""
    since = settled(past.moments)
    if last.instances <= 1:
        said = ["There is one instance, so there is nothing to balance.", *_in_time(since)]
        return Concern("One instance", "", "none"), said
    rows, worked = (median(values) for values in zip(*((m.rows, float(m.busy.mean())) for m in since), strict=True))
    if rows < LITTLE_ROWS * last.instances or worked < LITTLE_MS:
        return Concern("Idle", "", "none"), [_idle(rows, worked, since)]
    busy = median(moment.busy_ratio for moment in since)
    weighs = planner_of(last.asked) == "auto" and not isnan(last.own)
    ratio = median(moment.own for moment in since if not isnan(moment.own)) if weighs else busy
    word, tone = _word(ratio)
    sentences = _ratio(busy, ratio if weighs else None, since)
    if tone != "good":
        sentences += [*_busiest(since), *_hot(past)]
    return Concern(word, "", tone), [*sentences, *_last_rebalance(past.migrations), *_in_time(since)]


def _word(ratio: float) -> tuple[str, Tone]:
    if ratio <= EVEN:
        return "Even", "good"
    return ("Nearly even", "fair") if ratio <= NEARLY else ("Uneven", "bad")


def _idle(rows: float, worked: float, since: Sequence[Moment]) -> str:
    if rows == 0:
        return f"No rows came {_over(since)}."
    return (
        f"A batch has {rows:,.0f} rows, and an instance works {duration(worked / 1000)} for it: too little to say "
        "whether that is even."
    )


def _ratio(busy: float, own: float | None, since: Sequence[Moment]) -> list[str]:
    many = since[-1].instances
    if own is None:
        return [f"The busiest of {many} instances worked {busy:.2f} times the mean {_over(since)}."]
    return [
        f"On the cores there are the tasks of a batch took {own:.2f} times as long as even ones would {_over(since)}; "
        f"the busiest of {many} instances worked {busy:.2f} times the mean."
    ]


def _over(moments: Sequence[Moment]) -> str:
    return f"over the last {len(moments)} batches" if len(moments) > 1 else "in the last batch"


def _busiest(moments: Sequence[Moment]) -> list[str]:
    """Which instance it is, if it is mostly the same one."""
    same = [moment for moment in moments if moment.instances == moments[-1].instances]
    first = [int(np.argmax(moment.busy)) for moment in same]
    who = max(set(first), key=first.count)
    return [f"Mostly that is instance {who}."] if first.count(who) * 2 > len(first) else []


def _hot(past: Past) -> list[str]:
    keys = hottest(recent(past.moments), 1)
    if not keys or keys[0].share < HOT:
        return []
    return [f"Key {keys[0].name} has {keys[0].share:.0f} % of the rows."]


def _last_rebalance(migrations: Sequence[Migration]) -> list[str]:
    if not migrations:
        return []
    last = migrations[-1]
    if last.why == "asked for":
        return [f"Before batch {last.batch} the table changed because somebody asked for it."]
    moved = f"moved {last.tuples:,} tuples in {duration(last.pause_ms / 1000)}"
    if last.imbalance_before is None or last.imbalance_after is None:
        return [f"The last rebalance, before batch {last.batch}, {moved}."]
    change = f"from {last.imbalance_before:.2f} to {last.imbalance_after:.2f}"
    return [f"The last rebalance, before batch {last.batch}, {moved} and took the strategy's own measure {change}."]


def _in_time(moments: Sequence[Moment]) -> list[str]:
    """Whether batches are done within the trigger's interval, if it has one."""
    interval, took = moments[-1].trigger_ms, median(moment.duration_ms for moment in moments)
    if interval <= 0 or took <= interval:
        return []
    return [f"Batches take {duration(took / 1000)}, longer than the {duration(interval / 1000)} between two triggers."]
