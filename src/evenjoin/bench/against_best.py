"""`auto` against the best of the named strategies, workload by workload: ``python -m evenjoin.bench.against_best``.

    python -m evenjoin.bench.against_best G11 zipf1.0 --strategies hash,djb --batches 16
    python -m evenjoin.bench.against_best script-hot script-flash --strategies hash --figure build/auto.png
    python -m evenjoin.bench.against_best --redraw build/best/best.json --figure build/auto.png

Each workload is a comparison (``compare``): the same files, every strategy in a process of its own, and the number of
results compared with DuckDB's. A line tells the mean time of a warm batch under each strategy, pauses for migrations
included, with the spread of the rounds; `auto`'s over the least of the others; and what `auto` changed. With several
rounds (`--repeat`, an even number is fair) the median of each strategy counts. The least of several noisy medians is a
little too low, so the ratio is a little unkind to `auto`. With `--figure` the batch times are drawn, a
panel for each workload, with a mark where a migration came before the batch and how many tuples it moved.

Invariant: a workload whose results do not agree with DuckDB's ends the run with exit code 1.
Not here: the workloads (``catalog``), and running a comparison (``compare``).
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import click
from rich.table import Table

from evenjoin.bench.catalog import NAMES, workload
from evenjoin.bench.compare import WARM, Comparison, Plan, Run, compare, suiting
from evenjoin.bench.compare_plots import Panel, panels_plot, png
from evenjoin.bench.compare_report import as_document
from evenjoin.bench.join_workload import Size
from evenjoin.bench.report import machine
from evenjoin.console import cell, open_console
from evenjoin.errors import EvenJoinError


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, metavar="[WORKLOAD]...")
@click.option("--strategies", default="hash,fastjoin,djb,lsstream", show_default=True, help="Besides auto.")
@click.option("--instances", default=8, type=click.IntRange(2, 256), show_default=True)
@click.option("--batches", type=click.IntRange(WARM + 1), help="Default: the workload's own.")
@click.option("--rows", type=click.IntRange(1), help="Of the left side in a batch; default: the workload's own.")
@click.option("--seed", type=click.IntRange(0), help="Default: the workload's own.")
@click.option("--repeat", default=1, type=click.IntRange(1), show_default=True, help="Rounds; the median counts.")
@click.option("--figure", type=click.Path(dir_okay=False, path_type=Path), help="A PNG with the batch times.")
@click.option("--redraw", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Run nothing: draw the figure of these files again.")  # fmt: skip
@click.option("--out", default="build/best", type=click.Path(path_type=Path), show_default=True)
def main(
    names: tuple[str, ...], strategies: str, instances: int, batches: int | None, rows: int | None, seed: int | None,
    repeat: int, figure: Path | None, redraw: tuple[Path, ...], out: Path,
) -> None:  # fmt: skip
    """Compare auto with the best named strategy on each WORKLOAD (default: all that have two sides)."""
    if redraw:
        saved = [run for path in redraw for run in json.loads(path.read_text())["runs"]]
        (figure or out / "best.png").write_bytes(png(panels_plot([*map(Panel.read, saved)])))
        return
    console, found = open_console(), []
    table = Table("workload", "mean warm batch, ms", "auto / best", "auto changed", "moved")
    for name in names or [one for one in NAMES if len(workload(one).aliases) == 2]:
        work = workload(name, Size(rows, batches, seed))
        systems = (*suiting(strategies.split(","), work, instances), "auto")
        comparison = compare(Plan(work, systems, instances, out.resolve() / name, repeat))
        found.append(comparison)
        auto, ratio = judged(comparison)
        each = ", ".join(map(told, comparison.runs))
        console.print(f"{name}: {each}; auto / best {ratio:.2f}", highlight=False)
        table.add_row(cell(name), cell(each), f"{ratio:.2f}", str(len(auto.migrations)), f"{auto.migrated:,}")
        record = {"machine": machine(), "runs": [as_document(one) for one in found]}
        (out / "best.json").write_text(json.dumps(record, indent=1) + "\n")
    console.print(table)
    if figure is not None:
        figure.write_bytes(png(panels_plot([*map(Panel.of, found)])))
    wrong = [one.workload.name for one in found if not one.counts_agree]
    if wrong:
        raise EvenJoinError(f"results differ from DuckDB's: {', '.join(wrong)}")


def judged(comparison: Comparison) -> tuple[Run, float]:
    """The run of `auto`, and its mean batch over that of the best other strategy."""
    (auto,) = [run for run in comparison.runs if run.name == "auto"]
    return auto, median(auto.rounds) / min(median(run.rounds) for run in comparison.runs if run is not auto)


def told(run: Run) -> str:
    """The median round of a strategy, and the least and the greatest of several."""
    spread = f" ({min(run.rounds):,.0f}-{max(run.rounds):,.0f})" if len(run.rounds) > 1 else ""
    return f"{run.name} {median(run.rounds):,.0f}{spread}"


if __name__ == "__main__":
    main()
