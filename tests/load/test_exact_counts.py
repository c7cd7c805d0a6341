"""Stored tuples are counted exactly, whatever expires, wherever a key lives, and whether or not it still comes."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenjoin
from evenjoin.load.items import items_of, loads, planning_items
from evenjoin.load.rates import rates_after
from evenjoin.placement import Biclique, Buckets, Grid, Keys, Region, RoutingTable
from evenjoin.testing import Fixed
from thorough import examples

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

TIMED = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
PLAIN = pa.schema([("id", pa.int64()), ("k", pa.int64())])
START = datetime.fromisoformat("2024-01-01T00:00:00+00:00")
WINDOW = "l.k = r.k AND r.ts BETWEEN l.ts - INTERVAL 10 SECONDS AND l.ts + INTERVAL 10 SECONDS"


def rows(keys, second):
    times = [START + timedelta(seconds=second)] * len(keys)
    return pa.table([list(range(len(keys))), keys, times], schema=TIMED)


def windowed(strategy, instances, track=8, layout="shared"):
    return evenjoin.local(
        {"l": TIMED, "r": TIMED}, WINDOW, event_time={"l": "ts", "r": "ts"},
        watermark={"l": "1 second", "r": "1 second"}, select=["l.id"],
        strategy=strategy, instances=instances, track=track, layout=layout, sub_window="5 seconds",
    )  # fmt: skip


@pytest.mark.parametrize("layout", ["shared", "split"])
def test_a_hot_key_that_changes_each_batch_is_counted_where_it_is(layout):
    """What the planner sees stored on each instance is what the manifest says, after any expiry."""
    with windowed("hash", 4, layout=layout) as join:
        for batch in range(12):
            keys = [batch] * 90 + list(range(100, 130))
            join.process({"l": rows(keys, 4 * batch), "r": rows(keys[:40], 4 * batch)})
            report, table = join.load(), join._driver.table_named(join._driver.last.table)
            held = items_of(report, table).held[1]
            seen = np.array([unit.stored for unit in loads(items_of(report, table), table)])
            assert seen.tolist() == held.tolist()
        assert report.expired > 0


@settings(max_examples=examples(25), deadline=None)
@given(
    st.lists(st.tuples(*[st.lists(st.integers(0, 9), max_size=25)] * 2, st.integers(0, 9)), min_size=2, max_size=8),
    st.sampled_from(["shared", "split"]), st.integers(1, 4), st.integers(0, 2**32),
)  # fmt: skip
def test_items_repeat_what_is_stored_while_tuples_expire(batches, layout, instances, seed):
    """Per instance and side, on hash tables with any streams; runs are merged, and partly expired, on the way."""
    with windowed("hash", max(instances, 2), track=3, layout=layout) as join:
        second = 0
        for left, right, gap in batches:
            second += gap
            join.process({"l": rows(left, second), "r": rows(right, second)})
            report, table = join.load(), join._driver.table_named(join._driver.last.table)
            items = items_of(report, table)
            seen = np.array([unit.stored for unit in loads(items, table)])
            assert seen.tolist() == items.held[1].tolist()
            assert (items.stored >= 0).all()


def test_a_key_is_counted_on_all_its_hosts():
    """In layout split a key lives on two instances. The one where others are heavier counts it once it is watched."""
    home = Region(Buckets((0,)), Biclique(((0,), (1,))))
    table = RoutingTable(0, 2, 2, 1, (home,), "drawn")
    with evenjoin.local(
        {"l": PLAIN, "r": PLAIN}, "l.k = r.k", strategy=Fixed((table, table, table)), instances=2, track=1
    ) as join:
        for _ in range(3):
            left, right = [5] * 9 + [6] * 2, [5] * 2 + [6] * 50
            join.process({"l": pa.table([left, left], schema=PLAIN), "r": pa.table([right, right], schema=PLAIN)})
            report = join.load()
            items = items_of(report, table)
            for code, stored in zip(items.code[items.is_key].tolist(), items.stored.T.tolist(), strict=False):
                assert stored == [{5: 9, 6: 2}[code] * (report.batch + 1), {5: 2, 6: 50}[code] * (report.batch + 1)]
        assert items.is_key.any()
        assert not report.partial


def test_a_key_that_no_longer_comes_is_still_named():
    """A key with many stored tuples and no arrivals can be what makes an instance full."""
    with evenjoin.local({"l": PLAIN, "r": PLAIN}, "l.k = r.k", strategy="hash", instances=2, track=2) as join:
        for keys in ([7] * 500, list(range(100, 150)), list(range(200, 250))):
            batch = pa.table([keys, keys], schema=PLAIN)
            join.process({"l": batch, "r": batch.slice(0, 10)})
        assert 7 in {key.code for key in join.load().heavy}


def test_rates_are_smoothed_and_outlive_a_change_of_table():
    """A key's rate goes a quarter of the way to each batch's count, and does not start anew when the key moves."""
    home = Region(Buckets((0,)), Biclique(((0,), (0,))))
    first = RoutingTable(0, 2, 2, 1, (home,), "drawn")
    second = first.with_regions((home, Region(Keys((7,)), Biclique(((1,), (1,))))))
    tables = (first,) * 4 + (second,) * 4
    seen = []
    with evenjoin.local({"l": PLAIN, "r": PLAIN}, "l.k = r.k", strategy=Fixed(tables), instances=2, track=4) as join:
        for number in range(6):
            keys = [7] * (100 if number % 2 else 60) + [8] * 10
            join.process({"l": pa.table([keys, keys], schema=PLAIN), "r": pa.table([[], []], schema=PLAIN)})
            report, table = join.load(), tables[number]
            items = planning_items(report, table)
            rates = report.rates
            seen.append(rates.of_keys[0][rates.codes.index(7)])
            assert sum(rates.in_buckets[0]) == pytest.approx(seen[-1] + 10)
            planned = items.arrived[0, items.code.tolist().index(7)]
            assert items.arrived[0].sum() == pytest.approx(planned + 10, abs=0.6)
    assert planned == pytest.approx(80, abs=1.3), "what is stored of it, 480 tuples in 6 batches, agrees with its rate"
    assert seen == pytest.approx([60, 80, 60 + 20 * 2 / 3, 79.9999, 75.0, 81.25], abs=0.01)


def test_rates_start_anew_with_other_buckets():
    """Six buckets are no refinement of four."""

    def items(buckets, count):
        zeros = np.zeros(buckets, np.int64)
        counts = np.full((2, buckets), float(count))
        return evenjoin.load.items.Items(zeros, zeros > 0, np.arange(buckets), counts, counts, counts)

    rates = rates_after(rates_after(None, items(4, 10)), items(4, 20))
    assert (rates.batches, rates.in_buckets[0]) == (2, (15.0,) * 4)
    assert rates_after(rates, items(6, 3)).batches == 1


def test_recent_intake_is_of_one_table():
    """What an instance took in before a migration says nothing about what it takes in now."""
    home = Region(Buckets((0,)), Biclique(((0,), (0,))))
    first = RoutingTable(0, 2, 2, 1, (home,), "drawn")
    second = first.with_regions((Region(Buckets((0,)), Biclique(((1,), (1,)))),))
    batch = pa.table([[1, 2], [1, 2]], schema=PLAIN)
    with evenjoin.local(
        {"l": PLAIN, "r": PLAIN}, "l.k = r.k", strategy=Fixed((first, first, second)), instances=2
    ) as join:
        lengths = []
        for _ in range(3):
            join.process({"l": batch, "r": batch})
            lengths.append(len(join.load().recent))
    assert lengths == [1, 2, 1]


def test_stored_tuples_of_cells_are_counted_only_if_somebody_asks():
    """Hash without `track`: each instance still says how much it stores, its cells and keys say 0."""
    batch = pa.table([[1, 2, 2], [1, 2, 2]], schema=PLAIN)
    for track, of_cells in ((0, 0), (2, 6)):
        with evenjoin.local({"l": PLAIN, "r": PLAIN}, "l.k = r.k", strategy="hash", instances=2, track=track) as join:
            join.process({"l": batch, "r": batch})
            report = join.load()
        assert sum(sum(load.stored) for load in report.instances) == 6
        assert sum(stored for _, _, _, stored, _ in report.cells) == of_cells
        assert {sum(key.stored) for key in report.heavy if key.code == 2} == {4 if track else 0}


@pytest.mark.parametrize("grid", [Grid(2, 1, (0, 1)), Grid(1, 2, (0, 1)), Grid(2, 2, (0, 1, 2, 3))])
def test_a_divided_key_is_not_heavier_than_it_is(grid):
    """Copies are no arrivals. Key 7 has 60 and 20 tuples a batch, key 3 on one instance 70 and 30: it comes first."""
    home = tuple(Region(Buckets((i,)), Biclique(((i,), (i,)))) for i in range(4))
    table = RoutingTable(0, 4, 2, 4, (*home, Region(Keys((7,)), grid)), "drawn")
    with evenjoin.local(
        {"l": PLAIN, "r": PLAIN}, "l.k = r.k", strategy=Fixed((table,) * 4), instances=4, track=4
    ) as join:
        for _ in range(3):
            left, right = ([3] * a + [7] * b for a, b in ((70, 60), (30, 20)))
            join.process({"l": pa.table([range(130), left], PLAIN), "r": pa.table([range(50), right], PLAIN)})
        report = join.load()
    seen = {key.code: key for key in report.heavy}
    assert (seen[7].arrived, seen[3].arrived) == ((60, 20), (70, 30))
    assert seen[7].stored == (180 * grid.columns, 60 * grid.rows), "what is stored are copies"
    assert [key.code for key in report.heavy] == [3, 7]
