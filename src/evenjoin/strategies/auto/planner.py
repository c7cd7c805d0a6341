"""`auto`: hash placement that divides and moves hot keys when the time saved repays the change. The default strategy.

    initial   hash buckets, BUCKETS_PER_UNIT a unit: the same places as `hash`, so nothing moves between the two
    weigh     fit the cost of tasks to what they took -> a better table (draft.py) -> rent before you buy

A planner that acts at once pays for every flash crowd; one that waits for proof pays for every hot key that stays. So a
better table is first a *shadow*: it is not made, but each batch adds what it would have saved to a credit. It is made
once

    credit + hope * smoothed saving / 4^f  >  MARGIN * 2^f * price                f: changes in a row that did not pay

and the saving is at least `least` of a batch. Without the hope this is the rule "rent as long as you have not paid the
price of buying", whose cost is at most twice the best in hindsight for one plan of constant price; it alone waits too
long for keys that stay hot. A shadow whose saving falls below `least` is dropped with its credit, before another plan
is looked for: what one key would have saved while it was hot says nothing about the next one. But how long it was hot
does: `hope` is the number of batches that savings lasted so far, 10 before any has ended (memory.py).

Times are those of the cost model (load/cost.py): the makespan of the tasks on the cores there are, so that on 2 cores
8 even-ish instances are left alone, however uneven each of them is. Merging back follows the same rules: copies that
are no longer sent pay for moving. A key that has gone silent costs nothing and stays divided.

Guarantee: a table that `weigh` gives is an edit of the present one; `check` proves it (runtime/rebalance.py).
Everything is a function of reports, items and the memory in the commit.
Not guaranteed: that a change repays itself. A stream that changes as soon as the table does is the worst case; `f`
makes each further change of that kind eight times as hard.
Not here: joins without an equality that all sides share. There `auto` is another strategy (`for_join`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from evenjoin.errors import SpecError
from evenjoin.load.cost import NOTHING_SEEN, Cost, fit, makespan, seen_in
from evenjoin.load.items import F64, Items, items_of, moved_tuples
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import Layout, RoutingTable
from evenjoin.spec import JoinSpec
from evenjoin.strategies.adsp import Adsp
from evenjoin.strategies.auto.draft import Draft
from evenjoin.strategies.auto.memory import Memory
from evenjoin.strategies.auto.price import Price, learned, with_move
from evenjoin.strategies.auto.words import Words, told_even, told_of
from evenjoin.strategies.base import Limits, Past, Plan, Strategy, Weighed, for_join, register, require
from evenjoin.strategies.bistream import hash_table
from evenjoin.strategies.hypercube import Hypercube

BUCKETS_PER_UNIT = 16
MARGIN = 1.25
BETTER = 0.03
"""A new plan takes the place of the shadow if a batch would be this part shorter under it."""
AGAIN = 3
"""While a shadow is watched, a plan is made anew every so many batches."""
MOST_FAILURES = 3


@register("auto")
@dataclass(frozen=True, slots=True)
class Auto:
    """The default strategy.

    cores     how many tasks run at once; 0: as many as were seen to
    least     the part of a batch's time that a change must save
    tracked   how many heavy keys each instance reports
    """

    cores: int = 0
    least: float = 0.05
    tracked: int = 64

    def __post_init__(self) -> None:
        wanted = {
            "cores": ("a whole number of at least 0", type(self.cores) is int and self.cores >= 0),
            "least": ("a number between 0 and 1", 0 <= self.least < 1),
            "tracked": ("a whole number of at least 1", type(self.tracked) is int and self.tracked >= 1),
        }
        require(self, wanted)

    @property
    def origin(self) -> str:
        return "auto"

    @property
    def threshold(self) -> float:
        return float("inf")

    @property
    def alert(self) -> float:
        return 1.0

    def for_join(self, spec: JoinSpec) -> Strategy:
        """Itself where all sides share a key. Elsewhere no key can be moved or divided, and what is even is a matter of
        volume: areas or a grid for two sides, which change when that repays itself, a cube for more."""
        if spec.equal_codes:
            return self
        return Adsp(price="earned") if len(spec.sides) == 2 else for_join(Hypercube(), spec)

    def initial(self, instances: int, sides: int, layout: Layout) -> RoutingTable:
        if layout != "shared":
            raise SpecError(
                f"auto: layout must be 'shared', not {layout!r}; for others name a strategy, such as 'hash'"
            )
        return hash_table(self.origin, BUCKETS_PER_UNIT * instances, instances, sides, layout)

    def load(self, items: Items, table: RoutingTable) -> F64:
        return NOTHING_SEEN.tasks(items, table)[None, :]

    def imbalance(self, items: Items, table: RoutingTable) -> float:
        return Model(NOTHING_SEEN, self.cores or table.instances).uneven(items, table)

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> Plan:
        """The table that would be made at once if nothing were known of costs. `weigh` is what the engine asks."""
        cores = self.cores or table.instances
        draft = drafted(items, table, NOTHING_SEEN, cores, Price(min(cores, table.instances)))
        return draft.table_made() if draft.best else None

    def weigh(
        self, report: LoadReport, items: Items, table: RoutingTable, past: Past, limits: Limits
    ) -> Weighed:  # fmt: skip
        """What to do after a batch; see the top of this file."""
        raw = items_of(report, table)
        known = _told(past, report, raw, table)
        cores = self.cores or known.cores or table.instances
        model = Model(replace(fit(known.batches), slow=known.pace.slowness(table.instances)), cores)
        price = learned(min(cores, table.instances), known.moves)
        now, usual = model.time(raw, table), model.time(items, table)
        known = self._aged(_counted(known, model, raw, now), model, items, usual)
        if known.shadow is None or report.batch % AGAIN == 0:
            known = self._watching(known, drafted(items, table, model.cost, cores, price), model, items, usual, report)
        uneven = model.uneven(items, table)
        if known.shadow is None:
            return Weighed(None, known.to_json(), uneven, told_even(uneven, cores))
        return self._judged(known, items, table, model, usual, price, uneven, limits)

    def _watching(
        self, known: Memory, draft: Draft, model: Model, items: Items, usual: float, report: LoadReport
    ) -> Memory:  # fmt: skip
        """The memory with the draft as shadow, if it saves enough and more than the shadow that there is."""
        if not draft.best:
            return known
        offer = draft.table_made()
        after = model.time(items, offer)
        if offer is draft.table or after > (1 - self.least) * usual:
            return known
        if known.shadow is not None and after > (1 - BETTER) * model.time(items, known.shadow):
            return known
        about, key = told_of(draft, report)
        return replace(known, shadow=offer, about=about, key=key, age=max(known.age, 1))

    def _aged(self, known: Memory, model: Model, items: Items, usual: float) -> Memory:
        """The memory one batch later: what the last change saves, and what the shadow would, has lasted longer, or it
        is over. A shadow that would save too little is dropped."""
        if known.former is None or not known.since:
            known = replace(known, since=0)
        elif model.time(items, known.former) - usual < self.least * usual:
            known = replace(known, since=0).lived(known.since)
        else:
            known = replace(known, since=known.since + 1)
        if known.shadow is None:
            return known
        over = usual - model.time(items, known.shadow) < self.least * usual
        return known.without_shadow() if over else replace(known, age=known.age + 1)

    def _judged(
        self, known: Memory, items: Items, table: RoutingTable, model: Model, usual: float, price: Price, uneven: float,
        limits: Limits,
    ) -> Weighed:  # fmt: skip
        """Whether the shadow has earned its price or is still waited for."""
        shadow = known.shadow
        assert shadow is not None
        saving, moves = usual - model.time(items, shadow), moved_tuples(items, table, shadow)
        cost, failed = price.of(moves), known.failures
        weighed = Weighed(None, known.to_json(), uneven, "", model.uneven(items, shadow), round(moves), known.key)
        words = Words(known.about, saving, usual, cost)
        if limits.budget is not None and moves > limits.budget:
            return replace(weighed, sentence=words.over_budget(round(moves), limits.budget))
        earned, needed = known.credit + known.hope * saving / 4**failed, MARGIN * 2**failed * cost
        if earned <= needed or limits.cooling:
            return replace(weighed, sentence=words.waiting(earned / needed, "cooling down" if limits.cooling else ""))
        repaid = known.former is None or known.earned >= known.paid
        made = replace(
            known.unwatched(), since=known.age, former=table, earned=0.0, paid=round(cost, 3),
            failures=0 if repaid else min(failed + 1, MOST_FAILURES),
        )  # fmt: skip
        return replace(weighed, table=shadow, memory=made.to_json(), sentence=words.doing())


@dataclass(frozen=True, slots=True)
class Model:
    """The fitted cost of tasks, on so many cores."""

    cost: Cost
    cores: int

    def time(self, items: Items, table: RoutingTable) -> float:
        return self.cost.time(items, table, self.cores)

    def uneven(self, items: Items, table: RoutingTable) -> float:
        """How long the tasks take over what they would take if they were even; at least 1."""
        tasks = self.cost.tasks(items, table)
        even = self.cost.even(tasks, table, self.cores)
        return round(max(makespan(tasks, self.cores) / even, 1.0), 4) if even > 0 else 1.0


def drafted(items: Items, table: RoutingTable, cost: Cost, cores: int, price: Price) -> Draft:
    """The best table that edits of this one lead to."""
    draft = Draft(items, table, cost, cores, price)
    draft.improve()
    return draft


def _told(past: Past, report: LoadReport, raw: Items, table: RoutingTable) -> Memory:
    """The memory with this batch, and without tables that the present one does not follow or precede."""
    known = Memory.from_json(past.memory) if past.memory is not None else Memory()
    known = _paced(known, report, raw, table)
    if known.shadow is not None and (known.shadow.version, known.shadow.instances) != (
        table.version + 1,
        table.instances,
    ):
        known = known.unwatched()
    if known.former is not None and known.former.instances != table.instances:
        known = replace(known, former=None, earned=0.0, paid=0.0, since=0)
    event = past.migration
    if event is None or event.why != "imbalance":
        return known
    lanes = min(known.cores or table.instances, table.instances)
    return replace(known, moves=with_move(known.moves, lanes, event.tuples, event.pause_ms), paid=event.pause_ms)


def _paced(known: Memory, report: LoadReport, raw: Items, table: RoutingTable) -> Memory:
    """The memory with what the tasks of this batch did and took. The fit is to times as they would be if no instance
    were slow: so what is slow is not a coefficient, and does not hide in one. When other instances are believed to be
    slow than before, earlier batches are forgotten: their times are those of other speeds, and a fit to a mixture was
    off by a tenth for as long as they were remembered."""
    seen = seen_in(report, raw, table)
    if len(seen.took_ms) != table.instances:
        return known.after(seen, report.cores, report.limit)
    slow = known.pace.slowness(table.instances)
    known = known.after(replace(seen, took_ms=seen.took_ms / slow), report.cores, report.limit)
    expected = seen.features @ fit(known.batches).each
    known = replace(known, pace=known.pace.after(expected.tolist(), seen.took_ms.tolist()))
    believed = known.pace.slowness(table.instances)
    if ((believed != 1) == (slow != 1)).all():
        return known
    return replace(known, seen=()).after(replace(seen, took_ms=seen.took_ms / believed), 0, False)


def _counted(known: Memory, model: Model, raw: Items, now: float) -> Memory:
    """What this batch adds to the credit of the shadow, and to what the last change has earned."""
    if known.former is not None:
        known = replace(known, earned=round(known.earned + model.time(raw, known.former) - now, 3))
    if known.shadow is not None:
        known = replace(known, credit=round(max(0.0, known.credit + now - model.time(raw, known.shadow)), 3))
    return known
