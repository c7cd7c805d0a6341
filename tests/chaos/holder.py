"""A process that takes a checkpoint and gives it back, again and again: python -m chaos.holder ENGINE FOLDER [FAULT]

It writes its holds to FOLDER/holds (holds.py), takes FOLDER/ck, and runs until it is killed. The embedded one also
forks children, which may outlive a hold. If somebody else has the checkpoint it tries again.

    ENGINE    embedded: joins of `evenjoin.local`;  spark: queries that are started and stopped in one session
    FAULT     unlinked: `owner.lock` is deleted as soon as it is held, so that the next one locks another file
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import evenjoin
from chaos import engine
from chaos.case import Start
from chaos.draw import draw
from chaos.holds import Book
from chaos.joins import JOINS
from evenjoin.errors import CheckpointInUseError

JOIN = "integer key, bounds"


def main() -> None:
    kind, folder, fault = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    take, pause = (spark(folder), 0.3) if kind == "spark" else (lambda: second(folder), 0.01)
    rng = random.Random(1)
    with engine.holds_told(Book(folder / "holds").write):
        while True:
            try:
                give_back = take()
            except CheckpointInUseError:
                continue
            if fault:
                (folder / "ck" / "owner.lock").unlink()
            if kind == "embedded" and rng.random() < 0.3:
                child(rng.uniform(0, 2 * pause))
            time.sleep(rng.uniform(0, pause))
            give_back()
            time.sleep(rng.uniform(0, pause))


def second(folder: Path) -> Callable[[], None]:
    """Take the checkpoint with an embedded join. Returns what gives it back. CheckpointInUseError if it is held."""
    options = JOINS[JOIN].options(None, "drop")
    return engine.make(JOINS[JOIN], options, Start("hash", 2), checkpoint=str(folder / "ck")).close


def spark(folder: Path) -> Callable[[], Callable[[], None]]:
    """A session, and the function that starts a query in it."""
    from chaos.spark_session import session, sides, write_inputs

    case = next(case for case in map(draw, range(10_000)) if case.join == JOIN)
    write_inputs(case, folder)
    frames, options = sides(session(1), folder), JOINS[JOIN].options(None, "drop")

    def take() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", evenjoin.UnboundedStateWarning)
            joined = evenjoin.join(frames, **options, **engine.settings(Start("hash", 2)))
        writer = joined.writeStream.format("parquet").option("path", str(folder / "out"))
        return writer.option("checkpointLocation", str(folder / "ck")).start().stop

    return take


def child(seconds: float) -> None:
    """Fork a process that does nothing for a while."""
    if os.fork() == 0:
        time.sleep(seconds)
        os._exit(0)


if __name__ == "__main__":
    main()
