"""Three-way theta joins by strategy: what a cube, TriJoin and a tree of two joins cost on the paper's conditions.

    python -m evenjoin.bench.theta3                                    tri-cyclic and tri-chain on 9 instances
    python -m evenjoin.bench.theta3 --instances 8 --instances 27 --engine embedded
    python -m evenjoin.bench.theta3 'packets-cyclic' --strategy trijoin --strategy tree

    batch ms        median batch after the first two                             TriJoin Fig. 10, 12, 14, 20, 21
    rows/s          input rows over the time of all batches                      Fig. 11, 13, 15
    hubs, members   packs (or pairs) whose hub was compared, and members compared for a condition of their own
    packs, pairs    intermediate results generated, and pairs in them            Fig. 18, 19
    sent, MB        tuples and packs that dispatch and hops sent to the instances, copies too, and their size
    stored          tuples and packs alive after the last batch, copies too; and their bytes on disk
    waiting ms      from the start of the first hop to that of the last, the median batch        Fig. 2

All runs are in layout `split`, where the papers' groups of instances are disjoint. A batch's barrier replaces TriJoin's
signals, so a tuple does not wait for a pair; what its figures call latency is looked for in the batch time.
On Spark a batch time is that of all instances on the machine's cores. The embedded engine (`--engine embedded`) runs
its instances one after the other: its batch time is all the work, and "busiest" what the busiest instance had of it.

Every run's results are counted against DuckDB's; a difference is exit code 1. A strategy that is refused or fails is
told and left out. Not here: Spark as a peer (``three_way``).
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from evenjoin.bench.catalog import workload as named
from evenjoin.bench.counters import Counters, counters_of
from evenjoin.bench.jobs import Job, JobError, Outcome, System, run_job
from evenjoin.bench.join_workload import JoinWorkload, Size
from evenjoin.bench.report import machine
from evenjoin.bench.session import cores
from evenjoin.commit.identity import recorded_log
from evenjoin.console import cell, open_console, visible
from evenjoin.placement.table import Layout
from evenjoin.state.files import open_folder

WORKLOADS = ("tri-cyclic", "tri-chain")
STRATEGIES = ("hypercube", "trijoin", "trijoin(packing=paired)", "tree")
TOTALS = ("probes", "hubs", "members", "packs", "pairs", "sent", "sent_bytes")
WARM = 2
LIMIT_S = 1800.0


@dataclass(frozen=True, slots=True)
class Run:
    """One strategy on one workload and number of instances; `batches` are its counters, batch by batch."""

    workload: str
    strategy: str
    instances: int
    layout: Layout
    outcome: Outcome
    expected: int
    batches: tuple[Counters, ...]

    @property
    def right(self) -> bool:
        return self.outcome.results == self.expected

    def total(self, name: str) -> int:
        """A counter over all batches."""
        return sum(getattr(batch, name) for batch in self.batches)

    def median(self, name: str) -> float:
        """A counter's median over the warm batches."""
        return statistics.median([float(getattr(batch, name)) for batch in self.batches[WARM:] or self.batches])

    def last(self, name: str) -> int:
        """A counter after the last batch."""
        return int(getattr(self.batches[-1], name))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1)
@click.option("--strategy", "strategies", multiple=True, default=STRATEGIES, show_default=True)
@click.option("--instances", "sizes", multiple=True, default=(9,), type=click.IntRange(1), show_default=True)
@click.option("--layout", default="split", type=click.Choice(["split", "shared"]), show_default=True)
@click.option("--engine", default="spark", type=click.Choice(["spark", "embedded"]), show_default=True)
@click.option("--rows", type=click.IntRange(1), help="Rows of a side in a batch; default: the workload's own.")
@click.option("--batches", type=click.IntRange(1), help="Micro-batches; default: the workload's own.")
@click.option("--repeat", default=1, type=click.IntRange(1), show_default=True, help="Runs of each; the best counts.")
@click.option("--out", default="build/theta3", type=click.Path(path_type=Path), show_default=True)
def main(
    names: tuple[str, ...], strategies: tuple[str, ...], sizes: tuple[int, ...], layout: Layout,
    engine: Literal["spark", "embedded"], rows: int | None, batches: int | None, repeat: int, out: Path,
) -> None:  # fmt: skip
    """Compare strategies for three-way theta joins; save a table and theta3.json."""
    console = open_console()
    system: System = "evenjoin" if engine == "spark" else "embedded"
    runs: list[Run] = []
    for name in names or WORKLOADS:
        found = named(name, Size(rows, batches))
        runs += measured(found, system, strategies, sizes, layout, repeat, out.resolve(), console)
    console.print(told(runs))
    out.mkdir(parents=True, exist_ok=True)
    (out / "theta3.json").write_text(json.dumps(document(runs, engine), indent=2) + "\n")
    wrong = [run for run in runs if not run.right]
    for run in wrong:
        what = f"{run.workload}, {run.strategy} on {run.instances}"
        console.print(cell(f"{what}: {run.outcome.results:,} results, not {run.expected:,}"), style="bold red")
    sys.exit(1 if wrong or not runs else 0)


def measured(
    workload: JoinWorkload, system: System, strategies: Sequence[str], sizes: Sequence[int], layout: Layout,
    repeat: int, out: Path, console: Console,
) -> Iterator[Run]:  # fmt: skip
    """The best of `repeat` runs for each strategy and number of instances, over the same files."""
    folder = out / re.sub(r"\W+", "-", workload.name).strip("-")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        sides = {alias: str(path) for alias, path in workload.write(folder / "data").items()}
        expected = run_job(job_of(workload, "duckdb", sides, folder, "hash", 1, layout), folder, LIMIT_S).results
        console.print(cell(f"{workload.name}: {expected:,} results"))
        for instances in sizes:
            for strategy in strategies:
                job = job_of(workload, system, sides, folder, strategy, instances, layout)
                try:
                    with console.status(cell(f"{workload.name}: {strategy} on {instances}")):
                        runs = [_run(workload, job, folder, expected) for _ in range(repeat)]
                except JobError as error:
                    text = f"{workload.name}: {strategy} on {instances} did not run: {error}"
                    console.print(Text(visible(text, keep="\n")))
                    continue
                yield min(runs, key=lambda run: sum(run.outcome.batch_ms))
    finally:
        for leftover in ("data", "checkpoint"):
            shutil.rmtree(folder / leftover, ignore_errors=True)


def _run(workload: JoinWorkload, job: Job, folder: Path, expected: int) -> Run:
    shutil.rmtree(job.checkpoint, ignore_errors=True)
    outcome = run_job(job, folder / re.sub(r"\W+", "-", f"{job.strategy}-{job.instances}").strip("-"), LIMIT_S)
    return Run(workload.name, job.strategy, job.instances, job.layout, outcome, expected, read_counters(job.checkpoint))


def read_counters(checkpoint: str | Path) -> tuple[Counters, ...]:
    """The counters of each batch of a finished run, from its commits."""
    commits = [*recorded_log(open_folder(checkpoint)).commits()][::-1]
    return tuple(counters_of(commit.report) for commit in commits if commit.report is not None)


def job_of(
    workload: JoinWorkload, system: System, sides: dict[str, str], folder: Path, strategy: str, instances: int,
    layout: Layout,
) -> Job:  # fmt: skip
    """The job of one strategy, or of DuckDB."""
    return Job(
        system,
        sides,
        workload.condition,
        workload.select,
        str(folder / "checkpoint"),
        cores(),
        instances,
        event_time=workload.event_time,
        watermark=workload.watermark,
        strategy=strategy,
        near=workload.near if system == "duckdb" else (),
        reach_us=workload.reach_us,
        layout=layout,
    )


COLUMNS = (
    "", "strategy", "n", "batch ms", "busiest ms", "rows/s", "hubs", "members", "packs", "pairs", "sent", "sent MB",
    "stored", "stored MB", "waiting ms",
)  # fmt: skip


def told(runs: Sequence[Run]) -> Table:
    """One row per run."""
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0))
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in ("", "strategy") else "right", no_wrap=True)
    for number, run in enumerate(runs):
        last = number + 1 == len(runs) or runs[number + 1].workload != run.workload
        table.add_row(*map(cell, cells(run)), end_section=last)
    return table


def cells(run: Run) -> list[str]:
    """A run as the cells of COLUMNS."""
    figures: list[tuple[float, float]] = [  # with the unit it is shown in
        (run.outcome.median_ms(WARM), 1),
        (run.median("busiest_ms"), 1),
        (run.outcome.rows_per_s, 1),
        (run.total("hubs"), 1),
        (run.total("members"), 1),
        (run.total("packs"), 1),
        (run.total("pairs"), 1),
        (run.total("sent"), 1),
        (run.total("sent_bytes"), 1e6),
        (run.last("stored"), 1),
        (run.last("stored_bytes"), 1e6),
        (run.median("waiting_ms"), 1),
    ]
    shown = [f"{value / unit:,.{1 if unit > 1 else 0}f}" for value, unit in figures]
    return [run.workload, run.strategy, str(run.instances), *shown]


def document(runs: Sequence[Run], engine: str) -> dict[str, Any]:
    """All of it as plain values."""
    return {
        "engine": engine,
        "machine": machine(),
        "runs": [
            {
                **asdict(run),
                "right": run.right,
                "batch_ms": run.outcome.median_ms(WARM),
                "rows_per_s": run.outcome.rows_per_s,
                **{
                    name: run.total(name)
                    for name in ("probes", "hubs", "members", "packs", "pairs", "sent", "sent_bytes")
                },
                **{name: run.last(name) for name in ("stored", "stored_bytes")},
                **{name: run.median(name) for name in ("busiest_ms", "waiting_ms")},
            }
            for run in runs
        ],
    }


if __name__ == "__main__":
    main()
