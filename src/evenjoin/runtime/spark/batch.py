"""One micro-batch on Spark: dispatch -> shuffle -> join, as one job of two stages; or in the driver (where.py).

    union of the sides --mapInArrow--> packed rows --repartitionById--> a partition per instance --mapInArrow--> results

Where all sides are parquet folders the first stage does not read the union: each of its tasks has pieces of files
(division.py), which the log of Spark's file sources names.

A program with a second hop has a third stage: what the second one yields are packed rows again. What the engine emits
may still have to be filtered or projected by Spark (`Results`); that is part of the last stage.

Invariant: partition p of each later stage is the task number p of the work, whose instance `Work.order` names: Spark
starts partitions by their number, and the heaviest instance should start first.
Not here: what each task does (tasks.py), and when a batch is final (driver.py).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from evenjoin.errors import EvaluationError
from evenjoin.instance.late import late_rows
from evenjoin.instance.migrate import Migrated, Moving
from evenjoin.instance.work import Work
from evenjoin.placement.table import RoutingTable
from evenjoin.runtime.driver import Elsewhere
from evenjoin.runtime.spark.conditions.outputs import Finish
from evenjoin.runtime.spark.in_driver import Held, InDriver, TooMuch, row_bytes
from evenjoin.runtime.spark.offsets import Offsets
from evenjoin.runtime.spark.session import cores, prepare_batch
from evenjoin.runtime.spark.tasks import (
    dispatch_files,
    dispatch_partition,
    hop_partition,
    join_partition,
    migrate_partition,
)
from evenjoin.runtime.spark.where import Choice, Place, Where
from evenjoin.runtime.spark.wire import PACKED, Slots
from evenjoin.state.manifest import Manifest

log = logging.getLogger("evenjoin")
INDETERMINATE = "indeterminate"
"""The word in Spark's error when a task that ran again gave other rows than before, and Spark gave the job up."""

Sink = Callable[[DataFrame, int], None]
"""Called with (results, batch). One with a true attribute `drops` does nothing with them."""
LateSink = Callable[[pa.Table, int, int], None]
"""Called with (late rows, side, batch)."""


@dataclass(frozen=True, slots=True)
class Results:
    """What the engine emits, what Spark does with it before it reaches the sink (None: nothing), and the schema that
    it has then."""

    schema: StructType
    finish: Finish | None
    finished_schema: StructType

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
                where, inside = self._ways.where, self._ways.inside
                self.choice = where.choose(self._manifest, partial(inside.known, batch, where.limits.bytes))
            except Elsewhere as why:
                self.choice = Choice("executors", str(why))
        return self.choice.place

    def _execute_here(self, work: Work, watermark: int | None) -> None:
        """Join the batch in this process, and hand its results to the sink, unless instances write them or nobody wants
        them. Elsewhere if it is too large for that."""
        held, ways = Held(), self._ways
        drops = work.results is not None or getattr(ways.sink, "drops", False)
        try:
            most = ways.where.most(row_bytes([*ways.slots.types.values()]))
            ways.inside.join(self._frame, work, watermark, most, _drop if drops else held)
        except Elsewhere as why:
            self.choice = Choice("executors", str(why))
            log.info("batch %d runs on the executors, not in the driver: %s", work.batch, why)
            if isinstance(why, TooMuch):
                ways.where.gave_up(why.results)
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
        packed = self._dispatched(work, watermark)
        placed = packed.repartitionById(work.table.instances, "task")
        for hop in range(len(work.program.hops) - 1):
            packed = placed.mapInArrow(partial(hop_partition, work, self._folder, hop), PACKED)
            placed = packed.repartitionById(work.table.instances, "task")
        return placed.mapInArrow(partial(join_partition, work, self._folder, only), self._ways.results.schema)

    def _dispatched(self, work: Work, watermark: int | None) -> DataFrame:
        """The first stage."""
        slots, spark = self._ways.slots, self._frame.sparkSession
        tasks = self._ways.inside.tasks(work.batch, cores(spark) or work.table.instances)
        if not tasks:  # rows of Spark's, a file that is gone, or no files at all
            return self._frame.mapInArrow(partial(dispatch_partition, work, watermark, slots), PACKED)
        numbers = spark.range(0, len(tasks), 1, len(tasks))
        return numbers.mapInArrow(partial(dispatch_files, work, watermark, slots, tasks), PACKED)


def _drop(rows: pa.RecordBatch) -> None:
    """Does nothing with results."""
