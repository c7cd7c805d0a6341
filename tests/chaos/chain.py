"""A chain: one join on Spark over several starts, each with its settings and its deaths. Drawn from a seed.

Invariant: the same seed gives the same chain. When a death falls is only partly decided by it: steps and batches are,
instants are not.
Not here: the run itself (chains.py, spark_job.py).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Literal

from chaos import engine
from chaos.case import Case, Damage
from chaos.draw import damage, draw
from chaos.joins import JOINS

BATCHES, ROWS, ROWS_OF_THREE, STARTS = 12, 30, 12, 4
SINGLE = frozenset({"Kill", "Fail", "Stale", "Twice", "Rival", "Damage"})


@dataclass(frozen=True, slots=True)
class Deaths:
    """What happens in one start.

    step, batch       the driver's group is killed at this step of this batch; "instant": some time after that batch was
                      written; None: it lives to the end
    workers           so many workers kill themselves at their steps
    instants          so many workers, or the daemon that forks them, are killed by their ids at random instants
    slow, stops       so often a task stands still at this step, the query is stopped, and started again in the same
                      process with the settings of the next start
    rival             a second driver tries to take the checkpoint
    """

    step: str | None
    batch: int
    workers: int
    instants: int
    slow: str | None
    stops: int
    rival: bool


@dataclass(frozen=True, slots=True)
class Chain:
    """`reader`: the function that gets the results reads them once, or counts them first. `order`: whether the rows of
    a batch come in the same order at each reading. `damage`: what is done to the checkpoint before the last start."""

    case: Case
    deaths: tuple[Deaths, ...]
    reader: Literal["once", "twice"]
    order: Literal["fixed", "shuffled"]
    damage: Damage | None


def draw_chain(seed: int, without: frozenset[str], sides: int | None = None) -> Chain:
    """The chain of a seed; `sides`: only joins of so many."""
    rng = random.Random(f"chain {seed}")
    names = [name for name in JOINS if sides is None or len(JOINS[name].sides) == sides]
    join = names[seed % len(names)]
    rows = ROWS if len(JOINS[join].sides) == 2 else ROWS_OF_THREE
    numbers = [tuple(range(n * rows, (n + 1) * rows)) for n in range(BATCHES)]
    case = next(c for c in (draw(rng.getrandbits(32), SINGLE, sides) for _ in range(100_000)) if c.join == join)
    starts = _starts(rng, join)
    delay = rng.choice([None, 3]) if JOINS[join].times == "timed" else None
    case = replace(
        case,
        disorder=3,
        delay=delay,
        late="none",
        batches=tuple((n,) * len(JOINS[join].sides) for n in numbers),
        starts=starts,
    )
    reader: Literal["once", "twice"] = "twice" if rng.random() < 0.4 and "Twice" not in without else "once"
    order: Literal["fixed", "shuffled"] = "shuffled" if rng.random() < 0.5 and "Twice" not in without else "fixed"
    broken = damage(rng, BATCHES) if rng.random() < 0.3 and "Damage" not in without else None
    return Chain(case, tuple(_deaths(rng, n, without) for n in range(STARTS)), reader, order, broken)


def _starts(rng: random.Random, join: str):  # type: ignore[no-untyped-def]
    """The settings of all starts, each of which may follow any other: a query is stopped and started in any order."""
    starts = [_start(rng, join)]
    while len(starts) < STARTS:
        start = _start(rng, join)
        if all(engine.may_follow(a, b) for a, b in permutations([starts[0].strategy, start.strategy])):
            starts.append(start)
    return tuple(starts)


def _start(rng: random.Random, join: str):  # type: ignore[no-untyped-def]
    """The settings of a start, of those that the embedded cases draw."""
    while True:
        start = draw(rng.getrandbits(32), SINGLE, len(JOINS[join].sides)).starts[0]
        if engine.accepts(JOINS[join], replace(start, sub_window=None)):
            return replace(start, sub_window=None, capacity=None)


def _deaths(rng: random.Random, number: int, without: frozenset[str]) -> Deaths:
    step = rng.choice([*engine.DRIVER_STEPS, *["instant"] * 5]) if number < STARTS - 1 else None
    stops = rng.choice([0, 1, 2]) if "Stale" not in without else 0
    return Deaths(
        step=step,
        batch=number * (BATCHES - 2) // STARTS + rng.choice([1, 2]),
        workers=rng.randint(4, 8),
        instants=rng.randint(2, 6),
        slow=rng.choice(["joined", "sealed"]) if stops else None,
        stops=stops,
        rival=rng.random() < 0.4 and "Rival" not in without,
    )
