"""Joins under `auto` while it acts: the brute-force answer, every tuple where the table puts it, counts that are those
of the runs, and the same through crashes and restarts.

It acts on small streams because cores are given and migrations seem cheap: the pause of a change is set to nearly
nothing. Everything else is what users run."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from test_planner_counts import assert_told

import evenjoin
from evenjoin.placement import At, Role, place, stored_here
from evenjoin.placement.topology import Cube, Grid
from evenjoin.spec import build_spec
from evenjoin.state.files import MemoryFolder
from evenjoin.state.segment import Segments
from evenjoin.strategies import Auto
from evenjoin.strategies.auto import price
from evenjoin.strategies.edit import keys_of
from evenjoin.testing import Crash, brute_force, multiset, run_stream
from thorough import examples

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("t", pa.int64())])
EAGER = evenjoin.Guards(cooldown=0, min_gain=0, min_work=0)
KEYS = 9


@pytest.fixture(autouse=True)
def cheap(monkeypatch):
    """A change costs nearly nothing, and what a tuple costs is most of a task: 200 tuples are a load."""
    from evenjoin.load import cost

    monkeypatch.setattr(price, "PAUSE_MS", 1e-3)
    monkeypatch.setattr(price, "MOVE_MS", 1e-6)
    defaults = np.array([1e-3, 1.0, 1.0, 0.1])
    monkeypatch.setattr(cost, "DEFAULTS", defaults)
    monkeypatch.setattr(cost, "SEND", 0.01)
    counted = cost.Cost(defaults, 0.01)
    monkeypatch.setattr(cost, "NOTHING_SEEN", counted)
    monkeypatch.setattr("evenjoin.strategies.auto.planner.NOTHING_SEEN", counted)
    monkeypatch.setattr("evenjoin.strategies.auto.planner.fit", lambda batches: counted)


def on_of(sides, timed):
    """A common key; if `timed`, within three of each other."""
    pairs = list(pairwise("abc"[:sides]))
    on = [f"{one}.k = {two}.k" for one, two in pairs]
    if timed:
        on += [f"{two}.t BETWEEN {one}.t - 3 AND {one}.t + 3" for one, two in pairs]
    return " AND ".join(on)


def options_of(sides, timed):
    out = {"select": [f"{alias}.id AS {alias}" for alias in "abc"[:sides]]}
    return {**out, "event_time": "t", "watermark": 2} if timed else out


def start(sides, timed, instances, **more):
    return evenjoin.local(
        dict.fromkeys("abc"[:sides], SCHEMA), on_of(sides, timed), strategy=Auto(cores=instances), instances=instances,
        guards=EAGER, merge_budget=30, **options_of(sides, timed), **more,
    )  # fmt: skip


def truth(sides, timed, stream):
    spec = build_spec(dict.fromkeys("abc"[:sides], SCHEMA), on_of(sides, timed), **options_of(sides, timed))
    whole = {alias: pa.concat_tables([batch[alias] for batch in stream]) for alias in "abc"[:sides]}
    return brute_force(spec, whole)


@st.composite
def streams(draw, sides, batches=5):
    """Batches with a key that is hot on some sides, and NULL keys. The hot key changes now and then."""
    out, ids, hot = [], 0, 0
    for number in range(draw(st.integers(2, batches))):
        hot = draw(st.sampled_from([hot, hot, number % KEYS]))
        batch = {}
        for alias in "abc"[:sides]:
            tall = draw(st.sampled_from([0, 2, 12 if sides == 3 else 40]))
            keys = [hot] * tall + draw(st.lists(st.sampled_from([None, *range(KEYS)]), max_size=8))
            times = [3 * number + draw(st.integers(0, 1)) for _ in keys]
            batch[alias] = pa.table([range(ids, ids + len(keys)), keys, times], schema=SCHEMA)
            ids += len(keys)
        out.append(batch)
    return out


def divided(join):
    """The keys that the present table divides."""
    return {code: kind for code, kind in keys_of(join.table()).items() if isinstance(kind, (Grid, Cube))}


def assert_where_it_says(join, folder, sides):
    """Every live stored tuple is on exactly the instances where the committed table stores it, once."""
    driver = join._driver
    table, seen = driver.table_named(driver.last.table), Counter()
    for instance, side, run in driver.last.manifest:
        tuples = Segments(folder).read(driver.schemas[side], run)
        live = np.ones(len(tuples), bool)
        if run.mask is not None:
            live = stored_here(driver.table_named(run.mask), side, tuples.at, instance)
        for row in np.flatnonzero(live).tolist():
            seen[side, int(tuples.codes[row]), int(tuples.u[row]), instance] += 1
    whole = Counter()
    for (side, code, u, _), count in seen.items():
        whole[side, code, u] = count
    for (side, code, u), count in whole.items():
        where = place(table, side, At(np.array([code]), np.array([u], np.uint32))).only(Role.STORE).instance.tolist()
        found = {i: n for (s, c, x, i), n in seen.items() if (s, c, x) == (side, code, u)}
        assert found == dict.fromkeys(where, count)


@settings(max_examples=examples(25), deadline=None)
@given(st.data(), st.sampled_from([2, 2, 3]), st.booleans(), st.integers(1, 5))
def test_the_answer_the_places_and_the_counts(data, sides, timed, instances):
    """After every batch, whatever is divided, moved or merged back."""
    stream, folder, found = data.draw(streams(sides)), MemoryFolder(), Counter()
    with start(sides, timed, instances, checkpoint=folder) as join:
        for batch in stream:
            found += multiset(join.process(batch))
            assert_where_it_says(join, folder, sides)
            assert_told(join, sides)
        kinds = {type(kind).__name__ for kind in divided(join).values()}
        event(f"{sides} sides, {len(join.migrations())} migrations, divided {sorted(kinds)}")
    assert found == truth(sides, timed, stream)


@settings(max_examples=examples(12), deadline=None)
@given(st.data(), st.sampled_from([2, 2, 3]), st.booleans())
def test_the_answer_through_crashes(data, sides, timed):
    """Killed before, in and after migrations, at any steps."""
    stream, folder = data.draw(streams(sides)), MemoryFolder()
    crash = st.one_of(
        st.sampled_from(["begin", "migrated", "executed", "receipts", "commit", "committed", "collected"]).map(Crash),
        st.tuples(st.sampled_from(["moved", "sealed", "joined"]), st.integers(0, 2)).map(lambda c: Crash(*c)),
    )
    disturbed = [part for batch in stream for part in (*data.draw(st.lists(crash, max_size=2)), batch)]
    sunk = run_stream(lambda hooks: start(sides, timed, 3, checkpoint=folder, hooks=hooks), disturbed)
    assert multiset(pa.concat_tables(sunk.values())) == truth(sides, timed, stream)


def batch_of(sides, hot, first, tall=(40, 3, 3)):
    """A hot key, and a few others on all sides."""
    out = {}
    for number, alias in enumerate("abc"[:sides]):
        keys = [hot] * tall[number] + [*range(KEYS), None]
        ids = range(first + 1000 * number, first + 1000 * number + len(keys))
        out[alias] = pa.table([ids, keys, [first // 100] * len(keys)], schema=SCHEMA)
    return out


STEPS = [Crash(step) for step in ("begin", "migrated", "executed", "receipts", "commit", "committed", "collected")]
STEPS += [Crash(step, i) for step in ("moved", "sealed", "joined", "receipt") for i in range(3)]


@pytest.mark.parametrize("crash", STEPS, ids=str)
@pytest.mark.parametrize("sides", [2, 3])
def test_a_crash_at_every_step_around_the_migration_to_a_grid(sides, crash):
    """The first batch makes the key hot, the second begins with the migration, in the third it is divided: a crash
    in each of them, once and twice. The table, its memory and the answer are those of the undisturbed run."""
    stream = [batch_of(sides, 4, 100 * n) for n in range(4)]
    calm, shaken = MemoryFolder(), MemoryFolder()
    disturbed = [part for n, batch in enumerate(stream) for part in (*(crash,) * (n % 3), batch)]
    outcomes = []
    for folder, parts in ((calm, stream), (shaken, disturbed)):
        sunk = run_stream(lambda hooks, at=folder: start(sides, False, 3, checkpoint=at, hooks=hooks), parts)
        with start(sides, False, 3, checkpoint=folder) as join:
            join.process(batch_of(sides, 4, 900))
            assert divided(join), "the premise: the key is divided"
            assert_where_it_says(join, folder, sides)
            told = join._driver.last.memory
        outcomes.append((multiset(pa.concat_tables(sunk.values())), join.table(), told["former"], told["failures"]))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == truth(sides, False, stream)


def test_a_restart_goes_on_with_what_was_remembered():
    """What was seen, the credit and the shadow are in the commit; a run that is started anew for each batch decides as
    one that is not."""
    stream = [batch_of(2, 4, 100 * n, tall=(40, 3)) for n in range(6)]
    one, many = MemoryFolder(), MemoryFolder()
    with start(2, False, 3, checkpoint=one) as join:
        for batch in stream:
            join.process(batch)
        told, table = join._driver.last.memory, join.table()
    for batch in stream:
        with start(2, False, 3, checkpoint=many) as join:
            join.process(batch)
            again, other = join._driver.last.memory, join.table()
    assert divided(join)
    assert table == other
    for memory in (told, again):
        assert len(memory["seen"]) == 6
    assert (told["former"], told["failures"], told["about"]) == (again["former"], again["failures"], again["about"])


def test_another_strategy_forgets_and_auto_starts_anew():
    """`hash` remembers nothing, so `auto` after it begins without the memory of before."""
    folder, stream = MemoryFolder(), [batch_of(2, 4, 100 * n, tall=(40, 3)) for n in range(5)]
    found = Counter()
    for number, batch in enumerate(stream):
        strategy = "hash" if number == 2 else Auto(cores=3)
        with evenjoin.local(
            dict.fromkeys("ab", SCHEMA), on_of(2, False), strategy=strategy, instances=3, guards=EAGER,
            checkpoint=folder, **options_of(2, False),
        ) as join:  # fmt: skip
            found += multiset(join.process(batch))
            memory = join._driver.last.memory
            assert_where_it_says(join, folder, 2)
        assert (memory is None) == (number == 2)
        assert memory is None or len(memory["seen"]) == (1, 2, 0, 1, 2)[number]
    assert found == truth(2, False, stream)


def test_redacted_keys_are_in_no_verdict_and_no_memory():
    """A divided key is named by its code, which is salted."""
    secret = 987_654_321_012_345
    batches = []
    for number in range(4):
        rows = batch_of(2, secret, 100 * number, tall=(40, 3))
        batches.append(rows)
    with start(2, False, 3, redact_keys=True, checkpoint=MemoryFolder()) as join:
        sentences = []
        for batch in batches:
            join.process(batch)
            last = join._driver.last
            sentences.append(last.verdict.sentence)
            assert str(secret) not in repr(last)
        assert divided(join)
        assert secret not in divided(join)
    assert any("dividing it over" in sentence for sentence in sentences)
