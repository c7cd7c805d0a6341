"""What a checkpoint says about its join: the commits, folded into one value for people and programs.

Reads through the commit log only, takes no lock and writes nothing, so it is safe beside a running query.
Commits are immutable; one that a running query trims while we read is simply not part of the history any more.

Invariant: a folder without ``join.json`` is a ``CheckpointError``; a damaged file is a ``StateCorruptionError``
that names it. Half a history is never returned.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenjoin.commit.log import Commit, CommitLog, read_checked
from evenjoin.errors import CheckpointError, StateCorruptionError
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import RoutingTable
from evenjoin.state.files import Folder, open_folder


@dataclass(frozen=True, slots=True)
class InstanceTotal:
    """One instance: what it holds now, and what it did over the history."""

    instance: int
    stored: tuple[int, ...]
    bytes: int
    probes: int
    results: int
    busy_ms: float

    @property
    def work(self) -> int:
        """Probes made and results found: what the instance's time goes into."""
        return self.probes + self.results


@dataclass(frozen=True, slots=True)
class KeyTotal:
    """One heavy key over the history. Counts are lower bounds: a batch reports only its heaviest keys. `share` is that
    of the arrivals of all sides over the history."""

    name: str
    arrived: tuple[int, ...]
    results: int
    share: float


@dataclass(frozen=True, slots=True)
class History:
    """A checkpoint: the join it belongs to, its table, and every commit still in the log, oldest first."""

    join: dict[str, Any]
    table: RoutingTable | None
    commits: tuple[Commit, ...]

    @property
    def aliases(self) -> tuple[str, ...]:
        """The sides by name, in order."""
        return tuple(self.join["sides"])

    @property
    def last(self) -> Commit | None:
        """The commit a restart would begin from."""
        return self.commits[-1] if self.commits else None

    @property
    def reports(self) -> tuple[LoadReport, ...]:
        """The load reports, oldest first."""
        return tuple(commit.report for commit in self.commits if commit.report is not None)


def read_history(location: str | Path) -> History:
    """The history of the checkpoint at a path or URI."""
    folder = _open(location)
    log = CommitLog(folder)
    join = read_checked(folder, "join.json")
    commits = tuple(commit for batch in log.batches() if (commit := _read(log, batch)) is not None)
    return History(join, log.read_table(commits[-1].next_table) if commits else None, commits)


def verify_segments(location: str | Path, history: History) -> int:
    """Check size and CRC-32 of every file the last commit names; returns how many there are."""
    folder = _open(location)
    runs = {run.file: run for _, _, run in (history.last.manifest if history.last else ())}
    for name, run in runs.items():
        try:
            data = folder.load(name)
        except FileNotFoundError:
            raise StateCorruptionError(f"{name} is missing from the checkpoint: restore it from a copy") from None
        if data.size != run.file_bytes or zlib.crc32(data) != run.crc:
            raise StateCorruptionError(f"{name} of the checkpoint is damaged: restore it from a copy")
    return len(runs)


def instance_totals(reports: Sequence[LoadReport]) -> list[InstanceTotal]:
    """What each instance of the last report holds, and did over all reports."""
    probes: dict[int, int] = defaultdict(int)
    results: dict[int, int] = defaultdict(int)
    busy: dict[int, float] = defaultdict(float)
    for load in (load for report in reports for load in report.instances):
        probes[load.instance] += sum(load.probes)
        results[load.instance] += load.matches
        busy[load.instance] += load.busy_ms
    now = reports[-1].instances if reports else ()
    return [
        InstanceTotal(i.instance, i.stored, i.bytes, probes[i.instance], results[i.instance], busy[i.instance])
        for i in now
    ]


def heaviest(reports: Sequence[LoadReport], count: int) -> list[KeyTotal]:
    """The keys with the most arrivals over all reports."""
    arrived: dict[str, list[int]] = {}
    results: dict[str, int] = defaultdict(int)
    for key in (key for report in reports for key in report.heavy):
        results[key.name] += key.matches
        sums = arrived.setdefault(key.name, [0] * len(key.arrived))
        arrived[key.name] = [a + b for a, b in zip(sums, key.arrived, strict=True)]
    rows = max(sum(side.rows for report in reports for side in report.intake), 1)
    names = sorted(arrived, key=lambda name: (-sum(arrived[name]), name))[:count]
    return [KeyTotal(name, tuple(arrived[name]), results[name], sum(arrived[name]) / rows) for name in names]


def _open(location: str | Path) -> Folder:
    """The folder of a checkpoint, or a clear error."""
    try:
        folder = open_folder(location)
        folder.load("join.json")
    except (OSError, ValueError) as error:
        why = "it has no join.json" if isinstance(error, FileNotFoundError) else str(error)
        raise CheckpointError(f"{location} is not a checkpoint of EvenJoin: {why}") from None
    return folder


def _read(log: CommitLog, batch: int) -> Commit | None:
    """One commit, or nothing if a running query has just trimmed it."""
    try:
        return log.read(batch)
    except StateCorruptionError:
        if batch in log.batches():
            raise
        return None
