"""What two tables tell of a migration before any tuple is looked at: which codes move, and who holds them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.placement import Biclique, Buckets, Cube, Dim, Grid, Keys, Ranges, Region, RoutingTable
from evenjoin.placement.diff import FINEST, changed, diff
from evenjoin.placement.pieces import pieces
from evenjoin.placement.place import At, bucket_of, place
from evenjoin.placement.table import Succession
from evenjoin.placement.topology import Role
from evenjoin.strategies.base import resolve
from neighbours import successions
from thorough import examples

CODES = np.arange(600)
"""Some for each bucket of any two of the tables drawn."""


def moved(old, new, group, codes):
    """Slowly: of these codes those with a position that moves, and the instances that stored such positions."""
    every = pieces((old, new), group, codes)
    at = At(codes[every.row], every.u)
    moves = diff(old, new, group, at)
    rows = np.unique(np.concatenate([moves.leave_row, moves.enter_row]))
    stored = place(old, group, at).only(Role.STORE)
    return set(codes[every.row[rows]].tolist()), set(stored.instance[np.isin(stored.row, rows)].tolist())


@settings(max_examples=examples(50), deadline=None)
@given(successions(most=3), st.integers(0, 1), st.lists(st.integers(-5, 40), max_size=60), st.sampled_from("ihq"))
def test_what_may_move_is_what_has_a_position_that_moves(tables, group, drawn, dtype):
    """For codes in any order and of any type: no code too few, none too many, and likewise of the instances."""
    old, new = tables[-2:]
    found = changed(old, new, group)
    codes, holders = moved(old, new, group, CODES)
    assert set(CODES[found.rows(CODES, "sorted")].tolist()) == codes
    assert set(np.flatnonzero(found.holders).tolist()) == holders
    some = np.array(drawn, dtype)
    rows = [row for row in range(len(some)) if int(some[row]) in moved(old, new, group, some.astype(np.int64))[0]]
    assert found.rows(some, "any").tolist() == rows
    some.sort()
    assert some[found.rows(some, "sorted")].tolist() == sorted(np.array(drawn, dtype)[rows].tolist())


def home(*more, buckets=4, instances=4):
    """Bucket b is on instance b; regions of keys besides."""
    regions = tuple(Region(Buckets((b,)), Biclique(((b % instances,), (b % instances,)))) for b in range(buckets))
    return RoutingTable(0, instances, 2, buckets, regions + more)


def key(*codes, on):
    return Region(Keys(codes), Biclique(on))


def test_a_key_that_moves_on_one_side():
    """Key 7 moves its side 0 from instance 1 to 3: one code, one holder, and nothing of side 1."""
    old, new = home(key(7, 8, on=((1,), (1,)))), home(key(7, on=((3,), (1,))), key(8, on=((1,), (1,))))
    found, other = changed(old, new, 0), changed(old, new, 1)
    assert (found.own.tolist(), found.moved.tolist(), found.buckets.any()) == ([7, 8], [True, False], False)
    assert found.holders.tolist() == [False, True, False, False]
    assert not np.concatenate([other.moved, other.buckets, other.holders]).any()


def test_a_record_that_says_what_the_bucket_says_moves_nothing():
    """A key gets a region of its own where it is already, or loses it."""
    bucket = int(bucket_of(np.array([7]), 4)[0])
    own = home(key(7, on=((bucket,), (bucket,))))
    for one, two in ((own, home()), (home(), own)):
        assert not changed(one, two, 0).holders.any()


def test_finer_buckets_in_the_same_places_move_nothing():
    """Eight buckets where four were, each half where the whole was; then one half moves."""
    halves = [Region(Buckets((b,)), Biclique(((b // 2,), (b // 2,)))) for b in range(8)]
    same = RoutingTable(1, 4, 2, 8, tuple(halves))
    assert not changed(home(), same, 0).buckets.any()
    halves[5] = Region(Buckets((5,)), Biclique(((0,), (2,))))
    found = changed(home(), replace(same, regions=tuple(halves)), 0)
    assert (found.buckets.nonzero()[0].tolist(), found.holders.nonzero()[0].tolist()) == ([5], [2])


def test_a_split_key_that_shifts_one_cut():
    """Shares 0.5, 0.3, 0.2 become 0.5, 0.2, 0.3: of the instances only the one that gives something away holds it."""
    split = [
        Region(Keys((7,)), Biclique(((0, 1, 2), (3,)), (shares, (1.0,)))) for shares in ((5, 3, 2), (5, 2, 3))
    ]  # fmt: skip
    assert changed(home(split[0]), home(split[1]), 0).holders.nonzero()[0].tolist() == [1]


def test_new_numbers_move_nothing_and_a_dissolved_instance_everything_that_it_has():
    """Instances 0 and 1 are exchanged by name; then instance 3 has no heir."""
    old = home()
    turned = (1, 0, 2, 3)
    regions = tuple(Region(Buckets((b,)), Biclique(((turned[b],), (turned[b],)))) for b in range(4))
    new = replace(old, version=1, regions=regions, follows=Succession(old.name, turned))
    assert not changed(old, new, 0).holders.any()
    fewer = replace(
        home(), version=1, instances=3, regions=(*old.regions[:3], replace(old.regions[0], takes=Buckets((3,))))
    )
    assert changed(old, fewer, 0).holders.nonzero()[0].tolist() == [3]


def test_the_same_topology_under_other_numbers_moves_everything():
    """A key is split over 0 and 1 before and after, but each of them goes on with what the other stored."""
    old = home(Region(Keys((7,)), Biclique(((0, 1), (0, 1)))))
    new = replace(old, version=1, follows=Succession(old.name, (1, 0, 2, 3)))
    found = changed(old, new, 0)
    assert (found.moved.tolist(), found.holders.nonzero()[0].tolist()) == ([True], [0, 1])


def test_one_more_line_of_a_key_s_grid():
    """A key on 0 and 1 as a row gets a second row: side 0 is divided, side 1 copied; all its holders are named."""
    one, two = (Region(Keys((7,)), Grid(*grid)) for grid in ((1, 2, (0, 1)), (2, 2, (0, 1, 2, 3))))
    for side in range(2):
        found = changed(home(one), home(two), side)
        assert (found.own.tolist(), found.holders.nonzero()[0].tolist()) == ([7], [0, 1])


RANGED = RoutingTable(0, 1, 2, 0, (Region(Ranges(), Grid(1, 1, (0,))),))
CUBE = RoutingTable(0, 2, 2, 1, (Region(Buckets((0,)), Cube((Dim("hash", 2, None, (0, 0)),), (0, 1))),))


@pytest.mark.parametrize("other", [RANGED, CUBE, home(buckets=FINEST + 1, instances=1)], ids=["areas", "cube", "many"])
def test_anything_may_change_where_a_table_does_not_go_by_keys_and_buckets(other):
    """Areas, a cube by code, and buckets beyond what is compared."""
    assert changed(home(), other, 0) is changed(other, home(), 0) is None


@pytest.mark.parametrize("instances", [4, 64])
def test_a_rescaled_hash_table_keeps_what_it_can(instances):
    """As many tuples as `diff` moves are among the rows, and not many more."""
    old, new = (resolve("hash").initial(n, 2, "shared") for n in (instances, instances + 1))
    codes = np.arange(20_000)
    rows = changed(old, new, 0).rows(codes, "sorted")
    assert len(rows) == len(np.unique(diff(old, new, 0, At(codes, np.zeros(len(codes), np.uint32))).enter_row))


def test_of_ordered_buckets_anything_may_change():
    """They are no ranges of hashes, so cells of two tables do not lie over each other."""
    hashed = resolve("hash").initial(2, 2, "shared")
    ordered = replace(hashed, cuts=tuple(range(hashed.buckets - 1)))
    for old, new in ((hashed, ordered), (ordered, hashed), (ordered, replace(ordered, version=1))):
        assert changed(old, new, 0) is None
