"""Spread says of cells what `place` says of tuples, for every kind of table."""

from __future__ import annotations

import numpy as np
import pytest

from evenjoin.placement.place import At, cells_of, place
from evenjoin.placement.ranges import Interval, Ranges, Reach
from evenjoin.placement.table import Buckets, Keys, Region, RoutingTable
from evenjoin.placement.topology import Biclique, Grid, Role
from evenjoin.sim.spread import divided, spread_of

EVEN = 4096
POSITIONS = ((np.arange(EVEN) + 0.5) / EVEN * 2**32).astype(np.uint32)

TABLES = {
    "buckets, a moved key and a split one": RoutingTable(
        0, 4, 2, 2,
        (
            Region(Buckets((0,)), Biclique(((0,), (0,)))),
            Region(Buckets((1,)), Biclique(((1,), (2,)))),
            Region(Keys((7,)), Biclique(((3,), (1,)))),
            Region(Keys((9,)), Biclique(((0, 1, 2), (3, 0)), ((1.0, 2.0, 1.0), (3.0, 1.0)))),
        ),
    ),
    "one biclique": RoutingTable(0, 5, 2, 1, (Region(Buckets((0,)), Biclique(((0, 1, 2), (3, 4)))),)),
    "a grid": RoutingTable(0, 6, 2, 1, (Region(Buckets((0,)), Grid(2, 3, tuple(range(6)))),)),
    "a varietal grid": RoutingTable(0, 3, 2, 1, (Region(Buckets((0,)), Grid(1, 2, (0, 1), (2,))),)),
    "areas": RoutingTable(
        0, 5, 2, 0,
        (
            Region(Ranges(Interval(None, 8), Interval(None, 10)), Grid(1, 2, (0, 1))),
            Region(Ranges(Interval(8, None), Interval(6, None)), Grid(3, 1, (2, 3, 4))),
        ),
        reach=Reach(-2, 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_instance_gets_what_place_sends_it(table):
    """Tuples at even positions, code by code: equal counts where a cell is whole, and within one a slot elsewhere."""
    spread = spread_of(table)
    for side in (0, 1):
        for code in (3, 7, 9, 12):
            sent = place(table, side, At(np.full(EVEN, code), POSITIONS))
            cell = int(cells_of(table, np.array([code]))[0])
            rows = np.where(spread.cell[side] == cell, EVEN, 0)
            for entries, role in ((spread.held, Role.STORE), (spread.asked, Role.PROBE), (spread.sent, Role.BOTH)):
                wanted = np.bincount(sent.only(role).instance, minlength=table.instances)
                got = np.bincount(entries[side].instance, entries[side].divided(rows, 3), table.instances)
                assert np.abs(got - wanted).max() <= 3


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_each_pair_of_a_region_is_found_once(table):
    """What instances find of a row's pairs adds up to the row's pairs; nobody finds what it does not store."""
    spread = spread_of(table)
    for side in (0, 1):
        found, prober = spread.found[side]
        totals = np.arange(len(spread.cell[prober])) * 17 + 5
        parts = found.divided(totals, 1)
        assert np.bincount(found.row, parts, len(totals)).tolist() == totals.tolist()
        assert set(found.instance.tolist()) <= set(spread.held[side].instance.tolist())


def test_a_division_loses_nothing():
    """Whatever the total and the start."""
    ends = np.array([0.0, 0.1, 0.35, 0.8, 1.0])
    for total in (0, 1, 2, 7, 10**9 + 7):
        for start in (0.0, 0.25, 0.9999):
            parts = divided(np.full(4, total), ends[:-1], ends[1:], np.full(4, start))
            assert parts.sum() == total
            assert (np.abs(parts - total * np.diff(ends)) < 1).all()
