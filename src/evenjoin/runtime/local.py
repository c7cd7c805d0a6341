"""The embedded engine: the same specs, tables, instances, state and commits in this process, without Spark.

One call of `process` is one micro-batch. State lives in memory, or in a folder with `checkpoint=`, from which a new
object goes on where the last one stopped: batches are numbered, and a batch that was committed is not joined again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from evenjoin.errors import SpecError
from evenjoin.instance.emit import output_schema
from evenjoin.instance.late import late_rows
from evenjoin.instance.migrate import Migrated, migrate_instance
from evenjoin.instance.two_way import Arrivals, Work, join_batch
from evenjoin.load.receipt import Intake
from evenjoin.load.report import LoadReport
from evenjoin.placement.table import RoutingTable
from evenjoin.runtime.dispatch import Dispatcher, stream_of
from evenjoin.runtime.driver import Driver, Settings
from evenjoin.spec import JoinSpec
from evenjoin.state.files import Folder, MemoryFolder, open_folder
from evenjoin.state.layout import layouts
from evenjoin.state.segment import Segments

LateOutput = Callable[[pa.Table, str, int], None]
"""Called with (late rows, alias, batch number)."""
Sink = Callable[[pa.Table, int], None]
"""Called with (results, batch number)."""


class LocalJoin:
    """A running join. See `evenjoin.local`."""

    def __init__(
        self,
        spec: JoinSpec,
        settings: Settings,
        checkpoint: str | os.PathLike[str] | Folder | None,
        late: LateOutput | str | os.PathLike[str] | None,
    ) -> None:
        folder: Folder = MemoryFolder() if checkpoint is None else open_folder(checkpoint)
        self._driver = Driver(spec, settings, folder)
        self._late = late
        self._spec = spec
        self.schema = output_schema(spec)
        self._segments = Segments(folder, layouts(spec))

    def process(
        self, data: Mapping[str, pa.Table | pa.RecordBatch], *, batch: int | None = None, sink: Sink | None = None
    ) -> pa.Table:
        """Join one micro-batch: rows by alias (a side may be missing). Returns the new results.

        For exactly-once output over crashes number the batches and give a `sink`: it is called with (results,
        batch) before the batch is committed, and a batch that was committed is not joined again.
        """
        aliases = [side.alias for side in self._spec.sides]
        if not isinstance(data, Mapping):
            raise SpecError(f"rows by alias are needed, such as {{{aliases[0]!r}: table}}, not {type(data).__name__}")
        unknown = set(data) - set(aliases)
        if unknown:
            raise SpecError(f"unknown alias {sorted(unknown)[0]!r}; the join has {', '.join(aliases)}")
        sides = [
            _rows(data.get(side.alias), side.schema, self._spec.read_columns(number), side.alias)
            for number, side in enumerate(self._spec.sides)
        ]
        run = _Batch(self._driver.folder, self._segments, sides, self, sink)
        self._driver.run(self.batch if batch is None else batch, run)
        return run.results or self.schema.empty_table()

    @property
    def batch(self) -> int:
        """Number of the next micro-batch."""
        return 0 if self._driver.last is None else self._driver.last.batch + 1

    def finish(self) -> pa.Table:
        """The input is over: what is still open is decided. An inner join has nothing left to say."""
        self.close()
        return self.schema.empty_table()

    def load(self) -> LoadReport | None:
        """The load of every instance in the last batch."""
        return self._driver.last.report if self._driver.last else None

    def table(self) -> RoutingTable:
        """The routing table in force for the next batch."""
        return self._driver.next_table()

    def migrations(self) -> list[dict[str, Any]]:
        """Every migration so far, oldest first."""
        return migrations(self._driver)

    def progress(self) -> dict[str, Any]:
        """Counters of the last batch and in total."""
        return progress(self._driver)

    def deliver_late(self, rows: pa.Table, side: int, batch: int) -> None:
        """Late rows to where `late=` says."""
        alias = self._spec.sides[side].alias
        if callable(self._late):
            self._late(rows, alias, batch)
        elif self._late is not None:
            folder = Path(self._late) / alias
            folder.mkdir(parents=True, exist_ok=True)
            parquet.write_table(rows, folder / f"{batch}.parquet")

    def close(self) -> None:
        self._driver.close()

    def __enter__(self) -> LocalJoin:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Batch:
    """The runtime of one local batch: instances run one after the other."""

    def __init__(
        self, folder: Folder, segments: Segments, sides: Sequence[pa.RecordBatch], join: LocalJoin, sink: Sink | None
    ) -> None:
        self._folder, self._segments, self._sides = folder, segments, sides
        self._join, self._sink = join, sink
        self.results: pa.Table | None = None

    def execute(self, work: Work, watermark: int | None) -> None:
        instances = [Arrivals.empty(len(self._sides)) for _ in range(work.table.instances)]
        dispatcher = Dispatcher(work.spec, work.layouts, work.table, watermark, stream_of(work.batch, 0), work.sampling)
        intakes: list[Intake] = []
        for side, rows in enumerate(self._sides):
            sent = dispatcher.dispatch(side, rows)
            for instance, piece in sent.pieces:
                instances[instance].tuples[side].append(piece)
            if sent.late is not None:
                instances[0].late[side].append(sent.late)
            intakes.append(sent.intake)
        instances[0].intake.append(tuple(intakes))
        results: list[pa.RecordBatch] = []
        for number, arrivals in enumerate(instances):
            results += join_batch(work, number, arrivals, self._folder, self._segments)
        self.results = pa.Table.from_batches(results, self._join.schema)
        if self._sink is not None:
            self._sink(self.results, work.batch)

    def finish(self, work: Work, watermark: int | None, missing: Sequence[int]) -> None:
        raise AssertionError("every local instance runs in execute")

    def migrate(self, work: Work, new: RoutingTable) -> list[Migrated]:
        donors = range(work.table.instances)
        return [migrate_instance(work, new, donor, self._folder, self._segments) for donor in donors]

    def late(self, files: Sequence[str], batch: int) -> None:
        for side, rows in late_rows(self._folder, files):
            self._join.deliver_late(rows, side, batch)


def _rows(data: Any, schema: pa.Schema, columns: Sequence[str], alias: str) -> pa.RecordBatch:
    """The columns the join needs, as one batch of the declared types."""
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
    """Text is never taken for a number or the other way round, although Arrow would cast it."""
    type_ = type_.value_type if pa.types.is_dictionary(type_) else type_
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def migrations(driver: Driver) -> list[dict[str, Any]]:
    out = []
    for batch in driver.log.batches():
        commit = driver.log.read(batch)
        if commit.migration is not None:
            out.append({"batch": batch, **commit.migration})
    return out


def progress(driver: Driver) -> dict[str, Any]:
    last = driver.last
    if last is None or last.report is None:
        return {}
    return {
        "batch": last.batch,
        "watermark": last.watermark.value,
        "results": last.report.matches,
        "late": [intake.late for intake in last.report.intake],
        "imbalance": round(last.report.imbalance, 3),
        "stored": [sum(load.stored[s] for load in last.report.instances) for s in range(len(last.report.intake))],
        "duration_ms": last.duration_ms,
        "total": last.totals,
    }
