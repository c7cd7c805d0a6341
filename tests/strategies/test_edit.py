"""Edits make valid next versions, forget keys that are home again, and change nothing when nothing changed."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.placement import Biclique, Buckets, Keys, Region, RoutingTable, check
from evenjoin.placement.place import bucket_of
from evenjoin.strategies.bistream import Hash
from evenjoin.strategies.edit import Edit
from thorough import examples

TABLE = RoutingTable(
    4, 3, 2, 2, (Region(Buckets((0,)), Biclique(((0,), (0,)))), Region(Buckets((1,)), Biclique(((1,), (2,)))))
)


def code_in(bucket):
    """A code that hashes to this bucket of two."""
    return next(c for c in range(100) if bucket_of(np.array([c]), 2)[0] == bucket)


def test_a_key_moves_one_side():
    """The other side's unit stays where the hash put it."""
    edit = Edit(TABLE)
    edit.move_key(code_in(1), side=0, to=(2,))
    new = edit.table()
    assert (new.version, new.regions[-1]) == (5, Region(Keys((code_in(1),)), Biclique(((2,), (2,)))))
    assert edit.routed == (code_in(1),)


def test_a_split_key_has_weights():
    """The side that is not split keeps an even weight."""
    edit = Edit(TABLE)
    edit.move_key(code_in(1), side=0, to=(1, 2), weights=(0.75, 0.25))
    assert edit.table().regions[-1].topology == Biclique(((1, 2), (2,)), ((0.75, 0.25), (1.0,)))


def test_a_key_that_is_home_again_is_forgotten():
    """Sent there and back: the very same table."""
    edit = Edit(TABLE)
    edit.move_key(code_in(0), side=1, to=(2,))
    edit.send_home(code_in(0), side=1)
    assert edit.table() is TABLE
    moved = Edit(TABLE)
    moved.move_key(code_in(0), side=1, to=(2,))
    back = Edit(moved.table())
    back.send_home(code_in(0), side=1)
    assert back.table().version == 6
    assert back.routed == ()
    assert {region.takes for region in back.table().regions} == {region.takes for region in TABLE.regions}


def test_a_bucket_that_comes_to_its_key_takes_it_in():
    """Key and bucket live on the same units then: no region is left for the key."""
    edit = Edit(TABLE)
    edit.move_key(code_in(0), side=0, to=(2,))
    edit.move_bucket(0, side=0, to=(2,))
    assert [type(region.takes) for region in edit.table().regions] == [Buckets, Buckets]


@settings(max_examples=examples(100), deadline=None)
@given(st.data(), st.integers(1, 5))
def test_any_edits_pass_check(data, instances):
    """Whatever is edited in whatever order."""
    table = Hash().initial(instances, 2, "shared")
    edit = Edit(table)
    units = st.lists(st.integers(0, instances - 1), min_size=1, max_size=instances, unique=True).map(tuple)
    for _ in range(data.draw(st.integers(0, 8))):
        side, to = data.draw(st.integers(0, 1)), data.draw(units)
        kind = data.draw(st.sampled_from(["key", "split", "bucket", "home"]))
        if kind == "bucket":
            edit.move_bucket(data.draw(st.integers(0, table.buckets - 1)), side, to)
        elif kind == "home":
            edit.send_home(data.draw(st.integers(0, 9)), side)
        else:
            weights = tuple(float(n + 1) for n in range(len(to))) if kind == "split" else None
            edit.move_key(data.draw(st.integers(0, 9)), side, to, weights)
    check(edit.table())
