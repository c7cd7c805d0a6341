"""Whether a batch's load calls for another table: the monitor and the guards around every planner.

    report -> items -> imbalance > alert? -> plan -> check -> guards -> the table of the next batch

The guards are the same for all planners. They judge only the units whose load a change touches.

* cool-down: nothing is planned in the `cooldown` batches after a rebalance, so that its effect is seen first. Nothing
  is planned in the first `cooldown` batches of all, when there is hardly any state.
* gain: in some row of the strategy's load (a side, as a rule) the heaviest load among the touched units must sink by
  `min_gain` of itself. Besides, instances must be relieved of `min_work` tuples and results a batch (by
  default 4 % of those of the median instance), or, if the strategy has a method `relieved`, of as much of what it
  balances (D-JB may balance stored tuples).
* chance: that load must sink by more than chance may have made it heavy (load/items.py). Counts of few tuples are
  uneven though the stream is not, and a plan for them would have to be made again after the next batch. A key with a
  large part of all tuples is far beyond that, however few they are. A strategy that balances what is counted exactly
  (D-JB with stored tuples) says so by a property `exact`, and is not asked this; nor is anybody if `min_gain` is 0.
* another size: where the number of instances changes, or there is a matrix of cells, gain is judged by another rule.
  The strategy's own imbalance must sink by `min_gain`, or the load of the fullest instance. Both are forecasts, of the
  old table too: what one batch happened to leave uneven is not a gain. A task that is too full is worse than too many
  tasks, so more tasks for it need no other gain.
* tasks saved: while no task is too full, Square, Dynamic and A-DSP may move up to WORTH times what a task stores for
  each task that a plan saves. A plan that saves one task and moves everything is refused; if it saves many, it passes.
* budget: no more than `budget` stored tuples may move at once. It holds for another number of instances too. Only where
  a strategy makes a new table whose buckets do not refine the old ones, nobody can say what moves, and it passes.

A strategy that weighs (`auto`) judges gain and price itself; cool-down and budget hold for it too. On bands `auto` does
not weigh: there a plan of as many tasks that passes the guards must also have earned its price (strategies/bargain.py).
Records of keys that are for nothing are dropped from a plan before it is judged (strategies/edit.py).

Guarantee: a table that would lose or repeat a result never gets out of here; `check` raises a TableError.
Pure: the clock comes in as an argument. A strategy whose `alert` is infinite never comes here (advance.py). A strategy
without counts (`tracked` 0) cannot be judged: its tables are checked, but no guard judges them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evenjoin.events import Verdict
from evenjoin.load.items import F64, Change, Items, change, deviations, furthest, planning_items, work_by_instance
from evenjoin.load.refined import comparable
from evenjoin.load.report import LoadReport
from evenjoin.placement.check import check
from evenjoin.placement.pieces import stored_volume
from evenjoin.placement.table import RoutingTable
from evenjoin.runtime.settings import Guards
from evenjoin.strategies.bargain import bargain
from evenjoin.strategies.base import NO_PAST, Limits, Past, Stay, Strategy, Weighing
from evenjoin.strategies.edit import bounded
from evenjoin.strategies.elastic import Elastic, having_seen, remembering, resizing
from evenjoin.strategies.hypercube import Hypercube
from evenjoin.strategies.ordered import Ordered
from evenjoin.strategies.sized import Sized
from evenjoin.strategies.volume_words import plans, stays

Bools = npt.NDArray[np.bool_]
WORTH = 2.0
"""To dissolve a task is to move about what it stores. A plan may move this many times as much for each task that it
saves."""
LEAST_PART = 0.04
"""A rebalance must relieve instances of this part of what the median instance does in a batch, unless `min_work` says
how much. A part of the whole batch would be too much on many instances: on a hundred, an instance that is a fifth above
the mean has 0.2 % of the batch too much. And where one hot key is most of the work, it would hide all others."""
LEAST_WORK = 100.0
"""Fewer tuples and results are not worth a rebalance, however small batches are: a task takes longer to start."""
CHANCE = 1.5
"""So many times what chance makes of the furthest unit is no reason for a rebalance. With 1, streams of 60 rows a unit
and side had up to three rebalances in 40 stationary batches. Where a unit has thousands of rows of light keys,
`min_gain` asks for more than this does."""

CALLED = "called for"
"""Under which name the memory of a commit has the table that a change has been called for at, and in how many
batches."""
ANEW = "rebalance: buckets are cut anew, and how even they will be is not foreseen"
"""The sentence for a table whose buckets are no parts of those that the load was counted by."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The table to use next, and what led to it: recorded in the commit. `order` is the one in which the next batch
    should start the instances of another table, if that can be foreseen."""

    table: RoutingTable
    verdict: Verdict
    memory: dict[str, Any] | None = None
    order: tuple[int, ...] = ()


def decide(
    strategy: Strategy, report: LoadReport, table: RoutingTable, guards: Guards, rebalanced: int | None,
    now: Callable[[], float], items: Items | None = None, past: Past = NO_PAST,
) -> Decision:  # fmt: skip
    """The table for the batch after this one. `rebalanced` is the batch of the last rebalance, `now` a clock in
    seconds. `items` are those that planners see, if they are known already; `past` is for strategies that remember."""
    items = planning_items(report, table) if items is None else items
    sizes = isinstance(strategy, (Elastic, Ordered))
    strategy = having_seen(strategy, past.memory, items, table) if sizes else strategy
    decision = _decided(strategy, report, table, guards, rebalanced, now, items, past)
    balances = strategy.inner if isinstance(strategy, Elastic) else strategy
    if isinstance(balances, (Sized, Hypercube)):
        decision = replace(decision, verdict=_in_volumes(balances, items, table, decision))
    decision = replace(decision, memory=remembering(strategy, decision.memory)) if sizes else decision
    if decision.table is table:
        return decision
    return replace(decision, order=longest_first(items, table, decision.table))


def longest_first(items: Items, old: RoutingTable, new: RoutingTable) -> tuple[int, ...]:
    """The instances of a new table by the work that is foreseen of them, most first; () if nothing is."""
    seen = items if items.fit(new) else comparable(items, old, new).items
    if not seen.fit(new):
        return ()
    return tuple(np.argsort(-work_by_instance(seen, new), kind="stable").tolist())


def _decided(
    strategy: Strategy, report: LoadReport, table: RoutingTable, guards: Guards, rebalanced: int | None,
    now: Callable[[], float], items: Items, past: Past,
) -> Decision:  # fmt: skip
    started = now()
    cooling = report.batch - (-1 if rebalanced is None else rebalanced) <= guards.cooldown
    if isinstance(strategy, Weighing):
        return _weighed(strategy, report, table, items, past, Limits(guards.budget, cooling), rebalanced, now)
    before = strategy.imbalance(items, table)
    verdict = Verdict(report.batch, round(before, 4), "even", rebalanced)
    if strategy.tracked and before <= strategy.alert:
        return Decision(table, verdict)
    if strategy.tracked and cooling:
        return Decision(table, replace(verdict, sentence="cooling down"))
    planned = (strategy.explained(items, table) if isinstance(strategy, Sized) else None) or strategy.plan(
        report, items, table
    )
    if planned is None or planned is table:
        return Decision(table, replace(verdict, sentence="no better table"))
    if isinstance(planned, Stay):
        return Decision(table, replace(verdict, sentence=planned.why))
    verdict = replace(verdict, planner_ms=round((now() - started) * 1000, 3))
    return _judged(strategy, report, items, table, planned, guards, past, verdict)


def _judged(
    strategy: Strategy, report: LoadReport, items: Items, table: RoutingTable, planned: RoutingTable, guards: Guards,
    past: Past, verdict: Verdict,
) -> Decision:  # fmt: skip
    """The decision on a plan: proved by `check`, and judged by the guards."""
    if strategy.tracked and len(table.compiled.key_codes):
        planned = bounded(table, planned, report)
    check(planned)
    if strategy.tracked:
        seen, old, new = (items, table, planned) if items.fit(planned) else comparable(items, table, planned)
        what = change(seen, old, new)
        foreseen = round(strategy.imbalance(seen, new), 4) if seen.fit(new) else None
        verdict = replace(verdict, forecast=foreseen, moves=what.moves)
        refused = _refused(strategy, seen, old, new, guards, what)
        if refused:
            return Decision(table, replace(verdict, sentence=refused))
        if isinstance(strategy, Sized) and new.instances == old.instances and strategy.must_earn(items, old):
            return _bargained(report, seen, old, new, past, verdict)
    unforeseen = strategy.tracked and verdict.forecast is None
    sentence = ANEW if unforeseen else "rebalance"
    if planned.instances != table.instances:
        sentence = resizing(strategy, items, table, planned) or sentence
    return Decision(planned, replace(verdict, sentence=sentence, rebalanced=report.batch))


def _weighed(
    strategy: Weighing, report: LoadReport, table: RoutingTable, items: Items, past: Past, limits: Limits,
    rebalanced: int | None, now: Callable[[], float],
) -> Decision:  # fmt: skip
    """The decision of a strategy that weighs."""
    started = now()
    weighed = strategy.weigh(report, items, table, past, limits)
    taken = round((now() - started) * 1000, 3)
    verdict = Verdict(
        report.batch, weighed.imbalance, weighed.sentence, rebalanced, taken, weighed.forecast, weighed.moves,
        key=weighed.key,
    )  # fmt: skip
    if weighed.table is None or weighed.table is table:
        return Decision(table, verdict, weighed.memory)
    return Decision(check(weighed.table), replace(verdict, rebalanced=report.batch), weighed.memory)


def _bargained(
    report: LoadReport, items: Items, old: RoutingTable, new: RoutingTable, past: Past, verdict: Verdict
) -> Decision:  # fmt: skip
    """The decision on a plan of as many tasks, once no guard refuses it: it is made when it has earned its price."""
    table, batches = (past.memory or {}).get(CALLED, ("", 0))
    batches = batches + 1 if table == old.name else 1
    found = bargain(report, items, old, new, verdict.moves or 0)
    if found is None or found.earned(batches) > 1:
        words = "rebalance" if found is None else found.words("which").doing()
        return Decision(new, replace(verdict, sentence=words, rebalanced=report.batch))
    words = found.words("a new plan").waiting(found.earned(batches))
    return Decision(old, replace(verdict, sentence=words), {CALLED: [old.name, batches]})


def _in_volumes(strategy: Sized | Hypercube, items: Items, table: RoutingTable, decision: Decision) -> Verdict:
    """The verdict of a strategy that balances what tasks store, in words for people."""
    verdict, load = decision.verdict, strategy.load(items, table)[0]
    unit = "bytes" if isinstance(strategy, Sized) and strategy.unit == "bytes" and items.sizes else "tuples"
    if not verdict.calls_for_rebalance:
        return replace(verdict, sentence=stays(load, unit, verdict.sentence))
    about = plans(load, unit, strategy.load(items, decision.table)[0], verdict.moves)
    why = verdict.sentence.removeprefix("rebalance").removeprefix(": ")
    return replace(verdict, sentence=f"{about}{', ' if why else ''}{why or ': doing it'}")


def _refused(
    strategy: Strategy, items: Items, old: RoutingTable, new: RoutingTable, guards: Guards, what: Change
) -> str | None:
    """Why the guards refuse the new table, as a sentence; None if they let it pass."""
    if guards.budget is not None and what.moves is not None and what.moves > guards.budget:
        return f"over budget: {what.moves:,} tuples would move, {guards.budget:,} may"
    if what.kind == "size":
        return _refused_size(strategy, items, old, new, guards, what)
    before, after = strategy.load(items, old), strategy.load(items, new)
    touched = ~((before == after) | (np.isnan(before) & np.isnan(after)))
    if not touched.any():
        return "gain too small: no unit's load changes"
    peaks, lower = (np.nanmax(np.where(touched, loads, 0.0), axis=1) for loads in (before, after))
    gains = peaks - lower
    if not ((gains > 0) & (gains >= guards.min_gain * peaks)).any():
        return f"gain too small: the heaviest unit's load would go from {peaks.max():,.0f} to {lower.max():,.0f}"
    if guards.min_gain > 0 and not getattr(strategy, "exact", False):
        chance = _by_chance(items, old, before, touched) * peaks
        if not (gains > chance).any():
            gain, least = gains[gains.argmax()], chance[gains.argmax()]
            return (
                f"may be chance: the heaviest unit's load would sink by {gain:,.0f}, and chance explains {least:,.0f}"
            )
    by_its_own: Callable[[Items, RoutingTable, RoutingTable], float] | None = getattr(strategy, "relieved", None)
    relieved = what.relieved if by_its_own is None else by_its_own(items, old, new)
    if relieved < _least_work(guards, items, old):
        return f"gain too small: instances are relieved of {relieved:,.0f} tuples and results a batch"
    return None


def _by_chance(items: Items, table: RoutingTable, load: F64, touched: Bools) -> F64:
    """[rows] By what part of itself the heaviest touched load of each row may be off though the stream is even: CHANCE
    times what the furthest of its units is off, were all as uncertain as that one."""
    off, units = deviations(items, table), (~np.isnan(load)).sum(axis=1)
    heaviest = np.where(touched, load, -1.0).argmax(axis=1)
    out: F64 = CHANCE * np.array([furthest(int(many)) for many in units]) * off[heaviest]
    return out


def _least_work(guards: Guards, items: Items, table: RoutingTable) -> float:
    """How many tuples and results a batch instances must be relieved of."""
    if guards.min_work is not None:
        return guards.min_work
    return max(LEAST_PART * float(np.median(work_by_instance(items, table))), LEAST_WORK)


def _refused_size(
    strategy: Strategy, items: Items, old: RoutingTable, new: RoutingTable, guards: Guards, what: Change
) -> str | None:
    """The same for another number of instances, or a matrix of cells."""
    full = isinstance(strategy, (Sized, Elastic)) and strategy.is_overfull(items, old)
    foreseen = replace(items, held=None)
    was, will_be = (strategy.imbalance(foreseen, table) for table in (old, new))
    if not (full and new.instances > old.instances) and not _sinks(was, will_be, guards):
        loads = (
            [strategy.load(foreseen, table) for table in (old, new)] if what.moves is not None else [np.zeros(1)] * 2
        )
        if not _sinks(float(np.nanmax(loads[0])), float(np.nanmax(loads[1])), guards):
            return f"gain too small: the imbalance would go from {was:.2f} to {will_be:.2f}"
    saved = old.instances - new.instances
    if isinstance(strategy, Sized) and what.moves is not None and saved > 0 and not full:
        task = float(stored_volume(old, items.alive).sum()) / old.instances
        if what.moves > WORTH * task * saved:
            return f"not worth it: {what.moves:,} tuples would move, and {saved} of {old.instances} tasks be saved"
    return None


def _sinks(before: float, after: float, guards: Guards) -> bool:
    """Whether a value falls by at least `min_gain` of itself."""
    return after < before and before - after >= guards.min_gain * before
