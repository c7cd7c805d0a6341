"""check says which results a table would lose or repeat."""

from __future__ import annotations

import pytest

from evenjoin.errors import TableError
from evenjoin.placement import Biclique, Buckets, Grid, Keys, Region, RoutingTable, check

GOOD = Biclique(((0,), (1,)))


def table(*regions, instances=2, sides=2, buckets=1, **more):
    return RoutingTable(0, instances, sides, buckets, tuple(Region(*region) for region in regions), **more)


def together(*units):
    """A biclique whose program needs all tuples of a combination on one instance."""
    return table((Buckets((0,)), Biclique(units)), sides=len(units), meeting="together")


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (table((Buckets((0,)), GOOD), buckets=2), "no region takes bucket 1"),
        (table((Buckets((0, 1)), GOOD)), "bucket 1 does not exist"),
        (table((Buckets((0,)), GOOD), (Buckets((0,)), GOOD)), "two regions take bucket 0"),
        (table((Buckets((0,)), GOOD), (Keys((7, 7)), GOOD)), "two regions take key code 7"),
        (table((Buckets((0,)), GOOD), (Keys((7,)), GOOD), (Keys((7,)), GOOD)), "two regions take key code 7"),
        (table((Buckets((0,)), Biclique(((0,), (2,))))), "uses instance 2, the table has 2"),
        (table((Buckets((0,)), Biclique(((-1,), (1,))))), "uses instance -1"),
        (table((Buckets((0,)), Biclique(((), (1,))))), "no unit"),
        (table((Buckets((0,)), Biclique(((0, 1), (1,)), ((1, 0), (1,))))), "without weight"),
        (table((Buckets((0,)), Grid(2, 1, (0, 0))), instances=1), None),
        (table((Buckets((0,)), Grid(1, 2, (0, 1)))), None),
        (table((Buckets((0,)), Grid(2, 2, (0, 1, 1, 0)))), "meets 2 times"),
        (table((Buckets((0,)), Biclique(((0,), (1,), (0,)))), sides=3), None),
        (together((0,), (0,), (0,)), None),
        (together((1,), (1,), (1,), (1,)), None),
        (together((0,), (1,), (0,)), "3 sides is together on 0 instances"),
        (together((0, 1), (0, 1), (0, 1)), "is together on 0 instances"),
        (table((Buckets((0,)), Grid(2, 2, (0, 1, 2, 3))), instances=4, meeting="together"), None),
        (table((Buckets((0,)), Grid(2, 2, (0, 1, 1, 0))), meeting="together"), "is together on 2 instances"),
    ],
    ids=str,
)  # fmt: skip
def test_check(broken, says):
    """Each way to lose or repeat a result is named; a table that does neither is returned itself."""
    if says is None:
        assert check(broken) is broken
    else:
        with pytest.raises(TableError, match=says):
            check(broken)
