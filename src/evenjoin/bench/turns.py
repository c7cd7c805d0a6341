"""Two trees of this project measured in turn: is a change slower than what stood before it?

    git worktree add ../before HEAD~1
    python -m evenjoin.bench.turns ../before --repeat 3

Each round runs `evenjoin.bench.run --skip-peers` once from either tree, on the same machine, with the same seeds and so
the same files. Who begins alternates, because the second of two runs is often the slower one: an even number of rounds
is fair to both. What is told is the geometric mean of the rounds' ratios, new over old, with every round beside it:
machines drift, and a difference below the spread means nothing.
The other tree runs with its own source on this interpreter, so its dependencies must be installed here.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import click
from rich.table import Table

import evenjoin
from evenjoin.bench.run import WORKLOADS
from evenjoin.console import open_console

HERE = Path(evenjoin.__file__).resolve().parents[2]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("before", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--workload", "names", multiple=True, type=click.Choice(list(WORKLOADS)), default=("W1", "W2", "W3"))
@click.option("--repeat", default=3, type=click.IntRange(1), show_default=True, help="Rounds; each tree runs in each.")
@click.option(
    "--scale", default=1.0, type=click.FloatRange(0, 1, min_open=True), help="Fraction of the rows per batch."
)
@click.option("--out", default="build/turns", type=click.Path(path_type=Path), show_default=True)
def main(before: Path, names: tuple[str, ...], repeat: int, scale: float, out: Path) -> None:
    """Measure this tree against BEFORE, another checkout of it."""
    console = open_console()
    trees = {"before": before.resolve(), "now": HERE}
    told = Table("workload", "measure", "before", "now", "now / before", "in each round")
    for name in names:
        found: dict[str, list[float]] = {tree: [] for tree in trees}
        for turn in range(repeat):
            for tree in sorted(trees, reverse=bool(turn % 2)):
                folder = out.resolve() / tree / str(turn)
                found[tree].append(measured(trees[tree], name, scale, folder))
                console.print(f"{name} {tree}: {found[tree][-1]:,.1f}", highlight=False)
        rounds = [now / old for old, now in zip(found["before"], found["now"], strict=True)]
        middle = {tree: statistics.median(values) for tree, values in found.items()}
        told.add_row(
            name, WORKLOADS[name].measure, f"{middle['before']:,.0f}", f"{middle['now']:,.0f}",
            f"{statistics.geometric_mean(rounds):.3f}", " ".join(f"{ratio:.3f}" for ratio in rounds),
        )  # fmt: skip
    console.print(told)


def measured(tree: Path, name: str, scale: float, out: Path) -> float:
    """What one workload gives from a tree: rows/s, or the median milliseconds of a batch."""
    os.sync()  # what the run before has left to be written must not slow this one down
    command = [sys.executable, "-m", "evenjoin.bench.run", "--workload", name, "--skip-peers",
               "--scale", str(scale), "--out", str(out)]  # fmt: skip
    subprocess.run(command, check=True, cwd=tree, env={**os.environ, "PYTHONPATH": f"{tree}/src"}, capture_output=True)
    report = json.loads((out / f"{name}.json").read_text())
    (ours,) = [system for system in report["outcomes"] if system["system"] == "evenjoin"]
    return float(ours["rows_per_s" if WORKLOADS[name].measure == "rows/s" else "median_batch_ms"])


if __name__ == "__main__":
    main()
