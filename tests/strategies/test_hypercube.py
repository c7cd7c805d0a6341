"""Hypercube: which dims a join gets, which sizes, and when it gets others."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.errors import SpecError
from evenjoin.load.hypercube import best_sizes, cost, even_cuts, profile, size_vectors, volumes
from evenjoin.load.items import items_of
from evenjoin.load.report import LoadReport
from evenjoin.placement import At, Cube, Dim, Link, Reach, check, links_of, place
from evenjoin.placement.pieces import moved_volume, stored_volume
from evenjoin.runtime.rebalance import decide
from evenjoin.runtime.settings import Guards
from evenjoin.spec.band import Band
from evenjoin.spec.graph import Edge
from evenjoin.strategies import Hypercube, resolve
from evenjoin.strategies.elastic import Scaling, elastic
from placement.cubes import meetings
from thorough import examples


def edge(a, b, i=0, j=0, drive="equal", band=None):
    return Edge((a, b), drive, (i, j), band, None, None, None)


def band(a, b, i=0, j=0, low=-5, high=5, kind="integer"):
    return edge(a, b, i, j, "band", Band(kind, low, high))


TRIANGLE = (edge(0, 1, 1, 0), edge(0, 2, 0, 1), edge(1, 2, 1, 0))
"""R(a, b), S(b, c), T(c, a): the first column is index 0 of each."""
CHAIN = (edge(0, 1), edge(1, 2, 1, 0))
COMMON = (edge(0, 1), edge(0, 2), edge(1, 2))
UNEQUAL = (edge(0, 1, drive="none"), edge(1, 2, drive="none"))
BANDS = (band(0, 1), band(0, 2, 1, 1), band(1, 2, 1, 0))
"""A triangle of bands, each over columns of its own."""


def start(edges, instances, sides=3):
    """The strategy for a join, and its first table as the engine states it."""
    strategy = resolve("hypercube").for_join(SimpleNamespace(edges=edges))
    table = strategy.initial(instances, sides, "shared")
    meeting = "together" if sides > 2 else "pairs"
    return strategy, check(replace(table, links=links_of(edges), meeting=meeting, reach=Reach()))


def shape(table):
    return [(dim.kind, dim.size) for dim in table.regions[0].topology.dims if dim.size > 1]


def tuples(count, seed=0, values=100_000, indexes=2):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, values, (indexes, count))
    return At(codes[0], rng.integers(0, 2**32, count, dtype=np.uint32), tuple(codes[1:]))


def messages(table, volumes=(1, 1, 1)):
    """Messages a tuple, of tuples with even values."""
    sent = [len(place(table, side, tuples(1000, side)).row) / 1000 for side in range(table.groups)]
    return float(np.dot(sent, volumes) / sum(volumes))


def report(sides, alive=None, batch=10):
    """A report with a sample of these tuples of each side; `alive` says how many they stand for."""
    samples = []
    for number, at in enumerate(sides):
        weight = (alive[number] if alive else len(at.codes)) / len(at.codes)
        samples.append(tuple((int(c), weight, *map(int, m)) for c, *m in zip(at.codes, *at.more, strict=True)))
    return LoadReport(batch, (), (), (), (), samples=tuple(samples))


@pytest.mark.parametrize(("instances", "expected"), [(8, 2), (27, 3), (64, 4)])
def test_a_triangle_of_equal_volumes(instances, expected):
    """|R| p_c + |S| p_a + |T| p_b: a cube root of n for each, so n = 8, 27 and 64 send 2, 3 and 4 messages a tuple."""
    _, table = start(TRIANGLE, instances)
    assert shape(table) == [("hash", expected)] * 3
    assert messages(table) == expected


def test_a_chain_with_two_keys():
    """s is in one cell, r in a row and t in a column; 9 instances send 2.3 messages a tuple."""
    _, table = start(CHAIN, 9)
    assert shape(table) == [("hash", 3), ("hash", 3)]
    assert [len(place(table, side, tuples(100, side)).row) / 100 for side in range(3)] == [3, 1, 3]
    assert round(messages(table), 1) == 2.3


@pytest.mark.parametrize(("instances", "expected"), [(8, 4), (27, 9)])
def test_a_join_that_no_code_separates(instances, expected):
    """Each side is divided by `u`: n = 8 sends 4 messages a tuple, n = 27 sends 9. The same without `for_join`."""
    _, table = start(UNEQUAL, instances)
    assert shape(table) == [("u", round(instances ** (1 / 3)))] * 3
    assert messages(table) == expected
    assert Hypercube().initial(instances, 3, "shared").regions == table.regions


@pytest.mark.parametrize(
    ("edges", "sides", "instances", "expected"),
    [
        (COMMON, 3, 8, [("hash", 8)]),
        ((edge(0, 1),), 2, 6, [("hash", 6)]),
        ((edge(0, 1, drive="none"),), 2, 6, [("u", 3), ("u", 2)]),
        ((edge(0, 1), edge(1, 2, drive="none")), 3, 8, [("hash", 4), ("u", 2)]),
        ((edge(0, 1), edge(2, 3), edge(1, 2, 1, 1)), 4, 16, [("hash", 4), ("hash", 4)]),
        (TRIANGLE, 3, 1, []),
        (TRIANGLE, 3, 7, [("hash", 3), ("hash", 2)]),
        (BANDS, 3, 8, [("u", 2)] * 3),
    ],
    ids=[
        "a common key is one dim", "two sides with a key are hashed", "two sides without one are a grid",
        "a side that nothing separates is divided by u", "a chain of four", "one instance", "a number hard to divide",
        "bands wait for samples",
    ],
)  # fmt: skip
def test_initial(edges, sides, instances, expected):
    """Before anything is known all volumes are alike."""
    _, table = start(edges, instances, sides)
    assert shape(table) == expected
    assert table.instances == instances


def test_volumes_decide_the_shares():
    """A side that is eight times as large is divided, and the others copied less: the model's cubes for n = 64."""
    strategy, table = start(TRIANGLE, 64)
    even = [tuples(200, side) for side in range(3)]
    items = items_of(report(even, (8000, 1000, 1000)), table)
    made = Cube(dims := strategy_dims(strategy, table, items), tuple(range(prod(d.size for d in dims))))
    assert [dim.size for dim in made.dims] == [8, 8, 1]


def strategy_dims(strategy, table, items):
    from evenjoin.strategies.hypercube import best_dims

    return best_dims(table.links, table.groups, table.instances, items)


def test_a_drift_of_volumes_calls_for_other_shares():
    """At equal volumes nothing is planned. When one side is 20 times as large, the cube costs more than twice the best,
    and the next one costs least."""
    strategy, table = start(CHAIN, 16)
    even = [tuples(200, side) for side in range(3)]
    assert shape(table) == [("hash", 4), ("hash", 4)]
    same = report(even, (1000, 1000, 1000))
    assert strategy.imbalance(items_of(same, table), table) == pytest.approx(1)
    assert strategy.plan(same, items_of(same, table), table) is None
    drifted = report(even, (40_000, 1000, 1000))
    items = items_of(drifted, table)
    assert strategy.imbalance(items, table) > strategy.alert == 2
    made = check(strategy.plan(drifted, items, table))
    assert shape(made) == [("hash", 16)]
    assert strategy.imbalance(items, made) == pytest.approx(1)
    assert made.version == table.version + 1
    assert strategy.load(items, made).max() < strategy.load(items, table).max() / 2
    assert moved_volume(table, made, items.alive, items.further) < stored_volume(made, items.alive, items.further).sum()


def test_bands_become_ranges_once_there_are_samples():
    """A triangle of narrow bands begins with 4 messages a tuple and comes to 2, where every combination still meets."""
    strategy, table = start(BANDS, 8)
    sides = [tuples(250, side) for side in range(3)]
    seen = report(sides)
    items = items_of(seen, table)
    assert messages(table) == 4
    assert strategy.imbalance(items, table) > strategy.alert
    made = check(strategy.plan(seen, items, table))
    assert shape(made) == [("range", 2)] * 3
    assert messages(made) == pytest.approx(2, abs=0.02)
    assert strategy.imbalance(items, made) == pytest.approx(1)
    assert strategy.plan(seen, items, made) is None
    few = [tuples(12, side, values=20) for side in range(3)]
    found = list(meetings(made, few))
    assert sum(can for can, _ in found) > 50
    assert all(times == 1 or not can for can, times in found)
    loads = strategy.load(items, made)
    assert loads.max() < 1.3 * loads.mean()


def test_new_values_call_for_other_cuts():
    """All values of one key move above its last cut: the same dims, cut elsewhere."""
    strategy, table = start(BANDS, 27)
    sides = [tuples(250, side) for side in range(3)]
    table = check(strategy.plan(report(sides), items_of(report(sides), table), table))
    assert shape(table) == [("range", 3)] * 3
    moved = [At(at.codes + 10**6, at.u, tuple(more + 10**6 for more in at.more)) for at in sides]
    items = items_of(report(moved), table)
    assert strategy.imbalance(items, table) > 5
    made = check(strategy.plan(report(moved), items, table))
    assert shape(made) == shape(table)
    assert min(cut for dim in made.regions[0].topology.dims for cut in dim.cuts) > 10**6


def test_keys_bound_to_each_other_are_one_dim():
    """r.x near s.x, s.x near t.x: one range dim, owned by s, on which all three sides have about one interval."""
    strategy, table = start((band(0, 1), band(1, 2)), 8)
    sides = [tuples(250, side, indexes=1) for side in range(3)]
    made = check(strategy.plan(report(sides), items_of(report(sides), table), table))
    (dim,) = made.regions[0].topology.dims
    assert (dim.kind, dim.size) == ("range", 8)
    assert messages(made) == pytest.approx(1, abs=0.02)
    mixed = (edge(0, 1), band(1, 2))
    strategy, table = start(mixed, 8)
    made = strategy_dims(strategy, table, items_of(report(sides), table))
    assert [(dim.kind, dim.size) for dim in made] == [("hash", 1), ("range", 8)]


def test_a_comparison_is_a_range_with_one_end():
    """r.x < s.x: s goes to all intervals up to its own, half of them on average."""
    strategy, table = start((band(0, 1, low=1, high=None), edge(1, 2, 1, 0)), 8)
    sides = [tuples(250, side) for side in range(3)]
    items = items_of(report(sides), table)
    dims = strategy_dims(strategy, table, items)
    check(replace(table, regions=(replace(table.regions[0], topology=Cube(dims, tuple(range(prod(
        dim.size for dim in dims))))),)))  # fmt: skip
    near = Dim("range", 4, 0, (0, 0, None), even_cuts(sides[0].codes, np.ones(250), 4), (None, Reach(1, None), None))
    copies, peak = profile(near, 3, items)
    assert copies == pytest.approx([1, 2.5, 4], abs=0.15)
    assert peak == pytest.approx([1 / 4, 1, 1], abs=0.02)


@pytest.mark.parametrize("kind", ["real", "capped"])
def test_codes_that_cannot_be_subtracted_are_no_range(kind):
    """Their bands have no reach in codes."""
    strategy, table = start((band(0, 1, kind=kind), band(1, 2, 1, 0, kind=kind)), 8)
    sides = [tuples(250, side) for side in range(3)]
    assert table.links == ()
    assert shape(table) == [("u", 2)] * 3
    assert strategy.plan(report(sides), items_of(report(sides), table), table) is None


def test_a_hot_value_is_divided_by_u():
    """Where most tuples of two sides have one key, hashing it cannot divide them."""
    strategy, table = start(CHAIN, 16)
    hot = [tuples(250, side) for side in range(3)]
    for at in hot[:2]:
        at.codes[:240] = 7
    seen = report(hot)
    items = items_of(seen, table)
    dims = strategy_dims(strategy, table, items)
    assert "u" in [dim.kind for dim in dims]
    made = replace(table, regions=(replace(table.regions[0], topology=Cube(dims, tuple(range(prod(
        dim.size for dim in dims))))),))  # fmt: skip
    check(made)
    assert strategy.load(items, made).max() < strategy.load(items, table).max()


def test_without_samples_volumes_are_known_from_what_is_stored():
    """Then a side has one point, which is no hot value and gives no cuts."""
    strategy, table = start((edge(0, 1), band(1, 2, 1, 0)), 4)
    cells = ((0, 0, 10, 100, 0), (1, 0, 10, 100, 0), (2, 0, 10, 400, 0))
    items = items_of(LoadReport(3, (), (), cells, ()), table)
    assert shape(table) == [("hash", 2), ("u", 2)]
    assert volumes(items, 3) == pytest.approx([50, 50, 200])
    assert strategy.imbalance(items, table) == pytest.approx(1)


def test_decide():
    """The monitor takes the plan where it is better, and leaves a good cube alone."""
    strategy, table = start(BANDS, 8)
    sides = [tuples(250, side) for side in range(3)]
    first = decide(strategy, report(sides), table, Guards(), None, lambda: 0.0)
    assert first.verdict.calls_for_rebalance
    assert first.verdict.sentence.endswith(f" and move {first.verdict.moves:,} tuples: doing it")
    assert first.verdict.imbalance > 2 > 1.01 > first.verdict.forecast
    assert first.verdict.moves > 0
    again = decide(strategy, report(sides, batch=30), first.table, Guards(), 10, lambda: 0.0)
    assert again.table is first.table
    assert again.verdict.sentence.endswith(": left as it is")
    nothing = decide(strategy, LoadReport(30, (), (), (), ()), table, Guards(), None, lambda: 0.0)
    assert nothing.table is table


def test_elastic_keeps_what_the_engine_states():
    """A cube for another number of instances is checked against the same links."""
    strategy, table = start(TRIANGLE, 8)
    scaled = elastic(strategy, Scaling(task_capacity=100, max_instances=27))
    cells = tuple((side, 0, 10, 4000, 0) for side in range(3))
    seen = LoadReport(3, (), (), cells, ())
    made = check(scaled.plan(seen, items_of(seen, table), table))
    assert (made.instances, made.meeting, made.links) == (27, "together", table.links)
    assert shape(made) == [("hash", 3)] * 3


def test_settings():
    """A drift must be above 1."""
    assert resolve("hypercube(drift=3)").alert == 3
    with pytest.raises(SpecError, match="drift must be a number above 1"):
        resolve("hypercube(drift=1)")


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(1, 4), st.integers(1, 12), st.integers(0, 2**32))
def test_the_search_is_exhaustive(dims, instances, seed):
    """It finds the least load of all sizes, as a loop over them does, though it leaves out those that cannot win."""
    assert (size_vectors(dims, instances).prod(axis=1) <= instances).all()
    rng = np.random.default_rng(seed)
    made = [
        [Dim("hash", size, None, tuple(np.where(rng_side, 0, None).tolist())) for size in range(1, instances + 1)]
        for rng_side in rng.random((dims, 3)) < 0.6
    ]
    tuples_of = rng.integers(1, 9, 3).astype(float)
    offers = [[profile(dim, 3, None) for dim in sizes] for sizes in made]
    chosen = best_sizes(offers, tuples_of, instances)

    def load(sizes):
        return float((tuples_of * np.prod([offers[d][s - 1].peak for d, s in enumerate(sizes)], axis=0)).sum())

    every = [s for s in product(range(1, instances + 1), repeat=dims) if prod(s) <= instances]
    assert prod(chosen) <= instances
    assert load(chosen) == pytest.approx(min(map(load, every)))


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(1, 9)), min_size=1), st.integers(2, 6))
def test_cuts_are_ascending_and_between_codes(points, size):
    """And there are as many as asked for, if there are enough codes."""
    codes, weights = np.array([code for code, _ in points]), np.array([weight for _, weight in points], float)
    cuts = even_cuts(codes, weights, size)
    if len(set(codes.tolist())) < size:
        assert cuts is None
        return
    assert len(cuts) == size - 1
    assert list(cuts) == sorted(set(cuts))
    assert min(codes) < cuts[0]
    assert cuts[-1] <= max(codes)
    parts = np.bincount(np.searchsorted(np.array(cuts), codes, "right"), weights, size)
    assert (parts > 0).all()


def test_the_cost_is_what_place_does():
    """The forecast of messages and of the fullest instance, against tuples that are placed."""
    strategy, table = start(BANDS, 27)
    sides = [tuples(250, side) for side in range(3)]
    items = items_of(report(sides), table)
    dims = strategy_dims(strategy, table, items)
    forecast = cost(dims, 3, items)
    stored = stored_volume(replace(table, regions=(replace(table.regions[0], topology=Cube(dims, tuple(range(
        27)))),)), items.alive, items.further)  # fmt: skip
    assert stored.sum() == pytest.approx(forecast.messages, rel=0.02)
    assert stored.sum(axis=0).mean() == pytest.approx(forecast.load, rel=0.15)
    assert Link((0, 1), (0, 0), -5, 5) in table.links
