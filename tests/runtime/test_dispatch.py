"""Dispatch: positions that stay even from batch to batch, and what is sent does not depend on the order of rows."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenjoin
from evenjoin.runtime.dispatch import Dispatcher, windows_of
from evenjoin.spec import build_spec
from evenjoin.state.files import MemoryFolder
from evenjoin.strategies.base import resolve
from evenjoin.testing import Crash, routing_tables, run_stream
from stations import work_of
from thorough import examples

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


ROWS = pa.schema([("k", pa.string()), ("ts", pa.int64()), ("v", pa.float64()), ("tags", pa.list_(pa.string()))])
row = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.integers(0, 30),
    st.sampled_from([0.0, -0.0, 1.5, None]),
    st.sampled_from([[], ["x"], ["x", "y"], None]),
)


def sent(rows, table, cuts=(), batch=3):
    """All that a task sends of some rows of side 0, cut into batches: messages and books by instance, and its note."""
    on = "l.k = r.k AND r.ts BETWEEN l.ts - 9 AND l.ts + 9"
    spec = build_spec({"l": ROWS, "r": ROWS}, on, event_time="ts", watermark=1, select=["l.v", "l.tags", "r.v AS w"],
                      late="side")  # fmt: skip
    task = Dispatcher(work_of(spec, table, batch=batch, sampling="codes"), 8)
    messages, books, late = Counter(), Counter(), Counter()
    names = [name for name in ROWS.names if name in spec.sides[0].columns]
    for start, stop in pairwise([0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]):
        data = pa.RecordBatch.from_pylist([dict(zip(ROWS.names, r, strict=True)) for r in rows[start:stop]], ROWS)
        out = task.dispatch(0, data.select(names))
        for instance, piece, lines in [*out.pieces, *([out.late] if out.late else [])]:
            messages.update((instance, repr(message)) for message in piece.to_pylist())
            books[instance] += lines
        late.update(map(repr, out.late[1].to_pylist() if out.late else []))
    return messages, {instance: total % 2**64 for instance, total in books.items()}, late, task.note


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(row, max_size=40), routing_tables(sides=2), st.randoms(use_true_random=False),
    st.lists(st.integers(0, 40), max_size=3),
)  # fmt: skip
def test_what_a_task_sends_is_a_function_of_its_rows(rows, table, random, cuts):
    """In another order, and cut into other batches: the same messages with the same positions, the same books, the same
    late rows and the same note, whose sum is that of the books."""
    plain = sent(rows, table)
    assert sent(random.sample(rows, len(rows)), table, cuts) == plain
    assert sum(plain[1].values()) % 2**64 == plain[3].sent


def test_another_row_is_another_book():
    """A value, an occurrence or the batch differs: so do the sums."""
    table = resolve("random").initial(2, 2, "shared")
    rows = [("a", 20, 1.5, ["x"])] * 2
    others = [sent(rows, table, batch=4), sent(rows[:1], table), sent([rows[0], ("a", 20, 1.5, ["y"])], table)]
    assert len({note.sent for _, _, _, note in [sent(rows, table), *others]}) == 4


def test_the_same_task_run_twice_sends_the_same_bytes():
    """Nothing that is sent holds a clock or an attempt: Spark compares the rows of a task that runs again."""
    table = resolve("random").initial(3, 2, "shared")
    rows = [(str(n % 3), n, n / 2, ["x"] * (n % 3)) for n in range(30)]
    assert sent(rows, table)[3].to_bytes() == sent(rows, table)[3].to_bytes()
    assert b"ms" not in sent(rows, table)[3].to_bytes()


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
