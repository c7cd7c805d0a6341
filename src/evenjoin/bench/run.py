"""``make bench``: EvenJoin and Spark's own stream-stream join on the same files, in the same run.

                                                                                           executors   driver
    W1  throughput     4M + 4M rows in 10 batches, 1M keys zipf 0.4              rows/s   >= 9        >= 15    x Spark
    W2  many results   400k + 400k rows in 20 batches, 100k keys zipf 0.8        rows/s   >= 5        >= 8     x Spark
    W3  small batches  1k + 1k rows a batch, 30 batches, 4 instances             batch ms <= 0.6      <= 0.3   x Spark
    W4  a band         1M + 1M rows in one batch, whole numbers at most 2 apart  batch ms <= 1/8             x a rewrite
    W5  three sides    3 x 1M rows in 10 batches, 500k keys zipf 0.4             rows/s   >= 4               x Spark

Parquet files are read, and results written as parquet files (``--sink noop``: made, handed over and dropped). EvenJoin
runs twice: every batch on the executors, as on a cluster, and every batch in the driver's process. All sessions have
the same checkpoint file manager, the one that starts no processes.

A batch covers one second of event time; rows match when their keys are equal and their times at most 2 s apart. In W4
they match when their keys are at most 2 apart, over the whole history: Spark has no such join, so its peer is the
rewrite its users are told to make (``peers``). Two small batches come first there: batch times are those of a warm
stream, after the first two. W5 is two joins one after the other for Spark; the times of the second and the third side
are at most 2 s apart there too, and those of the first and the third 4 s. (``three_way`` measures more of them.)
Spark runs with both state store providers as they come and the better one counts; a tuned RocksDB runs besides. Every
system must find the same results, DuckDB's batch join included, or the command fails (exit code 1): a fast wrong answer
is not a measurement. Written results are compared as multisets, others by their number. A missed target does not fail
it; the table says so.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import click
from rich.console import Console

from evenjoin.bench.jobs import JVM_START_S, Job, JobTimeout, JoinOptions, Near, Outcome, System, run_job
from evenjoin.bench.report import Report, save, show
from evenjoin.bench.session import cores
from evenjoin.bench.workloads import ZipfStreams, write_zipf
from evenjoin.console import cell, markup, open_console
from evenjoin.errors import EvenJoinError
from evenjoin.runtime.settings import Guards
from evenjoin.strategies.elastic import Scaling

CONDITION = "l.k = r.k AND r.ts BETWEEN l.ts - INTERVAL 2 SECONDS AND l.ts + INTERVAL 2 SECONDS"
SELECT = ("l.k AS k", "l.id AS l_id", "r.id AS r_id", "l.ts AS l_ts", "r.ts AS r_ts", "l.v AS l_v", "r.v AS r_v")
BOUNDS = "{b}.ts BETWEEN {a}.ts - INTERVAL 2 SECONDS AND {a}.ts + INTERVAL 2 SECONDS"
THREE = tuple(f"{a}.k = {b}.k AND {BOUNDS.format(a=a, b=b)}" for a, b in ("lr", "rt"))
PEERS: tuple[System, ...] = ("spark-hdfs", "spark-rocksdb", "spark-tuned")
OURS: tuple[System, ...] = ("evenjoin", "evenjoin-driver")
LIMIT_S = 1800.0
HOPELESS = 1.2  # times the wall time of the first provider, after which the second cannot be the better one


@dataclass(frozen=True, slots=True)
class Workload:
    """Streams, the parallelism both systems get (0: one task per core), and the ratio we promise on executors and in
    the driver (None: none)."""

    name: str
    streams: ZipfStreams
    measure: Literal["rows/s", "batch ms"]
    target: float
    in_driver: float | None = None
    instances: int = 0
    condition: str = CONDITION
    event_time: str | None = "ts"
    near: tuple[Near, ...] = ()
    steps: tuple[str, ...] = ()
    peers: tuple[System, ...] = PEERS
    strategy: str = "hash"
    select: tuple[str, ...] = SELECT
    options: JoinOptions = field(default_factory=JoinOptions)


WORKLOADS = {
    "W1": Workload("W1", ZipfStreams(1_000_000, 0.4, 400_000, 10), "rows/s", 9.0, 15.0),
    "W2": Workload("W2", ZipfStreams(100_000, 0.8, 20_000, 20), "rows/s", 5.0, 8.0),
    "W3": Workload("W3", ZipfStreams(100_000, 0.4, 1_000, 30), "batch ms", 0.6, 0.3, instances=4),
    "W4": Workload(
        "W4",
        ZipfStreams(1_000_000, 0.0, 1_000_000, 1, warm=(20_000, 20_000)),
        "batch ms",
        1 / 8,
        condition="r.k BETWEEN l.k - 2 AND l.k + 2",
        select=("l.k AS l_k", "r.k AS r_k", "l.id AS l_id", "r.id AS r_id"),
        event_time=None,
        near=(("l.k", "r.k", 2),),
        peers=("spark-bucketed",),
        strategy="adsp",
        options=JoinOptions(Guards(cooldown=0), Scaling(1_000_000_000, min_instances=cores(), max_instances=cores())),
    ),
    "W5": Workload(
        "W5",
        ZipfStreams(500_000, 0.4, 100_000, 10, aliases=("l", "r", "t")),
        "rows/s",
        4.0,
        condition=" AND ".join(THREE),
        select=("l.k AS k", "l.id AS l_id", "r.id AS r_id", "t.id AS t_id", "t.ts AS t_ts", "l.v + r.v AS v"),
        steps=THREE,
    ),
}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--workload", "names", multiple=True, type=click.Choice(list(WORKLOADS)), help="Default: all of them.")
@click.option(
    "--scale", default=1.0, type=click.FloatRange(0, 1, min_open=True), help="Fraction of the rows per batch."
)
@click.option("--out", default="build/bench", type=click.Path(path_type=Path), show_default=True, help="Output folder.")
@click.option(
    "--repeat", default=1, type=click.IntRange(1), show_default=True, help="Runs of each system; the best counts."
)
@click.option(
    "--peer", "peers", multiple=True, default=PEERS, type=click.Choice(PEERS), help="Which of Spark's; default: all."
)
@click.option("--sink", type=click.Choice(["parquet", "noop"]), default="parquet", show_default=True)
@click.option(
    "--place",
    "places",
    multiple=True,
    default=OURS,
    type=click.Choice(OURS),
    help="Where EvenJoin runs; default: both.",
)
@click.option("--skip-peers", is_flag=True, help="Run EvenJoin and DuckDB alone, without ratios.")
@click.option("--skip-ours", is_flag=True, help="Run the peers and DuckDB alone.")
def main(
    names: tuple[str, ...], scale: float, out: Path, repeat: int, peers: tuple[System, ...], sink: str,
    places: tuple[System, ...], skip_peers: bool, skip_ours: bool,
) -> None:  # fmt: skip
    """Measure EvenJoin against Spark's own stream-stream join; save a table and one JSON file per workload."""
    console = open_console()
    reports = []
    for name in names or WORKLOADS:
        workload = scaled(WORKLOADS[name], scale)
        theirs = () if skip_peers else tuple(p for p in workload.peers if p in peers or p not in PEERS)
        systems: tuple[System, ...] = ("duckdb", *theirs, *(() if skip_ours else places))
        try:
            outcomes = list(measure(workload, systems, out.resolve(), repeat, console, sink == "parquet"))
        except EvenJoinError as error:
            console.print(f"[bold red]{markup(error)}[/]", highlight=False)
            sys.exit(1)
        targets = {"evenjoin": workload.target, "evenjoin-driver": workload.in_driver}
        reports.append(Report(name, workload.streams, workload.measure, targets, scale, tuple(outcomes)))
        save(reports[-1], out / f"{name}.json")
    show(reports, console)
    console.print(f"Saved to [bold]{markup(out)}[/]")
    sys.exit(0 if all(report.counts_agree for report in reports) else 1)


def scaled(workload: Workload, scale: float) -> Workload:
    """The same workload with fewer rows per batch; at scale 1 the same object."""
    if scale == 1:
        return workload
    streams = replace(workload.streams, rows_per_batch=max(1, round(workload.streams.rows_per_batch * scale)))
    return replace(workload, streams=streams)


def measure(
    workload: Workload, systems: tuple[System, ...], out: Path, repeat: int, console: Console, written: bool = False
) -> Iterator[Outcome]:
    """The best of ``repeat`` runs of each system over the same files; a hopeless peer is stopped and left out."""
    folder = out / f"{workload.name}-{workload.streams.rows_per_batch}"
    shutil.rmtree(folder, ignore_errors=True)
    with console.status(f"{workload.name}: writing {workload.streams.rows:,} rows"):
        sides = {side: str(path) for side, path in write_zipf(workload.streams, folder / "data").items()}
    limit_s = LIMIT_S
    for system in systems:
        job = job_of(workload, system, sides, folder / "checkpoint", folder / "output" if written else None)
        try:
            with console.status(f"{workload.name}: {system}"):
                best = best_of(job, folder, repeat, limit_s if system in PEERS else LIMIT_S)
        except JobTimeout as error:
            if system not in PEERS or limit_s == LIMIT_S:
                raise
            console.print(cell(f"{workload.name} {error} (over {HOPELESS}x the other provider: left out)"))
            continue
        if system in PEERS:
            limit_s = min(LIMIT_S, JVM_START_S + HOPELESS * best.used.wall_s)
        console.print(
            f"{workload.name} {system}: {best.results:,} results, {best.rows_per_s:,.0f} rows/s", highlight=False
        )
        yield best
    for leftover in ("data", "checkpoint", "output"):
        shutil.rmtree(folder / leftover, ignore_errors=True)


def best_of(job: Job, folder: Path, runs: int, limit_s: float) -> Outcome:
    """The fastest of some runs, each from an empty checkpoint and into an empty folder."""
    outcomes = []
    for _ in range(runs):
        for before in (job.checkpoint, job.output):
            if before is not None:
                shutil.rmtree(before, ignore_errors=True)
        outcomes.append(run_job(job, folder, limit_s))
    return max(outcomes, key=lambda outcome: outcome.rows_per_s)


def job_of(
    workload: Workload, system: System, sides: dict[str, str], checkpoint: Path, output: Path | None = None
) -> Job:  # fmt: skip
    """The job that runs one system on a workload's files."""
    return Job(
        system=system,
        folders=sides,
        condition=workload.condition,
        select=workload.select,
        checkpoint=str(checkpoint),
        cores=cores(),
        instances=workload.instances or cores(),
        event_time=workload.event_time,
        strategy=workload.strategy,
        near=workload.near if system == "spark-bucketed" else (),
        steps=workload.steps,
        options=workload.options,
        output=None if output is None else str(output),
    )


if __name__ == "__main__":
    main()
