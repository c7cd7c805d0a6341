"""The simulator against real Spark: ``python -m evenjoin.sim.against_spark``.

    runs of one list on Spark  ->  their commits  ->  a cost profile (sim/cost.py)
    runs of another list       ->  a simulation of the same rows with that profile  ->  how far it is off

The two lists have no run in common: what is checked was not fitted. A simulation is given the rows, the strategy and
the number of instances, and nothing of the run; the first batches, which warm up, are left out of both. It prints the
profile as Python, to stand in sim/cost.py, and a line for each run. Nothing else should run on the machine.

Not here: how a profile is fitted (sim/cost.py) and a simulation compared with a run (sim/calibrate.py).
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import click
from rich import box
from rich.table import Table

from evenjoin.bench.catalog import workload
from evenjoin.bench.compare import LIMIT_S, Plan, job_of
from evenjoin.bench.jobs import run_job
from evenjoin.bench.join_workload import Size
from evenjoin.bench.report import machine
from evenjoin.bench.session import cores
from evenjoin.commit.log import Commit
from evenjoin.console import cell, open_console
from evenjoin.runtime.settings import Guards
from evenjoin.sim.calibrate import Off, against, commits_of
from evenjoin.sim.cluster import Cluster
from evenjoin.sim.cost import Profile, fit, observed
from evenjoin.sim.recorded import recorded_workload
from evenjoin.sim.scenario import Scenario

SKIP = 4
"""Batches of a run that are not judged: processes start, and code is compiled."""


class Case(NamedTuple):
    """One run: the workload, the strategy, instances, and rows of a side in a batch."""

    workload: str
    strategy: str
    instances: int
    rows: int

    @property
    def name(self) -> str:
        return f"{self.workload} {self.strategy} {self.instances} x {self.rows:,}"


FITTED = (
    Case("zipf0.6", "fastjoin", 4, 20_000),
    Case("zipf1.0", "lsstream", 8, 60_000),
    Case("G02", "djb", 8, 40_000),
    Case("zipf0.2", "djb", 12, 80_000),
    Case("zipf0.8", "fastjoin", 16, 40_000),
)
CHECKED = (
    Case("zipf0.8", "lsstream", 8, 40_000),
    Case("zipf0.4", "djb", 4, 50_000),
    Case("G11", "fastjoin", 8, 30_000),
    Case("zipf0.6", "lsstream", 12, 70_000),
    Case("G02", "fastjoin", 6, 60_000),
    Case("zipf1.0", "djb", 10, 30_000),
    Case("zipf0.8", "fastjoin", 8, 100_000),
)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--batches", default=24, type=click.IntRange(SKIP + 2), show_default=True)
@click.option("--out", default="build/simulated", type=click.Path(path_type=Path), show_default=True)
@click.option("--again", is_flag=True, help="Use the runs that are in the output folder, where there are any.")
def main(batches: int, out: Path, again: bool) -> None:
    """Run both lists on Spark, fit a profile to the one and check the simulator on the other."""
    console, cluster = open_console(), Cluster((1.0,), cores())
    runs = {case: commits_of_case(case, batches, out, again) for case in (*FITTED, *CHECKED)}
    profile = fit([(observed(runs[case], SKIP), cluster) for case in FITTED])
    console.print(cell(repr(profile)), soft_wrap=True, highlight=False)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for column in ("run", "", "batches", "ms a batch", "all batches", "a batch", "imbalance"):
        table.add_column(column, justify="left" if column in ("run", "") else "right")
    found = {}
    for case, commits in runs.items():
        off = found[case] = simulated(case, commits, batches, profile, cluster)
        real = sum(commit.duration_ms for commit in commits[SKIP:]) / max(len(commits) - SKIP, 1)
        how = "fitted" if case in FITTED else "held out"
        uneven = "" if off.imbalance is None else f"{off.imbalance:.1%}"
        table.add_row(
            cell(case.name), how, str(off.batches), f"{real:,.0f}", f"{off.batch_ms:+.1%}", f"{off.each:.1%}", uneven
        )
    console.print(table)
    record = {"machine": machine(), "profile": profile.to_json(), "off": {c.name: asdict(o) for c, o in found.items()}}
    (out / "simulated.json").write_text(json.dumps(record, indent=2) + "\n")


def commits_of_case(case: Case, batches: int, out: Path, again: bool) -> list[Commit]:
    """The commits of a run on Spark; its checkpoint stays in the output folder."""
    folder = out / "-".join(map(str, case)).replace(".", "_")
    checkpoint = folder / "checkpoint"
    if not (again and checkpoint.is_dir()):
        shutil.rmtree(folder, ignore_errors=True)
        work = workload(case.workload, Size(case.rows, batches))
        plan = Plan(work, (case.strategy,), case.instances, folder)
        sides = {alias: str(path) for alias, path in work.write(folder / "data").items()}
        run_job(job_of(plan, case.strategy, sides, folder), folder / "logs", LIMIT_S)
        shutil.rmtree(folder / "data")
    return commits_of(checkpoint)


def simulated(case: Case, commits: list[Commit], batches: int, profile: Profile, cluster: Cluster) -> Off:
    """How far the simulation of a run is off."""
    source = recorded_workload(workload(case.workload, Size(case.rows, batches)))
    scenario = Scenario(
        source, case.strategy, case.instances, guards=Guards(), profile=profile, cluster=cluster, trigger_ms=0.0
    )
    return against(scenario, commits, SKIP)


if __name__ == "__main__":
    main()
