"""`evenjoin.join`: streaming DataFrames and a condition -> a join that can be written somewhere.

Everything that can be refused is refused here, before anything runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from evenjoin.api import DEFAULT_INSTANCES, late_policy, read_settings
from evenjoin.errors import SpecError
from evenjoin.instance.emit import output_schema
from evenjoin.runtime.driver import Settings
from evenjoin.runtime.spark.files import ParquetFiles
from evenjoin.runtime.spark.writer import JoinStreamWriter
from evenjoin.spec import JoinSpec, Window, build_spec
from evenjoin.spec.window import Duration
from evenjoin.strategies.base import Strategy

SparkSide = DataFrame | ParquetFiles
SparkLate = str | os.PathLike[str] | Callable[[DataFrame, str, int], None]


def join(
    sides: Mapping[str, SparkSide],
    on: str | Sequence[str],
    *,
    how: str = "inner",
    event_time: str | Mapping[str, str] | None = None,
    watermark: Duration | Mapping[str, Duration] | None = None,
    window: Window | None = None,
    select: str | Sequence[str] | None = None,
    strategy: str | Strategy | None = None,
    instances: int | Literal["auto"] | None = None,
    late: SparkLate = "drop",
    **settings: Any,
) -> StreamJoin:
    """Join streaming DataFrames (or `evenjoin.parquet(...)` folders) on a SQL condition over their aliases.

    event_time, watermark: column and allowed lateness per alias (or one for all). Without them nothing expires.
    window: `evenjoin.tumbling(...)` or `sliding(...)`: only tuples of the same window join.
    select: output expressions ("o.id", "t.taxi AS taxi"); without it one struct column per alias.
    strategy, instances: how tuples are placed and on how many join tasks; may differ on a restart. Without a strategy
    it is "hash", or "random" for a condition without an equality.
    late: "drop" (counted), "keep", a path, or a function of (DataFrame, alias, batch id).
    Further settings: layout ("shared" or "split"), idle_timeout, watermark_policy ("min" or "max"), sub_window,
    merge_budget, pair_limit; limits of rebalancing: cooldown, min_gain, min_work, budget; redact_keys; and with
    instances="auto": task_capacity, min_instances, max_instances, scale_out, scale_in, scale_to.
    """
    frames = dict(sides)
    for alias, frame in frames.items():
        if isinstance(frame, ParquetFiles):
            continue
        if not isinstance(frame, DataFrame):
            raise SpecError(f"side {alias!r}: a streaming DataFrame is needed, got {type(frame).__name__}")
        if not frame.isStreaming:
            raise SpecError(f"side {alias!r} is not a streaming DataFrame: read it with spark.readStream")
    policy, output = late_policy(late)
    schemas = {alias: arrow_schema(frame) for alias, frame in frames.items()}
    spec = build_spec(
        schemas, on, how=how, event_time=event_time, watermark=watermark, window=window, select=select,
        late=policy, watermark_policy=settings.pop("watermark_policy", "min"),
    )  # fmt: skip
    count = instances if instances is not None else _default_instances(frames)
    return StreamJoin(frames, spec, read_settings(spec, strategy, count, settings), output)


class StreamJoin:
    """A join of streams: `writeStream` starts it."""

    def __init__(self, frames: Mapping[str, SparkSide], spec: JoinSpec, settings: Settings, late: Any) -> None:
        self._frames, self._spec, self._settings, self._late = frames, spec, settings, late

    @property
    def schema(self) -> StructType:
        """The schema of the results."""
        return from_arrow_schema(output_schema(self._spec), prefer_timestamp_ntz=True)

    @property
    def columns(self) -> list[str]:
        return [output.name for output in self._spec.select]

    @property
    def isStreaming(self) -> bool:
        return True

    @property
    def writeStream(self) -> JoinStreamWriter:
        """A writer with DataStreamWriter's methods."""
        return JoinStreamWriter(list(self._frames.values()), self._spec, self._settings, self.schema, self._late)

    def printSchema(self) -> None:
        print(self.schema.treeString())

    def __repr__(self) -> str:
        fields = ", ".join(f"{f.name}: {f.dataType.simpleString()}" for f in self.schema.fields)
        return f"StreamJoin[{fields}] on {self._spec.text}"


def arrow_schema(frame: SparkSide) -> pa.Schema:
    """A side's schema as Arrow, timestamps in the session's time zone."""
    zone = frame.sparkSession.conf.get("spark.sql.session.timeZone", "UTC")
    return to_arrow_schema(frame.schema, timezone=zone)


def _default_instances(frames: Mapping[str, SparkSide]) -> int:
    """As many join tasks as Spark runs at once, where it tells."""
    spark = next(iter(frames.values())).sparkSession
    try:
        return max(int(spark.sparkContext.defaultParallelism), 1)
    except Exception:  # Spark Connect does not tell
        return DEFAULT_INSTANCES
