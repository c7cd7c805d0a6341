"""The monitor and the guards: when a planner is asked, and when its table is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.errors import TableError
from evenjoin.load.intake import Intake
from evenjoin.load.items import F64, Items, change, items_of, loads, work_by_instance
from evenjoin.load.receipt import HeavyKey
from evenjoin.load.report import InstanceLoad, LoadReport
from evenjoin.placement import Biclique, Buckets, Keys, Reach, Region, RoutingTable
from evenjoin.placement.place import bucket_of
from evenjoin.runtime.rebalance import _least_work, _refused, decide
from evenjoin.runtime.settings import Guards
from evenjoin.state.files import MemoryFolder
from evenjoin.strategies import Adsp, Square
from evenjoin.strategies.base import Static
from evenjoin.strategies.bistream import hash_table

HOME = Region(Buckets((0,)), Biclique(((0,), (0,))))
TABLE = RoutingTable(3, 2, 2, 1, (HOME,))
MOVED = TABLE.with_regions((HOME, Region(Keys((7,)), Biclique(((1,), (1,))))))
LOSSY = TABLE.with_regions((Region(Keys((7,)), Biclique(((1,), (1,)))),))
HEAVY = (HeavyKey(7, "seven", (900, 900), (900, 900), (9000, 9000), (4000, 0)),)
CELLS = ((0, 0, 2000, 20000, 9000), (1, 0, 2000, 20000, 0))
REPORT = LoadReport(
    10, tuple(InstanceLoad(i, (0, 0), (0, 0), (0, 0), 0, 0.0) for i in range(2)), HEAVY, CELLS, (Intake(), Intake())
)


@dataclass(frozen=True)
class Told(Static):
    """Proposes what it was told, when asked."""

    tells: RoutingTable | None
    limit: float = 1.2

    @property
    def threshold(self) -> float:
        return self.limit

    @property
    def alert(self) -> float:
        return self.limit

    @property
    def tracked(self) -> int:
        return 8

    def load(self, items: Items, table: RoutingTable) -> F64:
        return np.array([unit.work for unit in loads(items, table)])

    def plan(self, report, items, table):
        return self.tells


def verdict(strategy=None, rebalanced=None, **guards):
    decision = decide(strategy or Told(MOVED), REPORT, TABLE, Guards(**guards), rebalanced, lambda: 0.0)
    return decision


def test_a_good_plan_is_taken():
    """And what led to it is noted: the imbalance before and as forecast, the tuples that will move."""
    decision = verdict()
    assert decision.table is MOVED
    given = decision.verdict
    assert given.calls_for_rebalance
    assert (given.sentence, given.rebalanced, given.moves) == ("rebalance", 10, 18000)
    assert given.imbalance > 1.2
    assert given.forecast < given.imbalance


@pytest.mark.parametrize(
    ("strategy", "rebalanced", "guards", "says"),
    [
        (Told(MOVED, limit=2.0), None, {}, "even"),
        (Told(MOVED), 8, {"cooldown": 2}, "cooling down"),
        (Told(None), None, {}, "no better table"),
        (Told(TABLE), None, {}, "no better table"),
        (Told(MOVED), None, {"budget": 17_999}, "over budget"),
        (Told(MOVED), None, {"min_gain": 0.9}, "gain too small: the heaviest unit"),
        (Told(MOVED), None, {"min_work": 1e9}, "gain too small: "),
    ],
    ids=lambda value: str(value) if isinstance(value, (str, dict)) else "",
)
def test_refused(strategy, rebalanced, guards, says):
    """The table stays, and the verdict says why."""
    decision = verdict(strategy, rebalanced, **guards)
    assert decision.table is TABLE
    assert not decision.verdict.calls_for_rebalance
    assert decision.verdict.sentence.startswith(says)
    assert decision.verdict.rebalanced == rebalanced


@pytest.mark.parametrize(
    ("min_work", "typical", "least"),
    [(None, 0, 100), (None, 2_000, 100), (None, 25_000, 1000), (None, 5e5, 20_000), (7, 5e5, 7), (0, 5e5, 0)],
)
def test_the_work_that_a_rebalance_must_save_grows_with_the_batch(min_work, typical, least):
    """4 % of the tuples and results of the median instance, at least 100; a number that is given is taken as it is."""
    some = items_of(REPORT, TABLE)
    factor = typical / np.median(work_by_instance(some, TABLE))
    of_batch = replace(some, arrived=factor * some.arrived, results=factor * some.results)
    assert _least_work(Guards(min_work=min_work), of_batch, TABLE) == pytest.approx(least)


def test_a_hot_key_does_not_raise_the_work_that_a_rebalance_must_save():
    """It makes one instance a thousand times as busy, and the median stays: what others can be relieved of still
    counts, and on a hundred instances as much as on eight."""
    for instances in (8, 100):
        table = hash_table("hash", 16 * instances, instances, 2, "shared")
        codes = np.arange(100_000, dtype=np.int64)
        counts = np.ones((2, len(codes)))
        even = Items(codes, np.ones(len(codes), bool), bucket_of(codes, table.buckets), counts, counts, counts)
        hot = replace(even, results=np.where(codes == 7, 1e8, counts))
        least = [_least_work(Guards(), items, table) for items in (even, hot)]
        assert least[1] == pytest.approx(least[0], rel=0.02)
        assert least[0] == pytest.approx(0.04 * 6 * len(codes) / instances, rel=0.1)


def test_the_least_work_is_a_part_of_what_an_instance_does():
    """The plan relieves instances of what key 7 has. It passes in its own batch, and is refused where the rest of the
    batch is four hundred times as large, since then it is not 4 % of what an instance does."""
    large = replace(REPORT, cells=tuple((s, c, 400 * new, old, 400 * found) for s, c, new, old, found in CELLS))
    given = decide(Told(MOVED, 0.0), large, TABLE, Guards(min_gain=0), None, lambda: 0.0)
    assert given.verdict.sentence.startswith("gain too small: instances are relieved of")
    assert decide(Told(MOVED, 0.0), large, TABLE, Guards(0, 0, 1000.0), None, lambda: 0.0).table is MOVED


def test_after_the_cool_down():
    """Three batches later it is planned again."""
    assert verdict(rebalanced=7, cooldown=2).table is MOVED


def test_exactly_the_budget():
    """The limit itself may move."""
    assert verdict(budget=18_000).table is MOVED


def test_a_table_that_loses_results_stops_the_run():
    """A planner's mistake is an error, not a wrong answer."""
    with pytest.raises(TableError, match="lost"):
        verdict(Told(LOSSY))


def shrinking(rows, columns, loads, guards=Guards(), rebalanced=None):  # noqa: B008
    """What becomes of Square's plan for a 4 x 4 grid of V = 100 whose instances store these (rows, columns)."""
    strategy = Square(task_capacity=100)
    table = strategy.initial(16, 2, "shared")
    report = replace(
        REPORT,
        instances=tuple(InstanceLoad(i, loads, (0, 0), (0, 0), 0, 0.0) for i in range(16)),
        samples=(((1, rows),), ((2, columns),)), heavy=(), cells=(),
    )  # fmt: skip
    return decide(strategy, report, table, guards, rebalanced, lambda: 0.0)


def test_matrix_plans_cool_down_and_have_a_budget():
    """16 tasks with 40 tuples each become 9, as far as the guards let them."""
    assert shrinking(80, 80, (20, 20)).table.instances == 9
    assert shrinking(80, 80, (20, 20), rebalanced=9).verdict.sentence.endswith(
        "a change must wait, because the last one, or the start, was just before"
    )
    assert ": over budget: " in shrinking(80, 80, (20, 20), Guards(budget=50)).verdict.sentence


def test_tasks_saved_are_worth_so_many_tuples():
    """A 3 x 3 grid that stores 40 a task and its 2 x 4 grid: one task saved, and most tuples move. That is refused
    while no task is too full, since more than twice what a task stores would move."""
    strategy = Adsp(task_capacity=100)
    table = replace(strategy.initial(9, 2, "shared"), reach=Reach(0, 0))
    codes = [(n, 10.0) for n in range(12)]
    report = replace(
        REPORT,
        instances=tuple(InstanceLoad(i, (40, 0), (0, 0), (0, 0), 0, 0.0) for i in range(9)),
        samples=(tuple(codes), ()), heavy=(), cells=(),
    )  # fmt: skip
    items = items_of(report, table)
    one_less = strategy.initial(8, 2, "shared")
    spread = replace(one_less, version=1, reach=Reach(0, 0))
    what = change(items, table, spread)
    assert what.moves > 2 * 40
    assert _refused(strategy, items, table, spread, Guards(min_gain=0), what).startswith("not worth it")
    crowded = replace(items, held=(table.name, items.held[1] * 3))
    assert "worth" not in (_refused(strategy, crowded, table, spread, Guards(min_gain=0), what) or "")


def test_a_matrix_of_cells_is_judged_by_its_planner():
    """Two cells of V = 100 with 90 of it each: three will do, though nobody's work per batch is known; back to one when
    little is left, though it will be fuller; and a plan that brings nothing is refused."""
    strategy = Adsp(task_capacity=100)
    table = strategy.initial(2, 2, "shared")
    full = replace(REPORT, instances=(), heavy=(), cells=(), samples=(((1, 70.0),), ((2, 40.0),)))
    grown = decide(strategy, full, table, Guards(), None, lambda: 0.0)
    assert grown.verdict.calls_for_rebalance
    assert grown.table.instances > 2
    assert grown.verdict.forecast < grown.verdict.imbalance
    assert 0 < grown.verdict.moves <= 220
    little = replace(full, batch=20, samples=(((1, 7.0),), ((2, 4.0),)))
    assert decide(strategy, little, grown.table, Guards(), 10, lambda: 0.0).table.instances == 1
    dear = decide(strategy, full, table, Guards(budget=10), None, lambda: 0.0)
    assert ": over budget: " in dear.verdict.sentence
    worse = replace(table, version=1, instances=1, regions=strategy.initial(1, 2, "shared").regions)
    refused = decide(Proposing(worse, task_capacity=100), full, table, Guards(), None, lambda: 0.0)
    assert ": gain too small: the imbalance would go from" in refused.verdict.sentence


@dataclass(frozen=True)
class Proposing(Adsp):
    """Adsp that proposes what it was told."""

    def __init__(self, tells: RoutingTable, **settings: float) -> None:
        Adsp.__init__(self, **settings)
        object.__setattr__(self, "tells", tells)

    def plan(self, report, items, table):
        return self.tells


@pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")
def test_another_keyed_strategy_on_a_live_checkpoint_moves_nothing():
    """They start from the same places: hash, then each of the others, on one checkpoint; only their own plans move."""
    folder, schema = MemoryFolder(), pa.schema([("k", pa.int64())])
    part = {alias: pa.table({"k": np.arange(500) % 100}, schema) for alias in "lr"}
    for name in ("hash", "djb(buckets=40)", "lsstream", "readj", "fastjoin", "hash"):
        with evenjoin.local(
            {"l": schema, "r": schema}, "l.k = r.k", strategy=name, instances=4, checkpoint=folder,
            guards=Guards(min_work=1e9),
        ) as join:  # fmt: skip
            assert join.process(part).num_rows > 0
            if name != "hash":
                assert (join.migrations()[-1].why, join.migrations()[-1].tuples) == ("asked for", 0)
