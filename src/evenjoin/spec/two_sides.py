"""The graph of two sides: one edge, and one index and one order on each side.

    l.k = r.k AND r.t >= l.t             drive equal, indexes l.k and r.k, orders l.t and r.t, low 0
    abs(l.x - r.x) <= 2                  drive band, indexes l.x and r.x
    l.x <> r.x, with a window            drive equal: the code is the start of the window

Everything that the edge does not enforce otherwise is its residual, so nothing is left for the join as a whole.
Not here: more sides (many_sides.py), where a pair's equality may follow from those of other pairs.
"""

from __future__ import annotations

from evenjoin.spec.band import DrivingRange, choose_band
from evenjoin.spec.condition import Condition, Key, Range
from evenjoin.spec.event_time import EventTimes
from evenjoin.spec.expr import conjunction
from evenjoin.spec.graph import WINDOW_START, Drive, Edge, Graph, Index
from evenjoin.spec.order import Order, choose_order
from evenjoin.spec.scope import Scope


def two_sided(condition: Condition, times: EventTimes, scope: Scope) -> Graph:
    """The graph of a join of two sides."""
    order = choose_order(condition, times, scope)
    drive = None if condition.keys or times.window else choose_band(condition.ranges, order.exprs, scope)
    indexes = tuple((_index(number, condition, times, drive),) for number in (0, 1))
    return Graph(indexes, order.exprs, (_edge(condition, times, order, drive),), None)


def _edge(condition: Condition, times: EventTimes, order: Order, drive: DrivingRange | None) -> Edge:
    used: list[Key | Range] = [*condition.keys, *order.enforced, *(drive.enforced if drive else ())]
    residual = conjunction(condition.left_to_check(used))
    by: Drive = "band" if drive else "equal" if condition.keys or times.window else "none"
    return Edge((0, 1), by, (0, 0), drive.band if drive else None, order.low, order.high, residual)


def _index(number: int, condition: Condition, times: EventTimes, drive: DrivingRange | None) -> Index:
    """What a side is sorted by: its part of the equalities, its part of the range that drives, or the start of its
    window."""
    if drive is not None:
        return Index((drive.keys[number],), (drive.type,), (False,))
    if not condition.keys and times.window is not None:
        return WINDOW_START
    return Index(
        tuple((key.left, key.right)[number] for key in condition.keys),
        tuple(key.type for key in condition.keys),
        tuple(key.null_safe for key in condition.keys),
    )
