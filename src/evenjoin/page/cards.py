"""The parts of a page that are words and tables, as HTML.

    tiles       the figures of now            keys        the hottest keys, and where they live
    sentence    the verdict in words          rebalances  why, forecast and actual, what moved, what it cost
    sides       watermarks, late rows         found       where a key lives that somebody asked for

Guarantee: every text that comes from outside (keys, aliases, conditions, sentences with names in them) goes through
`html`, so that a key may be called `<script>` without being one. There is no script here.
Not here: the plots (figures.py), and the page around them (board.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan

import numpy as np

from evenjoin.events import Migration
from evenjoin.page.follow import Past
from evenjoin.page.model import HotTotal, hottest, lag_s, recent, series
from evenjoin.page.moments import Moment
from evenjoin.page.verdict import Said
from evenjoin.page.whereabouts import Kind, Stay, Whereabouts, where
from evenjoin.page.words import duration, event_time, short
from evenjoin.placement.table import Keys, RoutingTable
from evenjoin.shown import html, number, size

MOST_ROWS = 40
"""So many rebalances are in the table, the newest first."""
KINDS: dict[Kind, str] = {
    "own": "It has a place of its own: a planner moved or divided it.",
    "bucket": "It lives in its hash bucket.",
    "neighbours": "It lives in a bucket of neighbouring keys: buckets are intervals here.",
    "areas": "It lives in the areas of the matrix that it can reach; every area has instances of its own.",
    "grid": "One grid of instances takes all keys: a tuple goes to a row of it, or to a column.",
    "anywhere": "No key has a place: a tuple is stored anywhere, and probes everywhere.",
}
"""What has a key, in a sentence."""
SHORT_KINDS: dict[Kind, str] = {
    "own": "a place of its own", "bucket": "its bucket", "neighbours": "its neighbours' bucket", "areas": "its areas",
    "grid": "the grid of all keys", "anywhere": "anywhere",
}  # fmt: skip
"""The same in a table."""
COUNTS = (
    "Late: came after the watermark. Ahead: set aside, because the event time is too far in the future. Unmatchable: "
    "without a key or a time, or sorted out by the condition."
)
MOVES_HEAD = (
    '<thead><tr><th rowspan="2">batch</th><th rowspan="2">why</th><th colspan="3">imbalance by its own measure</th>'
    '<th rowspan="2">busiest / mean after</th><th colspan="2">moved</th><th colspan="2">took</th></tr>'
    "<tr><th>before</th><th>foreseen</th><th>after</th><th>tuples</th><th>bytes</th><th>pause</th><th>planning</th>"
    "</tr></thead>"
)
IDLE_S = 60.0
"""A side that sent nothing for so long while another one did is called idle."""
FAR_S = 366 * 86400.0
"""Event times further from the clock than this are not of now: the input is replayed or made up."""


def sentence(said: Said) -> str:
    """The verdict as a banner."""
    planner = f"<small>{html(said.planner)}</small>" if said.planner else ""
    rest = f"<span>{' '.join(map(html, said.sentences))}{planner}</span>"
    return f'<div class="verdict {said.tone}"><b>{html(said.word)}</b>{rest}</div>'


def trouble(message: str) -> str:
    """A banner that says why the page cannot go on."""
    return sentence(Said("Stopped", (message,), "bad"))


def status(past: Past, now: float) -> str:
    """When the last batch ended, and whether older ones are still being read."""
    last = past.last
    if last is None:
        return '<div class="status"><i class="dot"></i>waiting for the first batch</div>'
    ago = max(now - last.ended, 0.0)
    fresh = "live" if ago < 15 + 3 * last.duration_ms / 1000 else "still"
    reading = "" if past.whole else " · reading older batches"
    when = f"batch {last.batch}, {duration(ago)} ago" if last.ended else f"batch {last.batch}"
    return f'<div class="status"><i class="dot {fresh}"></i>{when}{reading}</div>'


def tiles(past: Past) -> str:
    """The figures of now, one tile each."""
    last, newest = past.last, recent(past.moments)
    if last is None:
        return '<div class="tiles"></div>'
    columns = series(newest, len(past.join.sides))
    rows = sum(columns[f"rows_{side}"][-1] for side in range(len(past.join.sides)))
    late = 100 * sum(last.totals.late) / max(sum(last.totals.rows), 1)
    stored, kept = int(last.stored.sum()), size(float(last.bytes.sum()))
    shown = [
        ("Batch", f"{last.batch:,}", duration(last.duration_ms / 1000)),
        ("Rows in", f"{short(rows)}/s", f"{short(sum(last.totals.rows))} in all"),
        ("Results out", f"{short(columns['results_s'][-1])}/s", f"{short(last.totals.results)} in all"),
        ("Imbalance", f"{last.busy_ratio:.2f}", _measure(last)),
        ("Instances", f"{last.instances}", html(last.asked.split(" on ")[0])),
        ("State", short(stored), f"tuples, {kept}"),
        ("Rebalances", f"{len(past.migrations)}", f"{short(sum(m.tuples for m in past.migrations))} tuples moved"),
        ("Late rows", f"{late:.2g} %", f"{short(sum(last.totals.late))} in all"),
    ]
    cells = (
        f'<div class="tile"><label>{name}</label><b>{value}</b><small>{note}</small></div>'
        for name, value, note in shown
    )
    return f'<div class="tiles">{"".join(cells)}</div>'


def _measure(last: Moment) -> str:
    """What the figure of imbalance is, and what the strategy itself goes by."""
    if isnan(last.own):
        return "busiest / mean"
    bound = "" if isnan(last.threshold) else f" (acts above {last.threshold:g})"
    return f"busiest / mean; its own measure {last.own:.2f}{bound}"


def keys(past: Past, count: int = 10) -> str:
    """The hottest keys by name, with their share of the rows and where they live."""
    if past.join.redact_keys:
        return _note("Keys are redacted: this join was started with redact_keys=True.")
    newest = recent(past.moments)
    found = hottest(newest, count)
    if not found:
        return _note("No key stands out: no instance named a heavy one.")
    top = max(found[0].share, 1e-9)
    body = "".join(_key(key, top, past.table, past.join.sides) for key in found)
    head = _head("key", "share of rows", "rows", "pairs", "lives on")
    note = f"over the last {len(newest)} batches; a key is counted where it is among the heaviest of its instance"
    return f'<table class="keys">{head}<tbody>{body}</tbody></table><p class="note">{note}</p>'


def rebalances(past: Past) -> str:
    """Every rebalance, the newest first: why, in the planner's words too, what was foreseen and what came of it, what
    moved and what it cost."""
    if not past.migrations:
        return _note("None so far.")
    newest_first = list(zip(past.migrations, past.reasons, strict=True))[::-1][:MOST_ROWS]
    body = "".join(_rebalance(event, reason) for event, reason in newest_first)
    return f'<div class="wide"><table class="moves">{MOVES_HEAD}<tbody>{body}</tbody></table></div>'


def sides(past: Past) -> str:
    """What came of each side: rows, late ones, how far its event time is, and whether it is idle."""
    last = past.last
    if last is None:
        return _note("No batch is committed yet.")
    body = "".join(_side(past, last, number) for number in range(len(past.join.sides)))
    mark = _time(last.watermark.value, past, 0)
    head = _head("side", "rows", "late", "ahead", "unmatchable", "latest event", "behind the clock")
    watermark = f'<p class="note">Watermark of the next batch: <b>{html(mark)}</b>. {COUNTS}</p>'
    return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>{watermark}'


def table_summary(table: RoutingTable | None) -> str:
    """The routing table in a few figures."""
    if table is None:
        return _note("No batch is committed yet.")
    own = sum(len(region.takes.codes) for region in table.regions if isinstance(region.takes, Keys))
    parts = f"{table.buckets:,} buckets" if table.buckets else f"{len(table.regions):,} areas"
    return (
        f'<p class="note">Version {table.version}, {html(table.title)}: {parts}, '
        f"{own:,} keys with a place of their own.</p>"
    )


def homes(past: Past, count: int = 8) -> str:
    """Where the hottest keys live, for readers who cannot ask: a row for each, by side where its tuples are stored and
    which instances they probe."""
    hot = hottest(recent(past.moments), count)
    if past.table is None or past.table.cube is not None or not hot:
        return ""
    answers = [where(past.table, key.name, np.array([key.code], np.int64), past.join.sides) for key in hot]
    body = "".join(
        _row([html(one.key), *(f"{_stored(s.stored)}{_probing(s)}" for s in one.stays), SHORT_KINDS[one.kind]])
        for one in answers
    )
    head = _head("key", *(f"{html(side)} is stored on" for side in past.join.sides), "that is")
    return f'<div class="wide"><table class="left homes">{head}<tbody>{body}</tbody></table></div>'


def found(answer: Whereabouts) -> str:
    """Where a key lives that somebody asked for."""
    if answer.wrong:
        return f'<p class="note">No answer for <b>{html(answer.key)}</b>: {html(answer.wrong)}.</p>'
    body = "".join(
        f'<tr data-side="{html(stay.side)}"><td>{html(stay.side)}</td><td>{_stored(stay.stored)}</td>'
        f"<td>{_instances(stay.probing)}</td></tr>"
        for stay in answer.stays
    )
    head = _head("side", "is stored on", "and probes")
    said = f'<p class="note">Key <b>{html(answer.key)}</b>. {KINDS[answer.kind]}</p>'
    return f'{said}<table class="left">{head}<tbody>{body}</tbody></table>'


def _key(key: HotTotal, top: float, table: RoutingTable | None, aliases: tuple[str, ...]) -> str:
    lives = ""
    if table is not None and table.cube is None:
        lives = _homes(where(table, key.name, np.array([key.code], np.int64), aliases).stays, table.instances)
    bar = f'<i class="bar" style="width:{100 * key.share / top:.1f}%"></i>'
    return (
        f'<tr><td class="name" title="{html(key.name)}">{html(key.name)}</td>'
        f'<td class="share">{bar}<span>{key.share:.1f} %</span></td>'
        f"<td>{short(sum(key.arrived))}</td><td>{short(key.pairs)}</td><td>{lives}</td></tr>"
    )


def _homes(stays: Sequence[Stay], instances: int) -> str:
    """The instances that store tuples of a key, of whatever side; how many they are, if they are more than three."""
    homes = sorted({instance for stay in stays for instance in stay.stored})
    return ", ".join(map(str, homes)) if len(homes) <= 3 else f"{len(homes)} of {instances}"


def _stored(shares: dict[int, float]) -> str:
    """The same of tuples that are stored, of which there may be copies."""
    copies = round(sum(shares.values()) / 100)
    if copies <= 1:
        return _instances(shares)
    return f"{'a copy on each of' if copies == len(shares) else f'{copies} copies of each, on'} {_instances(shares)}"


def _instances(shares: dict[int, float]) -> str:
    """Instances with their shares; a whole one needs no share."""
    whole = all(share > 99.9 for share in shares.values())
    shown = [f"{i}" if whole else f"{i} ({share:.0f} %)" for i, share in sorted(shares.items())]
    return ", ".join(shown) or "-"


def _probing(stay: Stay) -> str:
    """Which instances tuples probe, where these are not those that store them."""
    same = set(stay.probing) == set(stay.stored)
    return "" if same else f"<small>, and probes {_instances(stay.probing)}</small>"


def _rebalance(event: Migration, reason: str) -> str:
    planned = event.forecast_tuples
    moved = f"{event.tuples:,}" + ("" if planned is None else f" <small>of {planned:,} foreseen</small>")
    cells = (
        str(event.batch),
        html(event.why),
        number(event.imbalance_before, 2),
        number(event.imbalance_forecast, 2),
        number(event.imbalance_after, 2),
        number(event.busy_after, 2),
        moved,
        size(event.bytes),
        duration(event.pause_ms / 1000),
        "-" if event.planner_ms is None else duration(event.planner_ms / 1000),
    )
    said = (
        f'<tr class="said"><td></td><td colspan="9">{html(reason)}</td></tr>' if reason not in ("", "rebalance") else ""
    )
    return _row(cells) + said


def _side(past: Past, last: Moment, number: int) -> str:
    counts = [
        getattr(last.totals, name)[number] if getattr(last.totals, name) else 0
        for name in ("rows", "late", "ahead", "unmatchable")
    ]
    latest = last.watermark.latest[number] if last.watermark.latest else None
    seen = last.watermark.last_seen
    idle = max(seen) - seen[number] if seen else 0.0
    name = html(past.join.sides[number]) + (f" <em>idle for {duration(idle)}</em>" if idle > IDLE_S else "")
    lag = lag_s(last, number)
    behind = "replayed" if abs(lag) > FAR_S else duration(lag)
    if not past.join.zoned(number):
        behind = "no time zone" if past.join.has_timestamps else "-"
    return _row((name, *map(short, counts), html(_time(latest, past, number)), behind))


def _time(value: int | None, past: Past, side: int) -> str:
    """An event time of a side."""
    if value is None:
        return "none yet"
    return event_time(value, past.join.zoned(side)) if past.join.has_timestamps else f"{value:,}"


def _head(*names: str) -> str:
    return f"<thead><tr>{''.join(f'<th>{name}</th>' for name in names)}</tr></thead>"


def _row(cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _note(text: str) -> str:
    return f'<p class="note">{html(text)}</p>'
