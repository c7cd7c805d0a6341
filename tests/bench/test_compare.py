"""A comparison says what its runs were: figures by hand, no Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

import evenjoin
from evenjoin.bench import compare as module
from evenjoin.bench.catalog import workload
from evenjoin.bench.compare import (
    NATIVE,
    Comparison,
    Plan,
    Run,
    Trace,
    compare,
    job_of,
    options_of,
    read_trace,
    suiting,
)  # fmt: skip
from evenjoin.bench.compare_page import page, save, told
from evenjoin.bench.compare_plots import plots
from evenjoin.bench.compare_report import (
    COLUMNS,
    agreement,
    as_document,
    cells,
    main_table,
    measure_rows,
    order_of_tasks,
    show,
)
from evenjoin.bench.cpu import Usage
from evenjoin.bench.jobs import Job, JobError, JobGivenUp, JobTimeout, JoinOptions, Outcome
from evenjoin.bench.join_workload import Size
from evenjoin.bench.workloads import ZIPF_SCHEMA
from evenjoin.events import Migration
from evenjoin.page.follow import read_whole
from evenjoin.strategies import resolve
from evenjoin.strategies.elastic import elastic
from evenjoin.strategies.square import Square

MOVED = Migration(
    2, "fastjoin on 2", "fastjoin on 2", 1234, 56789, 40.0, "imbalance", imbalance_before=9.5, imbalance_forecast=2.0,
    planner_ms=1.25, forecast_tuples=1200, imbalance_after=2.1, busy_after=1.1,
)  # fmt: skip


def outcome(system: str = "evenjoin", ms: float = 100.0, results: int = 4_000) -> Outcome:
    batch_ms = () if system == "duckdb" else (9 * ms, 9 * ms, ms, 2 * ms)
    return Outcome(system, 1_000, results, Usage(1.0), batch_ms)  # type: ignore[arg-type]


def run(name: str, measures: dict[str, tuple[float, ...]], *migrations: Migration) -> Run:
    trace = Trace(
        (5.0, 4.0, 1.5, 1.7), measures, ("even",) * 4, migrations, (10.0, 30.0), (7, 21), (5, 6),
        tasks=(2,) * 4, requests=(8,) * 4, stored=(9,) * 4, alive=(),
    )  # fmt: skip
    return Run(name, outcome(), {"fastjoin": 2.2}.get(name), trace)


def comparison() -> Comparison:
    hashed = run("hash", {"hash": (1.9, 1.8, 1.9, 1.8), "fastjoin": (9.0, 9.0, 9.5, 10.5)})
    fast = run("fastjoin", {"fastjoin": (9.0, 9.5, 2.1, 2.0)}, MOVED)
    native = Run(NATIVE, outcome("spark-hdfs", ms=1_000.0))
    found = workload("G21", Size(rows=100, batches=4))
    return Comparison(found, 2, outcome("duckdb"), (hashed, fast, native))


def test_a_row_has_every_figure_and_a_dash_for_what_a_system_does_not_know() -> None:
    """Times and busy time are of the warm batches, throughput and the own measure of all of them."""
    hashed, fast, native = (dict(zip(COLUMNS, cells(run), strict=True)) for run in comparison().runs)
    assert fast == {
        "": "fastjoin", "results/s": "1,905", "rows/s": "476", "batch ms p50": "150", "p99": "199",
        "busy mean": "1.60", "max": "1.70", "own mean": "5.65", "last": "2.00", "threshold": "2.2",
        "migrated": "1,234", "rebalances": "1", "pause ms": "40",
    }  # fmt: skip
    assert (hashed["threshold"], hashed["migrated"], hashed["rebalances"]) == ("-", "0", "0")
    assert (native["batch ms p50"], native["busy mean"], native["pause ms"]) == ("1,500", "-", "-")


def test_the_table_shows_that_hash_stays_above_the_threshold_of_another() -> None:
    """Every run by every planner's measure: hash is over FastJoin's theta, FastJoin is not."""
    console = Console(record=True, width=160, force_terminal=True, color_system="standard")
    show(comparison(), console)
    coloured = console.export_text(styles=True, clear=False)
    assert re.search(r"31m\s*9.50 \(10.50\)", coloured)
    assert re.search(r"32m\s*5.65 \(2.00\)", coloured)
    text = console.export_text()
    assert "fastjoin (<= 2.2)" in text
    assert "All agree with DuckDB's batch join: 1,000 rows, 4,000 results" in text


@pytest.mark.parametrize("wrong", ["a strategy", "Spark", "the rows"])
def test_counts_that_differ_are_seen(wrong: str) -> None:
    """One result or one row off, whoever it is, and the counts do not agree."""
    found = comparison()
    runs = list(found.runs)
    at = {"a strategy": 1, "Spark": 2, "the rows": 0}[wrong]
    off = {"rows": 999} if wrong == "the rows" else {"results": 3_999}
    runs[at] = replace(runs[at], outcome=replace(runs[at].outcome, **off))
    assert found.counts_agree
    assert not replace(found, runs=tuple(runs)).counts_agree
    assert "do not agree" in agreement(replace(found, runs=tuple(runs)))


CRAFTED = "[red]x[/red]\x1b[31m\u202e\n<script>a()</script>\"'&"


def test_names_and_conditions_do_nothing_on_a_page_or_a_terminal() -> None:
    """Markup and escape sequences of a workload, a condition and a strategy are shown, not obeyed."""
    found = comparison()
    runs = (*found.runs, run(CRAFTED, {CRAFTED: (1.0,) * 4, "fastjoin": (1.0,) * 4}, MOVED))
    crafted = replace(found.workload, name=CRAFTED, condition=CRAFTED)
    found = replace(found, workload=crafted, runs=runs)
    whole, text = page(found, {CRAFTED: b"picture"}), told(found, {CRAFTED: b"picture"})
    assert "<script>a" not in whole
    assert "<script" not in text
    assert "\u202e" not in whole
    shown = "[red]x[/red]\\x1b[31m\\u202e\\n&lt;script&gt;a()&lt;/script&gt;&quot;&#x27;&amp;"
    other = shown.replace("&quot;&#x27;", "&#34;&#39;")
    assert f"<h1>evenjoin compare {other}</h1>" in whole
    assert f"<code>{other}, watermark" in whole
    assert f"<td>{shown}</td>" in text
    assert f'alt="{shown}"' in text
    console = Console(record=True, width=400, force_terminal=True, color_system="standard")
    show(found, console)
    printed = console.export_text(styles=True)
    assert "[red]x[/red]\\x1b[31m\\u202e\\n<script>" in printed
    assert "\u202e" not in text + printed
    assert "\x1b" not in text


def test_files_are_json_plots_and_one_page_that_loads_nothing(tmp_path: Path) -> None:
    """The page holds the pictures themselves, the table and the migrations."""
    paths = save(comparison(), tmp_path / "deep" / "out")
    names = {path.name for path in paths}
    assert names == {
        "compare.json", "compare.html", "imbalance.png", "batch-time.png", "load.png", "own-imbalance.png"
    }  # fmt: skip
    assert all((tmp_path / "deep" / "out" / name).stat().st_size > 500 for name in names)
    html = (tmp_path / "deep" / "out" / "compare.html").read_text()
    assert html.count("data:image/png;base64,") == 4
    assert not re.search(r'<[a-z]+ [^>]*(src|href)="(?!data:)', told(comparison(), {}))
    assert "default-src &#39;none&#39;" in html
    for text in ("1,905", "1,234", "9.50", "imbalance", "G21", "Spark&#x27;s own", 'class="over"'):
        assert text in html
    saved = json.loads((tmp_path / "deep" / "out" / "compare.json").read_text())
    assert saved["counts_agree"] is True
    assert saved["thresholds"] == {"fastjoin": 2.2}
    assert [entry["name"] for entry in saved["runs"]] == ["hash", "fastjoin", NATIVE]
    assert saved["runs"][1]["migrated"] == 1234
    assert saved["runs"][1]["trace"]["migrations"] == [MOVED.to_json()]
    assert saved["runs"][1]["trace"]["migrations"][0]["pause_ms"] == 40.0
    assert saved["runs"][1]["trace"]["migrations"][0]["to"] == "fastjoin on 2"


def sized(*tasks: tuple[int, ...]) -> Comparison:
    """Runs named adsp, square, ... with these tasks a batch; 25, 50, 75 and 100 tuples are alive after each, V = 30."""
    runs = []
    for name, some in zip(("adsp", "square", "dynamic"), tasks, strict=False):
        made = run(name, {name: (1.0,) * 4}, replace(MOVED, tuples=10 * max(some)))
        assert made.trace is not None
        more = {"requests": (60, 60, 60, 120), "stored": (25, 50, 75, 100), "alive": (25, 50, 75, 100)}
        runs.append(replace(made, trace=replace(made.trace, tasks=some, **more)))  # type: ignore[arg-type]
    return Comparison(replace(workload("B_NCI", Size(100, 4)), capacity=30), 1, outcome("duckdb"), tuple(runs))


def test_strategies_that_size_themselves_are_compared_by_tasks() -> None:
    """A-DSP's measures: tasks, execution time, join requests a task, migration volume, resource cost."""
    found = sized((1, 1, 2, 3), (1, 2, 4, 4), (1, 4, 4, 16))
    columns, rows = main_table(found)
    first = dict(zip(columns, rows[0], strict=True))
    assert first == {
        "": "adsp", "tasks mean": "1.8", "max": "3", "time s": "2.1", "rows/s": "476", "results/s": "1,905",
        "requests/task": "48", "migrated": "30", "rebalances": "1", "pause ms": "40", "task s": "3", "tuple s": "95",
    }  # fmt: skip
    assert found.least_tasks() == (1, 1, 2, 3)
    assert order_of_tasks(found).startswith(
        "Tasks at every batch: adsp <= square <= dynamic holds. adsp takes at most 1.00"
    )
    assert "does not hold" in order_of_tasks(sized((1, 3, 3, 3), (1, 2, 4, 4)))
    assert "at most 1.50 times" in order_of_tasks(sized((1, 1, 3, 3), (1, 2, 4, 4)))


def test_their_page_has_the_tasks_and_the_migration_volume(tmp_path: Path) -> None:
    """Two more pictures, and no table of imbalances."""
    names = {path.name for path in save(sized((1, 1, 2, 3), (1, 2, 4, 4)), tmp_path)}
    assert {"tasks.png", "migrated.png"} <= names
    html = (tmp_path / "compare.html").read_text()
    assert "tasks of 30 tuples" in html
    assert "adsp &lt;= square holds" in html
    assert "own measure" not in html
    console = Console(record=True, width=160)
    show(sized((1, 1, 2, 3), (1, 2, 4, 4)), console)
    assert "adsp <= square holds" in console.export_text()
    assert json.loads((tmp_path / "compare.json").read_text())["runs"][0]["tasks_cost"] == pytest.approx(2.6)


def test_what_a_user_writes_is_escaped() -> None:
    """A name with markup in it does not become markup."""
    found = comparison()
    odd = replace(found.runs[1], name="<b>x</b>", threshold=None)
    odd = replace(odd, trace=replace(odd.trace, measures={"<b>x</b>": (1.0,) * 4}))  # type: ignore[arg-type]
    html = told(replace(found, runs=(odd,)), {})
    assert "<b>x</b>" not in html
    assert "&lt;b&gt;x&lt;/b&gt;" in html


def test_json_has_null_for_what_is_no_number() -> None:
    """NaN and infinity are not JSON."""
    found = comparison()
    odd = replace(found.runs[0], trace=replace(found.runs[0].trace, busy=(nan, inf, nan, nan)))  # type: ignore[arg-type]
    document = as_document(replace(found, runs=(odd,)))
    assert document["runs"][0]["trace"]["busy"] == [None] * 4
    json.dumps(document, allow_nan=False)


def test_plots_without_planners_or_with_one_batch() -> None:
    """Spark alone, or a single batch, still gives pictures."""
    found = comparison()
    alone = plots(replace(found, runs=(found.runs[2],)))
    assert set(alone) == {"imbalance", "batch-time", "load"}
    assert all(data.startswith(b"\x89PNG") for data in alone.values())


def test_strategies_without_a_planner_run_with_counts(tmp_path: Path) -> None:
    """So that the others' measures can be asked of their reports; planners ask for what they need themselves."""
    plan = Plan(workload("G22"), ("hash", "djb", NATIVE), 8, tmp_path)
    jobs = {system: job_of(plan, system, {"l": "a", "r": "b"}, tmp_path) for system in (*plan.systems, "duckdb")}
    assert [job.system for job in jobs.values()] == ["evenjoin", "evenjoin", "spark-hdfs", "duckdb"]
    assert jobs["hash"].options == JoinOptions(track=128)
    assert jobs["djb"].options == JoinOptions()
    assert plan.strategies == ("hash", "djb")


def test_sized_runs_have_the_papers_thresholds_and_the_guards_asked_for(tmp_path: Path) -> None:
    """80 % and 50 % of V, without a cool-down; ContRand starts with a task for each subgroup, and side if they are
    apart. Without a capacity nothing is scaled."""
    found = workload("ratio", Size(10, 2))
    plan = Plan(found, ("adsp", "contrand(groups=6)"), 8, tmp_path)
    options = options_of(plan, "adsp")
    assert options.scaling is not None
    assert (options.scaling.scale_in, options.scaling.scale_out, options.scaling.fill) == (0.5, 0.8, 0.65)
    assert (options.guards.cooldown, options.scaling.min_instances) == (0, 1)
    starts = [options_of(replace(plan, layout=layout), "contrand(groups=6)").scaling for layout in ("shared", "split")]
    assert [scaling.min_instances for scaling in starts if scaling] == [6, 12]
    guards = evenjoin.Guards(budget=9)
    assert options_of(replace(plan, guards=guards), "adsp").guards is guards
    fixed = options_of(replace(plan, workload=replace(found, capacity=None)), "adsp")
    assert (fixed.scaling, fixed.guards) == (None, evenjoin.Guards())


def test_a_strategy_is_left_out_where_it_cannot_run() -> None:
    """On a band the papers' line-ups run, A-DSP's and D-JB's; FastJoin's load model does not hold there."""
    names = ["adsp", "square", "dynamic", "random", "contrand(groups=6)", "readj", "djb"]
    for name in ("ratio", "social", "stock", "B_NCI"):
        assert suiting([*names, "fastjoin", "lsstream"], workload(name, Size(10, 2)), 8) == names
    keyed = replace(workload("G11", Size(10, 2)), capacity=30)
    assert suiting(["adsp", "contrand(groups=6)", "fastjoin"], keyed, 8) == ["adsp", "contrand(groups=6)", "fastjoin"]


def test_a_line_up_has_those_that_can_run_the_join() -> None:
    """A band runs on ordered buckets too. Without a key that all sides share hash cannot run. A fixed
    number of instances must be a power of two for Dynamic, and at least ContRand's groups; layout split gives each side
    half of them."""
    names = ("adsp", "dynamic", "hash", "contrand(groups=6)")
    band, keyed = workload("ratio", Size(10, 2)), replace(workload("G11", Size(10, 2)), capacity=30)
    assert suiting(names, band, 8) == [*names]
    assert suiting(names, keyed, 8) == [*names]
    assert suiting(names, replace(keyed, capacity=None), 6) == ["adsp", "hash", "contrand(groups=6)"]
    assert suiting(names, replace(keyed, capacity=None), 8, "split") == ["adsp", "dynamic", "hash"]
    assert suiting(("hash", "hypercube"), workload("triangle", Size(10, 2)), 8) == ["hypercube"]


@pytest.mark.parametrize(("name", "groups"), [("G22", 2), ("ride-hailing", 2), ("city", 2), ("E_Q5", 6), ("Q5", 6)])
def test_contrand_is_in_the_usual_line_up_on_equal_keys(name: str, groups: int) -> None:
    """As BiStream-ContRand is in FastJoin's and LS-Stream's experiments, and Bi6 in A-DSP's."""
    found = workload(name, Size(10, 2))
    assert f"contrand(groups={groups})" in suiting(found.compared.split(","), found, 8)


def test_ideal_is_square_without_the_limit_of_tasks_that_others_have(tmp_path: Path) -> None:
    """A-DSP, Fig. 14: eq. 9 for |R| = |S| = 10,000 and tasks filled up to 65 tuples asks for 308 x 308 tasks."""
    found = replace(workload("ratio", Size(10, 2)), capacity=100)
    scaling = options_of(Plan(found, ("square", "ideal"), 8, tmp_path), "ideal").scaling
    assert scaling is not None
    square, ideal = (elastic(resolve(name), scaling) for name in ("square", "ideal"))
    assert isinstance(square, Square)
    assert isinstance(ideal, Square)
    assert square.scheme(10_000, 10_000).tasks <= module.MOST
    assert ideal.scheme(10_000, 10_000).tasks == 308 * 308


def joined(folder: Path, strategy: str, **settings: Any) -> None:
    """Six skewed batches on the embedded engine."""
    rng = np.random.default_rng(7)
    on = "l.k = r.k AND r.ts BETWEEN l.ts - INTERVAL 2 SECONDS AND l.ts + INTERVAL 2 SECONDS"
    with evenjoin.local(
        {"l": ZIPF_SCHEMA, "r": ZIPF_SCHEMA}, on, event_time="ts", watermark="0 seconds", instances=3,
        checkpoint=folder, strategy=strategy, **settings,
    ) as join:  # fmt: skip
        for second in range(6):
            keys = [rng.zipf(1.3, 400) % 50 for _ in "lr"]
            ts = pa.array([second * 1_000_000] * 400, ZIPF_SCHEMA.field("ts").type)
            tables = [pa.table([key, ts, key, np.arange(400)], schema=ZIPF_SCHEMA) for key in keys]
            join.process(dict(zip("lr", tables, strict=True)))


def test_a_trace_is_what_the_commits_hold(tmp_path: Path) -> None:
    """Own imbalance as the planner saw it, every migration, and totals per instance; hash by FastJoin's measure too."""
    joined(tmp_path / "fast", "fastjoin", guards=evenjoin.Guards(cooldown=0, min_work=0))
    joined(tmp_path / "hash", "hash", track=128)
    fast = read_trace(tmp_path / "fast", "fastjoin", ("hash", "fastjoin"))
    hashed = read_trace(tmp_path / "hash", "hash", ("hash", "fastjoin"))
    assert set(fast.measures) == {"fastjoin"}
    assert set(hashed.measures) == {"hash", "fastjoin"}
    assert fast.migrations
    assert [event.imbalance_after for event in fast.migrations] == [
        fast.measures["fastjoin"][event.batch] for event in fast.migrations
    ]
    assert fast.measures["fastjoin"][0] == hashed.measures["fastjoin"][0]
    assert np.mean(fast.measures["fastjoin"][2:]) < np.mean(hashed.measures["fastjoin"][2:])
    assert len(fast.busy) == len(fast.verdicts) == 6
    assert sum(fast.work_by_instance) == sum(hashed.work_by_instance) > 0
    assert sum(fast.stored_by_instance) == sum(hashed.stored_by_instance)
    assert "rebalance" in fast.verdicts


def test_strategies_of_a_capacity_are_not_asked_of_others(tmp_path: Path) -> None:
    """How full tasks are of a V that the run did not have says nothing: the table has a dash there."""
    joined(tmp_path / "adsp", "adsp")
    joined(tmp_path / "contrand", "contrand(groups=2)", track=128)
    names = ("adsp", "contrand(groups=2)")
    own, other = (read_trace(tmp_path / name[:8].rstrip("("), name, names) for name in names)
    assert np.isfinite(own.measures["adsp"]).all()
    assert np.isnan(other.measures["adsp"]).all()
    runs = (Run("adsp", outcome(), 1.0, own), Run("contrand(groups=2)", outcome(), None, other))
    rows = measure_rows(replace(comparison(), runs=runs), "{}", "{}", str)
    assert rows[1] == ["contrand(groups=2)", "-"]
    assert rows[0][1].endswith("100%")


def test_the_best_of_some_runs_counts_and_nothing_is_left_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each repetition starts from an empty checkpoint; data and checkpoints are gone at the end, whatever happens."""
    speeds = iter([300.0, 100.0, 200.0])

    def fake(job: Job, folder: Path, timeout_s: float, hopeless: Callable[[], bool] = lambda: False) -> Outcome:
        hopeless()
        assert not Path(job.checkpoint).exists()
        if job.system == "duckdb":
            return outcome("duckdb")
        joined(Path(job.checkpoint), job.strategy, track=128)
        return outcome(ms=next(speeds))

    monkeypatch.setattr(module, "run_job", fake)
    told: list[tuple[str, int]] = []
    plan = Plan(workload("G11", Size(rows=20, batches=4)), ("hash",), 3, tmp_path / "out", repeat=3)
    found = compare(plan, lambda name, done: told.append((name, done)))
    assert found.runs[0].outcome.batch_ms[2] == 100.0
    assert list((tmp_path / "out").glob("run-*")) == []
    assert ("writing the files", 4) in told
    assert ("hash", 0) in told
    monkeypatch.setattr(module, "run_job", lambda *_: (_ for _ in ()).throw(JobError("no Java")))
    with pytest.raises(JobError, match="no Java"):
        compare(plan)
    assert list((tmp_path / "out").glob("run-*")) == []


def test_rounds_take_turns_in_who_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of several runs is often the fastest; what each round took is kept."""
    ran: list[str] = []

    def fake(job: Job, folder: Path, timeout_s: float, hopeless: Callable[[], bool] = lambda: False) -> Outcome:
        if job.system == "duckdb":
            return outcome("duckdb")
        ran.append(job.strategy)
        joined(Path(job.checkpoint), job.strategy, track=128)
        return outcome(ms=100.0 * len(ran))

    monkeypatch.setattr(module, "run_job", fake)
    plan = Plan(workload("G11", Size(rows=20, batches=4)), ("hash", "fastjoin"), 3, tmp_path / "out", repeat=2)
    found = compare(plan)
    assert ran == ["hash", "fastjoin", "fastjoin", "hash"]
    rounds = {run.name: run.rounds for run in found.runs}
    assert rounds == {
        "hash": (150.0, 600.0),
        "fastjoin": (300.0, 450.0),
    }  # an outcome ends with batches of 1 and 2 times ms


def test_a_hopeless_native_join_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's own runs last, and no longer than 5 times our longest batch without finishing one; what is said is that
    it takes more. Ours are waited for."""
    clock = [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: clock[0])

    def fake(job: Job, folder: Path, timeout_s: float, hopeless: Callable[[], bool] = lambda: False) -> Outcome:
        if job.system == "spark-hdfs":
            waited = []
            while not hopeless():
                clock[0] += 1
                waited.append(clock[0])
            assert len(waited) == module.JVM_START_S + 5 * 0.9 + 0.5
            raise JobGivenUp("hopeless")
        clock[0] += 1000
        if job.system == "evenjoin":
            assert not hopeless()
            joined(Path(job.checkpoint), job.strategy, track=128)
        return outcome(job.system)

    monkeypatch.setattr(module, "run_job", fake)
    found = compare(Plan(workload("G11", Size(rows=20, batches=4)), (NATIVE, "hash"), 3, tmp_path / "out"))
    assert [run.name for run in found.runs] == ["hash", NATIVE]
    assert dict(zip(COLUMNS, cells(found.runs[1]), strict=True))["batch ms p50"] == "> 4,500"
    assert found.counts_agree
    assert agreement(found).endswith(f"{NATIVE} was stopped.")
    assert "&gt; 4,500" in page(found, plots(found))


def test_a_native_join_that_is_late_as_a_whole_is_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says nothing of the time of a batch, so it is an error as for anybody else."""

    def fake(job: Job, folder: Path, timeout_s: float, hopeless: Callable[[], bool] = lambda: False) -> Outcome:
        if job.system == "spark-hdfs":
            raise JobTimeout("late")
        return outcome("duckdb")

    monkeypatch.setattr(module, "run_job", fake)
    with pytest.raises(JobTimeout, match="late"):
        compare(Plan(workload("G11", Size(rows=20, batches=4)), (NATIVE,), 3, tmp_path / "out"))


def test_a_comparison_has_the_board_of_every_run(tmp_path: Path) -> None:
    """The panels of `evenjoin report`, under the name of each strategy; the record has none of it."""
    found = comparison()
    runs = []
    for run_, strategy in zip(found.runs, ("hash", "fastjoin"), strict=False):
        joined(tmp_path / strategy, strategy, track=8)
        runs.append(replace(run_, past=read_whole(tmp_path / strategy)))
    with_boards = replace(found, runs=(*runs, found.runs[2]))
    html = page(with_boards, {})
    assert re.findall(r'<h2 class="run">(\w+)</h2>', html) == ["hash", "fastjoin"]
    assert html.count("<h2>Busy time</h2>") == 2
    assert as_document(with_boards) == as_document(found)
