"""The process of one job: ``python -m evenjoin.bench.worker JOB.json OUTCOME.json``.

Reads a job, runs its system, leaves the outcome. Whatever it prints is the job's log.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from evenjoin.bench.jobs import Job, Outcome, read_job, write_outcome
from evenjoin.bench.ours import run_embedded, run_evenjoin
from evenjoin.bench.peers import run_duckdb, run_spark

SYSTEMS: dict[str, Callable[[Job], Outcome]] = {
    "evenjoin": run_evenjoin,
    "evenjoin-driver": run_evenjoin,
    "embedded": run_embedded,
    "spark-rocksdb": run_spark,
    "spark-hdfs": run_spark,
    "spark-tuned": run_spark,
    "spark-bucketed": run_spark,
    "duckdb": run_duckdb,
}


def main(arguments: list[str]) -> int:
    """Run the job named on the command line."""
    asked, answered = (Path(argument) for argument in arguments)
    job = read_job(asked)
    write_outcome(SYSTEMS[job.system](job), answered)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
