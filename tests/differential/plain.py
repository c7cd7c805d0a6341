"""A seed -> a random condition of what the embedded engine reads: columns, literals and the skeleton.

    plain(7)   Case(on="l.i + 5 <= r.n AND l.t >= '2026-03-08 07:00:00'", zone="+05:30", ansi=True, ...)

Not here: functions, which the embedded engine refuses (terms.py). CHAR and collated columns are left out, because Arrow
has no such types. Sums are checked in ANSI mode, because without it they wrap.
"""

from __future__ import annotations

import random

from differential.conditions import COMPARED, Case
from differential.rows import Flavour

ZONES = ("UTC", "+05:30", "-03:30", "America/New_York")
_COLUMNS = {
    "whole": "i8 i16 i i i n n", "real": "f d d", "exact": "m m w q", "text": "s vc", "time": "t", "wall": "z",
    "date": "a", "span": "v", "truth": "b", "bytes": "y",
}  # fmt: skip
COLUMNS = {kind: names.split() for kind, names in _COLUMNS.items()}
_LITERALS = {
    "whole": "0; 1; -1; 5; 2147483647; 3000000000; 9223372036854775807; 5L; 2.5; 3Y; 7S; NULL",
    "real": "0.3; 0.7D; 1e308D; 0; 1.5F; 0.1; -2.5; 1e3; 1BD",
    "exact": "0.3; 999.99; 1000; 0.005; 5; -1; .5; 1.",
    "text": "'a'; '5'; ''; 'straße'; 'it''s'; \"b\"; 'a '",
    "time": "TIMESTAMP'2026-03-08 02:30:00'; '2026-11-01 01:30:00'; DATE'2026-03-08'; '2026-03-08'; "
    "TIMESTAMP_NTZ'2026-03-08 03:00:00'; TIMESTAMP'2026-03-08 07:00:00Z'; '2026-03-08T07:00:00.5+02:00'",
    "wall": "TIMESTAMP_NTZ'2026-03-08 02:30:00'; TIMESTAMP'2026-11-01 01:30:00'; '2026-03-08 00:00:00'",
    "date": "DATE'2026-03-08'; '2026-03-08'; TIMESTAMP'2026-03-08 00:00:00'; DATE'1582-10-10'",
    "span": "INTERVAL 1 DAY; INTERVAL 24 HOURS; INTERVAL '1 12' DAY TO HOUR; INTERVAL 0 SECONDS; INTERVAL '-90' SECOND",
    "truth": "true; FALSE",
    "bytes": "X'61'; X''",
}
LITERALS = {kind: [text.strip() for text in texts.split(";")] for kind, texts in _LITERALS.items()}
_STEPS = {
    "whole": "1; 5; 3000000000L; 0; 2; 1.5; 0.3; -2",
    "real": "0.1; 0.3D; 1; 1e-9D; 2.5",
    "exact": "0.01; 1; 0.3; 0.005; 2; 0.1 + 0.2",
    "time": "INTERVAL 5 MINUTES; INTERVAL 1 DAY; INTERVAL 24 HOURS; INTERVAL 90 MINUTES; INTERVAL 1 DAY 2 HOURS; "
    "INTERVAL -3 HOURS; INTERVAL 2 WEEKS; INTERVAL '1.5' SECOND; INTERVAL 1 MONTH",
    "wall": "INTERVAL 5 MINUTES; INTERVAL 1 DAY; INTERVAL 30 HOURS",
    "date": "1; 30; INTERVAL 1 DAY; INTERVAL 1 HOUR; INTERVAL 2 WEEKS; INTERVAL 24 HOURS",
    "span": "INTERVAL 1 DAY; INTERVAL 1 HOUR; INTERVAL 90 SECONDS",
}
STEPS = {kind: [text.strip() for text in texts.split(";")] for kind, texts in _STEPS.items()}
MEETING = {
    "whole": ["whole", "whole", "whole", "real", "exact", "text"],
    "real": ["real", "real", "whole", "exact"],
    "exact": ["exact", "exact", "whole", "real"],
    "text": ["text", "text", "text", "bytes", "truth"],
    "time": ["time", "time", "wall", "date"],
    "wall": ["wall", "wall", "time", "date"],
    "date": ["date", "date", "time", "wall"],
    "span": ["span"],
    "truth": ["truth"],
    "bytes": ["bytes"],
}


def plain(seed: int) -> Case:
    """The case of a seed."""
    rng = random.Random(f"plain {seed}")
    flavour: Flavour = "tame" if rng.random() < 0.5 else "wild"
    parts = [_conjunct(rng, rng.choice((0, 0, 1))) for _ in range(rng.choice((1, 2, 2, 3)))]
    if rng.random() < 0.3:
        column = _column(rng, rng.choice(list(COLUMNS)))
        parts.insert(rng.randrange(len(parts) + 1), f"l.{column} {rng.choice(('=', '=', '<=>'))} r.{column}")
    return Case(
        seed, " AND ".join(parts), rng.choice(ZONES), True, flavour, rng.choice((None, None, "t", "z", "a", "n"))
    )


def _column(rng: random.Random, kind: str) -> str:
    return rng.choice(COLUMNS[kind])


def _conjunct(rng: random.Random, depth: int) -> str:
    shape = rng.random()
    if depth and shape < 0.4:
        return f"({_conjunct(rng, depth - 1)} {rng.choice(('OR', 'OR', 'AND'))} {_conjunct(rng, depth - 1)})"
    if depth and shape < 0.5:
        return f"NOT ({_conjunct(rng, depth - 1)})"
    one, two = ("l", "r") if rng.random() < 0.6 else ("r", "l")
    kind = rng.choice(list(COLUMNS))
    a = f"{one}.{_column(rng, kind)}"
    b = f"{two}.{_column(rng, rng.choice(MEETING[kind]))}"
    if shape < 0.35:
        return f"{a} {rng.choice(COMPARED)} {b}"
    if shape < 0.6 and kind in STEPS:
        return _moved(rng, kind, one, two)
    if shape < 0.75:
        return f"{a} {rng.choice(COMPARED)} {rng.choice(LITERALS[kind])}"
    return rng.choice(
        (
            f"{a} IN ({', '.join(rng.sample(LITERALS[kind], min(2, len(LITERALS[kind]))))}, NULL)",
            f"{a} NOT IN ({rng.choice(LITERALS[kind])}, {rng.choice(LITERALS[kind])})",
            f"{a} IN ({b}, {rng.choice(LITERALS[kind])})",
            f"{a} IS NOT NULL",
            f"{a} IS DISTINCT FROM {b}",
            f"{a} BETWEEN {rng.choice(LITERALS[kind])} AND {b}",
            f"{a} = {b} OR ({a} IS NULL AND {b} IS NULL)",
        )
    )


def _moved(rng: random.Random, kind: str, one: str, two: str) -> str:
    """Columns of both sides and constants, added in any way."""
    a, b = f"{one}.{_column(rng, kind)}", f"{two}.{_column(rng, kind)}"
    c = f"{one}.{_column(rng, kind)}"
    step, other = rng.choice(STEPS[kind]), rng.choice(STEPS[kind])
    op = rng.choice(COMPARED)
    shapes = [
        f"{a} {op} {b} + {step}",
        f"{a} - {step} {op} {b}",
        f"{a} BETWEEN {b} - {step} AND {b} + {other}",
        f"{a} - {b} {op} {step}",
        f"abs({a} - {b}) <= {step}",
        f"{a} + {step} {op} {b} - {other}",
    ]
    if kind in ("whole", "real", "exact", "span"):
        shapes += [f"{a} + {b} {op} {step}", f"{a} + {c} - {step} {op} {b}", f"{step} + {other} + {a} {op} {b}"]
    return rng.choice(shapes)
