"""The default strategy as the tide of a hot key comes and goes, on real Spark.

    8 batches    4,000 rows of 4,000 keys                  nothing moves
    8 batches    the same and 25,000 rows of one key       that key is divided, and nothing else of its kind happens
    8 batches    the same as at first and 80,000 rows of 80,000 keys: back, or left divided where that costs nothing

The other side has 4,000 rows of the same keys, and 300 of the key that will be hot: 25,000 rows that meet hardly
anything are no work, and `auto` rightly leaves them alone.
"""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.commit.identity import recorded_log
from evenjoin.placement.topology import Grid
from evenjoin.state.files import open_folder
from evenjoin.strategies.edit import keys_of
from spark_streams import Collected, write_batches

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HOT, EACH = 1_234, 8
SECOND = 1_000_000


def batch(number: int, side: int) -> pa.Table:
    """A batch of the left side (0) or the right one (1); it covers ten seconds."""
    rng = np.random.default_rng([number, side])
    keys = [rng.permutation(4_000)]
    if side == 1:
        keys.append(np.full(300, HOT))
    elif EACH <= number < 2 * EACH:
        keys.append(np.full(25_000, HOT))
    elif number >= 2 * EACH:
        keys.append(4_000 + rng.permutation(80_000))
    k = rng.permutation(np.concatenate(keys)).astype(np.int64)
    ts = pa.array(10 * SECOND * number + rng.integers(0, 10 * SECOND, len(k)), pa.timestamp("us", "UTC"))
    return pa.table({"k": k, "ts": ts, "v": rng.integers(0, 100_000, len(k))})


CONDITION = (
    "l.k = r.k AND r.ts BETWEEN l.ts - INTERVAL 20 SECONDS AND l.ts + INTERVAL 20 SECONDS AND abs(l.v - r.v) <= 2"
)


def test_a_key_is_divided_while_it_is_hot(spark, tmp_path):
    whole = {alias: [batch(number, side) for number in range(3 * EACH)] for side, alias in enumerate("lr")}
    for alias, batches in whole.items():
        write_batches(tmp_path / alias, batches)
    seen = Collected()
    joined = evenjoin.join(
        {alias: evenjoin.parquet(spark, str(tmp_path / alias), maxFilesPerTrigger=1) for alias in "lr"},
        on=CONDITION,
        event_time="ts",
        watermark="5 seconds",
        select=["l.k AS k", "l.v AS a", "r.v AS b"],
        instances=4,
    )
    checkpoint = tmp_path / "ck"
    writer = joined.writeStream.foreachBatch(seen).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()

    log = recorded_log(open_folder(checkpoint))
    tables = [log.read_table(commit.table) for commit in [*log.commits()][::-1]]
    told = [commit.verdict.sentence for commit in [*log.commits()][::-1] if commit.verdict]
    assert len(tables) == 3 * EACH
    assert len({table.version for table in tables[:EACH]}) == 1, told
    assert isinstance(keys_of(tables[2 * EACH - 1]).get(HOT), Grid), told
    assert len({table.version for table in tables[EACH : 2 * EACH]}) <= 3, told
    late = [event for event in query.migrations() if event.batch > 2 * EACH + 1]
    assert len(late) <= 1, told
    arrived = sum(int((np.asarray(rows["k"]) == HOT).sum()) for rows in whole["l"][2 * EACH :])
    assert keys_of(tables[-1]).get(HOT) is None or arrived <= EACH  # it sends one row a batch: copies cost nothing

    found = pa.concat_tables(seen.batches.values())
    oracle = duckdb.connect()
    for alias, batches in whole.items():
        oracle.register(alias, pa.concat_tables(batches))
    sums = f"SELECT count(*), sum(l.k), sum(l.v), sum(r.v) FROM l JOIN r ON {CONDITION}"
    assert [(found.num_rows, *(sum(found[name].to_pylist()) for name in "kab"))] == oracle.sql(sums).fetchall()
