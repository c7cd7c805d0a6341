"""``evenjoin demo``: a synthetic ride-hailing day, joined on local Spark, about a minute.

    orders + taxi tracks (parquet files) -> evenjoin.join on local Spark -> parquet files -> what it was like

Everything happens in one folder: the input, the output, the checkpoint and Spark's log. The console shows only our
own output; Spark's goes to the log. Not here: the day itself (``bench/ride_hailing``).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax

from evenjoin.bench.ride_hailing import Day, cell_name
from evenjoin.bench.session import cores, open_session, quietly
from evenjoin.bench.workloads import write_batches
from evenjoin.cli.draw import imbalance, instances_table, keys_table
from evenjoin.cli.history import heaviest, instance_totals, read_history
from evenjoin.console import markup, open_console, visible
from evenjoin.errors import EvenJoinError, SpecError
from evenjoin.strategies import resolve

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from evenjoin.runtime.spark.query import JoinQuery

ON = "o.cell = t.cell AND t.ts BETWEEN o.ts - INTERVAL 10 MINUTES AND o.ts"
SELECT = ["o.id AS order_id", "t.taxi AS taxi", "o.cell AS cell", "o.ts AS ordered", "t.ts AS seen"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run and where."""

    day: Day
    folder: Path
    strategy: str
    instances: int

    def path(self, name: str) -> str:
        """A sub-folder, as Spark wants it."""
        return str(self.folder / name)


@click.command()
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Folder to use; default: a temporary one."
)
@click.option("--strategy", default="hash", show_default=True, help="How tuples are placed on the instances.")
@click.option("--instances", default=4, type=click.IntRange(1, 64), show_default=True, help="Number of join tasks.")
@click.option(
    "--scale", default=1.0, type=click.FloatRange(0, 100, min_open=True), show_default=True, help="Size of the day."
)
@click.option("--batches", default=24, type=click.IntRange(1, 288), show_default=True, help="Micro-batches in the day.")
@click.option("--seed", default=1, type=int, show_default=True, help="Another seed is another day.")
def demo(out: Path | None, strategy: str, instances: int, scale: float, batches: int, seed: int) -> None:
    """Join a synthetic ride-hailing day on local Spark, then show how the load fell."""
    try:
        resolve(strategy)
    except SpecError as error:
        raise click.BadParameter(visible(error, keep="\n"), param_hint="'--strategy'") from None
    if out is not None and out.exists() and any(out.iterdir()):
        raise click.BadParameter(f"{visible(out)} is not empty; name a new folder", param_hint="'--out'")
    folder = (out or Path(tempfile.mkdtemp(prefix="evenjoin-demo-"))).resolve()
    day = Day(orders=max(1, round(160_000 * scale)), tracks=max(1, round(480_000 * scale)), batches=batches, seed=seed)
    run(Plan(day, folder, strategy, instances), open_console())


def run(plan: Plan, console: Console) -> None:
    """Write the day, join it, and tell."""
    with progress(console) as bars:
        task = bars.add_task("writing the day", total=plan.day.batches, note="")
        for side, batch in (("orders", plan.day.batch_orders), ("tracks", plan.day.batch_tracks)):
            tables = (batch(number) for number in range(plan.day.batches))
            write_batches(plan.folder / side, _ticking(bars, task, tables))
        bars.update(task, description="starting Spark", total=None)
        with session(plan.folder / "spark.log") as spark:
            bars.remove_task(task)
            task = bars.add_task("joining", total=plan.day.batches, note="")
            started = time.monotonic()
            follow(start(plan, spark), bars, task)
            seconds = time.monotonic() - started
    tell(plan, seconds, console)


def start(plan: Plan, spark: SparkSession) -> JoinQuery:
    """The join a user would write."""
    import evenjoin

    joined = evenjoin.join(
        {"o": stream(spark, plan.path("orders")), "t": stream(spark, plan.path("tracks"))},
        on=ON,
        event_time={"o": "ts", "t": "ts"},
        watermark={"o": "30 seconds", "t": "30 seconds"},
        strategy=plan.strategy,
        instances=plan.instances,
        select=SELECT,
    )
    writer = joined.writeStream.format("parquet").option("path", plan.path("joined"))
    return writer.option("checkpointLocation", plan.path("checkpoint")).trigger(availableNow=True).start()


def stream(spark: SparkSession, folder: str) -> DataFrame:
    """A folder of parquet files as a stream, one file per micro-batch."""
    schema = spark.read.parquet(folder).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)


def follow(query: JoinQuery, bars: Progress, task: TaskID) -> None:
    """Move the bar with the batches that are committed, until the query has ended."""
    ended: bool | None = False
    while not ended:
        ended = query.awaitTermination(1)
        report = query.load()
        if report is not None:
            bars.update(task, completed=report.batch + 1, note=f"{report.matches:,} results in the last batch")


def tell(plan: Plan, seconds: float, console: Console) -> None:
    """Throughput, load, hottest cells, where things lie, and how to do the same."""
    history = read_history(plan.path("checkpoint"))
    assert history.last is not None
    rows, results = sum(history.last.totals.rows), history.last.totals.results
    console.print(
        f"\n[bold]{rows:,} rows[/] (orders and taxi tracks) gave [bold]{results:,} results[/] in {seconds:.1f} s "
        f"on {cores()} cores: [bold]{rows / seconds:,.0f} rows/s[/], {results / seconds:,.0f} results/s\n",
        highlight=False,
    )
    totals = instance_totals(history.reports)
    even = imbalance([float(total.work) for total in totals])
    console.print(
        f"[bold]Load of each instance[/] under {markup(plan.strategy)}: the busiest does {even:.2f} times the mean"
    )
    console.print(instances_table(totals))
    keys = heaviest(history.reports, 8)
    console.print("\n[bold]Hottest cells[/]")
    console.print(keys_table("cell", ("orders", "tracks"), keys, [cell_name(int(key.name)) for key in keys]))
    console.print(f"\n[bold]Output[/]      {markup(plan.path('joined'))}", soft_wrap=True, highlight=False)
    console.print(f"[bold]Checkpoint[/]  {markup(plan.path('checkpoint'))}", soft_wrap=True, highlight=False)
    console.print("            (look inside with: evenjoin inspect CHECKPOINT)\n", highlight=False)
    console.print("[bold]The same in three lines[/], with your own streaming DataFrames orders and tracks:")
    console.print(Syntax(three_lines(plan), "python", background_color="default"))


def three_lines(plan: Plan) -> str:
    """The program that does what the demo did."""
    return (
        'joined = evenjoin.join({"o": orders, "t": tracks}, event_time="ts",\n'
        f'    on="{ON}",\n'
        f'    watermark="30 seconds", strategy="{plan.strategy}", instances={plan.instances})\n'
        'query = joined.writeStream.option("checkpointLocation", "ck").start("joined")\n'
        "query.awaitTermination()"
    )


def progress(console: Console) -> Progress:
    """A bar per phase; it leaves nothing behind."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description:16}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[note]}[/]"),
        console=console,
        transient=True,
    )


@contextmanager
def session(log: Path) -> Iterator[SparkSession]:
    """A local Spark session whose own output goes to ``log``; a Java that is missing is explained."""
    try:
        with quietly(log):
            spark = open_session(cores(), {"spark.driver.memory": "2g"}, "evenjoin-demo")
    except ImportError:
        raise EvenJoinError("the demo needs PySpark: pip install 'evenjoin[spark]'") from None
    except Exception as error:
        if "JAVA" not in str(error).upper():
            raise
        raise EvenJoinError(f"Spark did not start; it needs Java 17 or newer (make java). Its log: {log}") from None
    try:
        yield spark
    finally:
        spark.stop()


def _ticking(bars: Progress, task: TaskID, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    for table in tables:
        yield table
        bars.advance(task, 0.5)
