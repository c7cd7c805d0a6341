"""`auto` against the best of the named strategies, simulated: ``python -m evenjoin.sim.against_best``.

    python -m evenjoin.sim.against_best --instances 8,48 --jobs 2

Each point is a stream on a number of instances, with a core for each of them or for every fourth. All strategies meet
the same arrivals, and what is compared is the mean virtual time of a batch, pauses for migrations included. A line has
`auto`'s time over that of the strategy that was best by its own mean over the seeds, and the worst seed of that
quotient. Every seed counts: none is chosen.

Not here: what happens on Spark (bench/against_best.py), and one run in detail (``evenjoin simulate``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from statistics import mean

import click
from rich.table import Table

from evenjoin.console import open_console
from evenjoin.sim.cluster import Cluster
from evenjoin.sim.scenario import Scenario
from evenjoin.sim.scripted import SCRIPTS, Scripted
from evenjoin.sim.stream import Mode, Stream
from evenjoin.sim.sweep import outcome_of, seeded

NAMED = "hash,fastjoin,djb,lsstream"
ZIPF = (0.0, 0.6, 1.0, 1.4)
MODES: tuple[Mode, ...] = ("stationary", "drifting")


@dataclass(frozen=True, slots=True)
class Point:
    """One stream on a cluster, and the mean batch of each strategy with each seed, in virtual milliseconds."""

    stream: str
    instances: int
    cores: int
    batch_ms: dict[str, tuple[float, ...]]
    changes: tuple[int, ...]  # of `auto`, by seed

    @property
    def best(self) -> str:
        """The named strategy whose mean over the seeds is the least."""
        return min((name for name in self.batch_ms if name != "auto"), key=lambda name: mean(self.batch_ms[name]))

    def over(self, name: str) -> tuple[float, float]:
        """`auto` over a strategy: the quotient of the means, and that of the worst seed."""
        mine, its = self.batch_ms["auto"], self.batch_ms[name]
        return mean(mine) / mean(its), max(a / b for a, b in zip(mine, its, strict=True))


def scenarios(instances: Sequence[int], rows: int, keys: int, batches: int) -> list[tuple[str, Scenario]]:
    """Every stream on every cluster, with its name; a side has so many rows a batch for each instance."""
    return [
        (name, Scenario(source, instances=size, cluster=cluster(cores)))
        for size in instances
        for cores in (size, max(size // 4, 2))
        for name, source in streams(rows * size, keys, batches)
    ]


def streams(rows: int, keys: int, batches: int) -> list[tuple[str, Stream | Scripted]]:
    """Skew by a law, and hot keys by a script, each with its name."""
    both = rows, rows
    by_law = [
        (f"zipf {zipf:g} {mode}", Stream(keys, both, (zipf, zipf), mode=mode, batches=batches))
        for mode, zipf in product(MODES, ZIPF)
    ]
    return [*by_law, *((script, Scripted(script, keys, both, batches=batches)) for script in SCRIPTS)]


def cluster(cores: int) -> Cluster:
    """So many cores, and every task takes the first that is free, as Spark's do: on nodes of their own, a simulated
    task would wait for its node while others are idle."""
    return Cluster((1.0,), cores)


def measured(base: Scenario, strategy: str, seed: int) -> tuple[float, int]:
    """The mean batch of a run, and how often the table changed."""
    found = outcome_of(seeded(replace(base, strategy=strategy), seed))
    return found.batch_ms, found.rebalances


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--instances", default="8,16,48,100", show_default=True, help="Numbers with commas.")
@click.option("--strategies", default=NAMED, show_default=True, help="Besides auto.")
@click.option("--stream", "only", default="", help="Those streams only whose names have this in them.")
@click.option("--rows", default=20_000, type=click.IntRange(1), show_default=True, help="An instance, of a side.")
@click.option("--keys", default=20_000, type=click.IntRange(1), show_default=True)
@click.option("--batches", default=24, type=click.IntRange(4), show_default=True)
@click.option("--seeds", default=5, type=click.IntRange(1), show_default=True)
@click.option("--first-seed", default=1, type=click.IntRange(0), show_default=True)
@click.option("--jobs", default=1, type=click.IntRange(1), show_default=True, help="Processes.")
@click.option("--out", default="build/best-simulated.json", type=click.Path(path_type=Path), show_default=True)
def main(
    instances: str, strategies: str, only: str, rows: int, keys: int, batches: int, seeds: int, first_seed: int,
    jobs: int, out: Path,
) -> None:  # fmt: skip
    """Simulate auto and the named strategies on the same streams."""
    sizes = [int(size) for size in instances.split(",")]
    console, points = open_console(), [one for one in scenarios(sizes, rows, keys, batches) if only in one[0]]
    numbers, systems, found = range(first_seed, first_seed + seeds), (*strategies.split(","), "auto"), []
    table = Table(
        "stream", "instances", "cores", "best", "auto / best", "worst seed", "auto / hash", "worst", "changes"
    )
    with ProcessPoolExecutor(jobs) as pool:
        asked = [
            (base, [[pool.submit(measured, base, name, seed) for seed in numbers] for name in systems])
            for _, base in points
        ]
        for (name, _), (base, runs) in zip(points, asked, strict=True):
            results = {system: [one.result() for one in some] for system, some in zip(systems, runs, strict=True)}
            assert base.cluster is not None
            point = Point(
                name, base.instances, base.cluster.size,
                {system: tuple(ms for ms, _ in some) for system, some in results.items()},
                tuple(changes for _, changes in results["auto"]),
            )  # fmt: skip
            found.append(point)
            (of_best, worst), (of_hash, worst_hash) = point.over(point.best), point.over("hash")
            row = (
                name, str(point.instances), str(point.cores), point.best, f"{of_best:.3f}", f"{worst:.3f}",
                f"{of_hash:.3f}", f"{worst_hash:.3f}", " ".join(map(str, point.changes)),
            )  # fmt: skip
            console.print("  ".join(row), highlight=False)
            table.add_row(*row)
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
    console.print(table)
    if not found:
        raise click.BadParameter(f"no stream has {only!r} in its name", param_hint="'--stream'")
    far = max(point.over(point.best)[0] for point in found)
    console.print(f"{len(found)} points, auto / best at most {far:.3f}", highlight=False)


if __name__ == "__main__":
    main()
