"""``evenjoin simulate``: a strategy on a simulated cluster, with the engine's own tables, planners and guards.

    evenjoin simulate --strategy fastjoin --instances 48 --keys 100000 --zipf 0.8 --mode drifting
    evenjoin simulate --strategy hash,auto --script flash --window 6
    evenjoin simulate --sweep --strategy fastjoin,djb --json sweep.jsonl

The simulator is ``evenjoin.sim``; here are the options and the tables. Without --sweep one line is shown for each batch
of the first seed, and with several seeds one for each seed after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import click
from rich import box
from rich.console import Console
from rich.table import Table

from evenjoin.cli.draw import progress
from evenjoin.console import cell, markup, open_console, visible
from evenjoin.errors import SpecError
from evenjoin.placement.table import Layout
from evenjoin.sim import Line, Scenario, Scripted, Simulation, Stream, tables
from evenjoin.sim.cluster import Cluster, Loss, Slow
from evenjoin.sim.cost import PROFILES
from evenjoin.sim.scripted import SCRIPTS
from evenjoin.sim.stream import Mode
from evenjoin.sim.sweep import INSTANCES, MODES, ZIPF, Outcome, Summary, points, run, seeded, sweep
from evenjoin.strategies.elastic import Scaling

MOST_INSTANCES = 100_000
PLANNERS = "fastjoin,djb,lsstream,readj"


class Numbers(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """One number, or several with commas."""

    name = "numbers"

    def __init__(self, kind: type[int] | type[float]) -> None:
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        try:
            return tuple(self.kind(part) for part in str(value).split(",")) if isinstance(value, str) else value
        except ValueError:
            self.fail(f"{value!r}: numbers with commas between them are needed", param, ctx)


@click.command()
@click.option("--strategy", "names", help=f"Names with commas. Default: fastjoin; of a sweep {PLANNERS}.")
@click.option("--instances", type=Numbers(int), help="Default: 8; of a sweep 8,16,48,100.")
@click.option("--keys", default=100_000, type=click.IntRange(1), show_default=True)
@click.option(
    "--rows", default="100000", type=Numbers(float), show_default=True, help="A batch; or of each side: 430000,1000."
)
@click.option(
    "--zipf", type=Numbers(float), help="Exponents, tried one after the other. Default: 0.8; of a sweep 0.2 to 1.2."
)
@click.option(
    "--order",
    default="shared",
    type=click.Choice(["shared", "own"]),
    show_default=True,
    help="Are keys hot on both sides?",
)
@click.option("--mode", "modes", help=f"{', '.join(MODES)}, with commas. Default: stationary; of a sweep all.")
@click.option("--script", type=click.Choice(list(SCRIPTS)), help="Hot keys by a script, in place of --zipf and --mode.")
@click.option(
    "--every", default=8, type=click.IntRange(1), show_default=True, help="Batches from one drift to the next."
)
@click.option("--growth", default=1.05, type=float, show_default=True, help="Growing: the rate from batch to batch.")
@click.option("--window", type=click.IntRange(0), help="Batches that a tuple waits; default: the whole history joins.")
@click.option("--band", type=click.IntRange(0), help="Keys that are at most so far apart join; default: equal ones.")
@click.option("--batches", default=40, type=click.IntRange(1), show_default=True)
@click.option("--seed", default=1, type=click.IntRange(0), show_default=True, help="The first seed.")
@click.option("--seeds", type=click.IntRange(1), help="How many seeds. Default: 1; of a sweep 5.")
@click.option("--layout", default="shared", type=click.Choice(get_args(Layout)), show_default=True)
@click.option("--profile", default="measured", type=click.Choice(list(PROFILES)), show_default=True, help="Of costs.")
@click.option("--nodes", type=click.IntRange(1), help="Default: enough for a core for each instance.")
@click.option("--speeds", type=Numbers(float), help="Of the nodes, one after the other; default: all 1.")
@click.option("--slow", multiple=True, metavar="NODE:FIRST:LAST:FACTOR", help="A node is slow from batch to batch.")
@click.option("--lose", multiple=True, metavar="NODE:BATCH", help="A node is lost before a batch.")
@click.option("--cores", default=4, type=click.IntRange(1), show_default=True, help="Of a node.")
@click.option("--task-capacity", type=click.IntRange(1), help="Tuples of an instance: their number follows the state.")
@click.option(
    "--max-instances", default=MOST_INSTANCES, type=click.IntRange(1), show_default=True, help="With --task-capacity."
)
@click.option("--sweep", "swept", is_flag=True, help="Every combination of strategies, instances, zipf and modes.")
@click.option("--jobs", default=1, type=click.IntRange(1), show_default=True, help="Processes of a sweep.")
@click.option("--json", "out", type=click.Path(dir_okay=False, path_type=Path), help="Also as JSON lines.")
@click.option("--markdown", type=click.Path(dir_okay=False, path_type=Path), help="The tables of a sweep as Markdown.")
@click.option("--figure", type=click.Path(dir_okay=False, path_type=Path), help="A PNG: batch times, and what moved.")
def simulate(names: str | None, instances: Sequence[int] | None, keys: int, rows: Sequence[float],
             zipf: Sequence[float] | None, order: Any, modes: str | None, script: str | None, every: int, growth: float,
             window: int | None, band: int | None, batches: int, seed: int, seeds: int | None, layout: Layout,
             profile: str, nodes: int | None, speeds: Sequence[float] | None,
             slow: Sequence[str], lose: Sequence[str], cores: int, task_capacity: int | None, max_instances: int,
             swept: bool, jobs: int, out: Path | None, markdown: Path | None,
             figure: Path | None) -> None:  # fmt: skip
    """Run strategies on a simulated cluster: how even, how many rebalances, how much moves."""
    stream = Stream(
        keys, (rows[0], rows[-1]), order=order, every=every, growth=growth, window=window,
        band=None if band is None else (-band, band), batches=batches, seed=seed,
    )  # fmt: skip
    cluster = _cluster(nodes or -(-max(instances or (8,)) // cores), speeds, cores, slow, lose)
    if nodes is None and speeds is None and not slow and not lose:
        cluster = None
    scaling = None if task_capacity is None else Scaling(task_capacity, max_instances=max_instances)
    base = Scenario(stream, layout=layout, profile=PROFILES[profile], cluster=cluster, scaling=scaling)
    scenarios = points(
        base,
        [name.strip() for name in re.split(r",(?![^(]*\))", names or (PLANNERS if swept else "fastjoin"))],
        instances or (INSTANCES if swept else (8,)),
        zipf or (ZIPF if swept else (0.8,)),
        _modes(modes or (",".join(MODES) if swept else "stationary")),
    )
    if script is not None:
        if swept or zipf or modes or band is not None:
            raise click.UsageError("--script says what is hot, so it goes without --sweep, --zipf, --mode and --band")
        told = Scripted(script, keys, stream.rows, window, batches, seed)
        scenarios = [replace(scenario, source=told) for scenario in scenarios]
    for scenario in scenarios:
        _check(scenario)
    numbers = range(seed, seed + (seeds or (5 if swept else 1)))
    console = open_console()
    if markdown is not None and not swept:
        raise click.UsageError("--markdown goes with --sweep")
    if figure is not None and swept:
        raise click.UsageError("--figure shows batches, and --sweep shows none")
    if swept:
        summaries = _sweep(console, scenarios, numbers, jobs)
        written = [json.dumps(one.to_json()) for one in summaries]
        if markdown is not None:
            markdown.write_text(tables.markdown(summaries))
    else:
        drawn: dict[str, list[Drawn]] = {}
        written = [line for scenario in scenarios for line in _runs(console, scenario, numbers, drawn)]
        if figure is not None:
            _draw(figure, drawn)
    if out is not None:
        out.write_text("".join(f"{line}\n" for line in written))


def _cluster(
    nodes: int, speeds: Sequence[float] | None, cores: int, slow: Sequence[str], lose: Sequence[str]
) -> Cluster | None:  # fmt: skip
    """The cluster that the options tell of."""
    by_node = tuple((speeds or (1.0,))[node % len(speeds or (1.0,))] for node in range(nodes))
    try:
        late = [one.split(":") for one in slow]
        slowly = tuple(Slow(int(node), int(first), int(last), float(much)) for node, first, last, much in late)
        lost = tuple(Loss(*map(int, one.split(":"))) for one in lose)
        if not {*(one.node for one in slowly), *(one.node for one in lost)} <= set(range(nodes)):
            raise ValueError
    except (ValueError, TypeError):
        raise click.BadParameter(
            f"numbers with colons are needed, and a node below {nodes}", param_hint="'--slow' or '--lose'"
        ) from None
    return Cluster(by_node, cores, slowly, lost)


def _modes(text: str) -> list[Mode]:
    found = [part.strip() for part in text.split(",")]
    for mode in found:
        if mode not in MODES:
            raise click.BadParameter(f"{visible(mode)!r}: use {', '.join(MODES)}", param_hint="'--mode'")
    return found  # type: ignore[return-value]


def _check(scenario: Scenario) -> None:
    """Refuse a strategy that cannot run before anything runs."""
    try:
        Simulation(scenario)
    except SpecError as error:
        raise click.BadParameter(visible(error, keep="\n"), param_hint="'--strategy'") from None


Drawn = tuple[str, Sequence[float], Sequence[tuple[int, int]]]
"""A run in a figure: the strategy, the time of each batch, and (batch, tuples) of each migration."""


def _runs(console: Console, scenario: Scenario, seeds: Sequence[int], drawn: dict[str, list[Drawn]]) -> list[str]:
    """The batches of the first seed, and what every seed comes to. Returns all lines of all seeds as JSON. What a
    figure shows is added to `drawn`, under the title of its panel."""
    outcomes, written = [], []
    for seed in seeds:
        lines, found = run(seeded(scenario, seed))
        outcomes.append(found)
        about = {"strategy": str(scenario.strategy), "seed": seed}
        written += [json.dumps({**about, **json.loads(line.to_json())}) for line in lines]
        if seed == seeds[0]:
            console.print(f"[bold]{markup(scenario.strategy)}[/] on {_title(scenario, seed)}")
            console.print(_batches(lines))
            moves = [(line.batch, line.moved) for line in lines if line.moved]
            run_of = str(scenario.strategy), [line.batch_ms for line in lines], moves
            drawn.setdefault(f"{scenario.instances} instances, {_law(scenario)}, seed {seed}", []).append(run_of)
    console.print(_outcomes(seeds, outcomes))
    return written


def _title(scenario: Scenario, seed: int) -> str:
    stream = scenario.source
    assert isinstance(stream, (Stream, Scripted))
    rows = " : ".join(f"{count:,.0f}" for count in stream.rows)
    return (
        f"{scenario.instances} instances ({scenario.layout}), {stream.keys:,} keys, {rows} rows a batch, "
        f"{_law(scenario)}, seed {seed}"
    )


def _law(scenario: Scenario) -> str:
    """What is hot, in words."""
    stream = scenario.source
    assert isinstance(stream, (Stream, Scripted))
    return f"zipf {stream.zipf[0]:g}, {stream.mode}" if isinstance(stream, Stream) else f"script {stream.script}"


def _draw(figure: Path, drawn: dict[str, list[Drawn]]) -> None:
    """A picture with the batch times of the first seed: a panel for each stream, a line for each strategy."""
    from evenjoin.bench.compare_plots import Panel, panels_plot, png

    figure.write_bytes(png(panels_plot([Panel(title, runs) for title, runs in drawn.items()])))


def _batches(lines: Sequence[Line]) -> Table:
    columns = ("batch", "inst.", "alive", "imbalance", "limit", "within", "moved", "plan ms", "regions", "keys",
               "busy max", "mean", "batch ms", "latency", "p99", "verdict")  # fmt: skip
    table = _table(columns, left="verdict")
    for line in lines:
        within = "" if line.within is None else "yes" if line.within else "no"
        table.add_row(
            str(line.batch), str(line.instances), f"{line.alive:,}", _number(line.imbalance), _number(line.threshold),
            within, f"{line.moved:,}" if line.moved else "", _number(line.planner_ms), f"{line.regions:,}",
            f"{line.records:,}", _number(line.busy_max), _number(line.busy_mean), _number(line.batch_ms),
            _number(line.latency_ms), _number(line.latency_p99_ms), cell(line.verdict),
        )  # fmt: skip
    return table


def _outcomes(seeds: Sequence[int], outcomes: Sequence[Outcome]) -> Table:
    table = _table(("seed", "within", "rebalances", "moved", "imbalance", "last", "floor", "plan ms", "batch ms"))
    for seed, one in zip(seeds, outcomes, strict=True):
        table.add_row(
            str(seed), _share(one.within), str(one.rebalances), f"{one.moved:,}", _number(one.imbalance),
            _number(one.last), _number(one.floor), _number(one.planner_ms), _number(one.batch_ms),
        )  # fmt: skip
    return table


def _sweep(console: Console, scenarios: Sequence[Scenario], seeds: Sequence[int], jobs: int) -> list[Summary]:
    """The summary of every point, told in tables."""
    with _bar(console, len(scenarios) * len(seeds)) as tick:
        summaries = list(sweep(scenarios, seeds, jobs, tick))
    for strategy in dict.fromkeys(one.strategy for one in summaries):
        for mode in dict.fromkeys(one.mode for one in summaries):
            some = [one for one in summaries if (one.strategy, one.mode) == (strategy, mode)]
            console.print(f"[bold]{markup(strategy)}[/], {mode}, {len(seeds)} seeds from {seeds[0]}")
            console.print(_summaries(some))
    return summaries


def _summaries(some: Sequence[Summary]) -> Table:
    columns = ("inst.", "zipf", "limit", "within", "rebalances", "most", "moved", "imbalance", "last", "floor",
               "plan ms", "batch ms")  # fmt: skip
    table = _table(columns)
    for one in some:
        table.add_row(
            str(one.instances), f"{one.zipf:g}", _number(one.threshold), _share(one.within), f"{one.rebalances:.1f}",
            str(one.most_rebalances), f"{one.moved:,.0f}", _number(one.imbalance), _number(one.last),
            _number(one.floor), _number(one.planner_ms), _number(one.batch_ms),
        )  # fmt: skip
    return table


def _table(columns: Sequence[str], left: str = "") -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, justify="left" if column == left else "right", no_wrap=column != left)
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}" if abs(value) < 1000 else f"{value:,.0f}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


@contextmanager
def _bar(console: Console, runs: int) -> Iterator[Any]:
    """A bar for the runs of a sweep."""
    with progress(console) as bars:
        task = bars.add_task("simulating", total=runs, note="")
        yield lambda: bars.advance(task)
