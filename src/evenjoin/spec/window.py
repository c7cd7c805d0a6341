"""Windows and durations: what the user writes as time, before it becomes time units.

    tumbling("10 seconds")    sliding("1 minute", "10 seconds")    parse_duration("5 min", "timestamp") == 300_000_000

A *time unit* is a microsecond where event times are timestamps or dates (a bare number then means seconds),
and the column's own integer where they are integers (a bare number is that many of them).

Invariant: a duration is a whole, non-negative number of time units. Months and years have no fixed length: refused.
Not here: session windows, which are not supported; and which windows a tuple belongs to (runtime/dispatch.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Literal, TypeAlias

from evenjoin.errors import SpecError

Duration: TypeAlias = "str | timedelta | int | float | Decimal"
TimeUnit: TypeAlias = Literal["timestamp", "integer"]

_MICROS = {
    "microsecond": 1,
    "us": 1,
    "millisecond": 1_000,
    "ms": 1_000,
    "second": 1_000_000,
    "sec": 1_000_000,
    "s": 1_000_000,
    "minute": 60_000_000,
    "min": 60_000_000,
    "m": 60_000_000,
    "hour": 3_600_000_000,
    "h": 3_600_000_000,
    "day": 86_400_000_000,
    "d": 86_400_000_000,
    "week": 604_800_000_000,
}
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?\Z")
_PIECE = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*,?")


@dataclass(frozen=True, slots=True)
class Window:
    """A window as the user gave it; ``JoinSpec.window`` has it in time units. For tumbling windows slide equals
    size."""

    size: Duration
    slide: Duration

    def resolve(self, unit: TimeUnit) -> tuple[int, int]:
        """(size, slide) in time units."""
        size, slide = parse_duration(self.size, unit), parse_duration(self.slide, unit)
        if size <= 0 or slide <= 0:
            raise SpecError(f"window: size {self.size!r} and slide {self.slide!r} must be positive")
        if slide > size:
            raise SpecError(
                f"window: slide {self.slide!r} is longer than size {self.size!r}: rows between windows would be lost"
            )
        return size, slide


def tumbling(size: Duration) -> Window:
    """Windows of ``size``, one after the other."""
    return Window(size, size)


def sliding(size: Duration, slide: Duration) -> Window:
    """Windows of ``size``, one starting every ``slide``."""
    return Window(size, slide)


def parse_duration(value: Duration, unit: TimeUnit) -> int:
    """A duration in time units. SpecError for one that is negative, not whole, or has no meaning for the unit."""
    amount = _integer_units(value) if unit == "integer" else _micros(value)
    if amount.denominator != 1:
        small = "the integer event time's unit" if unit == "integer" else "a microsecond"
        raise SpecError(f"duration {value!r} is not a whole multiple of {small}")
    if amount < 0:
        raise SpecError(f"duration {value!r} is negative; give zero or more")
    return int(amount)


def _integer_units(value: Duration) -> Fraction:
    number = _number(value)
    if number is None:
        raise SpecError(
            f"duration {value!r} has no meaning for an integer event-time column; give a plain number of its units"
        )
    return number


def _micros(value: Duration) -> Fraction:
    if isinstance(value, timedelta):
        return Fraction((value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds)
    number = _number(value)
    if number is not None:
        return number * 1_000_000
    if isinstance(value, str):
        micros = interval_micros(value)
        if micros is not None:
            return micros
    raise SpecError(
        f"duration {value!r} is not understood; write '10 seconds', '5 minutes 30 seconds', a timedelta or seconds"
    )


def _number(value: Duration) -> Fraction | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return Fraction(value.strip()) if _NUMBER.match(value.strip()) else None
    if isinstance(value, int | float | Decimal):
        try:
            return Fraction(str(value))
        except ValueError:
            return None
    return None


def interval_micros(text: str) -> Fraction | None:
    """'1 hour 30 minutes' (a leading INTERVAL is allowed) in microseconds; None when it does not parse."""
    rest = re.sub(r"^\s*interval\b", "", text, flags=re.IGNORECASE).strip()
    total, position = Fraction(0), 0
    while position < len(rest):
        piece = _PIECE.match(rest, position)
        factor = piece and unit_micros(piece[2])
        if not piece or factor is None:
            return None
        total, position = total + Fraction(piece[1]) * factor, piece.end()
    return total if rest else None


def unit_micros(unit: str) -> int | None:
    """Microseconds of a unit's name, singular or plural; None for an unknown or calendar unit."""
    name = unit.lower()
    return _MICROS.get(name) or _MICROS.get(name.removesuffix("s"))
