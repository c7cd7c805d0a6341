"""A case: everything that decides one run, as a frozen value and as JSON.

    Case = join + rows + batches + settings of each start + events

The rows come from a seed, and a batch lists the numbers of its rows. So a smaller case is made by leaving numbers out,
and the rows that remain stay what they were.

Invariant: `Case.from_json(case.to_json()) == case`, and a run depends on nothing but its case (and the engine).
Not here: how a case is drawn (draw.py), run (embedded.py) and made smaller (shrink.py).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from chaos.joins import JOINS, Join
from chaos.rows import side


@dataclass(frozen=True, slots=True)
class Start:
    """The settings of one start. With a `capacity` the number of instances follows the state."""

    strategy: str
    instances: int
    layout: Literal["shared", "split"] = "shared"
    capacity: int | None = None
    merge_budget: int = 1_000_000
    pair_limit: int = 1 << 17
    sub_window: int | None = None


@dataclass(frozen=True, slots=True)
class Kill:
    """The process dies in this batch.

    step       a step of the driver; with `instance` a step of that instance's task; "between": stopped before the
               batch; "operation": at the operation number `at` on the checkpoint's folder since the try began
    moment     of an operation: before it, after it, or in the middle of writing, which leaves half of a part file
    """

    batch: int
    step: str
    instance: int | None = None
    at: int = 0
    moment: Literal["before", "after", "half"] = "before"


@dataclass(frozen=True, slots=True)
class Fail:
    """The sink raises an error in this batch. The same join is asked for the batch again."""

    batch: int


@dataclass(frozen=True, slots=True)
class Stale:
    """Tasks of these instances outlive their try. They stand still at step `stop`; the try then ends, by a kill or by
    a failure within the same start. They go on at the driver's step `finish`, `later` batches after. They are tasks of
    the hop `hop`; a program without it is not disturbed."""

    batch: int
    instances: tuple[int, ...]
    stop: Literal["start", "joined", "sealed"]
    then: Literal["kill", "fail"]
    finish: str
    later: int = 0
    hop: int = 0


@dataclass(frozen=True, slots=True)
class Twice:
    """A second reader: the first `instances` instances run twice, and the other time their rows come in another
    order."""

    batch: int
    seed: int
    order: Literal["before", "after"]
    instances: int


@dataclass(frozen=True, slots=True)
class Rival:
    """At this step of the driver somebody starts another join on the same folder. That must be refused."""

    batch: int
    step: str


@dataclass(frozen=True, slots=True)
class Damage:
    """At the first restart in this batch one file of the checkpoint is damaged. `kind`, `file` and `at` are in [0, 1).
    They pick the kind of file, the file among those, and the place in it."""

    batch: int
    how: str
    kind: float
    file: float
    at: float


Event: TypeAlias = "Kill | Fail | Stale | Twice | Rival | Damage"
EVENTS: dict[str, type[Event]] = {kind.__name__: kind for kind in (Kill, Fail, Stale, Twice, Rival, Damage)}
Lateness = Literal["none", "drop", "keep"]
Batch: TypeAlias = "tuple[tuple[int, ...], ...]"
"""By side the numbers of its rows."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run. Start n uses `starts[n]`, and the last of them once they are used up.

    delay      the watermark's delay; None: no watermark
    late       "none": no row is late. Otherwise what is done with late rows
    resume     after a restart the caller goes on with the batch that it remembers, or asks the join for the number
    """

    seed: int
    join: str
    disorder: int
    delay: int | None
    late: Lateness
    resume: Literal["remembered", "asked"]
    batches: tuple[Batch, ...]
    starts: tuple[Start, ...]
    events: tuple[Event, ...] = field(default=())

    @property
    def spec(self) -> Join:
        return JOINS[self.join]

    @property
    def options(self) -> dict[str, Any]:
        return self.spec.options(self.delay, "keep" if self.late == "keep" else "drop")

    def data(self) -> list[dict[str, pa.Table]]:
        """The rows of each batch by alias."""
        most = [
            max((n for batch in self.batches for n in batch[s]), default=-1) + 1 for s, _ in enumerate(self.spec.sides)
        ]
        sides = [side(self.seed, s, count, self.disorder) for s, count in enumerate(most)]
        return [
            {alias: sides[s].take(pa.array(batch[s], pa.int64())) for s, alias in enumerate(self.spec.sides)}
            for batch in self.batches
        ]

    def to_json(self) -> dict[str, Any]:
        events = [{"event": type(event).__name__, **asdict(event)} for event in self.events]
        return {**asdict(self), "events": events}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Case:
        batches = tuple(tuple(map(tuple, batch)) for batch in data["batches"])
        starts = tuple(Start(**start) for start in data["starts"])
        return cls(**{**data, "batches": batches, "starts": starts, "events": tuple(map(_event, data["events"]))})


def _event(data: dict[str, Any]) -> Event:
    details = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
    return EVENTS[details.pop("event")](**details)
