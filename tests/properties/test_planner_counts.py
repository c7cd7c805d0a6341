"""What a planner is told is stored, is stored: read from the runs themselves, per instance, side, cell and key.

Streams have a hot key that changes from batch to batch, and windows in which tuples expire, or none. Tables change
between batches, so that runs are masked and merged; keys have regions of their own, some of them split. The joins have
two sides, together or apart, or three.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import evenjoin
from evenjoin.load.items import items_of, loads
from evenjoin.placement import Biclique, Buckets, Keys, Region, RoutingTable, check, stored_here
from evenjoin.placement.place import cells_of
from evenjoin.placement.topology import Cube
from evenjoin.state.segment import Segments
from evenjoin.testing import Fixed
from thorough import examples

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
START = datetime.fromisoformat("2024-01-01T00:00:00+00:00")
KEYS = 12


def join_of(sides, timed, strategy, instances, **more):
    """A join of so many sides on a common key; if `timed`, within ten seconds of each other."""
    aliases = "abc"[:sides]
    pairs = list(pairwise(aliases))
    near = "{1}.ts BETWEEN {0}.ts - INTERVAL 10 SECONDS AND {0}.ts + INTERVAL 10 SECONDS"
    on = [f"{one}.k = {two}.k" for one, two in pairs] + [near.format(*pair) for pair in pairs if timed]
    times = {"event_time": dict.fromkeys(aliases, "ts"), "watermark": dict.fromkeys(aliases, "1 second")}
    return evenjoin.local(
        dict.fromkeys(aliases, SCHEMA), " AND ".join(on), select=["a.id"], strategy=strategy, instances=instances,
        sub_window="5 seconds" if timed else None, merge_budget=30, **(times if timed else {}), **more,
    )  # fmt: skip


@st.composite
def streams(draw, sides):
    """Batches: by side the keys and the second of each row. One key is hot in each batch, another in the next."""
    out, second = [], 0
    for number in range(draw(st.integers(2, 7))):
        second += draw(st.integers(0, 9))
        hot = draw(st.integers(0, 15))
        other = st.lists(st.integers(0, KEYS - 1), max_size=12)
        keys = [[number % KEYS] * draw(st.integers(0, hot)) + draw(other) for _ in range(sides)]
        out.append([(of_side, [second + draw(st.integers(-2, 2)) for _ in of_side]) for of_side in keys])
    return out


@st.composite
def tables(draw, sides, instances):
    """Two sides: one unit of each anywhere, or several. Three: together on one instance, or a key divided."""
    one = st.integers(0, instances - 1)
    several = st.lists(one, min_size=1, unique=True).map(tuple)
    whole = st.tuples(one, one).map(lambda pair: Biclique(((pair[0],), (pair[1],))))
    spread = st.tuples(several, several).map(Biclique)
    if sides == 3:
        whole = one.map(lambda unit: Biclique(((unit,),) * 3))
        spread = st.builds(Cube.divided, st.integers(0, 2), several)
    buckets = draw(st.integers(1, 5))
    regions = [Region(Buckets((b,)), draw(whole)) for b in range(buckets)]
    for code in draw(st.lists(st.integers(0, KEYS - 1), unique=True, max_size=4)):
        regions.append(Region(Keys((code,)), draw(st.one_of(whole, spread))))
    meeting = "together" if sides == 3 else "pairs"
    return check(RoutingTable(0, instances, sides, buckets, tuple(regions), "drawn", meeting=meeting))


def rows(batch):
    return {
        alias: pa.table([range(len(keys)), keys, [START + timedelta(seconds=s) for s in times]], schema=SCHEMA)
        for alias, (keys, times) in zip("abc", batch, strict=False)
    }


def in_runs(join, sides):
    """By (side, instance) the codes of the live tuples in the runs that the manifest names."""
    driver, out = join._driver, {}
    segments = Segments(driver.folder)
    for instance, side, run in driver.last.manifest:
        tuples = segments.read(driver.schemas[side], run)
        codes = tuples.codes
        if run.mask is not None:
            codes = codes[stored_here(driver.table_named(run.mask), side, tuples.at, instance)]
        out.setdefault((side, instance), Counter()).update(codes.tolist())
    return out


def assert_told(join, sides):
    """The report and the items of the last batch against the runs."""
    report, table = join.load(), join._driver.table_named(join._driver.last.table)
    truth, items = in_runs(join, sides), items_of(report, table)
    held = [[truth.get((side, i), Counter()).total() for i in range(table.instances)] for side in range(sides)]
    assert items.held[1].tolist() == held
    every = [sum((truth.get((side, i), Counter()) for i in range(table.instances)), Counter()) for side in range(sides)]
    by_cell = {(side, cell): stored for side, cell, _, stored, _ in report.cells if stored}
    expected = Counter()
    for side in range(sides):
        for code, count in every[side].items():
            expected[side, int(cells_of(table, np.array([code]))[0])] += count
    assert by_cell == dict(expected)
    for key in report.heavy:
        if key.code not in report.partial:
            assert key.stored == tuple(of_side[key.code] for of_side in every)
    whole = [isinstance(region.topology, Biclique) and max(map(len, region.topology.units)) == 1
             for region in table.regions]  # fmt: skip
    seen = np.array([unit.stored for unit in loads(items, table)])
    if all(whole):
        assert seen.tolist() == held
    assert seen.sum(axis=1) == pytest.approx([sum(of_side) for of_side in held])
    assert (items.stored >= 0).all()
    event(f"expired: {report.expired > 0}, partial: {bool(report.partial)}, whole: {all(whole)}")


@settings(max_examples=examples(20), deadline=None)
@given(st.data(), st.integers(2, 3), st.booleans(), st.integers(1, 5), st.integers(1, 4))
def test_counts_are_those_of_the_runs_under_any_tables(data, sides, timed, instances, track):
    """After each batch, whatever tables follow each other."""
    stream = data.draw(streams(sides))
    drawn = tuple(data.draw(tables(sides, instances)) for _ in range(data.draw(st.integers(1, 3))))
    order = [drawn[data.draw(st.integers(0, len(drawn) - 1))] for _ in stream]
    with join_of(sides, timed, Fixed(tuple(order)), instances, track=track) as join:
        for batch in stream:
            join.process(rows(batch))
            assert_told(join, sides)


@settings(max_examples=examples(15), deadline=None)
@given(streams(2), st.sampled_from(["hash", "fastjoin", "djb", "lsstream"]), st.sampled_from(["shared", "split"]),
       st.booleans(), st.integers(2, 5))  # fmt: skip
def test_counts_are_those_of_the_runs_under_planners(stream, strategy, layout, timed, instances):
    """The same in both layouts, with the tables that planners make."""
    eager = evenjoin.Guards(cooldown=0, min_gain=0, min_work=0)
    with join_of(2, timed, strategy, instances, track=3, layout=layout, guards=eager) as join:
        for batch in stream:
            join.process(rows(batch))
            assert_told(join, 2)
        event(f"{strategy}: {len(join.migrations())} migrations")
