"""The verdict of a page in words, and figures as people say them.

    Even: the busiest of 8 instances worked 1.12 times the mean over the last 20 batches. The last rebalance, before
    batch 12, moved 1,838 tuples in 90 ms and took the strategy's own measure from 3.41 to 1.10.

Guarantee: text only, made of numbers and of names from the data; whoever shows it escapes it.
Not here: what the planner said of its own decision (events.Verdict.sentence), which is shown beside this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from statistics import median
from typing import Literal

import numpy as np

from evenjoin.events import Migration
from evenjoin.page.follow import Past
from evenjoin.page.model import hottest, recent, settled
from evenjoin.page.moments import Moment

Tone = Literal["good", "fair", "bad", "none"]

EVEN, NEARLY = 1.25, 1.75
"""The busiest instance over the mean, up to which a join is called even, and nearly even. An instance that works a
quarter more than the mean makes a batch at most a quarter longer."""
HOT = 5.0
"""A key with more percent of the rows than this is named in the verdict."""


@dataclass(frozen=True, slots=True)
class Said:
    """A verdict: the one word, what it is based on, and whether it is good news."""

    word: str
    sentences: tuple[str, ...]
    tone: Tone


def verdict(past: Past) -> Said:
    """How the join is doing now."""
    last = past.last
    if last is None:
        return Said("Waiting", ("No batch is committed yet.",), "none")
    since = settled(past.moments)
    if last.instances <= 1:
        return Said("One instance", ("It does all the work, so there is nothing to balance.",), "none")
    ratio = median(moment.busy_ratio for moment in since)
    over = f"over the last {len(since)} batches" if len(since) > 1 else "in the last batch"
    who = f"the busiest of {last.instances} instances worked {ratio:.2f} times the mean {over}."
    word, tone = _word(ratio)
    first = who[0].upper() + who[1:]
    sentences = [first if tone == "good" else f"{first} {_busiest(since)}".strip()]
    if tone != "good":
        sentences += _hot(past)
    sentences += _last_rebalance(past.migrations)
    sentences += _in_time(since)
    return Said(word, tuple(sentences), tone)


def _word(ratio: float) -> tuple[str, Tone]:
    if ratio <= EVEN:
        return "Even", "good"
    return ("Nearly even", "fair") if ratio <= NEARLY else ("Uneven", "bad")


def _busiest(moments: Sequence[Moment]) -> str:
    """Which instance it is, if it is mostly the same one."""
    same = [moment for moment in moments if moment.instances == moments[-1].instances]
    first = [int(np.argmax(moment.busy)) for moment in same]
    who = max(set(first), key=first.count)
    return f"Mostly that is instance {who}." if first.count(who) * 2 > len(first) else ""


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


def duration(seconds: float) -> str:
    """A time span as a person says it: 35 ms, 4.2 s, 12 min, 3.5 h, 12 days, 3 years."""
    if isnan(seconds):
        return "-"
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for limit, unit, per in ((90, "s", 1), (90 * 60, "min", 60), (36 * 3600, "h", 3600), (730 * 86400, "days", 86400)):
        if seconds < limit:
            value = seconds / per
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{seconds / 86400 / 365.25:.0f} years"


def short(count: float) -> str:
    """A count in few characters: 950, 12.3k, 4.56M."""
    for unit in ("", "k", "M", "G"):
        if abs(count) < 1000:
            return f"{count:.0f}" if not unit else f"{count:.3g}{unit}"
        count /= 1000
    return f"{count:.3g}T"
