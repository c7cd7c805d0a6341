"""What keys that share a code cost: ``python -m evenjoin.bench.colliding``, with 20,000 keys a side by default.

    random       keys as they come: nearly every one has a code of its own
    another's    keys that all share one code under another checkpoint's seed, as somebody may craft who has seen that
    pairs        every code of this checkpoint is shared by two keys, so that runs have too many dirty codes to list
    all in one   all keys share one code of this checkpoint: what only somebody could craft who knows its seed

Each key is there once a side. A run is one batch of the embedded engine with two instances, sealing and commit
included, and then another one that probes what the first has stored. The keys are integers joined by `<=>`, whose codes
are hashes. Every case must find each key's results. Not here: how such keys are told apart (kernels/regroup.py).
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
from rich import box
from rich.table import Table

import evenjoin
from evenjoin.bench.report import machine
from evenjoin.commit.identity import recorded_identity
from evenjoin.console import open_console
from evenjoin.errors import EvenJoinError, UnboundedStateWarning
from evenjoin.kernels.hashing import CODE, I64
from evenjoin.kernels.mixing import Mixer
from evenjoin.state.files import MemoryFolder

SCHEMA = pa.schema([("k", pa.int64())])
Keys = Callable[[int, int], I64]
"""Takes the seed of a checkpoint and a number of keys, and gives that many different keys."""


def crafted(seed: int, count: int, each: int) -> I64:
    """Different keys of which always `each` share a code under the seed. A mixer is a bijection, so there is a key for
    every hash."""
    number = np.arange(count)
    hashes = (number // each << 32) + number % each
    return Mixer.of(seed, CODE).unmix(hashes.astype(np.uint64)).view(np.int64)


CASES: dict[str, Keys] = {
    "random": lambda seed, count: np.random.default_rng(1).permutation(count).astype(np.int64),
    "another's": lambda seed, count: crafted(seed ^ 1, count, count),
    "pairs": lambda seed, count: crafted(seed, count, 2),
    "all in one": lambda seed, count: crafted(seed, count, count),
}


@dataclass(frozen=True, slots=True)
class Timing:
    """The best run of one case, in seconds: the first batch, and the second."""

    case: str
    keys: int
    first_s: float
    second_s: float


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--keys", default=20_000, type=click.IntRange(2), show_default=True, help="Different keys a side.")
@click.option("--repeat", default=3, type=click.IntRange(1), show_default=True, help="Runs of each; the best counts.")
@click.option("--out", default="build/bench", type=click.Path(path_type=Path), show_default=True, help="Output folder.")
def main(keys: int, repeat: int, out: Path) -> None:
    """Time joins whose keys collide and save colliding.json."""
    warnings.simplefilter("ignore", UnboundedStateWarning)
    timings = [min((timed(case, keys) for _ in range(repeat)), key=lambda t: t.first_s + t.second_s) for case in CASES]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for column in ("keys", "a side", "first batch s", "second batch s", "times random"):
        table.add_column(column, justify="left" if column == "keys" else "right", no_wrap=True)
    for t in timings:
        ratio = (t.first_s + t.second_s) / (timings[0].first_s + timings[0].second_s)
        table.add_row(t.case, f"{t.keys:,}", f"{t.first_s:.3f}", f"{t.second_s:.3f}", f"{ratio:.1f}")
    open_console().print(table)
    out.mkdir(parents=True, exist_ok=True)
    record = {"machine": machine(), "timings": [asdict(t) for t in timings]}
    (out / "colliding.json").write_text(json.dumps(record, indent=2) + "\n")


def timed(case: str, count: int) -> Timing:
    """One run of a case on a checkpoint of its own. EvenJoinError if a result is missing or too much."""
    folder = MemoryFolder()
    with evenjoin.local({"l": SCHEMA, "r": SCHEMA}, "l.k <=> r.k", select=["l.k"], checkpoint=folder) as join:
        rows = pa.table([CASES[case](recorded_identity(folder).seed, count)], schema=SCHEMA)
        seconds = []
        for expected in (count, 3 * count):
            started = time.perf_counter()
            found = join.process({"l": rows, "r": rows}).num_rows
            seconds.append(round(time.perf_counter() - started, 4))
            if found != expected:
                raise EvenJoinError(f"{case}: {found:,} results, not {expected:,}")
    return Timing(case, count, *seconds)


if __name__ == "__main__":
    main()
