"""Where a tuple lives. Pure: a table is a value, `place` a function of it, a migration the difference of two."""

from evenjoin.placement.check import check
from evenjoin.placement.diff import Moves, diff
from evenjoin.placement.place import Placement, place, stored_here
from evenjoin.placement.ranges import EQUAL, EVERYTHING, Interval, Ranges, Reach
from evenjoin.placement.table import Buckets, Keys, Region, RoutingTable
from evenjoin.placement.topology import Biclique, Grid, Role, Slot

__all__ = [
    "EQUAL",
    "EVERYTHING",
    "Biclique",
    "Buckets",
    "Grid",
    "Interval",
    "Keys",
    "Moves",
    "Placement",
    "Ranges",
    "Reach",
    "Region",
    "Role",
    "RoutingTable",
    "Slot",
    "check",
    "diff",
    "place",
    "stored_here",
]
