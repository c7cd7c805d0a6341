"""``evenjoin demo``: a ride-hailing day with a festival, joined on local Spark by `hash` and by `auto` side by side.

    orders + taxi tracks (parquet files) -> two joins, slice by slice in turns -> what each took, and what moved and why

The join asks which taxis came by a customer shortly before the order. Most of the day its cells are busy, but none is
too busy. Then the festival puts half of all orders and taxis into one cell, and with `hash` one task has nearly all of
the work. Everything shown is measured.

Everything happens in one folder: the day, and for each strategy its input, output and checkpoint; and Spark's log. The
console shows only our own output. Not here: the day itself (``bench/ride_hailing``), the turns (lanes.py), the live
view (side_by_side.py), and what is said at the end (epilogue.py).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
from rich.console import Console
from rich.live import Live

from evenjoin.bench.hilbert import cell_of
from evenjoin.bench.ride_hailing import DISTRICTS, ORDER, Crowd, Day
from evenjoin.bench.session import cores, open_session, quietly
from evenjoin.bench.workloads import write_batches
from evenjoin.cli.epilogue import Told, tell
from evenjoin.cli.lanes import Lane, in_turn
from evenjoin.cli.side_by_side import Scene, panes
from evenjoin.console import open_console, visible
from evenjoin.errors import EvenJoinError, SpecError
from evenjoin.runtime.spark.session import ARROW
from evenjoin.strategies import resolve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenjoin.runtime.spark.query import JoinQuery

SIDES = {
    "orders": "id LONG, cell LONG, ts TIMESTAMP, fare_cents LONG, x_m LONG, y_m LONG",
    "tracks": "taxi LONG, cell LONG, ts TIMESTAMP, speed_kmh LONG, x_m LONG, y_m LONG",
}
CLAUSES = (
    "o.cell = t.cell",
    "t.ts BETWEEN o.ts - INTERVAL 30 MINUTES AND o.ts",
    "abs(o.x_m - t.x_m) <= 10 AND abs(o.y_m - t.y_m) <= 10",
)
ON = " AND ".join(CLAUSES)
SELECT = ["o.id AS order_id", "t.taxi AS taxi", "o.cell AS cell", "o.ts AS ordered", "t.ts AS seen"]
BESIDE = "hash"
"""The strategy that another one is shown beside."""
SHORT_LIVED = f"{ARROW} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.sql.streaming.pollingDelay": "20ms",
    "spark.driver.extraJavaOptions": SHORT_LIVED,
}
"""An idle query looks for files seldom enough to leave the other one alone. A JVM that lives for a minute would spend
much of it on compiling itself once more."""


def festival(share: float = 0.5) -> Crowd:
    """From noon into the night half of the city is at the Stadium."""
    x, y, _ = DISTRICTS["Stadium"]
    return Crowd(int(cell_of(np.int64(x), np.int64(y), ORDER)), 13.0, 23.0, share)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run and where."""

    day: Day
    folder: Path
    strategy: str
    instances: int

    @property
    def lanes(self) -> tuple[Lane, Lane]:
        """A new lane for `hash`, and one for the strategy beside it. Its folder is named without the settings."""
        one, two = ((name, self.folder / bare(name)) for name in (BESIDE, self.strategy))
        return Lane(*one, tuple(SIDES)), Lane(*two, tuple(SIDES))


def bare(strategy: str) -> str:
    """The name of a strategy without its settings."""
    return strategy.partition("(")[0].strip()


@click.command()
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Folder to use; default: a temporary one."
)
@click.option("--strategy", default="auto", show_default=True, help="The strategy to show beside hash.")
@click.option("--instances", default=4, type=click.IntRange(1, 64), show_default=True, help="Number of join tasks.")
@click.option(
    "--scale", default=1.0, type=click.FloatRange(0, 100, min_open=True), show_default=True, help="Size of the day."
)
@click.option("--batches", default=12, type=click.IntRange(1, 288), show_default=True, help="Micro-batches in the day.")
@click.option("--seed", default=1, type=int, show_default=True, help="Another seed is another day.")
def demo(out: Path | None, strategy: str, instances: int, scale: float, batches: int, seed: int) -> None:
    """Join a ride-hailing day with a festival on local Spark, by hash and by auto side by side."""
    try:
        resolve(strategy)
    except SpecError as error:
        raise click.BadParameter(visible(error, keep="\n"), param_hint="'--strategy'") from None
    if bare(strategy) == BESIDE:
        raise click.BadParameter("hash is shown anyway; name the one to show beside it", param_hint="'--strategy'")
    if out is not None and out.exists() and any(out.iterdir()):
        raise click.BadParameter(f"{visible(out)} is not empty; name a new folder", param_hint="'--out'")
    folder = (out or Path(tempfile.mkdtemp(prefix="evenjoin-demo-"))).resolve()
    run(Plan(festival_day(scale, batches, seed), folder, strategy, instances), open_console())


def festival_day(scale: float, batches: int, seed: int) -> Day:
    """The day of the demo."""
    orders, tracks = max(1, round(200_000 * scale)), max(1, round(600_000 * scale))
    return Day(orders, tracks, batches, seed=seed, crowd=festival(), places="metres")


def run(plan: Plan, console: Console) -> None:
    """Write the day, join it in both lanes, and tell."""
    scene, lanes, before = Scene(plan.day, plan.instances, cores()), plan.lanes, os.getloadavg()[0]
    with Live(console=console, refresh_per_second=4, get_renderable=lambda: panes(scene, lanes)) as live:
        for number, side in enumerate(SIDES):
            write_batches(plan.folder / "day" / side, plan.day.side(number))
        scene.doing = "starting Spark"
        with session(plan.folder / "spark.log") as spark, running(plan, spark, lanes):
            for number in range(plan.day.batches):
                for lane in in_turn(lanes, number):
                    scene.begin(number, lane)
                    lane.feed(plan.folder / "day", number)
                    live.refresh()
            scene.end()
    tell(Told(plan.day, lanes, three_lines(plan), scene.cores, before), console)


@contextmanager
def running(plan: Plan, spark: SparkSession, lanes: Sequence[Lane]) -> Iterator[None]:
    """The query of each lane, running until the block is left."""
    try:
        for lane in lanes:
            lane.prepare()
            lane.query = start(plan, spark, lane)
        yield
    finally:
        for lane in lanes:
            if lane.query is not None:
                lane.query.stop()


def start(plan: Plan, spark: SparkSession, lane: Lane) -> JoinQuery:
    """The join a user would write."""
    import evenjoin

    orders, tracks = (evenjoin.parquet(spark, lane.path(side), columns) for side, columns in SIDES.items())
    joined = evenjoin.join(
        {"o": orders, "t": tracks},
        on=ON,
        event_time="ts",
        watermark="30 seconds",
        strategy=lane.strategy,
        instances=plan.instances,
        select=SELECT,
    )
    writer = joined.writeStream.format("parquet").option("path", lane.path("joined"))
    return writer.option("checkpointLocation", lane.path("checkpoint")).start()


def three_lines(plan: Plan) -> str:
    """The program that does what the demo did. `auto` need not be named: it is the default."""
    strategy = "" if plan.strategy == "auto" else f', strategy="{plan.strategy}"'
    condition = ' "\n       "AND '.join(CLAUSES)
    return (
        'joined = evenjoin.join({"o": orders, "t": tracks}, event_time="ts",\n'
        f'    on="{condition}",\n'
        f'    watermark="30 seconds", instances={plan.instances}{strategy})\n'
        'query = joined.writeStream.option("checkpointLocation", "ck").start("joined")\n'
        "query.awaitTermination()"
    )


@contextmanager
def session(log: Path) -> Iterator[SparkSession]:
    """A local Spark session whose own output goes to ``log``; a Java that is missing is explained."""
    try:
        with quietly(log):
            spark = open_session(cores(), SETTINGS, "evenjoin-demo")
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
