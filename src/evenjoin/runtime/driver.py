"""The loop: what happens to one batch, from its arrival to its commit.

    1  does its number stand for the same data as ever?  already committed?  then it is done
    2  start from the last commit
    3  it named a new table?  migrate
    4  dispatch, join, sink                       (the runtime's part)
    5  balance the books of all receipts; run instances that left none; deliver late rows
    6  commit: the batch is final; files of results are gathered before it and shown after it (commit/staging.py)
    7  collect garbage

Guarantee: a crash before 6 leaves the last commit untouched, and the batch is replayed from the source. A crash after
it finds the batch done. Decisions (the watermark, the table to use next) are taken at 6 and are part of the commit, so
a later start cannot take others. Planners run nowhere else: a plan counts from the commit that records it, and one
whose commit was never made is forgotten.
One commit can be taken back: the files that the last commit but one names are kept until the next commit is made.
Only one evaluation counts: tasks write the number of the driver's start and of the try into every name, and the driver
reads what its own try wrote. If the books of a try do not balance (load/receipt.py), nothing is committed. The batch
gets one more try if the sink replaces what it has; otherwise it is an EvaluationError.
Not guaranteed: that a sink or a late output is called once. It is called again, with the same batch number, when a
batch is replayed or tried again.

The driver keeps files, locks and the order of steps. What a batch makes of the last commit is decided in advance.py.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import NamedTuple, Protocol

from evenjoin.commit.identity import Identity, check_ours, claim
from evenjoin.commit.leftovers import collect_parts
from evenjoin.commit.log import Commit, CommitLog, Start, Watermark
from evenjoin.commit.owner import Owner
from evenjoin.commit.position import check_position
from evenjoin.commit.shown import Shown, clear, show
from evenjoin.commit.staging import Staging
from evenjoin.errors import (
    EvaluationError,
    EvenJoinError,
    ReceiptError,
    SpecError,
    StateCorruptionError,
    StorageError,
)
from evenjoin.events import Migration, tells_more
from evenjoin.instance.migrate import Migrated
from evenjoin.instance.program import Program, store_schemas
from evenjoin.instance.programs import program_of
from evenjoin.instance.work import Work, sub_window_widths
from evenjoin.load.receipt import Receipt, balance, over_hops
from evenjoin.load.samples import USUAL_GRAIN
from evenjoin.load.watch import watched
from evenjoin.placement.check import check
from evenjoin.placement.table import RoutingTable
from evenjoin.runtime.advance import Clocks, advance, migrated, times_of
from evenjoin.runtime.ahead import time_limit
from evenjoin.runtime.dispatch import stated
from evenjoin.runtime.restart import handed_over
from evenjoin.runtime.settings import Settings
from evenjoin.shown import visible
from evenjoin.spec import JoinSpec
from evenjoin.state.files import Folder
from evenjoin.state.manifest import Manifest
from evenjoin.state.packs import Schema
from evenjoin.state.tuples import TupleSchema, tuple_schemas

log = logging.getLogger("evenjoin")
TRIALS = 2
"""How often a batch is tried whose sink replaces what it has."""


class Elsewhere(Exception):
    """A batch cannot run where its runtime has tried it, and why. Nothing of it has reached the sink, and the runtime
    will run it elsewhere."""


class Runtime(Protocol):
    """What the loop needs from where it runs. `replaceable`: the sink replaces what it has of a batch when it is called
    with it again."""

    replaceable: bool

    def execute(self, work: Work, watermark: int | None) -> None:
        """Dispatch and join one batch, and hand its results to the sink. Each instance leaves a receipt. If it raises
        Elsewhere it is called again, with another try."""

    def complete(self, work: Work, watermark: int | None, missing: Sequence[int]) -> None:
        """Run the instances that left no receipt because nobody took their results. Their state is needed all the
        same."""

    def migrate(self, work: Work, new: RoutingTable) -> list[Migrated]: ...

    def late(self, files: Sequence[str], batch: int) -> None:
        """Deliver the late rows in these files to the user's side output."""

    def offsets(self, batch: int) -> str:
        """A digest of all that the source has read up to and including a batch; "" if the caller answers for that."""


class _Known(NamedTuple):
    """A program, and by store the columns of its rows and the width of its sub-windows."""

    program: Program
    schemas: tuple[Schema, ...]
    sub_windows: tuple[int | None, ...]


@dataclass(slots=True)
class Driver:
    """Runs the batches of one join on one checkpoint folder. It holds the folder until `close`."""

    spec: JoinSpec
    settings: Settings
    folder: Folder
    log: CommitLog = field(init=False)
    last: Commit | None = field(init=False)
    identity: Identity = field(init=False)
    schemas: tuple[TupleSchema, ...] = field(init=False)
    output: Staging | None = field(init=False, default=None)
    _owner: Owner = field(init=False)
    _programs: dict[str, _Known] = field(init=False, default_factory=dict)
    _tables: dict[str, RoutingTable] = field(init=False, default_factory=dict)
    _start: Start = field(init=False)
    _started: float = field(init=False)
    _entry: int = field(init=False)
    _trials: int = field(init=False, default=0)
    _left: list[str] = field(init=False, default_factory=list)
    _older: set[str] = field(init=False, default_factory=set)
    _begun: int | None = field(init=False, default=None)
    _shown: int | None = field(init=False, default=None)
    _ended: float | None = field(init=False, default=None)
    _commit_ms: float = field(init=False, default=0.0)
    _closed: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._started = self.settings.now()
        check_ours(self.folder)
        self._owner = Owner(self.folder, self.settings.now)  # before anything is deleted
        try:
            collect_parts(self.folder)
            redact = self.settings.redact_keys
            self.identity = claim(self.folder, {**self.spec.fingerprint(), "redact_keys": redact})
            self.schemas = tuple_schemas(self.spec, self.identity.seed, "redacted" if redact else "shown")
            self.log = CommitLog(self.folder, self.identity.uuid, self.settings.durability)
            self._start, self.last = self.log.begin()
            self._entry = self._start.entry
            self._check_commits()
            self._show()
            self._sweep()
        except BaseException:
            self._owner.release()
            raise

    def deliver_to(self, output: Staging) -> None:
        """Write the results of all batches as files of this output. To be called before the first batch."""
        output.clear()
        self.output = output

    def close(self) -> None:
        self._owner.release()
        self._closed = True

    def run(self, batch: int, runtime: Runtime) -> Commit:
        """Process one batch and return its commit. If a batch as late as this was committed before, nothing is done."""
        step, started = self.settings.step or _no_step, time.perf_counter()
        if self._closed:
            raise EvenJoinError("this join is closed; start another one on its checkpoint")
        offsets = runtime.offsets(batch)
        if offsets:
            check_position(self.log, self.last, batch, runtime.offsets)  # 1
        if self.last is not None and self.last.batch >= batch:
            return self.last
        self._check_held()
        self._check_follows(batch)
        self._show()
        step("begin", batch)
        before, table = self.last, self.next_table()  # 2
        manifest, mark = (before.manifest, before.watermark) if before else (Manifest(), Watermark())
        migration = None
        if before is not None and before.table != table.name:  # 3
            manifest, migration = self._migrate(before, batch, table, runtime)
            step("migrated", batch)
        begun = time.perf_counter()
        work, receipts = self._evaluated(self._work(batch, table, manifest), mark.value, runtime)  # 4, 5
        ran = time.perf_counter()
        step("receipts", batch)
        late = [name for receipt in receipts for name in receipt.late_files]
        if late:
            runtime.late(late, batch)
        clocks = Clocks(self.settings.now(), self._started, time.perf_counter, self._since_last_ms())
        times = times_of(started, begun, ran, time.time() - time.perf_counter() + ran, receipts)
        commit, after = advance(before, work, migration, receipts, self.settings, clocks)  # 6
        self._tables.update({table.name: table, after.name: after})
        shown = None if self.output is None else self._gathered(self.output, batch, receipts)
        step("commit", batch)
        self._check_held()
        duration_ms = round((time.perf_counter() - started) * 1000, 3)
        previous, entry = before.entry if before else None, self._entry + 1
        decide_ms = round(max(duration_ms - (ran - started) * 1000, 0.0), 3)
        times = replace(times, decide_ms=decide_ms, commit_ms=self._commit_ms, ended=self.settings.now())
        commit = replace(
            commit, duration_ms=duration_ms, offsets=offsets, entry=entry, previous=previous, output=shown, times=times
        )  # fmt: skip
        self._check_named(commit)
        self.log.append(commit, [table, after])
        self._commit_ms = round((time.perf_counter() - started) * 1000 - duration_ms, 3)
        self.last, self._entry, self._begun = commit, commit.entry, None
        step("committed", batch)
        if log.isEnabledFor(logging.INFO):
            _tell(commit, before)
        self._show()
        if self.output is not None:
            step("shown", batch)
        with suppress(Exception):  # the batch is final; what cannot be deleted now goes later, or at the next start
            self._collect(before, commit)  # 7
        step("collected", batch)
        return commit

    def _gathered(self, output: Staging, batch: int, receipts: Sequence[Receipt]) -> Shown:
        """Make the files of results ready that the receipts name."""
        try:
            return output.gather(batch, receipts)
        except (ReceiptError, StorageError):
            self.log.check_last(self._entry)  # a younger driver that shows and sweeps is the reason to tell
            raise

    def _show(self) -> None:
        """Show the files of the last commit, unless that was done. This comes first at every start and before every
        batch, so whoever dies between a commit and this leaves it to the next one."""
        if self.last is None or self.last.output is None or self._shown == self.last.entry:
            return
        step = self.settings.step or _no_step
        show(self.last.output, self.folder, partial(_of_batch, step, self.last.batch))
        self._shown = self.last.entry

    def _since_last_ms(self) -> float:
        """Milliseconds since the last batch came this far; 0 for the first batch of this start."""
        last, self._ended = self._ended, time.perf_counter()
        return 0.0 if last is None else (self._ended - last) * 1000

    def next_table(self) -> RoutingTable:
        """The table of the next batch: the one that the last commit decided on, unless the user now asks for another
        strategy, size or layout (restart.py)."""
        settings, last = self.settings, self.last
        if last is None:
            return self._initial(settings.instances)
        present, planned = self.table_named(last.table), self.table_named(last.next_table)
        if last.asked == settings.asked:
            return planned
        alike = settings.differs_in_size_only(last.asked)
        initial = self._initial(settings.size_near(planned.instances) if alike else settings.instances)
        self._check_program(present.program, initial.program)
        kept = handed_over(settings.strategy, last.report, present, planned, initial) if alike else None
        return kept or replace(initial, version=planned.version + 1)

    def _initial(self, instances: int) -> RoutingTable:
        """The table with which the strategy begins on so many instances."""
        initial = self.settings.strategy.initial(instances, len(self.spec.sides), self.settings.layout)
        return check(stated(self.spec, initial))

    def _check_program(self, old: str, new: str) -> None:
        """Refuse a program whose packs are not in the state, because another program was run so far."""
        before, after = self._program(old)[0].stores, self._program(new)[0].stores
        kept = {replace(store, packing="packed") for store in before}
        if any(store.packs and replace(store, packing="packed") not in kept for store in after):
            raise SpecError(
                f"this checkpoint was run as {old.split()[0]!r}, which keeps no intermediate results as "
                f"{new.split()[0]!r} needs them: start a new checkpoint, or use a strategy without them"
            )

    def table_named(self, name: str) -> RoutingTable:
        if name not in self._tables:
            self._tables[name] = self.log.read_table(name)
        return self._tables[name]

    def _program(self, name: str) -> _Known:
        """The program of this name, made once."""
        if name not in self._programs:
            program = program_of(self.spec, name)
            widths = sub_window_widths(self.spec, program, self.settings.sub_window)
            self._programs[name] = _Known(program, store_schemas(self.spec, program, self.schemas), widths)
        return self._programs[name]

    def _work(self, batch: int, table: RoutingTable, manifest: Manifest) -> Work:
        settings = self.settings
        program, schemas, sub_windows = self._program(table.program)
        tracked = max(settings.strategy.tracked, settings.track)
        return Work(
            spec=self.spec,
            program=program,
            schemas=schemas,
            batch=batch,
            start=self._start.entry,
            trial=self._trials,
            seed=self.identity.seed,
            table=table,
            masks={run.mask: self.table_named(run.mask) for _, _, run in manifest if run.mask is not None},
            runs=manifest.runs,
            sub_windows=sub_windows,
            merge_budget=settings.merge_budget,
            pair_limit=settings.pair_limit,
            tracked=tracked,
            watched=watched(self.last.report.heavy, table) if tracked and self.last and self.last.report else {},
            sampling="codes" if self._samples() else "none",
            grain=settings.grain or USUAL_GRAIN,
            redact=settings.redact_keys,
            time_limit=None if settings.max_ahead is None else self._time_limit(settings.max_ahead),
            order=self.last.report.order if self.last and self.last.report else (),
            step=settings.worker_step,
        )

    def _samples(self) -> bool:
        """Whether codes are sampled: the strategy looks at them, or the user tracks the load. Codes that are values are
        not, where keys are redacted."""
        asked = self.settings.track > 0 or self.settings.grain is not None
        return asked and not (self.settings.redact_keys and self.spec.ordered_codes)

    def _time_limit(self, ahead: int) -> int | None:
        mark = self.last.watermark if self.last else Watermark()
        return time_limit(mark, self.spec, ahead, self.settings.now())

    def _migrate(self, last: Commit, batch: int, new: RoutingTable, runtime: Runtime) -> tuple[Manifest, Migration]:
        started = time.perf_counter()
        self._tables[new.name] = new  # masked runs refer to it by name
        work = self._work(batch, self.table_named(last.table), last.manifest)
        donors = runtime.migrate(work, new)
        pause_ms = round((time.perf_counter() - started) * 1000, 3)
        return migrated(last, work, new, donors, pause_ms, self.settings.asked)

    def _evaluated(self, work: Work, watermark: int | None, runtime: Runtime) -> tuple[Work, list[Receipt]]:
        """Dispatch, join and sink. Returns the try that counts, and the receipts of all its instances. Every try of
        this start has a number of its own, also when a batch that failed is run again."""
        attempt = 1
        while True:
            self._trials += 1
            work = replace(work, trial=self._trials)
            if self.output is not None:
                work = replace(work, results=self.output.begin(work.batch, work.mark))
            try:
                runtime.execute(work, watermark)
                if self.settings.step is not None:
                    self.settings.step("executed", work.batch)
                return work, self._receipts(work, watermark, runtime)
            except Elsewhere:
                continue
            except EvaluationError:
                if attempt == TRIALS or not runtime.replaceable:
                    raise
                attempt += 1

    def _receipts(self, work: Work, watermark: int | None, runtime: Runtime) -> list[Receipt]:
        """One receipt per instance, of this try, if they can be put together. A user's function may not have read the
        results of all instances: those are run now."""
        folder, hops = f"receipts/{work.batch}/{work.mark}", len(work.program.hops)
        books = balance(self.folder.names(folder), work.table.instances, hops)
        if books.missing:
            self._check_held()  # whoever took the checkpoint over has deleted them
            runtime.complete(work, watermark, books.missing)
            books = balance(self.folder.names(folder), work.table.instances, hops)
        if books.missing:
            self.log.check_last(self._entry)
            missing = list(books.missing)
            raise ReceiptError(f"batch {work.batch}: instances {missing} left no receipt; the batch will be replayed")
        if books.wrong:
            raise EvaluationError(
                f"batch {work.batch} was not committed: {books.wrong}. The input gave other rows when it was read "
                "again: call df.persist() first in your function, or make the query above the join give the same rows "
                "each time it is read"
            )
        receipts = [
            [self._receipt(f"{folder}/{name}") for name in books.chosen[i]] for i in range(work.table.instances)
        ]
        return [of_one[0] if hops == 1 else over_hops(of_one) for of_one in receipts]

    def _receipt(self, name: str) -> Receipt:
        return Receipt.from_bytes(self.folder.load(name).to_pybytes(), name)

    def _check_named(self, commit: Commit) -> None:
        """Refuse a commit that names a new segment which is not there."""
        folder = f"segments/{commit.batch}"
        named = {os.path.basename(name) for name in commit.manifest.files if os.path.dirname(name) == folder}
        lost = sorted(named - set(self.folder.names(folder))) if named else []
        if lost:
            self.log.check_last(self._entry)
            raise ReceiptError(f"segment {folder}/{lost[0]} was sealed and is gone; the batch will be replayed")

    def _check_held(self) -> None:
        """Refuse to go on if another driver has taken the checkpoint over."""
        if not self._owner.sure:
            self._owner.check()

    def _check_commits(self) -> None:
        """Refuse a checkpoint whose commits were lost. A crash leaves the files of one batch without a commit, never
        those of several batches; and it leaves them of the batch that comes next."""
        self._left = self.folder.names("segments") if self.last is None else []
        if len(self._left) > 1:
            raise StateCorruptionError(
                f"no batch is committed, but there is state of batches {self._left[0]} to {self._left[-1]}: "
                "restore commits/ or start a new checkpoint"
            )

    def _check_follows(self, batch: int) -> None:
        """Refuse a batch that does not follow the last commit. If this is another try of a batch, delete the files of
        the try before."""
        if self.last is not None and batch > self.last.batch + 1:
            raise StateCorruptionError(
                f"batch {self.last.batch + 1} was never committed: the last commit is batch {self.last.batch}, and now "
                f"batch {batch} was to follow it. Restore commits/ and spark/ from one copy, or start a new checkpoint"
            )
        if self.last is None and self._left and self._left != [str(batch)]:
            raise StateCorruptionError(
                f"no batch is committed, but there is state of batch {self._left[0]}, and now batch {batch} was to be "
                "the first one: restore commits/ or start a new checkpoint"
            )
        if self._begun is not None or self._left:
            for folder in ("receipts", "late", "segments"):
                self.folder.delete_folder(f"{folder}/{batch if self._begun is None else self._begun}")
        self._left = []
        self._begun = batch

    def _collect(self, before: Commit | None, commit: Commit) -> None:
        """Delete what nobody needs any more: files that neither this commit nor the one before it names, files of other
        attempts, receipts, late rows, entries of the log and tables of long ago."""
        self._tables = {name: table for name, table in self._tables.items() if name in commit.tables}
        old = before.manifest.files if before else set()
        live = commit.manifest.files | old
        retired, self._older = self._older - live, old
        folder = f"segments/{commit.batch}"
        retired |= {f"{folder}/{name}" for name in self.folder.names(folder)} - live
        for name in retired:
            self.folder.delete(name)
        for empty in {os.path.dirname(name) for name in retired} - {os.path.dirname(name) for name in live}:
            self.folder.delete_folder(empty)
        self.folder.delete_folder(f"receipts/{commit.batch}")
        self.folder.delete_folder(f"late/{commit.batch}")
        if self.output is not None:
            self.output.done()
        if commit.entry >= self.log.keep:  # else there is nothing to look for
            self.log.collect()

    def _sweep(self) -> None:
        """At the start, delete what a crash left behind: everything that neither the last commit nor the one before it
        names. Without any commit the state of a batch stays until that batch comes again (`_check_follows`)."""
        live = set().union(*(commit.manifest.files for commit in islice(self.log.commits(), 2)))
        self._older = live
        for batch in self.folder.names("segments") if self.last is not None else ():
            names = {f"segments/{batch}/{name}" for name in self.folder.names(f"segments/{batch}")}
            if not names & live:
                self.folder.delete_folder(f"segments/{batch}")
            for name in names - live:
                self.folder.delete(name)
        for folder in ("receipts", "late"):
            self.folder.delete_folder(folder)
        staged = self.last.output.staged(self.folder) if self.last is not None and self.last.output else None
        if staged is not None:
            clear(staged)


def _tell(commit: Commit, before: Commit | None) -> None:
    """Log the verdict, if it calls for a rebalance or says something else than the last one."""
    if commit.verdict is not None and tells_more(commit.verdict, before.verdict if before else None):
        log.info("batch %d: %s", commit.batch, visible(commit.verdict.sentence))


def _of_batch(step: Callable[[str, int], None], batch: int, name: str) -> None:
    step(name, batch)


def _no_step(name: str, batch: int) -> None:
    """Does nothing. Tests pass a function of their own instead, which crashes at a chosen step."""
