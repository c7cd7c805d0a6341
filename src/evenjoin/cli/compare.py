"""``evenjoin compare WORKLOAD``: strategies on the same skewed files, one after the other, on local Spark.

    evenjoin compare G22 --strategies hash,fastjoin,djb,lsstream --spark-native
    evenjoin compare B_NCI --strategies adsp,square,dynamic,random
    evenjoin compare E_Q5 --fixed --instances 8

The running is in ``bench/compare``, what is said in ``bench/compare_report`` and ``compare_page``; here are the
options and the bar.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import click
from rich.console import Console

from evenjoin.bench.catalog import NAMES, workload
from evenjoin.bench.compare import NATIVE, Plan, Watch, check_runs, suiting
from evenjoin.bench.compare import compare as run
from evenjoin.bench.compare_report import agreement, show
from evenjoin.bench.join_workload import KEYED, SIZED, THETA, Drift, JoinWorkload, Size
from evenjoin.cli.draw import progress
from evenjoin.console import markup, open_console, visible
from evenjoin.errors import EvenJoinError, SpecError
from evenjoin.placement.table import Layout
from evenjoin.runtime.settings import Guards

EPILOG = f"""Workloads: {", ".join(NAMES)}. A strategy may have settings: 'fastjoin(theta=1.8)'. From E_Q5 to
ratio-all, and with --task-capacity, strategies choose their own number of tasks. From tri-cyclic on there are three
sides, and settings too: 'tri-chain(e=5,matches=8)'."""

STRATEGIES = f"""Names, with commas. Default: {KEYED}, or {SIZED} where tasks have a capacity, or {THETA} where three
sides share no key; of these, those that can run the join."""


@click.command(epilog=EPILOG)
@click.argument("name", metavar="WORKLOAD")
@click.option("--strategies", help=STRATEGIES)
@click.option("--instances", default=8, type=click.IntRange(2, 256), show_default=True, help="Number of join tasks.")
@click.option("--batches", type=click.IntRange(1, 500), help="Micro-batches; default: the workload's own.")
@click.option("--rows", type=click.IntRange(1), help="Rows of the left side in a batch; default: the workload's own.")
@click.option("--task-capacity", type=click.IntRange(1), help="Stored tuples of a task; default: the workload's own.")
@click.option("--fixed", is_flag=True, help="As many tasks as --instances says, also where tasks have a capacity.")
@click.option("--cooldown", type=click.IntRange(0), help="Batches after a rebalance without another; default: 1, or 0.")
@click.option("--min-gain", type=click.FloatRange(0), help="Part of its load that the heaviest unit must lose.")
@click.option("--min-work", type=click.IntRange(0), help="Tuples and results a batch that units must be relieved of.")
@click.option("--budget", type=click.IntRange(0), help="Stored tuples that may move at once.")
@click.option("--drift-every", default=Drift().every, type=click.IntRange(1), show_default=True, help="Batches.")
@click.option("--drift-f", default=Drift().f, type=float, show_default=True, help="Change of a task's load, in means.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Default: build/compare/WORKLOAD.")
@click.option("--seed", type=click.IntRange(0), help="Another seed is other files; default: the workload's own.")
@click.option("--repeat", default=1, type=click.IntRange(1), show_default=True, help="Runs of each; the best counts.")
@click.option("--spark-native/--no-spark-native", "native", default=False, help="Spark's own stream-stream join too.")
@click.option("--layout", default="shared", type=click.Choice(get_args(Layout)), show_default=True)
def compare(
    name: str, strategies: str | None, instances: int, batches: int | None, rows: int | None,
    task_capacity: int | None, drift_every: int, drift_f: float, out: Path | None, seed: int | None, repeat: int,
    native: bool, layout: Layout, fixed: bool, cooldown: int | None, min_gain: float | None, min_work: int | None,
    budget: int | None,
) -> None:  # fmt: skip
    """Run strategies on the same files on local Spark and compare speed, balance and migrations.

    Exit code 1 if they do not all find the results that DuckDB's batch join of the same files finds.
    """
    found = _workload(name, Size(rows, batches, seed, Drift(drift_every, drift_f)))
    if task_capacity is not None:
        found = replace(found, capacity=task_capacity)
    names = _names(strategies if strategies is not None else found.compared)
    if fixed:
        found = replace(found, capacity=None)
    if strategies is None:
        names = suiting(names, found, instances, layout)
    systems = (*_checked(names, found, instances, layout), *((NATIVE,) if native else ()))
    guards = _guards(found, {"cooldown": cooldown, "min_gain": min_gain, "min_work": min_work, "budget": budget})
    folder = (out or Path("build/compare") / name).resolve()
    _need("bokeh", "duckdb", "matplotlib", "pyspark")
    from evenjoin.bench.compare_page import save

    console = open_console()
    size = f"{instances} instances" if found.capacity is None else f"tasks of {found.capacity:,} tuples"
    console.print(f"[bold]{markup(name)}[/]: {found.batches} batches, {size}, {markup(', '.join(systems))}")
    with _bars(console, found.batches, len(systems) * repeat) as watch:
        comparison = run(Plan(found, systems, instances, folder, repeat, layout, guards), watch)
    show(comparison, console)
    for path in save(comparison, folder):
        if path.suffix in (".json", ".html"):
            console.print(f"[bold]{path.suffix[1:].upper():5}[/] {markup(path)}", soft_wrap=True, highlight=False)
    if not comparison.counts_agree:
        raise EvenJoinError(agreement(comparison))


def _need(*packages: str) -> None:
    for package in packages:
        if find_spec(package) is None:
            raise EvenJoinError(f"comparing needs {package}: pip install 'evenjoin[bench]'")


def _workload(name: str, size: Size) -> JoinWorkload:
    try:
        return workload(name, size)
    except SpecError as error:
        raise click.BadParameter(visible(error, keep="\n"), param_hint="'WORKLOAD'") from None


def _names(text: str) -> list[str]:
    """The names between commas (those inside parentheses belong to a strategy)."""
    return [part.strip() for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def _guards(workload: JoinWorkload, given: dict[str, Any]) -> Guards | None:
    """The guards asked for, where None is not asked for; None if they are all the usual ones."""
    asked = {name: value for name, value in given.items() if value is not None}
    usual = Guards() if workload.capacity is None else Guards(cooldown=0)
    return replace(usual, **asked) if asked else None


def _checked(names: list[str], workload: JoinWorkload, instances: int, layout: Layout) -> list[str]:
    """The names, if each is a strategy that can run, and named once."""
    try:
        for name in names:
            check_runs(workload, name, instances, layout)
    except SpecError as error:
        raise click.BadParameter(visible(error, keep="\n"), param_hint="'--strategies'") from None
    if not names or len(set(names)) < len(names):
        raise click.BadParameter("name each strategy once, at least one", param_hint="'--strategies'")
    return names


@contextmanager
def _bars(console: Console, batches: int, runs: int) -> Iterator[Watch]:
    """A bar for what is running."""
    with progress(console) as bars:
        task = bars.add_task("starting", total=batches, note=f"{runs} runs to come")
        now = ""

        def watch(name: str, done: int) -> None:
            nonlocal now
            if name != now:
                bars.reset(task, description=markup(name), note="")
                now = name
            bars.update(task, completed=done, note="starting Spark" if not done else f"batch {done} of {batches}")

        yield watch
