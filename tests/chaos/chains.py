"""The campaign on Spark: chains of starts on one checkpoint, whose drivers and workers are killed, and the output at
the end against DuckDB.

Every kill is a SIGKILL: workers kill themselves at steps, this process kills workers by their ids at random instants,
and driver and JVM die together at steps or instants.

Invariant: only processes of the session that a chain started are killed, and none is left when it ends.
A finding is not made smaller: a start takes seconds, and instants are not repeated exactly.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import duckdb

from chaos import engine
from chaos.chain import Chain, draw_chain
from chaos.check import Finding, difference, expected
from chaos.damage import Damaged, apply
from chaos.disturbance import RivalAccepted
from chaos.holds import Book, at_once
from chaos.report import Found, Report
from chaos.spark_session import write_inputs
from evenjoin.errors import CheckpointInUseError, EvenJoinError
from evenjoin.testing import multiset

SECONDS = 240
"""One start takes no longer than this."""


def chains(
    report: Report, seed: int, seconds: float, count: int | None, without: frozenset[str], sides: int | None = None
) -> None:
    """Run chains for so many seconds, or so many of them. One that has begun is finished."""
    until, done = time.monotonic() + seconds, 0
    while done < count if count is not None else time.monotonic() < until:
        chain = draw_chain(seed + done, without, sides)
        with tempfile.TemporaryDirectory(prefix="evenjoin-chain-") as folder:
            one = Run(report, chain, seed + done, Path(folder), [str(sides or 0), *sorted(without)])
            try:
                finding = one.whole()
            except RivalAccepted as error:
                finding = Finding.raised(error)
            one.count()
        if finding is not None:
            left_out = f" --without {','.join(sorted(without))}" if without else ""
            left_out += f" --sides {sides}" if sides is not None else ""
            report.add(Found(seed + done, finding, None, f"python -m chaos --seed {seed + done} --chains 1{left_out}"))
        done += 1
        kills = sum(n for (what, _), n in report.tally.items() if what == "SIGKILL on Spark")
        print(f"spark: {done} chains, {kills} SIGKILLs, {len(report.found)} findings", flush=True)


class Run:
    """One chain under way."""

    def __init__(self, report: Report, chain: Chain, seed: int, folder: Path, drawn: list[str]) -> None:
        self.report, self.chain, self.seed, self.folder, self.drawn = report, chain, seed, folder, drawn
        self.rng = random.Random(seed)
        (folder / "marks").mkdir()
        write_inputs(chain.case, folder)

    def told(self, what: str, which: str) -> None:
        self.report.tally[what, which] += 1

    def whole(self) -> Finding | None:
        """All starts, then the check."""
        self.told("join on Spark", self.chain.case.join)
        self.told("reader on Spark", f"{self.chain.reader}, row order {self.chain.order}")
        damaged: Damaged | None = None
        last = len(self.chain.deaths) - 1
        for number in range(last + 1):
            if number == last and self.chain.damage is not None:
                damaged = self.damage()
            finding = self.start(number)
            if finding is not None and damaged is not None:
                self.told("damage in a chain", f"{damaged.kind}, {damaged.how}: refused: {finding.kind}")
                self.restore()
                damaged, finding = None, self.start(number)
            if finding is not None:
                return finding
        finding = self.check()
        if damaged is not None:
            self.told("damage in a chain", f"{damaged.kind}, {damaged.how}: {finding.kind if finding else 'right'}")
        return finding

    def start(self, number: int) -> Finding | None:
        """One start to its end or its death. What stopped it otherwise is a finding."""
        self.told("strategy on Spark", self.chain.case.starts[number].strategy)
        self.started(number).unlink(missing_ok=True)  # of a try of this start before its damage was restored
        given = [str(self.folder), str(self.seed), str(number), *self.drawn]
        path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
        with open(self.folder / "log", "w") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", "chaos.spark_job", *given],
                env=environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        try:
            return self.watch(child, number)
        finally:
            self.sweep(child.pid)

    def watch(self, child: subprocess.Popen[bytes], number: int) -> Finding | None:
        """Look on until the start ends, and do what is to be done to it from outside."""
        until = time.monotonic() + SECONDS
        outside = self.outside(child, number)
        while child.poll() is None and time.monotonic() < until:
            time.sleep(0.03)
            if self.started(number).exists():
                next(outside)
        if child.poll() is None:
            return Finding("error Hang", f"start {number} did not end within {SECONDS} s: {self.tail()}")
        return None if child.returncode in (0, -signal.SIGKILL) else self.stopped(child.returncode)

    def started(self, number: int) -> Path:
        """The mark that the first query of a start runs."""
        return self.folder / "marks" / f"started-{number}"

    def outside(self, child: subprocess.Popen[bytes], number: int) -> Iterator[None]:
        """What is done from outside: a second driver, kills of workers, the kill of the driver; a look at a time."""
        deaths = self.chain.deaths[number]
        instants, following = deaths.instants, time.monotonic()
        if deaths.rival:
            self.rival(child)
        while True:
            yield
            if instants and time.monotonic() > following:
                instants -= self.kill_worker(child.pid)
                following = time.monotonic() + self.rng.uniform(0.1, 1.2)
            if deaths.step == "instant" and self.written() > deaths.batch:
                time.sleep(self.rng.uniform(0, 0.8))
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
                    self.told("SIGKILL on Spark", "driver and JVM at some instant")

    def stopped(self, code: int) -> Finding:
        error = self.folder / "error"
        text = error.read_text() if error.exists() else f"exit code {code}: {self.tail()}"
        error.unlink(missing_ok=True)
        told = re.findall(r"^([\w.]+(?:Error|Exception)): (.*)$", text, re.M)
        causes = [one for one in told if "StreamingQuery" not in one[0]]
        kind, cause = causes[-1] if causes else (text.split(":")[0], "")
        return Finding(f"error {kind.split('.')[-1]}", f"{cause}\n{text}")

    def tail(self) -> str:
        return (self.folder / "log").read_text()[-500:]

    def written(self) -> int:
        """How many batches the sink has."""
        return sum(1 for _ in (self.folder / "out").glob("batch_id=*/_SUCCESS"))

    def rival(self, child: subprocess.Popen[bytes]) -> None:
        """A second driver tries to take the checkpoint. It is of the embedded engine: the lock is the same.
        RivalAccepted if it got in while the first process held the checkpoint, by the account of both (holds.py)."""
        case, book, result = self.chain.case, Book(self.folder / "holds"), "let in, the first process held nothing"
        try:
            with engine.holds_told(book.write):
                engine.make(case.spec, case.options, case.starts[0], checkpoint=str(self.folder / "ck")).close()
        except CheckpointInUseError:
            result = "refused"
        except EvenJoinError as error:  # the first has stopped at the damage that this one meets now
            result = f"stopped by {type(error).__name__}"
        if any({one.process, two.process} == {os.getpid(), child.pid} for one, two in at_once(book.holds())):
            if not died(child):
                raise RivalAccepted(f"process {child.pid} held the checkpoint, and a second driver was let in")
            result = "let in, the first process had died"
        self.told("second driver on Spark", result)

    def kill_worker(self, session: int) -> int:
        """SIGKILL to one Python worker, or to the daemon that forks them."""
        workers = [pid for pid, command in of_session(session) if "pyspark" in command and "daemon" in command]
        if not workers:
            return 0
        with suppress(ProcessLookupError):
            os.kill(self.rng.choice(workers), signal.SIGKILL)
            self.told("SIGKILL on Spark", "worker or daemon at some instant")
            return 1
        return 0

    def sweep(self, session: int) -> None:
        """End what is left of a start."""
        while left := of_session(session):
            for pid, _ in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def damage(self) -> Damaged | None:
        shutil.copytree(self.folder / "ck", self.folder / "saved")
        assert self.chain.damage is not None
        return apply(self.chain.damage, self.folder / "ck", lambda how: None)

    def restore(self) -> None:
        shutil.rmtree(self.folder / "ck")
        shutil.copytree(self.folder / "saved", self.folder / "ck")

    def check(self) -> Finding | None:
        files = [str(p) for p in (self.folder / "out").glob("batch_id=*/*.parquet")]
        columns = ", ".join(self.chain.case.spec.columns)
        with duckdb.connect() as connection:
            query = f"SELECT {columns} FROM read_parquet({files!r})"
            found = multiset(connection.sql(query).to_arrow_table())
        return difference(found, *expected(self.chain.case))

    def count(self) -> None:
        """Count the deaths that left a mark."""
        for path in (self.folder / "marks").iterdir():
            kind, *_, step = path.name.split("-")
            if kind in ("worker", "driver"):
                self.told("SIGKILL on Spark", f"{'driver and JVM' if kind == 'driver' else 'worker'} at {step}")
            elif kind == "slow":
                self.told("stale task on Spark", "stood still when the query was stopped")


def died(child: subprocess.Popen[bytes]) -> bool:
    """Whether a process is dead, or about to be. One that is killed loses its locks a moment before it is gone."""
    with suppress(subprocess.TimeoutExpired):
        child.wait(0.5)
    return child.returncode is not None


def of_session(session: int) -> list[tuple[int, str]]:
    """The processes of a session that are alive, with their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError):
                state, _, _, its = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(its) == session and state != "Z":
                    found.append((int(entry.name), (entry / "cmdline").read_text().replace("\0", " ")))
    return found
