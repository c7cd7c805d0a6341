"""A cost profile from real runs, and how near a simulation comes to a run: ``python -m evenjoin.sim.calibrate``.

    python -m evenjoin.sim.calibrate --fit build/a/checkpoint --fit build/b/checkpoint --check build/c/checkpoint

Fits a profile to the commits of some checkpoints (their receipts' counts, busy times and durations) and shows by how
much it is off on each of them, and on those that it was not fitted on. The profile is printed as Python, to stand in
cost.py. `against` is the harder check: a simulation of the same rows, which knows nothing of the run but its table.

Not here: making the runs (bench/). A checkpoint keeps its last 512 commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import click
import numpy as np
from rich import box
from rich.table import Table

from evenjoin.commit.identity import recorded_log
from evenjoin.commit.log import Commit
from evenjoin.console import cell, open_console
from evenjoin.errors import SpecError
from evenjoin.sim.cluster import Cluster
from evenjoin.sim.cost import Observed, Profile, fit, observed
from evenjoin.sim.scenario import Scenario
from evenjoin.sim.simulation import Simulation
from evenjoin.state.files import open_folder
from evenjoin.strategies.base import Bounds

SKIP = 2
"""The first batches of a run, in which everything is loaded and compiled, are not judged."""


@dataclass(frozen=True, slots=True)
class Off:
    """How far a profile or a simulation is from a run, in relative terms.

    batch_ms     of the time of all judged batches together
    each         of the time of a batch, on average
    imbalance    by the strategy's own measure, on average; None where the run has none. A measure of which 0 is even is
                 the excess of the heaviest load over the mean; there the heaviest loads themselves are compared
    """

    batches: int
    batch_ms: float
    each: float
    imbalance: float | None = None


def commits_of(checkpoint: str | Path) -> list[Commit]:
    """The commits that a checkpoint keeps, oldest first."""
    return list(recorded_log(open_folder(checkpoint)).commits())[::-1]


def explained(profile: Profile, batches: Sequence[Observed], cluster: Cluster) -> Off:
    """How far a profile is from the batches of a run whose counts are known."""
    if not batches:
        raise SpecError("no batch to judge: a run needs more batches than are skipped")
    wanted = np.array([batch.duration_ms for batch in batches])
    got = np.array(
        [
            profile.batch_ms(profile.busy_of(batch.columns), batch.rows, int(batch.columns[:, 3].sum()), cluster)
            for batch in batches
        ]
    )
    return Off(len(batches), float(got.sum() / wanted.sum() - 1), float(np.abs(got / wanted - 1).mean()))


def against(scenario: Scenario, commits: Sequence[Commit], skip: int = SKIP) -> Off:
    """How far a simulation is from a real run of the same rows, strategy and instances, batch by batch."""
    simulation, pairs = Simulation(scenario), []
    for commit in commits:
        line = simulation.step()
        if line.batch != commit.batch:
            raise SpecError(f"the run begins with batch {commit.batch}: all of its commits are needed")
        if commit.batch >= skip:
            pairs.append((line, commit))
    real, made = sum(commit.duration_ms for _, commit in pairs), sum(line.batch_ms for line, _ in pairs)
    more = 1.0 - getattr(simulation.settings.strategy, "bounds", Bounds(1.0, 1.0)).even
    judged = [
        abs((line.imbalance + more) / (commit.verdict.imbalance + more) - 1)
        for line, commit in pairs
        if line.imbalance is not None and commit.verdict is not None and commit.verdict.imbalance is not None
    ]
    each = mean(abs(line.batch_ms / commit.duration_ms - 1) for line, commit in pairs)
    return Off(len(pairs), made / real - 1, each, mean(judged) if judged else None)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--fit", "fitted", multiple=True, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--check", "checked", multiple=True, type=click.Path(exists=True, path_type=Path))
@click.option("--cores", default=2, type=click.IntRange(1), show_default=True, help="Of the machine the runs were on.")
def main(fitted: Sequence[Path], checked: Sequence[Path], cores: int) -> None:
    """Fit a profile to the commits of checkpoints, and check it on others."""
    cluster, console = Cluster((1.0,), cores), open_console()
    runs = [observed(commits_of(path), SKIP) for path in fitted]
    profile = fit([(run, cluster) for run in runs])
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for column in ("run", "", "batches", "all batches", "a batch"):
        table.add_column(column, justify="left" if column in ("run", "") else "right")
    others = [observed(commits_of(path), SKIP) for path in checked]
    for path, run, how in [
        *((path, run, "fitted") for path, run in zip(fitted, runs, strict=True)),
        *((path, run, "held out") for path, run in zip(checked, others, strict=True)),
    ]:
        off = explained(profile, run, cluster)
        table.add_row(cell(path), how, str(off.batches), f"{off.batch_ms:+.1%}", f"{off.each:.1%}")
    console.print(table)
    console.print(cell(repr(profile)), soft_wrap=True, highlight=False)


if __name__ == "__main__":
    main()
