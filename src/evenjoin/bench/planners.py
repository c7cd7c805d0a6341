"""How long planners think: ``python -m evenjoin.bench.planners``, for a million keys and 256 instances by default.

    greedyfit   FastJoin's key selection for one pair of units, the source having all the keys (Algorithm 1)
    fastjoin    a whole plan: both monitors, pair after pair, the keys spread over all instances
    lsstream    a whole plan: the models, the pairs and the annealing, the keys in its default number of partitions
    djb         a whole plan: all migration functions; as nothing expires here, for loads to come as well

The load is zipf (`--zipf`) on both sides, stored and arrived alike, laid out by the strategy's own initial table. Only
planning is timed, as processor time: no Spark, no files. Not here: A-DSP (area_plans.py), and what the plans are worth
(``evenjoin compare``).
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import click
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from evenjoin.bench.report import machine
from evenjoin.bench.workloads import zipf_weights
from evenjoin.load.fastjoin import Pair, Unit
from evenjoin.load.items import Items, loads
from evenjoin.load.report import InstanceLoad, LoadReport
from evenjoin.placement.place import bucket_of
from evenjoin.placement.table import RoutingTable
from evenjoin.strategies import DJB, FastJoin, LsStream, Strategy
from evenjoin.strategies.fastjoin.greedyfit import greedy_fit

TUPLES_PER_KEY = 20
ZIPF = 0.8
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Timing:
    """The runs of one planner, in milliseconds, and what it did in a sentence."""

    planner: str
    keys: int
    instances: int
    ms: tuple[float, ...]
    did: str

    @property
    def median_ms(self) -> float:
        return statistics.median(self.ms)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--keys", default=1_000_000, type=click.IntRange(256), show_default=True)
@click.option("--instances", default=256, type=click.IntRange(2), show_default=True)
@click.option("--zipf", default=ZIPF, type=click.FloatRange(0.0), show_default=True, help="The exponent of the load.")
@click.option("--repeat", default=5, type=click.IntRange(1), show_default=True, help="Runs of each; the median counts.")
@click.option("--out", default="build/bench", type=click.Path(path_type=Path), show_default=True, help="Output folder.")
def main(keys: int, instances: int, zipf: float, repeat: int, out: Path) -> None:
    """Time the planners and save planners.json."""
    timings = [time_greedyfit(keys, instances, zipf, repeat)]
    timings += [time_plan(strategy, keys, instances, zipf, repeat) for strategy in (FastJoin(), LsStream(), DJB())]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for column in ("planner", "keys", "instances", "median ms", "least ms", "what it did"):
        table.add_column(column, justify="left" if column in ("planner", "what it did") else "right", no_wrap=True)
    for t in timings:
        counts = (f"{t.keys:,}", str(t.instances), f"{t.median_ms:,.1f}", f"{min(t.ms):,.1f}")
        table.add_row(t.planner, *counts, t.did)
    Console(width=110).print(table)
    out.mkdir(parents=True, exist_ok=True)
    record = {"machine": machine(), "zipf": zipf, "timings": [{**asdict(t), "median_ms": t.median_ms} for t in timings]}
    (out / "planners.json").write_text(json.dumps(record, indent=2) + "\n")


def time_greedyfit(keys: int, instances: int, zipf: float, repeat: int) -> Timing:
    """GreedyFit for a source that has all the keys; the target has the load of one instance among many."""
    rng = np.random.default_rng(7)
    stored = np.floor(rng.permutation(zipf_weights(keys, zipf)) * keys * TUPLES_PER_KEY) + 1
    probes = np.floor(rng.permutation(zipf_weights(keys, zipf)) * keys * TUPLES_PER_KEY) + 1
    source = Unit(float(stored.sum()), float(probes.sum()))
    pair = Pair(source, Unit(source.stored / instances, source.probes / instances))
    chosen, ms = timed(lambda: greedy_fit(pair, stored, probes), repeat)
    return Timing("greedyfit", keys, instances, ms, f"{len(chosen):,} keys chosen")


def time_plan(strategy: Strategy, keys: int, instances: int, zipf: float, repeat: int) -> Timing:
    """A whole plan of a strategy from its initial table."""
    table = strategy.initial(instances, 2, "shared")
    items = zipf_items(keys, table, zipf)
    report = report_of(items, table)
    planned, ms = timed(lambda: strategy.plan(report, items, table), repeat)
    before = strategy.imbalance(items, table)
    after = strategy.imbalance(items, planned) if isinstance(planned, RoutingTable) else before
    return Timing(strategy.origin, keys, instances, ms, f"imbalance {before:,.2f} -> {after:,.2f}")


def zipf_items(keys: int, table: RoutingTable, zipf: float = ZIPF) -> Items:
    """One item per key, zipf on both sides in the same order; buckets have no remainder."""
    shares = np.random.default_rng(7).permutation(zipf_weights(keys, zipf))
    codes = np.arange(keys, dtype=np.int64)
    counts = np.floor(shares * keys * TUPLES_PER_KEY) + 1
    both = np.stack([counts, counts])
    return Items(codes, np.ones(keys, np.bool_), bucket_of(codes, table.buckets), both, both, both)


def report_of(items: Items, table: RoutingTable) -> LoadReport:
    """The report these items would have left: what each instance took in, and a busy time in proportion."""
    units = loads(items, table)
    taken = tuple(int(n) for n in np.sum([unit.arrived + unit.probes for unit in units], axis=0))
    instances = tuple(
        InstanceLoad(
            instance,
            tuple(int(unit.stored[instance]) for unit in units),
            tuple(int(unit.probes[instance]) for unit in units),
            tuple(int(unit.results[instance]) for unit in units),
            bytes=0,
            busy_ms=taken[instance] / 1000,
        )
        for instance in range(table.instances)
    )
    return LoadReport(0, instances, (), (), (), recent=(taken,))


def timed(call: Callable[[], T], repeat: int) -> tuple[T, tuple[float, ...]]:
    """The call's answer, and how long each of its runs took, in milliseconds of processor time."""
    times = []
    for _ in range(repeat):
        started = time.process_time()
        answer = call()
        times.append(round((time.process_time() - started) * 1000, 3))
    return answer, tuple(times)


if __name__ == "__main__":
    main()
