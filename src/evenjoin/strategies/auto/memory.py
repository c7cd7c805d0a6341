"""What `auto` remembers from batch to batch. It is part of the commit, so a restart goes on where the last driver was.

    seen        what the tasks of the last batches did and took: the cost model is fitted to it. Times of an instance
                that was known to be slow are those that it would have taken at the usual speed
    shadow      the plan that is watched, but not made yet; `credit` is what it would have saved since,
                and `about` says in words what it does, naming `key` ("" if it names none)
    former      the table before the last change; `earned` is what the change has saved since, `paid` what it cost
    failures    how many changes in a row had not earned their price when the next one came
    age         for how many batches there has been something that the shadow would save; `since`: the same of the last
                change, counted from when it was first watched; 0 once it saves nothing more
    lives       how many batches the last such things lasted
    moves       what the last migrations moved and took (price.py)
    ran         how many tasks ran at once, of the last batches that told something about the number of cores
    pace        how fast each instance is, and whether that is steady (slowness.py)

**Cores.** That k tasks ran at once proves k cores. That no more did proves nothing, unless tasks waited
(load/report.py): on Spark with two cores, tasks of 10 ms ran one at a time. So a batch is remembered if it shows at
least as many cores as are known, or if its tasks waited. The most of the last CORES_OF such batches are the cores there
are. A cluster that grows is seen at once, one that shrinks after CORES_OF batches with work to wait for; and batches
that are so small that their tasks do not overlap change nothing.

Invariant: `Memory.from_json(json.loads(json.dumps(memory.to_json()))) == memory` (rows are rounded when they are made).
Bounded: WINDOW batches of at most TASKS tasks each, two tables, and two numbers an instance.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evenjoin.load.cost import Seen
from evenjoin.placement.table import RoutingTable
from evenjoin.strategies.auto.price import Moves
from evenjoin.strategies.auto.slowness import Pace

WINDOW = 8
"""Batches that the cost model is fitted to."""
TASKS = 64
"""Tasks of a batch that are remembered: the longest, and others at even distances of rank."""
HOPE = 10.0
"""Batches that a saving is hoped to go on, when nothing is known of how long others did."""
LIVES = 8
"""Lives that are remembered."""
CORES_OF = 16
"""Batches that the number of cores is taken from."""

Rows = tuple[tuple[float, ...], ...]
"""Of each task its features and, last, its milliseconds."""


@dataclass(frozen=True, slots=True)
class Memory:
    seen: tuple[Rows, ...] = ()
    shadow: RoutingTable | None = None
    credit: float = 0.0
    about: str = ""
    former: RoutingTable | None = None
    earned: float = 0.0
    paid: float = 0.0
    failures: int = 0
    age: int = 0
    since: int = 0
    lives: tuple[int, ...] = ()
    moves: Moves = ()
    ran: tuple[int, ...] = ()
    pace: Pace = field(default_factory=Pace)
    key: str = ""

    @property
    def hope(self) -> float:
        """For how many batches more what the shadow saves is hoped to last: the mean of HOPE and of what remained of
        the lives that were at least as long as it has lasted already.

            lives 3, 3, 3    age 1: (2 + 2 + 2 + HOPE) / 4      age 3: HOPE / 4      age 4: HOPE, this one is different
        """
        rest = [life - self.age for life in self.lives if life >= self.age]
        return (HOPE + sum(rest)) / (1 + len(rest))

    def without_shadow(self) -> Memory:
        """What the shadow would save is over: it is forgotten with its credit, but not how long it lasted."""
        return self.unwatched().lived(self.age)

    def unwatched(self) -> Memory:
        """The memory without a shadow."""
        return replace(self, shadow=None, credit=0.0, about="", key="", age=0)

    def lived(self, batches: int) -> Memory:
        """The memory with one more life."""
        return replace(self, lives=(*self.lives, batches)[-LIVES:]) if batches else self

    @property
    def cores(self) -> int:
        """How many cores there are; 0 if that is not known."""
        return max(self.ran, default=0)

    def after(self, batch: Seen, at_once: int, limited: bool) -> Memory:
        """The memory with one more batch, in which so many tasks ran at once; `limited`, if others waited for them."""
        order = np.argsort(-batch.took_ms, kind="stable")
        half = TASKS // 2
        some = order if len(order) <= TASKS else np.concatenate([order[:half], order[half :: -(-len(order) // half)]])
        rows = np.column_stack([batch.features[some], batch.took_ms[some]])
        told: Rows = tuple(map(tuple, np.round(rows, 3).tolist()))
        kept = (*self.seen, told)[-WINDOW:] if told else self.seen
        tells = at_once > 0 and (limited or at_once >= self.cores)
        return replace(self, seen=kept, ran=(*self.ran, at_once)[-CORES_OF:] if tells else self.ran)

    @property
    def batches(self) -> list[Seen]:
        """What was seen, as arrays."""
        every = [np.array(rows, np.float64).reshape(len(rows), -1) for rows in self.seen]
        return [Seen(rows[:, :-1], rows[:, -1]) for rows in every]

    def to_json(self) -> dict[str, Any]:
        out = {name: getattr(self, name) for name in self.__slots__}
        for name in ("shadow", "former"):
            out[name] = out[name].to_json() if out[name] is not None else None
        return {**out, "pace": self.pace.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Memory:
        """What was written by this version or another: what it does not know is left out, what is missing is as at the
        start."""
        known = {name: value for name, value in data.items() if name in cls.__slots__}
        for name in ("shadow", "former"):
            known[name] = RoutingTable.from_json(known[name]) if known.get(name) else None
        known["seen"] = tuple(tuple(tuple(row) for row in rows) for rows in known.get("seen", ()))
        known["moves"] = tuple((float(tuples), float(took)) for tuples, took in known.get("moves", ()))
        for name in ("ran", "lives"):
            known[name] = tuple(known.get(name, ()))
        known["pace"] = Pace.from_json(known.get("pace", {}))
        return cls(**known)
