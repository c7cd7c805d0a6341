"""Durations and windows in time units."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from evenjoin.errors import SpecError
from evenjoin.spec import Window, parse_duration, sliding, tumbling


@pytest.mark.parametrize(
    ("value", "micros"),
    [
        ("10 seconds", 10_000_000),
        ("5 minutes 30 seconds", 330_000_000),
        ("INTERVAL 1 hour", 3_600_000_000),
        ("1.5 s", 1_500_000),
        ("250 ms", 250_000),
        ("2 days", 172_800_000_000),
        ("1 week", 604_800_000_000),
        ("10", 10_000_000),
        (10, 10_000_000),
        (0.1, 100_000),
        (Decimal("0.000001"), 1),
        (timedelta(minutes=1, microseconds=1), 60_000_001),
        (0, 0),
    ],
)
def test_microseconds(value: object, micros: int) -> None:
    """Text, timedelta and bare seconds, exactly."""
    assert parse_duration(value, "timestamp") == micros  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value", ["", "ten", "5 parsecs", "1 month", "-5 seconds", -1, True, None, "1e-9", 1e-9, float("nan")]
)
def test_refused_microseconds(value: object) -> None:
    """What has no whole, fixed, non-negative length is a SpecError."""
    with pytest.raises(SpecError, match="duration"):
        parse_duration(value, "timestamp")  # type: ignore[arg-type]


def test_integers() -> None:
    """An integer event time counts its own units: numbers only."""
    assert parse_duration(5, "integer") == 5
    assert parse_duration("5", "integer") == 5
    for value in ("5 seconds", timedelta(1), 0.5, -1):
        with pytest.raises(SpecError):
            parse_duration(value, "integer")


def test_windows() -> None:
    """A window is kept as given and resolved by the unit of the event time."""
    assert tumbling("10 seconds") == Window("10 seconds", "10 seconds")
    assert tumbling(10).resolve("integer") == (10, 10)
    assert sliding("1 minute", 10).resolve("timestamp") == (60_000_000, 10_000_000)
    for bad in (tumbling(0), sliding(5, 0), sliding(5, 6)):
        with pytest.raises(SpecError, match="window"):
            bad.resolve("integer")
