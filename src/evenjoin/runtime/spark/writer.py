"""`writeStream` of a join: DataStreamWriter's names, and `start`.

`start` takes the checkpoint, makes one streaming query of all sides, and hands each of its batches to the driver. A
checkpoint that is in use or belongs to another join is refused before the query starts.
Not here: where results go (sinks.py), and what happens to a batch (driver.py).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from evenjoin.commit.outputs import Output
from evenjoin.errors import CheckpointInUseError, EvenJoinError, SpecError
from evenjoin.runtime.driver import Driver
from evenjoin.runtime.local import Process
from evenjoin.runtime.settings import Settings, check_apart, machine_memory
from evenjoin.runtime.spark.batch import LateSink, Results, Sink, SparkBatch, Ways
from evenjoin.runtime.spark.in_driver import InDriver, hindrance
from evenjoin.runtime.spark.offsets import Offsets
from evenjoin.runtime.spark.prepare import Preparation, check_session
from evenjoin.runtime.spark.query import JoinQuery
from evenjoin.runtime.spark.session import advise, collectable, cores, on_one_machine
from evenjoin.runtime.spark.sinks import FILES, REPLACED, OfCheckpoint, make_files, make_sink
from evenjoin.runtime.spark.warming import warm
from evenjoin.runtime.spark.where import ON_CLUSTER, Where, on_local_master
from evenjoin.runtime.spark.wire import Slots, assign_slots, union
from evenjoin.spec import JoinSpec, parse_duration
from evenjoin.state.files import Folder, LocalFolder, open_folder
from evenjoin.state.manifest import Manifest

_RUNNING: dict[str, JoinQuery] = {}
"""The queries of this process by checkpoint. A new query takes the checkpoint over from one that has ended."""


class JoinStreamWriter:
    """Where and when results are written. Its methods are those of Spark's DataStreamWriter."""

    def __init__(
        self,
        ready: Preparation,
        settings: Settings,
        late: Any,
    ) -> None:
        self._ready, self._spec, self._frames = ready, ready.spec, list(ready.sides.values())
        self._settings, self._late = settings, late
        self._results = Results(ready.emitted, ready.finish, ready.schema)
        self._format = "parquet"
        self._options: dict[str, str] = {}
        self._name: str | None = None
        self._trigger: dict[str, Any] = {}
        self._partition_by: tuple[str, ...] = ()
        self._function: Sink | None = None

    def format(self, source: str) -> JoinStreamWriter:
        self._format = source.lower()
        return self

    def option(self, key: str, value: Any) -> JoinStreamWriter:
        self._options[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return self

    def options(self, **options: Any) -> JoinStreamWriter:
        for key, value in options.items():
            self.option(key, value)
        return self

    def outputMode(self, mode: str) -> JoinStreamWriter:
        if mode.lower() != "append":
            raise SpecError(f"outputMode({mode!r}): a stream join appends; use 'append'")
        return self

    def queryName(self, name: str) -> JoinStreamWriter:
        self._name = name
        return self

    def trigger(self, **trigger: Any) -> JoinStreamWriter:
        """processingTime="10 seconds", availableNow=True or once=True."""
        if "continuous" in trigger or "realTime" in trigger:
            raise SpecError("a join runs in micro-batches: use processingTime= or availableNow=")
        self._trigger = trigger
        return self

    def partitionBy(self, *columns: str) -> JoinStreamWriter:
        self._partition_by = columns
        return self

    def foreachBatch(self, function: Callable[[DataFrame, int], None]) -> JoinStreamWriter:
        """Call the function with (results, batch id) for each batch. A replayed batch calls it again with the same
        id."""
        self._function = function
        return self

    def start(self, path: str | None = None, **options: Any) -> JoinQuery:
        """Start the query. The checkpoint is option("checkpointLocation")."""
        self.options(**options)
        if path is not None:
            self.option("path", path)
        spark = self._frames[0].sparkSession
        check_session(self._ready)
        sink = self._sink(spark)
        checkpoint = self._checkpoint()
        check_apart("late", self._late, open_folder(checkpoint))
        check_apart("path", self._options.get("path"), open_folder(checkpoint))
        driver = _take(checkpoint, self._spec, replace(self._settings, interval_ms=_interval_ms(self._trigger)))
        try:
            advise(spark)
            slots = assign_slots(self._frames, [self._spec.read_columns(side) for side in range(len(self._frames))])
            replaceable = self._function is None and self._format in REPLACED
            offsets, where = Offsets(driver.folder), self._where(spark, driver, slots)
            inside = InDriver(Process(driver.folder, _threads(spark)), self._spec, slots, offsets)
            late = self._late_sink(driver)
            ways = Ways(slots, self._results, offsets, sink(driver), late, replaceable, where, inside)
            batches = _Batches(driver, ways)
            writer = union(self._frames, slots).writeStream.foreachBatch(batches)
            writer = writer.option("checkpointLocation", f"{_located(driver.folder, checkpoint)}/spark")
            if self._name is not None:
                writer = writer.queryName(self._name)
            if self._trigger:
                writer = writer.trigger(**self._trigger)
            if where.begins_on_executors:
                warm(spark, cores(spark) or 1)
            query = JoinQuery(writer.start(), driver, batches)
        except BaseException:
            driver.close()
            raise
        _RUNNING[checkpoint] = query
        return query

    def _where(self, spark: SparkSession, driver: Driver, slots: Slots) -> Where:
        """Who chooses the place of each batch."""
        limits = on_local_master(machine_memory()) if on_one_machine(spark) else ON_CLUSTER
        types = [*slots.types.values(), self._ready.emitted]
        where = Where(self._settings.execution, limits, hindrance(types), collectable(spark))
        where.remember(driver.last)
        return where

    def _checkpoint(self) -> str:
        given = self._options.get("checkpointLocation")
        if given is not None:
            return given.rstrip("/")
        default = self._frames[0].sparkSession.conf.get("spark.sql.streaming.checkpointLocation", None)
        if default and self._name:
            return f"{default.rstrip('/')}/{self._name}"
        if self._function is None and self._format in ("memory", "console", "noop"):
            return tempfile.mkdtemp(prefix="evenjoin-")
        raise SpecError('no checkpoint: add .option("checkpointLocation", "...")')

    def _sink(self, spark: SparkSession) -> OfCheckpoint:
        function = self._function
        if function is not None:
            return lambda driver: function
        if self._format in FILES:
            return make_files(spark, self._format, self._options, self._partition_by, self._results)
        return make_sink(spark, self._format, self._options, self._name)

    def _late_sink(self, driver: Driver) -> LateSink:
        """Hands late rows to the user's function, or writes them under the user's path."""
        output = None
        if self._late is not None and not callable(self._late):
            output = Output(os.fspath(self._late), driver.identity.uuid, driver.folder)
            output.check()

        def deliver(rows: pa.Table, side: int, batch: int) -> None:
            alias = self._spec.sides[side].alias
            own = rows.drop_columns([name for name in self._ready.split.computed[alias] if name in rows.column_names])
            frame = self._frames[side].sparkSession.createDataFrame(own)
            if output is None:
                self._late(frame, alias, batch)
            else:
                output.claim()
                frame.write.mode("overwrite").parquet(f"{output.location}/{alias}/batch_id={batch}")

        return deliver


class _Batches:
    """The function that Spark calls for each batch. It remembers the engine's error, for the handle of the query."""

    def __init__(self, driver: Driver, ways: Ways) -> None:
        self._driver, self._ways = driver, ways
        self.error: EvenJoinError | None = None

    @property
    def where(self) -> Where:
        return self._ways.where

    def __call__(self, frame: DataFrame, batch: int) -> None:
        last = self._driver.last
        try:
            runtime = SparkBatch(frame, self._ways, last.manifest if last else Manifest())
            commit = self._driver.run(batch, runtime)
            if runtime.choice is not None:
                self.where.ran(runtime.choice, commit)
        except EvenJoinError as error:
            self.error = error
            raise


def _located(folder: Folder, checkpoint: str) -> str:
    """The checkpoint as Spark has to be told, so that its part lies beside ours: a path without a scheme is on this
    machine's disks, whatever Spark's default file system is."""
    return f"file:{folder.root}" if isinstance(folder, LocalFolder) else checkpoint


def _interval_ms(trigger: dict[str, Any]) -> float:
    """The interval of a trigger in milliseconds; 0 if it has none, or one that only Spark understands."""
    with suppress(SpecError):
        return parse_duration(trigger.get("processingTime") or 0, "timestamp") / 1000
    return 0.0


def _threads(spark: SparkSession) -> int:
    """How many threads a batch in the driver may have: on a local master as many as Spark has, else one a core."""
    if on_one_machine(spark):
        return max(int(spark.sparkContext.defaultParallelism), 1)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def _take(checkpoint: str, spec: JoinSpec, settings: Settings) -> Driver:
    """A driver for the checkpoint. If an ended query of this process still holds the checkpoint, it is released
    first."""
    old = _RUNNING.get(checkpoint)
    if old is not None:
        if old.isActive:
            raise CheckpointInUseError(f"checkpoint {checkpoint} is in use by running query {old.id}; stop it first")
        old.release()
    return Driver(spec, settings, open_folder(checkpoint))
