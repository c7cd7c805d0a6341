"""Random tables for the programs of three sides, and what a running join of three sides keeps where.

Not here: what is claimed of them (test_three_way_tables.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from evenjoin.instance.program import store_schemas
from evenjoin.instance.programs import program_of
from evenjoin.placement import Biclique, Buckets, Cube, Dim, Region, RoutingTable, check
from evenjoin.placement.place import stored_here
from evenjoin.runtime.dispatch import stated
from evenjoin.spec import JoinSpec
from evenjoin.state.packs import Packs
from evenjoin.state.segment import Segments


@st.composite
def bicliques(draw: Any, groups: int, most: int = 4) -> tuple[int, Biclique]:
    """A number of instances, and units of each group on some of them, with shares or without."""
    instances = draw(st.integers(1, most))
    units = tuple(tuple(draw(_units(instances))) for _ in range(groups))
    if draw(st.booleans()):
        return instances, Biclique(units)
    return instances, Biclique(units, tuple(tuple(float(draw(st.integers(1, 9))) for _ in own) for own in units))


@cache
def _units(instances: int) -> Any:
    return st.lists(st.integers(0, instances - 1), min_size=1, max_size=min(instances, 3), unique=True)


def tables_of(spec: JoinSpec, program: str, drawn: Sequence[tuple[int, Biclique]]) -> tuple[RoutingTable, ...]:
    """Successive tables of a program that places its groups by these bicliques."""
    meets = program_of(spec, program).meets
    out = []
    for version, (instances, biclique) in enumerate(drawn):
        topology = Biclique(biclique.units, biclique.weights, meets)
        regions = (Region(Buckets((0,)), topology),)
        table = RoutingTable(version, instances, len(topology.units), 1, regions, "drawn", program=program)
        out.append(check(stated(spec, table)))
    return tuple(out)


def cubes_of(spec: JoinSpec, sizes: Sequence[tuple[int, ...]]) -> tuple[RoutingTable, ...]:
    """Successive cubes that divide each side by its position into so many parts."""
    out = []
    for version, size in enumerate(sizes):
        cells = tuple(range(int(np.prod(size))))
        cube = Cube(tuple(Dim("u", count, side) for side, count in enumerate(size)), cells)
        table = RoutingTable(version, len(cells), len(spec.sides), 1, (Region(Buckets((0,)), cube),), "drawn")
        out.append(check(stated(spec, table)))
    return tuple(out)


Kept = tuple[int, int, tuple[Any, ...]]
"""(store, instance, what): the ids and times of a tuple, or of the hub and one member of a pack."""


def kept_by(join: Any) -> Iterator[tuple[Kept, bool]]:
    """Every live tuple, and every pair of a live pack, and whether it is where the committed table puts it."""
    driver = join._driver
    table = driver.table_named(driver.last.table)
    program = program_of(join._spec, table.program)
    schemas, segments = store_schemas(join._spec, program, driver.schemas), Segments(driver.folder)
    for instance, store, run in driver.last.manifest:
        rows, group = segments.read(schemas[store], run), program.stores[store].group
        live = np.ones(len(rows), bool)
        if run.mask is not None:
            live = stored_here(driver.table_named(run.mask), group, rows.at, instance)
        assert int(live.sum()) == run.alive
        right = stored_here(table, group, rows.at, instance)
        hubs = _names(rows.hubs)
        for row in np.flatnonzero(live).tolist():
            if not isinstance(rows, Packs):
                yield (store, instance, hubs[row]), bool(right[row])
                continue
            for member in _names(rows.members, rows.offsets[row], rows.offsets[row + 1]):
                yield (store, instance, (*hubs[row], *member)), bool(right[row])


def _names(tuples: Any, first: int = 0, stop: int | None = None) -> list[tuple[Any, ...]]:
    """The ids and the times of tuples."""
    rows = np.arange(len(tuples))[first:stop]
    ids = tuples.column("id", rows).to_pylist()
    return list(zip(ids, [None] * len(ids) if tuples.times is None else tuples.times[rows].tolist(), strict=True))


def is_where_it_says(join: Any, copies: bool = False) -> Counter:
    """Everything that is kept is where the table says, and nothing is kept twice at one place; without `copies`,
    nowhere twice. Returns how many rows (tuples, or pairs) each store has."""
    seen, counts = Counter(), Counter()
    for (store, instance, what), right in kept_by(join):
        assert right, (store, instance, what)
        seen[(store, instance, what) if copies else (store, what)] += 1
        counts[store] += 1
    assert not seen or max(seen.values()) == 1
    return counts
