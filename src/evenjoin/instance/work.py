"""Work: everything the instances of one batch are told.

`Work` is the same for all instances of a batch and travels to the tasks, so it holds values only: the join, the
program, the routing table, and the runs that the last commit (or the migration after it) named.

Guarantee: the same work and arrivals give the same results, however often and wherever they are run. Only the names of
the files written differ: by start, try, and the `attempt` that the task is given.
Not here: what an instance does with its work (batch.py), and who makes it (runtime/driver.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from evenjoin.instance.program import Program
from evenjoin.instance.results import Staged
from evenjoin.load.samples import USUAL_GRAIN, Grain
from evenjoin.placement.place import At, stored_here
from evenjoin.placement.table import RoutingTable
from evenjoin.spec import JoinSpec
from evenjoin.state.manifest import Place
from evenjoin.state.packs import Rows, Schema
from evenjoin.state.segment import Run


@dataclass(frozen=True, slots=True)
class Work:
    """One batch, as its instances see it. `schemas` and `sub_windows` are by store, `runs` by place.

    start       the number of the start of the join, and
    trial       the number of the try of this batch: both are in the name of every file that a task writes
    seed        of the hashes of this checkpoint
    masks       the tables that masked runs name, by that name
    tracked     how many heavy keys each instance reports, with what is stored of them and of each cell;
                0: nobody wants stored counts, and HEAVY_KEYS are reported without them
    watched     by instance the codes of keys that it counts, heavy or not (load/watch.py)
    sampling    whether dispatch samples codes for the planner, and
    grain       how many points stand for a side then
    time_limit  rows with a later event time are set aside (runtime/ahead.py); None: none are
    order       the instances in the order in which their tasks should start (of another number of instances: by number)
    step        called with (name of the step, instance) at each step of an instance; tests make it crash
    results     where instances write their results as files (results.py); None: whoever runs them takes the results
    """

    spec: JoinSpec
    program: Program
    schemas: tuple[Schema, ...]
    batch: int
    start: int
    trial: int
    seed: int
    table: RoutingTable
    masks: Mapping[str, RoutingTable]
    runs: Mapping[Place, tuple[Run, ...]]
    sub_windows: tuple[int | None, ...]
    merge_budget: int
    pair_limit: int
    tracked: int = 0
    watched: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    sampling: Literal["none", "codes"] = "none"
    grain: Grain = USUAL_GRAIN
    redact: bool = False
    time_limit: int | None = None
    order: tuple[int, ...] = ()
    step: Callable[[str, int], None] | None = None
    results: Staged | None = None

    @property
    def mark(self) -> str:
        """Start and try, as they stand in the names of files."""
        return f"s{self.start}t{self.trial}"

    @property
    def instance_of(self) -> tuple[int, ...]:
        """The instance that each task has, by the number of the task: the heaviest first, as the last report has them.
        By number, if nothing is known of so many instances, as after a restart with another size."""
        fits = len(self.order) == self.table.instances
        return self.order if fits else tuple(range(self.table.instances))

    @property
    def task_of(self) -> dict[int, int]:
        """The number of each instance's task."""
        return {instance: task for task, instance in enumerate(self.instance_of)}

    @property
    def pack_names(self) -> dict[int, str]:
        """The stores of packs by number, named after who makes them at whose units (`s@r`)."""
        program, sides = self.program, [side.alias for side in self.spec.sides]
        return {
            number: "pairs" if store.anchor is None else f"{sides[program.order[store.latest]]}@{sides[store.group]}"
            for number, store in enumerate(program.stores)
            if store.packs
        }

    def side_of(self, alias: str) -> int:
        """The number of the side with this alias."""
        return next(number for number, side in enumerate(self.spec.sides) if side.alias == alias)

    def alive(self, instance: int, store: int, run: Run, tuples: Rows) -> npt.NDArray[np.bool_] | None:
        """Which tuples of a run of this instance are alive: None for all, else those that its mask's table stores
        here."""
        return None if run.mask is None else self.alive_at(instance, store, run, tuples.at)

    def alive_at(self, instance: int, store: int, run: Run, at: At) -> npt.NDArray[np.bool_]:
        """The same for some tuples of a masked run, by what placement knows of them."""
        assert run.mask is not None
        table, group = self.masks[run.mask], self.program.stores[store].group
        return stored_here(table, group, at, run.number_in_mask(instance))


def sub_window_widths(spec: JoinSpec, program: Program, asked: int | None) -> tuple[int | None, ...]:
    """By store, the width of its sub-windows; None for a store whose rows never expire, which is not cut.

    `asked` is the user's own width. Without one the width is the larger of two: a quarter of the largest watermark
    delay, and a quarter of the widest span of times that an edge allows (of a windowed join: the size of its window).
    """
    span = max(((edge.high or 0) - (edge.low or 0) for edge in spec.edges), default=0)
    if spec.window is not None:
        span = spec.window[0] * 4
    delay = max((side.delay or 0 for side in spec.sides), default=0)
    width = asked or max(span // 4, delay // 4, 1)
    return tuple(None if store.horizon is None else width for store in program.stores)
