"""Event times, watermark delays and the window of a join: the arguments about time, checked and in time units.

Invariants of EventTimes: a delay belongs to a side with an event time; with a window every side has one; all event
times of one join count the same units (all timestamps and dates, or all integers).
Not here: when a tuple expires (`horizon` in graph.py), and the watermark itself (runtime/advance.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from evenjoin.errors import SpecError
from evenjoin.spec.expr import ExprError
from evenjoin.spec.scope import Scope
from evenjoin.spec.window import Duration, TimeUnit, Window, parse_duration


@dataclass(frozen=True, slots=True)
class EventTimes:
    """By alias the event-time column and the watermark delay; (size, slide) of the window, and the type of its
    bounds."""

    columns: Mapping[str, str]
    delays: Mapping[str, int]
    window: tuple[int, int] | None
    window_type: pa.DataType | None


def read_event_times(
    schemas: Mapping[str, pa.Schema],
    event_time: str | Mapping[str, str] | None,
    watermark: Duration | Mapping[str, Duration] | None,
    window: Window | None,
) -> EventTimes:
    """Check the arguments of ``build_spec`` about time, and put them in time units."""
    columns = _columns(schemas, event_time)
    units = {alias: _unit(alias, name, schemas[alias].field(name).type) for alias, name in columns.items()}
    if len(set(units.values())) > 1:
        told = ", ".join(f"{a}.{columns[a]} is {schemas[a].field(columns[a]).type}" for a in columns)
        raise SpecError(f"event times must all be timestamps or dates, or all integers: {told}")
    delays = _delays(schemas, columns, units, watermark)
    if window is None:
        return EventTimes(columns, delays, None, None)
    if not isinstance(window, Window):
        raise SpecError(f"window must come from tumbling(...) or sliding(...), not {window!r}")
    missing = [alias for alias in schemas if alias not in columns]
    if missing:
        example = ", ".join(f"{alias!r}: ..." for alias in schemas)
        raise SpecError(f"no event time with a window for {', '.join(missing)}: add event_time={{{example}}}")
    first = next(iter(schemas))
    return EventTimes(columns, delays, window.resolve(units[first]), schemas[first].field(columns[first]).type)


def _columns(schemas: Mapping[str, pa.Schema], event_time: str | Mapping[str, str] | None) -> dict[str, str]:
    if event_time is None:
        return {}
    if isinstance(event_time, str):
        event_time = dict.fromkeys(schemas, event_time)
    if not isinstance(event_time, Mapping):
        raise SpecError(f"event_time must be a column name or a mapping from alias to column, not {event_time!r}")
    _check_known("event_time", event_time, schemas)
    scope = Scope(schemas)
    try:
        found = {a: scope.column(a, event_time[a]).name for a in schemas if event_time.get(a) is not None}
    except ExprError as error:
        raise SpecError(f"event_time: {error.message}") from None
    return {alias: name.partition(".")[2] for alias, name in found.items()}


def _unit(alias: str, name: str, t: pa.DataType) -> TimeUnit:
    if pt.is_timestamp(t) or pt.is_date(t):
        return "timestamp"
    if pt.is_integer(t):
        return "integer"
    raise SpecError(f"event_time: {alias}.{name} is {t}; it must be a timestamp, a date or an integer")


def _delays(
    schemas: Mapping[str, pa.Schema],
    columns: Mapping[str, str],
    units: Mapping[str, TimeUnit],
    watermark: Duration | Mapping[str, Duration] | None,
) -> dict[str, int]:
    if watermark is None:
        return {}
    if not isinstance(watermark, Mapping):
        watermark = dict.fromkeys(columns or schemas, watermark)
    _check_known("watermark", watermark, schemas)
    given = {alias: value for alias, value in watermark.items() if value is not None}
    without = [alias for alias in given if alias not in columns]
    if without:
        raise SpecError(
            f"watermark without event time for {', '.join(without)}: add event_time={{{without[0]!r}: 'column'}}"
        )
    return {alias: parse_duration(given[alias], units[alias]) for alias in schemas if alias in given}


def _check_known(argument: str, given: Mapping[str, object], schemas: Mapping[str, pa.Schema]) -> None:
    unknown = [alias for alias in given if alias not in schemas]
    if unknown:
        raise SpecError(f"{argument}: unknown alias {unknown[0]!r}; the sides are {', '.join(schemas)}")
