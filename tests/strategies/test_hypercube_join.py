"""Joins of two sides on cubes, which change under them: the results are those of a brute-force join."""

from __future__ import annotations

from dataclasses import replace

import pytest

import evenjoin
from evenjoin.placement import Buckets, Cube, Dim, Link, Reach, Region, RoutingTable
from evenjoin.strategies import Hypercube
from evenjoin.testing import Fixed
from strategies.test_adsp_join import SCHEMA, growing, joined

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")
LINKS = {
    "l.k = r.k": Link((0, 1), (0, 0), 0, 0),
    "r.k BETWEEN l.k - 3 AND l.k + 3": Link((0, 1), (0, 0), -3, 3),
    "l.k < r.k": Link((0, 1), (0, 0), 1, None),
    "l.k <> r.k": Link((0, 1), (0, 0)),
}


def joining(condition, strategy, instances):
    return evenjoin.local(
        {"l": SCHEMA, "r": SCHEMA}, on=condition, select=["l.id AS a", "r.id AS b"], strategy=strategy,
        instances=instances, guards=evenjoin.Guards(cooldown=0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "kinds"),
    [
        ("l.k = r.k", {"hash"}),
        ("r.k BETWEEN l.k - 3 AND l.k + 3", {"range"}),
        ("l.k < r.k", {"u"}),
        ("l.k <> r.k", {"u"}),
    ],
)
def test_a_cube_of_two_sides(condition, kinds):
    """An equality is hashed from the start, a band gets cuts once there are samples. Where only one end is bounded the
    fullest interval has all tuples of a side, so dividing both sides by `u` costs no more."""
    links = (LINKS[condition],) if LINKS[condition].low is not None else ()
    with joining(condition, Hypercube(links=links), 8) as join:
        found, expected = joined(join, growing())
        assert found == expected
        assert {dim.kind for dim in join.table().regions[0].topology.dims if dim.size > 1} == kinds
        assert bool(join.migrations()) == (kinds == {"range"})


@pytest.mark.parametrize("condition", LINKS)
def test_cubes_change_under_a_join(condition):
    """Other dims, other cuts, other cells and another number of instances in every batch."""
    link = LINKS[condition]
    near = Reach(link.low, link.high)
    cubes = [
        Cube((Dim("u", 3, 0),), (0, 1, 2)),
        Cube((Dim("u", 2, 0), Dim("u", 2, 1)), (3, 1, 0, 2)),
        Cube((Dim("range", 3, 0, (0, 0), (60, 120), (None, near)), Dim("u", 2, 1)), (0, 2, 4, 1, 3, 5)),
        Cube((Dim("range", 4, 1, (0, 0), (50, 90, 200), (Reach(*_minus(near)), None)),), (5, 0, 3, 1)),
        Cube((Dim("u", 2, 0), Dim("range", 2, 1, (0, 0), (100,), (Reach(*_minus(near)), None))), (2, 1, 0, 3)),
        Cube((Dim("hash", 2, None, (0, None)), Dim("u", 3, 1)), (0, 1, 2, 3, 4, 5)),
    ]
    if near == Reach(0, 0):
        cubes.append(Cube((Dim("hash", 3, None, (0, 0)), Dim("u", 2, 1)), (0, 1, 2, 3, 4, 5)))
    links = () if near == Reach() else (link,)
    tables = tuple(
        RoutingTable(n, 6, 2, 1, (Region(Buckets((0,)), cube),), "drawn", near, links=links)
        for n, cube in enumerate(cubes)
    )
    tables += (replace(tables[1], version=len(tables), instances=4),)
    with joining(condition, Fixed(tables), 6) as join:
        found, expected = joined(join, growing())
        assert found == expected
        assert len(join.migrations()) == len(tables) - 1


def _minus(reach):
    return tuple(None if end is None else -end for end in (reach.high, reach.low))
