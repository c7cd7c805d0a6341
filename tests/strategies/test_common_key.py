"""Every planner on skewed joins of three and four sides with a common key: DuckDB's results, and a more even load."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.errors import SpecError
from evenjoin.load.items import items_of, work_by_instance
from evenjoin.placement import check
from evenjoin.placement.place import bucket_of
from evenjoin.placement.topology import Cube
from evenjoin.strategies.base import resolve
from evenjoin.testing import multiset
from strategies.counted import together
from strategies.many_sides import answer, equal_keys, ids, schemas, skewed

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

PLANNERS = ["fastjoin(theta=1.3)", "fastjoin(theta=1.3, selector=safit)", "djb", "lsstream(alpha=0.3)", "readj"]
EAGER = evenjoin.Guards(cooldown=0, min_gain=0, min_work=0)


def on_first(count, instances=4, keys=200):
    """Codes that the hash table puts on instance 0."""
    codes = np.arange(keys)
    return codes[bucket_of(codes, instances) == 0][:count].tolist()


@pytest.mark.parametrize(("sides", "rows"), [(3, 40), (4, 18)])
@pytest.mark.parametrize("strategy", PLANNERS)
def test_a_skewed_join_is_rebalanced(strategy, sides, rows):
    """The hottest keys all start on one instance. Some move; by the planner's own measure the load of the last batch is
    more even than under the table that the join began with; and no result is lost or repeated."""
    parts = skewed(sides, [rows] * 6, keys=80, exponent=0.8, hot=on_first(8, keys=80))
    condition = equal_keys(sides)
    with evenjoin.local(
        schemas(sides), condition, select=ids(sides), strategy=strategy, instances=4, guards=EAGER
    ) as join:
        results = pa.concat_tables([join.process(part) for part in parts])
        made, report = join.migrations(), join.load()
        table = join._driver.table_named(join._driver.last.table)
    assert multiset(results) == answer(condition, parts)
    assert any(event.why == "imbalance" and event.tuples > 0 for event in made)
    planner, items = resolve(strategy), items_of(report, table)
    began = together(planner.initial(4, sides, "shared"))
    assert planner.imbalance(items, table) < planner.imbalance(items, began)
    check(table)
    assert table.meeting == "together"


@pytest.mark.parametrize(("sides", "rows"), [(3, 14), (4, 7)])
def test_a_key_too_big_for_one_instance_is_divided(sides, rows):
    """Half of all rows have key 3. D-JB divides it by one side and copies the others; no other planner could make the
    heaviest instance lighter than that key."""
    parts = skewed(sides, [rows] * 5, keys=40, exponent=2.0, hot=[3])
    condition = equal_keys(sides)
    with evenjoin.local(
        schemas(sides), condition, select=ids(sides), strategy="djb", instances=4, guards=EAGER
    ) as join:
        results = pa.concat_tables([join.process(part) for part in parts])
        report, table = join.load(), join._driver.table_named(join._driver.last.table)
    assert multiset(results) == answer(condition, parts)
    cubes = [region for region in table.regions if isinstance(region.topology, Cube)]
    assert 3 in {code for region in cubes for code in region.takes.codes}
    items = items_of(report, table)
    assert items.arrived.sum(axis=1).tolist() == [rows] * sides
    assert items.stored.sum(axis=1).tolist() == [5 * rows] * sides
    whole = work_by_instance(items, together(resolve("djb").initial(4, sides, "shared")))
    assert work_by_instance(items, table).max() < 0.6 * whole.max()
    found = [load.matches for load in report.instances]
    assert max(found) < 0.95 * sum(found)  # which cell a tuple is in is chance, and there are few


@pytest.mark.parametrize("strategy", ["hash", "fastjoin", "djb", "lsstream", "readj"])
@pytest.mark.parametrize("sides", [3, 4])
def test_scales_out_and_in(strategy, sides):
    """The number of instances follows the state up and down again; the tables keep all sides together."""
    sizes, results = [], []
    parts = skewed(sides, {3: (20, 20, 120, 120, 20, 20, 20, 20), 4: (12, 12, 70, 70, 12, 12, 12, 12)}[sides])
    condition = equal_keys(sides, span=5)
    with evenjoin.local(
        schemas(sides), condition, select=ids(sides), event_time="t", watermark=0, strategy=strategy, instances="auto",
        scaling=evenjoin.Scaling(100, max_instances=8), guards=EAGER,
    ) as join:  # fmt: skip
        for part in parts:
            results.append(join.process(part))
            sizes.append(join.table().instances)
            assert check(join.table()).meeting == "together"
    assert multiset(pa.concat_tables(results)) == answer(condition, parts)
    assert max(sizes) > sizes[0]
    assert sizes[-1] < max(sizes)


@pytest.mark.parametrize("strategy", ["adsp", "dynamic", "square", "contrand", "random"])
@pytest.mark.parametrize("layout", ["shared", "split"])
def test_strategies_that_keep_sides_apart_are_refused(strategy, layout):
    """And the message names those that work."""
    with pytest.raises(SpecError, match=r"use one of: .*djb, fastjoin, hash, .*lsstream, readj"):
        evenjoin.local(schemas(3), equal_keys(3), select=ids(3), strategy=strategy, instances=8, layout=layout)


@pytest.mark.parametrize("strategy", [None, "hash", "djb", "lsstream", "fastjoin", "readj"])
@pytest.mark.parametrize("instances", [2, 6])
def test_layout_split_is_refused(strategy, instances):
    """With the layout that works; also where there would be too few instances for each side to have one."""
    with pytest.raises(SpecError, match=r"3 sides .*use layout='shared'"):
        evenjoin.local(schemas(3), equal_keys(3), select=ids(3), strategy=strategy, instances=instances, layout="split")


@pytest.mark.parametrize("strategy", ["trijoin", "tree"])
def test_programs_that_need_pairs_may_be_split(strategy):
    """There layout 'split' is not what is wrong, and the message says what is."""
    with pytest.raises(SpecError, match=r"at least one instance per") as refused:
        evenjoin.local(schemas(3), equal_keys(3), select=ids(3), strategy=strategy, instances=2, layout="split")
    assert "layout='shared'" not in str(refused.value)


def test_a_single_instance_has_everything_together():
    """There ContRand and random are right as well."""
    parts = skewed(3, [20, 20])
    for strategy in ("random", "contrand(groups=1)"):
        with evenjoin.local(schemas(3), equal_keys(3), select=ids(3), strategy=strategy, instances=1) as join:
            results = pa.concat_tables([join.process(part) for part in parts])
        assert multiset(results) == answer(equal_keys(3), parts)
