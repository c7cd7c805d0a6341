"""The embedded engine: the same specs, tables, instances, state and commits in this process, without Spark.

One call of `process` is one micro-batch. Its instances run one after the other.

Guarantee: batches are numbered, and a batch that was committed is not joined again. State lives in memory, or in the
folder `checkpoint=`, from which a new object goes on where the last one stopped.
Not here: reading streams. The caller brings the rows of each batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from evenjoin.commit.outputs import Output
from evenjoin.errors import SpecError
from evenjoin.events import Migration, Progress
from evenjoin.instance.late import late_rows
from evenjoin.instance.migrate import Migrated
from evenjoin.instance.work import Work
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import RoutingTable
from evenjoin.runtime.driver import Driver
from evenjoin.runtime.process import Feed, Process
from evenjoin.runtime.settings import Settings, check_apart
from evenjoin.spec import JoinSpec
from evenjoin.state.files import Folder, MemoryFolder, open_folder

LateOutput = Callable[[pa.Table, str, int], None]
"""Called with (late rows, alias, batch number)."""
Sink = Callable[[pa.Table, int], None]
"""Called with (results, batch number)."""


class LocalJoin:
    """A running join. Made by `evenjoin.local`."""

    def __init__(
        self,
        spec: JoinSpec,
        settings: Settings,
        checkpoint: str | os.PathLike[str] | Folder | None,
        late: LateOutput | str | os.PathLike[str] | None,
    ) -> None:
        folder: Folder = MemoryFolder() if checkpoint is None else open_folder(checkpoint)
        check_apart("late", late, folder)
        self._driver = Driver(spec, settings, folder)
        self._late: LateOutput | Output | None = late if late is None or callable(late) else self._output(late)
        self._spec = spec
        self.schema = spec.schema
        self._read = [spec.read_columns(side) for side in range(len(spec.sides))]
        self._process = Process(folder)

    def process(
        self, data: Mapping[str, pa.Table | pa.RecordBatch], *, batch: int | None = None, sink: Sink | None = None
    ) -> pa.Table:
        """Join one micro-batch: rows by alias (a side may be missing). Returns the new results.

        For exactly-once output over crashes number the batches and give a `sink`. It is called with (results, batch)
        before the batch is committed. After a crash it may be called again with the same number, so it should replace
        what it wrote for that number. A batch that was committed is not joined again: its results are not returned. So
        results that are written only after `process` has returned are lost if the process dies in between.
        """
        aliases = [side.alias for side in self._spec.sides]
        if not isinstance(data, Mapping):
            raise SpecError(f"rows by alias are needed, such as {{{aliases[0]!r}: table}}, not {type(data).__name__}")
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


def migrations(driver: Driver) -> list[Migration]:
    return driver.log.migrations(driver.last)


def progress(driver: Driver) -> Progress | None:
    last = driver.last
    if last is None or last.report is None:
        return None
    instances, sides = last.report.instances, range(len(last.report.intake))
    packs = [pack for load in instances for pack in load.packs]
    return Progress(
        last.batch,
        last.watermark.value,
        results=last.report.matches,
        late=tuple(intake.late for intake in last.report.intake),
        imbalance=round(last.report.imbalance, 3),
        stored=tuple(sum(load.stored[s] for load in last.report.instances) for s in range(len(last.report.intake))),
        duration_ms=last.duration_ms,
        total=last.totals,
        ahead=tuple(intake.ahead for intake in last.report.intake),
        messages=tuple(sum(load.messages[side] for load in instances) for side in sides),
        sent_bytes=tuple(sum(load.sent_bytes[side] for load in instances) for side in sides),
        packs=(
            sum(pack.made for pack in packs),
            sum(pack.pairs for pack in packs),
            sum(pack.alive for pack in packs),
            sum(pack.alive_pairs for pack in packs),
        ),
        packs_sent=sum(pack.sent for pack in packs),
        hubs=sum(load.hubs for load in instances),
        members=sum(load.members for load in instances),
        waited_ms=max(load.waited_ms for load in instances),
    )
