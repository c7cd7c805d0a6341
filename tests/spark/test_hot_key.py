"""A hot key on both sides is quadratic: memory must stay bounded, however many results it has."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from spark_streams import read_stream, write_batches

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
ON = "l.k = r.k AND r.ts BETWEEN l.ts - INTERVAL 2 SECONDS AND l.ts + INTERVAL 2 SECONDS"
OPTIONS = {"event_time": "ts", "watermark": "1 second", "select": ["l.v AS a", "r.v AS b"]}


def one_key(rows: int) -> pa.Table:
    ts = pa.array(np.arange(rows) % 1_000_000).cast(SCHEMA.field("ts").type)
    return pa.table([np.full(rows, 7), ts, np.arange(rows)], schema=SCHEMA)


def test_results_come_in_bounded_pieces(monkeypatch):
    """1,500 x 1,500 tuples of one key: 2.25M results, no record batch larger than the limit."""
    from evenjoin.runtime import local

    sizes: list[int] = []
    join_batch = local.join_batch

    def watched(*args):
        for batch in join_batch(*args):
            sizes.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(local, "join_batch", watched)
    with evenjoin.local({"l": SCHEMA, "r": SCHEMA}, ON, pair_limit=10_000, **OPTIONS) as join:
        assert join.process({"l": one_key(1500), "r": one_key(1500)}).num_rows == 1500 * 1500
    assert max(sizes) <= 10_000


class Watch(threading.Thread):
    """The largest resident size (bytes) of any Python worker while it runs."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.stopped = 0, False

    def run(self) -> None:
        while not self.stopped:
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    if b"pyspark.daemon" in (process / "cmdline").read_bytes():
                        status = (process / "status").read_text()
                        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
                        self.peak = max(self.peak, int(peak.split()[1]) * 1024)
                except (OSError, StopIteration):
                    continue
            time.sleep(0.5)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1500)
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads the workers' memory from /proc")
def test_400_million_results_of_one_key(spark, tmp_path):
    """20,000 x 20,000 tuples of one key in one batch into noop: done, with every Python worker below 1 GB."""
    for alias in "lr":
        write_batches(tmp_path / alias, [one_key(20_000)])
    sides = {alias: read_stream(spark, tmp_path / alias, SCHEMA) for alias in "lr"}
    watch = Watch()
    watch.start()
    joined = evenjoin.join(sides, on=ON, strategy="random", instances=2, execution="executors", **OPTIONS)
    writer = joined.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "ck"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    watch.stopped = True
    assert query.lastProgress["evenjoin"]["total"]["results"] == 400_000_000
    assert 0 < watch.peak < 1_000_000_000
