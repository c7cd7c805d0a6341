"""The model of a page: the moments of a checkpoint as columns that can be drawn. Plain arrays, nothing of Bokeh.

    Past (follow.py)  ──►  series     one value a moment: rates, imbalance, state, lag, late rows
                      ──►  heat       busy time as images of instance x batch
                      ──►  spans      what the time of each batch went into
                      ──►  hottest    the keys with most arrivals, over the newest batches

Moments of long ago are thinned out. A rate is the difference of two totals over the time between them, so it is exact
over the batches that are left out too. Imbalance, busy time and spans are those of the batches that are kept.

Guarantee: every function here is pure and costs O(moments * instances).
Not here: words (verdict.py, words.py), HTML (cards.py) and plots (figures.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import nan

import numpy as np
import numpy.typing as npt

from evenjoin.page.moments import F32, Moment

F64 = npt.NDArray[np.float64]
RECENT = 20
"""The newest batches that "now" is about: hot keys, verdicts, tiles."""

FEWEST = 3
"""A verdict is based on so many batches, also if there was a migration in between."""

SPANS = ("read and dispatch", "take in", "join and sink", "finish sink", "decide", "migrate", "commit")
"""What the time of a batch goes into. `take in` is the receiving half of the shuffle, with its sorting: the part of the
join tasks' time that their processors spent on it."""


@dataclass(frozen=True, slots=True)
class Heat:
    """Busy time of neighbouring moments that are equally far apart: an image [instances, moments] whose first column
    begins at `left`; each column is `step` batches wide."""

    left: float
    step: float
    image: F32

    @property
    def width(self) -> float:
        return self.step * float(self.image.shape[1])


@dataclass(frozen=True, slots=True)
class HotTotal:
    """A key over the newest batches: arrivals by side, pairs found, and its share of all rows in percent."""

    code: int
    name: str
    arrived: tuple[int, ...]
    pairs: int
    share: float


def series(moments: Sequence[Moment], sides: int) -> dict[str, F64]:
    """Columns by name, a value for each moment. `rows_0` and `stored_0` are of side 0, and so on."""
    pairs = list(zip((None, *moments), moments, strict=False))  # each with the one before it
    out = {
        "batch": [moment.batch for moment in moments],
        "busy_ratio": [moment.busy_ratio for moment in moments],
        "own": [moment.own for moment in moments],
        "threshold": [moment.threshold for moment in moments],
        "results_s": [_rate(a, b, [x.totals.results if x else 0 for x in (a, b)], b.results) for a, b in pairs],
        "duration_s": [moment.duration_ms / 1000 for moment in moments],
        "instances": [moment.instances for moment in moments],
        "megabytes": [moment.bytes.sum() / 1e6 for moment in moments],
        "expired": [_change([x.totals.expired if x else 0 for x in (a, b)], b.expired, a, b) for a, b in pairs],
        "late": [_late(a, b) for a, b in pairs],
    }
    for side in range(sides):
        totals = [(_total(a, side), _total(b, side)) for a, b in pairs]
        now = [b.sides[side].rows if side < len(b.sides) else 0 for b in moments]
        out[f"rows_{side}"] = [_rate(a, b, t, n) for (a, b), t, n in zip(pairs, totals, now, strict=True)]
        out[f"stored_{side}"] = [m.stored[:, side].sum() if m.stored.shape[1] > side else 0 for m in moments]
        out[f"lag_{side}"] = [lag_s(moment, side) for moment in moments]
    return {name: np.array(values, np.float64) for name, values in out.items()}


def lag_s(moment: Moment, side: int) -> float:
    """How far the latest event time of a side was behind the clock when the batch ended, in seconds, where event times
    are microseconds since the epoch; NaN if one of them is not known."""
    latest = moment.watermark.latest[side] if side < len(moment.watermark.latest) else None
    return nan if latest is None or not moment.ended else moment.ended - latest / 1e6


def heat(moments: Sequence[Moment]) -> list[Heat]:
    """The busy time of all moments, oldest first. Instances that a batch did not have are NaN."""
    if not moments:
        return []
    most = max(moment.instances for moment in moments)
    batch = np.array([moment.batch for moment in moments])
    step = np.diff(batch, prepend=batch[0] - 1)
    cuts = [0, *(np.flatnonzero(np.diff(step)) + 1).tolist(), len(moments)]
    return [
        Heat(float(batch[i] - step[i]) + 0.5, float(step[i]), _image(moments[i:j], most)) for i, j in pairwise(cuts)
    ]


def spans(moments: Sequence[Moment]) -> Mapping[str, F64]:
    """By name of SPANS the seconds of each moment."""
    rows = []
    for moment in moments:
        t, known = moment.times, moment.times.join_ms + moment.times.dispatch_ms > 0
        taken = t.join_ms * moment.taken_in
        parts = (t.dispatch_ms, taken, t.join_ms - taken, t.sink_ms, t.decide_ms, t.migrate_ms, t.commit_ms)
        rows.append(parts if known else (0.0, 0.0, moment.duration_ms, 0.0, 0.0, 0.0, 0.0))
    return dict(zip(SPANS, np.array(rows, np.float64).reshape(-1, len(SPANS)).T / 1000, strict=True))


def hottest(moments: Sequence[Moment], count: int = 10) -> list[HotTotal]:
    """The keys with most arrivals over these moments. Counts are lower bounds: a batch names only its heaviest keys."""
    arrived: dict[int, list[int]] = {}
    pairs: dict[int, int] = defaultdict(int)
    names: dict[int, str] = {}
    for key in (key for moment in moments for key in moment.keys):
        names[key.code] = key.name
        pairs[key.code] += key.pairs
        sums = arrived.setdefault(key.code, [0] * len(key.arrived))
        arrived[key.code] = [a + b for a, b in zip(sums, key.arrived, strict=True)]
    rows = max(sum(moment.rows for moment in moments), 1)
    codes = sorted(arrived, key=lambda code: (-sum(arrived[code]), -pairs[code], code))[:count]
    return [HotTotal(c, names[c], tuple(arrived[c]), pairs[c], 100 * sum(arrived[c]) / rows) for c in codes]


def recent(moments: Sequence[Moment]) -> Sequence[Moment]:
    """The newest RECENT moments."""
    return moments[-RECENT:]


def settled(moments: Sequence[Moment]) -> Sequence[Moment]:
    """The newest moments since the last migration, at least FEWEST, and none with another number of instances."""
    newest = recent(moments)
    moved = [n for n, moment in enumerate(newest) if moment.migration is not None]
    begin = min(moved[-1] if moved else 0, max(len(newest) - FEWEST, 0))
    return [moment for moment in newest[begin:] if moment.instances == newest[-1].instances]


def _rate(a: Moment | None, b: Moment, totals: Sequence[int], now: int) -> float:
    """Per second between two moments, by their totals; by the batch's own count and duration if their times are not
    known."""
    seconds = b.ended - a.ended if a is not None and a.ended and b.ended else 0.0
    if a is None or seconds <= 0:
        return now / (b.duration_ms / 1000) if b.duration_ms > 0 else 0.0
    return (totals[1] - totals[0]) / seconds


def _change(totals: Sequence[int], now: int, a: Moment | None, b: Moment) -> float:
    """Per batch between two moments."""
    return float(now) if a is None else (totals[1] - totals[0]) / max(b.batch - a.batch, 1)


def _late(a: Moment | None, b: Moment) -> float:
    """The percentage of the rows between two moments that were late."""
    late, rows = ([sum(x) for x in (b.totals.late, b.totals.rows)]) or [0, 0]
    if a is not None:
        late, rows = late - sum(a.totals.late), rows - sum(a.totals.rows)
    return 100 * late / rows if rows else 0.0


def _total(moment: Moment | None, side: int) -> int:
    return moment.totals.rows[side] if moment is not None and side < len(moment.totals.rows) else 0


def _image(moments: Sequence[Moment], instances: int) -> F32:
    image = np.full((instances, len(moments)), np.nan, np.float32)
    for n, moment in enumerate(moments):
        image[: moment.instances, n] = moment.busy
    return image
