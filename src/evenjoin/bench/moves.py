"""What a migration costs that moves little of a large state, on the embedded engine.

    git worktree add ../before HEAD~1
    python -m evenjoin.bench.moves --before ../before

A join of two sides stores so many tuples on 8 instances by hash. Then one change of table is made at a time, always
from that same state, and its pause is told as the engine tells it (`pause_ms` of the migration):

    key       one key with 1 % of the tuples goes to another instance
    unstored  a key goes to another instance that no tuple has
    bucket    one of the 32 buckets goes to another instance
    rescale   8 instances become 9 by hash; half of the tuples move

A batch of a few rows runs first, so that every run is open, as it is in a process that has worked for a while; with
`--cold` the process has opened nothing, as when Spark runs an instance somewhere else.

With `--before` the same file runs from another checkout of this project too, in turn, so both have the same machine and
the same state. It must use only what both have: the public names, `Fixed`, and tables. Not here: Spark's own time for
the tasks of a migration.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
from rich.table import Table

import evenjoin
from evenjoin.console import open_console
from evenjoin.placement.place import bucket_of
from evenjoin.placement.table import Buckets, Keys, Region, RoutingTable
from evenjoin.placement.topology import Biclique
from evenjoin.runtime.local import LocalJoin
from evenjoin.strategies.base import resolve
from evenjoin.testing import Fixed

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("w", pa.float64())])
INSTANCES, BATCHES = 8, 10
HOT, UNSTORED = 0, 1 << 50
"""The key with 1 % of the tuples, and one that nobody has."""
SHIFT = 1 << 40
"""By how much the other keys of side r differ from those of side l, so that loading makes no results."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--tuples", default=2_000_000, show_default=True, help="Stored tuples, of both sides together.")
@click.option("--repeat", default=3, type=click.IntRange(1), show_default=True, help="How often each change is made.")
@click.option("--before", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Another checkout.")
@click.option("--cold", is_flag=True, help="Migrate in a process that has opened no run.")
@click.option("--state", type=click.Path(path_type=Path), hidden=True, help="Measure this state once, as JSON.")
def main(tuples: int, repeat: int, before: Path | None, cold: bool, state: Path | None) -> None:
    """Measure the pause of small and large migrations."""
    warnings.simplefilter("ignore")  # that nothing bounds the state is the point
    if state is not None:
        click.echo(json.dumps(pauses(state, tuples, "cold" if cold else "warm")))
        return
    here = Path(evenjoin.__file__).resolve().parents[2]
    trees = {"now": here} if before is None else {"before": before.resolve(), "now": here}
    found: dict[str, list[dict[str, tuple[float, int]]]] = {tree: [] for tree in trees}
    with tempfile.TemporaryDirectory() as folder:
        load(Path(folder) / "ck", tuples)
        for turn in range(repeat):
            for tree in sorted(trees, reverse=bool(turn % 2)):
                found[tree].append(_measured(trees[tree], Path(folder) / "ck", tuples, cold))
    open_console().print(_told(found))


def home() -> RoutingTable:
    return resolve("hash").initial(INSTANCES, 2, "shared")


def changes() -> dict[str, RoutingTable]:
    """The tables that follow, by what they change."""
    table = home()
    bucket = int(bucket_of(np.array([HOT]), table.buckets)[0])
    return {
        "key": _next(table, (*table.regions, _elsewhere(table, HOT))),
        "unstored": _next(table, (*table.regions, _elsewhere(table, UNSTORED))),
        "bucket": _next(table, _without(table, (bucket + 1) % table.buckets)),
        "rescale": replace(resolve("hash").initial(INSTANCES + 1, 2, "shared"), version=1),
    }


def _next(table: RoutingTable, regions: tuple[Region, ...]) -> RoutingTable:
    return replace(table, version=table.version + 1, regions=regions)


def _elsewhere(table: RoutingTable, code: int) -> Region:
    """A region that stores a key on the instance after the one of its bucket."""
    bucket = int(bucket_of(np.array([code]), table.buckets)[0])
    unit = (bucket * INSTANCES // table.buckets + 1) % INSTANCES
    return Region(Keys((code,)), Biclique(((unit,), (unit,))))


def _without(table: RoutingTable, bucket: int) -> tuple[Region, ...]:
    """The regions with one bucket on the instance after its own."""
    unit = (bucket * INSTANCES // table.buckets + 1) % INSTANCES
    kept = [
        replace(region, takes=Buckets(tuple(b for b in region.takes.ids if b != bucket)))
        for region in table.regions
        if isinstance(region.takes, Buckets)
    ]
    return (*kept, Region(Buckets((bucket,)), Biclique(((unit,), (unit,)))))


def load(folder: Path, tuples: int) -> None:
    """Store the tuples: a tenth of them in each batch."""
    with _join(folder, (home(),)) as join:
        for number in range(BATCHES):
            join.process(rows(number, tuples // BATCHES // 2))


def rows(number: int, count: int) -> dict[str, pa.Table]:
    """Batch `number` of both sides. Side l has the hot key for 2 % of its rows, side r never."""
    out = {}
    for side, shift in (("l", 1), ("r", SHIFT)):
        rng = np.random.default_rng([number, shift])
        keys = rng.integers(1, 200_000, count) + shift
        keys[: count // 50 if side == "l" else 0] = HOT
        out[side] = pa.table([rng.permutation(keys), np.arange(count), rng.random(count)], schema=SCHEMA)
    return out


def pauses(state: Path, tuples: int, opened: str) -> dict[str, tuple[float, int]]:
    """By change its pause in milliseconds, and how many tuples moved. Each is made on a copy of the state."""
    found = {}
    for name, new in changes().items():
        with tempfile.TemporaryDirectory(dir=state.parent) as folder:
            copy = Path(folder) / "ck"
            shutil.copytree(state, copy, copy_function=_linked)
            tables = (home(),) * (BATCHES + 1) + (new,)
            with _join(copy, tables) as join:
                join.process(rows(BATCHES, 2_000))
                if opened == "warm":
                    join.process({})
            if opened == "cold":
                with _join(copy, tables) as join:
                    join.process({})
            with _join(copy, tables) as join:
                (event,) = join.migrations()
            found[name] = event.pause_ms, event.tuples
    return found


def _linked(source: str, target: str) -> None:
    """Segments never change, so a copy of the state may share them."""
    (os.link if f"{os.sep}segments{os.sep}" in source else shutil.copy2)(source, target)


def _join(folder: Path, tables: tuple[RoutingTable, ...]) -> LocalJoin:
    return evenjoin.local(
        {"l": SCHEMA, "r": SCHEMA}, "l.k = r.k", select=["l.k", "l.v", "r.w"], strategy=Fixed(tables),
        instances=INSTANCES, checkpoint=folder,
    )  # fmt: skip


def _measured(tree: Path, state: Path, tuples: int, cold: bool) -> dict[str, tuple[float, int]]:
    """What this file finds when it runs on the engine of a tree."""
    command = [sys.executable, __file__, "--tuples", str(tuples), "--state", str(state), *(["--cold"] if cold else [])]
    environment = {**os.environ, "PYTHONPATH": f"{tree}/src"}
    done = subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
    found: dict[str, tuple[float, int]] = json.loads(done.stdout)
    return found


def _told(found: Mapping[str, list[dict[str, tuple[float, int]]]]) -> Table:
    """A line for each change: the median pauses, and their ratio in each turn."""
    table = Table("change", "tuples moved", *(f"{tree} ms" for tree in found), "before / now")
    for name, (_, moved) in found["now"][0].items():
        times = {tree: [run[name][0] for run in runs] for tree, runs in found.items()}
        ratios = [old / new for old, new in zip(times.get("before", ()), times["now"], strict=False)]
        table.add_row(
            name, f"{moved:,}", *(f"{statistics.median(some):,.1f}" for some in times.values()),
            " ".join(f"{ratio:.1f}" for ratio in ratios) or "-",
        )  # fmt: skip
    return table


if __name__ == "__main__":
    main()
