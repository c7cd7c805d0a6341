"""Joins of three and four sides of 20,000 rows each, as DuckDB answers them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import evenjoin
import oracle

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

COUNT, VALUES, BATCHES = 20_000, 9_000, 4
SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.int64()), ("n", pa.string()), ("ts", pa.int64())])
CLASS = "r.a = s.a AND s.a = t.a AND r.b <> t.b"
CHAIN = "r.a = s.a AND s.n = t.n AND t.ts BETWEEN s.ts - 8000 AND s.ts + 2000"
CYCLE = "r.a = s.a AND s.n = t.n AND abs(r.b - t.a) <= 20"
BAND = "r.a = s.a AND t.b BETWEEN s.b - 1 AND s.b + 1 AND r.b <> t.a"
STAR = "r.a = s.a AND r.n = t.n AND r.b = q.b AND s.ts + t.ts > q.ts"
RUNS = [
    ("rst", CLASS, "hash", "shared", 4),
    ("rst", CLASS, "trijoin", "shared", 3),
    ("rst", CHAIN, "hypercube", "shared", 4),
    ("rst", CHAIN, "trijoin", "split", 4),
    ("rst", CHAIN, "trijoin(packing=paired, forward=t)", "split", 3),
    ("rst", CHAIN, "tree", "split", 4),
    ("rst", CYCLE, "hypercube", "shared", 8),
    ("rst", CYCLE, "trijoin", "split", 3),
    ("rst", CYCLE, "tree(last=r)", "split", 5),
    ("rst", BAND, "hypercube", "shared", 6),
    ("rst", BAND, "trijoin", "split", 3),
    ("rstq", STAR, "hypercube", "shared", 8),
]


def tables(names: str, seed: int) -> dict[str, pa.Table]:
    """Random rows. A few keys are hot, and some are NULL."""
    rng, out = np.random.default_rng(seed), {}
    for name in names:
        a, b, n = (np.where(rng.random(COUNT) < 0.002, 7, rng.integers(0, VALUES, COUNT)) for _ in range(3))
        keys = [pa.array(key, mask=rng.random(COUNT) < 0.01) for key in (a, b, n)]
        columns = [np.arange(COUNT), *keys[:2], pc.cast(keys[2], pa.string()), times_of(rng)]
        out[name] = pa.table(columns, schema=SCHEMA)
    return out


def times_of(rng: Any) -> Any:
    """Times in any order within a batch, and later than all of the batch before."""
    return np.concatenate([rng.permutation(part) for part in np.split(np.arange(COUNT), BATCHES)])


@pytest.fixture(scope="module")
def answers() -> dict[tuple[str, str], Any]:
    return {}


@pytest.mark.parametrize(("names", "on", "strategy", "layout", "instances"), RUNS)
def test_the_answer_is_duckdbs(names, on, strategy, layout, instances, answers):
    """Every result once, whatever the strategy; four batches, and a watermark that makes no row late."""
    data, select = tables(names, 11), [f"{name}.id AS {name}" for name in names]
    if (names, on) not in answers:
        answers[names, on] = in_order(oracle.joined(data, on, select))
    options = {"strategy": strategy, "layout": layout, "instances": instances, "select": select, "event_time": "ts"}
    with evenjoin.local(dict.fromkeys(names, SCHEMA), on, watermark=0, **options) as join:
        step = COUNT // BATCHES
        parts = [{name: table.slice(n * step, step) for name, table in data.items()} for n in range(BATCHES)]
        found = in_order(pa.concat_tables([join.process(part) for part in parts]))
        assert join.progress().total.late == (0,) * len(names)
    assert found.num_rows > 200
    assert found.equals(answers[names, on])


def in_order(table: pa.Table) -> pa.Table:
    """The rows sorted, with columns that may be NULL."""
    plain = pa.schema([(field.name, pa.int64()) for field in table.schema])
    return table.cast(plain).sort_by([(name, "ascending") for name in table.schema.names]).combine_chunks()
