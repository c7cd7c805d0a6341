"""Real processes killed while files of results are written and shown, under the eyes of a reader that never stops."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from recovery import local_job
from recovery.reader import Reader, wanted_of
from recovery.spark_job import CONDITIONS
from recovery.test_spark_kills import begin, check_output, run, streams

DRIVER_STEPS = ("begin", "executed", "receipts", "commit", "committed", "shown", "collected")
WORKER_STEPS = ("joined", "writing", "written", "sealed", "receipt")
KILLED = -signal.SIGKILL


def start_local(folder: Path, batches: int, *death: object) -> subprocess.Popen:
    command = [sys.executable, local_job.__file__, str(folder), str(batches), *map(str, death)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kill_local(folder: Path, batches: int, rng: random.Random) -> int:
    """One run that dies at a step, or at a moment that nobody chose. Returns its exit code."""
    if rng.random() < 0.7:
        process = start_local(folder, batches, rng.choice(DRIVER_STEPS + WORKER_STEPS), rng.randint(1, 4))
    else:
        process = start_local(folder, batches)
        process.stdout.readline()
        time.sleep(rng.uniform(0, 0.15))
        process.kill()
    process.communicate(timeout=60)
    return process.returncode


@pytest.mark.parametrize(
    ("seed", "kills"), [(0, 5), *(pytest.param(seed, 20, marks=pytest.mark.slow) for seed in range(1, 6))]
)
def test_the_embedded_engine(seed, kills, tmp_path):
    """At every look whole batches; at the end each result once, and nothing is left in the staging."""
    rng, batches = random.Random(seed), 6 * kills
    sides = {a: pa.concat_tables(local_job.rows(a, batch) for batch in range(batches)) for a in "lr"}
    wanted = wanted_of(sides, local_job.CONDITION, local_job.ROWS)
    with Reader(tmp_path / "out", wanted) as reader:
        codes = [kill_local(tmp_path, batches, rng) for _ in range(kills)]
        assert codes == [KILLED] * kills
        last = start_local(tmp_path, batches)
        assert last.communicate(timeout=120)[0].split() == ["ready", "done"], last.stderr
    reader.look()
    assert reader.problems == []
    assert reader.batches == batches
    assert [path for path in (tmp_path / "ck/output").rglob("*") if path.is_file()] == []
    print(f"{kills} kills, {reader.polls} polls")


def test_the_reader_notices(tmp_path):
    """A file too few, one too many, a batch that is left out or vanishes, and a half file."""
    start_local(tmp_path, 3).communicate(timeout=60)
    sides = {a: pa.concat_tables(local_job.rows(a, batch) for batch in range(3)) for a in "lr"}
    wanted = wanted_of(sides, local_job.CONDITION, local_job.ROWS)
    (file, *_) = sorted((tmp_path / "out/batch_id=2").glob("*.parquet"))
    harms = {
        "too few": lambda out: (out / "batch_id=2" / file.name).unlink(),
        "twice": lambda out: shutil.copy(file, out / "batch_id=2/part-x.parquet"),
        "staged below the output": lambda out: shutil.copytree(file.parent, out / "_staging/batch_id=2"),
        "left out": lambda out: shutil.rmtree(out / "batch_id=1"),
        "half": lambda out: (out / "batch_id=2/part-x.parquet").write_bytes(file.read_bytes()[:-20]),
    }
    for name, harm in harms.items():
        output = tmp_path / name.replace(" ", "-")
        shutil.copytree(tmp_path / "out", output)
        reader = Reader(output, wanted)
        reader.look()
        assert reader.problems == []
        harm(output)
        reader.look()
        assert reader.problems, name


FATAL, DEATHS = 5, 10
"""By seed, the runs on Spark that die as a whole, and these together with deaths of single workers."""


def watched(folder: Path, rows: int = 400) -> Reader:
    sides = {alias: f"{folder}/{alias}/*.parquet" for alias in "lr"}
    return Reader(folder / "out", wanted_of(sides, CONDITIONS["lr"], rows))


def kill_spark(folder: Path, seed: str, rng: random.Random) -> int:
    """One run of which a worker dies, and then all: at a step of the driver, at one of a task, or at some moment."""
    shown = len(list(folder.glob("out/batch_id=*")))
    kind, worker = rng.choice(("driver", "all", "moment")), f"random:{seed}:1"
    if kind == "driver":
        return run(folder, 2, f"driver:{rng.choice(DRIVER_STEPS)}:{shown}", worker)
    if kind == "all":
        return run(folder, 2, f"all:{rng.choice(WORKER_STEPS)}:{shown}", worker)
    process = begin(folder, 2, worker)
    until = time.time() + 120
    while len(list(folder.glob("out/batch_id=*"))) <= shown and time.time() < until:
        time.sleep(0.02)
    time.sleep(rng.uniform(0, 0.8))
    os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def deaths_of_workers(folder: Path) -> int:
    """How many workers have died alone since this was asked last."""
    markers = list(folder.glob("killed-*"))
    for marker in markers:
        with suppress(FileNotFoundError):
            marker.unlink()
    return sum("random" in marker.name for marker in markers)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(10))
def test_on_spark(seed, tmp_path):
    """Ten kills: five of driver, JVM and workers at once, the others of single workers, whose tasks Spark runs again.
    Workers of a killed run may outlive it and write on. The reader sees whole batches; each result is there once."""
    batches, rng = 16, random.Random(seed)
    streams(tmp_path, batches=batches)
    alone = 0
    with watched(tmp_path) as reader:
        for number in range(FATAL):
            code = kill_spark(tmp_path, f"{seed}{number}", rng)
            assert code in (37, KILLED), (tmp_path / "log").read_text()
            alone += deaths_of_workers(tmp_path)
        assert run(tmp_path, 2, f"random:{seed}:{DEATHS - FATAL - alone}") == 0, (tmp_path / "log").read_text()
        alone += deaths_of_workers(tmp_path)
    reader.look()
    assert reader.problems == []
    assert (FATAL + alone, reader.batches) == (DEATHS, batches)
    check_output(tmp_path)
    assert [path for path in (tmp_path / "ck/output").rglob("*") if path.is_file()] == []
    print(f"{FATAL} + {alone} kills, {reader.polls} polls")
