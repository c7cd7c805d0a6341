"""What may be wrong with a join that has a batch, besides its balance: each is a word, a sentence and a tone.

    a side is silent         it has sent no rows for a while, and others have
    results have stopped     rows come, and nothing is found
    the watermark stands     event times go on, and it does not: nothing expires
    state is not bounded     the condition keeps tuples of a side for ever
    many rows are late
    the last batch is old    only for a live page

`stood` says for how many batches a count has been the same. A join whose side sends only now and then, or that rarely
finds anything, is used to that: what stands is a concern only after STANDS batches and after twice the longest time
that it stood before, as far as the newest commits tell.

Guarantee: pure; a sentence may have names from the data in it, and whoever shows it escapes it.
Not here: balance and the choice of the worst (verdict.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

from evenjoin.page.follow import EVERY, Past
from evenjoin.page.model import recent
from evenjoin.page.moments import Moment
from evenjoin.page.words import duration, event_time, short

Tone = Literal["good", "fair", "bad", "none"]

STANDS = 5
"""After so many batches it is a concern that something stands."""
LATE_FAIR, LATE_BAD = 5.0, 25.0
"""Percent of the newest rows that may be late until it is worth a word, and until it is bad."""
OLD_S = 60.0
"""The last batch is old after this, and after AS_USUAL times what usually lies between two batches."""
AS_USUAL = 10.0


@dataclass(frozen=True, slots=True)
class Concern:
    """Something to tell: the word for it, a sentence, and how bad it is."""

    word: str
    sentence: str
    tone: Tone


def concerns(past: Past) -> list[Concern]:
    """What stands or grows, or is late."""
    newest = past.moments[-EVERY:]  # older ones are thinned out, so that nobody knows how long something stood
    found = (_silent(past, newest), _without_results(past, newest), _watermark(past, newest), _late(past), _grows(past))
    return [concern for some in found for concern in some]


def resting(past: Past, now: float | None) -> list[Concern]:
    """That the last batch was long ago, to whoever looks now."""
    last = past.last
    if now is None or last is None or not last.ended:
        return []
    gaps = [b.ended - a.ended for a, b in pairwise(recent(past.moments)) if a.ended and b.ended]
    usual = max(median(gaps) if gaps else 0.0, last.duration_ms / 1000, last.trigger_ms / 1000)
    ago = now - last.ended
    if ago < max(OLD_S, AS_USUAL * usual):
        return []
    said = f"The last batch ended {duration(ago)} ago: the query has ended, or nothing comes."
    return [Concern("At rest", said, "none")]


def stood(values: Sequence[float | None], batches: Sequence[int]) -> int:
    """For how many batches the last of these values has been the same; 0 if it often stands as long."""
    changed = [batch for (a, b), batch in zip(pairwise(values), batches[1:], strict=True) if a != b]
    usual = max((b - a for a, b in pairwise(changed)), default=0)
    standing = batches[-1] - (changed[-1] if changed else batches[0])
    return standing if standing >= STANDS and standing > 2 * usual else 0


def _then(newest: Sequence[Moment], batches: int) -> Moment:
    """The moment so many batches before the last."""
    return next(moment for moment in newest if moment.batch >= newest[-1].batch - batches)


def _silent(past: Past, newest: Sequence[Moment]) -> Iterator[Concern]:
    """Sides without rows while others send."""
    numbers = [moment.batch for moment in newest]
    for side, alias in enumerate(past.join.sides):
        many = stood([_rows(moment, side) for moment in newest], numbers)
        if not many:
            continue
        then, last = _then(newest, many), newest[-1]
        others = sum(last.totals.rows) - sum(then.totals.rows)
        if not others:
            continue
        never = "" if _rows(last, side) else "It has not sent a single one yet."
        time = f" ({duration(last.ended - then.ended)})" if last.ended and then.ended else ""
        said = f"Side {alias} has sent no rows in the last {many} batches{time}, and {short(others)} came of others."
        yield Concern("Silent side", f"{said} {never}".strip(), "fair")


def _without_results(past: Past, newest: Sequence[Moment]) -> Iterator[Concern]:
    """Results that have stopped, or never came though all sides send."""
    last = newest[-1]
    many = stood([moment.totals.results for moment in newest], [moment.batch for moment in newest])
    rows = sum(last.totals.rows) - sum(_then(newest, many).totals.rows) if many else 0
    if not rows:
        return
    if last.totals.results:
        said = f"Nothing was found in the last {many} batches, and {short(rows)} rows came."
        yield Concern("No results", said, "bad")
    elif all(last.totals.rows):
        said = "though all sides send rows: are the keys written in the same way on all sides?"
        yield Concern("No results", f"Nothing has been found yet in {many} batches, {said}", "fair")


def _watermark(past: Past, newest: Sequence[Moment]) -> Iterator[Concern]:
    """A watermark that stands while event times go on."""
    last = newest[-1]
    many = stood([moment.watermark.value for moment in newest], [moment.batch for moment in newest])
    if not many or last.watermark.value is None:
        return
    was, now = _then(newest, many).watermark.latest, last.watermark.latest
    behind = [alias for alias, a, b in zip(past.join.sides, was, now, strict=True) if a == b]
    if len(behind) == len(now):
        return
    at = event_time(last.watermark.value, past.join.zoned(0)) if past.join.has_timestamps else last.watermark.value
    why = f", because of side {' and '.join(behind)}" if behind else ""
    said = f"The watermark has stood at {at} for {many} batches{why}: nothing expires until it goes on."
    yield Concern("Watermark stands", said, "bad")


def _late(past: Past) -> Iterator[Concern]:
    """Many rows that came after the watermark."""
    newest = recent(past.moments)
    late = [sum(moment.sides[side].late for moment in newest if moment.sides) for side in range(len(past.join.sides))]
    part = 100 * sum(late) / max(sum(moment.rows for moment in newest), 1)
    if part > LATE_FAIR:
        most = past.join.sides[late.index(max(late))]
        said = f"{part:.0f} % of the rows of the last {len(newest)} batches were late, most of them of side {most}."
        yield Concern("Late rows", said, "bad" if part > LATE_BAD else "fair")


def _grows(past: Past) -> Iterator[Concern]:
    """State that nothing bounds: by the condition, or because there is no watermark though all sides have times."""
    last, known = past.moments[-1], past.moments[-STANDS:]
    without = len(known) == STANDS and all(m.watermark.value is None and None not in m.watermark.latest for m in known)
    sides = past.join.sides if without else past.unbounded
    kept = {alias: int(last.stored[:, past.join.sides.index(alias)].sum()) for alias in sides}
    if any(kept.values()):
        which = " and ".join(f"side {alias} ({short(many)} tuples)" for alias, many in kept.items())
        yield Concern("State grows", f"Nothing bounds the state of {which}: it is kept for ever.", "fair")


def _rows(moment: Moment, side: int) -> int:
    return moment.totals.rows[side] if side < len(moment.totals.rows) else 0
