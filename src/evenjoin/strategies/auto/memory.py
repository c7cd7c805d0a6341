"""What `auto` remembers from batch to batch. It is part of the commit, so a restart goes on where the last driver was.

    seen        what the tasks of the last batches did and took: the cost model is fitted to it
    shadow      the plan that is watched, but not made yet; `credit` is what it would have saved since,
                and `about` says in words what it does
    former      the table before the last change; `earned` is what the change has saved since, `paid` what it cost
    failures    how many changes in a row had not earned their price when the next one came
    factor      of the price of migrations (price.py)
    cores       the most tasks that ever ran at once

Invariant: `Memory.from_json(json.loads(json.dumps(memory.to_json()))) == memory` (rows are rounded when they are made).
Bounded: WINDOW batches of at most TASKS tasks each, and two tables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenjoin.load.cost import Seen
from evenjoin.placement.table import RoutingTable

WINDOW = 8
"""Batches that the cost model is fitted to."""
TASKS = 64
"""Tasks of a batch that are remembered: the longest, and others at even distances of rank."""

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
    factor: float = 1.0
    cores: int = 0

    def after(self, batch: Seen, cores: int) -> Memory:
        """The memory with one more batch."""
        order = np.argsort(-batch.took_ms, kind="stable")
        half = TASKS // 2
        some = order if len(order) <= TASKS else np.concatenate([order[:half], order[half :: -(-len(order) // half)]])
        rows = np.column_stack([batch.features[some], batch.took_ms[some]])
        told: Rows = tuple(map(tuple, np.round(rows, 3).tolist()))
        kept = (*self.seen, told)[-WINDOW:] if told else self.seen
        return replace(self, seen=kept, cores=max(self.cores, cores))

    @property
    def batches(self) -> list[Seen]:
        """What was seen, as arrays."""
        every = [np.array(rows, np.float64).reshape(len(rows), -1) for rows in self.seen]
        return [Seen(rows[:, :-1], rows[:, -1]) for rows in every]

    def to_json(self) -> dict[str, Any]:
        out = {name: getattr(self, name) for name in self.__slots__}
        for name in ("shadow", "former"):
            out[name] = out[name].to_json() if out[name] is not None else None
        return out

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Memory:
        """What was written by this version or another: what it does not know is left out, what is missing is as at the
        start."""
        known = {name: value for name, value in data.items() if name in cls.__slots__}
        for name in ("shadow", "former"):
            known[name] = RoutingTable.from_json(known[name]) if known.get(name) else None
        known["seen"] = tuple(tuple(tuple(row) for row in rows) for rows in known.get("seen", ()))
        return cls(**known)
