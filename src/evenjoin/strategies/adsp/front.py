"""The front: areas for codes that are still to come, where codes always grow (ids, timestamps).

Areas are made for the codes seen. If every batch brings larger codes than the one before, they all fall into the last
area, whose end is open: its task overflows at once, and each plan is out of date when it is used. So the last area is
cut at the largest code, and what lies beyond it is cut into stripes in advance:

    seen                         | to come, by the density of the last batches
    [ task 0 ][ task 1 ][ task 2 ]|[ 3 ][ 0 ][ 4 ][ 3 ][ 1 ] ... [ the rest ]

Every stripe goes to the task that will then hold least, given what has expired by then; to a new task if none has room.
So tasks whose codes have expired are used again, and where nothing expires there are as many new tasks as old ones at
most: each plan then lasts until the volume has doubled. No tuple moves but those of the last area.

The paper says nothing of such keys. Its schemes are for volumes as they are; here tasks stand empty for a while. That
is the price of few migrations, and `plan` says so (Stay).

A batch shows a front if most of its tuples, on both sides, have codes beyond all earlier ones (`LoadReport.rise`).
Guarantee: areas cover what they covered, in `check`'s sense, for any codes. If codes come otherwise than expected, some
tasks become too full, which calls for a plan as ever. Not here: areas for codes seen (areas.py, slabs.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, inf
from typing import cast

import numpy as np

from evenjoin.kernels.hashing import I64
from evenjoin.load.items import F64
from evenjoin.load.report import LoadReport
from evenjoin.placement.pieces import Points
from evenjoin.placement.ranges import LAST_CODE, Interval, Ranges, Reach
from evenjoin.placement.table import Region, RoutingTable
from evenjoin.placement.topology import Grid

PER_TASK = 8
"""So many stripes fill a task."""
AHEAD = 32
"""For so many batches there are stripes, at most."""
MOST_STRIPES = 192
WIDTHS = 8
"""A stripe is at least so many times as wide as the reach: what is copied at its borders stays little."""


@dataclass(frozen=True, slots=True)
class Front:
    """Codes up to `top` have been seen; it rises by `rise` a batch. Beyond it there are `density` tuples a code, of
    both sides together. Codes that are `span` behind the top have expired."""

    top: int
    rise: float
    density: float
    span: float


@dataclass(frozen=True, slots=True)
class Room:
    """A task is to hold `wanted` tuples. There may be so many `tasks`; once there are, each may come to hold `most`, so
    that it calls for the next plan before codes come for which there are no stripes."""

    wanted: float
    most: float
    tasks: int


def front_of(report: LoadReport, points: Points, alive: Points, reach: Reach) -> Front | None:
    """The front of a batch; None if its codes are no larger than those before, if it has none, or if the reach has no
    ends. `points` are weighed in the unit of V, `alive` in tuples."""
    if len(report.rise) != 2 or min(report.rise) <= 0 or reach.low is None or reach.high is None:
        return None
    rise = sum(report.rise) / 2
    size = [sum(float(weights.sum()) for _, weights in some) for some in (points, alive)]
    new = sum(intake.seen - intake.late for intake in report.intake)
    if not new or not size[1]:
        return None
    arrived = new * size[0] / size[1]
    ends = [(int(codes.min()), int(codes.max())) for codes, _ in points if len(codes)]
    bottom, top = min(low for low, _ in ends), max(high for _, high in ends)
    return Front(top, rise, arrived / rise, top - bottom + rise if report.expired else inf)


def in_rows(table: RoutingTable) -> bool:
    """Whether a row's code is in one area only. Then stripes, which are rows too, may share instances with areas: pairs
    that are too far apart to match meet on one instance at most, which is what `check` wants."""
    areas = _ordered(table)
    return all(one.takes.rows.high == two.takes.rows.low for one, two in pairwise(areas))


def extended(table: RoutingTable, points: Points, front: Front, room: Room) -> RoutingTable:
    """The table, whose areas are in rows, with stripes in place of its last area, if that is one task; else with
    stripes behind what it has seen."""
    *areas, last = _ordered(table)
    begin, home = last.takes.rows.low, _instances(last)
    if begin is None or len(home) > 1:
        begin = front.top + 1
        areas.append(_below(last, begin, table.reach))
    cuts = _cuts(begin, front, table.reach, room.wanted)
    tasks = _Tasks(table, areas, points, front, room)
    hosts: list[int] = []
    for low, high in pairwise(cuts):
        host = tasks.host(low, high, home[0])
        if host is None:
            break
        hosts.append(host)
    if not hosts:
        return table
    stripes = _stripes(cuts[: len(hosts) + 1], hosts, tasks.emptiest(), table.reach)
    regions = [*_alive(areas, points), *stripes]
    regions[0] = _endless(regions[0])
    used = 1 + max(instance for region in regions for instance in _instances(region))
    everyone = max(used, table.instances)
    return replace(
        table, version=table.version + 1, instances=everyone, buckets=0, regions=tuple(regions), follows=None
    )


def _cuts(begin: int, front: Front, reach: Reach, room: float) -> list[int]:
    """Where stripes begin, from the beginning of the last area on; all of one width."""
    assert reach.low is not None
    assert reach.high is not None
    end = min(front.top + AHEAD * front.rise, LAST_CODE / 2)
    width = max(room / PER_TASK / front.density, WIDTHS * (reach.high - reach.low + 1), (end - begin) / MOST_STRIPES)
    return [begin + ceil(n * width) for n in range(max(int((end - begin) / width), 1) + 1)]


class _Tasks:
    """What tasks will hold when the front has come to a stripe. Cells of grids are taken to be full: tuples of a grid
    are on several instances, and would meet those of a stripe on several of them."""

    def __init__(
        self, table: RoutingTable, areas: Sequence[_Ranged], points: Points, front: Front, room: Room
    ) -> None:  # fmt: skip
        self._points, self._front, self._reach, self._room = points, front, table.reach, room
        self._most = min(room.tasks, 2 * table.instances + 1)
        self._load = np.zeros(table.instances)
        self._held: list[tuple[int, int, float]] = []  # (last code, instance, volume), by code
        for area in areas:
            hosts = _instances(area)
            if len(hosts) == 1:
                self._put(area.takes.rows.last, hosts[0], self._seen(area.takes))
            else:
                self._load[list(hosts)] = np.inf

    def host(self, low: int, high: int, home: int) -> int | None:
        """The instance for the codes from `low` on, below `high`; None if they need a task too many. What has been seen
        stays at `home` while there is room."""
        front = self._front
        while self._held and self._held[0][0] < high - front.span:
            _, instance, volume = self._held.pop(0)
            self._load[instance] -= volume
        stripe = Interval(low, high)
        volume = self._seen(Ranges(stripe, self._reach.columns_of(stripe)))
        volume += max(high - max(front.top, low), 0) * front.density
        seen = low <= front.top
        best = home if seen and self._load[home] + volume <= self._room.wanted else self.emptiest()
        if self._load[best] + volume > self._room.wanted and len(self._load) < self._most:
            best = len(self._load)
            self._load = np.append(self._load, 0.0)
        elif self._load[best] == np.inf or (self._load[best] + volume > self._room.most and not seen):
            return None
        self._put(high - 1, best, volume)
        return best

    def emptiest(self) -> int:
        return int(np.argmin(self._load))

    def _put(self, last: int, instance: int, volume: float) -> None:
        self._load[instance] += volume
        self._held.append((last, instance, volume))

    def _seen(self, area: Ranges) -> float:
        return sum(_volume(self._points[side], area.side(side)) for side in (0, 1))


def _volume(points: tuple[I64, F64], codes: Interval) -> float:
    some, weights = points
    return float(weights[(some >= codes.first) & (some <= codes.last)].sum())


def _stripes(cuts: Sequence[int], hosts: Sequence[int], rest: int, reach: Reach) -> list[Region]:
    """The areas of the stripes, and of all codes beyond. Neighbours on one instance are one area, which keeps the
    table small."""
    ends: list[tuple[int, int]] = []
    for begin, host in zip(cuts, (*hosts, rest), strict=True):
        if not ends or ends[-1][1] != host:
            ends.append((begin, host))
    highs: list[int | None] = [*(begin for begin, _ in ends[1:]), None]
    return [_area(Interval(begin, high), host, reach) for (begin, host), high in zip(ends, highs, strict=True)]


def _area(rows: Interval, host: int, reach: Reach) -> Region:
    return Region(Ranges(rows, reach.columns_of(rows)), Grid(1, 1, (host,)))


def _alive(areas: Sequence[_Ranged], points: Points) -> list[Region]:
    """The areas, without those that hold nothing any more and whose codes have passed."""
    least = min(int(codes.min()) for codes, _ in points if len(codes))
    return [area for area in areas if max(area.takes.rows.last, area.takes.columns.last) >= least]


def _below(last: _Ranged, at: int, reach: Reach) -> _Ranged:
    """The part of the last area below a code."""
    rows = replace(last.takes.rows, high=at)
    columns = replace(last.takes.columns, high=reach.columns_of(rows).high)
    return replace(last, takes=Ranges(rows, columns))


def _endless(first: Region) -> Region:
    """The first area, with all codes below."""
    assert isinstance(first.takes, Ranges)
    low = Ranges(replace(first.takes.rows, low=None), replace(first.takes.columns, low=None))
    return replace(first, takes=low)


class _Ranged(Region):
    """A region that takes ranges."""

    takes: Ranges


def _ordered(table: RoutingTable) -> list[_Ranged]:
    """The areas by their codes; one grid over everything is one area."""
    areas = [r if isinstance(r.takes, Ranges) else replace(r, takes=Ranges()) for r in table.regions]
    return sorted(cast("list[_Ranged]", areas), key=lambda area: (area.takes.rows.last, area.takes.columns.last))


def _instances(region: Region) -> tuple[int, ...]:
    assert isinstance(region.topology, Grid)
    return (*region.topology.cells, *region.topology.extra)
