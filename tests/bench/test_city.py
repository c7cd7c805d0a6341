"""FastJoin's city is what the paper says of it: shares, the ratio of the sides, and how uneven a hash table is."""

from __future__ import annotations

import numpy as np
import pytest

from evenjoin.bench import city
from evenjoin.bench.catalog import NAMES, workload
from evenjoin.bench.city import HOT, PLACES, City, places_by_rank, shares
from evenjoin.bench.join_workload import KEYED, Size
from evenjoin.strategies import FastJoin
from strategies.zipf_load import reported

UNITS = 48
ORDERS, TRACKS = 7_000_000, 3_010_000_000


@pytest.mark.parametrize(("side", "top"), [(0, 0.20), (1, 0.24)], ids=["orders", "tracks"])
def test_so_many_places_have_80_percent(side: int, top: float) -> None:
    """Fig. 1: 20 % of the places have 80 % of the orders, 24 % have 80 % of the tracks. The hottest has 1 %."""
    law = np.sort(shares(side, 1))[::-1]
    assert law.sum() == pytest.approx(1)
    assert law[: round(PLACES * top)].sum() == pytest.approx(0.8, abs=0.002)
    assert law[0] == pytest.approx(0.01, abs=0.001)


def test_orders_and_tracks_have_the_same_hot_places() -> None:
    """And the other places have many tracks where they have many orders, in an order of their own."""
    orders, tracks = (places_by_rank(side, 1) for side in (0, 1))
    assert orders[:HOT].tolist() == tracks[:HOT].tolist()
    assert orders.tolist() != tracks.tolist()
    assert np.corrcoef(shares(0, 1), shares(1, 1))[0, 1] > 0.8


@pytest.mark.parametrize("seed", range(5))
def test_a_hash_table_is_as_uneven_as_in_the_paper(seed: int) -> None:
    """48 units a side, full history: the heaviest stored x probes over the lightest is about 2.5 (Fig. 11), by counts
    as large as the paper's, on the table that FastJoin starts with and by its own measure."""
    rng, strategy = np.random.default_rng(seed), FastJoin()
    table = strategy.initial(2 * UNITS, 2, "split")
    rows = [rng.poisson(many * shares(side, seed)) for side, many in enumerate((ORDERS, TRACKS))]
    counts = np.array(rows, float)
    items = reported(table, np.arange(PLACES), counts, counts)
    assert 2.2 <= strategy.imbalance(items, table) <= 2.8


def test_batches_have_430_tracks_for_each_order() -> None:
    """Over the whole history, without a window; the same seed gives the same batches."""
    assert "city" in NAMES
    found = workload("city", Size(rows=20, batches=2))
    assert (found.event_time, found.compared) == (None, KEYED)
    assert found.spec().unbounded_sides()
    for number, rows in ((0, 20), (1, 20 * 430)):
        one, two = found.streams.side(number)
        assert one.num_rows == two.num_rows == rows
        assert len(np.unique(np.concatenate([one["id"].to_numpy(), two["id"].to_numpy()]))) == 2 * rows
        assert one == next(iter(City(20, 2).side(number))) != next(iter(City(20, 2, seed=2).side(number)))
    assert city.workload("city").batches == 24
