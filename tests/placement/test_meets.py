"""Groups that meet, and groups that do not: a Biclique probes only the units of the groups it meets."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.errors import TableError
from evenjoin.placement import At, Biclique, Buckets, Region, Role, RoutingTable, check, place
from evenjoin.strategies.edit import Edit
from thorough import examples

TREE = ((0, 1), (2, 3))
"""R and S meet, and so do T and the pairs of R and S."""


def table(meets, *topologies, groups=4, instances=4, stated=None):
    regions = tuple(Region(Buckets((n,)), one) for n, one in enumerate(topologies))
    stated = meets if stated is None else stated
    return RoutingTable(0, instances, groups, len(regions), regions, meets=stated)


@st.composite
def met_tables(draw):
    """A table of bicliques over three or four groups, any pairs of which meet."""
    groups, instances = draw(st.integers(3, 4)), draw(st.integers(1, 5))
    units = st.lists(st.integers(0, instances - 1), min_size=1, max_size=instances, unique=True).map(tuple)
    pairs = list(combinations(range(groups), 2))
    meets = draw(st.one_of(st.none(), st.lists(st.sampled_from(pairs), unique=True).map(lambda m: tuple(sorted(m)))))
    topologies = [
        Biclique(tuple(draw(units) for _ in range(groups)), None, meets) for _ in range(draw(st.integers(1, 3)))
    ]
    return table(meets, *topologies, groups=groups, instances=instances)


@settings(max_examples=examples(200), deadline=None)
@given(met_tables(), st.integers(0, 2**32))
def test_pairs_of_groups_that_meet_meet_once(drawn, seed):
    """Whichever tuple comes first. `check` accepts every such table, and JSON brings it back."""
    check(drawn)
    assert RoutingTable.from_json(json.loads(json.dumps(drawn.to_json()))) == drawn
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(6), 3)
    where = [
        place(drawn, group, At(codes, rng.integers(0, 2**32, 18, dtype=np.uint32))) for group in range(drawn.groups)
    ]
    roles = [[{} for _ in codes] for _ in where]
    for group, placed in enumerate(where):
        for row, instance, role in zip(*(column.tolist() for column in placed), strict=True):
            roles[group][row][instance] = role
        assert all(sum(role & Role.STORE for role in one.values()) == 1 for one in roles[group])
    for a, b in combinations(range(drawn.groups), 2) if drawn.meets is None else drawn.meets:
        for one, x in zip(roles[a], codes, strict=True):
            for two, y in zip(roles[b], codes, strict=True):
                if x == y:
                    shared = one.keys() & two.keys()
                    assert sum(one[i] & 1 and two[i] & 2 for i in shared if one[i] & 1 and two[i] & 2) // 2 == 1
                    assert sum(one[i] & 2 and two[i] & 1 for i in shared if one[i] & 2 and two[i] & 1) == 1


def test_tree():
    """r is sent to S only, t to the pairs only: 1 + 1 messages each, where all four groups would make it 4."""
    tree = check(table(TREE, Biclique(((0,), (1,), (2,), (3,)), None, TREE)))
    every = check(table(None, Biclique(((0,), (1,), (2,), (3,)))))
    at = At(np.array([5]), np.zeros(1, np.uint32))
    assert [place(tree, group, at).instance.tolist() for group in range(4)] == [[0, 1], [1, 0], [2, 3], [3, 2]]
    assert [len(place(every, group, at).row) for group in range(4)] == [4] * 4


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (table(TREE, Biclique(((0,), (1,), (2,), (3,)))), "meet in it"),
        (table(None, Biclique(((0,), (1,), (2,), (3,)), None, TREE), stated=None), "meet in it"),
        (table(TREE, Biclique(((0,), (1,), (2,), (3,)), None, TREE), stated=((0, 1), (1, 2))), "meet in it"),
        (table(((0, 4),), Biclique(((0,), (1,), (2,), (3,)), None, ((0, 4),))), "is no pair of two of the 4 groups"),
        (table(((1, 0),), Biclique(((0,), (1,), (2,), (3,)), None, ((1, 0),))), "is no pair of two of the 4 groups"),
        (table(None, Biclique(((0,), (1,), (2,)))), "units of 3 groups, the table has 4"),
        (table(None, Biclique(((0,), (1,), (2,), (3,)), None, tuple(combinations(range(4), 2)))), None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_biclique_that_lets_others_meet_is_refused(broken, says):
    """The engine states who meets; all pairs, written out, are the same as None."""
    if says is None:
        assert check(broken) is broken
    else:
        with pytest.raises(TableError, match=says):
            check(broken)


def test_an_edit_keeps_who_meets():
    """A key that moves meets the same groups as before."""
    edit = Edit(table(TREE, Biclique(((0,), (1,), (2,), (3,)), None, TREE)))
    edit.move_key(7, side=0, to=(3,))
    assert {region.topology.meets for region in check(edit.table()).regions} == {TREE}
