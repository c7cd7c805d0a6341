"""The commit log. `commits/<batch>` is created once, whole, or not at all: that instant makes the batch final.

A commit holds everything the next batch starts from: the table, the manifest, the watermarks, the load report, the
planner's state and the table to use next. Nothing else in the checkpoint is read unless a commit names it, so
whatever a crash leaves behind is garbage, never state.

    checkpoint/
      join.json          the join this checkpoint belongs to
      commits/<batch>    this file's business; a CRC line, then JSON
      tables/<digest>    routing tables, by content
      segments/<batch>/  runs sealed in that batch
      receipts/<batch>/  of the batch under way
      spark/             Spark's own checkpoint: the offsets of every batch
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from evenjoin.errors import CheckpointInUseError, StateCorruptionError
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import RoutingTable
from evenjoin.state.files import Folder
from evenjoin.state.manifest import Manifest

KEEP_COMMITS = 512


@dataclass(frozen=True, slots=True)
class Watermark:
    """Progress of event time: per side the latest time seen and when (wall clock, seconds) it last sent rows;
    `value` is the global watermark for the next batch."""

    value: int | None = None
    latest: tuple[int | None, ...] = ()
    last_seen: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Commit:
    """One batch, final. `asked` is the strategy, layout and size the user asked for: a restart that asks for another
    gets a new table, one that asks for the same goes on with the table that planning has arrived at."""

    batch: int
    table: str
    next_table: str
    manifest: Manifest
    watermark: Watermark
    report: LoadReport | None
    asked: str = ""
    duration_ms: float = 0.0
    migration: dict[str, Any] | None = None
    totals: dict[str, Any] = field(default_factory=dict)
    planner: dict[str, Any] = field(default_factory=dict)

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
            "migration": self.migration,
            "totals": self.totals,
            "planner": self.planner,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Commit:
        mark = data["watermark"]
        return cls(
            **{
                **data,
                "manifest": Manifest.from_json(data["manifest"]),
                "watermark": Watermark(mark["value"], tuple(mark["latest"]), tuple(mark["last_seen"])),
                "report": LoadReport.from_json(data["report"]) if data["report"] else None,
            }
        )


class CommitLog:
    """Reads and appends commits of one checkpoint folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def batches(self) -> list[int]:
        return sorted(int(name) for name in self._folder.names("commits") if name.isdigit())

    def latest(self) -> Commit | None:
        batches = self.batches()
        return self.read(batches[-1]) if batches else None

    def read(self, batch: int) -> Commit:
        return Commit.from_json(read_checked(self._folder, f"commits/{batch}"))

    def append(self, commit: Commit) -> None:
        """Make the batch final. Someone else having done so means two drivers share the checkpoint."""
        if not self._folder.create(f"commits/{commit.batch}", checked(commit.to_json())):
            raise CheckpointInUseError(
                f"batch {commit.batch} was committed by another query on this checkpoint; "
                "give each query a checkpoint of its own"
            )

    def trim(self) -> None:
        for batch in self.batches()[:-KEEP_COMMITS]:
            self._folder.delete(f"commits/{batch}")

    def save_table(self, table: RoutingTable) -> str:
        name = f"{table.version}-{table.digest}"
        self._folder.create(f"tables/{name}", checked(table.to_json()))
        return name

    def read_table(self, name: str) -> RoutingTable:
        return RoutingTable.from_json(read_checked(self._folder, f"tables/{name}"))


def checked(data: dict[str, Any]) -> bytes:
    """JSON behind a line with its CRC-32."""
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


def advanced(
    mark: Watermark, latest: tuple[int | None, ...], arrived: tuple[int, ...], delays: tuple[int | None, ...],
    policy: str, now: float, idle_timeout: float | None,
) -> Watermark:  # fmt: skip
    """The watermark after a batch, as Spark defines it: per side the greatest event time so far minus its delay; the
    global one is the least (or greatest, by policy) of the sides, and never goes back.

    A side that has sent nothing for `idle_timeout` seconds of wall time does not hold the others back.
    """
    sides = len(delays)
    before = mark.latest or (None,) * sides
    seen = mark.last_seen or (now,) * sides
    tops = tuple(max((t for t in pair if t is not None), default=None) for pair in zip(before, latest, strict=True))
    seen = tuple(now if rows else old for rows, old in zip(arrived, seen, strict=True))
    marks = []
    for top, delay, when in zip(tops, delays, seen, strict=True):
        if delay is None or (idle_timeout is not None and now - when > idle_timeout):
            continue
        marks.append(None if top is None else top - delay)
    if not marks or (policy == "min" and None in marks):
        return replace(mark, latest=tops, last_seen=seen)
    known = [m for m in marks if m is not None]
    if not known:
        return replace(mark, latest=tops, last_seen=seen)
    value = min(known) if policy == "min" else max(known)
    return Watermark(value if mark.value is None else max(value, mark.value), tops, seen)
