"""The workloads of three sides are what they say, DuckDB counts them right, and the benches tell what they saw."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import oracle
from evenjoin.bench import theta3, three_keys, three_way, trijoin
from evenjoin.bench.catalog import NAMES, workload
from evenjoin.bench.compare import NATIVE, Plan, job_of
from evenjoin.bench.cpu import Usage
from evenjoin.bench.jobs import Job, JobError, Outcome, run_job
from evenjoin.bench.join_workload import JoinWorkload, Size
from evenjoin.bench.ours import run_embedded
from evenjoin.bench.peers import joined_tables, parquet_tables, run_duckdb, steps_of
from evenjoin.bench.three_way import Answer, Race, Turn
from evenjoin.bench.trijoin import SCHEMA, SPAN_US, Density, NearStreams
from evenjoin.bench.workloads import EPOCH_US
from evenjoin.errors import SpecError
from evenjoin.load.report import InstanceLoad, LoadReport, PackLoad

THREE = (*trijoin.NAMES, *three_keys.NAMES)
SMALL = Size(rows=120, batches=3)


def whole(found: JoinWorkload) -> dict[str, pa.Table]:
    return {alias: pa.concat_tables(found.streams.side(number)) for number, alias in enumerate(found.aliases)}


def written(found: JoinWorkload, folder: Path) -> dict[str, str]:
    return {alias: str(path) for alias, path in found.write(folder).items()}


@pytest.mark.parametrize("name", THREE)
def test_the_same_seed_gives_the_same_batches(name: str) -> None:
    """And another seed others; the catalog knows them all."""
    assert name in NAMES
    one, two, other = (whole(workload(name, replace(SMALL, seed=seed))) for seed in (7, 7, 8))
    assert one == two
    assert all(one[alias] != other[alias] for alias in one)


@pytest.mark.parametrize("name", THREE)
def test_each_batch_covers_its_own_time(name: str) -> None:
    """No batch begins before the one before it has ended: nothing is late."""
    found = workload(name, SMALL)
    for number in range(3):
        times = [table["ts"].cast(pa.int64()).to_numpy() for table in found.streams.side(number)]
        assert len(times) == found.batches
        assert times[0].min() >= EPOCH_US
        assert all(one.max() < two.min() for one, two in pairwise(times))


@pytest.mark.parametrize("name", THREE)
def test_the_steps_are_the_condition_side_by_side(name: str) -> None:
    """The first step reads the first two sides, the second all of them or the last two; together they are it."""
    found = workload(name)
    assert " AND ".join(found.steps) == found.condition
    assert f"{found.aliases[2]}." not in found.steps[0]
    assert all(f"{alias}." in found.steps[0] for alias in found.aliases[:2])
    assert f"{found.aliases[2]}." in found.steps[1]
    assert all("BETWEEN" in step for step in found.steps)


@pytest.mark.parametrize("name", THREE)
def test_duckdb_counts_in_slices_what_it_finds_without(name: str, tmp_path: Path) -> None:
    """Slices only help: the count is that of the whole cross product with the condition."""
    found = workload(name, Size(rows=600, batches=3) if name.startswith(("packets", "triangle")) else SMALL)
    sides = written(found, tmp_path)
    job = Job("duckdb", sides, found.condition, found.select, "", 2, 1, near=found.near, reach_us=found.reach_us)
    assert "_slice" in joined_tables(job, parquet_tables(sides))
    expected = oracle.joined(whole(found), found.condition, found.select)
    assert run_duckdb(job).results == expected.num_rows > 0
    assert run_duckdb(job).rows == sum(table.num_rows for table in whole(found).values())


@pytest.mark.parametrize("shape", ["cyclic", "chain"])
def test_the_papers_conditions_by_hand(shape: str) -> None:
    """A cycle is strict and has three edges, a chain is not and has two; both within the window."""
    found = workload(f"tri-{shape}(e=2,matches=6,window=0.5)", Size(rows=40, batches=2))
    data = whole(found)
    most = 1 if shape == "cyclic" else 2
    window = SPAN_US // 2
    expected = []
    sides = [table.set_column(6, "ts", table["ts"].cast(pa.int64())).to_pylist() for table in data.values()]
    for r, s, t in product(*sides):
        good = abs(r["i"] - s["i"]) <= most and abs(s["int"] - t["int"]) <= most
        good = good and abs(r["ts"] - s["ts"]) <= window and abs(s["ts"] - t["ts"]) <= window
        if shape == "cyclic":
            good = good and abs(r["int"] - t["i"]) <= most and abs(r["ts"] - t["ts"]) <= window
        if good:
            expected.append((r["l"], s["l"], t["l"]))
    answer = oracle.joined(data, found.condition, ["r.l AS r", "s.l AS s", "t.l AS t"])
    assert sorted(zip(*(answer[name].to_pylist() for name in "rst"), strict=True)) == sorted(expected)
    assert expected


@pytest.mark.parametrize("matches", [1.0, 3.0, 8.0])
@pytest.mark.parametrize("shape", ["cyclic", "chain"])
def test_a_tuple_meets_as_many_as_it_should(shape: str, matches: float) -> None:
    """Pairs of r and s a tuple, counted in the middle of the stream, where the window is whole."""
    streams = NearStreams(shape, Density(matches=matches), rows_per_batch=3_000, batches=3)  # type: ignore[arg-type]
    r, s = streams.batch(0, 1), pa.concat_tables(streams.side(1))
    pairs = oracle.joined({"r": r, "s": s}, trijoin.steps_of(shape, streams.density)[0], ["r.l"])  # type: ignore[arg-type]
    assert pairs.num_rows / 3_000 == pytest.approx(matches, rel=0.1)


def test_tied_tuples_close_cycles_and_skew_piles_up() -> None:
    """More tied tuples, more results; with skew the lower half of the values has more than half of the tuples."""
    results = [
        oracle.joined(whole(found), found.condition, ["r.l"]).num_rows
        for found in (workload(f"tri-cyclic(tied={tied})", Size(600, 3)) for tied in (0, 0.5, 1))
    ]
    assert results[0] < results[1] < results[2]
    even, skewed = (next(workload(f"tri-chain(skew={skew})").streams.side(0))["i"].to_numpy() for skew in (0, 0.9))
    middle = even.max() // 2
    assert (even < middle).mean() == pytest.approx(0.5, abs=0.03)
    assert (skewed < middle).mean() > 0.65


@pytest.mark.parametrize("name", trijoin.NAMES)
def test_a_tuple_has_the_papers_fields_and_size(name: str) -> None:
    """String, double, long, int, int, string: about 80 bytes."""
    table = next(workload(name).streams.side(0))
    assert table.schema == SCHEMA
    assert [str(field.type) for field in SCHEMA][:6] == ["string", "double", "int64", "int32", "int32", "string"]
    assert table.nbytes / table.num_rows == pytest.approx(80, abs=8)
    assert table["s"][0].as_py() != table["s"][1].as_py()


def test_packets_are_heavy_tailed_and_go_both_ways() -> None:
    """Some ports and hosts have much, most have little; lengths are 40 or 1,500, or between."""
    table = pa.concat_tables(workload("packets-chain", Size(20_000, 1)).streams.side(0))
    for name in ("i", "int"):
        ports, counts = np.unique(table[name].to_numpy(), return_counts=True)
        assert ports[counts.argmax()] < 1024
        assert 0.02 < counts.max() / 20_000 < 0.06
        assert np.median(counts) == 1
    hosts, counts = np.unique(table["s"].to_numpy(zero_copy_only=False), return_counts=True)
    assert counts.max() / 20_000 > 0.05
    assert all(len(host) == 15 and host.startswith("010.") for host in hosts[:20])
    lengths, counts = np.unique(table["d"].to_numpy(), return_counts=True)
    assert set(lengths[counts.argsort()[-2:]]) == {40.0, 1500.0}
    assert lengths.min() >= 40
    assert lengths.max() <= 1500


def test_a_purchase_has_the_visit_before_it_and_rooms_are_skewed() -> None:
    """Every purchase after the first batch finds its visit; the hottest room has about an eighth."""
    found = workload("live-commerce", Size(4_000, 3))
    data = whole(found)
    bought = data["b"].slice(2_000)
    users = oracle.joined({"v": data["v"], "b": bought}, found.steps[0], ["b.id"])["id"].to_numpy()
    assert len(np.unique(users)) == bought.num_rows
    _, counts = np.unique(data["v"]["room"].to_numpy(), return_counts=True)
    assert counts.max() / counts.sum() == pytest.approx(1 / 8.2, rel=0.15)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("tri-cyclic(x=1)", "no setting 'x'; there are e, matches, window, tied, skew"),
        ("tri-cyclic(e=many)", "e is a number, not 'many'"),
        ("tri-cyclic(e=0)", "e is at least 1"),
        ("tri-cyclic(", "unknown workload"),
        ("tri-star", "unknown workload 'tri-star'; known: ride-hailing, .*triangle"),
    ],
)
def test_wrong_settings_are_told(name: str, told: str) -> None:
    """What is known or allowed is in the message."""
    with pytest.raises(SpecError, match=told):
        workload(name)


def test_settings_reach_the_streams_and_the_condition() -> None:
    """e in the condition, the window in milliseconds, the density in the range of values."""
    found = workload("tri-chain( e=5, window=2 )", Size(rows=100))
    assert isinstance(found.streams, NearStreams)
    assert found.streams.values == round(100 * 2 * 2 * 11 / 3)
    assert "abs(r.i - s.i) <= 5 AND s.ts BETWEEN r.ts - INTERVAL 20000 MILLISECONDS" in found.condition
    assert found.near == (("r.i", "s.i", 5), ("s.int", "t.int", 5))


def test_spark_gets_steps_and_only_its_rewrite_gets_buckets(tmp_path: Path) -> None:
    """A theta join is rewritten for Spark, a keyed one is chained; several sides without steps are refused."""
    for name, native in (("tri-cyclic", "spark-bucketed"), ("triangle", "spark-hdfs")):
        found = workload(name)
        jobs = {s: job_of(Plan(found, (), 8, tmp_path), s, {}, tmp_path) for s in ("hash", NATIVE, "duckdb")}
        assert [job.system for job in jobs.values()] == ["evenjoin", native, "duckdb"]
        assert (jobs["hash"].near, jobs["duckdb"].near) == ((), found.near)
        assert jobs[NATIVE].steps == found.steps
    with pytest.raises(SpecError, match="3 sides are several two-way joins"):
        steps_of(Job("spark-hdfs", dict.fromkeys("rst", ""), "TRUE", (), "", 1, 1))


def outcome(system: str, rows_per_s: float, results: int = 5) -> Outcome:
    return Outcome(system, 1_000, results, Usage(1.0), (1_000_000 / rows_per_s,))  # type: ignore[arg-type]


def race(*turns: tuple[int, str, float]) -> Race:
    found = tuple(Turn(number, outcome(system, speed), Answer(5, 77)) for number, system, speed in turns)
    return Race("triangle", "hypercube", 2, Answer(5, 77), found)


def test_a_race_is_told_by_the_ratios_of_its_rounds() -> None:
    """Ours over the better peer of the same round; the geometric mean, and the least and the greatest."""
    found = race(
        (0, "spark-hdfs", 100), (0, "spark-rocksdb", 200), (0, "evenjoin", 400), (1, "evenjoin", 800),
        (1, "spark-rocksdb", 50), (1, "spark-hdfs", 100),
    )  # fmt: skip
    assert found.ratios == pytest.approx((2.0, 8.0))
    table = three_way.told([found])
    cells = [list(column.cells) for column in table.columns]
    assert [str(cell) for cell in cells[6]] == ["", "", "4.00x"]
    assert str(cells[7][2]) == "2.00 .. 8.00"
    assert found.right
    wrong = replace(found.turns[0], answer=Answer(5, 78))
    assert not replace(found, turns=(wrong, *found.turns[1:])).right
    assert race((0, "evenjoin", 10)).ratios == ()


def test_files_are_compared_by_every_column(tmp_path: Path) -> None:
    """A row that is missing, twice or wrong in one column is another answer; the order and the files do not matter."""
    found = workload("triangle", Size(rows=600, batches=3))
    sides = written(found, tmp_path / "data")
    expected = three_way.answer_of(found, sides)
    rows = oracle.joined(whole(found), found.condition, found.select)
    wrong = rows.set_column(3, "a", pa.concat_arrays([pa.array([-1]), rows["a"].combine_chunks()[1:]]))
    twice = pa.concat_tables([rows.slice(1), rows.slice(1, 1)])
    tables = {"right": rows, "short": rows.slice(1), "twice": twice, "wrong": wrong}
    answers = {}
    for name, table in tables.items():
        for part, piece in enumerate((table.slice(3), table.slice(0, 3))):
            (tmp_path / name / f"batch_id={part}").mkdir(parents=True)
            pq.write_table(piece, tmp_path / name / f"batch_id={part}" / "x.parquet")
        answers[name] = three_way.answer_in(str(tmp_path / name), found.select)
    assert answers["right"] == expected
    assert answers["twice"].rows == expected.rows == answers["wrong"].rows > 3
    assert len(set(answers.values())) == 4
    assert three_way.answer_in(str(tmp_path / "none"), found.select) == Answer(0, 0)


def test_the_race_alternates_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who begins changes from round to round; wrong files are exit code 1; what stays is the JSON and the logs."""
    order: list[str] = []

    def fake(job: Job, folder: Path, timeout_s: float) -> Outcome:
        order.append(job.system)
        assert job.output is not None
        assert not Path(job.output).exists()
        if job.system == "evenjoin":
            assert (job.strategy, job.near) == ("hypercube", ())
        Path(job.output).mkdir(parents=True)
        return outcome(job.system, 10.0)

    monkeypatch.setattr(three_way, "run_job", fake)
    arguments = ["tri-cyclic", "--rounds", "2", "--rows", "50", "--batches", "2", "--out", str(tmp_path)]
    result = CliRunner().invoke(three_way.main, arguments)
    assert result.exit_code == 1, result.output
    assert order == ["spark-bucketed", "evenjoin", "evenjoin", "spark-bucketed"]
    assert "do not hold what DuckDB finds" in result.output
    saved = json.loads((tmp_path / "tri-cyclic.json").read_text())
    assert (saved["right"], saved["ratios"]) == (False, [1.0, 1.0])
    assert not any((tmp_path / "tri-cyclic" / leftover).exists() for leftover in ("data", "run"))


def report(hubs: int = 0) -> LoadReport:
    """Two instances with three sides and a store of packs each."""
    packs = (PackLoad("s@r", made=2, pairs=5, sent=1, sent_bytes=50, alive=4, alive_pairs=9),)
    counts = ((3, 4, 5), (1, 1, 1), (0, 0, 2), 100)
    loads = (InstanceLoad(n, *counts, 5.0 + n, (2, 2, 2), (10, 20, 30), packs, hubs, 7, 1.5 * n) for n in range(2))
    return LoadReport(0, tuple(loads), (), (), ())


def test_counters_are_summed_over_instances_and_stores() -> None:
    """What is sent and stored are tuples and packs; busy and waiting time are the greatest."""
    assert theta3.counters_of(report(hubs=3)) == theta3.Counters(
        probes=6, stored=32, stored_bytes=200, busiest_ms=6.0, hubs=6, members=14, packs=4, pairs=10, sent=14,
        sent_bytes=220, waiting_ms=1.5,
    )  # fmt: skip


def test_a_run_is_a_row() -> None:
    """Totals over all batches, medians of warm ones, state after the last."""
    batches = tuple(theta3.counters_of(report(hubs=n)) for n in (1, 2, 3, 4))
    run = theta3.Run("tri-chain", "tree", 9, "split", outcome("evenjoin", 2_000), 5, batches)
    row = dict(zip(theta3.COLUMNS, theta3.cells(run), strict=True))
    assert row == {
        "": "tri-chain", "strategy": "tree", "n": "9", "batch ms": "500", "busiest ms": "6", "rows/s": "2,000",
        "hubs": "20", "members": "56", "packs": "16", "pairs": "40", "sent": "56", "sent MB": "0.0", "stored": "32",
        "stored MB": "0.0", "waiting ms": "2",
    }  # fmt: skip
    saved = json.loads(json.dumps(theta3.document([run], "spark")))["runs"][0]
    assert (saved["right"], saved["hubs"], saved["sent_bytes"], saved["layout"]) == (True, 20, 880, "split")


def test_a_strategy_that_fails_is_told_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are measured; a wrong count is exit code 1."""

    def fake(job: Job, folder: Path, timeout_s: float) -> Outcome:
        if job.system == "duckdb":
            return outcome("duckdb", 1.0)
        if job.strategy == "tree":
            raise JobError("no tree\nhere")
        assert job.layout == "split"
        return outcome(job.system, 100.0, results=5 if job.strategy == "trijoin" else 4)

    monkeypatch.setattr(theta3, "run_job", fake)
    monkeypatch.setattr(theta3, "read_counters", lambda checkpoint: (theta3.counters_of(report()),))
    sizes = ["tri-chain", "--rows", "50", "--batches", "2", "--out", str(tmp_path), "--engine", "embedded"]
    result = CliRunner().invoke(theta3.main, [*sizes, "--strategy", "tree", "--strategy", "trijoin"])
    assert result.exit_code == 0, result.output
    assert "tree on 9 did not run: no tree" in result.output
    assert [run["strategy"] for run in json.loads((tmp_path / "theta3.json").read_text())["runs"]] == ["trijoin"]
    result = CliRunner().invoke(theta3.main, [*sizes, "--strategy", "hypercube"])
    assert result.exit_code == 1
    assert "4 results, not 5" in result.output


@pytest.fixture
def two_sided(tmp_path: Path) -> Job:
    """A job of the embedded engine on two sides, which needs nothing new."""
    found = workload("zipf1.0", Size(300, 3))
    sides = written(found, tmp_path / "data")
    more = {"watermark": found.watermark, "reach_us": found.reach_us}
    return Job("embedded", sides, found.condition, found.select, str(tmp_path / "ck"), 2, 3, **more)  # type: ignore[arg-type]


def test_the_embedded_engine_is_a_system_like_others(two_sided: Job, tmp_path: Path) -> None:
    """It counts what DuckDB counts, and its commits can be read."""
    found = run_job(two_sided, tmp_path / "run")
    expected = run_duckdb(replace(two_sided, system="duckdb"))
    assert (found.rows, found.results) == (expected.rows, expected.results)
    assert len(found.batch_ms) == 3 == len(theta3.read_counters(two_sided.checkpoint))


EACH = [(name, strategy) for name in THREE for strategy in workload(name).compared.split(",")]


@pytest.mark.parametrize(("name", "strategy"), EACH)
def test_every_strategy_answers_as_duckdb_does(name: str, strategy: str, tmp_path: Path) -> None:
    """Those that are compared by default, on the embedded engine, over batches of which some expire."""
    found = workload(name, Size(rows=300, batches=4))
    sides = written(found, tmp_path / "data")
    job = Job("embedded", sides, found.condition, found.select, str(tmp_path / "ck"), 2, 4, watermark=found.watermark)
    expected = run_duckdb(replace(job, near=found.near, reach_us=found.reach_us))
    done = run_embedded(replace(job, strategy=strategy))
    assert (done.rows, done.results) == (expected.rows, expected.results)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("name", ["common-key", "live-commerce", "triangle", "tri-cyclic", "tri-chain"])
def test_what_spark_makes_of_three_sides_is_what_duckdb_finds(name: str, tmp_path: Path) -> None:
    """Two joins one after the other, or their rewrite into buckets, row by row."""
    found = workload(name, Size(rows=600, batches=4))
    sides = written(found, tmp_path / "data")
    job = three_way.job_of(found, "spark-bucketed" if found.near else "spark-hdfs", "", 2, sides, tmp_path / "run")
    done = three_way.turn(job, 0, tmp_path)
    assert done.answer == three_way.answer_of(found, sides)
    assert done.outcome.results == done.answer.rows > 0
    assert len(done.outcome.batch_ms) == 4
