"""The tasks of a batch on executors: what Python workers run, a partition at a time, as functions for `mapInArrow`.

    dispatch_partition   rows of any side -> packed rows, one for each destination
    dispatch_files       the same for a task that reads files itself
    hop_partition        packed rows for one instance -> its results and what it sends on, as packed rows
    join_partition       packed rows for one instance -> its results
    migrate_partition    one donor's part of a migration

Invariant: a worker imports this module and what it needs, no more: neither the driver nor the parser of conditions.
Each execution of a task gives the files that it writes (segments, receipt) a name of its own, so retried and
speculative tasks do no harm.
Not here: how tasks become a job (batch.py), and what is done to the rows (runtime/dispatch.py, instance/batch.py).
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from evenjoin.errors import EvaluationError
from evenjoin.instance.batch import Arrivals, join_batch, new_attempt
from evenjoin.instance.deliver import Sent
from evenjoin.instance.migrate import Moving, migrate_instance
from evenjoin.instance.work import Work
from evenjoin.load.intake import Note
from evenjoin.runtime.dispatch import Dispatcher
from evenjoin.runtime.spark.division import Task
from evenjoin.runtime.spark.wire import NOTE, RESULTS, Packed, Slots, by_side, pack, packed_rows, unpack
from evenjoin.state.files import Folder
from evenjoin.state.segment import Segments

FLUSH_ROWS, FLUSH_BYTES = 1 << 20, 256 << 20
"""A dispatch task sends the rows of a side that it holds whenever they are so many, or so large: what it sends at once
must fit into one Arrow array of 2^31 bytes."""


def dispatch_partition(
    work: Work, watermark: int | None, slots: Slots, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """First stage: rows of any side -> packed rows, one for each destination and flush. The last row is the note."""
    rows = (
        (side, part)
        for batch in batches
        for side, some in by_side(batch, len(work.spec.sides))
        for part in slots.unpack(side, some, work.spec.sides[side].schema)
    )
    yield from _dispatched(work, watermark, rows)


def dispatch_files(
    work: Work, watermark: int | None, slots: Slots, tasks: Sequence[Task], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """First stage where all sides are files: the rows of the task's pieces -> packed rows. What Spark hands in is
    empty of meaning."""
    for _ in batches:
        pass
    rows = (
        (side, part)
        for side, piece in tasks[_partition()]
        for part in slots.read(side, [piece], work.spec.sides[side].schema)
    )
    yield from _dispatched(work, watermark, rows)


def _dispatched(
    work: Work, watermark: int | None, rows: Iterator[tuple[int, pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    dispatcher, tasks = Dispatcher(work, watermark), work.task_of
    held: list[list[pa.RecordBatch]] = [[] for _ in work.spec.sides]
    for side, whole in rows:
        for part in _cut(whole):
            held[side].append(part)
            if sum(b.num_rows for b in held[side]) >= FLUSH_ROWS or sum(b.nbytes for b in held[side]) >= FLUSH_BYTES:
                yield from _flush(dispatcher, side, held, tasks)
    for side in range(len(held)):
        yield from _flush(dispatcher, side, held, tasks)
    settle()
    note = pa.py_buffer(dispatcher.note.to_bytes())
    yield packed_rows([(_partition() % work.table.instances, NOTE, 0, note)])  # any task will do


def _cut(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows in parts of about FLUSH_BYTES at most; as a rule all of them."""
    step = -(-rows.num_rows // (1 + rows.nbytes // FLUSH_BYTES)) or 1
    return (rows.slice(start, step) for start in range(0, rows.num_rows, step))


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
        rows: list[Packed] = [(tasks[instance], 2 * side, lines, pack(piece)) for instance, piece, lines in sent.pieces]
        if sent.late is not None:
            instance, piece, lines = sent.late
            rows.append((tasks[instance], 2 * side + 1, lines, pack(piece)))
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
            yield packed_rows([(tasks[item.instance], 2 * item.store, item.lines, pack(item.batch))])
        elif isinstance(item, Note):
            yield packed_rows([(task, NOTE, 0, pa.py_buffer(item.to_bytes()))])
        else:
            yield packed_rows([(task, RESULTS, 0, pack(item))])
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
