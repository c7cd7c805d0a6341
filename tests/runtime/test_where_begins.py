"""Whether the first batch of a query will run on the executors, as far as that is known before it comes."""

from __future__ import annotations

import pytest

from evenjoin.runtime.spark.where import ON_CLUSTER, Size, Where


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
