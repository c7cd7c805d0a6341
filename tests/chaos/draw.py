"""Seed -> case: the one place that draws at random what a run is to go through.

Invariant: the same seed and the same `without` give the same case. Every strategy that is registered is drawn, for
every join that accepts it.
Not here: what the drawn things mean (case.py).
"""

from __future__ import annotations

import random
from functools import cache
from itertools import pairwise
from typing import Any

from chaos import engine
from chaos.case import Case, Damage, Event, Fail, Kill, Rival, Stale, Start, Twice
from chaos.damage import DAMAGES
from chaos.joins import JOINS

FEATURES = ("Kill", "Fail", "Stale", "Twice", "Rival", "Damage")


def draw(seed: int, without: frozenset[str] = frozenset(), sides: int | None = None) -> Case:
    """The case of a seed. `without` names kinds of events that are left out of it; `sides`: only joins of so many."""
    rng = random.Random(seed)
    join = rng.choice([name for name in JOINS if sides is None or len(JOINS[name].sides) == sides])
    timed, many = JOINS[join].times == "timed", len(JOINS[join].sides) > 2
    late = rng.choice(["none", "none", "none", "drop", "keep"]) if timed else "none"
    disorder = rng.choice([1, 3, 6])
    delay = 1 if late != "none" else rng.choice([None, disorder, disorder + 3]) if timed else None
    batches = _batches(rng, rng.randint(2, 6), JOINS[join].sides)
    events = [e for e in _events(rng, len(batches), many) if type(e).__name__ not in without]
    starts = _starts(rng, join, 1 + sum(isinstance(e, (Kill, Stale, Damage)) for e in events))
    if rng.random() < 0.3:
        starts = starts[:1]  # every restart asks for the same
    resume: Any = rng.choice(["remembered", "asked"])
    return Case(seed, join, disorder if late == "none" else 9, delay, late, resume, batches, starts, tuple(events))


def _batches(rng: random.Random, count: int, sides: str) -> tuple[Any, ...]:
    """Rows cut into batches, each side at its own places; some parts are empty."""
    cut = []
    for _ in sides:
        rows = rng.randint(4, 60 if len(sides) == 2 else 26)
        edges = [0, *sorted(rng.randint(0, rows) for _ in range(count - 1)), rows]
        cut.append([tuple(range(a, b)) for a, b in pairwise(edges)])
    return tuple(zip(*cut, strict=True))


def _starts(rng: random.Random, join: str, count: int) -> tuple[Start, ...]:
    """Settings of so many starts, each of which may follow the one before."""
    starts = [_start(rng, join)]
    while len(starts) < count:
        start = _start(rng, join)
        if engine.may_follow(starts[-1].strategy, start.strategy):
            starts.append(start)
    return tuple(starts)


def _start(rng: random.Random, join: str) -> Start:
    while True:
        start = Start(
            strategy=rng.choice(engine.strategies()),
            instances=rng.choice([1, 2, 2, 3, 4, 5]),
            layout=rng.choice(["shared", "shared", "split"]),
            capacity=rng.choice([None, None, None, None, 12]),
            merge_budget=rng.choice([1_000_000, 20]),
            pair_limit=rng.choice([1 << 17, 7]),
            sub_window=rng.choice([None, None, 2]) if JOINS[join].times == "timed" else None,
        )
        if _accepted(join, start):
            return start


@cache
def _accepted(join: str, start: Start) -> bool:
    return engine.accepts(JOINS[join], start)


def _events(rng: random.Random, batches: int, many: bool) -> list[Event]:
    events: list[Event] = [_kill(rng, batches, many) for _ in range(rng.randint(1, 5))]
    if rng.random() < 0.15:
        events.append(Fail(rng.randrange(batches)))
    if rng.random() < 0.25:
        events.append(_stale(rng, batches, many))
    if rng.random() < 0.2:
        events.append(Twice(rng.randrange(batches), rng.randrange(1000), rng.choice(["before", "after"]),
                            rng.choice([1, 2, 99])))  # fmt: skip
    if rng.random() < 0.2:
        events.append(Rival(rng.randrange(batches), rng.choice(engine.DRIVER_STEPS)))
    if rng.random() < 0.25:
        broken = damage(rng, rng.randrange(1, batches))
        events += [broken, Kill(broken.batch, "between")]
    return events


def _kill(rng: random.Random, batches: int, many: bool) -> Kill:
    batch, where = rng.randrange(batches), rng.random()
    if where < 0.4:
        return Kill(batch, "operation", at=int(2 ** rng.uniform(0, 6.3)) - 1, moment=rng.choice(engine.MOMENTS))
    if where < 0.7:
        return Kill(batch, rng.choice(engine.DRIVER_STEPS))
    if where < 0.9:
        return Kill(
            batch,
            rng.choice(engine.WORKER_STEPS + (engine.HOP_STEPS if many else ())),
            instance=rng.choice([0, 0, 1, 2]),
        )
    return Kill(batch, "between")


def _stale(rng: random.Random, batches: int, many: bool) -> Stale:
    """Most of them write while the next try runs, which is when it matters."""
    some = tuple(range(5)) if rng.random() < 0.5 else tuple(sorted(rng.sample(range(5), rng.randint(1, 5))))
    finish = rng.choice(["begin", "executed"] if rng.random() < 0.7 else engine.DRIVER_STEPS)
    stop: Any = rng.choice(["start", "joined", "sealed"])
    then: Any = rng.choice(["kill", "kill", "fail"])
    batch = min(rng.randrange(batches), rng.randrange(batches))
    return Stale(batch, some, stop, then, finish, rng.choice([0, 0, 0, 1]), rng.choice([0, 1]) if many else 0)


def damage(rng: random.Random, batch: int) -> Damage:
    """One damage to one file, at a restart in this batch."""
    return Damage(batch, rng.choice(DAMAGES), rng.random(), rng.random(), rng.random())
