"""What a checkpoint says about its join: the commits, folded into one value for people and programs.

Reads through the commit log only, takes no lock and writes nothing, so it is safe beside a running query.
Commits are immutable; one that a running query trims while we read is simply not part of the history any more.

Invariant: a folder without ``join.json`` is a ``CheckpointError``; a damaged file is a ``StateCorruptionError``
that names it. Half a history is never returned.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from evenjoin.commit.identity import recorded_join, recorded_log
from evenjoin.commit.log import Commit
from evenjoin.errors import CheckpointError, StateCorruptionError
from evenjoin.events import Migration
from evenjoin.load.report import LoadReport, PackLoad
from evenjoin.placement.table import RoutingTable
from evenjoin.state.files import Folder, open_folder
from evenjoin.state.segment import Run


@dataclass(frozen=True, slots=True)
class RecordedJoin:
    """The join a checkpoint belongs to, as `join.json` has it: the JSON of `JoinSpec.fingerprint`, read back.

    schema      alias -> column -> Arrow type, of the columns the join uses
    window      (size, slide) in time units (`spec/window`); None without a window
    event_time  alias -> column; None for a side without one
    select      (name, expression) of every output column
    redact_keys whether keys are kept out of everything but the segments
    evaluated   what Spark evaluates: columns of the sides, a filter and the output of the results; empty for nothing
    """

    sides: tuple[str, ...]
    schema: Mapping[str, Mapping[str, str]]
    condition: str
    how: str
    window: tuple[int, int] | None
    event_time: Mapping[str, str | None]
    select: tuple[tuple[str, str], ...]
    redact_keys: bool
    evaluated: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_timestamps(self) -> bool:
        """Whether event times (the first side's, to which the others' compare) are timestamps, not plain numbers."""
        column = self.event_time[self.sides[0]]
        return column is not None and self.schema[self.sides[0]].get(column, "").startswith("timestamp")

    def zoned(self, side: int) -> bool:
        """Whether event times of this side are instants: timestamps with a time zone. Those without one are what some
        clock showed, nobody knows where, so they cannot be compared with ours."""
        column = self.event_time[self.sides[side]]
        type_ = self.schema[self.sides[side]].get(column, "") if column is not None else ""
        return type_.startswith("timestamp") and "tz=" in type_

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value or name != "evaluated"}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RecordedJoin:
        window = (data["window"][0], data["window"][1]) if data["window"] else None
        select = tuple((name, expression) for name, expression in data["select"])
        return cls(**{**data, "sides": tuple(data["sides"]), "window": window, "select": select})


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
    of the arrivals of all sides over the history; `results` also counts pairs that a further predicate sorted out."""

    name: str
    arrived: tuple[int, ...]
    results: int
    share: float


@dataclass(frozen=True, slots=True)
class BatchLine:
    """One batch of the history; rows, late rows, rows too far ahead and stored tuples by side, `imbalance` by busy
    time, and the verdict after it in words ("" if there was none)."""

    batch: int
    rows: tuple[int, ...]
    late: tuple[int, ...]
    results: int
    stored: tuple[int, ...]
    imbalance: float
    duration_ms: float
    ahead: tuple[int, ...]
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What was sent of one side: its rows, the tuples sent to instances (each copy counted), and their bytes."""

    rows: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Holding:
    """What one instance holds of one side (its alias) or of one store of packs: runs and their files, tuples (packs) in
    them, those still alive."""

    instance: int
    side: str
    runs: int
    tuples: int
    alive: int
    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class History:
    """A checkpoint: the join it belongs to, its table, and every commit still in the log, oldest first."""

    join: RecordedJoin
    table: RoutingTable | None
    commits: tuple[Commit, ...]

    @property
    def aliases(self) -> tuple[str, ...]:
        """The sides by name, in order."""
        return self.join.sides

    @property
    def last(self) -> Commit | None:
        """The commit a restart would begin from."""
        return self.commits[-1] if self.commits else None

    @property
    def reports(self) -> tuple[LoadReport, ...]:
        """The load reports, oldest first."""
        return tuple(commit.report for commit in self.commits if commit.report is not None)

    @property
    def pack_names(self) -> tuple[str, ...]:
        """The names of the stores of packs, in the order of their numbers."""
        return tuple(pack.name for pack in self.reports[-1].instances[0].packs) if self.reports else ()

    @property
    def migrations(self) -> tuple[Migration, ...]:
        """Every migration in the log, oldest first."""
        return tuple(commit.migration for commit in self.commits if commit.migration is not None)

    def without_keys(self) -> History:
        """The same with sentences that name no key."""
        return replace(self, commits=tuple(map(_without_keys, self.commits)))


def _without_keys(commit: Commit) -> Commit:
    verdict = commit.verdict.without_key() if commit.verdict else None
    return replace(commit, verdict=verdict, migration=commit.migration.without_key() if commit.migration else None)


def read_history(location: str | Path) -> History:
    """The history of the checkpoint at a path or URI."""
    folder = open_checkpoint(location)
    log = recorded_log(folder)
    join = RecordedJoin.from_json(recorded_join(folder))
    commits = tuple(log.commits())[::-1]
    return History(join, log.read_table(commits[-1].next_table) if commits else None, commits)


def open_checkpoint(location: str | os.PathLike[str] | Folder) -> Folder:
    """The folder of a checkpoint, or a clear error."""
    try:
        folder = open_folder(location)
        folder.load("join.json")
    except (OSError, ValueError) as error:
        why = "it has no join.json" if isinstance(error, FileNotFoundError) else str(error)
        raise CheckpointError(f"{location} is not a checkpoint of EvenJoin: {why}") from None
    return folder


def commits_after(location: str | Path, batch: int) -> tuple[Commit, ...]:
    """The commits of the batches after `batch`, oldest first. Reads those and one more."""
    newest_first = recorded_log(open_checkpoint(location)).commits()
    return tuple(takewhile(lambda commit: commit.batch > batch, newest_first))[::-1]


def verify_segments(location: str | Path, history: History) -> int:
    """Check size and CRC-32 of every file the last commit names; returns how many there are."""
    folder = open_checkpoint(location)
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


def batch_line(commit: Commit) -> BatchLine:
    """A commit as one line of the history."""
    report = commit.report
    intake = report.intake if report else ()
    instances = report.instances if report else ()
    return BatchLine(
        commit.batch,
        rows=tuple(side.rows for side in intake),
        late=tuple(side.late for side in intake),
        results=report.matches if report else 0,
        stored=tuple(sum(load.stored[side] for load in instances) for side in range(len(intake))),
        imbalance=round(report.imbalance, 3) if report else 1.0,
        duration_ms=commit.duration_ms,
        ahead=tuple(side.ahead for side in intake),
        verdict=commit.verdict.sentence if commit.verdict else "",
    )


def holdings(history: History) -> list[Holding]:
    """What the last manifest holds, per instance and side, and of packs by their store."""
    found: dict[tuple[int, int], list[Run]] = defaultdict(list)
    for instance, side, run in history.last.manifest if history.last else ():
        found[instance, side].append(run)
    return [
        Holding(
            instance,
            (*history.aliases, *history.pack_names)[side],
            runs=len(runs),
            tuples=sum(run.rows for run in runs),
            alive=sum(run.alive for run in runs),
            bytes=sum(run.bytes for run in runs),
            files=len({run.file for run in runs}),
        )
        for (instance, side), runs in sorted(found.items())
    ]


def traffic(reports: Sequence[LoadReport]) -> list[Traffic]:
    """What was sent to instances over all reports, by side."""
    sides = range(len(reports[-1].intake)) if reports else ()
    loads = [load for report in reports for load in report.instances]
    return [
        Traffic(
            sum(report.intake[side].rows for report in reports),
            sum(load.messages[side] for load in loads),
            sum(load.sent_bytes[side] for load in loads),
        )
        for side in sides
    ]


def pack_totals(reports: Sequence[LoadReport]) -> list[PackLoad]:
    """By store of packs what was made and sent of it over all reports, and what of it is alive after the last."""
    totals: dict[str, PackLoad] = {}
    for report in reports:
        for pack in (pack for load in report.instances for pack in load.packs):
            before = totals.get(pack.name, PackLoad(pack.name))
            kept = (pack.alive, pack.alive_pairs) if report is reports[-1] else (0, 0)
            totals[pack.name] = PackLoad(
                pack.name,
                before.made + pack.made,
                before.pairs + pack.pairs,
                before.sent + pack.sent,
                before.sent_bytes + pack.sent_bytes,
                before.alive + kept[0],
                before.alive_pairs + kept[1],
            )
    return list(totals.values())


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
