"""How long A-DSP thinks, and what its areas are worth: ``python -m evenjoin.bench.area_plans``.

Two sides of the same size, codes from a range of as many values as a side has tuples, |x - y| <= 2. Codes are uniform
or zipf; the heavy ones lie anywhere, and are the same on both sides. Each seed makes two plans:

    first    from one grid to areas
    again    from these areas, after other tuples have come in place of them, GROWTH times as many

    limited  tasks of capacity V, with which `tasks` tasks would hold all tuples without copies; at most twice as many
    fixed    as many tasks as said; V is what each would hold without copies

Printed are the planner's processor time (median and worst of all seeds), and of the seeds the worst: tasks over the
1-DSP minimum, what the fullest task stores over V once all tuples are placed, and copies stored per tuple.

The 1-DSP minimum fills tasks along the diagonal with all tuples of the codes. A code that is too heavy for a task
counts as one task there, so under skew no scheme comes near it. Plans are made of samples, as the engine makes them.
No Spark, no files. Not here: planners that place keys (planners.py).
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import click
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from evenjoin.bench.report import machine
from evenjoin.bench.workloads import draw, zipf_weights
from evenjoin.kernels.hashing import I64
from evenjoin.load.items import Items
from evenjoin.load.report import LoadReport
from evenjoin.load.samples import Grain, Picked
from evenjoin.placement.pieces import Points, stored_volume
from evenjoin.placement.ranges import Reach
from evenjoin.placement.table import RoutingTable
from evenjoin.strategies import Adsp

BAND = Reach(-2, 2)
GROWTH = 1.3
Size = Literal["limited", "fixed"]


@dataclass(frozen=True, slots=True)
class Planned:
    """One plan: the planner's processor time in milliseconds, and what the table is worth with all tuples placed."""

    cpu_ms: float
    tasks: int
    over_least: float
    fullest: float
    copies: float


@dataclass(frozen=True, slots=True)
class Line:
    """The plans of one kind, one for each seed."""

    size: Size
    tasks: int
    zipf: float
    step: str
    plans: tuple[Planned, ...]

    def cells(self) -> tuple[str, ...]:
        """The line as it is printed."""
        ms = [plan.cpu_ms for plan in self.plans]
        worst = [max(getattr(plan, name) for plan in self.plans) for name in ("over_least", "fullest", "copies")]
        kind = self.size, str(self.tasks), f"{self.zipf:g}" if self.zipf else "uniform", self.step
        return *kind, f"{statistics.median(ms):,.0f}", f"{max(ms):,.0f}", *(f"{value:.3f}" for value in worst)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rows", default=100_000, type=click.IntRange(100), show_default=True, help="Tuples of a side.")
@click.option("--tasks", default=(16, 64, 128, 256), type=click.IntRange(1), multiple=True, show_default=True)
@click.option("--zipf", default=(0.0, 0.5, 1.0), type=float, multiple=True, show_default=True, help="0: uniform.")
@click.option("--size", "sizes", default=get_args(Size), type=click.Choice(get_args(Size)), multiple=True)
@click.option("--seeds", default=5, type=click.IntRange(1), show_default=True)
@click.option("--out", default="build/bench", type=click.Path(path_type=Path), show_default=True, help="Output folder.")
def main(
    rows: int, tasks: Sequence[int], zipf: Sequence[float], sizes: Sequence[Size], seeds: int, out: Path
) -> None:  # fmt: skip
    """Time A-DSP's plans and save area_plans.json."""
    lines = [
        line
        for size in sizes
        for exponent in zipf
        for count in tasks
        for line in lines_of(size, count, exponent, rows, seeds)
    ]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for column in ("size", "tasks", "zipf", "plan", "median ms", "worst ms", "tasks / 1-DSP", "fullest / V", "copies"):
        table.add_column(column, justify="right", no_wrap=True)
    for line in lines:
        table.add_row(*line.cells())
    Console(width=110).print(table)
    out.mkdir(parents=True, exist_ok=True)
    record = {"machine": machine(), "rows": rows, "lines": [asdict(line) for line in lines]}
    (out / "area_plans.json").write_text(json.dumps(record, indent=2) + "\n")


def lines_of(size: Size, tasks: int, zipf: float, rows: int, seeds: int) -> tuple[Line, Line]:
    """The first plans of all seeds, and those made again."""
    every = [tuple(plans_of(size, tasks, zipf, rows, seed)) for seed in range(seeds)]
    first, again = zip(*every, strict=True)
    return Line(size, tasks, zipf, "first", first), Line(size, tasks, zipf, "again", again)


def plans_of(size: Size, tasks: int, zipf: float, rows: int, seed: int) -> Iterator[Planned]:
    """The two plans of one seed."""
    strategy, table = start_of(size, tasks, rows)
    for number, count in enumerate((rows, round(GROWTH * rows))):
        capacity = 2 * (rows if size == "limited" else count) / tasks
        codes = codes_of(rows, count, zipf, (seed, number))
        points = tuple(sample_of(side, strategy.grain, (seed, number, n)) for n, side in enumerate(codes))
        report, items = LoadReport(0, (), (), (), ()), items_alive(points)
        started = time.process_time()
        made = strategy.plan(report, items, table)
        cpu_ms = round((time.process_time() - started) * 1000, 3)
        table = made if isinstance(made, RoutingTable) else table
        load = stored_volume(table, tuple(_counted(side) for side in codes)).sum(axis=0)
        over = table.instances / least_tasks(codes, BAND, capacity)
        yield Planned(cpu_ms, table.instances, over, float(load.max()) / capacity, float(load.sum()) / (2 * count))


def start_of(size: Size, tasks: int, rows: int) -> tuple[Adsp, RoutingTable]:
    """The strategy, and the grid that it starts from."""
    if size == "fixed":
        strategy, instances = Adsp(least=tasks, most=tasks), tasks
    else:
        strategy, instances = Adsp(task_capacity=2 * rows / tasks, fill=1.0, high=1.0, most=2 * tasks), 1
    return strategy, replace(strategy.initial(instances, 2, "shared"), reach=BAND)


def codes_of(keys: int, rows: int, zipf: float, seed: tuple[int, int]) -> tuple[I64, I64]:
    """The codes of both sides. Which of them are heavy depends on the first number of the seed only."""
    rng, place = np.random.default_rng(seed), np.random.default_rng(seed[0]).permutation(keys)
    weights = zipf_weights(keys, zipf)
    return place[draw(weights, rows, rng)], place[draw(weights, rows, rng)]


def sample_of(codes: I64, grain: Grain, seed: tuple[int, ...]) -> tuple[I64, np.ndarray]:
    """The points that a dispatch task would pick to stand for these tuples."""
    picked = Picked(grain)
    picked.add(np.random.default_rng(seed).integers(0, 2**64, len(codes), dtype=np.uint64), codes)
    ((_, _, sample),) = picked.slices()
    return np.array([code for code, _ in sample], np.int64), np.array([weight for _, weight in sample])


def items_alive(points: Points) -> Items:
    """Items of which nothing is known but the points that stand for the tuples alive."""
    none, nothing = np.zeros(0, np.int64), np.zeros((2, 0))
    return Items(none, none > 0, none, nothing, nothing, nothing, alive=points)


def least_tasks(codes: tuple[I64, I64], reach: Reach, capacity: float) -> int:
    """The 1-DSP minimum: tasks along the diagonal, each filled up to V with rows and what they reach, by all tuples."""
    assert reach.low is not None
    assert reach.high is not None
    rows, columns = (np.sort(side) for side in codes)
    ends = np.arange(max(rows[-1], columns[-1]) + 2)
    below, reached = np.searchsorted(rows, ends), np.searchsorted(columns, ends + reach.high - 1, "right")
    at, tasks = 0, 0
    while at < ends[-1]:
        volume = below - below[at] + reached - np.searchsorted(columns, at + reach.low)
        at, tasks = max(int(np.searchsorted(volume, capacity, "right")) - 1, at + 1), tasks + 1
    return tasks


def _counted(codes: I64) -> tuple[I64, np.ndarray]:
    some, count = np.unique(codes, return_counts=True)
    return some, count.astype(np.float64)


if __name__ == "__main__":
    main()
