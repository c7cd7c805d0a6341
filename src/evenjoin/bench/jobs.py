"""One run of one system: the values that go in and come out, and the process it happens in.

    Job --json--> python -m evenjoin.bench.worker --json--> Outcome

Every job has its own process, hence its own JVM and memory: nothing is warm because of an earlier run, and nothing
is left over for a later one. The start of the JVM is not measured; everything after the query's start is.

Invariant: a job that fails raises ``JobError`` with the end of its log; it never returns half an outcome.
Not here: how a system runs (``peers``, ``ours``).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from evenjoin.bench.cpu import Usage
from evenjoin.errors import EvenJoinError
from evenjoin.placement.table import Layout
from evenjoin.runtime.settings import Guards
from evenjoin.strategies.elastic import Scaling

System = Literal[
    "evenjoin", "evenjoin-driver", "embedded", "spark-rocksdb", "spark-hdfs", "spark-tuned", "spark-bucketed", "duckdb"
]  # fmt: skip
Near = tuple[str, str, int]
"""Columns of two sides, the earlier side first, and how far apart their whole numbers are at most in a result: ("l.k",
"r.k", 2)."""
Stopped = Literal["late", "hopeless"]
POLL_S = 0.25
JVM_START_S = 20.0
"""Time allowed for the start of a JVM where a system's own time is limited."""


class JobError(EvenJoinError):
    """A measured system did not finish."""


class JobTimeout(JobError):
    """A measured system took longer than it was given."""


class JobGivenUp(JobError):
    """A measured system was stopped by whoever watched it."""


@dataclass(frozen=True, slots=True)
class JoinOptions:
    """What EvenJoin's join is given besides a strategy and a size. With `scaling` it sizes itself."""

    guards: Guards = field(default_factory=Guards)
    scaling: Scaling | None = None
    track: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """What to run: a system, the files of each side, the condition and the columns of the result."""

    system: System
    folders: dict[str, str]  # alias -> folder of parquet files, one per batch; the first alias is the left side
    condition: str
    select: tuple[str, ...]
    checkpoint: str
    cores: int
    instances: int
    event_time: str | None = "ts"  # None: the whole history joins
    watermark: str = "0 seconds"
    settings: dict[str, str] = field(default_factory=dict)  # of the Spark session, beyond the common ones
    strategy: str = "hash"
    source: Literal["evenjoin", "spark"] = "evenjoin"  # who reads EvenJoin's files
    options: JoinOptions = field(default_factory=JoinOptions)  # of EvenJoin's join, beyond the above
    near: tuple[Near, ...] = ()  # what Spark's rewrite makes buckets of, and DuckDB slices
    reach_us: int = 0  # rows further apart in event time never match; 0: not known. DuckDB's join is slow without it
    steps: tuple[str, ...] = ()  # the condition of each two-way join where there are more than two sides
    layout: Layout = "shared"
    output: str | None = None  # a folder for the results as parquet files; None: they are made, and dropped


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out. ``batch_ms`` is Spark's own triggerExecution of each micro-batch, in order."""

    system: System
    rows: int  # input rows of all sides
    results: int
    used: Usage  # from the start of the query to its end, without the start of the JVM
    batch_ms: tuple[float, ...] = ()
    digest: str = ""  # of the written results as a multiset; empty where they were not written

    @property
    def rows_per_s(self) -> float:
        """Input rows per second of batch time (of wall time for a system without batches)."""
        return self.rows / (sum(self.batch_ms) / 1000 if self.batch_ms else self.used.wall_s)

    def median_ms(self, skip: int = 2) -> float:
        """The median batch after the first ``skip``, which pay for warming up."""
        return statistics.median(self.batch_ms[skip:] or self.batch_ms or (self.used.wall_s * 1000,))


def run_job(job: Job, folder: Path, timeout_s: float = 1800, hopeless: Callable[[], bool] = lambda: False) -> Outcome:
    """Run the job in its own process; its log and outcome stay in ``folder`` under the system's name.

    ``hopeless`` is asked every POLL_S: whether to wait no longer."""
    folder.mkdir(parents=True, exist_ok=True)
    asked, answered, log = (folder / f"{job.system}.{end}" for end in ("job.json", "outcome.json", "log"))
    asked.write_text(json.dumps(asdict(job), indent=1))
    answered.unlink(missing_ok=True)
    command = [sys.executable, "-m", "evenjoin.bench.worker", str(asked), str(answered)]
    with log.open("w") as output:
        code = _wait(subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT), timeout_s, hopeless)
    if code == "late":
        raise JobTimeout(f"{job.system} did not finish in {timeout_s:.0f} s; see {log}")
    if code == "hopeless":
        raise JobGivenUp(f"{job.system} was given up; see {log}")
    if code or not answered.exists():
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise JobError(f"{job.system} failed with exit code {code}; the end of {log}:\n{tail}")
    return read_outcome(answered)


def _wait(process: subprocess.Popen[bytes], timeout_s: float, hopeless: Callable[[], bool]) -> int | Stopped:
    """The exit code of a process, or why it was stopped."""
    until = time.monotonic() + timeout_s
    with process:
        try:
            while time.monotonic() < until:
                if hopeless():
                    return "hopeless"
                try:
                    return process.wait(min(POLL_S, timeout_s))
                except subprocess.TimeoutExpired:
                    continue
            return "late"
        finally:
            process.kill()


def read_job(path: Path) -> Job:
    """The job a file describes."""
    raw = json.loads(path.read_text())
    tuples = {name: tuple(raw[name]) for name in ("select", "steps")}
    given, scaling = raw["options"], raw["options"]["scaling"]
    options = JoinOptions(Guards(**given["guards"]), None if scaling is None else Scaling(**scaling), given["track"])
    return Job(**{**raw, **tuples, "near": tuple(map(tuple, raw["near"])), "options": options})


def read_outcome(path: Path) -> Outcome:
    """The outcome a worker left."""
    raw = json.loads(path.read_text())
    return Outcome(**{**raw, "used": Usage(**raw["used"]), "batch_ms": tuple(raw["batch_ms"])})


def write_outcome(outcome: Outcome, path: Path) -> None:
    """Leave an outcome for the process that asked."""
    path.write_text(json.dumps(asdict(outcome), indent=1))
