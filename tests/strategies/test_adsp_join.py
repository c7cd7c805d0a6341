"""Joins that live through changes of scheme: the results are those of a brute-force join, whatever moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.load.items import items_of
from evenjoin.load.report import LoadReport
from evenjoin.load.samples import merge_samples
from evenjoin.placement import Reach
from evenjoin.strategies import Adsp, Dynamic, Square
from evenjoin.testing import Fixed, brute_force, multiset

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64())])


def stream(seed, rows, low, high):
    keys = np.random.default_rng(seed).integers(low, high, rows)
    return pa.table({"id": np.arange(rows) + seed * 10_000, "k": keys}, schema=SCHEMA)


def growing():
    """Eight batches; side r grows faster, and later keys are ones nobody has seen."""
    return [
        {"l": stream(2 * b, 20, 20 * b, 20 * b + 200), "r": stream(2 * b + 1, 10 + 5 * b, 20 * b, 20 * b + 200)}
        for b in range(8)
    ]


def joined(join, batches):
    found = [join.process(batch) for batch in batches]
    whole = {alias: pa.concat_tables(batch[alias] for batch in batches) for alias in ("l", "r")}
    return multiset(pa.concat_tables(found)), brute_force(join._spec, whole)


CONDITIONS = {"l.k = r.k": Reach(0, 0), "r.k BETWEEN l.k - 3 AND l.k + 3": Reach(-3, 3), "l.k < r.k": Reach(1, None)}


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("strategy", [Adsp(60), Square(60), Dynamic(120)], ids=lambda s: s.origin)
def test_the_scheme_grows_with_the_data(condition, strategy):
    """Tasks are added as their capacity is used up, and the state follows."""
    with evenjoin.local(
        {"l": SCHEMA, "r": SCHEMA}, on=condition, select=["l.id AS a", "r.id AS b"], strategy=strategy.origin,
        instances="auto", scaling=evenjoin.Scaling(strategy.task_capacity), guards=evenjoin.Guards(cooldown=0),
    ) as join:  # fmt: skip
        found, expected = joined(join, growing())
        assert found == expected
        assert join.migrations()
        assert join.table().instances > 4


@pytest.mark.parametrize("condition", CONDITIONS)
def test_areas_change_under_a_join(condition):
    """The tables A-DSP makes of each batch's tuples alive, used one after the other: areas, varietal grids, aligned
    divisions and another number of tasks each time; fewer at the end."""
    strategy, batches = Adsp(task_capacity=60), growing()
    table = replace(strategy.initial(2, 2, "shared"), reach=CONDITIONS[condition])
    tables, alive = [table], ([], [])
    for number in range(1, len(batches)):
        for side, alias in enumerate("lr"):
            alive[side].extend(batches[number - 1][alias]["k"].to_pylist())
        some = alive if number < len(batches) - 1 else [side[::9] for side in alive]
        samples = tuple(merge_samples((), tuple((code, 1.0) for code in side)) for side in some)
        report = LoadReport(number, (), (), (), (), samples=samples)
        made = strategy.plan(report, items_of(report, table), table)
        table = made if made is not None else table
        tables.append(replace(table, version=number))
    assert any(t.ranged for t in tables)
    assert len({t.instances for t in tables}) > 3
    with evenjoin.local(
        {"l": SCHEMA, "r": SCHEMA}, on=condition, select=["l.id AS a", "r.id AS b"], strategy=Fixed(tuple(tables)),
        instances=2,
    ) as join:  # fmt: skip
        found, expected = joined(join, batches)
        assert found == expected
