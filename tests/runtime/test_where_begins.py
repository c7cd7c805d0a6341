"""Where batches run: the first one as far as that is known before it comes, later ones by what the last ones met."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from evenjoin.runtime.spark.where import ON_CLUSTER, RECENT, Size, Where, on_local_master
from evenjoin.state.manifest import Manifest


@pytest.mark.parametrize(
    ("execution", "hindrance", "rows", "begins"),
    [
        ("executors", "", 0, True),
        ("driver", "", 10**9, False),
        ("driver", "a type", 0, True),
        ("auto", "", 0, False),
        ("auto", "a type", 0, True),
        ("auto", "", ON_CLUSTER.rows, False),
        ("auto", "", ON_CLUSTER.rows + 1, True),
    ],
)
def test_where_a_query_begins(execution, hindrance, rows, begins):
    """What was asked for, what the driver cannot do, and the size of the last batches before a restart."""
    where = Where(execution, ON_CLUSTER, hindrance)
    if rows:
        where._recent.append((Size(rows), 0))
    assert where.begins_on_executors == begins


def ran(where, rows, results):
    """A batch of so many rows and results is given to whom `where` chooses, and committed. Returns the place."""
    choice = where.choose(Manifest(), lambda: None)
    load = SimpleNamespace(sent_bytes=(0,))
    report = SimpleNamespace(instances=[load], intake=[SimpleNamespace(rows=rows)], matches=results)
    where.ran(choice, SimpleNamespace(report=report))
    return choice.place


@pytest.mark.parametrize("execution", ["auto", "driver"])
@pytest.mark.parametrize("met", [600, 0])
def test_a_limit_that_was_met_is_kept(execution, met):
    """The driver had taken 600 results of 1000 when they became too many, or could not collect the rows. Batches like
    that one go to the executors at once, until RECENT batches were smaller."""
    where = Where(execution, on_local_master(1 << 40))
    assert ran(where, 100, 10) == "driver"
    where.gave_up(met)
    assert [ran(where, 100, 1000) for _ in range(RECENT + 2)] == ["driver", *["executors"] * (RECENT + 1)]
    assert [ran(where, 50, 500) for _ in range(RECENT + 1)] == [*["executors"] * RECENT, "driver"]
    ran(where, 100, 1000)
    assert ran(where, 100, 1000) == "executors"


def test_spark_is_told_to_stop_where_nothing_else_bounds_the_rows():
    """The limit costs time: on a local master it is left out once batches are known to be far below it. If Spark lets
    the driver collect any number of bytes it stays, for no more rows than fit."""
    limits = on_local_master(16 << 30)
    cluster = Where("auto", ON_CLUSTER)
    ran(cluster, 100, 0)
    assert cluster.most(100) == (ON_CLUSTER.rows, ON_CLUSTER.bytes, "limit")
    where = Where("auto", limits)
    assert where.most(100) == (limits.rows, limits.bytes, "limit")
    ran(where, limits.rows // 8, 0)
    assert where.most(100) == (limits.rows, limits.bytes, "count")
    ran(where, limits.rows // 8 + 1, 0)
    assert where.most(100) == (limits.rows, limits.bytes, "limit")
    free = Where("auto", limits, collectable=0)
    assert free.most(1) == (limits.rows, limits.bytes, "limit")
    assert free.most(1000) == (limits.bytes // 1000, limits.bytes, "limit")
    free._recent.append((Size(10, 20_000), 0))
    assert free.most(1).rows == limits.bytes // 2000
    assert Where("driver", limits, collectable=0).most(1).by == "count"
