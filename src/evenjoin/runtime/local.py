"""The engine in this process: the same specs, tables, instances, state and commits as on executors, without Spark.

    feeds ──dispatch──► messages ──hop 0──► instances ──► results, handed to `take`
                                                  └─ messages ──hop 1──► ...

`Process` runs a batch so: the dispatch tasks and instances one after the other or, in a large batch, in a thread for
each core. A join on Spark gives it the batches that the driver takes for itself (runtime/spark/where.py). `LocalJoin`
is the embedded engine, made of it and a driver: one call of `process` is one micro-batch.

Guarantee: batches are numbered, and a batch that was committed is not joined again. State lives in memory, or in the
folder `checkpoint=`, from which a new object goes on where the last one stopped.
Not here: reading streams. The caller brings the rows of each batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as parquet

from evenjoin.commit.outputs import Output
from evenjoin.commit.staging import open_staging
from evenjoin.errors import SpecError
from evenjoin.events import Migration, Progress
from evenjoin.instance.batch import Arrivals, join_batch, new_attempt
from evenjoin.instance.deliver import Sent
from evenjoin.instance.late import late_rows
from evenjoin.instance.migrate import Migrated, migrate_here
from evenjoin.instance.results import Form, stored_form
from evenjoin.instance.work import Work
from evenjoin.load.intake import Note
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import RoutingTable
from evenjoin.runtime.dispatch import Dispatcher
from evenjoin.runtime.driver import Driver
from evenjoin.runtime.reports import migrations, progress
from evenjoin.runtime.settings import Settings, check_apart
from evenjoin.spec import JoinSpec
from evenjoin.state.files import Folder, MemoryFolder, open_folder
from evenjoin.state.places import place_of
from evenjoin.state.segment import Segments

LateOutput = Callable[[pa.Table, str, int], None]
"""Called with (late rows, alias, batch number)."""
Sink = Callable[[pa.Table, int], None]
"""Called with (results, batch number)."""
THREADED_ROWS = 30_000
"""Rows of a batch from which on threads are used. Below, they hinder each other more than they help."""
Take = Callable[[pa.RecordBatch], None]
"""Given each record batch of results, by any of the threads."""
T = TypeVar("T")
R = TypeVar("R")


class LocalJoin:
    """A running join. Made by `evenjoin.local`."""

    def __init__(
        self,
        spec: JoinSpec,
        settings: Settings,
        checkpoint: str | os.PathLike[str] | Folder | None,
        late: LateOutput | str | os.PathLike[str] | None,
        output: str | os.PathLike[str] | None = None,
        partition_by: Sequence[str] = (),
    ) -> None:
        folder: Folder = MemoryFolder() if checkpoint is None else open_folder(checkpoint)
        check_apart("late", late, folder)
        check_apart("output", output, folder)
        form = None if output is None else stored_form(spec.schema, partition_by)
        self._driver = Driver(spec, settings, folder)
        self._late: LateOutput | Output | None = late if late is None or callable(late) else self._output(late)
        self._spec = spec
        self.schema = spec.schema
        self._read = [spec.read_columns(side) for side in range(len(spec.sides))]
        self._process = Process(folder)
        if output is not None and form is not None:
            self._stage(os.fspath(output), form)

    def process(
        self, data: Mapping[str, pa.Table | pa.RecordBatch], *, batch: int | None = None, sink: Sink | None = None
    ) -> pa.Table:
        """Join one micro-batch: rows by alias (a side may be missing). Returns the new results; none, if the join has
        an `output`, where they are files when this returns.

        For exactly-once output over crashes number the batches and give a `sink`. It is called with (results, batch)
        before the batch is committed. After a crash it may be called again with the same number, so it should replace
        what it wrote for that number. A batch that was committed is not joined again: its results are not returned. So
        results that are written only after `process` has returned are lost if the process dies in between.
        """
        aliases = [side.alias for side in self._spec.sides]
        if not isinstance(data, Mapping):
            raise SpecError(f"rows by alias are needed, such as {{{aliases[0]!r}: table}}, not {type(data).__name__}")
        if sink is not None and self._driver.output is not None:
            raise SpecError("this join writes its results to output=...: a sink would get none; use one of the two")
        unknown = set(data) - set(aliases)
        if unknown:
            raise SpecError(f"unknown alias {sorted(unknown)[0]!r}; the join has {', '.join(aliases)}")
        sides = [
            _rows(data.get(side.alias), side.schema, columns, side.alias)
            for side, columns in zip(self._spec.sides, self._read, strict=True)
        ]
        run = _Batch(self._process, sides, self, sink)
        self._driver.run(self.batch if batch is None else batch, run)
        return run.results or self.schema.empty_table()

    @property
    def batch(self) -> int:
        """The number of the next micro-batch."""
        return 0 if self._driver.last is None else self._driver.last.batch + 1

    def finish(self) -> pa.Table:
        """The input is over: close the join. Returns what is left to emit, which for an inner join is nothing."""
        self.close()
        return self.schema.empty_table()

    def load(self) -> LoadReport | None:
        """The load of every instance in the last batch; None before the first."""
        return self._driver.last.report if self._driver.last else None

    def table(self) -> RoutingTable:
        """The routing table that the next batch will use."""
        return self._driver.next_table()

    def migrations(self) -> list[Migration]:
        """The migrations of the batches whose commits are still kept (the last 512), oldest first."""
        return migrations(self._driver)

    def progress(self) -> Progress | None:
        """Counts of the last batch and since the first one; None before the first batch."""
        return progress(self._driver)

    def deliver_late(self, rows: pa.Table, side: int, batch: int) -> None:
        """Hand late rows to where `late=` says: a function, or a folder of parquet files."""
        alias = self._spec.sides[side].alias
        if callable(self._late):
            self._late(rows, alias, batch)
        elif self._late is not None:
            made = pa.BufferOutputStream()
            parquet.write_table(rows, made)
            self._late.claim()
            self._late.folder.write(f"{alias}/{batch}.parquet", made.getvalue())

    def close(self) -> None:
        self._driver.close()

    def __enter__(self) -> LocalJoin:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _stage(self, path: str, form: Form) -> None:
        """Write results as files to a path, in the given form."""
        driver = self._driver
        try:
            output = Output(path, driver.identity.uuid, driver.folder)
            driver.deliver_to(open_staging(output, place_of(driver.folder), None, form, "instances write the files"))
        except BaseException:
            driver.close()
            raise

    def _output(self, path: str | os.PathLike[str]) -> Output:
        """The folder for late rows. CheckpointMismatchError if it holds those of another checkpoint."""
        output = Output(os.fspath(path), self._driver.identity.uuid, self._driver.folder)
        try:
            output.check()
        except BaseException:
            self._driver.close()
            raise
        return output


class _Batch:
    """The runtime of one local batch (see `Runtime` in driver.py)."""

    def __init__(self, process: Process, sides: Sequence[pa.RecordBatch], join: LocalJoin, sink: Sink | None) -> None:
        self._process, self._sides, self._join, self._sink = process, sides, join, sink
        self.replaceable = True
        self.results: pa.Table | None = None

    def execute(self, work: Work, watermark: int | None) -> None:
        results: list[pa.RecordBatch] = []
        feeds = [Feed(side, rows.num_rows, [rows]) for side, rows in enumerate(self._sides)]
        self._process.join(work, watermark, feeds, results.append)
        self.results = pa.Table.from_batches(results, self._join.schema)
        if self._sink is not None:
            self._sink(self.results, work.batch)

    def complete(self, work: Work, watermark: int | None, missing: Sequence[int]) -> None:
        raise AssertionError("every local instance runs in execute")

    def migrate(self, work: Work, new: RoutingTable) -> list[Migrated]:
        return self._process.migrate(work, new)

    def late(self, files: Sequence[str], batch: int) -> None:
        for side, rows in late_rows(self._process.folder, files):
            self._join.deliver_late(rows, side, batch)

    def offsets(self, batch: int) -> str:
        return ""


class Feed(NamedTuple):
    """The rows of one dispatch task: of which side, how many, and in batches with the columns that the join reads."""

    side: int
    total: int
    rows: Iterable[pa.RecordBatch]


class _Fed(NamedTuple):
    """What a dispatch task made of its rows: tuples for instances, late rows (also `Sent`, to a side), and its note."""

    tuples: list[Sent]
    late: list[Sent]
    note: Note


@dataclass(slots=True)
class Process:
    """Runs batches of one join on this checkpoint folder. `threads` is how many may work at once.

    After `join` every instance has left one receipt, and `take` was given each result once. If `take` raises, the batch
    stops there, and its files are those of a try that nobody will count. Threads share the open segments and nothing
    else.
    """

    folder: Folder
    threads: int = 1
    segments: Segments = field(init=False)

    def __post_init__(self) -> None:
        self.segments = Segments(self.folder)

    def join(self, work: Work, watermark: int | None, feeds: Sequence[Feed], take: Take) -> None:
        """Dispatch the rows and run every instance at every hop."""
        threads = self.threads if sum(feed.total for feed in feeds) >= THREADED_ROWS else 1
        instances = [Arrivals() for _ in range(work.table.instances)]
        messages: list[Sent] = []
        for number, fed in enumerate(_each(partial(_dispatched, work, watermark), feeds, threads)):
            messages += fed.tuples
            for late in fed.late:
                instances[late.instance].take("late", late.store, [late.batch], late.lines)
            instances[number % len(instances)].take_note(fed.note)
        for hop in range(len(work.program.hops)):
            messages, instances = self._hop(work, hop, messages, instances, take, threads)

    def migrate(self, work: Work, new: RoutingTable) -> list[Migrated]:
        """A whole migration, one donor after the other."""
        return migrate_here(work, new, self.folder, self.segments, new_attempt)

    def _hop(
        self, work: Work, hop: int, messages: Sequence[Sent], instances: Sequence[Arrivals], take: Take, threads: int
    ) -> tuple[list[Sent], list[Arrivals]]:  # fmt: skip
        """Deliver the messages and run every instance at one hop. Returns what is sent to the next hop."""
        following: list[Sent] = []
        after = [Arrivals() for _ in instances]
        entering = work.program.hops[hop].entering
        for message in messages:
            if message.store in entering:
                instances[message.instance].take("tuples", message.store, [message.batch], message.lines)
            else:
                instances[message.instance].pass_on(message.lines)
                following.append(message)

        def run(number: int) -> list[Sent]:
            sent = []
            for item in join_batch(work, number, instances[number], self.folder, self.segments, new_attempt(), hop):
                if isinstance(item, Sent):
                    sent.append(item)
                elif isinstance(item, Note):
                    after[number].take_note(item)
                else:
                    take(item)
            return sent

        order = work.instance_of if threads > 1 else range(len(instances))  # the longest first
        for sent in _each(run, order, threads):
            following += sent
        return following, after


def _dispatched(work: Work, watermark: int | None, feed: Feed) -> _Fed:
    dispatcher, tuples, late = Dispatcher(work, watermark), [], []
    for rows in feed.rows:
        sent = dispatcher.dispatch(feed.side, rows)
        tuples += [Sent(instance, feed.side, piece, lines) for instance, piece, lines in sent.pieces]
        if sent.late is not None:
            instance, piece, lines = sent.late
            late.append(Sent(instance, feed.side, piece, lines))
    return _Fed(tuples, late, dispatcher.note)


def _each(function: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """The function of each item, in their order. The first error is raised after those under way have ended."""
    if min(threads, len(items)) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(threads, len(items)), "evenjoin") as pool:
        futures = [pool.submit(function, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise


def _rows(data: Any, schema: pa.Schema, columns: Sequence[str], alias: str) -> pa.RecordBatch:
    """The columns that the join reads, as one batch of the declared types. SpecError if the data does not fit."""
    wanted = pa.schema([schema.field(name) for name in columns])
    if data is None:
        return pa.RecordBatch.from_pylist([], wanted)
    if not isinstance(data, (pa.Table, pa.RecordBatch)):
        raise SpecError(f"side {alias!r}: a pyarrow Table or RecordBatch is needed, not {type(data).__name__}")
    table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
    for name in columns:
        found = table.schema.get_all_field_indices(name)
        if len(found) != 1:
            problem = f"is there {len(found)} times" if found else "is missing from the data"
            raise SpecError(f"side {alias!r}: column {name!r} {problem}")
        got, asked = table.schema.field(found[0]).type, wanted.field(name).type
        if _is_text(got) != _is_text(asked) and got != pa.null():
            raise SpecError(f"side {alias!r}: column {name!r} is {got}, the declared schema has {asked}")
    try:
        table = table.select(list(columns)).cast(wanted).combine_chunks()
    except (ValueError, TypeError, NotImplementedError) as error:  # Arrow's own errors among them
        raise SpecError(f"side {alias!r}: the data does not fit the declared schema: {error}") from error
    batches = table.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], wanted)


def _is_text(type_: pa.DataType) -> bool:
    """Whether a type is text. Text is never taken for a number or the other way round, although Arrow would cast it."""
    type_ = type_.value_type if pa.types.is_dictionary(type_) else type_
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))
