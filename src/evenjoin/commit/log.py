"""The commit log. `commits/<batch>` is created once, whole, or not at all: that instant makes the batch final.

A commit holds everything the next batch starts from: the table, the manifest, the watermark, the load report, the
verdict and the table to use next.

    checkpoint/
      join.json          the join this checkpoint belongs to (identity.py)
      commits/<batch>    commits: a line with the CRC-32, then JSON
      tables/<name>      routing tables, named by version and digest; in the same form
      segments/<batch>/  runs sealed in that batch
      receipts/<batch>/  what the instances of the batch under way report; late/<batch>/ its late rows
      spark/             Spark's own checkpoint: the offsets of every batch
      owner.lock         held by the running query (owner.py)

Guarantee: tables and segments are read only if a commit names them. So whatever a crash leaves behind is garbage, never
state. A file that is damaged or missing raises a StateCorruptionError.
Not guaranteed: that all commits are there. Only the last KEEP_COMMITS are kept.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from evenjoin.errors import CheckpointInUseError, StateCorruptionError
from evenjoin.events import Migration, Totals, Verdict
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import RoutingTable
from evenjoin.state.files import Folder
from evenjoin.state.manifest import Manifest

KEEP_COMMITS = 512
SEGMENT = re.compile(r"segments/\d+/[\w.-]+\.arrow")
"""What the name of a segment looks like: never absolute, never outside of the checkpoint."""


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
    asked               the strategy, layout and size that the user asked for. A restart that asks for something else
                        gets a new table; one that asks for the same goes on with the table that planning arrived at
    migration           the migration made before this batch, if any
    verdict             the decision on `next_table`, and its grounds
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
            }
        )


class CommitLog:
    """Reads and appends the commits and tables of one checkpoint folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._saved: set[str] = set()

    def batches(self) -> list[int]:
        return sorted(int(name) for name in self._folder.names("commits") if name.isdigit())

    def latest(self) -> Commit | None:
        batches = self.batches()
        return self.read(batches[-1]) if batches else None

    def read(self, batch: int) -> Commit:
        """A commit. StateCorruptionError if it is not that batch's, or names a file that no instance could have sealed:
        what a commit names is read, and deleted later."""
        commit = Commit.from_json(read_checked(self._folder, f"commits/{batch}"))
        strange = sorted(name for name in commit.manifest.files if not SEGMENT.fullmatch(name))
        if commit.batch != batch or strange:
            what = f"the segment {strange[0]!r}" if strange else f"batch {commit.batch}"
            raise StateCorruptionError(f"commits/{batch} names {what}: it was not written so; restore it from a copy")
        return commit

    def append(self, commit: Commit, tables: Sequence[RoutingTable] = ()) -> None:
        """Make the batch final, and delete commits of long ago. `tables` are those that the commit names.

        CheckpointInUseError if the batch is final already: then two drivers share the checkpoint.
        """
        for table in tables:
            self.save_table(table)
        if not self._folder.create(f"commits/{commit.batch}", checked(commit.to_json())):
            raise CheckpointInUseError(
                f"batch {commit.batch} was committed by another query on this checkpoint; "
                "give each query a checkpoint of its own"
            )
        for batch in self.batches()[:-KEEP_COMMITS]:
            self._folder.delete(f"commits/{batch}")

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
