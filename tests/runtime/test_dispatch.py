"""Dispatch: positions that stay even from batch to batch, and the same on a replay."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.runtime.dispatch import windows_of
from evenjoin.state.files import MemoryFolder
from evenjoin.testing import Crash, run_stream

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

SCHEMA = pa.schema([("k", pa.int64())])


def test_a_hot_key_that_trickles_in_is_spread():
    """One tuple a batch, always the same key: under `random` every unit gets its share in the end."""
    with evenjoin.local({"l": SCHEMA, "r": SCHEMA}, "l.k = r.k", strategy="random", instances=4) as join:
        for _ in range(80):
            join.process({"l": pa.table({"k": [7]})})
        stored = [load.stored[0] for load in join.load().instances]
    assert sum(stored) == 80
    assert min(stored) >= 8


def positions_of(folder):
    """u of every stored tuple, from the segments themselves."""
    found = []
    for name, data in folder.files.items():
        if name.startswith("segments/"):
            reader = pa.ipc.open_file(data)
            found += [u for i in range(reader.num_record_batches) for u in reader.get_batch(i)["~u"].to_pylist()]
    return sorted(found)


def test_a_replay_sends_what_it_sent_before():
    """Positions are a function of the batch and its rows: a run with crashes stores what one without stores."""
    stream = [{"l": pa.table({"k": [1, 1, 2]}), "r": pa.table({"k": [1, 2]})} for _ in range(3)]
    seen = []
    for crashes in ([], [Crash("executed"), Crash("commit")]):
        folder = MemoryFolder()
        parts = [item for part in stream for item in (*crashes, part)]
        run_stream(
            lambda hooks, folder=folder: evenjoin.local(
                {"l": SCHEMA, "r": SCHEMA}, "l.k = r.k", strategy="random", instances=3, checkpoint=folder, hooks=hooks
            ),
            parts,
        )
        seen.append(positions_of(folder))
    assert seen[0] == seen[1]
    assert len(set(seen[0])) == 15


@pytest.mark.parametrize(
    ("size", "slide", "times", "expected"),
    [
        (10, 10, [0, 9, 10, -1, -10], [(0, 0), (1, 0), (2, 10), (3, -10), (4, -10)]),
        (10, 5, [0, 7], [(0, -5), (0, 0), (1, 0), (1, 5)]),
        (5, 2, [4, 5], [(0, 0), (0, 2), (0, 4), (1, 2), (1, 4)]),
        (5, 5, [], []),
    ],
    ids=["tumbling", "sliding", "size not a multiple of slide", "nothing"],
)
def test_windows_of(size, slide, times, expected):
    """Each time's windows [start, start + size), starts multiples of slide, also before zero."""
    rows, starts = windows_of(np.array(times, np.int64), size, slide)
    assert sorted(zip(rows.tolist(), starts.tolist(), strict=True)) == expected
