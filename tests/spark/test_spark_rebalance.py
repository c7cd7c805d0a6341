"""Rebalances on real Spark: seeded runs with a migration after every batch, in which a worker is killed, give the batch
join's results."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from capricious import EAGER, Capricious
from evenjoin.spec import build_spec
from evenjoin.testing import Hooks, brute_force, multiset
from spark_streams import Collected, read_stream, write_batches

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")]

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.string())])
SCHEMAS = {"l": SCHEMA, "r": SCHEMA}
SELECT = ["l.id AS a", "r.id AS b", "r.k"]


def streams(folder, seed, batches=3, rows=60):
    """Skewed keys of which some are NULL; the whole input."""
    rng = np.random.default_rng(seed)
    whole = {}
    for alias in "lr":
        keys = rng.zipf(1.4, batches * rows) % 20
        names = [None if k == 7 else f"key-{k}" for k in keys]
        whole[alias] = pa.table([range(len(keys)), names], schema=SCHEMA)
        write_batches(folder / alias, [whole[alias].slice(b * rows, rows) for b in range(batches)])
    return whole


@pytest.mark.parametrize("seed", range(12))
def test_a_migration_after_every_batch(spark, tmp_path, seed):
    """Whichever planner, shared or split, on as many instances as it happens to be; and the worker of the first donor
    that gets so far dies among its copies, once."""
    whole = streams(tmp_path, seed)
    seen = Collected()
    instances, died = 2 + seed % 3, tmp_path / "died"

    def dies(step, instance):
        if step == "moved" and not died.exists():
            died.touch()
            os._exit(37)

    names = tuple(np.random.default_rng(seed).choice(EAGER, 2).tolist())
    joined = evenjoin.join(
        {alias: read_stream(spark, tmp_path / alias, SCHEMA) for alias in "lr"},
        on="l.k = r.k",
        select=SELECT,
        strategy=Capricious(names, seed),
        instances=instances,
        layout="split" if seed % 2 else "shared",
        track=16,
        execution="executors",
        hooks=Hooks(worker_step=dies),
    )
    writer = joined.writeStream.foreachBatch(seen).option("checkpointLocation", str(tmp_path / "ck"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    found = multiset(pa.concat_tables(seen.batches.values()))
    assert found == brute_force(build_spec(SCHEMAS, "l.k = r.k", select=SELECT), whole)
    assert died.exists()
    assert len(query.migrations()) == 2
    assert sum(event.tuples for event in query.migrations()) > 0


def test_keys_can_be_redacted(spark, tmp_path):
    """With redact_keys=True the load tells a hash of each key, never the key."""
    streams(tmp_path, 1, batches=1)
    joined = evenjoin.join(
        {alias: read_stream(spark, tmp_path / alias, SCHEMA) for alias in "lr"},
        on="l.k = r.k",
        strategy="fastjoin",
        instances=2,
        redact_keys=True,
    )
    writer = joined.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "ck"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    names = [key.name for key in query.load().heavy]
    assert names
    assert all(len(name) == len("key-") + 16 for name in names)
    commits = [path.read_text() for path in (tmp_path / "ck" / "commits").iterdir()]
    assert not any('"key-1"' in text for text in commits)
