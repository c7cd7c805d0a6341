"""One start of a chain, in a process of its own: python -m chaos.spark_job FOLDER SEED START SIDES [WITHOUT]

FOLDER holds the streams `l`, `r` and perhaps `m`; output goes to FOLDER/out by batch, the checkpoint to FOLDER/ck,
marks of deaths to FOLDER/marks, and the times at which the checkpoint was held to FOLDER/holds. The process ends with 0
when all input is joined, with 3 when an error stops it (its text is then in FOLDER/error), or it is killed.
"""

from __future__ import annotations

import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import evenjoin
from chaos import engine
from chaos.chain import Chain, draw_chain
from chaos.holds import Book
from chaos.spark_kills import DriverKill, WorkerKills, mark, shuffled
from chaos.spark_session import session, sides
from evenjoin.testing import Hooks

RETRIES = 200


def main() -> int:
    folder, seed, number = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    chain = draw_chain(seed, frozenset(sys.argv[5:]), int(sys.argv[4]) or None)
    spark = session(RETRIES)
    with engine.holds_told(Book(folder / "holds").write):
        return queries(spark, chain, folder, number)


def queries(spark: Any, chain: Chain, folder: Path, number: int) -> int:
    """The queries of a start, one after the other. Returns the exit code."""
    try:
        for stop in range(chain.deaths[number].stops):
            query = start(spark, chain, folder, number, number + stop)
            if not wait_for_slow(query, folder, number, stop):
                break
            query.stop()
        query = start(spark, chain, folder, number, number)
        query.awaitTermination()
    except Exception as error:
        (folder / "error").write_text(f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
        return 3
    return 0


def start(spark: Any, chain: Chain, folder: Path, number: int, settings: int) -> Any:
    """Start the query with the settings of a start."""
    case, deaths, marks = chain.case, chain.deaths[number], str(folder / "marks")
    asked = {**case.options, **engine.settings(case.starts[settings % len(case.starts)])}
    step = None if deaths.step in (None, "instant") else DriverKill(marks, number, str(deaths.step), deaths.batch)
    hooks = Hooks(step=step, worker_step=WorkerKills(marks, number, deaths.workers, deaths.slow, deaths.stops))
    frames = sides(spark, case, folder)
    if chain.order == "shuffled":
        frames = {alias: frame.mapInArrow(shuffled, frame.schema) for alias, frame in frames.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", evenjoin.UnboundedStateWarning)
        joined = evenjoin.join(frames, hooks=hooks, **asked)
    writer = joined.writeStream.option("checkpointLocation", str(folder / "ck")).trigger(availableNow=True)
    if chain.reader == "once":
        query = writer.format("parquet").option("path", str(folder / "out")).start()
    else:
        query = writer.foreachBatch(Twice(str(folder / "out"))).start()
    mark(marks, f"started-{number}")
    return query


class Twice:
    """A user's function that counts the results and then writes them."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, frame: Any, batch: int) -> None:
        frame.count()
        frame.write.mode("overwrite").parquet(f"{self.path}/batch_id={batch}")


def wait_for_slow(query: Any, folder: Path, number: int, stop: int) -> bool:
    """Wait until a task stands still. False if the query ended before that."""
    while not (folder / "marks" / f"slow-{number}-{stop}").exists():
        if not query.isActive:
            query.awaitTermination()  # raises what ended it
            return False
        time.sleep(0.02)
    return True


if __name__ == "__main__":
    sys.exit(main())
