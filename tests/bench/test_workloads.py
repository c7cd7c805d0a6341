"""The streams are what their names say: seeded, zipf-distributed, in order of batches, with the papers' skew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from evenjoin.bench.hilbert import cell_of, xy_of
from evenjoin.bench.ride_hailing import CELL_M, CELLS, DAY_US, DISTRICTS, ORDER, Crowd, Day, cell_name
from evenjoin.bench.workloads import (
    EPOCH_US,
    SIDES,
    ZIPF_SCHEMA,
    ZipfStreams,
    exponent_for,
    write_batches,
    write_zipf,
    zipf_batch,
    zipf_weights,
)

SMALL = ZipfStreams(keys=1_000, exponent=0.8, rows_per_batch=5_000, batches=4)


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_the_curve_visits_every_cell_once_and_steps_to_a_neighbour(order: int) -> None:
    """xy_of walks the whole grid, one step at a time, and cell_of is its inverse."""
    cells = np.arange(1 << (2 * order))
    x, y = xy_of(cells, order)
    assert (np.abs(np.diff(x)) + np.abs(np.diff(y)) == 1).all()
    assert (cell_of(x, y, order) == cells).all()


def test_a_batch_depends_on_nothing_but_its_workload_side_and_number() -> None:
    """Making batch 3 first or last gives the same rows; sides, batches and seeds differ."""
    again = zipf_batch(SMALL, "l", 3)
    assert zipf_batch(SMALL, "l", 3) == again
    assert zipf_batch(SMALL, "r", 3) != again
    assert zipf_batch(ZipfStreams(1_000, 0.8, 5_000, 4, seed=8), "l", 3) != again


def test_key_frequencies_follow_the_zipf_law() -> None:
    """The share of the most frequent keys is the law's, on both sides and for the same keys."""
    tables = [zipf_batch(ZipfStreams(100, 1.0, 200_000, 1), side, 0) for side in SIDES]
    counts = [np.bincount(table["k"].to_numpy(), minlength=100) for table in tables]
    law = zipf_weights(100, 1.0)
    for count in counts:
        assert np.sort(count)[::-1][:10] / 200_000 == pytest.approx(law[:10], rel=0.05)
    assert np.argmax(counts[0]) == np.argmax(counts[1])


def test_each_batch_covers_its_own_second() -> None:
    """Event times of batch b lie in [b, b + 1) seconds, so a watermark of 0 drops nothing."""
    for batch in range(SMALL.batches):
        ts = zipf_batch(SMALL, "r", batch)["ts"].cast("int64").to_numpy() - EPOCH_US
        assert batch * 1_000_000 <= ts.min()
        assert ts.max() < (batch + 1) * 1_000_000


@pytest.mark.parametrize(("top", "mass"), [(0.2, 0.8), (0.24, 0.8), (0.01, 0.5)])
def test_the_exponent_gives_the_share_that_was_asked_for(top: float, mass: float) -> None:
    """exponent_for inverts 'the top x % hold y %'."""
    weights = zipf_weights(CELLS, exponent_for(CELLS, top, mass))
    assert weights[: round(CELLS * top)].sum() == pytest.approx(mass, abs=0.001)


def test_files_are_one_per_batch_and_rise_in_modification_time(tmp_path: Path) -> None:
    """Spark reads files by modification time: batch order must be file order."""
    folders = write_zipf(SMALL, tmp_path)
    for side, folder in folders.items():
        files = sorted(folder.glob("*.parquet"), key=lambda path: path.stat().st_mtime)
        assert [path.name for path in files] == [f"batch-{batch:05d}.parquet" for batch in range(4)]
        assert pq.read_table(files[2]) == zipf_batch(SMALL, side, 2)
        assert pq.read_schema(files[0]).equals(ZIPF_SCHEMA)


def test_no_tables_no_files(tmp_path: Path) -> None:
    """An empty stream is an empty folder, not an error."""
    assert write_batches(tmp_path / "none", []) == []
    assert (tmp_path / "none").is_dir()


@pytest.fixture(scope="module")
def day() -> Day:
    return Day(orders=200_000, tracks=300_000, batches=24)


def test_a_fifth_of_the_cells_hold_four_fifths_of_the_orders(day: Day) -> None:
    """20 % of the cells hold 80 % of the orders and 24 % hold 80 % of the tracks, in the rows themselves."""
    orders = np.bincount(np.concatenate([day.batch_orders(b)["cell"].to_numpy() for b in range(24)]), minlength=CELLS)
    tracks = np.bincount(np.concatenate([day.batch_tracks(b)["cell"].to_numpy() for b in range(24)]), minlength=CELLS)
    assert orders.sum() == 200_000
    assert tracks.sum() == 300_000
    assert np.sort(orders)[::-1][: round(CELLS * 0.20)].sum() / orders.sum() == pytest.approx(0.80, abs=0.02)
    assert np.sort(tracks)[::-1][: round(CELLS * 0.24)].sum() / tracks.sum() == pytest.approx(0.80, abs=0.02)


def test_a_hash_over_100_instances_is_as_uneven_as_published(day: Day) -> None:
    """LS-Stream's Fig. 2: the top tenth of the instances gets 39.6 % of the tuples, the bottom tenth none."""
    share = (day.orders * day.order_shares + day.tracks * day.track_shares) / (day.orders + day.tracks)
    loads = [np.sort(np.bincount(np.random.default_rng(h).integers(0, 100, CELLS), share, 100)) for h in range(100)]
    assert np.mean([load[-10:].sum() for load in loads]) == pytest.approx(0.396, abs=0.02)
    assert np.mean([load[:10].sum() for load in loads]) < 0.002


def test_hot_cells_are_near_each_other_on_the_curve_and_shared(day: Day) -> None:
    """The hottest fifth forms far fewer runs on the curve than scattered cells would, and the streams mostly agree."""
    fifth = CELLS // 5
    hot_orders = np.sort(np.argsort(day.order_shares)[::-1][:fifth])
    hot_tracks = np.argsort(day.track_shares)[::-1][:fifth]
    runs = 1 + int((np.diff(hot_orders) > 1).sum())
    assert runs < 0.5 * fifth
    assert np.isin(hot_orders, hot_tracks).mean() > 0.6


def test_the_day_has_a_shape_and_its_batches_follow_each_other(day: Day) -> None:
    """The evening is busier than the night, ids are unique, and every batch keeps to its slice of the day."""
    batches = [day.batch_orders(b) for b in range(24)]
    assert batches[18].num_rows > 5 * batches[3].num_rows
    assert np.concatenate([batch["id"].to_numpy() for batch in batches]).tolist() == list(range(200_000))
    for number, batch in enumerate(batches):
        ts = batch["ts"].cast("int64").to_numpy() - EPOCH_US
        assert DAY_US * number // 24 <= ts.min()
        assert ts.max() < DAY_US * (number + 1) // 24
        assert pc.all(pc.greater(batch["fare_cents"], 0)).as_py()


def test_a_cell_is_named_after_its_district() -> None:
    """The centre of a district is the district; one step east says so."""
    x, y, _ = DISTRICTS["Airport"]
    here = int(cell_of(np.array([x]), np.array([y]), ORDER)[0])
    east = int(cell_of(np.array([x + 1]), np.array([y]), ORDER)[0])
    assert cell_name(here) == f"c{here} Airport"
    assert cell_name(east) == f"c{east} Airport 1E"


def test_a_crowd_fills_one_cell_for_some_hours_and_changes_nothing_else(day: Day) -> None:
    """Inside its hours the cell has the crowd's share and what it would have anyway; every other row stays the same."""
    crowd = Crowd(cell=53, start=18.5, end=20.0, share=0.4)
    crowded = replace(day, crowd=crowd)
    for make in ("batch_orders", "batch_tracks"):
        for batch in (17, 18, 19, 20):
            plain, full = getattr(day, make)(batch), getattr(crowded, make)(batch)
            assert plain.drop_columns("cell").equals(full.drop_columns("cell"))
            before, after = plain["cell"].to_numpy(), full["cell"].to_numpy()
            hour = (plain["ts"].cast("int64").to_numpy() - EPOCH_US) / 3_600e6
            during = (hour >= 18.5) & (hour < 20.0)
            assert (before == after)[~during].all()
            assert (after[before != after] == 53).all()
            if during.any():
                own = (before[during] == 53).mean()
                assert (after[during] == 53).mean() == pytest.approx(0.4 + 0.6 * own, abs=0.03)


def test_places_in_metres_lie_in_their_cell(day: Day) -> None:
    """They come as further columns, are all over the cell, and leave the day as it is."""
    placed = replace(day, places="metres")
    for make in ("batch_orders", "batch_tracks"):
        rows = getattr(placed, make)(18)
        assert rows.drop_columns(["x_m", "y_m"]).equals(getattr(day, make)(18))
        x, y = (rows[name].to_numpy() for name in ("x_m", "y_m"))
        assert np.array_equal(cell_of(x // CELL_M, y // CELL_M, ORDER), rows["cell"].to_numpy())
        for inside in (x % CELL_M, y % CELL_M):
            assert np.histogram(inside, 10, (0, CELL_M))[0].min() > 0.08 * len(x)
        assert abs(np.corrcoef(x % CELL_M, y % CELL_M)[0, 1]) < 0.05
