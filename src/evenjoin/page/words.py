"""Figures as people say them: time spans and counts.

Guarantee: text only, made of numbers.
Not here: what a page says of a join (verdict.py, concerns.py).
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from math import isnan


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


def event_time(value: int, zoned: bool) -> str:
    """A timestamp in microseconds: as UTC where it is an instant, else as it stands, since its zone is not known."""
    try:
        moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=value)
    except OverflowError:
        return f"{value:,} µs"
    return f"{moment:%Y-%m-%d %H:%M:%S}" + (" UTC" if zoned else "")
