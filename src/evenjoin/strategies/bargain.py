"""Whether other areas, or another grid, of as many tasks repay what the change costs: what `auto` asks on bands.

    (batches that it has been called for + HOPE) * what it saves of a batch  >  MARGIN * price        then it is made

This is the rule of `auto` for keys (auto/planner.py) with what is known here: a batch of areas is judged by its volume,
so the cost model is not fitted, but its defaults are scaled to what all tasks of the batch took together. The hope is a
constant, and nothing is remembered but since when the change has been called for. What a table is to save is the
difference of two forecasts (load/cost.py): how long the tasks take on the cores there are.

Growth is not asked: a task that is too full is given more tasks whatever that costs. Nor are fewer tasks, which have a
guard of their own (runtime/rebalance.py). Where tasks were not timed, nothing is known, and the change is made.
Not guaranteed: that results are where the tuples are. Of areas the results of a batch are spread over the tasks by the
product of what they store, so one hot value in a large area costs more than this says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenjoin.load.cost import DEFAULTS, SEND, Cost, makespan
from evenjoin.load.items import Items
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import RoutingTable
from evenjoin.strategies.auto.memory import HOPE
from evenjoin.strategies.auto.price import Price
from evenjoin.strategies.auto.words import Words

MARGIN = 1.25


@dataclass(frozen=True, slots=True)
class Bargain:
    """What a change saves of a batch, how long its tasks take, and what the change costs once, in ms."""

    saving: float
    usual: float
    price: float

    def earned(self, batches: int) -> float:
        """The part of what is needed that is earned when the change has been called for in so many batches."""
        needed = MARGIN * self.price
        return max(self.saving, 0.0) * (batches + HOPE) / needed if needed > 0 else np.inf

    def words(self, about: str) -> Words:
        return Words(about, max(self.saving, 0.0), self.usual, self.price)


def bargain(report: LoadReport, items: Items, old: RoutingTable, new: RoutingTable, moves: int) -> Bargain | None:
    """The bargain of going from one table to another of as many tasks; None if the batch's tasks were not timed."""
    took = sum(load.elapsed_ms for load in report.instances)
    usual = Cost(DEFAULTS, SEND).tasks(items, old)
    if took <= 0 or usual.sum() <= 0:
        return None
    speed, cores = took / float(usual.sum()), min(report.cores or old.instances, old.instances)
    before = speed * makespan(usual, cores)
    after = speed * makespan(Cost(DEFAULTS, SEND).tasks(items, new), cores)
    return Bargain(before - after, before, Price(cores).of(moves))
