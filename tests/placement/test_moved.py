"""What changes place between two regions: literals, and against `diff` over many positions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.placement import Biclique, check
from evenjoin.placement.diff import diff, entering, entering_share
from evenjoin.placement.place import At, cells_of, place
from evenjoin.placement.table import Buckets, Region, RoutingTable
from evenjoin.placement.topology import Cube, Role
from thorough import examples

U = np.linspace(0, 2**32 - 1, 4096).astype(np.uint32)


def r_on(*pieces):
    """Units of R, as (instance, weight); S is on 9."""
    units, weights = zip(*pieces, strict=True)
    return Biclique((units, (9,)), (weights, (1.0,)))


@pytest.mark.parametrize(
    ("old", "new", "enters"),
    [
        (r_on((0, 1.0)), r_on((0, 1.0)), 0.0),
        (r_on((0, 1.0)), r_on((1, 1.0)), 1.0),
        (r_on((0, 0.6), (1, 0.4)), r_on((0, 0.4), (1, 0.6)), 0.2),
        (r_on((0, 0.6), (1, 0.4)), r_on((1, 0.6), (0, 0.4)), 1.0),
        (r_on((0, 0.4), (1, 0.3), (2, 0.3)), r_on((0, 0.2), (1, 0.3), (2, 0.5)), 0.4),
        (r_on((0, 0.4), (1, 0.3), (2, 0.3)), r_on((0, 0.2), (2, 0.2), (1, 0.3), (2, 0.3)), 0.2),
        (Cube.divided(0, (0, 1)), Cube.divided(0, (0, 1, 2)), 0.5),
    ],
    ids=[
        "nothing", "all", "one cut", "other owners", "all cuts shift", "unit 2 has two pieces and no cut shifts",
        "a cube's even cuts",
    ],
)  # fmt: skip
def test_what_enters(old, new, enters):
    """The share of the positions that are stored elsewhere afterwards."""
    assert entering_share(old, new, 0) == pytest.approx(enters)


def test_a_unit_with_two_pieces_is_one_unit():
    """Its key is probed once there, and no result is lost or repeated; it holds the sum of its pieces."""
    table = RoutingTable(0, 10, 2, 1, (Region(Buckets((0,)), r_on((0, 0.2), (2, 0.2), (1, 0.3), (2, 0.3))),))
    check(table)
    probes = place(table, 1, At(np.zeros(1, np.int64), np.zeros(1, np.uint32))).only(Role.PROBE)
    assert sorted(probes.instance.tolist()) == [0, 1, 2]
    stored = place(table, 0, At(np.zeros(len(U), np.int64), U)).only(Role.STORE)
    assert np.bincount(stored.instance) / len(U) == pytest.approx([0.2, 0.3, 0.5], abs=0.001)
    assert RoutingTable.from_json(table.to_json()) == table


pieces = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9).map(float)), min_size=1, max_size=6)
topologies = st.one_of(
    pieces.map(lambda some: r_on(*some)),
    st.lists(st.integers(0, 4), min_size=1, max_size=4, unique=True).map(lambda cells: Cube.divided(0, tuple(cells))),
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(topologies, min_size=2, max_size=2), st.lists(topologies, min_size=2, max_size=2))
def test_it_is_what_diff_moves(one, two):
    """Two buckets, each from any topology to any other: as many tuples enter as `diff` says of even positions."""
    old, new = (
        RoutingTable(0, 10, 2, 2, tuple(Region(Buckets((b,)), topology) for b, topology in enumerate(both)))
        for both in (one, two)
    )
    codes = np.array([0, 1, 2, 3], np.int64)
    share = entering(old, new, 0, *(table.compiled.region_of_cell[cells_of(table, codes)] for table in (old, new)))
    for code, expected in zip(codes.tolist(), share.tolist(), strict=True):
        moved = diff(old, new, 0, At(np.full(len(U), code, np.int64), U))
        assert len(moved.enter_row) / len(U) == pytest.approx(expected, abs=0.005)
