"""Cost does not grow with history, as counts: runs, files, bytes, operations on the folder."""

from __future__ import annotations

import math
import os

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.state.files import LocalFolder
from evenjoin.state.segment import FAN

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

BATCHES, ROWS = 60, 2000
INTS = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us")), ("v", pa.int64())])
NAMES = pa.schema([("name", pa.string()), ("v", pa.int64()), ("w", pa.int64())])


def ints(batch, alias):
    """Keys of this batch only, so that every batch has as many results."""
    keys = np.arange(batch * ROWS, (batch + 1) * ROWS)
    times = pa.array(batch * 1_000_000 + np.arange(ROWS)).cast(pa.timestamp("us"))
    return pa.table({"k": np.random.default_rng(batch).permutation(keys), "ts": times, "v": keys % 7}, INTS)


def names(batch, alias):
    """The same with keys of eight characters."""
    keys = np.arange(batch * ROWS, (batch + 1) * ROWS)
    return pa.table({"name": [f"t-{key:06d}" for key in keys], "v": keys, "w": keys}, NAMES)


class Counting:
    """A folder that counts what is done to it."""

    def __init__(self, folder):
        self._folder, self.calls, self.written = folder, 0, 0

    def __getattr__(self, name):
        method = getattr(self._folder, name)

        def counted(*args):
            self.calls += 1
            self.written += len(args[1]) if name == "create" else args[1].size if hasattr(args[-1], "size") else 0
            return method(*args)

        return counted


def segment_bytes(path):
    """Bytes of all segment files on disk."""
    return sum(os.path.getsize(p) for p in (path / "segments").rglob("*") if p.is_file())


KINDS = {
    "integer keys": (INTS, ints, "l.k = r.k", ["l.k", "l.ts AS lts", "l.v AS lv", "r.ts AS rts", "r.v AS rv"]),
    "names": (NAMES, names, "l.name = r.name", ["l.name", "l.v AS lv", "l.w AS lw", "r.v AS rv", "r.w AS rw"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_full_history_stays_compact(kind, tmp_path):
    """60 equal batches: O(log n) runs a place, at most 1.3 times the Arrow bytes of the kept columns on disk, no
    files but those the manifest names, no empty folders, and no more operations a batch than early on."""
    schema, make, on, select = KINDS[kind]
    folder = Counting(LocalFolder(str(tmp_path)))
    kept, most, calls, written = 0, 0, [], []
    with evenjoin.local({"l": schema, "r": schema}, on, select=select, instances=2, checkpoint=folder) as join:
        for batch in range(BATCHES):
            data = {alias: make(batch, alias) for alias in "lr"}
            kept += sum(table.nbytes for table in data.values())
            before = folder.calls, folder.written
            assert join.process(data).num_rows == ROWS
            calls.append(folder.calls - before[0])
            written.append(folder.written - before[1])
            manifest = join._driver.last.manifest
            most = max(most, *(len(manifest.of(i, s)) for i in range(2) for s in range(2)))
        assert sum(join.progress().stored) == 2 * BATCHES * ROWS
        live = manifest.files
    levels = math.ceil(math.log(BATCHES, FAN)) + 1
    assert most <= FAN * levels
    assert segment_bytes(tmp_path) <= 1.3 * kept
    found = {str(p.relative_to(tmp_path)) for p in (tmp_path / "segments").rglob("*.arrow")}
    assert found == live
    assert all(any(path.iterdir()) for path in (tmp_path / "segments").iterdir())
    assert not list((tmp_path / "receipts").rglob("*"))
    assert len(list((tmp_path / "tables").iterdir())) == 1
    assert sum(calls[-10:]) <= 1.5 * sum(calls[10:20])
    assert segment_bytes(tmp_path) <= sum(written) <= (levels + 1) * segment_bytes(tmp_path)


def test_a_window_keeps_only_its_span(tmp_path):
    """60 batches of a second each, a bound of two seconds: state, runs and files stay those of a few batches."""
    on = "l.v = r.v AND r.ts BETWEEN l.ts - INTERVAL 2 SECONDS AND l.ts + INTERVAL 2 SECONDS"
    options = {"event_time": "ts", "watermark": "1 second", "select": ["l.v"], "instances": 2, "checkpoint": tmp_path}
    stored, files, named = [], [], []
    with evenjoin.local({"l": INTS, "r": INTS}, on, **options) as join:
        for batch in range(BATCHES):
            join.process({a: ints(batch, a).slice(0, 100) for a in "lr"})
            stored.append(sum(join.progress().stored))
            named.append(join._driver.last.manifest.files)
            files.append(len(named[-1]))
        assert join.progress().total.expired == 2 * BATCHES * 100 - stored[-1]
    assert max(stored[10:]) <= 6 * 200
    assert max(files[30:]) <= max(files[10:30])
    there = {str(path.relative_to(tmp_path)) for path in (tmp_path / "segments").rglob("*.arrow")}
    assert there == named[-1] | named[-2]  # one commit can be taken back
    assert len(list((tmp_path / "segments").iterdir())) <= len(there)


def test_a_trickle_stays_compact(tmp_path):
    """300 batches of one row: still O(log n) runs a place."""
    schema = pa.schema([("k", pa.int64())])
    with evenjoin.local({"l": schema, "r": schema}, "l.k = r.k", instances=1) as join:
        for batch in range(300):
            join.process({"l": pa.table({"k": [batch]})})
        runs = join._driver.last.manifest.of(0, 0)
    assert sum(run.rows for run in runs) == 300
    assert len(runs) <= FAN * (math.ceil(math.log(300, FAN)) + 1)
