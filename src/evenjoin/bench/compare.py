"""Strategies against each other: one workload, the same files, one process after the other.

    write the files -> DuckDB counts the results -> each strategy on Spark -> its commits, read back -> Comparison

Every run has a process and a checkpoint of its own, so nothing is warm because of an earlier one. What a run was like
comes from its commits: the load reports, the imbalance by the strategy's own measure, the migrations. Strategies
without a planner run with heavy keys and stored tuples counted as well (`track`): that costs them what it costs the
others, and each planner's measure can then be asked of their reports. Every run is measured by every planner's measure.

Three sides are two joins one after the other for Spark, and a band without an equality is rewritten (``peers``).
Spark's own join of a hot key may take hours. It is stopped when a batch has taken HOPELESS times as long as the longest
of ours; then its time is only known to be more than that.

A workload with a task capacity V lets every strategy size itself (``instances="auto"``) with the thresholds of A-DSP's
Sec. 5.4: a scheme changes when a task holds more than 80 % of V, or tasks less than 50 %; Dynamic's own rule is half of
V. There is no cool-down, as there is none in the paper. Other than in the paper a scheme is made for 65 % of V and not
for V, because a task that is filled above 80 % would call for the next scheme at once. So task numbers can be compared
with each other, and are above those for V. ContRand starts with one task in each subgroup, and these grow. With a fixed
number of instances (`--fixed`) V is not used.

Invariant: all runs that finished, and DuckDB, read the same rows and find the same number of results, or
``counts_agree`` is false.
Not here: tables, plots and files (``compare_report``, ``compare_plots``, ``compare_page``); what the workloads are
(``catalog``).
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, isfinite, nan
from pathlib import Path
from time import monotonic

import numpy as np

from evenjoin.bench.counters import Counters, counters_of
from evenjoin.bench.cpu import Usage
from evenjoin.bench.jobs import JVM_START_S, Job, JobGivenUp, JoinOptions, Outcome, System, run_job
from evenjoin.bench.join_workload import JoinWorkload
from evenjoin.bench.session import cores
from evenjoin.commit.identity import recorded_log
from evenjoin.commit.log import Commit
from evenjoin.errors import SpecError
from evenjoin.events import Migration
from evenjoin.load.items import planning_items
from evenjoin.load.report import LoadReport
from evenjoin.page.follow import Past, read_whole
from evenjoin.placement.table import Layout, RoutingTable
from evenjoin.placement.topology import Biclique
from evenjoin.runtime.dispatch import keeps_together, suits
from evenjoin.runtime.settings import Guards
from evenjoin.state.files import open_folder
from evenjoin.strategies import resolve
from evenjoin.strategies.base import for_join
from evenjoin.strategies.elastic import Scaling, fixed
from evenjoin.strategies.sized import Sized

NATIVE = "Spark's own"
TRACK = 128
WARM = 2
"""Batches left out of batch times and busy times: they pay for warming up. (All count for throughput.)"""
MOST = 256
"""Tasks a strategy that sizes itself may have."""
LIMIT_S = 1800.0
HOPELESS = 5
"""Times the longest batch of ours after which Spark's own join is stopped."""

Watch = Callable[[str, int], None]
"""Told (what is running, batches done) a few times a second."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to compare, and where: `systems` are strategies as a user writes them, or NATIVE."""

    workload: JoinWorkload
    systems: tuple[str, ...]
    instances: int
    folder: Path
    repeat: int = 1
    layout: Layout = "shared"
    guards: Guards | None = None  # None: the usual ones, without a cool-down where strategies size themselves

    @property
    def strategies(self) -> tuple[str, ...]:
        return tuple(system for system in self.systems if system != NATIVE)


@dataclass(frozen=True, slots=True)
class Trace:
    """What the commits of a run say; tuples are by batch, but for those named `by_instance`."""

    busy: tuple[float, ...]  # busiest over mean busy time
    measures: dict[str, tuple[float, ...]]  # strategy -> this run's imbalance by that strategy's measure
    verdicts: tuple[str, ...]  # in words
    migrations: tuple[Migration, ...]
    busy_ms_by_instance: tuple[float, ...]
    work_by_instance: tuple[int, ...]  # probes and results
    stored_by_instance: tuple[int, ...]  # tuples, after the last batch
    tasks: tuple[int, ...]  # instances of each batch
    requests: tuple[int, ...]  # tuples that came to be joined, copies too, of each batch
    stored: tuple[int, ...]  # tuples, copies too, after each batch
    alive: tuple[int, ...]  # tuples after each batch, each counted once; empty if the run does not know
    counters: tuple[Counters, ...] = ()  # of each batch: what was sent, compared and kept


@dataclass(frozen=True, slots=True)
class Run:
    """One system on the workload. Spark's own join has no trace."""

    name: str
    outcome: Outcome
    threshold: float | None = None
    trace: Trace | None = None
    stopped: bool = False  # before its end: the outcome's one batch would have taken longer than it says
    rounds: tuple[float, ...] = ()  # `warm_ms` of each repetition, of which this one was the fastest
    past: Past | None = None  # what its commits show (page/), for the page of the comparison

    @property
    def warm_ms(self) -> float:
        """The mean batch after the first WARM, which pay for warming up; pauses for migrations are part of it."""
        return float(np.mean(self.outcome.batch_ms[WARM:] or self.outcome.batch_ms))

    @property
    def results_per_s(self) -> float:
        return self.outcome.rows_per_s * self.outcome.results / max(self.outcome.rows, 1)

    def batch_ms(self, percent: float) -> float:
        """A percentile of the warm batches' times."""
        return float(np.percentile(self.outcome.batch_ms[WARM:] or self.outcome.batch_ms or (0.0,), percent))

    @property
    def busy(self) -> tuple[float, ...]:
        """Busiest over mean busy time of the warm batches."""
        return (self.trace.busy[WARM:] or self.trace.busy) if self.trace else ()

    @property
    def own(self) -> tuple[float, ...]:
        """The imbalance by the strategy's own measure, of every batch."""
        return self.trace.measures[self.name] if self.trace else ()

    @property
    def migrations(self) -> tuple[Migration, ...]:
        return self.trace.migrations if self.trace else ()

    @property
    def migrated(self) -> int:
        """Tuples moved by all migrations."""
        return sum(event.tuples for event in self.migrations)

    @property
    def pause_ms(self) -> float:
        """How long the batches waited for all migrations."""
        return sum((event.pause_ms for event in self.migrations), 0.0)

    @property
    def seconds(self) -> float:
        """The time of all batches: A-DSP's execution time."""
        return sum(self.outcome.batch_ms) / 1000

    @property
    def requests_per_task(self) -> float:
        """The mean over the batches of the tuples a task was asked to join."""
        if not self.trace:
            return nan
        return float(np.mean([r / n for r, n in zip(self.trace.requests, self.trace.tasks, strict=True)]))

    def cost(self, resource: str) -> float:
        """Resource cost, sum of r * t_r (A-DSP 5.1): "tasks" or "stored" tuples of each batch, times its seconds."""
        used: tuple[int, ...] = getattr(self.trace, resource) if self.trace else ()
        return float(np.dot(used, np.array(self.outcome.batch_ms[: len(used)]) / 1000)) if used else nan


@dataclass(frozen=True, slots=True)
class Comparison:
    """All runs of one workload, and DuckDB's batch join of the same files."""

    workload: JoinWorkload
    instances: int
    oracle: Outcome
    runs: tuple[Run, ...]

    @property
    def counts_agree(self) -> bool:
        """Whether every system read the same rows and found the same number of results."""
        finished = (run.outcome for run in self.runs if not run.stopped)
        return len({(o.rows, o.results) for o in (self.oracle, *finished)}) == 1

    @property
    def sized(self) -> bool:
        """Whether the strategies chose their number of tasks."""
        return self.workload.capacity is not None

    def least_tasks(self) -> tuple[int, ...]:
        """The fewest tasks that could hold the tuples alive before each batch, each stored once: 1-DSP's minimum."""
        known = [run.trace.alive for run in self.runs if run.trace and run.trace.alive]
        if not known or self.workload.capacity is None:
            return ()
        return tuple(max(ceil(alive / self.workload.capacity), 1) for alive in (0, *known[0][:-1]))

    @property
    def planners(self) -> dict[str, float]:
        """The compared strategies that have a planner, with the threshold of their measure."""
        return {run.name: run.threshold for run in self.runs if run.threshold is not None}


def compare(plan: Plan, watch: Watch = lambda name, done: None) -> Comparison:
    """Run everything; data and checkpoints are gone afterwards, each run's log stays below the plan's folder."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="run-", dir=plan.folder))
    written: list[int] = []

    def tick() -> None:
        written.append(1)
        watch("writing the files", len(written) // len(plan.workload.aliases))

    try:
        sides = {alias: str(path) for alias, path in plan.workload.write(scratch / "data", tick).items()}
        watch("DuckDB", 0)
        oracle = run_job(job_of(plan, "duckdb", sides, scratch), plan.folder / "logs" / "duckdb", LIMIT_S)
        runs: dict[str, list[Run]] = {system: [] for system in _in_turn(plan.systems, 0)}
        for turn in range(plan.repeat):
            for system in _in_turn(plan.systems, turn):
                if not any(run.stopped for run in runs[system]):
                    most_ms = HOPELESS * _longest_ms(runs) if system == NATIVE else inf
                    runs[system].append(_run(plan, system, sides, scratch, watch, most_ms))
        return Comparison(plan.workload, plan.instances, oracle, tuple(map(_best, runs.values())))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def job_of(plan: Plan, system: str, sides: dict[str, str], scratch: Path) -> Job:
    """The job of a strategy, of NATIVE, or of "duckdb"."""
    ours = system not in (NATIVE, "duckdb")
    native: System = "spark-bucketed" if plan.workload.near else "spark-hdfs"
    return Job(
        "evenjoin" if ours else native if system == NATIVE else "duckdb",
        sides,
        plan.workload.condition,
        plan.workload.select,
        str(scratch / "checkpoint"),
        cores(),
        plan.instances,
        event_time=plan.workload.event_time,
        watermark=plan.workload.watermark,
        strategy=system if ours else "hash",
        options=options_of(plan, system) if ours else JoinOptions(),
        near=() if ours else plan.workload.near,
        reach_us=plan.workload.reach_us,
        steps=plan.workload.steps,
        layout=plan.layout,
    )


def options_of(plan: Plan, strategy: str) -> JoinOptions:
    """Counts for a strategy without a planner, the plan's guards, and the paper's thresholds where the workload has a
    task capacity."""
    track = 0 if resolve(strategy).tracked else TRACK
    capacity = plan.workload.capacity
    if capacity is None:
        return JoinOptions(plan.guards or Guards(), track=track)
    scaling = Scaling(capacity, fewest(plan.workload, strategy, plan.layout), MOST, scale_in=0.5, scale_out=0.8)
    return JoinOptions(plan.guards or Guards(cooldown=0), scaling, track)


def suiting(names: Sequence[str], workload: JoinWorkload, instances: int, layout: Layout = "shared") -> list[str]:
    """Those of the strategies that can run the join of a workload."""
    found = []
    for name in names:
        try:
            check_runs(workload, name, instances, layout)
        except SpecError:
            continue
        found.append(name)
    return found


def check_runs(workload: JoinWorkload, strategy: str, instances: int, layout: Layout = "shared") -> None:
    """SpecError if a strategy cannot run the join of a workload: on so many instances, or, where tasks have a capacity,
    on the fewest that it can start with and on MOST. The engine would refuse it too, but only when its run starts."""
    sizes: tuple[int, ...] = (instances,)
    if workload.capacity is None:
        fixed(resolve(strategy), instances)
    else:
        sizes = (fewest(workload, strategy, layout), MOST)
    spec = workload.spec()
    for size in sizes:
        table = first_table(workload, strategy, size, layout)
        if not suits(spec, table):
            raise SpecError(f"{strategy} brings only equal keys together, and others match too: {workload.condition}")
        if not keeps_together(spec, table):
            raise SpecError(f"{strategy}, layout {layout}: not all tuples of a combination come to one instance")


def fewest(workload: JoinWorkload, strategy: str, layout: Layout = "shared") -> int:
    """The fewest instances a strategy can start with. SpecError if it cannot run the join."""
    found = for_join(resolve(strategy), workload.spec())
    for instances in range(1, MOST):
        try:
            found.initial(instances, len(workload.aliases), layout)
        except SpecError:
            continue
        return instances
    return MOST


def first_table(
    workload: JoinWorkload, strategy: str, instances: int, layout: Layout = "shared"
) -> RoutingTable:  # fmt: skip
    """The table a strategy starts with. SpecError if it cannot run the join, or not on so many instances."""
    return for_join(resolve(strategy), workload.spec()).initial(instances, len(workload.aliases), layout)


def _in_turn(systems: Sequence[str], turn: int) -> list[str]:
    """The systems in the order of a round: every other one begins with the last. Machines drift, and the first of
    several runs is often the fastest, so an even number of rounds is fair. Spark's own join comes last, because how
    long it may take depends on the others."""
    return sorted(systems if turn % 2 == 0 else reversed(systems), key=lambda system: system == NATIVE)


def _longest_ms(runs: Mapping[str, Sequence[Run]]) -> float:
    """The longest batch of our own runs."""
    ours = (run for name, some in runs.items() if name != NATIVE for run in some)
    return max((ms for run in ours for ms in run.outcome.batch_ms), default=inf)


def _best(runs: Sequence[Run]) -> Run:
    """The fastest of the runs of a system, with what the warm batches of all of them took."""
    return replace(
        max(runs, key=lambda run: run.outcome.rows_per_s), rounds=tuple(run.warm_ms for run in runs if not run.stopped)
    )


def _run(
    plan: Plan, system: str, sides: dict[str, str], scratch: Path, watch: Watch, most_ms: float
) -> Run:  # fmt: skip
    """One run of a system. It is stopped when a batch takes more than `most_ms`."""
    job = job_of(plan, system, sides, scratch)
    logs = plan.folder / "logs" / re.sub(r"\W+", "-", system).strip("-")
    shutil.rmtree(job.checkpoint, ignore_errors=True)
    try:
        outcome = _watched(job, logs, lambda done: watch(system, done), most_ms)
    except JobGivenUp:
        return Run(system, Outcome(job.system, 0, 0, Usage(most_ms / 1000), (most_ms,)), stopped=True)
    if system == NATIVE:
        return Run(NATIVE, outcome)
    threshold = resolve(system).threshold
    trace = read_trace(job.checkpoint, system, plan.strategies)
    past = read_whole(job.checkpoint)
    return Run(system, outcome, threshold if isfinite(threshold) else None, trace, past=past)


def _watched(job: Job, logs: Path, tell: Callable[[int], None], most_ms: float) -> Outcome:
    """Run a job; meanwhile tell how many batches its checkpoint has committed (ours and Spark's look alike)."""
    commits = Path(job.checkpoint) / "commits"
    done, patience_s = 0, JVM_START_S + most_ms / 1000
    since = monotonic()

    def hopeless() -> bool:
        nonlocal done, since
        now = sum(path.name.isdigit() for path in commits.iterdir()) if commits.is_dir() else 0
        tell(now)
        if now != done:
            done, since = now, monotonic()
        return monotonic() - since > patience_s

    return run_job(job, logs, LIMIT_S, hopeless)


def read_trace(checkpoint: str | Path, own: str, strategies: Sequence[str]) -> Trace:
    """The trace of a finished run of strategy `own`, also by the measures of the others that have a planner."""
    log = recorded_log(open_folder(checkpoint))
    commits = [*log.commits()][::-1]
    tables = {name: log.read_table(name) for name in {commit.table for commit in commits}}
    reports = [commit.report for commit in commits if commit.report is not None]
    asked = [name for name in strategies if name == own or resolve(name).tracked]
    last = reports[-1].instances if reports else ()
    return Trace(
        busy=tuple(round(report.imbalance, 4) for report in reports),
        measures={name: _measured(name, own, commits, tables) for name in asked},
        verdicts=tuple(commit.verdict.sentence if commit.verdict else "" for commit in commits),
        migrations=tuple(commit.migration for commit in commits if commit.migration is not None),
        busy_ms_by_instance=_by_instance(reports, "busy_ms"),
        work_by_instance=tuple(
            int(probes + results)
            for probes, results in zip(_by_instance(reports, "probes"), _by_instance(reports, "results"), strict=True)
        ),
        stored_by_instance=tuple(sum(load.stored) for load in last),
        tasks=tuple(len(report.instances) for report in reports),
        requests=tuple(sum(sum(load.probes) for load in report.instances) for report in reports),
        stored=tuple(sum(sum(load.stored) for load in report.instances) for report in reports),
        alive=tuple(_alive(report) for report in reports) if any(report.samples for report in reports) else (),
        counters=tuple(map(counters_of, reports)),
    )


def _alive(report: LoadReport) -> int:
    return round(sum(point[1] for side in report.samples for point in side))


def _measured(
    name: str, own: str, commits: Sequence[Commit], tables: Mapping[str, RoutingTable]
) -> tuple[float, ...]:  # fmt: skip
    """A strategy's imbalance of every report. Where the table has regions that measures of units cannot count, it is
    what the run's own planner said of it; NaN for the others. So it is where the measure is how full tasks are: it
    needs the capacity, or the number of tasks, that the run had."""
    strategy = resolve(name)
    found = []
    for commit in commits:
        table, said = tables[commit.table], commit.verdict.imbalance if commit.verdict else None
        if commit.report is None:
            continue
        if not isinstance(strategy, Sized) and all(isinstance(some.topology, Biclique) for some in table.regions):
            found.append(strategy.imbalance(planning_items(commit.report, table), table))
        else:
            found.append(said if name == own and said is not None else nan)
    return tuple(round(value, 4) for value in found)


def _by_instance(reports: Sequence[LoadReport], name: str) -> tuple[float, ...]:
    """The sum of a count (of all sides) over all reports, per instance that ever was."""
    total = np.zeros(max((len(report.instances) for report in reports), default=0))
    for report in reports:
        total[: len(report.instances)] += [np.sum(getattr(load, name)) for load in report.instances]
    return tuple(total.round(3).tolist())
