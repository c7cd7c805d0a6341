"""Ordered buckets: what a tuple probes, and what check accepts."""

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
    At,
    Biclique,
    Buckets,
    Grid,
    Keys,
    Reach,
    Region,
    Role,
    RoutingTable,
    check,
    diff,
    place,
    stored_here,
)
from evenjoin.placement.place import buckets_of, cells_of
from evenjoin.testing import ordered_tables, ranged_tables, routing_tables
from thorough import examples

CODES = np.array([-(2**63), -(2**63) + 1, *range(-14, 15), 2**63 - 2, 2**63 - 1])
POSITIONS = np.array([0, 2**30, 2**31, 3 * 2**30, 2**32 - 1], np.uint32)
ON = [Biclique(((n,), (n,))) for n in range(3)]


def three_buckets(*more, cuts=(10, 20)):
    """.. 9 on instance 0, 10 .. 19 on 1, 20 .. on 2, for |x - y| <= 2."""
    regions = (*(Region(Buckets((n,)), ON[n]) for n in range(3)), *more)
    return RoutingTable(0, 5, 2, 3, regions, "drawn", Reach(-2, 2), cuts=cuts)


def roles(table, side, codes, u=0):
    """By code, the roles that its tuples have at each instance they go to."""
    where = place(table, side, At(np.array(codes), np.full(len(codes), u, np.uint32)))
    out = {code: {} for code in codes}
    for row, instance, role in zip(*(column.tolist() for column in where), strict=True):
        assert instance not in out[codes[row]]
        out[codes[row]][instance] = Role(role)
    return out


def meetings(table):
    """[codes and positions of side 0, those of side 1] how often tuples meet, if side 0's came first and if side 1's
    did."""
    at = At(np.repeat(CODES, len(POSITIONS)), np.tile(POSITIONS, len(CODES)))
    matrix = {}
    for side in (0, 1):
        where = place(table, side, at)
        for role in (Role.STORE, Role.PROBE):
            has = (where.role & role) != 0
            matrix[side, role] = np.zeros((len(at.codes), table.instances), np.int64)
            np.add.at(matrix[side, role], (where.row[has], where.instance[has]), 1)
    return (
        matrix[0, Role.STORE] @ matrix[1, Role.PROBE].T,
        matrix[0, Role.PROBE] @ matrix[1, Role.STORE].T,
    )


def may_match(reach):
    """[codes and positions, the same] whether the difference of codes is within reach."""
    codes = [int(code) for code in np.repeat(CODES, len(POSITIONS))]
    low, high = (-(2**70) if reach.low is None else reach.low), (2**70 if reach.high is None else reach.high)
    return np.array([[low <= y - x <= high for y in codes] for x in codes])


def test_a_tuple_is_stored_in_its_own_bucket_and_probes_all_within_reach():
    """The example at the top of order.py, with key 12 split over instances 3 and 4 on side 0."""
    table = check(three_buckets(Region(Keys((12,)), Biclique(((3, 4), (1,))))))
    both, probe, store = Role.BOTH, Role.PROBE, Role.STORE
    assert roles(table, 1, [15, 19, 14, 8]) == {
        15: {1: both},
        19: {1: both, 2: probe},
        14: {1: both, 3: probe, 4: probe},
        8: {0: both, 1: probe},
    }
    assert roles(table, 0, [12, 13], u=2**31) == {12: {1: probe, 4: store}, 13: {1: both}}
    assert buckets_of(table, np.array([9, 10, 12, 20])).tolist() == [0, 1, 1, 2]
    assert cells_of(table, np.array([9, 10, 12, 20])).tolist() == [0, 1, 3, 2]


def test_equal_cuts_have_an_empty_bucket_between_them():
    table = check(three_buckets(cuts=(10, 10)))
    assert roles(table, 0, [7, 9, 10]) == {7: {0: Role.BOTH}, 9: {0: Role.BOTH, 2: Role.PROBE}, 10: {0: 2, 2: 3}}


@settings(max_examples=examples(30), deadline=None)
@given(ordered_tables())
def test_every_pair_within_reach_meets_once_whichever_came_first(table):
    """Whatever the codes, also at the ends of int64, and whatever the positions; others at most once."""
    near = may_match(table.reach)
    for met in meetings(table):
        assert (met[near] == 1).all()
        assert (met <= 1).all()


@settings(max_examples=examples(50), deadline=None)
@given(ordered_tables(), st.integers(-4, 4), st.integers(-4, 4))
def test_check_counts_meetings_instead_of_trusting_what_is_probed(table, low, high):
    """A table whose tuples probe by another reach than it states: check accepts it exactly if no pair is lost."""
    other = Reach(min(low, high), max(low, high))
    wrong = replace(table, reach=other)
    wrong.__dict__["compiled"] = table.compiled
    loses = any((met[may_match(other)] != 1).any() for met in meetings(wrong))
    try:
        check(wrong)
    except TableError:
        assert loses
    else:
        assert not loses


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda t: replace(t, regions=t.regions[1:]), "no region takes bucket 0"),
        (lambda t: replace(t, regions=(*t.regions, t.regions[0])), "two regions take bucket 0"),
        (lambda t: replace(t, cuts=(20, 10)), "ascending cuts"),
        (lambda t: replace(t, cuts=(10,)), "need 2 ascending cuts"),
        (lambda t: replace(t, cuts=(10, 2**63)), "cuts are codes"),
        (lambda t: replace(t, cuts=None), "the table separates keys"),
        (lambda t: replace(t, regions=(*t.regions, Region(Keys((7,)), Grid(1, 2, (0, 1))))), "stored once"),
        (lambda t: replace(t, instances=2), "uses instance 2"),
    ],
)
def test_check_refuses(harm, message):
    with pytest.raises(TableError, match=message):
        check(harm(three_buckets()))


@settings(max_examples=examples(20), deadline=None)
@given(ordered_tables(), st.one_of(ordered_tables(), ranged_tables(), routing_tables(regions="one")))
def test_a_migration_is_the_difference_of_what_is_stored(one, two):
    """To other buckets, to areas and to one region; masks agree."""
    at = At(np.repeat(CODES, len(POSITIONS)), np.tile(POSITIONS, len(CODES)))
    for side in (0, 1):
        sets = []
        for table in (one, two):
            stored = place(table, side, at).only(Role.STORE)
            sets.append(set(zip(stored.row.tolist(), stored.instance.tolist(), strict=True)))
            for instance in range(table.instances):
                here = {row for row, where in sets[-1] if where == instance}
                assert set(np.flatnonzero(stored_here(table, side, at, instance)).tolist()) == here
        moves = diff(one, two, side, at)
        assert set(zip(moves.enter_row.tolist(), moves.enter_instance.tolist(), strict=True)) == sets[1] - sets[0]


@settings(max_examples=examples(20), deadline=None)
@given(ordered_tables())
def test_a_table_of_ordered_buckets_survives_json_and_pickle(table):
    assert RoutingTable.from_json(json.loads(json.dumps(table.to_json()))) == table
    np.testing.assert_equal(pickle.loads(pickle.dumps(table)).compiled, table.compiled)
