"""The embedded engine in a process of its own, writing to an output of files, that dies where it is told to.

    python local_job.py FOLDER BATCHES [STEP NUMBER]

At the NUMBERth time that a step is reached, of the driver or of an instance, the process gets a SIGKILL. It prints
`ready` when it begins with its first batch. Row groups are small, so that files are open for longer.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

import evenjoin
from evenjoin.instance import results
from evenjoin.testing import Hooks

ROWS = 120
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("s", pa.string())])
CONDITION = "l.k = r.k AND r.id BETWEEN l.id - 300 AND l.id + 300"


def rows(alias: str, batch: int) -> pa.Table:
    """The rows of a side in a batch: always the same."""
    rng = np.random.default_rng([ord(alias), batch])
    ids = np.arange(batch * ROWS, (batch + 1) * ROWS)
    return pa.table([ids, rng.zipf(1.5, ROWS) % 20, [f"{alias}{n}" for n in ids]], schema=SCHEMA)


class Death:
    """Dies at the nth call of a step."""

    def __init__(self, step: str, left: int) -> None:
        self.step, self.left = step, left

    def __call__(self, name: str, number: int) -> None:
        if name == self.step:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    folder, batches = Path(sys.argv[1]), int(sys.argv[2])
    death = Death(sys.argv[3], int(sys.argv[4])) if len(sys.argv) > 3 else Death("", 0)
    results.ROWS = 400
    join = evenjoin.local(
        {"l": SCHEMA, "r": SCHEMA}, CONDITION, select=["l.id AS a", "r.id AS b", "l.s AS s"], instances=2,
        checkpoint=folder / "ck", output=folder / "out", hooks=Hooks(step=death, worker_step=death),
    )  # fmt: skip
    print("ready", flush=True)
    with join:
        for batch in range(join.batch, batches):
            join.process({alias: rows(alias, batch) for alias in "lr"}, batch=batch)
    print("done", flush=True)


if __name__ == "__main__":
    main()
