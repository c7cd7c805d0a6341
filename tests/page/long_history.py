"""How the page bears a long history: a checkpoint of 10,000 batches, its page in a process of its own, and Chromium.

    PYTHONPATH=src:tests python -m page.long_history           prints the figures that docs/page.md tells
    pytest -m slow tests/page/test_long_history.py             asks for the memory
    PYTHONPATH=src:tests python -m page.long_history 500       fewer batches

The first JOINED batches are joined by the embedded engine. The others are their commits again under later numbers,
written by the log itself, which takes milliseconds in place of a tenth of a second. A checkpoint drops its oldest
commits after a while; here it keeps all of them, so that the page has the whole history to read. The memory is the
most that the process ever had.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

import evenjoin
from evenjoin.commit.log import CommitLog
from page.chromium import DRAWN, Chromium, Page
from page.crafted import BEGIN, ON, SCHEMA

JOINED, KEYS, HOT_FOR = 300, 60, 50
"""So many batches are joined, so many keys there are, and for so many batches one of them is hot."""
COMMAND = (sys.executable, "-c", "from evenjoin.cli import main; main()", "ui", "--port", "0")


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured: seconds until the server listens, until the page is drawn, and until it has read the whole
    history; the most memory of the process in MB; and how many rebalances the page lists."""

    listening_s: float
    drawn_s: float
    whole_s: float
    most_mb: float
    rebalances: int


def written(folder: Path, batches: int) -> Path:
    """A checkpoint of so many batches, all of whose commits are kept."""
    rng = np.random.default_rng(7)

    def rows(batch: int, count: int) -> pa.Table:
        keys = np.where(rng.random(count) < 0.3, batch // HOT_FOR % KEYS, rng.integers(0, KEYS, count))
        times = BEGIN + batch * 1_000_000 + rng.integers(0, 1_000_000, count)
        names = pa.array([f"cell-{key}" for key in keys])
        return pa.table([names, pa.array(times).cast(SCHEMA.field("ts").type), np.arange(count)], schema=SCHEMA)

    sides, settings = {"o": SCHEMA, "t": SCHEMA}, {"event_time": "ts", "watermark": "2 seconds", "durability": "os"}
    with evenjoin.local(
        sides, ON, checkpoint=folder, strategy="djb", instances=4, select=["o.v AS a"], **settings
    ) as j:
        for batch in range(min(batches, JOINED)):
            j.process({"o": rows(batch, 100), "t": rows(batch, 150)})
        repeat(j._driver.log, batches)
    return folder


def repeat(log: CommitLog, batches: int) -> None:
    """Append the commits of a log to it once more, and once more, until there are so many batches. Rebalances follow
    each other as they did."""
    joined = list(log.commits())[::-1]
    last, moved = joined[-1], next((c.entry for c in joined[::-1] if c.migration is not None), None)
    for batch in range(len(joined), batches):
        old = joined[batch % len(joined)]
        report = replace(old.report, batch=batch) if old.report is not None else None
        migration = replace(old.migration, batch=batch) if old.migration is not None else None
        last = replace(
            old, batch=batch, entry=last.entry + 1, previous=last.entry, report=report, migration=migration,
            migrated=moved, manifest=last.manifest,
        )  # fmt: skip
        log.append(last)
        moved = last.entry if migration is not None else moved


def measured(folder: Path, last: int) -> Figures:
    """Open the page of a checkpoint whose last batch is `last`, and wait until it has read everything."""
    began = time.monotonic()
    with served(folder) as (process, url), Chromium() as browser:
        listening = time.monotonic() - began
        page = browser.open(url)
        assert f"batch {last}" in page.text("header")
        drawn = page.opened_s
        page.wait("!Bokeh.documents[0].get_model_by_name('status').text.includes('reading')", 300)
        whole = time.monotonic() - page.began
        page.run(DRAWN)  # the tiles are told after the status
        assert page.errors == []
        return Figures(listening, drawn, whole, most_mb(process.pid), rebalances(page))


@contextmanager
def served(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`evenjoin ui` in a process of its own, and its address."""
    process = subprocess.Popen([*COMMAND, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait(20)


def rebalances(page: Page) -> int:
    """How many rebalances the tile counts."""
    words = page.text().split()
    return int(words[words.index("Rebalances") + 1])


def most_mb(process: int) -> float:
    """The most memory that a process has had so far."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1000


def main(batches: int) -> None:
    with tempfile.TemporaryDirectory(prefix="evenjoin-history-") as folder:
        began = time.monotonic()
        checkpoint = written(Path(folder) / "ck", batches)
        print(f"{batches:,} batches written in {time.monotonic() - began:.0f} s", flush=True)
        for _ in range(3):
            found = measured(checkpoint, batches - 1)
            print(
                f"listening after {found.listening_s:.1f} s, drawn {found.drawn_s:.1f} s after it was asked for, "
                f"all read after {found.whole_s:.1f} s, {found.most_mb:.0f} MB, {found.rebalances} rebalances",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
