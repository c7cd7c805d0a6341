"""`evenjoin.join`: streaming DataFrames and a condition -> a join that can be written somewhere.

Guarantee: a join that cannot run is refused here with an error. Nothing is read or written until
`writeStream...start()` (writer.py). Only Python workers are started before, where the first batch may need them
(warming.py): Spark's analyser leaves the other cores idle meanwhile.
Not here: what the condition means (spec/), and what the settings must be (runtime/settings.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from evenjoin.errors import SpecError
from evenjoin.placement.table import Layout
from evenjoin.runtime.arguments import named_arguments
from evenjoin.runtime.settings import (
    DEFAULT_INSTANCES,
    MERGE_BUDGET,
    PAIR_LIMIT,
    Asked,
    Durability,
    Execution,
    Guards,
    Hooks,
    Settings,
    late_policy,
    read_settings,
)
from evenjoin.runtime.spark.conditions.outputs import Select
from evenjoin.runtime.spark.files import ParquetFiles
from evenjoin.runtime.spark.prepare import Preparation, SparkSide, prepare
from evenjoin.runtime.spark.session import cores, on_one_machine
from evenjoin.runtime.spark.warming import warm
from evenjoin.runtime.spark.writer import JoinStreamWriter
from evenjoin.spec import Window
from evenjoin.spec.scope import check_named
from evenjoin.spec.window import Duration
from evenjoin.strategies.base import Strategy
from evenjoin.strategies.elastic import Scaling

SparkLate = str | os.PathLike[str] | Callable[[DataFrame, str, int], None]


@named_arguments
def join(
    sides: Mapping[str, SparkSide],
    on: str | Sequence[str] | Column | Sequence[Column],
    *,
    how: str = "inner",
    event_time: str | Mapping[str, str] | None = None,
    watermark: Duration | Mapping[str, Duration] | None = None,
    watermark_policy: Literal["min", "max"] = "min",
    idle_timeout: Duration | None = None,
    max_event_time_ahead: Duration | None = None,
    window: Window | None = None,
    select: Select = None,
    late: SparkLate = "drop",
    strategy: str | Strategy | None = None,
    instances: int | Literal["auto"] | None = None,
    layout: Layout = "shared",
    guards: Guards | None = None,
    scaling: Scaling | None = None,
    sub_window: Duration | None = None,
    merge_budget: int = MERGE_BUDGET,
    pair_limit: int = PAIR_LIMIT,
    track: int = 0,
    redact_keys: bool = False,
    durability: Durability = "fsync",
    execution: Execution = "auto",
    hooks: Hooks | None = None,
) -> StreamJoin:
    """Join streaming DataFrames (or `evenjoin.parquet(...)` folders) on a SQL condition over their aliases.

    What is joined; a checkpoint belongs to one such join:
    on: the condition ("o.cell = t.cell AND ..."), the names of columns that must be equal, or a Column object
    (`col("o.cell") == col("t.cell")`, `F.expr(...)`). Any deterministic SQL that Spark takes in a join: Spark evaluates
    what reads one side, the engine compares, and what reads several sides is Spark's filter on the rows found.
    how: "inner".
    event_time: the column with a tuple's time, per alias or one name for all. Without it nothing expires.
    window: `evenjoin.tumbling(...)` or `sliding(...)`: only tuples of the same window join.
    select: output expressions ("o.id", "t.taxi AS taxi", "upper(t.name) AS name") or Column objects; without it one
    struct column per alias. What is more than a column is computed by Spark.

    How it runs; all of this may differ on a restart:
    watermark: allowed lateness, per alias or one for all. Without it nothing expires. Rows that can match nothing (the
    condition's filters fail, or a key is NULL) do not move it.
    watermark_policy: the join's watermark is the least ("min") or the greatest ("max") of the sides'.
    idle_timeout: how long a side may be silent before the watermark no longer waits for it.
    max_event_time_ahead: a row whose event time is further ahead than this, of the clock and of all earlier rows, is
    set aside: it is counted, goes where `late` rows go if that is a path or a function, joins nothing and does not move
    the watermark, so that one row of the year 9999 does not make all others late. Integer event times have no clock:
    they are compared with earlier rows only, and if a whole batch is ahead, later ones are compared with it. Without
    this setting no row is set aside, because only you know how far ahead good data may be (bookings, simulations).
    late: "drop" (counted), "keep", a path, or a function of (DataFrame, alias, batch id).
    strategy, instances: how tuples are placed, and on how many join tasks. Without a strategy it is "auto" ("hash" with
    layout="split"). Without a number it is as many as Spark runs at once.
    layout: each instance keeps all sides ("shared") or only one ("split").
    guards: `evenjoin.Guards(cooldown, min_gain, min_work, budget)`, the limits of rebalancing.
    scaling: `evenjoin.Scaling(task_capacity, ...)`, the limits of scaling with instances="auto".
    sub_window: the width of the slices of event time in which state is stored and expires.
    merge_budget: stored tuples that an instance may rewrite per batch and side to keep its files few.
    pair_limit: candidate pairs that an instance looks at together; it bounds the memory that a hot key takes.
    track: heavy keys that each instance counts, where the strategy does not ask for more.
    redact_keys: whether keys and their codes are kept out of everything but the segments: commits, tables, receipts,
    reports, progress. It holds for the life of a checkpoint. Event times are shown all the same.
    durability: "fsync" forces the files of each commit to the disk before the batch counts as done, so that it survives
        a power cut; with "os" it survives the death of any process, and a power cut may cost the last seconds.
    execution: where batches are joined: on the "executors", in the "driver", or "auto": small ones in the driver, which
        spares them a Spark job; on a local master large ones too, as long as they take little of the machine's memory.
        State and results are the same. `lastProgress["evenjoin"]["execution"]` tells what ran where.
    hooks: for tests only: a clock, and functions called at the steps of a batch (`evenjoin.testing.Hooks`).
    """
    check_named(sides)
    frames = dict(sides)
    for alias, frame in frames.items():
        if isinstance(frame, ParquetFiles):
            continue
        if not isinstance(frame, DataFrame):
            raise SpecError(f"side {alias!r}: a streaming DataFrame is needed, got {type(frame).__name__}")
        if not frame.isStreaming:
            raise SpecError(f"side {alias!r} is not a streaming DataFrame: read it with spark.readStream")
    policy, output = late_policy(late)
    _warm(frames, execution)
    ready = prepare(
        frames, on, how=how, event_time=event_time, watermark=watermark, window=window, select=select,
        late=policy, watermark_policy=watermark_policy,
    )  # fmt: skip
    asked = Asked(
        strategy=strategy, instances=_default_instances(frames) if instances is None else instances, layout=layout,
        guards=guards, scaling=scaling, idle_timeout=idle_timeout, max_event_time_ahead=max_event_time_ahead,
        sub_window=sub_window, merge_budget=merge_budget, pair_limit=pair_limit, track=track, redact_keys=redact_keys,
        durability=durability, execution=execution, hooks=hooks,
    )  # fmt: skip
    return StreamJoin(ready, read_settings(ready.spec, asked), output)


class StreamJoin:
    """A join of streams that is not running yet. `writeStream` leads to its start."""

    def __init__(self, ready: Preparation, settings: Settings, late: Any) -> None:
        self._ready, self._settings, self._late = ready, settings, late

    @property
    def schema(self) -> StructType:
        """The schema of the results."""
        return self._ready.schema

    @property
    def columns(self) -> list[str]:
        return list(self._ready.schema.names)

    @property
    def isStreaming(self) -> bool:
        return True

    @property
    def writeStream(self) -> JoinStreamWriter:
        """A writer with DataStreamWriter's methods."""
        return JoinStreamWriter(self._ready, self._settings, self._late)

    def printSchema(self) -> None:
        print(self.schema.treeString())

    def __repr__(self) -> str:
        fields = ", ".join(f"{f.name}: {f.dataType.simpleString()}" for f in self.schema.fields)
        return f"StreamJoin[{fields}] on {self._ready.spec.text}"


def _default_instances(frames: Mapping[str, SparkSide]) -> int:
    """As many join tasks as Spark runs at once; DEFAULT_INSTANCES where Spark does not tell."""
    return cores(next(iter(frames.values())).sparkSession) or DEFAULT_INSTANCES


def _warm(frames: Mapping[str, SparkSide], execution: Execution) -> None:
    """Start Python workers where batches are likely to run on executors: those of a cluster, or if they are asked
    for."""
    spark = next(iter(frames.values())).sparkSession
    if execution == "executors" or (execution == "auto" and not on_one_machine(spark)):
        warm(spark, cores(spark) or 1)
