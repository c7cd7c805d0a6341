"""One micro-batch on Spark: dispatch -> shuffle -> join, as one job of two stages; or in the driver (where.py).

    union of the sides --mapInArrow--> packed rows --repartitionById--> a partition per instance --mapInArrow--> results

A program with a second hop has a third stage: what the second one yields are packed rows again. What the engine emits
may still have to be filtered or projected by Spark (`Results`); that is part of the last stage.

Invariant: partition p of each later stage is the task number p of the work, whose instance `Work.order` names: Spark
starts partitions by their number, and the heaviest instance should start first. Each execution of a task gives the
files that it writes (segments, receipt) a name of its own, so retried and speculative tasks do no harm.
Not here: what is done to the rows (runtime/dispatch.py, instance/batch.py), and when a batch is final (driver.py).
"""

from __future__ import annotations

import gc
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from evenjoin.errors import EvaluationError
from evenjoin.instance.batch import Arrivals, join_batch, new_attempt
from evenjoin.instance.deliver import Sent
from evenjoin.instance.late import late_rows
from evenjoin.instance.migrate import Migrated, Moving, migrate_instance
from evenjoin.instance.work import Work
from evenjoin.load.intake import Note
from evenjoin.placement.table import RoutingTable
from evenjoin.runtime.dispatch import Dispatcher
from evenjoin.runtime.driver import Elsewhere
from evenjoin.runtime.spark.in_driver import Held, InDriver
from evenjoin.runtime.spark.offsets import Offsets
from evenjoin.runtime.spark.session import prepare_batch
from evenjoin.runtime.spark.where import Choice, Place, Where
from evenjoin.runtime.spark.wire import NOTE, PACKED, RESULTS, Packed, Slots, by_side, pack, packed_rows, unpack
from evenjoin.state.files import Folder
from evenjoin.state.manifest import Manifest
from evenjoin.state.segment import Segments

if TYPE_CHECKING:
    from evenjoin.runtime.spark.conditions.outputs import Finish

log = logging.getLogger("evenjoin")
FLUSH_ROWS = 1 << 20
"""A dispatch task sends the rows of a side that it holds whenever they are this many."""

INDETERMINATE = "indeterminate"
"""The word in Spark's error when a task that ran again gave other rows than before, and Spark gave the job up."""

Sink = Callable[[DataFrame, int], None]
"""Called with (results, batch). One with a true attribute `drops` does nothing with them."""
LateSink = Callable[[pa.Table, int, int], None]
"""Called with (late rows, side, batch)."""


@dataclass(frozen=True, slots=True)
class Results:
    """What the engine emits, and what Spark does with it before it reaches the sink."""

    schema: StructType
    finish: Finish | None

    def finished(self, frame: DataFrame) -> DataFrame:
        return frame if self.finish is None else self.finish.apply(frame)


@dataclass(frozen=True, slots=True)
class Ways:
    """What all batches of a query have in common: where rows come from, where results and late rows go, and where
    batches run. `replaceable`: the sink replaces what it has of a batch when it is called with it again."""

    slots: Slots
    results: Results
    offsets: Offsets
    sink: Sink
    late: LateSink
    replaceable: bool
    where: Where
    inside: InDriver


class SparkBatch:
    """The runtime of one batch (see `Runtime` in runtime/driver.py)."""

    def __init__(self, frame: DataFrame, ways: Ways, manifest: Manifest) -> None:
        self._frame, self._ways, self._manifest = frame, ways, manifest
        self._folder = ways.offsets.folder
        self.replaceable = ways.replaceable
        self.choice: Choice | None = None

    def execute(self, work: Work, watermark: int | None) -> None:
        if self._place(work.batch) == "driver":
            self._execute_here(work, watermark)
            return
        try:
            self._ways.sink(self._ways.results.finished(self._joined(work, watermark, None)), work.batch)
        except Exception as error:
            if INDETERMINATE not in str(error).lower():
                raise
            raise EvaluationError(
                f"batch {work.batch} was not committed: Spark lost rows on their way and made others in their place. "
                "Make the query above the join give the same rows each time it is read, or call df.persist() "
                "first in your function"
            ) from error

    def complete(self, work: Work, watermark: int | None, missing: Sequence[int]) -> None:
        self._joined(work, watermark, frozenset(missing)).write.format("noop").mode("overwrite").save()

    def migrate(self, work: Work, new: RoutingTable) -> list[Migrated]:
        if self._place(work.batch) == "driver":
            return self._ways.inside.process.migrate(work, new)
        moving = Moving.to(new, work)
        donors = moving.donors
        if not donors:
            return moving.completed([])
        rows = self._frame.sparkSession.range(0, len(donors), 1, len(donors)).mapInArrow(
            partial(migrate_partition, moving, donors, self._folder), "r string"
        )
        return moving.completed(Migrated.from_json(json.loads(row.r)) for row in rows.collect())

    def _place(self, batch: int) -> Place:
        """Where this batch runs. It is chosen when somebody first asks."""
        if self.choice is None:
            try:
                self.choice = self._ways.where.choose(self._manifest, partial(self._ways.inside.known, batch))
            except Elsewhere as why:
                self.choice = Choice("executors", str(why))
        return self.choice.place

    def _execute_here(self, work: Work, watermark: int | None) -> None:
        """Join the batch in this process, and hand its results to the sink. Elsewhere if it is too large for that."""
        held, ways = Held(), self._ways
        drops = getattr(ways.sink, "drops", False)
        try:
            ways.inside.join(self._frame, work, watermark, ways.where.most, _drop if drops else held)
        except Elsewhere as why:
            self.choice = Choice("executors", str(why))
            log.info("batch %d runs on the executors, not in the driver: %s", work.batch, why)
            raise
        if drops:
            return
        empty = pa.RecordBatch.from_pylist([], work.spec.schema)  # Spark takes no table without a batch
        table = pa.Table.from_batches(held.batches or [empty], work.spec.schema)
        frame = self._frame.sparkSession.createDataFrame(table, ways.results.schema)
        ways.sink(ways.results.finished(frame), work.batch)

    def late(self, files: Sequence[str], batch: int) -> None:
        for side, rows in late_rows(self._folder, files):
            self._ways.late(rows, side, batch)

    def offsets(self, batch: int) -> str:
        return self._ways.offsets.digest(batch)

    def _joined(self, work: Work, watermark: int | None, only: frozenset[int] | None) -> DataFrame:
        prepare_batch(self._frame.sparkSession)
        packed = self._frame.mapInArrow(partial(dispatch_partition, work, watermark, self._ways.slots), PACKED)
        placed = packed.repartitionById(work.table.instances, "task")
        for hop in range(len(work.program.hops) - 1):
            packed = placed.mapInArrow(partial(hop_partition, work, self._folder, hop), PACKED)
            placed = packed.repartitionById(work.table.instances, "task")
        return placed.mapInArrow(partial(join_partition, work, self._folder, only), self._ways.results.schema)


def _drop(rows: pa.RecordBatch) -> None:
    """Does nothing with results."""


def dispatch_partition(
    work: Work, watermark: int | None, slots: Slots, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """First stage: rows of any side -> packed rows, one for each destination and flush. The last row is the note."""
    dispatcher, tasks = Dispatcher(work, watermark), work.task_of
    held: list[list[pa.RecordBatch]] = [[] for _ in work.spec.sides]
    for batch in batches:
        for side, rows in by_side(batch, len(held)):
            for part in slots.unpack(side, rows, work.spec.sides[side].schema):
                held[side].append(part)
                if sum(b.num_rows for b in held[side]) >= FLUSH_ROWS:
                    yield from _flush(dispatcher, side, held, tasks)
    for side in range(len(held)):
        yield from _flush(dispatcher, side, held, tasks)
    settle()
    note = pa.py_buffer(dispatcher.note.to_bytes())
    yield packed_rows([(_partition() % work.table.instances, NOTE, 0, note)])  # any task will do


def _flush(
    dispatcher: Dispatcher, side: int, held: list[list[pa.RecordBatch]], tasks: Mapping[int, int]
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Send the rows of a side that are held. `tasks` has the number of each instance's task."""
    if not held[side]:
        return
    table = pa.Table.from_batches(held[side]).combine_chunks()
    held[side] = []
    for batch in table.to_batches():
        sent = dispatcher.dispatch(side, batch)
        rows: list[Packed] = [
            (tasks[instance], 2 * side, lines, pack([piece])) for instance, piece, lines in sent.pieces
        ]
        if sent.late is not None:
            instance, piece, lines = sent.late
            rows.append((tasks[instance], 2 * side + 1, lines, pack([piece])))
        if rows:
            yield packed_rows(rows)


def join_partition(
    work: Work, folder: Folder, only: frozenset[int] | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Last stage: all packed rows for one instance -> its results. `only` names the instances to run; None: all."""
    task, hop = _partition(), len(work.program.hops) - 1
    instance, arrivals = work.instance_of[task], Arrivals()
    for kind, line, blob in _packed(task, batches):
        if kind == RESULTS:
            yield from unpack(blob)
        else:
            _take(arrivals, kind, line, blob)
    if only is not None and instance not in only:
        return
    yield from join_batch(work, instance, arrivals, folder, _segments(folder, work), new_attempt(), hop)
    settle()


def hop_partition(
    work: Work, folder: Folder, hop: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """A stage before the last: all packed rows for one instance -> its results and what it sends on, as packed rows.

    Rows of sides that enter later go on as they are. Packed rows are taken in the order of their sums, because a
    shuffle brings them in any order: so the task sends the same when it runs again.
    """
    task, tasks = _partition(), work.task_of
    instance, arrivals, entering = work.instance_of[task], Arrivals(), work.program.hops[hop].entering
    for kind, line, blob in sorted(_packed(task, batches), key=lambda row: row[:2]):
        if kind >= 0 and kind % 2 == 0 and kind // 2 not in entering:
            arrivals.pass_on(line)
            yield packed_rows([(task, kind, line % 2**64, blob.as_buffer())])
        else:
            _take(arrivals, kind, line, blob)
    for item in join_batch(work, instance, arrivals, folder, _segments(folder, work), new_attempt(), hop):
        if isinstance(item, Sent):
            yield packed_rows([(tasks[item.instance], 2 * item.store, item.lines, pack([item.batch]))])
        elif isinstance(item, Note):
            yield packed_rows([(task, NOTE, 0, pa.py_buffer(item.to_bytes()))])
        else:
            yield packed_rows([(task, RESULTS, 0, pack([item]))])
    settle()


def _packed(task: int, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, int, pa.Scalar]]:
    """The packed rows for a task, as (kind, sum of lines, blob)."""
    for batch in batches:
        wheres, kinds, lines = (batch.column(name).to_pylist() for name in ("task", "kind", "lines"))
        for where, kind, line, blob in zip(wheres, kinds, lines, batch.column("blob"), strict=True):
            if where != task:
                raise EvaluationError(f"rows for task {where} came to task {task}")
            yield kind, line, blob


def _take(arrivals: Arrivals, kind: int, line: int, blob: pa.Scalar) -> None:
    if kind == NOTE:
        arrivals.take_note(Note.from_bytes(blob.as_py()))
    else:
        arrivals.take("late" if kind % 2 else "tuples", kind // 2, unpack(blob), line)


def migrate_partition(
    moving: Moving, donors: Sequence[int], folder: Folder, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """One donor's part of a migration. The one row that it yields says what it did, as JSON."""
    for _ in batches:
        pass
    segments = _segments(folder, moving.work)
    done = migrate_instance(moving, donors[_partition()], folder, segments, new_attempt())
    yield pa.RecordBatch.from_arrays([pa.array([json.dumps(done.to_json())])], names=["r"])


_SETTLED: list[bool] = []


def settle() -> None:
    """Exempt what this worker process has imported from later garbage collections. Done once per process.

    PySpark's worker collects garbage after every task. To walk all imported modules takes some 30 ms, which is longer
    than a small task.
    """
    if not _SETTLED:
        _SETTLED.append(True)
        gc.freeze()


def _partition() -> int:
    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


_OPEN: dict[Any, Segments] = {}
OPEN_JOINS = 8
"""Of how many joins a worker process keeps files open: those that it has worked for last."""


def _segments(folder: Folder, work: Work) -> Segments:
    """The segments that this worker process has open. Its later tasks reuse them."""
    key = repr(folder), work.spec.canonical, work.table.program, *(schema.codec for schema in work.schemas)
    _OPEN[key] = _OPEN.pop(key) if key in _OPEN else Segments(folder)
    for oldest in [*_OPEN][:-OPEN_JOINS]:
        del _OPEN[oldest]
    return _OPEN[key]
