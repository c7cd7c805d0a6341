"""The time zone of a join without Spark: what `time_zone=` says.

    Zone.read("+05:30").offset == 19_800_000_000        Zone.read("Asia/Tokyo").offset is None

Columns can be moved between wall clocks and instants exactly only where the offset never changes. Constants can be
moved in any zone from 1970 on, as Spark moves them: a wall clock that a change of clocks leaves out is read with the
offset of before, and of two that are the same the first one is meant.
Not here: which comparisons need a zone (reader.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from evenjoin.errors import SpecError

_UTC = {"UTC", "GMT", "Z", "UT", "Etc/UTC", "Etc/GMT", "Etc/UCT", "Etc/Zulu", "Etc/Universal"}
_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)\Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone by its name. `offset` is its offset in microseconds; None if it changes."""

    name: str
    offset: int | None

    @staticmethod
    def read(name: object) -> Zone:
        """The zone of a name. SpecError if there is none."""
        if isinstance(name, str) and name in _UTC:
            return Zone(name, 0)
        found = offset_micros(name) if isinstance(name, str) else None
        if isinstance(name, str) and found is not None:
            return Zone(name, found)
        try:
            ZoneInfo(str(name))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise SpecError(
                f"time_zone={name!r} is not known; give 'UTC', an offset such as '+05:30', or a name such as "
                "'Europe/Berlin'"
            ) from None
        return Zone(str(name), None)

    def instant(self, wall: datetime) -> int | None:
        """Microseconds since 1970 in UTC at which the zone's clocks show this; None where that is not sure."""
        if self.offset is not None:
            return micros(wall) - self.offset
        if wall.year < 1970:
            return None
        return (wall.replace(tzinfo=ZoneInfo(self.name)) - _EPOCH) // timedelta(microseconds=1)


def micros(wall: datetime) -> int:
    """Microseconds since 1970 of a wall clock, read as UTC."""
    return (wall.replace(tzinfo=timezone.utc) - _EPOCH) // timedelta(microseconds=1)


def offset_micros(text: str) -> int | None:
    """The offset that a text such as +05:30 means, in microseconds; None if it is no such text."""
    found = _OFFSET.match(text)
    if found is None or int(found[2]) > 18 or int(found[3]) > 59:
        return None
    size = (int(found[2]) * 60 + int(found[3])) * 60_000_000
    return -size if found[1] == "-" else size
