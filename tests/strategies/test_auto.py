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
from evenjoin.strategies.auto.memory import TASKS, WINDOW, Memory
from evenjoin.strategies.auto.price import MOVE_MS, PAUSE_MS, Price
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


BLAZING, WARMISH = 1_000_000, 100_000
"""400 ms of a key: worth a change at once. 40 ms: of these 30 are saved, and a change costs 300."""


def test_a_key_that_is_worth_ten_batches_is_divided_at_once():
    run = Run(table_of(4))
    found = run.step(hot(run.table, BLAZING))
    assert isinstance(keys_of(found.table)[at(run.table, 2, start=1000)[0]], Grid)
    assert found.sentence.endswith("doing it")
    assert (run.known.shadow, run.known.credit, run.known.former) == (None, 0.0, table_of(4))


def test_otherwise_it_waits_earns_and_acts():
    """30 ms a batch, and the hope of ten such batches, against 1.25 times 300 ms: two batches more than hoped for."""
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
    """A crowd that comes again later starts from nothing."""
    run = Run(table_of(4))
    run.steps(hot(run.table, WARMISH), 3)
    assert run.known.credit > 0
    run.step(calm(run.table))
    assert (run.known.shadow, run.known.credit, run.known.about) == (None, 0.0, "")
    again = run.step(hot(run.table, WARMISH))
    assert again.sentence.endswith("waiting, 80% earned")


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
    assert run.known.factor > 5
    assert run.known.earned > 200


def test_a_cooldown_holds_a_change_up_but_not_its_credit():
    run = Run(table_of(4))
    held = run.steps(hot(run.table, BLAZING), 3, COOLING)
    assert (run.changes, {one.sentence.rsplit(": ", 1)[1] for one in held}) == ([], {"cooling down"})
    assert run.known.credit > 500
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
        draw(st.floats(-1e6, 1e6)), draw(numbers), draw(st.integers(0, 3)), draw(numbers), draw(st.integers(0, 99)),
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
        memory = memory.after(Seen(np.ones((len(took), 4)), np.array(took)), cores)
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
    """Half of what the last one took over what was said, half of what was known."""
    price = Price(4)
    assert price.of(8000) == PAUSE_MS + 8000 * MOVE_MS / 4
    dear = price.after(8000, 3 * price.of(8000))
    assert (dear.factor, dear.of(8000)) == (2.0, 2 * price.of(8000))


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
    assert found.sentence.startswith(f"key {key} is 95% of instance 2's time; dividing it over 4 instances saves ")
    one, two = at(table, 0, 2)
    both = {**calm(table), one: (500_000, 500_000, 9, 9, 0, 0), two: (500_000, 500_000, 9, 9, 0, 0)}
    assert f"key {one} is 49% of instance 0's time; " in Run(table).step(both).sentence


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
