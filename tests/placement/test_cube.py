"""Cubes: every combination that can match is together on exactly one instance, and none on two."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenjoin.errors import TableError
from evenjoin.placement import (
    At,
    Biclique,
    Buckets,
    Cube,
    Dim,
    Keys,
    Link,
    Reach,
    Region,
    Role,
    RoutingTable,
    check,
    diff,
    place,
    stored_here,
)
from evenjoin.placement.cube import hash_coordinates, spread
from evenjoin.placement.links import Bounds
from evenjoin.placement.pieces import moved_volume, overlap, stored_volume
from evenjoin.placement.place import cells_of, regions_of
from evenjoin.placement.shares import holdings
from placement.cubes import INDEXES, cube_tables, drawn_at, instances_of, meetings
from thorough import examples

LAST, FIRST = 2**63 - 1, -(2**63)
TRIANGLE = (Link((0, 1), (1, 0), 0, 0), Link((1, 2), (1, 0), 0, 0), Link((0, 2), (0, 1), 0, 0))
"""R(a, b), S(b, c), T(c, a), with the first column as index 0 of each."""


def cube_table(cube, links=(), sides=3, instances=None, **more):
    size = len(cube.cells) if instances is None else instances
    region = Region(Buckets((0,)), cube)
    return RoutingTable(0, size, sides, 1, (region,), meeting="together", links=tuple(links), **more)


def triangle(*sizes):
    index = ((0, None, 1), (1, 0, None), (None, 1, 0))  # a, b, c: which index of R, S and T has it
    dims = tuple(Dim("hash", size, None, one) for size, one in zip(sizes, index, strict=True))
    return cube_table(Cube(dims, tuple(range(int(np.prod(sizes))))), TRIANGLE)


@settings(max_examples=examples(300), deadline=None)
@given(cube_tables(), st.integers(0, 2**32))
def test_every_combination_that_can_match_is_together_once(table, seed):
    """And no combination is together on two instances, whether it can match or not."""
    check(table)
    sides = [drawn_at(seed + side, 6) for side in range(table.groups)]
    for can_match, times in meetings(table, sides):
        assert times <= 1
        assert times == 1 or not can_match


@settings(max_examples=examples(100), deadline=None)
@given(cube_tables(), st.integers(0, 2**32))
def test_json_and_pickle_bring_back_the_same_table(table, seed):
    """They are equal, have the same name, and place alike."""
    for again in (RoutingTable.from_json(json.loads(json.dumps(table.to_json()))), pickle.loads(pickle.dumps(table))):
        assert (again, again.name) == (table, table.name)
        for side in range(table.groups):
            at = drawn_at(seed, 20)
            assert all(map(np.array_equal, place(table, side, at), place(again, side, at)))


@settings(max_examples=examples(100), deadline=None)
@given(st.data(), st.integers(0, 2**32))
def test_diff_conserves(data, seed):
    """What is stored after a change of cube is what was stored before, less what leaves, and what enters."""
    old, new = data.draw(cube_tables()), data.draw(cube_tables())
    for side in range(min(old.groups, new.groups)):
        at = drawn_at(seed, 30)
        before, after = (instances_of(table, side, at) for table in (old, new))
        moves = diff(old, new, side, at)
        for row in range(30):
            leaves = set(moves.leave_instance[moves.leave_row == row].tolist())
            enters = set(moves.enter_instance[moves.enter_row == row].tolist())
            assert leaves <= before[row]
            assert not enters & before[row]
            assert (before[row] - leaves) | enters == after[row]


@settings(max_examples=examples(100), deadline=None)
@given(cube_tables(), st.integers(0, 2**32))
def test_all_that_asks_a_table_works(table, seed):
    """One cell and one region for all codes; `stored_here` agrees with `place`, shares with what is stored."""
    for side in range(table.groups):
        at = drawn_at(seed, 20)
        assert (cells_of(table, at.codes) == 0).all()
        assert table.cells == 1
        rows, regions = regions_of(table, side, at.codes)
        assert rows is None
        assert (regions == 0).all()
        where = instances_of(table, side, at)
        for instance in range(table.instances):
            mask = stored_here(table, side, at, instance)
            assert mask.tolist() == [instance in cells for cells in where]
        held = holdings(table, side, Role.STORE)
        assert set(held.instance.tolist()) <= set(range(table.instances))
        assert held.share.sum() <= len(table.regions[0].topology.cells) + 1e-9
    points = tuple((np.arange(9), np.ones(9)) for _ in range(table.groups))
    stored = stored_volume(table, points)
    assert stored.shape == (table.groups, table.instances)
    assert (stored.sum(axis=1) >= 9 - 1e-6).all()
    assert moved_volume(table, table, points) == 0
    assert overlap(table, table, points).shape == (table.instances, table.instances)


@settings(max_examples=examples(100), deadline=None)
@given(cube_tables(kinds=("u",)), st.integers(0, 2**32))
def test_slots_and_spread_agree_where_only_u_decides(table, seed):
    """So a cube of "u" dims goes the way of every topology."""
    cube = table.regions[0].topology
    assert table.cube is None
    for side in range(table.groups):
        at = drawn_at(seed, 50)
        rows, instances = spread(cube, side, (at.codes, *at.more), at.u)
        where = place(table, side, at)
        assert sorted(zip(rows, instances, strict=True)) == sorted(zip(where.row, where.instance, strict=True))


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(3, 4), st.integers(0, 3), st.integers(1, 5), st.integers(0, 2**32))
def test_a_hot_key_is_split_in_any_region(sides, divided, parts, seed):
    """One side is divided, the others are copied; the other keys stay in their buckets."""
    hot, rest = Cube.divided(divided % sides, tuple(range(parts))), Biclique(((5,),) * sides)
    table = RoutingTable(0, 6, sides, 2, (Region(Buckets((0, 1)), rest), Region(Keys((7,)), hot)), meeting="together")
    check(table)
    at = [At(np.array([7] * 5 + [3] * 2), drawn_at(seed + side, 7).u) for side in range(sides)]
    where = [instances_of(table, side, one) for side, one in enumerate(at)]
    assert [len(cells) for cells in where[divided % sides]] == [1] * 7
    for combination in np.ndindex(*(7,) * sides):
        same = len({int(at[side].codes[row]) for side, row in enumerate(combination)}) == 1
        together = set.intersection(*(where[side][row] for side, row in enumerate(combination)))
        assert len(together) == (1 if same else len(together))


@pytest.mark.parametrize(("sizes", "messages"), [((2, 2, 2), 2), ((3, 3, 3), 3), ((4, 4, 4), 4), ((1, 4, 2), None)])
def test_the_triangle(sizes, messages):
    """n = 8, 27 and 64: 2, 3 and 4 messages a tuple (Afrati and Ullman's example)."""
    table = check(triangle(*sizes))
    a, b, c = sizes
    for side, copies in enumerate((c, a, b)):
        where = place(table, side, drawn_at(side, 500, 0, 1000))
        assert len(where.row) == 500 * copies
        assert messages in (None, copies)


def test_the_chain():
    """R(a), S(a, b), T(b): s has one cell, r a row, t a column."""
    links = (Link((0, 1), (0, 0), 0, 0), Link((1, 2), (1, 0), 0, 0))
    dims = (Dim("hash", 3, None, (0, 0, None)), Dim("hash", 4, None, (None, 1, 0)))
    table = check(cube_table(Cube(dims, tuple(range(12))), links))
    at = At(np.array([5]), np.zeros(1, np.uint32), (np.array([6]),))
    s, r, t = (
        place(table, side, one).instance.tolist()
        for side, one in ((1, at), (0, at), (2, At(np.array([6]), np.zeros(1, np.uint32))))
    )
    assert (len(s), len(r), len(t)) == (1, 4, 3)
    assert r == list(range(s[0] // 4 * 4, s[0] // 4 * 4 + 4))
    assert t == list(range(s[0] % 4, 12, 4))


def test_a_range_at_the_ends_of_int64():
    """Codes and reaches that would overflow when added reach the outermost intervals."""
    for reach in (Reach(-5, 5), Reach(LAST, None), Reach(None, FIRST), Reach(1, None), Reach(-LAST, LAST)):
        link = Link((0, 1), (0, 0), reach.low, reach.high)
        dim = Dim("range", 4, 0, (0, 0), (FIRST + 3, 0, LAST), (None, reach))
        table = check(cube_table(Cube((dim,), (0, 1, 2, 3)), [link], sides=2))
        ends = np.array([FIRST, FIRST + 2, FIRST + 3, -1, 0, 1, LAST - 1, LAST])
        sides = [At(ends, np.zeros(len(ends), np.uint32))] * 2
        for can_match, times in meetings(table, sides):
            assert times <= 1
            assert times == 1 or not can_match


def test_hash_coordinates_are_even_and_independent():
    """Of consecutive codes, of multiples, and along two dims that have the same code."""
    for step in (1, 64, 2**32):
        codes = np.arange(20_000) * step
        one, two = (hash_coordinates(codes, number, 4) for number in (0, 1))
        counts = np.bincount(one * 4 + two, minlength=16)
        assert abs(counts / counts.mean() - 1).max() < 0.15
    assert (hash_coordinates(codes.astype(np.int32).astype(np.int64), 3, 1) == 0).all()


def test_bounds_are_implied():
    """r.x = s.x and s.x within 2 of t.y bind r to t; a comparison binds on one side only."""
    bounds = Bounds((Link((0, 1), (0, 0), 0, 0), Link((1, 2), (0, 1), -2, 2), Link((2, 3), (1, 0), 1, None)))
    assert bounds.between((0, 0), (2, 1)) == Reach(-2, 2)
    assert bounds.between((2, 1), (0, 0)) == Reach(-2, 2)
    assert bounds.between((0, 0), (3, 0)) == Reach(-1, None)
    assert bounds.between((3, 0), (0, 0)) == Reach(None, 1)
    assert bounds.equal((0, 0), (1, 0))
    assert not bounds.linked((0, 0), (2, 0))


RANGE = Dim("range", 2, 0, (0, 0, None), (5,), (None, Reach(-2, 2), None))
NEAR = (Link((0, 1), (0, 0), -2, 2),)
HASH = Dim("hash", 2, None, (0, 0, None))
SAME = (Link((0, 1), (0, 0), 0, 0), Link((1, 2), (0, 0), 0, 0))


def beside(cube, biclique):
    """A cube by codes, and a key that has a region of its own."""
    regions = (Region(Buckets((0,)), cube), Region(Keys((7,)), biclique))
    return RoutingTable(0, 2, 3, 1, regions, meeting="together", links=SAME)


def one(dim, links=(), cells=(0, 1), **more):
    return cube_table(Cube((dim,), cells), links, **more)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (one(RANGE, NEAR), None),
        (one(replace(RANGE, reach=(None, Reach(-3, None), None)), NEAR), None),
        (one(replace(RANGE, reach=(None, Reach(-1, 2), None)), NEAR), "results would be lost"),
        (one(replace(RANGE, reach=(None, Reach(-2, 1), None)), NEAR), "results would be lost"),
        (one(replace(RANGE, reach=(None, Reach(-2, 2), None)), (Link((0, 1), (0, 0), -2),)), "results would be lost"),
        (one(RANGE), "results would be lost"),
        (one(replace(RANGE, owner=1, reach=(Reach(-2, 2), None, None)), NEAR), None),
        (one(replace(RANGE, owner=2), NEAR), "owner has no index"),
        (one(replace(RANGE, owner=3), NEAR), "no owner among the 3 sides"),
        (one(replace(RANGE, cuts=(5, 4)), NEAR), "1 ascending cuts"),
        (one(replace(RANGE, size=3, cuts=(5, 5)), NEAR, (0, 1, 2)), "2 ascending cuts"),
        (one(replace(RANGE, cuts=(2**63,)), NEAR), "a cut is no code"),
        (one(replace(RANGE, index=(0, 1, None)), NEAR), "no condition compares index 1 of side 1"),
        (one(HASH, SAME), None),
        (one(replace(HASH, index=(0, None, 0)), SAME), None),
        (one(replace(HASH, index=(0, None, 0)), NEAR), "need not be equal"),
        (one(HASH), "need not be equal"),
        (one(HASH, NEAR), "need not be equal"),
        (one(replace(HASH, index=(None, None, None)), SAME), "no side has the key"),
        (one(HASH, SAME, (0, 0)), "two cells are instance 0"),
        (one(HASH, SAME, (0, 1, 2)), "2 cells are needed, there are 3"),
        (one(HASH, SAME, (0, 2), instances=2), "uses instance 2"),
        (replace(one(HASH, SAME), meeting="pairs"), "the program needs pairs"),
        (replace(one(HASH, SAME[:1], sides=2), meeting="pairs"), "names indexes of sides"),
        (replace(one(replace(HASH, index=(0, 0)), SAME[:1], sides=2), meeting="pairs"), None),
        (one(Dim("u", 2, 1)), None),
        (one(Dim("u", 2, 3)), "no owner"),
        (one(Dim("u", 2)), "no owner"),
        (replace(one(Dim("u", 2, 1)), meeting="pairs"), "meets 2 times"),
        (cube_table(Cube((Dim("u", 2, 1), Dim("u", 2, 1)), (0, 1, 2, 3))), "the same `u`"),
        (cube_table(Biclique(((0,), (1,), (0,))), instances=2), "is together on 0 instances"),
        (beside(Cube((HASH,), (0, 1)), Biclique(((0,),) * 3)), "must be the only region"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_check(broken, says):
    """Each way in which a cube would lose or repeat results is named."""
    if says is None:
        assert check(broken) is broken
    else:
        with pytest.raises(TableError, match=says):
            check(broken)


@settings(max_examples=examples(200), deadline=None)
@given(cube_tables(kinds=("hash", "range")), st.data())
def test_a_reach_narrower_than_the_condition_is_refused(table, data):
    """If the condition allows one code more than the dim reaches, the table would lose results."""
    wider = [n for n, link in enumerate(table.links) if link.sides[0] != link.sides[1]]
    assume(wider)
    number = data.draw(st.sampled_from(wider))
    link = table.links[number]
    ends = [name for name, end in (("low", link.low), ("high", link.high)) if end is not None]
    assume(ends)
    end = data.draw(st.sampled_from(ends))
    moved = replace(link, **{end: getattr(link, end) + (-1 if end == "low" else 1)})
    links = (*table.links[:number], moved, *table.links[number + 1 :])
    with pytest.raises(TableError, match="results would be lost"):
        check(replace(table, links=links))


def test_indexes_are_those_of_the_tests():
    """`drawn_at` gives each side codes by all its indexes."""
    assert len(drawn_at(0, 1).more) == INDEXES - 1
