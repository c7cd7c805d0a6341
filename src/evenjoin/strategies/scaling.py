"""How many instances a join should have, from what its instances use of what they have.

    evenjoin.Scaling(task_capacity=1_000_000, max_instances=16)

Two things are measured after each batch, each as a part of what there is:

    room    stored tuples / (instances * room of an instance). An instance has room for `task_capacity` tuples, and for
            `task_memory` bytes of them; whichever is less
    time    the time that all tasks took together / (instances * the trigger's interval)

If one of them is above `scale_out` (80 %), there should be more instances. If both are below `scale_in` (50 %), there
should be fewer. That is what one batch says; how many batches must say so is in patience.py. The new number leaves
`scale_to` of the scarcer one used. By default that is halfway between both limits, so that the number does not swing.
With `scale_to` at `scale_out` there are as few instances as possible, and they change most often.

* Time asks for more instances only if all tasks ran at the same time. If they did not, the processors are what is
  scarce, and more tasks would only wait for them.
* Time is known only if the stream has a trigger with an interval. Batches that follow each other without a pause take
  all the time there is, however little that is.

Not considered: how full or busy a single instance is. Only the sum over all instances counts; one that has more than
others is for the strategy to relieve, and no reason for more of them.
Pure. Not here: how much memory there is (runtime/settings.py), and which table has that number of instances.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, isfinite

import numpy as np

from evenjoin.errors import SpecError
from evenjoin.load.items import Items


@dataclass(frozen=True, slots=True)
class Used:
    """What the instances use, as parts of what there is; `time` is 0 if it is not known. `together` says whether all
    tasks ran at the same time."""

    room: float
    time: float = 0.0
    together: bool = False


@dataclass(frozen=True, slots=True)
class Scaling:
    """The limits of scaling with `instances="auto"`.

    task_capacity: stored tuples an instance has room for; None: only its memory limits them.
    min_instances, max_instances: the fewest instances, with which a new join starts, and the most.
    scale_in, scale_out: the number of instances changes when less or more than this part of what there is is used.
    scale_to: the part that the new number leaves used; None is halfway between both.
    task_memory: bytes of stored tuples an instance has room for. If neither this nor `task_capacity` is given, a
        quarter of the driver machine's memory is shared by as many instances as it has cores.
    """

    task_capacity: float | None = None
    min_instances: int = 1
    max_instances: int = 64
    scale_in: float = 0.5
    scale_out: float = 0.8
    scale_to: float | None = None
    task_memory: float | None = None

    def __post_init__(self) -> None:
        for name, what in (("task_capacity", "stored tuples"), ("task_memory", "bytes of stored tuples")):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and value > 0):
                raise SpecError(f"{name}={value!r}: {what} an instance has room for, above 0")
        least, most = self.min_instances, self.max_instances
        if not (type(least) is int and type(most) is int and 1 <= least <= most):
            raise SpecError(f"min_instances={least!r}, max_instances={most!r}: whole numbers, 1 <= min <= max")
        low, high = self.scale_in, self.scale_out
        if not (_is_number(low) and _is_number(high) and 0 <= low < high <= 1):
            raise SpecError(f"scale_in={low!r}, scale_out={high!r}: 0 <= scale_in < scale_out <= 1")
        if (self.scale_to is not None and not _is_number(self.scale_to)) or not low < self.fill <= high:
            raise SpecError(f"scale_to={self.scale_to!r}: scale_in < scale_to <= scale_out")

    @property
    def fill(self) -> float:
        """The part of what there is that a new number of instances leaves used."""
        return (self.scale_in + self.scale_out) / 2 if self.scale_to is None else self.scale_to

    def capacity(self, items: Items) -> float:
        """How many stored tuples an instance has room for, given the bytes that each side's take."""
        most = inf if self.task_capacity is None else self.task_capacity
        if self.task_memory is None or not items.sizes:
            return most
        stored = items.stored.sum(axis=1)[: len(items.sizes)]
        sizes = np.array(items.sizes)[: len(stored)]
        each = float(sizes @ stored / stored.sum()) if stored.sum() > 0 else float(sizes.max())
        return min(most, self.task_memory / each)

    def used(self, items: Items, instances: int) -> Used:
        """What so many instances use, had these items met them."""
        capacity = self.capacity(items)
        room = float(items.stored.sum()) / (instances * capacity) if isfinite(capacity) else self.fill
        return Used(room, items.busy / instances, items.cores >= instances)

    def instances_for(self, used: Used, now: int) -> int:
        """How many instances there should be: as many as now while they are neither too full nor too empty, else as
        many as leave the part `fill` used, within the limits."""
        by_time = self._enough(used.time, now)
        wanted = max(self._enough(used.room, now), by_time if used.together else min(by_time, now))
        return now if wanted == now else min(max(wanted, self.min_instances), self.max_instances)

    def _enough(self, used: float, now: int) -> int:
        """The same for one of the two."""
        return now if self.scale_in <= used <= self.scale_out else ceil(round(now * used / self.fill, 9))

    def pressure(self, used: Used, now: int) -> float:
        """Above 1 if another number of instances is called for and within the limits; else 0."""
        wanted = self.instances_for(used, now)
        if wanted == now:
            return 0.0
        most = max(used.room, used.time if used.together or wanted < now else 0.0)
        if wanted > now:
            return most / self.scale_out
        return min(self.scale_in / most, 1e9) if most > 0 else 1e9


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
