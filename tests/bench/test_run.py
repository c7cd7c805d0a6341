"""The bench compares like with like: counts must agree, the better peer counts, a failure is not an outcome."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from evenjoin.bench.cpu import Clock, Usage
from evenjoin.bench.jobs import (
    Job,
    JobError,
    JobGivenUp,
    JobTimeout,
    Outcome,
    read_job,
    read_outcome,
    run_job,
    write_outcome,
)
from evenjoin.bench.peers import written
from evenjoin.bench.report import Report, save, show
from evenjoin.bench.run import CONDITION, PEERS, SELECT, WORKLOADS, job_of, main, scaled
from evenjoin.bench.workloads import ZipfStreams, write_zipf

TINY = ZipfStreams(keys=50, exponent=0.8, rows_per_batch=200, batches=3)


def outcome(system: str, ms: float, results: int = 10) -> Outcome:
    return Outcome(system, 1_000, results, Usage(1.0), (ms * 9, ms * 9, ms, ms, ms))  # type: ignore[arg-type]


def report(measure: str, target: float, *outcomes: Outcome) -> Report:
    return Report("W", TINY, measure, {"evenjoin": target, "evenjoin-driver": None}, 1.0, outcomes)  # type: ignore[arg-type]


def test_throughput_is_compared_with_the_better_provider() -> None:
    """rows/s: ours over the faster of Spark's two; met when at least the target."""
    found = report("rows/s", 5.0, outcome("spark-hdfs", 100), outcome("spark-rocksdb", 60), outcome("evenjoin", 10))
    assert found.peer is not None
    assert found.peer.system == "spark-rocksdb"
    (ours,) = found.ours
    assert found.ratio(ours) == pytest.approx(6.0)
    assert found.steady(ours) == pytest.approx(6.0)
    assert found.met(ours) is True
    assert replace(found, targets={"evenjoin": 6.5}).met(ours) is False


def test_batch_time_is_the_median_after_the_first_two() -> None:
    """batch ms: ours over the better peer's, warm batches only; met when at most the target."""
    found = report("batch ms", 0.5, outcome("spark-hdfs", 100), outcome("evenjoin", 40))
    (ours,) = found.ours
    assert found.ratio(ours) == pytest.approx(0.4)
    assert found.steady(ours) == pytest.approx(2.5)
    assert found.met(ours) is True


def test_each_place_has_a_ratio_of_its_own() -> None:
    """On executors and in the driver's process; where nothing is promised, nothing is met or missed."""
    found = report("rows/s", 5.0, outcome("spark-hdfs", 100), outcome("evenjoin", 25), outcome("evenjoin-driver", 10))
    assert [found.ratio(ours) for ours in found.ours] == [pytest.approx(4.0), pytest.approx(10.0)]
    assert [found.met(ours) for ours in found.ours] == [False, None]
    console = Console(record=True, width=140)
    show([found], console)
    text = console.export_text()
    assert "4.00x" in text
    assert "10.00x" in text


def test_without_peers_there_is_no_ratio() -> None:
    """--skip-peers says nothing about the target, rather than something wrong."""
    found = report("rows/s", 5.0, outcome("evenjoin", 10))
    assert found.ratio(found.ours[0]) is None
    assert found.met(found.ours[0]) is None


def test_systems_that_disagree_are_seen(tmp_path: Path) -> None:
    """One result too few is in the table and in the file."""
    found = report("rows/s", 5.0, outcome("spark-hdfs", 100), outcome("evenjoin", 10, results=9))
    assert not found.counts_agree
    console = Console(record=True, width=100)
    show([found], console)
    assert "do not agree" in console.export_text()
    save(found, tmp_path / "deep" / "W.json")
    saved = json.loads((tmp_path / "deep" / "W.json").read_text())
    assert saved["counts_agree"] is False
    assert saved["outcomes"][1]["ratio"] == pytest.approx(10.0)
    assert {"cores", "python", "pyspark"} <= set(saved["machine"])


@pytest.mark.parametrize("name", ["W3", "W4", "W5"])
def test_values_survive_the_way_to_another_process(name: str, tmp_path: Path) -> None:
    """Job (W4: with guards and scaling, W5: with steps) and Outcome are the same after JSON."""
    job = job_of(WORKLOADS[name], "evenjoin", {"l": "a", "r": "b"}, tmp_path)
    (tmp_path / "job.json").write_text(json.dumps(asdict(job)))
    assert read_job(tmp_path / "job.json") == job
    write_outcome(outcome("duckdb", 5), tmp_path / "outcome.json")
    assert read_outcome(tmp_path / "outcome.json") == outcome("duckdb", 5)


def test_the_workloads_are_the_promised_ones() -> None:
    """Sizes and targets; scaling changes only the rows of a batch."""
    assert {name: (w.streams.rows, w.measure, w.target) for name, w in WORKLOADS.items()} == {
        "W1": (8_000_000, "rows/s", 9.0),
        "W2": (800_000, "rows/s", 5.0),
        "W3": (60_000, "batch ms", 0.6),
        "W4": (2_080_000, "batch ms", 1 / 8),
        "W5": (3_000_000, "rows/s", 4.0),
    }
    assert scaled(WORKLOADS["W1"], 1.0) is WORKLOADS["W1"]
    assert scaled(WORKLOADS["W1"], 0.1).streams == replace(WORKLOADS["W1"].streams, rows_per_batch=40_000)


def tiny_job(tmp_path: Path, system: str) -> Job:
    sides = {side: str(path) for side, path in write_zipf(TINY, tmp_path / "data").items()}
    return Job(system, sides, CONDITION, SELECT, str(tmp_path / "ck"), cores=2, instances=2)  # type: ignore[arg-type]


def test_duckdb_counts_the_pairs_in_another_process(tmp_path: Path) -> None:
    """The oracle agrees with a join by hand."""
    import pyarrow.parquet as pq

    found = run_job(tiny_job(tmp_path, "duckdb"), tmp_path / "run")
    left, right = (pq.read_table(tmp_path / "data" / side).to_pylist() for side in ("l", "r"))
    near = sum(a["k"] == b["k"] and abs((a["ts"] - b["ts"]).total_seconds()) <= 2 for a in left for b in right)
    assert (found.rows, found.results) == (1_200, near)
    assert found.rows_per_s > 0


def test_results_that_were_written_are_compared_as_multisets(tmp_path: Path) -> None:
    """The order of rows and files does not matter, one other value does, and so does a row that is there twice."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def digest(name: str, *parts: list[int]) -> tuple[int, str]:
        (tmp_path / name).mkdir()
        for number, part in enumerate(parts):
            pq.write_table(pa.table({"b": part, "a": ["x"] * len(part)}), tmp_path / name / f"{number}.parquet")
        return written(str(tmp_path / name))

    assert digest("one", [1, 2], [3]) == digest("two", [3, 2, 1])
    assert digest("other", [1, 2, 4])[1] != digest("same", [1, 2, 3])[1]
    assert digest("twice", [1, 2, 2])[1] != digest("thrice", [1, 1, 2])[1]
    found = run_job(replace(tiny_job(tmp_path, "duckdb"), output=str(tmp_path / "out")), tmp_path / "run")
    assert (found.results, found.digest) == written(str(tmp_path / "out"))


def test_a_failed_run_is_an_error_with_the_end_of_its_log(tmp_path: Path) -> None:
    """No outcome without a run: the folder of one side is missing."""
    job = replace(tiny_job(tmp_path, "duckdb"), folders={"l": str(tmp_path / "data" / "l"), "r": str(tmp_path / "no")})
    with pytest.raises(JobError, match=r"(?s)duckdb failed.*no"):
        run_job(job, tmp_path / "run")
    with pytest.raises(JobTimeout, match="did not finish"):
        run_job(job, tmp_path / "run", timeout_s=0.01)
    with pytest.raises(JobGivenUp, match="given up"):
        run_job(job, tmp_path / "run", hopeless=lambda: True)


def test_the_clock_sees_the_work_of_children() -> None:
    """CPU seconds include ours; on systems without /proc they are 0."""
    clock = Clock()
    sum(i * i for i in range(2_000_000))
    used = clock.read()
    assert used.wall_s > 0
    if Path("/proc/self/stat").exists():
        assert 0 < used.cpu_s < used.wall_s + 1
        assert used.peak_mb > 1


def test_usage_errors(tmp_path: Path) -> None:
    """An unknown workload or a scale of 0 is exit code 2."""
    for arguments in (["--workload", "W9"], ["--scale", "0"]):
        assert CliRunner().invoke(main, arguments).exit_code == 2


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("system", [*PEERS, "evenjoin"])
def test_every_system_finds_what_duckdb_finds(tmp_path: Path, system: str) -> None:
    """Same files, same number of results, one duration per batch."""
    expected = run_job(tiny_job(tmp_path, "duckdb"), tmp_path / "run")
    found = run_job(tiny_job(tmp_path, system), tmp_path / "run")
    assert (found.rows, found.results) == (expected.rows, expected.results)
    assert len(found.batch_ms) == TINY.batches
