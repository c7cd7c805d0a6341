"""Routing tables as values: what they say, and that they come back from JSON and pickle the same."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from evenjoin.placement import At, Biclique, Buckets, Grid, Keys, Region, Role, RoutingTable, check, place, stored_here
from evenjoin.placement.place import bucket_of
from evenjoin.testing import routing_tables
from thorough import examples

S, P, B = Role.STORE, Role.PROBE, Role.BOTH


def targets(table, side, code, u=0):
    """Where one tuple goes, as {instance: role}."""
    where = place(table, side, At(np.array([code]), np.array([u], np.uint32)))
    return dict(zip(where.instance.tolist(), map(Role, where.role.tolist()), strict=True))


def in_bucket(bucket, buckets):
    """A code of this bucket."""
    return next(c for c in range(1000) if bucket_of(np.array([c]), buckets)[0] == bucket)


@settings(max_examples=examples(30), deadline=None)
@given(routing_tables())
def test_json_round_trip(table):
    """Through JSON text a table comes back equal, with the same digest and the same placement."""
    again = RoutingTable.from_json(json.loads(json.dumps(table.to_json())))
    assert again == table
    assert again.digest == table.digest
    codes, u = np.arange(-20, 20), np.arange(40, dtype=np.uint32) * np.uint32(2**26)
    for side in range(2):
        for one, two in zip(place(table, side, At(codes, u)), place(again, side, At(codes, u)), strict=True):
            assert one.tolist() == two.tolist()


@settings(max_examples=examples(20), deadline=None)
@given(routing_tables())
def test_pickle_round_trip(table):
    """A table travels to the tasks compiled, and is the same there."""
    again = pickle.loads(pickle.dumps(table))
    assert again == table
    assert again.digest == table.digest
    np.testing.assert_equal(again.compiled, table.compiled)


def test_the_digest_is_stable_between_processes_and_versions():
    """A literal: checkpoints name their tables by it."""
    table = RoutingTable(3, 2, 2, 1, (Region(Buckets((0,)), Biclique(((0,), (1,)))),), "hash", layout="split")
    assert table.digest == "780633c9"


def test_the_digest_tells_tables_apart():
    """Any difference in content is a different digest."""
    table = RoutingTable(0, 3, 2, 1, (Region(Buckets((0,)), Biclique(((0, 1), (1,)))),), "x")
    regions = (Region(Buckets((0,)), Biclique(((0, 1), (1,)), ((1, 2), (1,)))),)
    others = [
        replace(table, version=1),
        replace(table, instances=4),
        replace(table, origin="y"),
        replace(table, layout="split"),
        replace(table, program="tree"),
        replace(table, meeting="together"),
        replace(table, regions=regions),
        replace(table, regions=(*table.regions, Region(Keys((5,)), Biclique(((0,), (1,)))))),
    ]
    assert len({table.digest, *(t.digest for t in others)}) == 9


def test_a_change_is_a_new_version_and_no_change_is_the_same_object():
    """with_regions."""
    table = RoutingTable(4, 2, 2, 1, (Region(Buckets((0,)), Biclique(((0,), (1,)))),))
    assert table.with_regions(table.regions) is table
    changed = table.with_regions((*table.regions, Region(Keys((5,)), Biclique(((1,), (0,))))))
    assert changed.version == 5
    assert table.version == 4


def test_keys_leave_their_bucket():
    """A code with a region of its own is not where its bucket is; its neighbours stay."""
    low, high = in_bucket(0, 2), in_bucket(1, 2)
    table = RoutingTable(
        0, 4, 2, 2,
        (
            Region(Buckets((0,)), Biclique(((0,), (0,)))),
            Region(Buckets((1,)), Biclique(((1,), (1,)))),
            Region(Keys((low,)), Biclique(((3,), (2,)))),
        ),
    )  # fmt: skip
    check(table)
    assert targets(table, 0, low) == {3: S, 2: P}
    assert targets(table, 1, low) == {2: S, 3: P}
    assert targets(table, 0, high) == {1: B}
    other = next(c for c in range(1000) if c != low and bucket_of(np.array([c]), 2)[0] == 0)
    assert targets(table, 0, other) == {0: B}


def test_key_codes_at_the_ends_of_int64():
    """Regions of the least and the greatest code are found, and not taken for their neighbours."""
    low, high = -(2**63), 2**63 - 1
    regions = (Region(Buckets((0,)), Biclique(((0,), (0,)))), Region(Keys((high, low)), Biclique(((1,), (1,)))))
    table = check(RoutingTable(0, 2, 2, 1, regions))
    assert [targets(table, 0, c) for c in (low, high)] == [{1: B}] * 2
    assert [targets(table, 0, c) for c in (low + 1, 0, high - 1)] == [{0: B}] * 3


def test_biclique_stores_one_and_probes_all():
    """The example drawn in topology.py: R units on 0 and 1, S units on 2."""
    table = check(RoutingTable(0, 3, 2, 1, (Region(Buckets((0,)), Biclique(((0, 1), (2,)))),)))
    half = 2**31
    assert targets(table, 0, 7, u=half - 1) == {0: S, 2: P}
    assert targets(table, 0, 7, u=half) == {1: S, 2: P}
    assert targets(table, 1, 7, u=half) == {2: S, 0: P, 1: P}


def test_grid_stores_and_probes_a_line():
    """The example drawn in topology.py: 2 x 2 cells, side 0 takes a row, side 1 a column."""
    table = check(RoutingTable(0, 4, 2, 1, (Region(Buckets((0,)), Grid(2, 2, (0, 1, 2, 3))),)))
    half = 2**31
    assert [targets(table, 0, 7, u) for u in (0, half)] == [{0: B, 1: B}, {2: B, 3: B}]
    assert [targets(table, 1, 7, u) for u in (0, half)] == [{0: B, 2: B}, {1: B, 3: B}]


def test_three_sides():
    """A three-sided biclique: stored once on the own unit, probing those of both others, roles OR-ed."""
    table = check(RoutingTable(0, 3, 3, 1, (Region(Buckets((0,)), Biclique(((0,), (1,), (2,)))),)))
    assert targets(table, 1, 7) == {1: S, 0: P, 2: P}
    shared = check(RoutingTable(0, 1, 3, 1, (Region(Buckets((0,)), Biclique(((0,), (0,), (0,)))),)))
    assert targets(shared, 1, 7) == {0: B}


def test_weights_are_respected():
    """A split key's units take tuples in proportion to their weights, by the range of u."""
    topology = Biclique(((0, 1, 2), (0,)), ((1, 2, 5), (1,)))
    table = check(RoutingTable(0, 3, 2, 1, (Region(Buckets((0,)), topology),)))
    u = np.arange(0, 2**32, 2**16, dtype=np.uint64).astype(np.uint32)
    stored = place(table, 0, At(np.zeros(len(u), np.int64), u)).only(S)
    assert (np.bincount(stored.instance) / len(u)).tolist() == pytest.approx([1 / 8, 2 / 8, 5 / 8], abs=1e-4)
    assert stored.row.tolist() == list(range(len(u)))


@settings(max_examples=examples(30), deadline=None)
@given(routing_tables())
def test_stored_here_is_place_for_one_instance(table):
    """The mask of an instance says what the placement says."""
    codes, u = np.arange(-10, 10), np.arange(20, dtype=np.uint32) * np.uint32(2**27)
    for side in range(2):
        stored = place(table, side, At(codes, u)).only(S)
        for instance in range(table.instances):
            mask = stored_here(table, side, At(codes, u), instance)
            assert set(np.flatnonzero(mask).tolist()) == set(stored.row[stored.instance == instance].tolist())


def test_no_tuples():
    """Placing nothing is nothing."""
    table = RoutingTable(0, 3, 2, 1, (Region(Buckets((0,)), Biclique(((0, 1), (2,)))),))
    assert [len(a) for a in place(table, 0, At(np.zeros(0, np.int64), np.zeros(0, np.uint32)))] == [0, 0, 0]
