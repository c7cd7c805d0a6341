"""Items are the whole load, once; under the table they met, `loads` repeats what the instances measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenjoin
from evenjoin.load.items import items_of, loads, moved_tuples, work_by_instance
from evenjoin.placement import Biclique, Buckets, Keys, Region, RoutingTable, check
from evenjoin.placement.topology import Cube
from evenjoin.testing import Fixed
from thorough import examples

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64())])


@st.composite
def bicliques(draw, instances):
    """One unit or several per side, weighted or not."""
    units = st.lists(st.integers(0, instances - 1), min_size=1, max_size=instances, unique=True).map(tuple)
    chosen = draw(units), draw(units)
    weights = tuple(tuple(draw(st.integers(1, 4)) for _ in side) for side in chosen)
    return Biclique(chosen, draw(st.sampled_from([None, weights])))


@st.composite
def tables(draw):
    instances, buckets = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    regions = [Region(Buckets((b,)), draw(bicliques(instances))) for b in range(buckets)]
    codes = draw(st.lists(st.integers(0, 9), unique=True, max_size=4))
    regions += [Region(Keys((c,)), draw(bicliques(instances))) for c in codes]
    return check(RoutingTable(0, instances, 2, buckets, tuple(regions), "drawn"))


def run(table, batches, track, aliases="lr", on="l.k = r.k"):
    strategy = Fixed(tuple(replace(table, version=n) for n in range(1)))
    with evenjoin.local(
        dict.fromkeys(aliases, SCHEMA),
        on,
        select=[f"{aliases[0]}.id"],
        strategy=strategy,
        instances=table.instances,
        track=track,
    ) as join:
        for number, keys in enumerate(batches):
            sides = zip(aliases, keys, strict=True)
            join.process({a: pa.table([[number] * len(k), k], schema=SCHEMA) for a, k in sides})
        return join.load()


keys = st.lists(st.integers(0, 12), max_size=30)
few = st.lists(st.integers(0, 12), max_size=12)


@settings(max_examples=examples(120), deadline=None)
@given(tables(), st.lists(st.tuples(keys, keys), min_size=1, max_size=3), st.integers(1, 6))
def test_loads_repeat_the_report(table, batches, track):
    """Probes are exact for every table; stored, arrivals and results too where no key is split, else in total."""
    report = run(table, batches, track)
    items = items_of(report, table)
    for side, unit in enumerate(loads(items, table)):
        assert unit.probes.tolist() == [load.probes[1 - side] for load in report.instances]
        stored = [load.stored[side] for load in report.instances]
        results = [load.results[side] for load in report.instances]
        assert unit.stored.sum() == pytest.approx(sum(stored))
        assert unit.results.sum() == pytest.approx(sum(results))
        if all(len(region.topology.units[side]) == 1 for region in table.regions):
            assert unit.stored.tolist() == stored
            assert unit.results.tolist() == results
        assert set(unit.hosts.tolist()) == {u for region in table.regions for u in region.topology.units[side]}
    arrived = [len(keys) for keys in batches[-1]]
    assert items.arrived.sum(axis=1).tolist() == arrived
    assert (items.stored >= 0).all()


@st.composite
def together(draw):
    """Tables of three sides: each bucket on one instance, keys on one or divided by a side."""
    instances, buckets = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    one = st.integers(0, instances - 1).map(lambda unit: Biclique(((unit,),) * 3))
    several = st.lists(st.integers(0, instances - 1), min_size=1, unique=True).map(tuple)
    regions = [Region(Buckets((b,)), draw(one)) for b in range(buckets)]
    for code in draw(st.lists(st.integers(0, 9), unique=True, max_size=4)):
        regions.append(Region(Keys((code,)), draw(st.one_of(one, st.builds(Cube.divided, st.integers(0, 2), several)))))
    return check(RoutingTable(0, instances, 3, buckets, tuple(regions), "drawn", meeting="together"))


@settings(max_examples=examples(120), deadline=None)
@given(together(), st.lists(st.tuples(few, few, few), min_size=1, max_size=3), st.integers(1, 6))
def test_loads_of_three_sides_repeat_the_report(table, batches, track):
    """A tuple counts once for each store that it probes. Divided keys are exact in total, all others on each
    instance; and each tuple is counted once in the items, however many copies it has."""
    report = run(table, batches, track, aliases="abc", on="a.k = b.k AND b.k = c.k")
    items = items_of(report, table)
    whole = all(isinstance(region.topology, Biclique) for region in table.regions)
    for side, unit in enumerate(loads(items, table)):
        stored = [load.stored[side] for load in report.instances]
        probes = [sum(load.probes) - load.probes[side] for load in report.instances]
        found = sum(results for s, _, _, _, results in report.cells if s == side)
        assert unit.stored.sum() == pytest.approx(sum(stored))
        assert unit.probes.sum() == pytest.approx(sum(probes))
        assert unit.results.sum() == pytest.approx(found)
        if whole:
            assert (unit.stored.tolist(), unit.probes.tolist()) == (stored, probes)
    assert items.arrived.sum(axis=1).tolist() == [len(keys) for keys in batches[-1]]
    assert items.stored.sum(axis=1).tolist() == [sum(len(batch[side]) for batch in batches) for side in range(3)]


def test_items_of_one_bucket():
    """The drawn example of the module: a bucket's heavy keys are items, and so is what remains of it."""
    table = RoutingTable(0, 2, 2, 1, (Region(Buckets((0,)), Biclique(((0,), (0,)))),))
    report = run(table, [([4] * 7 + [5] * 3 + [6, 8], [4])], track=2)
    items = items_of(report, table)
    assert dict(zip(items.code[items.is_key].tolist(), items.arrived[0].tolist(), strict=False)) == {4: 7, 5: 3}
    assert items.arrived[0][~items.is_key].tolist() == [2]
    assert items.results[0].sum() == 7
    assert work_by_instance(items, table).tolist() == [12 + 1 + 7 + 12 + 1, 0]


def test_moved_tuples_of_a_key_and_of_a_split():
    """A key of 7 stored tuples that moves is 7 tuples; split in two halves it is 3.5."""
    home = Region(Buckets((0,)), Biclique(((0,), (0,))))
    old = RoutingTable(0, 2, 2, 1, (home,))
    items = items_of(run(old, [([4] * 7 + [5] * 3, [4])], track=4), old)
    moved = old.with_regions((home, Region(Keys((4,)), Biclique(((1,), (0,))))))
    halved = old.with_regions((home, Region(Keys((4,)), Biclique(((0, 1), (0,))))))
    assert moved_tuples(items, old, moved) == 7
    assert moved_tuples(items, old, halved) == 3.5
    assert moved_tuples(items, old, old) == 0


def test_masked_runs_are_counted_without_their_dead():
    """After a key has left a large run, the run is masked, and the counts say what is alive."""
    home = Region(Buckets((0,)), Biclique(((0,), (0,))))
    first = RoutingTable(0, 2, 2, 1, (home,), "drawn")
    second = first.with_regions((home, Region(Keys((7,)), Biclique(((1,), (1,))))))
    with evenjoin.local(
        {"l": SCHEMA, "r": SCHEMA}, "l.k = r.k", strategy=Fixed((first, second, second)), instances=2, track=20
    ) as join:
        for _ in range(3):
            rows = pa.table([range(40), [i % 10 for i in range(40)]], schema=SCHEMA)
            join.process({"l": rows, "r": rows})
        assert any(run.mask for _, _, run in join._driver.last.manifest)
        items, report = items_of(join.load(), second), join.load()
    for side, unit in enumerate(loads(items, second)):
        assert unit.stored.tolist() == [load.stored[side] for load in report.instances] == [108, 12]
    assert {key.code: key.stored for key in report.heavy} == dict.fromkeys(range(10), (12, 12))
    assert np.isfinite(items.stored).all()
