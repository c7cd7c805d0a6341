"""Real processes killed at each step of the commit story; the output equals DuckDB's batch join of the whole input."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from evenjoin.commit.identity import recorded_log
from evenjoin.state.files import open_folder
from recovery.spark_job import CONDITIONS, SELECT, STEPS
from spark_streams import write_batches

pytestmark = pytest.mark.spark

JOB = Path(__file__).parent / "spark_job.py"


def streams(folder: Path, batches: int, rows: int = 400, sides: str = "lr") -> None:
    rng = np.random.default_rng(7)
    for alias in sides:
        tables = []
        for b in range(batches):
            ts = pa.array(b * 1_000_000 + rng.integers(0, 1_000_000, rows)).cast(pa.timestamp("us", "UTC"))
            ids = np.arange(b * rows, (b + 1) * rows)
            tables.append(pa.table({"id": ids, "k": rng.zipf(1.5, rows) % 50, "ts": ts, "v": ids % 7}))
        write_batches(folder / alias, tables)


def begin(folder: Path, instances: int, *kills: str, strategy: str = "hash") -> subprocess.Popen:
    """Start the job in a process group of its own; what it prints goes to FOLDER/log."""
    command = [sys.executable, str(JOB), str(folder), str(instances), *kills]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "STRATEGY": strategy}
    with open(folder / "log", "w") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)


def run(folder: Path, instances: int, *kills: str, strategy: str = "hash") -> int:
    """Run the job to its end, or to its death; then nothing of it is left."""
    process = begin(folder, instances, *kills, strategy=strategy)
    try:
        return process.wait(timeout=200)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def check_output(folder: Path) -> None:
    """The files of the sink hold each result of the batch join exactly once."""
    sides = "lrm" if (folder / "m").exists() else "lr"
    ids = "a, b, c" if "m" in sides else "a, b"
    found = f"(SELECT {ids}, ts FROM read_parquet('{folder}/out/*/*.parquet'))"
    tables = ", ".join(f"'{folder}/{alias}/*.parquet' {alias}" for alias in sides)
    wanted = f"(SELECT {', '.join(SELECT[sides])} FROM {tables} WHERE {CONDITIONS[sides]})"
    count, distinct = duckdb.sql(f"SELECT count(*), count(DISTINCT ({ids})) FROM {found}").fetchall()[0]
    assert count == distinct == duckdb.sql(f"SELECT count(*) FROM {wanted}").fetchall()[0][0] > 0
    assert duckdb.sql(f"SELECT count(*) FROM (FROM {found} EXCEPT FROM {wanted})").fetchall()[0][0] == 0


EACH_STEP = [("begin", 0, 2), ("executed", 1, 2), ("migrated", 1, 3), ("receipts", 1, 4), ("commit", 2, 4)]
EACH_STEP += [("committed", 3, 4), ("collected", 4, 1)]


@pytest.mark.parametrize(
    ("batches", "deaths"), [(4, 2), *(pytest.param(*far, marks=pytest.mark.slow) for far in [(5, 5), (12, 20)])]
)
def test_killed_in_a_migration_then_many_times(batches, deaths, tmp_path):
    """The driver dies while a batch runs and, with another number of instances, in the migration; in the run after
    that Python workers die at random steps: nothing is lost or repeated."""
    streams(tmp_path, batches=batches)
    runs = [(2, "driver:executed:1"), (3, "driver:migrated:1"), (3, f"random:1:{deaths}")]
    codes = [run(tmp_path, instances, kill) for instances, kill in runs]
    assert codes == [37, 37, 0], (tmp_path / "log").read_text()
    assert len(list(tmp_path.glob("killed-random-*"))) == deaths
    check_output(tmp_path)


@pytest.mark.slow
def test_killed_in_the_driver_and_gone_on_elsewhere(tmp_path, monkeypatch):
    """SIGKILL of everything while instances run in the driver's process and, every other time, on the executors."""
    streams(tmp_path, batches=5)
    kills = [f"all:{step}:{n}" for n in (1, 2, 3) for step in STEPS]
    for number, kill in enumerate([*kills, "driver:executed:4"]):
        monkeypatch.setenv("EXECUTION", ("driver", "executors")[number % 2])
        assert run(tmp_path, 2, kill) in (37, -signal.SIGKILL), (tmp_path / "log").read_text()
    monkeypatch.setenv("EXECUTION", "driver")
    assert run(tmp_path, 3) == 0, (tmp_path / "log").read_text()
    check_output(tmp_path)


@pytest.mark.slow
def test_driver_killed_at_each_step(tmp_path):
    """os._exit in the driver at each step of the commit story, one after the other, on one checkpoint.

    The number of instances changes on the way, so that a migration is killed before, during and after too.
    """
    streams(tmp_path, batches=6)
    for step, batch, instances in EACH_STEP:
        assert run(tmp_path, instances, f"driver:{step}:{batch}") == 37, (tmp_path / "log").read_text()
    assert run(tmp_path, 2) == 0
    check_output(tmp_path)


def rebalances(folder: Path) -> list[dict]:
    """What the checkpoint tells of the planner's migrations."""
    log = recorded_log(open_folder(str(folder / "ck")))
    events = [commit.migration for commit in log.commits()]
    return [event for event in events if event is not None and event.why == "imbalance"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "deaths"),
    [
        ("djb(theta_max=0.05)", [("driver:migrated:-1",), ("random:3:6",)]),
        ("fastjoin(theta=1.05, sure=0)", [("driver:migrated:-1",), ("worker:moved:-1",)]),
        ("lsstream(alpha=0.05)", [("driver:executed:3",), ("random:4:6",)]),
        ("readj(theta=0.05)", [("driver:receipts:3",), ("random:5:6",)]),
    ],
)
def test_killed_among_rebalances(strategy, deaths, tmp_path):
    """Driver and workers die in and around the migrations a planner asks for; nothing is lost or repeated."""
    streams(tmp_path, batches=6)
    codes = [run(tmp_path, 4, *kills, strategy=strategy) for kills in deaths]
    assert codes == [37, 0], (tmp_path / "log").read_text()
    assert len(list(tmp_path.glob("killed-*"))) > 1
    assert rebalances(tmp_path)
    check_output(tmp_path)


@pytest.mark.slow
def test_killed_in_the_middle_of_each_change_of_size(tmp_path):
    """2 -> 8 -> 3 instances within a run, the driver killed during either change: nothing is lost or repeated."""
    streams(tmp_path, batches=6)
    sizes = "sizes:2,2,8,8,3,3"
    codes = [run(tmp_path, 2, f"driver:migrated:{batch}", strategy=sizes) for batch in (2, 4)]
    assert [*codes, run(tmp_path, 2, strategy=sizes)] == [37, 37, 0], (tmp_path / "log").read_text()
    check_output(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["sealed", "joined", "receipt"])
def test_worker_killed_at_each_step(step, tmp_path):
    """os._exit in the worker of instance 1 at each of its steps."""
    streams(tmp_path, batches=2)
    assert run(tmp_path, 2, f"worker:{step}:1") == 0, (tmp_path / "log").read_text()
    assert (tmp_path / f"killed-worker-{step}-1").exists()
    check_output(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("moments", [(1,), (0, 2, 5)])
def test_sigkill_of_the_whole_process_group(moments, tmp_path):
    """SIGKILL to driver, JVM and workers at once, at moments nobody chose."""
    streams(tmp_path, batches=8)
    for already in moments:
        process = begin(tmp_path, 2)
        deadline = time.time() + 120
        while len(list((tmp_path / "ck" / "commits").glob("[0-9]*"))) <= already and time.time() < deadline:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert run(tmp_path, 2) == 0
    check_output(tmp_path)


HOPS = [f"all:{step}{hop}:{batch}" for batch, (step, hop) in enumerate(
    (step, hop) for hop in ("", " at hop 1") for step in ("joined", "sealed", "receipt"))]  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("strategy", ["trijoin", "tree", "trijoin(packing=paired)"])
def test_three_sides_killed_at_each_step(strategy, tmp_path):
    """SIGKILL of driver and JVM at each step of either hop, then at each step of the commit story, on one checkpoint:
    each result is in the sink once."""
    streams(tmp_path, batches=9, rows=20, sides="lrm")
    driver = [f"driver:{step}:6" for step in ("begin", "executed", "receipts", "commit", "committed")]
    for kill in (*HOPS, *driver, "driver:collected:7"):
        assert run(tmp_path, 3, kill, strategy=strategy) in (37, -signal.SIGKILL), (tmp_path / "log").read_text()
    assert run(tmp_path, 3, "random:1:5", strategy=strategy) == 0, (tmp_path / "log").read_text()
    assert len(list(tmp_path.glob("killed-*"))) > len(HOPS) + len(driver) + 1
    check_output(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["trijoin", "tree"])
def test_an_executor_is_lost_at_the_second_hop(strategy, tmp_path, monkeypatch):
    """SIGKILL of one of two executors while the second hop runs: what its tasks of the first hop have sent is lost with
    it. They run again on the other one, and the rows are the same."""
    monkeypatch.setenv("MASTER", "local-cluster[2,1,1024]")
    streams(tmp_path, batches=4, rows=20, sides="lrm")
    assert run(tmp_path, 4, "executor:joined at hop 1:2", strategy=strategy) == 0, (tmp_path / "log").read_text()
    assert (tmp_path / "lost-executor").exists()
    check_output(tmp_path)
