"""For testing joins: a brute-force oracle, streams with crashes in them, and Hypothesis strategies.

* `brute_force` evaluates the whole condition on the whole cross product of all sides. It shares the reader and the
  evaluation of SQL with the engine, but none of its classification of conjuncts, placement, state or probing. It knows
  no watermark: late rows are in its answer.
* `run_stream` runs batches with `Crash`es between them. A crash says: die at this step of the next batch, start again
  from the checkpoint, and replay the batch.
* `Hooks` are the clock of a join and functions called at its steps: `hooks=` of `evenjoin.join` and `evenjoin.local`.
* `split` cuts a table into batches. `Fixed` is a strategy with a given sequence of tables.
* `routing_tables` and `ranged_tables` draw random valid tables. They need Hypothesis.

Not for production use; `import evenjoin` does not load it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from math import prod
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenjoin.load.items import Items
from evenjoin.load.report import LoadReport
from evenjoin.placement.check import check
from evenjoin.placement.cube import Dim
from evenjoin.placement.ranges import Ranges, Reach
from evenjoin.placement.table import Buckets, Keys, Meeting, Region, RoutingTable
from evenjoin.placement.topology import Biclique, Cube, Grid, Topology, even_division
from evenjoin.runtime.local import LocalJoin
from evenjoin.runtime.settings import Hooks as Hooks
from evenjoin.spec import JoinSpec, Scope, read
from evenjoin.spec.condition import ALWAYS
from evenjoin.spec.expr import conjunction
from evenjoin.strategies.adsp.areas import dichotomy
from evenjoin.strategies.adsp.mapping import aligned
from evenjoin.strategies.base import Static

Rows = Counter[tuple[Any, ...]]


_CHUNK = 2**18
"""How many combinations `brute_force` looks at at a time."""


def brute_force(spec: JoinSpec, data: Mapping[str, pa.Table], on: str | None = None) -> Rows:
    """The results of the join over the whole input, as a multiset of rows. Every combination of rows is looked at."""
    schemas = {side.alias: data[side.alias].schema for side in spec.sides}
    type_ = None if spec.window is None else schemas[spec.sides[0].alias].field(spec.sides[0].event_time).type
    condition = conjunction(read(on or spec.text, Scope(schemas, type_), spec.time_zone)) or ALWAYS
    counts = [data[alias].num_rows for alias in schemas]
    total = math.prod(counts)
    found: Rows = Counter()
    for start in range(0, total, _CHUNK):
        rows = np.unravel_index(np.arange(start, min(start + _CHUNK, total)), counts)
        columns = {
            f"{alias}.{name}": data[alias][name].combine_chunks().take(pa.array(picked))
            for alias, picked in zip(schemas, rows, strict=True)
            for name in schemas[alias].names
        }
        count = len(rows[0])
        if spec.window is not None:
            columns, count = _windowed(spec, columns, count, type_)
        keep = pc.fill_null(condition.evaluate(columns, count), False)
        kept = {name: column.filter(keep) for name, column in columns.items()}
        out = [output.expr.evaluate(kept, pc.sum(keep).as_py() or 0) for output in spec.select]
        found += multiset(pa.Table.from_arrays(out, names=[output.name for output in spec.select]))
    return found


def _windowed(
    spec: JoinSpec, columns: Mapping[str, pa.Array], count: int, type_: pa.DataType
) -> tuple[dict[str, pa.Array], int]:
    """Each combination once for each window that holds all of its tuples, with the bounds of that window."""
    from evenjoin.instance.emit import as_time

    assert spec.window is not None
    size, slide = spec.window
    times = [side.order.evaluate(columns, count) for side in spec.sides if side.order is not None]
    timed = np.flatnonzero(np.logical_and.reduce([np.asarray(time.is_valid()) for time in times]))
    known = np.stack([np.asarray(time.take(pa.array(timed)), dtype=np.int64) for time in times])
    last, before = known.min(axis=0) // slide, (known.max(axis=0) - size) // slide
    shared = np.maximum(last - before, 0)
    again = np.repeat(np.arange(len(timed)), shared)
    starts = (last[again] - (np.arange(len(again)) - np.repeat(np.cumsum(shared) - shared, shared))) * slide
    out = {name: column.take(pa.array(timed[again])) for name, column in columns.items()}
    return out | {"window.start": as_time(starts, type_), "window.end": as_time(starts + size, type_)}, len(again)


def multiset(table: pa.Table) -> Rows:
    """The rows of a table with their multiplicities. NaN equals NaN."""
    columns = [column.to_pylist() for column in table.columns]
    return Counter(tuple(_plain(v) for v in row) for row in zip(*columns, strict=True))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value != value:
        return "NaN"
    return tuple(sorted(value.items())) if isinstance(value, dict) else value


@dataclass(frozen=True, slots=True)
class Crash:
    """In a stream of batches: the next batch dies at this step of the driver, or of the task of `instance`."""

    step: str
    instance: int | None = None


class Died(BaseException):
    """A crash on purpose. It is not an Exception, so that nothing on the way can swallow it."""


Batch = Mapping[str, pa.Table]
Make = Callable[..., LocalJoin]


def run_stream(make: Make, stream: Iterable[Batch | Crash]) -> dict[int, pa.Table]:
    """Run a stream with crashes in it through joins made by `make(hooks=Hooks(...))`.

    `make` must use the same checkpoint each time. Returns the results by batch, as a sink has them that replaces what
    it wrote for a batch when it is called again.
    """
    sunk: dict[int, pa.Table] = {}
    armed: list[Crash] = []
    hooks = Hooks(step=_driver_step(armed), worker_step=_worker_step(armed))
    join = make(hooks=hooks)
    number = 0
    for item in stream:
        if isinstance(item, Crash):
            armed.append(item)
            continue
        while True:
            try:
                join.process(item, batch=number, sink=lambda table, batch: sunk.__setitem__(batch, table))
                break
            except Died:
                join.close()
                join = make(hooks=hooks)
        armed.clear()
        number += 1
    join.close()
    return sunk


def _driver_step(armed: list[Crash]) -> Callable[[str, int], None]:
    return lambda name, batch: _die(armed, Crash(name))


def _worker_step(armed: list[Crash]) -> Callable[[str, int], None]:
    return lambda name, instance: _die(armed, Crash(name, instance))


def _die(armed: list[Crash], here: Crash) -> None:
    if here in armed:
        armed.remove(here)
        raise Died(here)


def split(table: pa.Table, cuts: Sequence[int]) -> list[pa.Table]:
    """The table, cut into consecutive batches at these rows."""
    edges = [0, *sorted(min(c, table.num_rows) for c in cuts), table.num_rows]
    return [table.slice(a, b - a) for a, b in pairwise(edges)]


@cache
def routing_tables(
    sides: int = 2, max_instances: int = 5, regions: Literal["any", "one"] = "any", meeting: Meeting = "pairs"
) -> Any:
    """A Hypothesis strategy for valid tables: any mixture of buckets, keys and topologies, or one region for all
    tuples. What must meet in them is `meeting`; three and more sides with a common key need "together"."""
    from hypothesis import strategies as st

    @st.composite
    def tables(draw: Any) -> RoutingTable:
        instances = draw(st.integers(1, max_instances))
        buckets = draw(st.integers(1, 6)) if regions == "any" else 1
        drawn = [Region(Buckets((b,)), draw(_topologies(sides, instances, meeting))) for b in range(buckets)]
        if regions == "any":
            codes = draw(st.lists(st.integers(0, 8), unique=True, max_size=4))
            drawn += [Region(Keys((c,)), draw(_topologies(sides, instances, meeting))) for c in codes]
        version = draw(st.integers(0, 9))
        return check(RoutingTable(version, instances, sides, buckets, tuple(drawn), "drawn", meeting=meeting))

    return tables()


@cache
def ranged_tables(max_areas: int = 4, farthest: int = 6, reach: Reach | None = None) -> Any:
    """A Hypothesis strategy for valid tables of areas, made by random dichotomies of the matrix, for this reach or a
    random one."""
    from hypothesis import strategies as st

    bound = st.one_of(st.none(), st.integers(-farthest // 2, farthest // 2))
    reaches = st.builds(Reach, bound, bound).map(_ascending)

    @st.composite
    def tables(draw: Any) -> RoutingTable:
        near = draw(reaches) if reach is None else reach
        areas = [Ranges()]
        for _ in range(draw(st.integers(0, max_areas - 1))):
            area = areas.pop(draw(st.integers(0, len(areas) - 1)))
            side, at = draw(st.integers(0, 1)), draw(st.integers(-farthest, farthest))
            inside = at in area.side(side) and at - 1 in area.side(side)
            areas += dichotomy(area, side, at, near) if inside else (area,)
        regions, first = [], 0
        for area in areas:
            topology, count = draw(_grids(first))
            regions.append(Region(area, topology))
            first += count
        return check(RoutingTable(draw(st.integers(0, 9)), first, 2, 0, tuple(regions), "drawn", near))

    return tables()


@cache
def ordered_tables(max_instances: int = 5, farthest: int = 6, reach: Reach | None = None) -> Any:
    """A Hypothesis strategy for valid tables of ordered buckets, with keys of their own, for this reach or a random
    one. Cuts may be equal, and split keys and buckets have any weights."""
    from hypothesis import strategies as st

    code, bound = st.integers(-farthest, farthest), st.integers(-farthest // 2, farthest // 2)
    reaches = st.builds(Reach, st.one_of(st.none(), bound, bound), st.one_of(st.none(), bound, bound)).map(_ascending)

    @st.composite
    def tables(draw: Any) -> RoutingTable:
        near = draw(reaches) if reach is None else reach
        instances, cuts = draw(st.integers(1, max_instances)), sorted(draw(st.lists(code, max_size=4)))
        drawn = [Region(Buckets((b,)), draw(_bicliques(2, instances))) for b in range(len(cuts) + 1)]
        codes = draw(st.lists(code, unique=True, max_size=3))
        drawn += [Region(Keys((c,)), draw(_bicliques(2, instances))) for c in codes]
        version = draw(st.integers(0, 9))
        return check(RoutingTable(version, instances, 2, len(cuts) + 1, tuple(drawn), "drawn", near, cuts=tuple(cuts)))

    return tables()


def _ascending(reach: Reach) -> Reach:
    empty = reach.low is not None and reach.high is not None and reach.low > reach.high
    return Reach(reach.high, reach.low) if empty else reach


@cache
def _grids(first: int) -> Any:
    """A Hypothesis strategy for grids over instances from `first` on, with their number of instances. Some are
    varietal, some unevenly divided."""
    from hypothesis import strategies as st

    @st.composite
    def grids(draw: Any) -> tuple[Grid, int]:
        rows, columns, along = (
            draw(st.integers(1, 2)),
            draw(st.integers(1, 2)),
            draw(st.sampled_from(["row", "column"])),
        )
        extra = draw(st.integers(0, columns if along == "row" else rows))
        count = rows * columns + extra
        grid = Grid(rows, columns, tuple(range(first, first + rows * columns)),
                    tuple(range(first + rows * columns, first + count)), along)  # fmt: skip
        divisions = []
        for part in range(3):
            lines = len(grid.extra) if part == 2 else grid.lines(part)
            shares = draw(st.lists(st.integers(1, 3), min_size=lines, max_size=lines))
            old = draw(st.integers(1, 3))
            divisions.append(aligned(even_division(old), shares) if lines and draw(st.booleans()) else ())
        return replace(grid, divisions=(divisions[0], divisions[1], divisions[2])), count

    return grids()


@cache  # making a composite strategy is dear, and these are made inside others
def _topologies(sides: int, instances: int, meeting: Meeting) -> Any:
    from hypothesis import strategies as st

    @st.composite
    def topologies(draw: Any) -> Topology:
        if meeting == "together":
            whole: Topology = draw(_u_cubes(sides, instances))
            return whole
        if sides == 2 and draw(st.booleans()):
            rows = draw(st.integers(1, instances))
            columns = draw(st.integers(1, instances // rows))
            cells = tuple(draw(st.permutations(range(instances)))[: rows * columns])
            cube = Cube((Dim("u", rows, 0), Dim("u", columns, 1)), cells)
            either: Topology = draw(st.sampled_from([Grid(rows, columns, cells), cube]))
            return either
        apart: Topology = draw(_bicliques(sides, instances))
        return apart

    return topologies()


@cache
def _bicliques(sides: int, instances: int) -> Any:
    """A Hypothesis strategy for bicliques, with weights or without."""
    from hypothesis import strategies as st

    units = st.lists(st.integers(0, instances - 1), min_size=1, max_size=instances, unique=True).map(tuple)

    @st.composite
    def bicliques(draw: Any) -> Biclique:
        chosen = tuple(draw(units) for _ in range(sides))
        if draw(st.booleans()):
            return Biclique(chosen)
        return Biclique(chosen, tuple(tuple(draw(st.integers(1, 5)) for _ in side) for side in chosen))

    return bicliques()


@cache
def _u_cubes(sides: int, instances: int) -> Any:
    """A Hypothesis strategy for topologies that have all sides together: one unit, or a cube that divides sides."""
    from hypothesis import strategies as st

    @st.composite
    def cubes(draw: Any) -> Topology:
        cells = tuple(draw(st.permutations(range(instances))))
        dims: list[Dim] = []
        for owner in draw(st.permutations(range(sides)))[: draw(st.integers(0, 2))]:
            left = instances // prod(dim.size for dim in dims)
            dims.append(Dim("u", draw(st.integers(1, left)), owner))
        if not dims:
            return Biclique((cells[:1],) * sides)
        return Cube(tuple(dims), cells[: prod(dim.size for dim in dims)])

    return cubes()


@dataclass(frozen=True, slots=True)
class Fixed(Static):
    """A strategy for tests: a given sequence of tables, one for each batch, whatever the load is. It always calls for a
    plan, until the tables are used up."""

    tables: tuple[RoutingTable, ...]

    @property
    def origin(self) -> str:
        return "drawn"

    @property
    def alert(self) -> float:
        return -1.0

    def initial(self, instances: int, sides: int, layout: str) -> RoutingTable:
        return self.tables[0]

    def plan(self, report: LoadReport, items: Items, table: RoutingTable) -> RoutingTable | None:
        following = report.batch + 1
        return self.tables[following] if following < len(self.tables) else None
