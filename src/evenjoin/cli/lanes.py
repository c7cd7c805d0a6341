"""One join under two strategies, fed the same files in turns, so that neither disturbs the other's times.

    day/orders/batch-00007.parquet  --copy-->  hash/orders/   the query of this lane runs, the other one is idle
                                    --copy-->  auto/orders/   now it is the other way round
    slice 0: hash, auto     slice 1: auto, hash     slice 2: hash, auto     ...

A lane is a running query with input folders, an output and a checkpoint of its own. A slice is a file of each side.
Who goes first alternates, because the second of two is often slowed or helped by the first.

What a slice took is read from the lane's own commits, so it is what `evenjoin inspect` shows later: the milliseconds
of its batch, migration and planning included. What Spark does around a batch (its own log, listing files) is not in it.

Not guaranteed: that a slice is one batch. A query that looks for files just while they come may see those of one side
first. Then the slice is two batches, whose times are added up; the results are the same.
Not here: what the join is (demo.py), and how it is shown (side_by_side.py).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from evenjoin.cli.draw import imbalance
from evenjoin.commit.history import commits_after
from evenjoin.commit.log import Commit
from evenjoin.events import Migration
from evenjoin.load.report import LoadReport

if TYPE_CHECKING:
    from evenjoin.runtime.spark.query import JoinQuery

WARMING = 2
"""Slices at the start that warm Spark and its workers up. What they took says nothing of a strategy."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What one slice of the input took and showed in one lane. `commits` are those of its batches, at least one."""

    commits: tuple[Commit, ...]

    @property
    def report(self) -> LoadReport:
        """The load in the batch that did most."""
        reports = [commit.report for commit in self.commits if commit.report is not None]
        return max(reports, key=lambda report: sum(load.elapsed_ms for load in report.instances))

    @property
    def took_ms(self) -> float:
        return sum(commit.duration_ms for commit in self.commits)

    @property
    def tasks_ms(self) -> list[float]:
        """By instance, how long its task took, its results handed over."""
        return [load.elapsed_ms for load in self.report.instances]

    @property
    def imbalance(self) -> float:
        """The busiest task over the mean."""
        return imbalance(self.tasks_ms)

    @property
    def results(self) -> int:
        return sum(commit.report.matches for commit in self.commits if commit.report is not None)

    @property
    def verdict(self) -> str:
        """What the strategy said after the slice; nothing if it has no planner."""
        verdict = self.commits[-1].verdict
        return verdict.sentence if verdict is not None and verdict.imbalance is not None else ""


@dataclass(frozen=True, slots=True)
class Change:
    """A migration, the slice before which it was made, and the verdict that called for it."""

    slice: int
    why: str
    migration: Migration


@dataclass(slots=True)
class Lane:
    """The query of one strategy. Its folder has the input of each side, `joined` and `checkpoint`."""

    strategy: str
    folder: Path
    sides: tuple[str, ...]
    query: JoinQuery | None = None
    slices: list[Slice] = field(default_factory=list)

    def path(self, name: str) -> str:
        """A folder of the lane, as Spark wants it."""
        return str(self.folder / name)

    def prepare(self) -> None:
        """Make the folders of the input, which Spark wants to see before it starts."""
        for side in self.sides:
            (self.folder / side).mkdir(parents=True, exist_ok=True)

    def feed(self, day: Path, number: int) -> None:
        """Give the lane slice `number` of the files below `day`, and wait until it is joined."""
        assert self.query is not None
        files = [self._copied(day, side, number) for side in self.sides]
        self.query.processAllAvailable()  # it has just looked for files, and looks again some time later
        for file in files:
            os.replace(file, file.with_name(file.name.removeprefix(".")))
        self.query.processAllAvailable()
        last = self.slices[-1].commits[-1].batch if self.slices else -1
        self.slices.append(Slice(commits_after(self.path("checkpoint"), last)))

    def _copied(self, day: Path, side: str, number: int) -> Path:
        """The file of a side, in the lane's folder under a name that Spark passes over."""
        source = sorted((day / side).glob("*.parquet"))[number]
        return Path(shutil.copy2(source, self.folder / side / f".{source.name}"))

    @property
    def warm(self) -> Sequence[Slice]:
        """The slices that count; all of them if there are no more than warm up."""
        return self.slices[WARMING:] or self.slices

    @property
    def changes(self) -> list[Change]:
        """Every migration so far, and why."""
        found, why = [], ""
        for number, one in enumerate(self.slices):
            for commit in one.commits:
                if commit.migration is not None:
                    found.append(Change(number, why, commit.migration))
                why = commit.verdict.sentence if commit.verdict is not None else ""
        return found


def in_turn(lanes: Sequence[Lane], number: int) -> Sequence[Lane]:
    """The lanes in the order in which they get slice `number`."""
    return lanes if number % 2 == 0 else lanes[::-1]
