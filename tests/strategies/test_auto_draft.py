"""The draft of `auto`: hot and warm keys as before/after literals, and that it forecasts the table that it makes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from evenjoin.load.cost import NOTHING_SEEN, Cost, copies, makespan
from evenjoin.load.items import items_of, moved_tuples
from evenjoin.placement import Biclique, check
from evenjoin.placement.place import bucket_of
from evenjoin.placement.topology import Cube, Grid
from evenjoin.strategies import Auto
from evenjoin.strategies.auto.draft import CANDIDATES, Draft
from evenjoin.strategies.auto.planner import drafted
from evenjoin.strategies.auto.price import MOVE_MS, Price
from evenjoin.strategies.edit import Edit, home_of_buckets, keys_of
from strategies.counted import counted, together
from thorough import examples

CHEAP = 1e-6
"""A price of moving at which state that is in the way is no reason to leave it there."""


def table_of(instances, sides=2):
    table = Auto().initial(instances, sides, "shared")
    return table if sides == 2 else together(table)


def at(table, instance, count=1, start=0):
    """Codes whose bucket lives on an instance."""
    codes = np.arange(start, start + 1000)
    homes = [home_of_buckets(table)[bucket].units[0] for bucket in bucket_of(codes, table.buckets).tolist()]
    return [code for code, home in zip(codes.tolist(), homes, strict=True) if home == (instance,)][:count]


def draft_of(table, keys, cores=None, heavy=None, cost=NOTHING_SEEN, factor=CHEAP):
    items = items_of(counted(table, keys, heavy), table)
    cores = table.instances if cores is None else cores
    return drafted(items, table, cost, cores, Price(min(cores, table.instances), move_ms=factor * MOVE_MS))


def made(draft):
    """The table of a draft; it says of itself what the cost model says of it."""
    assert_agrees(draft)
    return check(draft.table_made())


def assert_agrees(draft):
    """Of the state that a draft ends in: tasks, copies and, for whole keys, tuples moved are those of the table that
    all its steps make."""
    whole = draft.best
    draft.best = len(draft.steps)
    table = draft.table_made() if draft.steps else draft.table
    draft.best = whole
    cost = draft.cost
    np.testing.assert_allclose(draft.tasks, cost.tasks(draft.items, table), rtol=1e-6, atol=1e-6)
    assert draft.sent == pytest.approx(copies(draft.items, table), rel=1e-6, abs=1e-3)
    assert draft.time == pytest.approx(cost.time(draft.items, table, draft.cores), rel=1e-6)


def uneven(draft):
    return makespan(draft.tasks, draft.cores) / (draft.tasks.sum() / draft.lanes)


def one_sided(code, count, stored=0, found=0):
    return {code: (count, 0, stored, 0, found, 0)}


def even(table, count, stored=None):
    """The same work on every instance: one key each, of both sides."""
    stored = count if stored is None else stored
    return {at(table, i)[0]: (count, count, stored, stored, 0, 0) for i in range(table.instances)}


def test_a_key_that_is_hot_on_one_side_is_divided_in_one_line():
    """4 x 1: its tuples of side 0 go to one of the cells, those of side 1 to all."""
    table = table_of(4)
    hot = at(table, 2, start=1000)[0]
    draft = draft_of(table, {**even(table, 10_000), hot: (1_000_000, 10, 1_000_000, 10, 0, 0)})
    found = keys_of(made(draft))
    assert set(found) == {hot}
    grid = found[hot]
    assert isinstance(grid, Grid)
    assert (grid.rows, grid.columns, sorted(grid.cells)) == (4, 1, [0, 1, 2, 3])
    assert uneven(draft) <= 1.03


def test_and_the_other_side_as_a_column():
    table = table_of(4)
    hot = at(table, 2, start=1000)[0]
    grid = keys_of(made(draft_of(table, {**even(table, 10_000), hot: (10, 1_000_000, 10, 10, 0, 0)})))[hot]
    assert (grid.rows, grid.columns) == (1, 4)


def test_a_key_that_is_hot_on_both_sides_is_divided_both_ways():
    """A line would copy all of one side to each cell."""
    table = table_of(4)
    hot = at(table, 2, start=1000)[0]
    grid = keys_of(made(draft_of(table, {**even(table, 1000), hot: (1_000_000, 1_000_000, 0, 0, 0, 0)})))[hot]
    assert (grid.rows, grid.columns) == (2, 2)


def test_a_line_is_weighted_by_the_room_of_its_cells():
    """An instance that has more to do already gets less of the key."""
    table = table_of(2)
    full, hot = at(table, 0)[0], at(table, 1)[0]
    draft = draft_of(table, {full: (300_000, 0, 0, 0, 0, 0), hot: (700_000, 0, 0, 0, 0, 0)})
    grid = keys_of(made(draft))[hot]
    shares = {grid.cells[line]: width / 2**32 for line, width in grid.division(0)}
    assert shares[0] == pytest.approx(2 / 7, abs=0.01)
    assert shares[1] == pytest.approx(5 / 7, abs=0.01)


def test_a_warm_key_is_moved_whole():
    """Two keys that share an instance are parted; to divide one would cost copies."""
    table = table_of(2)
    one, two = at(table, 0, 2)
    both = {one: (300_000, 300_000, 9, 9, 0, 0), two: (300_000, 300_000, 5, 5, 0, 0)}
    found = keys_of(made(draft_of(table, both)))
    assert len(found) == 1
    assert set(found.values()) == {Biclique(((1,), (1,)))}


def test_keys_that_nobody_named_move_with_their_bucket():
    table = table_of(2)
    one = at(table, 0)[0]
    other = next(code for code in at(table, 0, 99) if bucket_of(np.array([code]), 32) != bucket_of(np.array([one]), 32))
    draft = draft_of(table, {one: (500_000, 0, 0, 0, 0, 0), other: (500_000, 0, 0, 0, 0, 0)}, heavy=0)
    changed = made(draft)
    assert keys_of(changed) == {}
    homes = {Edit(changed).home(code).units[0] for code in (one, other)}
    assert homes == {(0,), (1,)}


def test_a_small_key_is_never_divided():
    """Less than a tenth of a core's share: nothing to divide, and nothing to move where all are even."""
    table = table_of(4)
    assert made(draft_of(table, even(table, 100_000))) is table


def test_copies_that_no_longer_pay_are_merged_back():
    """The key that was hot on side 0 now has all its tuples on side 1, and each of them is copied four times."""
    table = table_of(4)
    hot = at(table, 2, start=1000)[0]
    divided = made(draft_of(table, {**even(table, 10_000), hot: (1_000_000, 10, 0, 0, 0, 0)}))
    assert isinstance(keys_of(divided)[hot], Grid)
    later = {**even(table, 1_000_000), hot: (0, 100_000, 0, 0, 0, 0)}
    back = made(draft_of(divided, later))
    assert keys_of(back) == {}
    kept = {**even(table, 1_000_000), hot: (100_000, 0, 0, 0, 0, 0)}
    assert made(draft_of(divided, kept)) is divided, "without copies a divided key costs nothing"


def test_a_key_that_has_fallen_silent_stays_divided():
    """No copies are sent, so nothing is saved by moving it."""
    table = table_of(4)
    hot = at(table, 2, start=1000)[0]
    divided = made(draft_of(table, {**even(table, 10_000), hot: (1_000_000, 10, 1_000_000, 10, 0, 0)}))
    silent = {**even(table, 100_000), hot: (0, 0, 1_000_000, 10, 0, 0)}
    assert made(draft_of(divided, silent)) is divided


def test_records_of_keys_that_nothing_is_left_of_go_with_the_next_change():
    """That is free; without another change the table is left alone."""
    table = table_of(4)
    cold, hot = at(table, 2, start=1000)[0], at(table, 1, start=5000)[0]
    divided = made(draft_of(table, {**even(table, 10_000), cold: (1_000_000, 10, 0, 0, 0, 0)}))
    assert made(draft_of(divided, even(table, 10_000))) is divided
    changed = made(draft_of(divided, {**even(table, 10_000), hot: (1_000_000, 10, 0, 0, 0, 0)}))
    assert set(keys_of(changed)) == {hot}


def test_a_key_of_three_sides_is_divided_by_a_cube():
    """The hot side is divided, the others are copied."""
    table = table_of(4, sides=3)
    hot = at(table, 2, start=1000)[0]
    keys = {at(table, i)[0]: (1000,) * 6 + (0,) * 3 for i in range(4)}
    draft = draft_of(table, {**keys, hot: (5, 1_000_000, 5, 0, 0, 0, 0, 0, 0)})
    cube = keys_of(made(draft))[hot]
    assert isinstance(cube, Cube)
    assert cube == Cube.divided(1, cube.cells)
    assert sorted(cube.cells) == [0, 1, 2, 3]


def test_eight_uneven_instances_on_two_cores_are_left_alone():
    """Each is another multiple of the least, but two cores share them evenly: there is nothing to save."""
    table = table_of(8)
    keys = {at(table, i)[0]: ((i + 1) * 100_000, 0, 0, 0, 0, 0) for i in range(8)}
    assert made(draft_of(table, keys, cores=2)) is table
    assert made(draft_of(table, keys, cores=8)) is not table


def test_a_key_is_divided_no_further_than_there_are_cores():
    """A key that is most of both sides, on eight instances of two cores. Two cells keep both cores busy; eight would
    make the longest task shorter still, and the batch longer: each of the copies is stored and probes."""
    table = table_of(8)
    hot = at(table, 2, start=1000)[0]
    keys = {**even(table, 2000), hot: (400_000, 400_000, 0, 0, 2_000_000, 2_000_000)}
    on_two, on_eight = (keys_of(made(draft_of(table, keys, cores)))[hot] for cores in (2, 8))
    assert len(on_two.cells) == 2
    assert len(on_eight.cells) == 8


def test_three_keys_on_two_cores():
    """No task is longer than what a core has to do, and still one of the keys has to be divided."""
    table = table_of(8)
    keys = {at(table, i, start=1000)[0]: (600_000, 0, 0, 0, 0, 0) for i in range(3)}
    draft = draft_of(table, keys, cores=2)
    assert len(keys_of(made(draft))) == 1
    assert uneven(draft) <= 1.03


def test_long_tasks_are_relieved_one_after_another_though_the_first_saves_nothing():
    """Fifteen equal keys on twelve cores take two rounds. They still do while more than twelve are whole, so dividing
    one, or two, saves nothing yet."""
    table = table_of(48)
    keys = {at(table, i, start=1000)[0]: (600_000, 0, 0, 0, 0, 0) for i in range(15)}
    draft = draft_of(table, keys, cores=12)
    assert made(draft) is not table
    assert uneven(draft) <= 1.15


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_one_instance_has_nothing_to_plan(cores):
    table = table_of(1)
    assert made(draft_of(table, {3: (1_000_000, 10, 5, 5, 5, 5)}, cores=cores)) is table


@pytest.mark.parametrize("keys", [{}, {3: (0, 0, 0, 0, 0, 0)}], ids=["no keys", "a key without tuples"])
def test_a_batch_without_tuples_is_even(keys):
    table = table_of(4)
    draft = draft_of(table, keys)
    assert made(draft) is table
    assert uneven(draft) == 1.0


def test_a_side_that_is_silent_is_no_trouble():
    """No results, no probes that find anything: the other side is divided all the same, without copies."""
    table = table_of(4)
    hot = at(table, 0)[0]
    draft = draft_of(table, one_sided(hot, 2_000_000))
    assert keys_of(made(draft))[hot].rows == 4
    assert draft.sent == 0


def test_state_that_is_dear_to_move_stays():
    """Ten million stored tuples of the hot key, at a hundred times the usual price: more than twenty batches save."""
    table = table_of(4)
    hot = at(table, 2, start=1000)[0]
    keys = {**even(table, 10_000), hot: (100_000, 10, 10_000_000, 10, 0, 0)}
    assert made(draft_of(table, keys)) is not table
    assert made(draft_of(table, keys, factor=100.0)) is table


def test_a_key_that_is_merged_back_moves_with_its_bucket():
    """Once it lives in its bucket again, moving that bucket moves it, in the forecast as in the table."""
    table = table_of(2)
    hot = at(table, 0, start=1000)[0]
    divided = made(draft_of(table, one_sided(hot, 1_000_000)))
    others = dict.fromkeys(at(table, 0, 3), (400000, 400000, 0, 0, 0, 0))
    same = [code for code in range(2000, 4000) if bucket_of(np.array([code]), 32) == bucket_of(np.array([hot]), 32)]
    keys = {**others, hot: (0, 300_000, 0, 0, 0, 0), same[0]: (500_000, 500_000, 0, 0, 0, 0)}
    made(draft_of(divided, keys, heavy=0))


def test_the_table_has_a_bound():
    """A new key is hot in every batch, and all that were before are still stored. No more than CANDIDATES an instance
    have regions of their own; the newest always has, and the silent ones with the least to move go home for it."""
    table, stored = table_of(2), {}
    keys = at(table, 0, 50)
    for number, key in enumerate(keys):
        table = made(draft_of(table, {**stored, key: (1_000_000, 10, 1000 + number, 10, 0, 0)}))
        stored[key] = (0, 0, 1000 + number, 10, 0, 0)
        assert isinstance(keys_of(table)[key], Grid)
        assert len(keys_of(table)) <= CANDIDATES * table.instances
    assert keys_of(table).keys() >= set(keys[-CANDIDATES:]), "the first ones went"


def test_a_slow_instance_gets_less():
    """Even load on four instances, of which one is half as fast: it keeps about half as much as the others. Without
    knowing of it nothing would change."""
    table = table_of(4)
    keys = {code: (40_000, 0, 10, 0, 0, 0) for i in range(4) for code in at(table, i, 12)}
    slow = replace(NOTHING_SEEN, each=np.array([0.0, 2e-4, 2e-4, 0.0]), slow=np.array([1.0, 2.0, 1.0, 1.0]))
    assert not draft_of(table, keys, cost=replace(slow, slow=None)).best
    draft = draft_of(table, keys, cost=slow)
    made(draft)
    work = draft.tasks / slow.slow
    assert work[1] / work.sum() == pytest.approx(1 / 7, abs=0.04)
    assert draft.time < 0.65 * draft.start


def test_a_hot_key_gives_a_slow_instance_a_smaller_part():
    """A key that is everything is divided by speed: 1, 1/2, 1 and 1 of 3.5."""
    table = table_of(4)
    hot = at(table, 0)[0]
    cost = replace(NOTHING_SEEN, each=np.array([0.0, 2e-4, 2e-4, 0.0]), slow=np.array([1.0, 2.0, 1.0, 1.0]))
    draft = draft_of(table, {hot: (1_000_000, 1, 0, 0, 0, 0)}, cost=cost)
    grid = keys_of(made(draft))[hot]
    parts = dict(zip(grid.cells, [width / 2**32 for _, width in grid.divisions[0]], strict=True))
    assert [parts[i] for i in range(4)] == pytest.approx([2 / 7, 1 / 7, 2 / 7, 2 / 7], abs=0.01)


costs = st.builds(
    lambda each, send: Cost(np.array(each), send),
    st.tuples(*[st.sampled_from([0.0, 1e-4, 2e-3, 0.1, 3.0])] * 4),
    st.sampled_from([0.0, 1e-4, 0.01]),
)


@st.composite
def counts(draw, sides):
    """Keys with counts, a few of them hot. Codes are few, so that buckets have several keys."""
    out = {}
    for code in draw(st.lists(st.integers(0, 60), unique=True, min_size=1, max_size=25)):
        tall = draw(st.sampled_from([1, 10, 1000, 30_000]))
        arrived, stored = (
            [draw(st.integers(0, 9)) * (tall if draw(st.booleans()) else 1) for _ in range(sides)] for _ in range(2)
        )
        found = [draw(st.integers(0, 5)) * tall if any(arrived) else 0 for _ in range(sides)]
        out[code] = (*arrived, *stored, *found)
    return out


@settings(max_examples=examples(150), deadline=None)
@given(st.data(), st.sampled_from([2, 2, 3]), st.integers(1, 9), st.integers(1, 9), costs)
def test_a_draft_forecasts_the_table_that_it_makes(data, sides, instances, cores, cost):
    """Tasks, copies and time, after any steps, of tables that grew out of earlier drafts; and the state that it keeps
    is no worse than the table there was."""
    table = table_of(instances, sides)
    if data.draw(st.booleans()):
        cost = replace(
            cost, slow=np.array([data.draw(st.sampled_from([1.0, 1.0, 2.0, 0.5])) for _ in range(instances)])
        )
    if sides == 2:  # what another strategy may have left: keys whose sides are apart, or split by weight
        edit, some = (
            Edit(table),
            st.lists(st.integers(0, instances - 1), unique=True, min_size=1, max_size=3).map(tuple),
        )
        for code in data.draw(st.lists(st.integers(0, 60), unique=True, max_size=3)):
            edit.place_key(code, Biclique((data.draw(some), data.draw(some))))
        table = check(edit.table())
    for _ in range(data.draw(st.integers(1, 4))):
        keys, heavy = data.draw(counts(sides)), data.draw(st.sampled_from([None, None, 3, 0]))
        items = items_of(counted(table, keys, heavy), table)
        price = Price(min(cores, instances), move_ms=MOVE_MS * data.draw(st.sampled_from([1e-6, 1.0])))
        draft = Draft(items, table, cost, cores, price)
        assert_agrees(draft)
        draft.improve()
        assert_agrees(draft)
        following = check(draft.table_made())
        saved = cost.time(items, table, cores) - cost.time(items, following, cores)
        assert saved >= draft.saved - 1e-6 * (1 + abs(saved))
        assert saved >= -1e-9 or following is table
        for code, topology in keys_of(following).items():
            event(f"{type(topology).__name__}, sides {sides}")
            assert code in items.code
        table = following


@settings(max_examples=examples(60), deadline=None)
@given(st.data(), st.integers(2, 6))
def test_a_draft_counts_the_state_that_moves_as_the_guards_do(data, instances):
    """Exactly for whole keys and buckets; of divided keys never more than really enters."""
    table = table_of(instances)
    keys = data.draw(counts(2))
    items = items_of(counted(table, keys), table)
    price = Price(instances, move_ms=CHEAP * MOVE_MS)
    draft = drafted(items, table, replace(NOTHING_SEEN, send_ms=0.0), instances, price)
    draft.best = len(draft.steps)
    real = moved_tuples(items, table, draft.table_made()) if draft.steps else 0.0
    whole = all(step.topology is None or isinstance(step.topology, Biclique) for step in draft.steps)
    codes = [(step.code, step.bucket) for step in draft.steps]
    if whole and len(set(codes)) == len(codes):
        assert draft.moved == pytest.approx(real, abs=1e-3)
    assert makespan(draft.tasks, instances) > 0 or not items.arrived.any()
