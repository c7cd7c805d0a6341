"""`auto` from batch to batch: it waits, earns, acts, forgets and is harder to move after a failure; and it says so."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.errors import SpecError
from evenjoin.events import Migration
from evenjoin.load.cost import Seen
from evenjoin.load.items import moved_tuples, with_rates
from evenjoin.load.report import InstanceLoad, LoadReport
from evenjoin.placement import Biclique, RoutingTable, check
from evenjoin.placement.topology import Grid
from evenjoin.strategies import Auto, resolve
from evenjoin.strategies.auto.memory import CORES_OF, TASKS, WINDOW, Memory
from evenjoin.strategies.auto.price import KEPT, MOVE_MS, PAUSE_MS, Price, learned, with_move
from evenjoin.strategies.auto.slowness import NOISE, SURE, Pace
from evenjoin.strategies.auto.words import Words, told_even
from evenjoin.strategies.base import Limits, Past, Weighing
from evenjoin.strategies.edit import Edit, keys_of
from evenjoin.strategies.elastic import ElasticWeighing, Scaling, elastic
from strategies.counted import counted
from strategies.test_auto_draft import at, even, table_of
from thorough import examples

ALLOWED = Limits()
COOLING = Limits(cooling=True)


@dataclass
class Run:
    """`auto` batch after batch, on counts per key: what production does with reports, rates, memory and migrations, but
    for the times of tasks. Costs are the defaults, so a tuple that is stored and probes takes 0.4 us."""

    table: RoutingTable
    strategy: Weighing = field(default_factory=Auto)
    memory: dict | None = None
    report: LoadReport | None = None
    migration: Migration | None = None
    batch: int = 0
    changes: list[int] = field(default_factory=list)

    def step(self, keys, limits=ALLOWED):
        report = replace(counted(self.table, keys), batch=self.batch)
        self.report, items = with_rates(report, self.report, self.table)
        memory = None if self.memory is None else json.loads(json.dumps(self.memory))
        found = self.strategy.weigh(self.report, items, self.table, Past(memory, self.migration), limits)
        self.memory, self.migration = json.loads(json.dumps(found.memory)), None
        if found.table is not None:
            moved = round(moved_tuples(items, self.table, found.table))
            pause = round(PAUSE_MS + MOVE_MS * moved / self.table.instances, 3)
            self.migration = Migration(self.batch, "old", "new", moved, 0, pause, why="imbalance")
            self.table = check(found.table)
            self.changes.append(self.batch)
        self.batch += 1
        return found

    def steps(self, keys, count, limits=ALLOWED):
        return [self.step(keys, limits) for _ in range(count)]

    @property
    def known(self):
        return Memory.from_json(self.memory)


def calm(table):
    """Every instance has the same to do."""
    return even(table, 10_000, stored=0)


def hot(table, count, key=0, stored=0):
    """The same, and one hot key of side 0 (`key`: one after the other)."""
    return {**calm(table), at(table, 2, key + 1, start=1000)[key]: (count, 10, stored, 10, 0, 0)}


WARMISH = round(PAUSE_MS / 10 / 3e-4)
"""On 4 instances a divided key saves three quarters of 0.4 us a tuple: here a tenth of what a change costs."""
BLAZING = 10 * WARMISH
"""Saves what a change costs, so it is worth one at once."""


def test_a_key_that_is_worth_ten_batches_is_divided_at_once():
    run = Run(table_of(4))
    found = run.step(hot(run.table, BLAZING))
    assert isinstance(keys_of(found.table)[at(run.table, 2, start=1000)[0]], Grid)
    assert found.sentence.endswith("doing it")
    assert (run.known.shadow, run.known.credit, run.known.former) == (None, 0.0, table_of(4))


def test_otherwise_it_waits_earns_and_acts():
    """A tenth of a pause, and the hope of ten such batches, against 1.25 times a pause: two batches more than hoped
    for."""
    run = Run(table_of(4))
    found = run.steps(hot(run.table, WARMISH), 6)
    assert run.changes == [3]
    assert [one.sentence.rsplit(": ", 1)[1] for one in found[:4]] == [
        "waiting, 80% earned", "waiting, 88% earned", "waiting, 96% earned", "doing it",
    ]  # fmt: skip
    assert found[4].sentence == "even within 3% on 4 cores"
    assert all(one.table is None for one in found if not one.sentence.endswith("doing it"))


def test_what_saves_less_than_five_percent_is_not_even_watched():
    table = table_of(4)
    big = even(table, 1_000_000, stored=0)
    run = Run(table)
    found = run.steps({**big, at(table, 2, start=1000)[0]: (60_000, 10, 0, 10, 0, 0)}, 60)
    assert run.changes == []
    assert run.known.shadow is None
    assert "even within 3%" in found[-1].sentence


def test_a_shadow_that_saves_nothing_any_more_is_dropped_with_its_credit():
    """A crowd that comes again later starts from nothing, and is hoped to last six batches: the mean of ten and of the
    two more that the first one lasted."""
    run = Run(table_of(4))
    run.steps(hot(run.table, WARMISH), 3)
    assert run.known.credit > 0
    run.step(calm(run.table))
    assert (run.known.shadow, run.known.credit, run.known.about) == (None, 0.0, "")
    again = run.step(hot(run.table, WARMISH))
    assert again.sentence.endswith("waiting, 48% earned")
    assert run.known.credit == 0


def test_a_key_does_not_inherit_the_credit_of_the_one_before():
    """One key is hot in two batches, another one from batch 3 on, in which a plan is due anyway."""
    run = Run(table_of(4))
    run.step(calm(run.table))
    run.steps(hot(run.table, WARMISH), 2)
    assert run.known.credit > 0
    found = run.step(hot(run.table, WARMISH, key=1))
    assert found.sentence.endswith("waiting, 44% earned"), "of the hope alone"
    assert run.known.credit == 0


def test_how_long_keys_were_hot_is_what_the_next_one_is_hoped_to_be():
    """Three keys are hot for three batches each, and nothing is done. For the fourth the hope is what remained of those
    three and of ten batches, and ten again once it has lasted longer than they did."""
    run, some = Run(table_of(4)), round(0.8 * WARMISH)
    for key in range(3):
        run.steps(hot(run.table, some, key), 3)
    hopes = []
    for _ in range(4):
        run.step(hot(run.table, some, 3))
        hopes.append(run.known.hope)
    assert run.changes == []
    assert run.known.lives == (3, 3, 3)
    assert hopes == [(10 + 6) / 4, (10 + 3) / 4, 10 / 4, 10]


def test_a_change_has_a_life_too():
    """From when its key was first watched until it was no longer hot."""
    run = Run(table_of(4))
    run.steps(hot(run.table, WARMISH), 7)
    assert run.changes == [3]
    run.steps(calm(run.table), 2)
    assert (run.known.lives, run.known.since) == ((7,), 0)


def test_a_flash_crowd_of_three_batches_is_waited_out_or_followed_once():
    """A small one ends before it has earned its price. A big one is divided, and stays so when it is gone: that costs
    nothing, and another like it finds the table ready."""
    small, big = Run(table_of(4)), Run(table_of(4))
    for run, count in ((small, WARMISH), (big, BLAZING)):
        for _ in range(2):
            run.steps(calm(run.table), 8)
            run.steps(hot(run.table, count), 3)
        run.steps(calm(run.table), 8)
    assert small.changes == []
    assert len(big.changes) == 1


def test_keys_that_take_turns_settle_after_two_changes():
    run = Run(table_of(4))
    resting = dict.fromkeys(at(run.table, 2, 2, start=1000), (0, 0, 10000, 10, 0, 0))
    for turn in range(12):
        run.steps({**resting, **hot(run.table, BLAZING, turn % 2, stored=10_000)}, 2)
    assert len(run.changes) == 2
    assert len(keys_of(run.table)) == 2


def test_changes_that_did_not_pay_make_the_next_ones_harder():
    """Each hot key is gone as soon as it was divided. Every such change makes the next one eight times as hard, up to
    three times; after ones that pay it is easy again."""
    run, failures = Run(table_of(4)), []
    for key in range(6):
        run.step(hot(run.table, BLAZING, key))
        failures.append(run.known.failures)
    assert run.changes == [0, 1], "then the hope is not enough"
    assert failures == [0, 1, 1, 1, 1, 1]
    run.steps(hot(run.table, BLAZING, 7), 12)
    assert len(run.changes) == 3
    assert run.known.failures == 2, "what the second change had paid for never came back"
    run.steps(hot(run.table, BLAZING, 7), 6)
    run.steps(hot(run.table, BLAZING, 8), 30)
    assert run.known.failures == 0, "the third change has earned its price"


def test_the_price_of_a_failed_change_is_what_its_migration_took():
    run = Run(table_of(4))
    run.step(hot(run.table, BLAZING))
    run.migration = replace(run.migration, pause_ms=5000.0)
    run.step(hot(run.table, BLAZING))
    assert run.known.paid == 5000.0
    assert learned(4, run.known.moves).pause_ms > 2000
    assert run.known.earned > 0.7 * PAUSE_MS


def test_a_cooldown_holds_a_change_up_but_not_its_credit():
    run = Run(table_of(4))
    held = run.steps(hot(run.table, BLAZING), 3, COOLING)
    assert (run.changes, {one.sentence.rsplit(": ", 1)[1] for one in held}) == ([], {"cooling down"})
    assert run.known.credit > 1.7 * PAUSE_MS
    run.step(hot(run.table, BLAZING))
    assert run.changes == [3]


def test_no_more_tuples_move_than_the_budget_allows():
    run = Run(table_of(4))
    keys = hot(run.table, BLAZING, stored=40_000)
    found = run.step(keys, Limits(budget=20_000))
    assert (run.changes, found.table) == ([], None)
    assert found.sentence.endswith(f"over budget, {found.moves:,} tuples would move, 20,000 may")
    assert found.moves > 20_000
    assert run.step(keys, Limits(budget=found.moves)).table is not None


def test_even_load_is_left_alone():
    """Poisson arrivals of four hundred keys, 40 batches, three seeds: no change, and no key with a region."""
    for seed in range(3):
        rng, run = np.random.default_rng(seed), Run(table_of(8))
        for _ in range(40):
            counts = rng.poisson(500, (400, 2)).tolist()
            run.step({code: (a, b, a, b, 0, 0) for code, (a, b) in enumerate(counts)})
        assert (run.changes, keys_of(run.table)) == ([], {})


def test_cores_that_were_seen_are_those_it_plans_for():
    """Eight tasks, of which two ran at once: they are even enough. On eight cores they are not."""
    table = table_of(8)
    keys = {at(table, i)[0]: ((i + 1) * 100_000, 0, 0, 0, 0, 0) for i in range(8)}
    report = replace(counted(table, keys), cores=2)
    report, items = with_rates(report, None, table)
    found = Auto().weigh(report, items, table, Past(), ALLOWED)
    assert (found.table, found.sentence, found.imbalance) == (
        None,
        "even within 3% on 2 cores",
        pytest.approx(1, abs=0.03),
    )
    assert Auto(cores=8).weigh(report, items, table, Past(), ALLOWED).table is not None


def test_a_shadow_of_another_table_is_forgotten():
    """The table was changed by somebody else, to another version or number of instances; what was seen stays."""
    run = Run(table_of(4))
    run.steps(hot(run.table, WARMISH), 2)
    assert run.known.shadow is not None
    for other in (replace(run.table, version=5), table_of(6)):
        again = Run(other, memory=run.memory)
        found = again.step(calm(other))
        assert (found.table, again.known.shadow, again.known.credit) == (None, None, 0.0)
        assert found.sentence.startswith("even")


def test_a_batch_without_tuples_adds_nothing():
    run = Run(table_of(4))
    run.steps(hot(run.table, WARMISH), 2)
    before = run.known.credit
    run.step({})
    assert run.known.credit <= before
    assert run.changes == []


def test_one_instance_never_changes():
    run = Run(table_of(1))
    run.steps({3: (BLAZING, 5, 5, 5, 0, 0)}, 5)
    assert run.changes == []


# --- elastic ----------------------------------------------------------------------------------------------------------


def test_with_instances_auto_it_weighs_and_scales():
    """The number of instances comes first. The shadow of the smaller table is not taken for one of the larger."""
    strategy = elastic(Auto(), Scaling(1000, min_instances=4, max_instances=8))
    assert isinstance(strategy, ElasticWeighing)
    run = Run(table_of(4), strategy)
    run.steps(hot(run.table, WARMISH), 2)
    assert run.changes == []
    grown = run.step({**hot(run.table, WARMISH), 5: (10, 10, 3000, 3000, 0, 0)})
    assert (grown.table.instances, run.table.version) == (8, 1)
    assert grown.sentence.endswith("instances: going to 8")
    after = run.step(even(run.table, 10_000, stored=350))
    assert (after.table, run.known.shadow) == (None, None)


# --- memory -----------------------------------------------------------------------------------------------------------

numbers = st.floats(0, 1e9, allow_nan=False).map(lambda x: round(x, 3))
tables = st.integers(1, 5).map(lambda n: table_of(n)) | st.just(
    replace(table_of(4), regions=(*table_of(4).regions,), version=3)
)


@st.composite
def memories(draw):
    rows = st.lists(st.tuples(*[numbers] * 5), max_size=3).map(tuple)
    with_keys = Edit(table_of(4))
    with_keys.place_key(7, Grid(2, 1, (0, 3), divisions=(((0, 2**30), (1, 2**32 - 2**30)), (), ())))
    with_keys.place_key(-9, Biclique(((1,), (1,))))
    table = st.none() | tables | st.just(with_keys.table())
    return Memory(
        draw(st.lists(rows, max_size=3).map(tuple)), draw(table), draw(numbers), draw(st.text(max_size=9)), draw(table),
        draw(st.floats(-1e6, 1e6)), draw(numbers), draw(st.integers(0, 3)),
        draw(st.integers(0, 9)), draw(st.integers(0, 9)), draw(st.lists(st.integers(1, 9), max_size=8).map(tuple)),
        draw(st.lists(st.tuples(numbers, numbers), max_size=KEPT).map(tuple)),
        draw(st.lists(st.integers(1, 99), max_size=CORES_OF).map(tuple)),
        Pace(draw(st.integers(0, 9)), *(draw(st.lists(numbers, max_size=4).map(tuple)) for _ in range(2))),
    )  # fmt: skip


@settings(max_examples=examples(80), deadline=None)
@given(memories())
def test_memory_survives_a_commit(memory):
    assert Memory.from_json(json.loads(json.dumps(memory.to_json()))) == memory


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.lists(st.floats(0.001, 1e6), max_size=200), max_size=12), st.integers(0, 9))
def test_memory_is_bounded_and_keeps_the_longest_tasks(batches, cores):
    memory = Memory()
    for took in batches:
        memory = memory.after(Seen(np.ones((len(took), 4)), np.array(took)), cores, False)
    seen = [took for took in batches if took][-WINDOW:]
    assert len(memory.seen) == len(seen)
    for rows, took in zip(memory.seen, seen, strict=True):
        assert len(rows) <= TASKS
        assert len(rows) == min(len(took), len(rows))
        longest = sorted(took, reverse=True)[: TASKS // 2]
        assert [row[-1] for row in rows[: TASKS // 2]] == pytest.approx(longest[: len(rows)], abs=1e-3)
    assert Memory.from_json(json.loads(json.dumps(memory.to_json()))) == memory


def test_memory_of_a_later_version_is_read_as_far_as_it_is_known():
    """A field that this version does not know is left out, one that is missing has its default."""
    written = Memory(credit=5.0, failures=2).to_json()
    del written["failures"]
    assert Memory.from_json({**written, "mood": "good"}) == Memory(credit=5.0)


# --- price and words --------------------------------------------------------------------------------------------------


def test_the_price_is_learned_from_migrations():
    """The defaults count as one migration that took what they say, so after one they have half the say."""
    price = Price(4)
    assert price.of(8000) == PAUSE_MS + 8000 * MOVE_MS / 4
    assert learned(4, ()) == price
    assert learned(4, with_move((), 4, 0, 3 * PAUSE_MS)) == Price(4, pytest.approx(2 * PAUSE_MS), MOVE_MS)


def test_a_slow_migration_of_few_tuples_teaches_the_pause_only():
    """So a large one does not look dear because of it; and a slow one of many tuples does not make small ones dear."""
    slow = learned(1, with_move((), 1, 50, 10 * PAUSE_MS))
    assert slow.pause_ms > 5 * PAUSE_MS
    assert slow.move_ms == pytest.approx(MOVE_MS, rel=0.01)
    many = round(50 * PAUSE_MS / MOVE_MS)
    heavy = learned(1, with_move((), 1, many, 5 * Price(1).of(many)))
    assert heavy.move_ms > 2.5 * MOVE_MS
    assert heavy.pause_ms < 1.1 * PAUSE_MS


def test_pause_and_tuples_are_told_apart_by_migrations_of_both_kinds():
    """Four of few tuples and four of many: a dear pause and a cheap tuple are both found, but for the part that the
    defaults keep."""
    true = Price(4, 4 * PAUSE_MS, MOVE_MS / 3)
    moves, many = (), round(4 * 10 * PAUSE_MS / MOVE_MS)
    for tuples in (100, many, 500, 2 * many) * 2:
        moves = with_move(moves, 4, tuples, true.of(tuples))
    found = learned(4, moves)
    assert 2.5 * PAUSE_MS < found.pause_ms <= 4 * PAUSE_MS
    assert MOVE_MS / 3 <= found.move_ms < 0.75 * MOVE_MS
    assert len(with_move(moves, 4, 1, 1.0)) == KEPT


def test_a_cold_first_migration_is_forgotten():
    """The first one of a run takes twenty pauses, the next eight one each."""
    moves = with_move((), 4, 100, 20 * PAUSE_MS)
    assert learned(4, moves).pause_ms > 5 * PAUSE_MS
    for _ in range(KEPT):
        moves = with_move(moves, 4, 100, PAUSE_MS)
    assert learned(4, moves).of(100) == pytest.approx(PAUSE_MS, rel=0.01)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**9), st.floats(0, 1e7)), max_size=12), st.integers(1, 64))
def test_prices_are_never_negative(some, lanes):
    moves = ()
    for tuples, took in some:
        moves = with_move(moves, lanes, tuples, took)
    found = learned(lanes, moves)
    assert np.isfinite([found.pause_ms, found.move_ms]).all()
    assert min(found.pause_ms, found.move_ms, found.of(1000)) >= 0


# --- cores ------------------------------------------------------------------------------------------------------------

NO_TASKS = Seen(np.zeros((0, 4)), np.zeros(0))


def told_cores(*batches):
    """The cores that are known after batches of (tasks at once, whether others waited)."""
    memory = Memory()
    for at_once, limited in batches:
        memory = memory.after(NO_TASKS, at_once, limited)
    return memory.cores


def test_a_cluster_that_shrinks_is_followed_and_one_that_grows_at_once():
    before = [(8, True)] * 20
    assert told_cores(*before, *[(4, True)] * (CORES_OF - 1)) == 8
    assert told_cores(*before, *[(4, True)] * CORES_OF) == 4
    assert told_cores(*before, *[(4, True)] * CORES_OF, (6, True)) == 6


def test_batches_whose_tasks_hardly_overlap_do_not_make_cores_fewer():
    """Small batches, for as long as they like, and batches of which nothing is known."""
    assert told_cores((8, True), *[(1, False), (0, False), (3, False)] * 50) == 8
    assert told_cores((2, False), (5, False), (3, False)) == 5, "so many were seen"


# --- slow instances ---------------------------------------------------------------------------------------------------


def paced(batches, slow):
    """The slowness that is believed after batches in which instances took so many times as long as expected."""
    pace = Pace()
    for batch in range(batches):
        took = slow(batch)
        pace = pace.after([100.0] * len(took), [100.0 * one for one in took])
    return pace.slowness(len(slow(0))).tolist()


def test_an_instance_that_is_steadily_slow_is_believed_to_be():
    assert paced(SURE, lambda _: [1, 1, 1, 2]) == pytest.approx([1, 1, 1, 2], rel=1e-3)
    assert paced(SURE - 1, lambda _: [1, 1, 1, 2]) == [1, 1, 1, 1]


def test_noise_and_nodes_that_change_are_no_slowness():
    """Noise of a fifth, three seeds; and a slow node that has another instance in each batch, as on Spark."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        noise = rng.lognormal(0, 0.2, (60, 8))
        assert all(paced(n, lambda batch, some=noise: some[batch].tolist()) == [1] * 8 for n in range(60))
    assert paced(41, lambda batch: [2 if i == batch % 8 else 1 for i in range(8)]) == [1] * 8
    shuffled = np.random.default_rng(1).integers(0, 8, 60)
    wandering = [paced(n, lambda batch: [2.0 if i == shuffled[batch] else 1.0 for i in range(8)]) for n in range(60)]
    assert np.max(wandering) == 1


def test_a_node_that_recovers_is_forgiven():
    found = paced(20, lambda batch: [1, 1, 1, 2 if batch < 10 else 1])
    assert found == [1, 1, 1, 1]


def test_another_number_of_instances_knows_nothing():
    pace = Pace(9, (1.0, 0.5, 1.0), (0.0, 0.0, 0.0))
    assert pace.slowness(3).tolist() == [1, 2, 1]
    assert pace.slowness(4).tolist() == [1] * 4
    assert pace.after([1.0] * 4, [1.0] * 4).batches == 1
    assert NOISE > 1


ONCE = "X saves 1 ms of 20 ms a batch and costs 1.0 s once"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (Words("X", 900.0, 2100.0, 240.0).doing(), "X saves 900 ms of 2.1 s a batch and costs 240 ms once: doing it"),
        (Words("X", 1.4, 20.0, 1e3).waiting(0.413), f"{ONCE}: waiting, 41% earned"),
        (Words("X", 1.4, 20.0, 1e3).waiting(7.0), f"{ONCE}: waiting, 99% earned"),
        (
            Words("X", 1.4, 20.0, 1e3).over_budget(5000, 1000),
            f"{ONCE}: over budget, 5,000 tuples would move, 1,000 may",
        ),
        (told_even(1.0299, 1), "even within 3% on 1 core"),
        (told_even(1.4, 8), "tasks take 40% longer than even ones on 8 cores, and no change would repay itself"),
    ],
)
def test_words(words, sentence):
    assert words == sentence


def test_the_verdict_names_the_key_its_instance_and_what_is_done():
    """The weightiest step is told, by the key's name; moves and buckets too."""
    table = table_of(4)
    key = at(table, 2, start=1000)[0]
    found = Run(table).step(hot(table, BLAZING))
    assert found.sentence.startswith(f"key {key} is 85% of instance 2's time; dividing it over 4 instances saves ")
    table = table_of(2)
    one, two = at(table, 0, 2)
    both = {**calm(table), one: (500_000, 500_000, 9, 9, 0, 0), two: (500_000, 500_000, 9, 9, 0, 0)}
    assert f"key {one} is 49% of instance 0's time; moving it to instance 1 saves" in Run(table).step(both).sentence


# --- settings and joins -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["auto(cores=-1)", "auto(cores=1.5)", "auto(least=1)", "auto(tracked=0)", "auto(x=1)"])
def test_settings_that_make_no_sense_are_refused(text):
    with pytest.raises(SpecError, match="auto"):
        resolve(text)


def test_layout_split_is_refused_in_words():
    with pytest.raises(SpecError, match="layout must be 'shared'"):
        Auto().initial(4, 2, "split")


# --- speed ------------------------------------------------------------------------------------------------------------


def crowded(instances, tracked, rng):
    """The report of a batch with so many named keys an instance, all of them about even."""
    table = table_of(instances)
    keys = {
        code: (a, b, a, b, a, b) for code, (a, b) in enumerate(rng.poisson(2000, (instances * tracked, 2)).tolist())
    }
    loads = tuple(InstanceLoad(i, (9, 9), (9000, 9000), (99, 99), 0, 20.0, elapsed_ms=20.0) for i in range(instances))
    report = replace(counted(table, keys), instances=loads, recent=((36_000,) * instances,), cores=instances)
    return table, report


def test_a_hundred_instances_are_weighed_in_a_tenth_of_a_second():
    """64 named keys each, uneven by chance only: nothing is to be done. Of processor time, the best of five."""
    table, report = crowded(100, 64, np.random.default_rng(1))
    report, items = with_rates(report, None, table)
    past, took = Past(), []
    for _ in range(5):
        started = time.process_time()
        found = Auto().weigh(report, items, table, past, ALLOWED)
        took.append(time.process_time() - started)
        past = Past(found.memory)
    assert found.table is None
    assert min(took) < 0.1
