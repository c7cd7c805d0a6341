"""A hot key on both sides is quadratic: memory must stay bounded, however many results it has."""

from __future__ import annotations

import os
import threading
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
    """How far the resident size (bytes) of the largest of some processes rises while it runs."""

    def __init__(self, command: bytes) -> None:
        super().__init__(daemon=True)
        self._command, self._stopped = command, threading.Event()
        self.first = self.peak = 0

    def __enter__(self) -> Watch:
        self.first = self._largest()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.join()

    def run(self) -> None:
        while not self._stopped.wait(0.2):
            self.peak = max(self.peak, self._largest())

    def _largest(self) -> int:
        sizes = [0]
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if process.name == str(os.getpid()) if not self._command else self._command in _line(process):
                    status = (process / "status").read_text()
                    sizes.append(int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]))
            except (OSError, StopIteration):
                continue
        return max(sizes) * 1024


def _line(process: Path) -> bytes:
    return (process / "cmdline").read_bytes()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1500)
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads the memory of processes from /proc")
@pytest.mark.parametrize(("place", "command"), [("executors", b"pyspark.daemon"), ("driver", b"")])
def test_400_million_results_of_one_key(spark, tmp_path, place, command):
    """20,000 x 20,000 tuples of one key in one batch into noop: every Python worker stays below 1 GB; where the batch
    runs in the driver's process, that grows by less than 1 GB."""
    for alias in "lr":
        write_batches(tmp_path / alias, [one_key(20_000)])
    sides = {alias: read_stream(spark, tmp_path / alias, SCHEMA) for alias in "lr"}
    with Watch(command) as watch:
        joined = evenjoin.join(sides, on=ON, strategy="random", instances=2, execution=place, **OPTIONS)
        writer = joined.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "ck"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
    found = query.lastProgress["evenjoin"]
    assert found["total"]["results"] == 400_000_000
    assert found["execution"]["batches"] == {place: 1, "driver" if place == "executors" else "executors": 0}
    print(f"{place}: {watch.first / 1e6:.0f} MB before, {watch.peak / 1e6:.0f} MB at most")
    assert 0 < watch.peak < 1_000_000_000 + (0 if command else watch.first)
