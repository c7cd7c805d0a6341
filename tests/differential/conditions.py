"""A seed -> a random condition with the settings under which it is asked.

    draw(7)   Case(on="l.i + 5 <= r.n AND upper(l.s) = r.s", zone="Asia/Tokyo", ansi=True, flavour="tame", ...)

Invariant: the same seed gives the same case, in every process. A case need not make sense: Spark may refuse it, and
then we must refuse it as well.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from differential.rows import Flavour
from differential.terms import BOTH_TERMS, CONSTANTS, LENGTHS, MEETING, STEPS, TERMS

ZONES = ("UTC", "America/New_York", "Asia/Tokyo", "Asia/Kolkata")
COMPARED = ("=", "=", "=", "<=>", "<", "<=", ">", ">=", "<>")
KINDS = ("whole", "whole", "whole", "real", "real", "exact", "exact", "text", "text", "time", "time", "time", "wall",
         "date", "date", "span", "truth", "bytes", "list", "record", "table")  # fmt: skip
PLAIN = ("i8", "i16", "i", "n", "m", "s", "t", "z", "a", "d", "v", "b", "q", "c", "vc", "u", "f", "w", "y")


@dataclass(frozen=True, slots=True)
class Case:
    """A condition over the sides l and r, and under what it is asked. `event_time` is a column of both sides."""

    seed: int
    on: str
    zone: str
    ansi: bool
    flavour: Flavour
    event_time: str | None

    @property
    def mode(self) -> tuple[str, bool]:
        """What the session is set to."""
        return self.zone, self.ansi


def draw(seed: int) -> Case:
    """The case of a seed."""
    rng = random.Random(seed)
    zone = rng.choice(ZONES)
    ansi = rng.random() < 0.5
    flavour: Flavour = "tame" if rng.random() < (0.6 if ansi else 0.2) else "wild"
    parts = [_conjunct(rng) for _ in range(rng.choice((1, 1, 1, 2, 2, 3)))]
    if rng.random() < 0.3:
        column = rng.choice(PLAIN)
        parts.insert(rng.randrange(len(parts) + 1), f"l.{column} {rng.choice(('=', '=', '<=>'))} r.{column}")
    event_time = rng.choice((None, None, "t", "z", "a", "n"))
    return Case(seed, " AND ".join(parts), zone, ansi, flavour, event_time)


def conjunct(number: int) -> Case:
    """A case of one conjunct, of those that `pooled` combines."""
    return replace(draw(number), on=_conjunct(random.Random(f"pool {number}")), event_time=None)


def pooled(seed: int, pool: Sequence[int]) -> Case:
    """A case of a few conjuncts, given by their numbers, so that many cases have them in common: asked about the same
    texts again, Spark's analyser need not be."""
    rng = random.Random(f"pooled {seed}")
    parts = [conjunct(rng.choice(pool)).on for _ in range(rng.choice((1, 2, 2, 3)))]
    if rng.random() < 0.3:
        parts.append("l.i = r.i")
    return replace(draw(seed), on=" AND ".join(parts), event_time=None)


def _conjunct(rng: random.Random, depth: int = 0) -> str:
    shape = rng.random()
    if shape < 0.36:
        return _comparison(rng)
    if shape < 0.62:
        return _moved(rng)
    if shape < 0.74:
        return _both(rng)
    if shape < 0.84:
        return _filter(rng)
    if shape < 0.88:
        return _membership(rng)
    if depth > 1:
        return _comparison(rng)
    if shape < 0.95:
        return f"({_conjunct(rng, depth + 1)} OR {_conjunct(rng, depth + 1)})"
    return f"NOT ({_conjunct(rng, depth + 1)})"


def _sides(rng: random.Random) -> tuple[str, str]:
    return ("l", "r") if rng.random() < 0.6 else ("r", "l")


def _term(rng: random.Random, kind: str, alias: str) -> str:
    term = rng.choice(TERMS[kind]).replace("@", alias)
    return f"({term})" if kind == "truth" and rng.random() < 0.9 else term


def _comparison(rng: random.Random) -> str:
    """A term of each side, compared."""
    one, two = _sides(rng)
    kind = rng.choice(KINDS)
    other = rng.choice(MEETING[kind])
    return f"{_term(rng, kind, one)} {rng.choice(COMPARED)} {_term(rng, other, two)}"


def _moved(rng: random.Random) -> str:
    """Terms of both sides whose difference is compared with a constant, in any spelling."""
    one, two = _sides(rng)
    kind = rng.choice([k for k in KINDS if k in STEPS])
    a, b = _term(rng, kind, one), _term(rng, kind, two)
    step, other = rng.choice(STEPS[kind]), rng.choice(STEPS[kind])
    op = rng.choice(COMPARED)
    length = rng.choice(LENGTHS[kind])
    return rng.choice(
        (
            f"{a} {op} {b} + {step}",
            f"{a} - {step} {op} {b}",
            f"{a} BETWEEN {b} - {step} AND {b} + {other}",
            f"{a} BETWEEN {b} AND {b} + {step}",
            f"{a} - {b} {op} {length}",
            f"abs({a} - {b}) <= {length}",
            f"{a} + {step} {op} {b} - {other}",
        )
    )


def _both(rng: random.Random) -> str:
    one, two = _sides(rng)
    return rng.choice(BOTH_TERMS).replace("@", one).replace("#", two)


def _filter(rng: random.Random) -> str:
    """Something of one side."""
    one, _ = _sides(rng)
    if rng.random() < 0.5:
        return _term(rng, "truth", one)
    kind = rng.choice(KINDS)
    return f"{_term(rng, kind, one)} {rng.choice(COMPARED)} {rng.choice(CONSTANTS[kind])}"


def _membership(rng: random.Random) -> str:
    """A term of one side, in values of the other one and constants."""
    one, two = _sides(rng)
    kind = rng.choice(KINDS)
    values = [_term(rng, rng.choice(MEETING[kind]), two), rng.choice(CONSTANTS[kind]), rng.choice(CONSTANTS[kind])]
    rng.shuffle(values)
    return f"{_term(rng, kind, one)} {rng.choice(('IN', 'NOT IN'))} ({', '.join(values)})"
