"""Files of the batch under way that are damaged before the driver reads them: named, and the batch is replayed."""

from __future__ import annotations

import pyarrow as pa
import pytest

import evenjoin
from evenjoin.errors import ReceiptError
from evenjoin.state.files import MemoryFolder
from evenjoin.testing import Hooks

SCHEMAS = {alias: pa.schema([("k", pa.int64()), ("t", pa.int64())]) for alias in "lr"}
ON = "l.k = r.k AND r.t BETWEEN l.t AND l.t + 5"


def rows(*times):
    return {alias: pa.table({"k": [1] * len(times), "t": times}) for alias in "lr"}


@pytest.mark.parametrize(
    ("kind", "damage"),
    [("receipts", "cut"), ("receipts", "changed"), ("late", "cut"), ("late", "changed"), ("late", "deleted")],
)
def test_the_file_is_named_and_the_replay_is_whole(kind, damage):
    """ReceiptError, no commit, and the second try of the batch gives the results and late rows of an undisturbed
    run."""
    said = "missing" if damage == "deleted" else "damaged"
    folder, late, armed = MemoryFolder(), [], [True]

    def spoil(step, batch):
        if step == "executed" and batch == 2 and armed.pop():
            name = next(n for n in folder.files if n.startswith(f"{kind}/2/"))
            data = folder.files.pop(name).to_pybytes()
            if damage != "deleted":
                folder.write(name, data[: len(data) // 2] if damage == "cut" else b"?" + data[1:])

    def deliver(found, alias, batch):
        late.append((alias, batch, found.num_rows))

    options = {"event_time": "t", "watermark": 0, "late": deliver, "hooks": Hooks(step=spoil)}
    with evenjoin.local(SCHEMAS, ON, checkpoint=folder, **options) as join:
        join.process(rows(10, 11))
        join.process(rows(20))
        with pytest.raises(ReceiptError, match=rf"{kind}/2/.* of the checkpoint is {said}; the batch will be replayed"):
            join.process(rows(21, 3))
        assert (join.batch, late) == (2, [])
        armed.append(False)
        assert join.process(rows(21, 3)).num_rows == 2
    assert late == [("l", 2, 1), ("r", 2, 1)]
