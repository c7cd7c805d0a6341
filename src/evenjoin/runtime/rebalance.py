"""Whether a batch's load calls for another table: the monitor and the guards around every planner.

    report -> items -> imbalance > alert? -> plan -> check -> guards -> the table of the next batch

The guards are the same for all planners. They judge only the units whose load a change touches.

* cool-down: nothing is planned in the `cooldown` batches after a rebalance, so that its effect is seen first. Nothing
  is planned in the first `cooldown` batches of all, when there is hardly any state.
* gain: in some row of the strategy's load (a side, as a rule) the heaviest load among the touched units must sink by
  `min_gain` of itself. Besides, instances must be relieved of `min_work` tuples and results a batch, or, if the
  strategy has a method `relieved`, of as much of what it balances (D-JB may balance stored tuples).
  Where the number of instances changes, or there is a matrix of cells, another rule holds: the strategy's own imbalance
  must sink, or the load of the fullest instance. A task that is too full is worse than too many tasks.
* budget: no more than `budget` stored tuples may move at once. This is not judged when the buckets themselves change,
  as they do when a keyed table scales out or in. Then nearly everything moves, and that is what was asked for.

Guarantee: a table that would lose or repeat a result never gets out of here; `check` raises a TableError.
Pure: the clock comes in as an argument. A strategy whose `alert` is infinite never comes here (advance.py). A strategy
without counts (`tracked` 0) cannot be judged: its tables are checked, but no guard judges them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from evenjoin.events import Verdict
from evenjoin.load.items import Change, Items, change, planning_items
from evenjoin.load.report import LoadReport
from evenjoin.placement.check import check
from evenjoin.placement.table import RoutingTable
from evenjoin.runtime.settings import Guards
from evenjoin.strategies.base import Stay, Strategy


@dataclass(frozen=True, slots=True)
class Decision:
    """The table to use next, and what led to it: recorded in the commit."""

    table: RoutingTable
    verdict: Verdict


def decide(
    strategy: Strategy, report: LoadReport, table: RoutingTable, guards: Guards, rebalanced: int | None,
    now: Callable[[], float],
) -> Decision:  # fmt: skip
    """The table for the batch after this one. `rebalanced` is the batch of the last rebalance, `now` a clock in
    seconds."""
    items = planning_items(report, table)
    started = now()
    before = strategy.imbalance(items, table)
    verdict = Verdict(report.batch, round(before, 4), "even", rebalanced)
    if strategy.tracked and before <= strategy.alert:
        return Decision(table, verdict)
    if strategy.tracked and report.batch - (-1 if rebalanced is None else rebalanced) <= guards.cooldown:
        return Decision(table, replace(verdict, sentence="cooling down"))
    planned = strategy.plan(report, items, table)
    if planned is None or planned is table:
        return Decision(table, replace(verdict, sentence="no better table"))
    if isinstance(planned, Stay):
        return Decision(table, replace(verdict, sentence=planned.why))
    verdict = replace(verdict, planner_ms=round((now() - started) * 1000, 3))
    check(planned)
    if strategy.tracked:
        what = change(items, table, planned)
        verdict = replace(verdict, forecast=round(strategy.imbalance(items, planned), 4), moves=what.moves)
        refused = _refused(strategy, items, table, planned, guards, what)
        if refused:
            return Decision(table, replace(verdict, sentence=refused))
    return Decision(planned, replace(verdict, sentence="rebalance", rebalanced=report.batch))


def _refused(
    strategy: Strategy, items: Items, old: RoutingTable, new: RoutingTable, guards: Guards, what: Change
) -> str | None:
    """Why the guards refuse the new table, as a sentence; None if they let it pass."""
    if guards.budget is not None and what.moves is not None and what.moves > guards.budget:
        return f"over budget: {what.moves:,} tuples would move, {guards.budget:,} may"
    if what.kind == "size":
        was, will_be = strategy.imbalance(items, old), strategy.imbalance(items, new)
        if will_be < was or (
            what.moves is not None and np.nanmax(strategy.load(items, new)) < np.nanmax(strategy.load(items, old))
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
    by_its_own: Callable[[Items, RoutingTable, RoutingTable], float] | None = getattr(strategy, "relieved", None)
    relieved = what.relieved if by_its_own is None else by_its_own(items, old, new)
    if relieved < guards.min_work:
        return f"gain too small: instances are relieved of {relieved:,.0f} tuples and results a batch"
    return None
