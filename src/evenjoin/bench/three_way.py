"""Three sides on real Spark, parquet to parquet: EvenJoin against what Spark itself can do with the same files.

    python -m evenjoin.bench.three_way                                 common-key and tri-cyclic, 3 rounds
    python -m evenjoin.bench.three_way live-commerce --rounds 5
    python -m evenjoin.bench.three_way 'tri-chain(e=5)' --rows 2000 --strategy trijoin

On equal keys Spark's peer is two stream-stream joins one after the other in one query, with watermarks on all three
inputs and time bounds in both conditions; without an equality it is the same after a rewrite into buckets (``peers``).

Each round runs every system once, from an empty checkpoint, in a process of its own. Who begins alternates. What is
told is the geometric mean of the rounds' ratios of rows/s, ours over the peer's, and the least and the greatest of
them: a difference within that spread means nothing. There may be several peers (``--peer``); the ratio is against the
better one of each round.

Every system's files are read back and compared with DuckDB's join of the whole input: the number of rows, and the sum
of a hash of each row over all its columns, so a row that is missing, wrong or there twice is seen. The command then
fails (exit code 1). Not here: strategies against each other (``evenjoin compare``, ``theta3``).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from evenjoin.bench.catalog import workload as named
from evenjoin.bench.jobs import Job, Outcome, System, run_job
from evenjoin.bench.join_workload import JoinWorkload, Size
from evenjoin.bench.peers import joined_tables, parquet_tables
from evenjoin.bench.report import machine
from evenjoin.bench.session import cores
from evenjoin.console import cell, open_console
from evenjoin.errors import EvenJoinError

DEFAULT = ("common-key", "tri-cyclic")
CHAINED: tuple[System, ...] = ("spark-hdfs", "spark-rocksdb", "spark-tuned")
LIMIT_S = 1800.0


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows of a result as two numbers: how many, and the sum of their hashes."""

    rows: int
    hashes: int


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of one system, and the answer that its files hold."""

    round: int
    outcome: Outcome
    answer: Answer


@dataclass(frozen=True, slots=True)
class Race:
    """All turns on one workload. `expected` is DuckDB's answer."""

    workload: str
    strategy: str
    instances: int
    expected: Answer
    turns: tuple[Turn, ...]

    @property
    def right(self) -> bool:
        """Whether every system's files hold what DuckDB finds."""
        return all(turn.answer == self.expected for turn in self.turns)

    def of(self, system: str) -> list[Outcome]:
        """The outcomes of a system, round by round."""
        return [turn.outcome for turn in self.turns if turn.outcome.system == system]

    @property
    def ratios(self) -> tuple[float, ...]:
        """Our rows/s over those of the round's better peer."""
        found = []
        for number in sorted({turn.round for turn in self.turns}):
            speeds = {t.outcome.system: t.outcome.rows_per_s for t in self.turns if t.round == number}
            ours = speeds.pop("evenjoin", None)
            if ours is not None and speeds:
                found.append(ours / max(speeds.values()))
        return tuple(found)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1)
@click.option("--rounds", default=3, type=click.IntRange(1), show_default=True, help="Each system runs in each.")
@click.option("--rows", type=click.IntRange(1), help="Rows of the first side in a batch; default: the workload's own.")
@click.option("--batches", type=click.IntRange(1), help="Micro-batches; default: the workload's own.")
@click.option("--strategy", help="Ours; default: hash on a common key, else hypercube.")
@click.option("--instances", type=click.IntRange(1), help="Join tasks and shuffle partitions; default: the cores.")
@click.option("--peer", "peers", multiple=True, default=CHAINED[:1], type=click.Choice(CHAINED), show_default=True)
@click.option("--skip-peers", is_flag=True, help="Run EvenJoin alone, without ratios.")
@click.option("--skip-ours", is_flag=True, help="Run the peers alone.")
@click.option("--out", default="build/three-way", type=click.Path(path_type=Path), show_default=True)
def main(
    names: tuple[str, ...], rounds: int, rows: int | None, batches: int | None, strategy: str | None,
    instances: int | None, peers: tuple[System, ...], skip_peers: bool, skip_ours: bool, out: Path,
) -> None:  # fmt: skip
    """Measure three-way joins against Spark's own; save a table and one JSON file per workload."""
    console, races = open_console(), []
    for name in names or DEFAULT:
        workload = named(name, Size(rows, batches))
        theirs: tuple[System, ...] = () if skip_peers else ("spark-bucketed",) if workload.near else peers
        systems: tuple[System, ...] = (*theirs, *(() if skip_ours else ("evenjoin",)))
        chosen = strategy or workload.compared.partition(",")[0]
        try:
            races.append(race(workload, systems, chosen, instances or cores(), rounds, out.resolve(), console))
        except EvenJoinError as error:
            console.print(cell(str(error)), style="bold red")
            sys.exit(1)
        save(races[-1], workload, out)
    console.print(told(races))
    for one in races:
        if not one.right:
            console.print(cell(f"{one.workload}: the files do not hold what DuckDB finds"), style="bold red")
    sys.exit(0 if all(one.right for one in races) else 1)


def race(
    workload: JoinWorkload, systems: Sequence[System], strategy: str, instances: int, rounds: int, out: Path,
    console: Console,
) -> Race:  # fmt: skip
    """Run every system in every round over the same files; these and all checkpoints are gone afterwards."""
    folder = out / re.sub(r"\W+", "-", workload.name).strip("-")
    shutil.rmtree(folder, ignore_errors=True)
    turns = []
    try:
        with console.status(f"{workload.name}: writing the files"):
            sides = {alias: str(path) for alias, path in workload.write(folder / "data").items()}
        with console.status(f"{workload.name}: DuckDB"):
            expected = answer_of(workload, sides)
        console.print(cell(f"{workload.name}: {expected.rows:,} results"))
        for number in range(rounds):
            for system in systems[:: -1 if number % 2 else 1]:
                job = job_of(workload, system, strategy, instances, sides, folder / "run")
                with console.status(f"{workload.name}: {system}, round {number + 1} of {rounds}"):
                    turns.append(turn(job, number, folder))
                speed = turns[-1].outcome.rows_per_s
                console.print(cell(f"{workload.name} round {number + 1} {system}: {speed:,.0f} rows/s"))
    finally:
        for leftover in ("data", "run"):
            shutil.rmtree(folder / leftover, ignore_errors=True)
    return Race(workload.name, strategy, instances, expected, tuple(turns))


def turn(job: Job, number: int, folder: Path) -> Turn:
    """One run from an empty checkpoint into an empty folder."""
    assert job.output is not None
    shutil.rmtree(folder / "run", ignore_errors=True)
    os.sync()  # what the run before has left to be written must not slow this one down
    outcome = run_job(job, folder, LIMIT_S)
    return Turn(number, outcome, answer_in(job.output, job.select))


def job_of(
    workload: JoinWorkload, system: System, strategy: str, instances: int, sides: Mapping[str, str], run: Path
) -> Job:
    """The job of one system, with its checkpoint and its output below `run`."""
    return Job(
        system,
        dict(sides),
        workload.condition,
        workload.select,
        str(run / "checkpoint"),
        cores(),
        instances,
        event_time=workload.event_time,
        watermark=workload.watermark,
        strategy=strategy,
        near=workload.near if system in ("spark-bucketed", "duckdb") else (),
        reach_us=workload.reach_us,
        steps=workload.steps,
        output=str(run / "output"),
    )


def answer_of(workload: JoinWorkload, sides: Mapping[str, str]) -> Answer:
    """What DuckDB finds in the whole input."""
    job = job_of(workload, "duckdb", "", 1, sides, Path())
    return _answer(f"SELECT {', '.join(job.select)} FROM {joined_tables(job, parquet_tables(sides))}", job.select)


def answer_in(folder: str, select: Sequence[str]) -> Answer:
    """What the parquet files of a run hold. Without a file it is nothing."""
    if not any(Path(folder).rglob("*.parquet")):
        return Answer(0, 0)
    return _answer(f"FROM read_parquet('{folder}/**/*.parquet', hive_partitioning = false)", select)


def _answer(query: str, select: Sequence[str]) -> Answer:
    """The answer of a query, its columns compared as texts: systems may write other types of whole numbers."""
    import duckdb

    columns = ", ".join(f"{column.rpartition(' AS ')[2]}::VARCHAR" for column in select)
    with duckdb.connect() as connection:
        connection.execute(f"SET threads = {cores()}; SET TimeZone = 'UTC'")
        found = connection.execute(f"SELECT count(*), sum(hash({columns})::HUGEINT) FROM ({query})").fetchone()
    return Answer(int(found[0]), int(found[1] or 0)) if found else Answer(0, 0)


def told(races: Sequence[Race]) -> Table:
    """One row per system and workload; the ratio and its spread on ours."""
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0))
    for column in ("", "system", "results", "rows/s, median", "batch ms", "CPU s", "ratio", "least .. greatest"):
        table.add_column(column, justify="left" if column in ("", "system") else "right", no_wrap=True)
    for one in races:
        for system in dict.fromkeys(turn.outcome.system for turn in one.turns):
            table.add_row(*map(cell, _row(one, system)))
        table.add_section()
    return table


def _row(one: Race, system: System) -> list[str]:
    runs, ratios = one.of(system), one.ratios
    row = [one.workload, f"{system} ({one.strategy})" if system == "evenjoin" else system, f"{runs[-1].results:,}"]
    row += [f"{statistics.median(run.rows_per_s for run in runs):,.0f}"]
    row += [f"{statistics.median(run.median_ms() for run in runs):,.0f}"]
    row += [f"{statistics.median(run.used.cpu_s for run in runs):.1f}"]
    if system != "evenjoin" or not ratios:
        return [*row, "", ""]
    return [*row, f"{statistics.geometric_mean(ratios):.2f}x", f"{min(ratios):.2f} .. {max(ratios):.2f}"]


def save(one: Race, workload: JoinWorkload, out: Path) -> None:
    """Write the race, with what it was measured on, as JSON."""
    out.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {
        **asdict(one),
        "right": one.right,
        "ratios": one.ratios,
        "ratio": statistics.geometric_mean(one.ratios) if one.ratios else None,
        "rows_per_s": [turn.outcome.rows_per_s for turn in one.turns],
        "condition": workload.condition,
        "streams": repr(workload.streams),
        "machine": machine(),
    }
    (out / f"{re.sub(r'[^A-Za-z0-9]+', '-', one.workload).strip('-')}.json").write_text(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
