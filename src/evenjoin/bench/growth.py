"""Does a batch cost more when more is stored? A full-history join of 60 equal batches on Spark.

Every batch has the same number of rows and results: the keys of batch b are new (b * keys + i), each once per side, and
one row in ten of side r repeats a key of any earlier batch of side l. Nothing expires, so the state grows all the way.

    time ratio   median batch time of the last 10 batches over that of batches 10-20     target <= 1.5
    disk ratio   bytes of the segments over the Arrow bytes of the kept columns            target <= 1.3

It runs twice, as `bench.run` does: with every batch on the executors, and with every batch in the driver's process.
Not here: a comparison with anybody else.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import click
import numpy as np
import pyarrow as pa
from rich.console import Console

from evenjoin.bench.session import cores, open_session, quietly
from evenjoin.bench.workloads import write_batches

Place = Literal["executors", "driver"]
PLACES: tuple[Place, ...] = ("executors", "driver")
SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])


@dataclass(frozen=True, slots=True)
class Growth:
    """What was found in a place; the ratios are those at the top of this file. `runs` and `stored` are as of the last
    batch."""

    place: Place
    time_ratio: float
    disk_ratio: float
    batch_ms: tuple[float, ...]
    runs: int
    stored: int
    results_per_batch_constant: bool


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rows", default=50_000, show_default=True, help="Rows of each side in a batch.")
@click.option("--batches", default=60, type=click.IntRange(30), show_default=True)
@click.option(
    "--place",
    "places",
    multiple=True,
    default=PLACES,
    type=click.Choice(PLACES),
    help="Where batches run; default: both.",
)
@click.option("--out", default="build/bench", type=click.Path(path_type=Path), show_default=True, help="Output folder.")
def main(rows: int, batches: int, places: tuple[Place, ...], out: Path) -> None:
    """Measure how batch time and disk grow with what is stored."""
    folder = (out / "growth-run").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    for side in "lr":
        write_batches(folder / side, (batch(side, b, rows) for b in range(batches)))
    with quietly(folder / "spark.log"):
        found = [run(folder, place, rows, batches) for place in places]
    (out / "growth.json").write_text(json.dumps([asdict(one) for one in found], indent=2))
    shutil.rmtree(folder)
    for one in found:
        Console().print(
            f"growth, {one.place}: last 10 batches {one.time_ratio:.2f}x batches 10-20 (target <= 1.5), "
            f"disk {one.disk_ratio:.2f}x Arrow (target <= 1.3), {one.runs} runs for {one.stored:,} tuples",
            highlight=False,
        )
    sys.exit(0 if all(one.results_per_batch_constant for one in found) else 1)


def batch(side: str, number: int, rows: int) -> pa.Table:
    """Batch `number` of a side; see the top of this file."""
    rng = np.random.default_rng([number, ord(side)])
    keys = number * rows + np.arange(rows, dtype=np.int64)
    if side == "r":
        keys = keys + (1 << 40)  # matches nothing, but for one row in ten
        old = rows // 10
        keys[:old] = rng.choice(max(number, 1) * rows, old, replace=False)
    ts = pa.array(number * 1_000_000 + rng.integers(0, 1_000_000, rows)).cast(SCHEMA.field("ts").type)
    return pa.table([rng.permutation(keys), ts, rng.integers(0, 100, rows)], schema=SCHEMA)


def run(folder: Path, place: Place, rows: int, batches: int) -> Growth:
    """Join the files of a folder in one place; every batch is read from the commits afterwards."""
    import warnings

    import evenjoin
    from evenjoin.commit.identity import recorded_log
    from evenjoin.state.files import open_folder

    spark = open_session(cores())
    sides = {
        side: spark.readStream.schema("k long, ts timestamp, v long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / side))
        for side in "lr"
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing bounds the state is the point
        select = ["l.k", "l.ts AS lts", "l.v AS lv", "r.ts", "r.v"]
        joined = evenjoin.join(sides, on="l.k = r.k", select=select, execution=place)
    checkpoint = folder / f"ck-{place}"
    writer = joined.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    log = recorded_log(open_folder(checkpoint))
    commits = [*log.commits()][::-1]
    times = [commit.duration_ms for commit in commits]
    matches = [commit.report.matches for commit in commits[1:] if commit.report]
    disk = sum(path.stat().st_size for path in (checkpoint / "segments").rglob("*.arrow"))
    arrow = sum(batch("l", b, 8).nbytes // 8 * rows for b in range(batches)) * 2
    runs = sum(1 for _ in commits[-1].manifest)
    return Growth(
        place=place,
        time_ratio=statistics.median(times[-10:]) / statistics.median(times[10:20]),
        disk_ratio=disk / arrow,
        batch_ms=tuple(times),
        runs=runs,
        stored=2 * rows * batches,
        results_per_batch_constant=min(matches) == max(matches),
    )


if __name__ == "__main__":
    main()
