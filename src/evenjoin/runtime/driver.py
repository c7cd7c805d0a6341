"""The loop: what happens to one batch, from its arrival to its commit.

    1  already committed?  then it is done
    2  start from the last commit
    3  it named a new table?  migrate
    4  dispatch, join, sink                       (the runtime's part)
    5  read the receipts; run instances that left none
    6  commit: the batch is final
    7  collect garbage

A crash before 6 leaves the last commit untouched and the batch is replayed from the source; a crash after it finds
the batch done. Decisions (the watermark, the table to use next) are taken at 6 and recorded, so a replay cannot
take others. The driver owns time, budget and safety; planners only suggest, and `check` has the last word.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from evenjoin.commit.log import Commit, CommitLog, Watermark, advanced, checked, read_checked
from evenjoin.commit.owner import Owner
from evenjoin.errors import CheckpointMismatchError, EvenJoinError, ReceiptError, StateCorruptionError
from evenjoin.instance.migrate import Migrated
from evenjoin.instance.two_way import Work, no_step
from evenjoin.load.receipt import Receipt
from evenjoin.load.report import LoadReport, fold, sampled, stored_under
from evenjoin.placement.check import check
from evenjoin.placement.table import RoutingTable
from evenjoin.runtime.dispatch import stated
from evenjoin.runtime.rebalance import Guards, decide
from evenjoin.spec import JoinSpec
from evenjoin.state.files import Folder
from evenjoin.state.layout import layouts
from evenjoin.state.manifest import Manifest
from evenjoin.strategies.base import Layout, Strategy

NOTHING_STORED = Manifest()


@dataclass(frozen=True, slots=True)
class Settings:
    """How to run a join; may differ from one start to the next on the same checkpoint."""

    strategy: Strategy
    instances: int
    layout: Layout = "shared"
    idle_timeout: float | None = None
    sub_window: int | None = None
    merge_budget: int = 1_000_000
    pair_limit: int = 1 << 17
    guards: Guards = field(default_factory=Guards)
    track: int = 0
    redact_keys: bool = False
    elastic: bool = False
    now: Callable[[], float] = time.time
    step: Callable[[str, int], None] = no_step
    worker_step: Callable[[str, int], None] = no_step


class Runtime(Protocol):
    """What the loop needs from where it runs."""

    def execute(self, work: Work, watermark: int | None) -> None:
        """Dispatch, join and sink one batch; instances leave receipts."""

    def finish(self, work: Work, watermark: int | None, missing: Sequence[int]) -> None:
        """Run instances whose results nobody took, for their state's sake."""

    def migrate(self, work: Work, new: RoutingTable) -> list[Migrated]: ...

    def late(self, files: Sequence[str], batch: int) -> None:
        """Deliver late rows to their side output."""


@dataclass(slots=True)
class Driver:
    """Runs the batches of one join on one checkpoint folder. `close` releases it."""

    spec: JoinSpec
    settings: Settings
    folder: Folder
    log: CommitLog = field(init=False)
    last: Commit | None = field(init=False)
    _owner: Owner = field(init=False)
    _tables: dict[str, RoutingTable] = field(init=False, default_factory=dict)
    _saved: set[str] = field(init=False, default_factory=set)
    _begun: int | None = field(init=False, default=None)
    _closed: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.log = CommitLog(self.folder)
        self._owner = Owner(self.folder)
        try:
            self._check_join()
            self.last = self.log.latest()
            self._check_commits()
            self._sweep()
        except BaseException:
            self._owner.release()
            raise

    def close(self) -> None:
        self._owner.release()
        self._closed = True

    def run(self, batch: int, runtime: Runtime) -> Commit:
        """Process one batch, once."""
        step, started = self.settings.step, time.perf_counter()
        if self._closed:
            raise EvenJoinError("this join is closed; start another one on its checkpoint")
        if self.last is not None and self.last.batch >= batch:  # 1
            return self.last
        self._check_follows(batch)
        step("begin", batch)
        before = self.last  # 2
        table = self.next_table()
        manifest = before.manifest if before else NOTHING_STORED
        mark = before.watermark if before else Watermark()
        migration = None
        if before is not None and before.table != self._name(table):  # 3
            work = self._work(batch, self.table_named(before.table), manifest)
            manifest, migration = self._migrate(work, table, runtime)
            step("migrated", batch)
        work = self._work(batch, table, manifest)
        runtime.execute(work, mark.value)  # 4
        step("executed", batch)
        receipts = self._receipts(work, mark.value, runtime)  # 5
        step("receipts", batch)
        late = [name for receipt in receipts for name in receipt.late_files]
        if late:
            runtime.late(late, batch)
        commit = self._commit(table, manifest, mark, receipts, migration)  # 6
        commit = replace(commit, duration_ms=round((time.perf_counter() - started) * 1000, 3))
        step("commit", batch)
        self.log.append(commit)
        self.last, self._begun = commit, None
        step("committed", batch)
        self._collect(before, commit)  # 7
        step("collected", batch)
        return commit

    def next_table(self) -> RoutingTable:
        """The table of the next batch: the one decided on, unless the user now asks for another strategy or size."""
        if self.last is not None and self.last.asked == self._asked:
            return self.table_named(self.last.next_table)
        settings = self.settings
        initial = settings.strategy.initial(settings.instances, len(self.spec.sides), settings.layout)
        initial = check(stated(self.spec, initial))
        if self.last is None:
            return initial
        return replace(initial, version=self.table_named(self.last.next_table).version + 1)

    @property
    def _asked(self) -> str:
        size = "auto" if self.settings.elastic else self.settings.instances
        return f"{self.settings.strategy.origin} on {size}, {self.settings.layout}"

    def table_named(self, name: str) -> RoutingTable:
        if name not in self._tables:
            self._tables[name] = self.log.read_table(name)
        return self._tables[name]

    def _name(self, table: RoutingTable) -> str:
        name = f"{table.version}-{table.digest}"
        self._tables[name] = table
        return name

    def _work(self, batch: int, table: RoutingTable, manifest: Manifest) -> Work:
        settings = self.settings
        masks = {run.mask: self.table_named(run.mask) for _, _, run in manifest if run.mask is not None}
        return Work(
            self.spec, layouts(self.spec), batch, table, masks, dict(manifest.runs),
            sub_window_widths(self.spec, settings.sub_window), settings.merge_budget, settings.pair_limit,
            max(settings.strategy.tracked, settings.track), settings.redact_keys, settings.worker_step,
        )  # fmt: skip

    def _migrate(self, work: Work, new: RoutingTable, runtime: Runtime) -> tuple[Manifest, dict[str, Any]]:
        started = time.perf_counter()
        manifest = Manifest(work.runs)
        donors = runtime.migrate(work, new)
        for donor in donors:
            for side, runs in donor.gone.items():
                manifest = manifest.changed((donor.instance, side), runs, ())
        for donor in donors:
            for place, runs in donor.come.items():
                manifest = manifest.changed(place, (), runs)
        self._name(new)
        decided = self.last.planner if self.last and self.last.planner.get("verdict") == "rebalance" else {}
        return manifest, {
            "why": "imbalance" if decided else "asked for",
            "from": f"{work.table.origin} on {work.table.instances}",
            "to": f"{new.origin} on {new.instances}",
            "imbalance_before": decided.get("imbalance"),
            "imbalance_forecast": decided.get("forecast"),
            "planner_ms": decided.get("planner_ms"),
            "forecast_tuples": decided.get("moves"),
            "tuples": sum(donor.tuples for donor in donors),
            "bytes": sum(donor.bytes for donor in donors),
            "pause_ms": round((time.perf_counter() - started) * 1000, 3),
        }

    def _receipts(self, work: Work, watermark: int | None, runtime: Runtime) -> list[Receipt]:
        """One receipt per instance. A user's function may have left some instances unread: they are run now."""
        for attempt in ("as executed", "finished"):
            found: dict[int, Receipt] = {}
            for name in self.folder.names(f"receipts/{work.batch}"):
                receipt = Receipt.from_bytes(self.folder.load(f"receipts/{work.batch}/{name}").to_pybytes())
                found.setdefault(receipt.instance, receipt)
            missing = [i for i in range(work.table.instances) if i not in found]
            if not missing:
                return [found[i] for i in range(work.table.instances)]
            if attempt == "as executed":
                runtime.finish(work, watermark, missing)
        raise ReceiptError(f"batch {work.batch}: instances {missing} left no receipt; the batch will be replayed")

    def _commit(
        self, table: RoutingTable, manifest: Manifest, mark: Watermark, receipts: Sequence[Receipt],
        migration: dict[str, Any] | None,
    ) -> Commit:  # fmt: skip
        sides = range(len(self.spec.sides))
        for receipt in receipts:
            for side in sides:
                place = receipt.instance, side
                manifest = manifest.changed(place, receipt.merged[side], receipt.sealed[side])
        report = fold(receipts, manifest, len(sides), self.last.report if self.last else None)
        mark = advanced(
            mark, tuple(i.latest for i in report.intake), tuple(i.rows for i in report.intake),
            tuple(side.delay for side in self.spec.sides), self.spec.watermark_policy,
            self.settings.now(), self.settings.idle_timeout,
        )  # fmt: skip
        manifest, expired = manifest.expired(tuple(side.horizon for side in self.spec.sides), mark.value)
        report = replace(stored_under(report, manifest), expired=expired)
        report = sampled(report, receipts, self.last.report if self.last else None)
        decision = decide(
            self.settings.strategy, report, table, self.settings.guards, self._rebalanced(), time.perf_counter
        )  # fmt: skip
        after = decision.table
        if migration is not None:
            migration["imbalance_after"] = decision.note["imbalance"]
            migration["busy_after"] = round(report.imbalance, 4)
        for one in (table, after):
            if self._name(one) not in self._saved:
                self._saved.add(self.log.save_table(one))
        return Commit(
            receipts[0].batch, self._name(table), self._name(after), manifest, mark, report, self._asked,
            migration=migration, totals=_totals(self.last, report), planner=decision.note,
        )  # fmt: skip

    def _rebalanced(self) -> int | None:
        return self.last.planner.get("rebalanced") if self.last else None

    def _check_join(self) -> None:
        """The checkpoint belongs to this join, or to nobody yet."""
        mine = self.spec.fingerprint()
        if self.folder.create("join.json", checked(mine)):
            return
        theirs = read_checked(self.folder, "join.json")
        different = [name for name in sorted({*mine, *theirs}) if mine.get(name) != theirs.get(name)]
        if different:
            lines = [f"  {n}: checkpoint has {theirs.get(n)!r}, this join has {mine.get(n)!r}" for n in different]
            raise CheckpointMismatchError(
                "the checkpoint belongs to another join; use a new checkpoint folder or the original join\n"
                + "\n".join(lines)
            )

    def _check_commits(self) -> None:
        """A crash leaves the files of one batch without a commit, never those of several."""
        batches = self.folder.names("segments") if self.last is None else []
        if len(batches) > 1:
            raise StateCorruptionError(
                f"commits/ of the checkpoint is empty, but there is state of batches {batches[0]} to {batches[-1]}: "
                "restore the commits or start a new checkpoint"
            )

    def _check_follows(self, batch: int) -> None:
        """Nothing between the last commit and this batch; and if this is another try, nothing of the one before."""
        if self.last is not None and batch > self.last.batch + 1:
            raise StateCorruptionError(
                f"commits/{self.last.batch + 1} is missing: the last commit is batch {self.last.batch}, and batch "
                f"{batch} was to follow it; restore the commit or start a new checkpoint"
            )
        if self._begun is not None:
            for folder in ("receipts", "late", "segments"):
                self.folder.delete_folder(f"{folder}/{self._begun}")
        self._begun = batch

    def _collect(self, before: Commit | None, commit: Commit) -> None:
        """Delete what this commit retired: runs no longer named, other attempts' files, the receipts."""
        live = commit.manifest.files
        retired = (before.manifest.files if before else set()) - live
        folder = f"segments/{commit.batch}"
        retired |= {f"{folder}/{name}" for name in self.folder.names(folder)} - live
        for name in retired:
            self.folder.delete(name)
        for empty in {os.path.dirname(name) for name in retired} - {os.path.dirname(name) for name in live}:
            self.folder.delete_folder(empty)
        self.folder.delete_folder(f"receipts/{commit.batch}")
        self.folder.delete_folder(f"late/{commit.batch}")
        self.log.trim()

    def _sweep(self) -> None:
        """At start: everything the last commit does not name is garbage of a crash."""
        live = self.last.manifest.files if self.last else set()
        for batch in self.folder.names("segments"):
            names = {f"segments/{batch}/{name}" for name in self.folder.names(f"segments/{batch}")}
            if not names & live:
                self.folder.delete_folder(f"segments/{batch}")
            for name in names - live:
                self.folder.delete(name)
        for folder in ("receipts", "late"):
            self.folder.delete_folder(folder)


def sub_window_widths(spec: JoinSpec, asked: int | None) -> tuple[int | None, ...]:
    """Width of the sub-windows of each side whose tuples expire: a quarter of what it must keep."""
    span = (spec.high or 0) - (spec.low or 0) if spec.window is None else spec.window[0] * 4
    delay = max((side.delay or 0 for side in spec.sides), default=0)
    width = asked or max(span // 4, delay // 4, 1)
    return tuple(None if side.horizon is None else width for side in spec.sides)


def _totals(last: Commit | None, report: LoadReport) -> dict[str, Any]:
    before = last.totals if last else {}
    out: dict[str, Any] = {"results": before.get("results", 0) + report.matches}
    for name in ("rows", "late", "unmatchable"):
        old = before.get(name) or [0] * len(report.intake)
        out[name] = [a + getattr(i, name) for a, i in zip(old, report.intake, strict=True)]
    out["expired"] = before.get("expired", 0) + report.expired
    return out
