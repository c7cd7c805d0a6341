"""One micro-batch on Spark: dispatch -> shuffle -> join, as one job of two stages.

    union of the sides --mapInArrow--> packed rows --repartitionById--> a partition per instance --mapInArrow--> results

Invariant: partition p of the second stage is instance p of the table. What a task writes (segments, receipt) carries
a name of its own, so retried and speculative tasks do no harm.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from evenjoin.instance.late import late_rows
from evenjoin.instance.migrate import Migrated, migrate_instance
from evenjoin.instance.two_way import Arrivals, Work, join_batch
from evenjoin.load.receipt import Intake
from evenjoin.placement.table import RoutingTable
from evenjoin.runtime.dispatch import Dispatcher, stream_of
from evenjoin.runtime.spark.session import prepare_batch
from evenjoin.runtime.spark.wire import INTAKE, PACKED, SIDE, Slots, pack, packed_rows, unpack
from evenjoin.state.files import Folder
from evenjoin.state.segment import Segments

FLUSH_ROWS = 1 << 20
"""A dispatch task sends what it has whenever it holds this many rows."""

Sink = Callable[[DataFrame, int], None]
LateSink = Callable[[pa.Table, int, int], None]
"""Called with (late rows, side, batch)."""


class SparkBatch:
    """The runtime of one batch (see runtime/driver.py)."""

    def __init__(
        self, frame: DataFrame, slots: Slots, schema: StructType, folder: Folder, sink: Sink, late: LateSink
    ) -> None:
        self._frame, self._slots, self._schema = frame, slots, schema
        self._folder, self._sink, self._late = folder, sink, late
        prepare_batch(frame.sparkSession)

    def execute(self, work: Work, watermark: int | None) -> None:
        self._sink(self._joined(work, watermark, None), work.batch)

    def finish(self, work: Work, watermark: int | None, missing: Sequence[int]) -> None:
        self._joined(work, watermark, frozenset(missing)).write.format("noop").mode("overwrite").save()

    def migrate(self, work: Work, new: RoutingTable) -> list[Migrated]:
        spark, donors = self._frame.sparkSession, work.table.instances
        rows = spark.range(0, donors, 1, donors).mapInArrow(
            partial(migrate_partition, work, new, self._folder), "r string"
        )
        return [Migrated.from_json(json.loads(row.r)) for row in rows.collect()]

    def late(self, files: Sequence[str], batch: int) -> None:
        for side, rows in late_rows(self._folder, files):
            self._late(rows, side, batch)

    def _joined(self, work: Work, watermark: int | None, only: frozenset[int] | None) -> DataFrame:
        packed = self._frame.mapInArrow(partial(dispatch_partition, work, watermark, self._slots), PACKED)
        placed = packed.repartitionById(work.table.instances, "instance")
        return placed.mapInArrow(partial(join_partition, work, self._folder, only), self._schema)


def dispatch_partition(
    work: Work, watermark: int | None, slots: Slots, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """First stage: rows of any side -> packed rows, one per destination and flush, and the intake at the end."""
    task = _partition()
    dispatcher = Dispatcher(work.spec, work.layouts, work.table, watermark, stream_of(work.batch, task), work.sampling)
    intake = [Intake() for _ in work.layouts]
    held: list[list[pa.RecordBatch]] = [[] for _ in work.layouts]
    for batch in batches:
        for side, rows in _by_side(batch, len(work.layouts)):
            for part in slots.unpack(side, rows, work.spec.sides[side].schema):
                held[side].append(part)
                if sum(b.num_rows for b in held[side]) >= FLUSH_ROWS:
                    yield from _flush(dispatcher, side, held, intake)
    for side in range(len(held)):
        yield from _flush(dispatcher, side, held, intake)
    settle()
    note = json.dumps([asdict(i) for i in intake]).encode()
    yield packed_rows([(task % work.table.instances, INTAKE, pa.py_buffer(note))])


def _flush(
    dispatcher: Dispatcher, side: int, held: list[list[pa.RecordBatch]], intake: list[Intake]
) -> Iterator[pa.RecordBatch]:
    if not held[side]:
        return
    table = pa.Table.from_batches(held[side]).combine_chunks()
    held[side] = []
    for batch in table.to_batches():
        sent = dispatcher.dispatch(side, batch)
        intake[side] = intake[side] + sent.intake
        rows = [(instance, 2 * side, pack([piece])) for instance, piece in sent.pieces]
        if sent.late is not None:
            rows.append((0, 2 * side + 1, pack([sent.late])))
        if rows:
            yield packed_rows(rows)


def _by_side(batch: pa.RecordBatch, sides: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Split a batch of the union by side; as a rule a partition holds one side only."""
    numbers = batch.column(SIDE).to_numpy()
    if len(numbers) == 0:
        return
    if (numbers == numbers[0]).all():
        yield int(numbers[0]), batch
        return
    for side in range(sides):
        rows = batch.filter(pa.array(numbers == side))
        if rows.num_rows:
            yield side, rows


def join_partition(
    work: Work, folder: Folder, only: frozenset[int] | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Second stage: everything for one instance -> its results."""
    instance = _partition()
    arrivals = Arrivals.empty(len(work.layouts))
    for batch in batches:
        for kind, blob in zip(batch.column("kind").to_pylist(), batch.column("blob"), strict=True):
            if kind == INTAKE:
                arrivals.intake.append(tuple(Intake(**i) for i in json.loads(blob.as_py())))
            else:
                target = arrivals.late if kind % 2 else arrivals.tuples
                target[kind // 2].extend(unpack(blob))
    if only is not None and instance not in only:
        return
    yield from join_batch(work, instance, arrivals, folder, _segments(folder, work))
    settle()


def migrate_partition(
    work: Work, new: RoutingTable, folder: Folder, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """One donor's part of a migration; the row says what it did."""
    for _ in batches:
        pass
    done = migrate_instance(work, new, _partition(), folder, _segments(folder, work))
    yield pa.RecordBatch.from_arrays([pa.array([json.dumps(done.to_json())])], names=["r"])


_SETTLED: list[bool] = []


def settle() -> None:
    """Keep what this worker has imported out of later garbage collections, once.

    PySpark's worker collects garbage after every task; walking all imported modules takes it longer (some 30 ms) than
    a small task itself.
    """
    if not _SETTLED:
        _SETTLED.append(True)
        gc.freeze()


def _partition() -> int:
    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


_OPEN: dict[Any, Segments] = {}


def _segments(folder: Folder, work: Work) -> Segments:
    """The segments this worker process has open, reused by its later tasks."""
    key = repr(folder), work.spec.canonical
    if key not in _OPEN:
        _OPEN[key] = Segments(folder, work.layouts)
    return _OPEN[key]
