"""Where a tuple lives. A table is a frozen value, `place` is a function of it, and a migration is the difference of two
tables. Everything here is pure. Nothing here knows what a tuple's columns are, or which strategy made a table."""

from evenjoin.placement.check import check
from evenjoin.placement.cube import Cube, Dim
from evenjoin.placement.diff import Moves, diff
from evenjoin.placement.links import Link, links_of
from evenjoin.placement.place import At, Placement, place, stored_here
from evenjoin.placement.ranges import EQUAL, EVERYTHING, Interval, Ranges, Reach
from evenjoin.placement.table import Buckets, Keys, Region, RoutingTable
from evenjoin.placement.topology import Biclique, Grid, Role, Slot

__all__ = [
    "EQUAL",
    "EVERYTHING",
    "At",
    "Biclique",
    "Buckets",
    "Cube",
    "Dim",
    "Grid",
    "Interval",
    "Keys",
    "Link",
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
    "links_of",
    "place",
    "stored_here",
]
