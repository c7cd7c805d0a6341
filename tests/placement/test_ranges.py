"""Tables of areas: where tuples go, what check decides, and that pairs within reach meet exactly once."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.errors import TableError
from evenjoin.placement import (
    EVERYTHING,
    At,
    Biclique,
    Buckets,
    Grid,
    Interval,
    Keys,
    Ranges,
    Reach,
    Region,
    Role,
    RoutingTable,
    check,
    diff,
    place,
    stored_here,
)
from evenjoin.placement.pieces import moved_volume, overlap, pieces, stored_volume
from evenjoin.placement.place import cells_of
from evenjoin.testing import ranged_tables
from thorough import examples

FAR = [-(2**63), -(2**63) + 1, -(2**40), 2**40, 2**63 - 2, 2**63 - 1]
CODES = np.array([*range(-11, 12), *FAR], np.int64)
BAND = Reach(-2, 2)


def area(rows, columns, topology):
    return Region(Ranges(Interval(*rows), Interval(*columns)), topology)


def cell(instance):
    return Grid(1, 1, (instance,))


def drawn_example():
    """The three areas of the picture in ranges.py."""
    regions = (
        area((None, 10), (None, 12), cell(0)),
        area((10, 20), (8, 22), cell(1)),
        area((20, None), (18, None), cell(2)),
    )
    return RoutingTable(0, 3, 2, 0, regions, reach=BAND)


def tuples(table, side):
    """One tuple of every class: code, position, and where it goes, {instance: role}."""
    some = pieces((table,), side, CODES)
    where = place(table, side, At(CODES[some.row], some.u))
    targets = [{} for _ in some.row]
    for row, instance, role in zip(*(column.tolist() for column in where), strict=True):
        assert instance not in targets[row]
        targets[row][instance] = role
    return list(zip(CODES[some.row].tolist(), targets, strict=True))


def meets(earlier, later):
    return sum(1 for i, role in earlier.items() if role & Role.STORE and later.get(i, 0) & Role.PROBE)


def within(reach, x, y):
    return (reach.low is None or y - x >= reach.low) and (reach.high is None or y - x <= reach.high)


def verdict(table):
    """What check should say, by looking at every pair of many codes and all positions."""
    for x, one in tuples(table, 0):
        for y, two in tuples(table, 1):
            for times in (meets(one, two), meets(two, one)):
                if times > 1 or (times != 1 and within(table.reach, x, y)):
                    return False
    return True


def test_the_picture():
    """y = 9 is in the first two areas, y = 15 in one; x is always in one; unseen keys are in the outer ones."""
    table = check(drawn_example())
    where = {
        y: set(place(table, 1, At(np.array([y]), np.zeros(1, np.uint32))).instance.tolist()) for y in (9, 15, 19, 21)
    }
    assert where == {9: {0, 1}, 15: {1}, 19: {1, 2}, 21: {1, 2}}
    rows = place(table, 0, At(np.array([-(2**63), 9, 10, 19, 20, 2**63 - 1]), np.zeros(6, np.uint32)))
    assert rows.instance.tolist() == [0, 0, 1, 1, 2, 2]
    assert table.cells == 7
    assert cells_of(table, np.array([7, 8, 9, 10, 22])).tolist() == [0, 1, 1, 2, 6]


@settings(max_examples=examples(30), deadline=None)
@given(ranged_tables())
def test_every_pair_within_reach_meets_exactly_once(table):
    """Whatever the codes, also far outside all areas, and whatever the positions; others at most once."""
    assert verdict(table)


@st.composite
def any_areas(draw):
    """Rectangles at random, right or wrong, on instances they may share."""
    ends = st.one_of(st.none(), st.integers(-3, 3))
    instances = draw(st.integers(1, 3))
    regions = []
    for _ in range(draw(st.integers(1, 4))):
        drawn = [draw(st.tuples(ends, ends)) for _ in (0, 1)]
        sides = [pair if None in pair or pair[0] < pair[1] else (pair[1], pair[0] + 1) for pair in drawn]
        where = draw(st.lists(st.integers(0, instances - 1), min_size=1, max_size=2, unique=True))
        topology = draw(st.sampled_from([Grid(1, len(where), tuple(where)), Grid(len(where), 1, tuple(where))]))
        regions.append(area(*sides, topology))
    reach = draw(st.sampled_from([Reach(0, 0), Reach(-1, 1), Reach(1, None), Reach(2, 3), EVERYTHING]))
    return RoutingTable(0, instances, 2, 0, tuple(regions), reach=reach)


@settings(max_examples=examples(250), deadline=None)
@given(any_areas())
def test_check_decides_any_table_of_areas(table):
    """Areas may overlap, leave holes and share instances: check accepts exactly the tables in which no pair that may
    match is lost and none meets twice."""
    try:
        check(table)
    except TableError:
        assert not verdict(table)
    else:
        assert verdict(table)


@settings(max_examples=examples(30), deadline=None)
@given(ranged_tables(), st.data())
def test_a_hole_or_an_overlap_is_rejected(table, data):
    """Any area gone leaves a hole if it had a pair within reach; any area twice on instances of its own overlaps."""
    number = data.draw(st.integers(0, len(table.regions) - 1))
    gone = replace(table, regions=table.regions[:number] + table.regions[number + 1 :])
    if gone.regions:
        if verdict(gone):
            check(gone)
        else:
            with pytest.raises(TableError, match="lost"):
                check(gone)
    again = Region(table.regions[number].takes, cell(table.instances))
    with pytest.raises(TableError, match="meet 2 times"):
        check(replace(table, instances=table.instances + 1, regions=(*table.regions, again)))


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ((area((None, 5), (None, None), cell(0)),), r"codes 5 \.\. of side 0 and .* meet 0 times, not once.*lost"),
        ((area((None, None), (None, None), cell(0)), area((3, 4), (3, 4), cell(1))), "meet 2 times, not once"),
        ((area((4, 4), (None, None), cell(0)),), "has no code"),
        ((area((None, None), (None, None), cell(2)),), "uses instance 2, the table has 2"),
        ((area((None, None), (None, None), cell(0)), Region(Keys((1,)), cell(1))), "not both"),
        ((area((None, None), (None, None), Grid(2, 2, (0, 1, 1, 0))),), "meet 2 times"),
        ((area((None, None), (None, None), Grid(2, 2, (0, 1))),), "2 x 2 cells are needed, there are 2"),
        ((area((None, None), (None, None), Grid(2, 1, (0, 1), divisions=(((0, 5),), (), ()))),), "whole range of u"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_is_said(broken, says):
    """With the codes that would lose or repeat results."""
    with pytest.raises(TableError, match=says):
        check(RoutingTable(0, 2, 2, 0, broken, reach=BAND))


def test_areas_may_share_an_instance_if_no_pair_meets_twice():
    """The first and the last area of the picture on one instance: their tuples meet there, once, for nothing; next to
    each other the copied tuples would meet twice."""
    one, two, three = drawn_example().regions
    shared = replace(drawn_example(), regions=(one, two, replace(three, topology=cell(0))))
    assert check(shared) is shared
    with pytest.raises(TableError, match="meet 2 times"):
        check(replace(shared, regions=(one, replace(two, topology=Grid(1, 2, (0, 1))), three)))


def test_a_hash_table_is_refused_where_different_keys_may_match():
    """One region for everything suits any reach, several suit equality only."""
    whole = RoutingTable(0, 2, 2, 1, (Region(Buckets((0,)), Biclique(((0, 1), (0, 1)))),), reach=BAND)
    assert check(whole) is whole
    hashed = replace(whole, buckets=2, regions=tuple(Region(Buckets((b,)), Biclique(((b,), (b,)))) for b in (0, 1)))
    with pytest.raises(TableError, match="keys that differ may match"):
        check(hashed)
    assert check(replace(hashed, reach=Reach(0, 0)))


def test_one_message_per_instance():
    """Two areas on one instance that store a tuple send it once; a store here and a probe there are OR-ed."""
    regions = (
        area((None, 0), (None, None), Biclique(((0,), (1,)))),
        area((0, None), (None, None), Biclique(((1,), (0,)))),
    )
    table = RoutingTable(0, 2, 2, 0, regions, reach=EVERYTHING)
    where = place(table, 1, At(np.array([5, 6]), np.zeros(2, np.uint32)))
    assert where.row.tolist() == [0, 0, 1, 1]
    assert where.instance.tolist() == [0, 1, 0, 1]
    assert where.role.tolist() == [Role.BOTH] * 4


@settings(max_examples=examples(40), deadline=None)
@given(ranged_tables(), ranged_tables())
def test_tables_of_areas_travel_and_differ(one, two):
    """JSON and pickle give the table back; diff is the set difference of what is stored; stored_here agrees."""
    again = RoutingTable.from_json(json.loads(json.dumps(one.to_json())))
    assert again == pickle.loads(pickle.dumps(one)) == one
    assert again.digest == one.digest
    u = (np.arange(len(CODES)) * 2**26).astype(np.uint32)
    for side in (0, 1):
        sets = []
        for table in (one, two):
            stored = place(table, side, At(CODES, u)).only(Role.STORE)
            sets.append(set(zip(stored.row.tolist(), stored.instance.tolist(), strict=True)))
            for instance in range(table.instances):
                here = {row for row, where in sets[-1] if where == instance}
                assert set(np.flatnonzero(stored_here(table, side, At(CODES, u), instance)).tolist()) == here
        moves = diff(one, two, side, At(CODES, u))
        assert set(zip(moves.enter_row.tolist(), moves.enter_instance.tolist(), strict=True)) == sets[1] - sets[0]
        assert set(zip(moves.leave_row.tolist(), moves.leave_instance.tolist(), strict=True)) == sets[0] - sets[1]


@settings(max_examples=examples(25), deadline=None)
@given(ranged_tables(), ranged_tables())
def test_volumes_are_what_place_and_diff_say_of_many_tuples(one, two):
    """Per instance, moved and in common: with 512 evenly spread positions a code, to within a position's width."""
    u = np.tile((np.arange(512) * 2**23 + 2**22).astype(np.uint32), len(CODES))
    codes = np.repeat(CODES, 512)
    points = ((CODES, np.ones(len(CODES))),) * 2
    moved, common = 0.0, np.zeros((one.instances, two.instances))
    for side in (0, 1):
        before, after = (place(table, side, At(codes, u)).only(Role.STORE) for table in (one, two))
        expected = np.bincount(before.instance, minlength=one.instances) / 512
        np.testing.assert_allclose(stored_volume(one, points)[side], expected, atol=0.4)
        moved += len(diff(one, two, side, At(codes, u)).enter_row) / 512
        stored = [np.zeros((len(codes), table.instances)) for table in (one, two)]
        stored[0][before.row, before.instance] = 1
        stored[1][after.row, after.instance] = 1
        common += stored[0].T @ stored[1] / 512
    assert moved_volume(one, two, points) == pytest.approx(moved, abs=4.0)
    np.testing.assert_allclose(overlap(one, two, points), common, atol=0.8)


def test_the_varietal_grid_of_figure_4():
    """<1, 2, 1, row> with |R| = 9, |S| = 7: tasks of 6.5 + 3.5, 6.5 + 3.5 and 2.5 + 7, as the paper has it."""
    widths = (round(6.5 / 9 * 2**32), 2**32 - round(6.5 / 9 * 2**32))
    grid = Grid(1, 2, (0, 1), (2,), "row", (tuple(enumerate(widths)), (), ()))
    table = check(RoutingTable(0, 3, 2, 1, (Region(Buckets((0,)), grid),), reach=EVERYTHING))
    points = ((np.array([1]), np.array([9.0])), (np.array([1]), np.array([7.0])))
    np.testing.assert_allclose(stored_volume(table, points), [[6.5, 6.5, 2.5], [3.5, 3.5, 7.0]], atol=1e-6)
    assert RoutingTable.from_json(json.loads(json.dumps(table.to_json()))) == table
