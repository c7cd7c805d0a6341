"""ContRand sizes itself: a subgroup grows and shrinks by its own state, and no key changes its subgroup."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.load.items import items_of
from evenjoin.load.report import InstanceLoad, LoadReport
from evenjoin.placement import check
from evenjoin.spec import build_spec
from evenjoin.strategies import resolve
from evenjoin.strategies.elastic import Scaling, elastic
from evenjoin.testing import brute_force, multiset

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("t", pa.int64())])
SCHEMAS, SELECT = {"l": SCHEMA, "r": SCHEMA}, ["l.id AS a", "r.id AS b"]
ON = "l.k = r.k AND r.t BETWEEN l.t - 5 AND l.t + 5"


def planned(strategy, table, stored):
    """The next table when instances store so many tuples (both sides alike); the members of its subgroups."""
    loads = tuple(InstanceLoad(i, (n / 2, n / 2), (0, 0), (0, 0), 0, 0.0) for i, n in enumerate(stored))
    report = LoadReport(0, loads, (), (), ())
    items = items_of(report, table)
    made = strategy.plan(report, items, table) if strategy.imbalance(items, table) > strategy.alert else None
    made = table if made is None else check(made)
    return made, [region.topology.units[0] for region in made.regions]


def test_one_subgroup_grows_and_shrinks():
    """V = 100, members filled to 65. Group 0 has 190 tuples: three members. Group 1 has 60 and is left alone. Later
    group 0 has 60 altogether: one member is left, and instance 1 goes on as it is."""
    strategy = elastic(resolve("contrand(groups=2)"), Scaling(100))
    table = strategy.initial(1, 2, "shared")
    assert table.instances == 2
    grown, members = planned(strategy, table, [190, 60])
    assert members == [(0, 2, 3), (1,)]
    assert planned(strategy, grown, [64, 60, 63, 63])[0] is grown
    assert planned(strategy, grown, [20, 60, 20, 20])[1] == [(0,), (1,)]


def test_members_that_stay_keep_their_state_under_a_free_number():
    """Group 1 on 1, 4 and 5 stays; groups 0 and 2 lose members 3 and 6: five instances, and 5 becomes 3."""
    strategy = elastic(resolve("contrand(groups=3)"), Scaling(100))
    table = strategy.initial(3, 2, "shared")
    table, members = planned(strategy, table, [120, 180, 60])
    assert members == [(0, 3), (1, 4, 5), (2,)]
    table, members = planned(strategy, table, [30, 60, 60, 30, 60, 60])
    assert members == [(0,), (1, 4, 3), (2,)]
    assert table.follows.of == (0, 1, 2, 5, 4)


def test_no_more_than_there_may_be():
    """Five instances for what wants three and three: the subgroup that is less full gets fewer."""
    strategy = elastic(resolve("contrand(groups=2)"), Scaling(100, max_instances=5))
    table, members = planned(strategy, strategy.initial(2, 2, "shared"), [190, 150])
    assert [len(some) for some in members] == [3, 2]
    assert table.instances == 5


def test_fewer_may_be_had_than_there_are_subgroups():
    """Three subgroups and two instances at most: each keeps one member, whatever it stores."""
    grown = elastic(resolve("contrand(groups=3)"), Scaling(100))
    table, _ = planned(grown, grown.initial(3, 2, "shared"), [190, 60, 60])
    strict = elastic(resolve("contrand(groups=3)"), Scaling(100, max_instances=2))
    assert planned(strict, table, [20, 60, 60, 20, 20])[1] == [(0,), (1,), (2,)]
    assert strict.initial(1, 2, "shared").instances == 3


def test_a_subgroup_grows_for_its_fullest_member():
    """Members with 85 and 65 tuples of V = 100: the first is above 80 %, though both together are not. Where one member
    less would be too full, or one more would not help, nothing is called for."""
    strategy = elastic(resolve("contrand(groups=2)"), Scaling(100))
    table, members = planned(strategy, strategy.initial(2, 2, "shared"), [120, 60])
    assert members == [(0, 2), (1,)]
    assert planned(strategy, table, [85, 60, 65])[1] == [(0, 2, 3), (1,)]
    for stored in ([45, 60, 45], [85, 60, 45]):
        report = LoadReport(
            0, tuple(InstanceLoad(i, (n, 0), (0, 0), (0, 0), 0, 0.0) for i, n in enumerate(stored)), (), (), ()
        )
        assert strategy.imbalance(items_of(report, table), table) <= strategy.alert


@pytest.mark.parametrize("layout", ["shared", "split"])
def test_a_skewed_join_grows_in_its_hot_subgroup(layout):
    """Half of all rows have one key; then there are few rows. The brute-force join, more members for the hot subgroup
    than for others, and fewer again."""
    found, sizes, some, first = Counter(), [], [], 0
    rng = np.random.default_rng(5)
    for number, rows in enumerate([20, 60, 60, 60, 10, 10, 10]):
        keys = np.where(rng.random(rows) < 0.5, 7, rng.integers(0, 40, rows))
        columns = [range(first, first + rows), keys, [number * 4] * rows]
        some.append({alias: pa.table(columns, schema=SCHEMA) for alias in "lr"})
        first += rows
    options = {"event_time": "t", "watermark": 0, "select": SELECT}
    with evenjoin.local(
        SCHEMAS, ON, strategy="contrand(groups=3)", instances="auto", layout=layout, scaling=Scaling(60),
        guards=evenjoin.Guards(cooldown=0, min_work=0), **options,
    ) as join:  # fmt: skip
        for batch in some:
            found += multiset(join.process(batch))
            sizes.append(sorted(len(region.topology.units[0]) for region in join.table().regions))
    whole = {a: pa.concat_tables(batch[a] for batch in some) for a in "lr"}
    assert found == brute_force(build_spec(SCHEMAS, ON, **options), whole)
    assert max(largest - smallest for smallest, _, largest in sizes) >= 1
    assert sum(sizes[-1]) < max(map(sum, sizes))
