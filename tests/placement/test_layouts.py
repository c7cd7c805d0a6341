"""The initial tables of the named strategies in both layouts, as literals, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from evenjoin.errors import SpecError
from evenjoin.placement import At, Biclique, Buckets, check, place
from evenjoin.strategies import ContRand, Hash, Random, resolve, strategies


def units(table):
    """Per bucket the units of each side."""
    assert all(isinstance(region.takes, Buckets) and isinstance(region.topology, Biclique) for region in table.regions)
    return {region.takes.ids: region.topology.units for region in table.regions}


TABLES = [
    (Hash(), 2, "shared", {(0, 1, 2, 3): ((0,), (0,)), (4, 5, 6, 7): ((1,), (1,))}),
    (Hash(), 1, "shared", {(0, 1, 2, 3): ((0,), (0,))}),
    (Hash(), 4, "split", {(0, 1, 2, 3): ((0,), (2,)), (4, 5, 6, 7): ((1,), (3,))}),
    (Hash(), 2, "split", {(0, 1, 2, 3): ((0,), (1,))}),
    (
        Hash(), 5, "split",  # two units for side 0, three for side 1: buckets for both to divide evenly
        {
            (0, 1, 2, 3): ((0,), (2,)), (4, 5): ((0,), (3,)),
            (6, 7): ((1,), (3,)), (8, 9, 10, 11): ((1,), (4,)),
        },
    ),
    (Random(), 3, "shared", {(0,): ((0, 1, 2), (0, 1, 2))}),
    (Random(), 3, "split", {(0,): ((0, 1), (2,))}),
    (ContRand(2), 5, "shared", {(0,): ((0, 2, 4), (0, 2, 4)), (1,): ((1, 3), (1, 3))}),
    (ContRand(2), 4, "split", {(0,): ((0,), (2,)), (1,): ((1,), (3,))}),
    (ContRand(1), 2, "split", {(0,): ((0,), (1,))}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("strategy", "instances", "layout", "expected"),
    TABLES,
    ids=[f"{strategy.origin} on {instances} {layout}" for strategy, instances, layout, _ in TABLES],
)
def test_initial_table(strategy, instances, layout, expected):
    """Which units each bucket has; the table is complete, and nothing is planned."""
    table = check(strategy.initial(instances, 2, layout))
    assert units(table) == expected
    assert (table.version, table.instances, table.buckets) == (0, instances, sum(map(len, expected)))
    assert (table.origin, table.layout) == (strategy.origin, layout)
    assert strategy.plan(None, None, table) is None


@pytest.mark.parametrize("instances", range(2, 12))
def test_split_layouts_share_no_instance_between_sides(instances):
    """In layout split the sides' instances are disjoint, and every instance has work."""
    for strategy in (Hash(), Random(), ContRand(1)):
        sides = [set(), set()]
        for both in units(strategy.initial(instances, 2, "split")).values():
            for side, used in enumerate(both):
                sides[side] |= set(used)
        assert not sides[0] & sides[1]
        assert sides[0] | sides[1] == set(range(instances))


def test_three_sides_split():
    """Three groups of instances."""
    assert units(Random().initial(7, 3, "split")) == {(0,): ((0, 1), (2, 3, 4), (5, 6))}


@pytest.mark.parametrize(
    ("strategy", "instances", "layout", "says"),
    [
        (ContRand(3), 2, "shared", r"contrand\(groups=3\): between 1 and 2 groups fit on 2 instances"),
        (ContRand(3), 4, "split", "between 1 and 2 groups fit on 4 instances"),
        (ContRand(0), 4, "shared", "between 1 and 4 groups"),
        (Hash(), 1, "split", "at least one instance per side: 2, got 1"),
        (Random(), 1, "split", "at least one instance per side"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(strategy, instances, layout, says):
    """Before anything runs, with the numbers that would fit."""
    with pytest.raises(SpecError, match=says):
        strategy.initial(instances, 2, layout)


def test_names_resolve_to_values():
    """A name with settings is the value written out; a value is itself."""
    assert resolve("hash") == Hash()
    assert resolve(" contrand( groups = 6 ) ") == ContRand(6)
    assert resolve("contrand") == ContRand()
    value = Random()
    assert resolve(value) is value
    assert set(strategies()) >= {"hash", "random", "contrand"}


@pytest.mark.parametrize(
    ("strategy", "says"),
    [
        ("hsah", "unknown strategy 'hsah'; known: .*hash"),
        ("hash(", "unknown strategy"),
        ("contrand(6)", "name=value"),
        ("contrand(group=6)", "group"),
        ("hash(groups=2)", "groups"),
        ("contrand(groups=many)", "groups"),
        ("contrand(groups=2.5)", "groups"),
        (7, "a name or a Strategy, not int"),
        (Hash, "a name or a Strategy"),
    ],
    ids=str,
)
def test_what_is_not_a_strategy_is_refused(strategy, says):
    """With the names that exist, or the setting that does not."""
    with pytest.raises(SpecError, match=says):
        resolve(strategy).initial(4, 2, "shared")


@pytest.mark.parametrize("layout", ["shared", "split"])
@pytest.mark.parametrize("instances", [2, 3, 5, 8])
def test_keyed_strategies_start_from_the_same_places(instances, layout):
    """Whatever their number of buckets: a checkpoint that goes on under another of them moves nothing."""
    codes, u = np.arange(-3000, 3000), np.zeros(6000, np.uint32)
    names = ("hash", "fastjoin", "djb", "djb(buckets=50)", "lsstream", "lsstream(partitions=300)", "readj")
    tables = [check(resolve(name).initial(instances, 2, layout)) for name in names]
    assert len({table.buckets for table in tables}) > 1
    for side in (0, 1):
        places = [place(table, side, At(codes, u)) for table in tables]
        for other in places[1:]:
            assert all(np.array_equal(one, two) for one, two in zip(places[0], other, strict=True))


@pytest.mark.parametrize("layout", ["shared", "split"])
@pytest.mark.parametrize("name", strategies())
def test_a_table_knows_its_layout_and_who_made_it(name, layout):
    """As fields of their own, for every strategy."""
    strategy = resolve(name)
    if (name, layout) == ("auto", "split"):
        with pytest.raises(SpecError, match="layout must be 'shared'"):
            strategy.initial(4, 2, layout)
        return
    own = name in ("tree", "trijoin")  # these join three sides, by programs of their own
    made = strategy.initial(4, 3 if own else 2, layout)
    assert (made.origin, made.layout, made.program, made.title) == (
        strategy.origin, layout, name if own else "direct", f"{strategy.origin}/{layout} on 4",
    )  # fmt: skip
