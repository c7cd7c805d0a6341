"""The cost model is fitted to the same counts that it is asked about."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.load.cost import features, seen_in
from evenjoin.load.items import items_of

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])


@pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")
@pytest.mark.parametrize("condition", ["l.k = r.k", "l.k = r.k AND (l.v + r.v) % 100 = 0"])
def test_what_is_seen_is_counted_as_what_is_forecast(condition: str) -> None:
    """Pairs that a predicate sorts out are work as well. If the fit counted results and the forecast pairs, a task that
    took a second would be forecast to take minutes."""
    rng = np.random.default_rng(3)
    keys = np.where(rng.random((2, 2_000)) < 0.3, 7, rng.integers(0, 500, (2, 2_000)))
    rows = [pa.table([k, rng.integers(0, 1_000, 2_000)], schema=SCHEMA) for k in keys]
    with evenjoin.local({"l": SCHEMA, "r": SCHEMA}, condition, strategy="auto", instances=4) as join:
        table = join.table()
        join.process({"l": rows[0], "r": rows[1]})
        report = join.load()
    assert report is not None
    seen = seen_in(report, items_of(report, table), table)
    np.testing.assert_allclose(seen.features, features(items_of(report, table), table))
    pairs = np.bincount(keys[0], minlength=500) @ np.bincount(keys[1], minlength=500)
    assert seen.features[:, 3].sum() == pytest.approx(pairs)
    assert seen.features[:, 2].sum() == 4_000
    assert seen.took_ms.tolist() == [load.elapsed_ms for load in report.instances]
