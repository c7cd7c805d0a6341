"""check_cube(table, cube): is every combination that can match together in exactly one cell, and none in two?

It is proven from the structure. Along each dim

* the owner has one coordinate (of a hash dim: every side that has the key, and there is at least one), so that no
  combination has two cells in common;
* every other side has all coordinates, or at least those of its partners. What its partners are is said by the table's
  links: the bounds that all links imply together must lie within the reach of a range dim, and the sides of a hash dim
  must have equal codes in every result.

The product over the dims then gives exactly one cell. The cells must be as many as the product of the sizes, and no two
of them the same instance; otherwise some combination would be together twice.

Guarantee: a cube that passes loses and repeats nothing under `meeting` together, and under `pairs` with two sides.
Not here: cubes of "u" dims only are also decided by their slots, as any topology (check.py).
"""

from __future__ import annotations

from itertools import pairwise
from math import prod

from evenjoin.errors import TableError
from evenjoin.placement.cube import Cube, Dim
from evenjoin.placement.links import Bounds, Node
from evenjoin.placement.ranges import FIRST_CODE, LAST_CODE, Ranges, Reach
from evenjoin.placement.table import RoutingTable


def check_cube(table: RoutingTable, cube: Cube) -> None:
    """Raises a TableError that says what is wrong with a cube of the table."""
    _check_cells(cube)
    bounds = Bounds(table.links)
    for dim in cube.dims:
        _check_sides(table, dim)
        if dim.kind == "hash":
            _check_hash(dim, bounds)
        elif dim.kind == "range":
            _check_range(dim, bounds)
    divided = [dim.owner for dim in cube.dims if dim.kind == "u"]
    if len(set(divided)) < len(divided):
        raise TableError(f"{_text(cube)}: two dims divide a side by the same `u`")
    if cube.by_code:
        _check_alone(table, cube)


def _check_cells(cube: Cube) -> None:
    if any(type(size) is not int or size < 1 for size in cube.sizes) or len(cube.cells) != prod(cube.sizes):
        raise TableError(f"{_text(cube)}: {prod(cube.sizes)} cells are needed, there are {len(cube.cells)}")
    if len(set(cube.cells)) < len(cube.cells):
        twice = next(cell for cell in cube.cells if cube.cells.count(cell) > 1)
        raise TableError(f"{_text(cube)}: two cells are instance {twice}: results would be repeated")


def _check_alone(table: RoutingTable, cube: Cube) -> None:
    if table.cube is None or isinstance(table.regions[0].takes, Ranges):
        raise TableError(f"{_text(cube)} goes by codes: it must be the only region, and take everything")
    if table.meeting == "pairs" and table.groups > 2:
        raise TableError(f"{_text(cube)}: two sides alone may meet in several cells, but the program needs pairs")


def _check_sides(table: RoutingTable, dim: Dim) -> None:
    sides, known = range(table.groups), {node for link in table.links for node in link.nodes}
    if dim.kind not in ("u", "hash", "range"):
        raise TableError(f"a dim is of the kind u, hash or range, not {dim.kind!r}")
    if dim.kind != "hash" and dim.owner not in sides:
        raise TableError(f"{dim} has no owner among the {table.groups} sides")
    if len(dim.index) > table.groups or len(dim.reach) > table.groups or (dim.kind == "u" and dim.index):
        raise TableError(f"{dim} names indexes of sides that it cannot have")
    for node in _nodes(dim):
        if node[1] != 0 and node not in known:
            raise TableError(f"{dim}: no condition compares index {node[1]} of side {node[0]}")


def _nodes(dim: Dim) -> list[Node]:
    """The indexes by which a dim gives coordinates."""
    return [(side, index) for side, index in enumerate(dim.index) if index is not None]


def _check_hash(dim: Dim, bounds: Bounds) -> None:
    nodes = _nodes(dim)
    if not nodes:
        raise TableError(f"{dim}: no side has the key, so all would meet {dim.size} times")
    for node in nodes[1:]:
        if not bounds.equal(nodes[0], node):
            raise TableError(f"{dim}: {_name(nodes[0])} and {_name(node)} need not be equal: results would be lost")


def _check_range(dim: Dim, bounds: Bounds) -> None:
    if len(dim.cuts) != dim.size - 1 or any(a >= b for a, b in pairwise(dim.cuts)):
        raise TableError(f"{dim}: {dim.size - 1} ascending cuts are needed")
    if any(not FIRST_CODE <= cut <= LAST_CODE for cut in dim.cuts):
        raise TableError(f"{dim}: a cut is no code")
    owner = next((node for node in _nodes(dim) if node[0] == dim.owner), None)
    if owner is None:
        raise TableError(f"{dim}: its owner has no index")
    for node in _nodes(dim):
        reach, needed = dim.reach_of(node[0]), bounds.between(owner, node)
        if node != owner and not _covers(reach, needed):
            raise TableError(
                f"{dim}: {_name(node)} minus {_name(owner)} may be {needed}, but it reaches {reach}: results would "
                "be lost"
            )


def _covers(reach: Reach, needed: Reach) -> bool:
    """Whether every difference that is needed is within reach. A reach must not be empty."""
    below = reach.low is None or (needed.low is not None and reach.low <= needed.low)
    above = reach.high is None or (needed.high is not None and needed.high <= reach.high)
    empty = reach.low is not None and reach.high is not None and reach.low > reach.high
    return below and above and not empty


def _name(node: Node) -> str:
    return f"index {node[1]} of side {node[0]}"


def _text(cube: Cube) -> str:
    return f"cube of {' x '.join(f'{dim.kind} {dim.size}' for dim in cube.dims)}"
