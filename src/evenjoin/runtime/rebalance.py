"""Whether a batch's load calls for another table: the monitor and the guards around every planner.

    report -> items -> imbalance > alert? -> plan -> check -> guards -> the table of the next batch

The guards are the same for all planners and judge only what a change touches: the instances whose load it changes.

* cool-down: no plan in the `cooldown` batches after a rebalance, so that its effect is seen first, nor in the first
  batches of all, when there is no state yet
* gain: on some side (row of the strategy's load) the heaviest load among the touched units must sink by `min_gain` of
  itself, and the work that instances are relieved of must be `min_work` tuples and results a batch
  (where the number of instances changes, or a matrix of cells, the planner's own imbalance must sink or the load of the
  fullest instance: a task that is too full is worse than tasks that are too many)
* budget: no more than `budget` stored tuples may move at once (not judged when the buckets themselves change, as they
  do when a keyed table scales out or in: then nearly everything moves, and that is what was asked for)

Pure but for the clock, which comes in. A strategy without counts (`tracked` 0) cannot be judged: its tables, if it
proposes any, are only checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenjoin.load.items import Items, is_matrix, items_of, moved_tuples, work_by_instance
from evenjoin.load.report import LoadReport
from evenjoin.placement.check import check
from evenjoin.placement.table import RoutingTable
from evenjoin.strategies.base import Strategy


@dataclass(frozen=True, slots=True)
class Guards:
    """Limits on rebalancing; see above. `budget` None is no limit."""

    cooldown: int = 1
    min_gain: float = 0.05
    min_work: float = 1000.0
    budget: int | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The table to use next, and what led to it: recorded in the commit."""

    table: RoutingTable
    note: dict[str, Any]


def decide(
    strategy: Strategy, report: LoadReport, table: RoutingTable, guards: Guards, rebalanced: int | None,
    now: Callable[[], float],
) -> Decision:  # fmt: skip
    """What to do after a batch. `rebalanced` is the batch of the last rebalance, `now` a clock in seconds."""
    items = items_of(report, table)
    started = now()
    before = strategy.imbalance(items, table)
    note: dict[str, Any] = {"imbalance": round(before, 4), "rebalanced": rebalanced}
    if strategy.tracked and before <= strategy.alert:
        return Decision(table, {**note, "verdict": "even"})
    if strategy.tracked and report.batch - (-1 if rebalanced is None else rebalanced) <= guards.cooldown:
        return Decision(table, {**note, "verdict": "cooling down"})
    planned = strategy.plan(report, items, table)
    if planned is None or planned is table:
        return Decision(table, {**note, "verdict": "no better table" if strategy.tracked else "none"})
    note["planner_ms"] = round((now() - started) * 1000, 3)
    check(planned)
    if strategy.tracked:
        moves = round(moved_tuples(items, table, planned)) if items.fit(planned) else None
        note |= {"forecast": round(strategy.imbalance(items, planned), 4), "moves": moves}
        refused = _refused(strategy, items, table, planned, guards, moves)
        if refused:
            return Decision(table, {**note, "verdict": refused})
    return Decision(planned, {**note, "verdict": "rebalance", "rebalanced": report.batch})


def _refused(
    strategy: Strategy, items: Items, old: RoutingTable, new: RoutingTable, guards: Guards, moves: int | None
) -> str | None:
    """Why the guards refuse a table; None if they let it pass."""
    if guards.budget is not None and moves is not None and moves > guards.budget:
        return f"over budget: {moves:,} tuples would move, {guards.budget:,} may"
    if is_matrix(old) or is_matrix(new) or old.instances != new.instances:
        was, will_be = strategy.imbalance(items, old), strategy.imbalance(items, new)
        if will_be < was or (
            items.fit(new) and np.nanmax(strategy.load(items, new)) < np.nanmax(strategy.load(items, old))
        ):
            return None
        return f"gain too small: the imbalance would go from {was:.2f} to {will_be:.2f}"
    before, after = strategy.load(items, old), strategy.load(items, new)
    touched = ~((before == after) | (np.isnan(before) & np.isnan(after)))
    if not touched.any():
        return "gain too small: no unit's load changes"
    peaks, lower = (np.nanmax(np.where(touched, loads, 0.0), axis=1) for loads in (before, after))
    gains = peaks - lower
    if not ((gains > 0) & (gains >= guards.min_gain * peaks)).any():
        return f"gain too small: the heaviest unit's load would go from {peaks.max():,.0f} to {lower.max():,.0f}"
    relief = work_by_instance(items, old) - work_by_instance(items, new)
    relieved = float(relief[relief > 0].sum())
    if relieved < guards.min_work:
        return f"gain too small: instances are relieved of {relieved:,.0f} tuples and results a batch"
    return None
