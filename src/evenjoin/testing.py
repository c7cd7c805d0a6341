"""For testing joins: a brute-force oracle, streams with crashes in them, and Hypothesis strategies.

* `brute_force` evaluates the whole condition on the whole cross product of two sides. It shares the reader and the
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

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenjoin.load.items import Items
from evenjoin.load.report import LoadReport
from evenjoin.placement.check import check
from evenjoin.placement.cube import Cube, Dim
from evenjoin.placement.ranges import Ranges, Reach
from evenjoin.placement.table import Buckets, Keys, Region, RoutingTable
from evenjoin.placement.topology import Biclique, Grid, Topology, even_division
from evenjoin.runtime.local import LocalJoin
from evenjoin.runtime.settings import Hooks as Hooks
from evenjoin.spec import JoinSpec, Scope, parse
from evenjoin.strategies.adsp.areas import dichotomy
from evenjoin.strategies.adsp.mapping import aligned
from evenjoin.strategies.base import Static

Rows = Counter[tuple[Any, ...]]


def brute_force(spec: JoinSpec, data: Mapping[str, pa.Table], on: str | None = None) -> Rows:
    """The results of the join over the whole input, as a multiset of rows. Every pair of rows is looked at."""
    aliases = [side.alias for side in spec.sides]
    scope = Scope({a: data[a].schema for a in aliases}, None)
    left, right = (data[a].num_rows for a in aliases)
    rows = {aliases[0]: np.repeat(np.arange(left), right), aliases[1]: np.tile(np.arange(right), left)}
    columns = {
        f"{a}.{name}": data[a][name].combine_chunks().take(pa.array(rows[a]))
        for a in aliases
        for name in data[a].schema.names
    }
    verdict = parse(on or spec.text, scope).evaluate(columns, left * right)
    keep = np.asarray(pc.fill_null(verdict, False))
    pairs = np.flatnonzero(keep)
    starts = None
    if spec.window is not None:
        pairs, starts = _shared_windows(spec, columns, pairs)
    kept = {name: column.take(pa.array(pairs)) for name, column in columns.items()}
    if starts is not None and spec.window is not None:
        from evenjoin.instance.emit import as_time

        type_ = data[aliases[0]].schema.field(spec.sides[0].event_time).type
        kept |= {"window.start": as_time(starts, type_), "window.end": as_time(starts + spec.window[0], type_)}
    out = [output.expr.evaluate(kept, len(pairs)) for output in spec.select]
    return multiset(pa.Table.from_arrays(out, names=[output.name for output in spec.select]))


def _shared_windows(spec: JoinSpec, columns: Mapping[str, pa.Array], pairs: Any) -> tuple[Any, Any]:
    """Each pair once for each window that holds both of its tuples, and the start of that window."""
    assert spec.window is not None
    size, slide = spec.window
    times = []
    for side in spec.sides:
        assert side.order is not None
        times.append(side.order.evaluate(columns, len(next(iter(columns.values())))))
    again, starts = [], []
    for pair in pairs.tolist():
        one, two = times[0][pair].as_py(), times[1][pair].as_py()
        if one is None or two is None:
            continue
        start = (max(one, two) - size) // slide * slide
        while start <= min(one, two):
            if start + size > max(one, two):
                again.append(pair)
                starts.append(start)
            start += slide
    return np.array(again, np.int64), np.array(starts, np.int64)


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
def routing_tables(sides: int = 2, max_instances: int = 5, regions: Literal["any", "one"] = "any") -> Any:
    """A Hypothesis strategy for valid tables: any mixture of buckets, keys and topologies, or one region for all
    tuples."""
    from hypothesis import strategies as st

    @st.composite
    def tables(draw: Any) -> RoutingTable:
        instances = draw(st.integers(1, max_instances))
        buckets = draw(st.integers(1, 6)) if regions == "any" else 1
        drawn = [Region(Buckets((b,)), draw(_topologies(sides, instances))) for b in range(buckets)]
        if regions == "any":
            codes = draw(st.lists(st.integers(0, 8), unique=True, max_size=4))
            drawn += [Region(Keys((c,)), draw(_topologies(sides, instances))) for c in codes]
        return check(RoutingTable(draw(st.integers(0, 9)), instances, sides, buckets, tuple(drawn), "drawn"))

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
def _topologies(sides: int, instances: int) -> Any:
    from hypothesis import strategies as st

    units = st.lists(st.integers(0, instances - 1), min_size=1, max_size=instances, unique=True).map(tuple)

    @st.composite
    def topologies(draw: Any) -> Topology:
        if sides == 2 and draw(st.booleans()):
            rows = draw(st.integers(1, instances))
            columns = draw(st.integers(1, instances // rows))
            cells = tuple(draw(st.permutations(range(instances)))[: rows * columns])
            cube = Cube((Dim("u", rows, 0), Dim("u", columns, 1)), cells)
            made: Topology = draw(st.sampled_from([Grid(rows, columns, cells), cube]))
            return made
        chosen = tuple(draw(units) for _ in range(sides))
        if draw(st.booleans()):
            return Biclique(chosen)
        weights = tuple(tuple(draw(st.integers(1, 5)) for _ in side) for side in chosen)
        return Biclique(chosen, weights)

    return topologies()


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
