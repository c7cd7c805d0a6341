"""The commit log. Its entries are numbered 0, 1, 2, ...; each is created once, whole, or not at all.

    commits/0   start          a driver begins here; nothing was committed before
    commits/1   batch 0
    commits/2   batch 1
    commits/3   start          a restart: it goes on from entry 2
    commits/4   batch 2        ... whose entry was free, so no younger driver has started

An entry is the *commit* of a batch or the *start* of a driver. The instant in which a commit is created makes its batch
final. It holds everything the next batch starts from: the table, the manifest, the watermark, the load report, the
verdict and the table to use next.

A start is a fence. It takes the next number, and only then goes on from the last commit, which it names. A driver that
still runs finds the number of its next entry taken, and stops: of two drivers only the younger one can commit.

    checkpoint/
      join.json          the join this checkpoint belongs to (identity.py)
      commits/<entry>    starts and commits: a line with the CRC-32, then JSON
      tables/<name>      routing tables, named by version and digest; in the same form
      segments/<batch>/  runs sealed in that batch
      receipts/<batch>/  what the instances of the batch under way report; late/<batch>/ its late rows
      spark/             Spark's own checkpoint: the offsets of every batch
      owner.lock         held by the running query; on stores without locks owner/<number>, its lease (owner.py)

Guarantee: tables and segments are read only if a commit names them. So whatever a crash leaves behind is garbage, never
state. A file that is damaged or missing raises a StateCorruptionError.
Not guaranteed: that all commits are there. Only the last KEEP_COMMITS entries are kept, and the tables that they name.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from evenjoin.commit.shown import Shown
from evenjoin.errors import CheckpointInUseError, StateCorruptionError
from evenjoin.events import Migration, Times, Totals, Verdict
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import RoutingTable
from evenjoin.state.files import Folder
from evenjoin.state.manifest import Manifest

Durability = Literal["fsync", "os"]
"""Whether a commit survives a power cut: its files are forced to the disk, or the operating system writes them when it
likes."""
KEEP_COMMITS = 512
"""Entries that are kept."""
_IN_USE = "another query has started on this checkpoint; give each query a checkpoint of its own"
TRIES = 64
"""How often a start that others come before looks for the next free number."""
SEGMENT = re.compile(r"segments/\d+/[\w.-]+\.arrow")
"""What the name of a segment looks like: never absolute, never outside of the checkpoint."""
READY_NAME = re.compile(r"(\d+\.s\d+t\d+)?")
"""What the name of a folder of results looks like that is ready to be shown; nothing, if there are none."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far event time has come. `value` is the global watermark for the next batch. `latest` and `last_seen` are by
    side: the latest event time seen, and when the side last sent rows (wall clock, seconds). `jump` is the least event
    time of the last rows, if all of them were set aside for being too far ahead (runtime/ahead.py)."""

    value: int | None = None
    latest: tuple[int | None, ...] = ()
    last_seen: tuple[float, ...] = ()
    jump: int | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """One batch, final.

    table, next_table   the names of the table that this batch used, and of the one that the next batch is to use
    entry, previous     the number of this entry of the log, and of the commit before it
    asked               the strategy, layout and size that the user asked for. A restart that asks for something else
                        gets a new table; one that asks for the same goes on with the table that planning arrived at
    migration           the migration made before this batch, if any
    migrated            the entry of the latest commit before this one that has a migration; None if there is none
    verdict             the decision on `next_table`, and its grounds
    offsets             a digest of all that the source had read up to this batch (position.py); "" if it gives none
    output              the files of results to be shown after it (shown.py); None if the sink is none of files
    memory              what the strategy wants to know after the next batch; None if it remembers nothing
    times               what the time of the batch was spent on
    """

    batch: int
    table: str
    next_table: str
    manifest: Manifest
    watermark: Watermark
    report: LoadReport | None
    asked: str = ""
    duration_ms: float = 0.0
    migration: Migration | None = None
    totals: Totals = field(default_factory=Totals)
    verdict: Verdict | None = None
    entry: int = 0
    previous: int | None = None
    offsets: str = ""
    migrated: int | None = None
    memory: dict[str, Any] | None = None
    times: Times = field(default_factory=Times)
    output: Shown | None = None

    @property
    def tables(self) -> frozenset[str]:
        """The names of all tables that the commit needs: its own, the next one, and those of masked runs."""
        masks = (run.mask for _, _, run in self.manifest if run.mask is not None)
        return frozenset((self.table, self.next_table, *masks))

    def to_json(self) -> dict[str, Any]:
        return {
            "batch": self.batch,
            "table": self.table,
            "next_table": self.next_table,
            "manifest": self.manifest.to_json(),
            "watermark": asdict(self.watermark),
            "report": self.report.to_json() if self.report else None,
            "asked": self.asked,
            "duration_ms": self.duration_ms,
            "migration": asdict(self.migration) if self.migration else None,
            "totals": asdict(self.totals),
            "verdict": asdict(self.verdict) if self.verdict else None,
            "entry": self.entry,
            "previous": self.previous,
            "offsets": self.offsets,
            "migrated": self.migrated,
            "memory": self.memory,
            "times": asdict(self.times),
            "output": asdict(self.output) if self.output else None,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Commit:
        mark = data["watermark"]
        return cls(
            **{
                **data,
                "manifest": Manifest.from_json(data["manifest"]),
                "watermark": Watermark(mark["value"], tuple(mark["latest"]), tuple(mark["last_seen"]), mark["jump"]),
                "report": LoadReport.from_json(data["report"]) if data["report"] else None,
                "migration": Migration.from_json(data["migration"]) if data["migration"] else None,
                "totals": Totals.from_json(data["totals"]),
                "verdict": Verdict.from_json(data["verdict"]) if data["verdict"] else None,
                "times": Times.from_json(data.get("times", {})),
                "output": Shown(**data["output"]) if data["output"] else None,
            }
        )


@dataclass(frozen=True, slots=True)
class Start:
    """A driver begins: `last` is the entry of the commit that it goes on from, None if there is none."""

    entry: int
    last: int | None


class CommitLog:
    """Reads and appends the entries and tables of one checkpoint folder, whose uuid every entry carries.

    With durability "fsync" a commit that `append` has made survives a power cut, with all that it names; with "os" it
    survives the death of any process.
    """

    def __init__(
        self, folder: Folder, uuid: str, durability: Durability = "os", keep: int = KEEP_COMMITS
    ) -> None:  # fmt: skip
        self._folder, self._uuid, self._durability, self.keep = folder, uuid, durability, keep
        self._saved: set[str] = set()
        self._named: dict[int, frozenset[str]] = {}
        self._moves: dict[int, tuple[Migration, int | None]] = {}

    def entries(self) -> list[int]:
        """The numbers of all entries that are kept, ascending."""
        return sorted(int(name) for name in self._folder.names("commits") if name.isdigit())

    def latest(self) -> Commit | None:
        """The last commit; None before the first."""
        entries = self.entries()
        return self._commit(self._last(entries[-1])) if entries else None

    def begin(self) -> tuple[Start, Commit | None]:
        """Append a start. Returns it with the commit that it goes on from."""
        for _ in range(TRIES):
            entries = self.entries()
            last = self._last(entries[-1]) if entries else None
            start = Start(entries[-1] + 1 if entries else 0, last)
            if self.append_start(start):
                return start, self._commit(last)
        raise CheckpointInUseError("other queries keep starting on this checkpoint; give each a checkpoint of its own")

    def append_start(self, start: Start) -> bool:
        """Append this start; False if its number is taken."""
        return self._create(start.entry, {"kind": "start", **asdict(start)})

    def read(self, entry: int) -> Start | Commit:
        """An entry. StateCorruptionError if it is not the one of that number, or names a file that no instance could
        have sealed: what a commit names is read, and deleted later."""
        data = read_checked(self._folder, f"commits/{entry}")
        if data.pop("uuid", None) != self._uuid:
            raise StateCorruptionError(f"commits/{entry} is of another checkpoint: restore the right one from a copy")
        found = Start(data["entry"], data["last"]) if data.pop("kind", None) == "start" else Commit.from_json(data)
        files = found.manifest.files if isinstance(found, Commit) else ()
        strange = sorted(name for name in files if not SEGMENT.fullmatch(name))
        ready = found.output.ready if isinstance(found, Commit) and found.output else ""
        if found.entry != entry or strange or not READY_NAME.fullmatch(ready):
            what = f"the segment {strange[0]!r}" if strange else f"entry {found.entry}, output {ready!r}"
            raise StateCorruptionError(f"commits/{entry} names {what}: it was not written so; restore it from a copy")
        return found

    def commits(self) -> Iterator[Commit]:
        """The commits that are kept, the newest first. A running query may delete the oldest meanwhile."""
        last = self.latest()
        while last is not None:
            yield last
            last = self._kept(last.previous)

    def migrations(self, last: Commit | None) -> list[Migration]:
        """The migrations up to this commit, of the commits that are kept; oldest first.

        Commits without one are not read. A commit with one is read once in the life of this object.
        """
        found = [] if last is None or last.migration is None else [last.migration]
        entry = None if last is None else last.migrated
        while entry is not None:
            if entry not in self._moves:
                commit = self._kept(entry)
                if commit is None or commit.migration is None:
                    break
                self._moves[entry] = commit.migration, commit.migrated
            migration, entry = self._moves[entry]
            found.append(migration)
        return found[::-1]

    def append(self, commit: Commit, tables: Sequence[RoutingTable] = ()) -> None:
        """Make the batch final. `tables` are those that the commit names.

        CheckpointInUseError if its entry is taken: then another driver has started on the checkpoint.
        """
        for table in tables:
            self.save_table(table)
        data, new = commit.to_json(), f"segments/{commit.batch}/"
        self._sync([name for name in commit.manifest.files if name.startswith(new)])
        if not self._create(commit.entry, data):
            raise CheckpointInUseError(f"batch {commit.batch} was not committed: {_IN_USE}")
        self._sync([f"commits/{commit.entry}", *(f"tables/{table.name}" for table in tables)])
        self._named[commit.entry] = commit.tables
        if commit.migration is not None:
            self._moves[commit.entry] = commit.migration, commit.migrated

    def collect(self) -> None:
        """Delete the entries of long ago, and before them the tables that only they name.

        Nothing is deleted if another driver has started: it may be about to name one of these tables. Kept commits that
        an earlier start made are read once, when a table is about to go.
        """
        entries = self.entries()
        old, kept = entries[: -self.keep], entries[-self.keep :]
        if not old or kept[-1] not in self._named:
            return
        with suppress(StateCorruptionError):  # what a damaged entry names is not known: no table goes
            self._collect_tables(old, kept)
        for entry in old:
            self._folder.delete(f"commits/{entry}")
            self._named.pop(entry, None)
            self._moves.pop(entry, None)

    def _collect_tables(self, old: Sequence[int], kept: Sequence[int]) -> None:
        lost = frozenset().union(*map(self._tables_of, old))
        if lost <= self._named[kept[-1]]:
            return
        lost -= frozenset().union(*map(self._tables_of, kept))
        for name in lost:
            self._folder.delete(f"tables/{name}")
        self._saved -= lost

    def _tables_of(self, entry: int) -> frozenset[str]:
        """The tables that an entry names: none, if it is a start."""
        if entry not in self._named:
            found = self.read(entry)
            self._named[entry] = found.tables if isinstance(found, Commit) else frozenset()
        return self._named[entry]

    def check_last(self, entry: int) -> None:
        """CheckpointInUseError if there is an entry after this one: then another driver has started."""
        if self.entries()[-1:] != [entry]:
            raise CheckpointInUseError(f"the batch was not committed: {_IN_USE}")

    def _sync(self, names: Sequence[str]) -> None:
        if self._durability == "fsync":
            self._folder.sync(names)

    def _create(self, entry: int, data: dict[str, Any]) -> bool:
        return self._folder.create(f"commits/{entry}", checked({"uuid": self._uuid, **data}))

    def _last(self, entry: int) -> int | None:
        """The entry of the last commit, as seen from the last entry."""
        found = self.read(entry)
        return found.last if isinstance(found, Start) else entry

    def _commit(self, entry: int | None) -> Commit | None:
        if entry is None:
            return None
        found = self.read(entry)
        if isinstance(found, Start):
            raise StateCorruptionError(f"commits/{entry} is a start where a commit is expected: restore it from a copy")
        return found

    def _kept(self, entry: int | None) -> Commit | None:
        """The commit of an entry; None if a running query has deleted it meanwhile."""
        try:
            return self._commit(entry)
        except StateCorruptionError:
            if entry in self.entries():
                raise
            return None

    def save_table(self, table: RoutingTable) -> str:
        """Write a table, unless that was done before. Returns its name."""
        if table.name not in self._saved:
            self._folder.create(f"tables/{table.name}", checked(table.to_json()))
            self._saved.add(table.name)
        return table.name

    def read_table(self, name: str) -> RoutingTable:
        """A table. StateCorruptionError if its content is not what its name says."""
        table = RoutingTable.from_json(read_checked(self._folder, f"tables/{name}"))
        if table.name != name:
            raise StateCorruptionError(f"tables/{name} holds table {table.name}: restore it from a copy")
        return table


def checked(data: dict[str, Any]) -> bytes:
    """The data as JSON, after a line with its CRC-32."""
    body = json.dumps(data, separators=(",", ":")).encode()
    return b"%08x\n%s" % (zlib.crc32(body), body)


def read_checked(folder: Folder, name: str) -> dict[str, Any]:
    try:
        text = folder.load(name).to_pybytes()
    except FileNotFoundError:
        raise StateCorruptionError(f"{name} is missing from the checkpoint: restore it or start a new one") from None
    mark, _, body = text.partition(b"\n")
    if mark != b"%08x" % zlib.crc32(body):
        raise StateCorruptionError(f"{name} of the checkpoint is damaged: restore it from a copy or start a new one")
    data: dict[str, Any] = json.loads(body)
    return data
