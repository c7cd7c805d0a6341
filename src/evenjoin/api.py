"""The front door of the embedded engine: `evenjoin.local`. (That of Spark is runtime/spark/join.py.)

Every setting is listed by name. Names, types and defaults are those of `evenjoin.join`, except for the sides, `late`,
`instances` (a number by default), `checkpoint` and `time_zone`.
Guarantee: a join that cannot run is refused here with an error.
Not here: what the settings must be (runtime/settings.py), and what the engine does with them (runtime/local.py).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal

import pyarrow as pa

from evenjoin.errors import SpecError
from evenjoin.errors import UnboundedStateWarning as UnboundedStateWarning
from evenjoin.placement.table import Layout
from evenjoin.runtime.arguments import named_arguments
from evenjoin.runtime.local import LateOutput, LocalJoin
from evenjoin.runtime.settings import (
    DEFAULT_INSTANCES,
    MERGE_BUDGET,
    PAIR_LIMIT,
    Asked,
    Durability,
    Guards,
    Hooks,
    late_policy,
    read_settings,
)
from evenjoin.spec import Window, build_spec
from evenjoin.spec.scope import check_named
from evenjoin.spec.window import Duration
from evenjoin.state.files import Folder
from evenjoin.strategies.base import Strategy
from evenjoin.strategies.elastic import Scaling


@named_arguments
def local(
    schemas: Mapping[str, pa.Schema],
    on: str | Sequence[str],
    *,
    how: str = "inner",
    event_time: str | Mapping[str, str] | None = None,
    watermark: Duration | Mapping[str, Duration] | None = None,
    watermark_policy: Literal["min", "max"] = "min",
    idle_timeout: Duration | None = None,
    max_event_time_ahead: Duration | None = None,
    window: Window | None = None,
    time_zone: str | None = None,
    select: str | Sequence[str] | None = None,
    late: str | os.PathLike[str] | LateOutput = "drop",
    strategy: str | Strategy | None = None,
    instances: int | Literal["auto"] = DEFAULT_INSTANCES,
    layout: Layout = "shared",
    guards: Guards | None = None,
    scaling: Scaling | None = None,
    sub_window: Duration | None = None,
    merge_budget: int = MERGE_BUDGET,
    pair_limit: int = PAIR_LIMIT,
    track: int = 0,
    redact_keys: bool = False,
    durability: Durability = "fsync",
    hooks: Hooks | None = None,
    checkpoint: str | os.PathLike[str] | Folder | None = None,
    output: str | os.PathLike[str] | None = None,
    partition_by: Sequence[str] = (),
) -> LocalJoin:
    """Join two or more streams in this process: `process({"o": table, "t": table})` joins one micro-batch.

    Arguments are those of `evenjoin.join`, with pyarrow schemas in place of DataFrames. `late` may be a function of
    (rows, alias, batch). State is kept in memory, or in the folder `checkpoint`, from which a later join goes on.

    A condition has columns, literals, comparisons, AND, OR, NOT, BETWEEN, IN, IS NULL, sums and abs, and means what it
    means in Spark under ANSI. Everything else is refused by name: compute it as a column before. `time_zone` is
    the zone in which dates, text and timestamps without a zone are compared with timestamps that have one.

    `output` is a folder for the results, as parquet files: batch n is `batch_id=n` there, in folders by the values of
    `partition_by`. Readers see it as soon as it is committed, whole and exactly once, also if the process dies.
    For other exactly-once outputs number the batches and give a sink: `process(rows, batch=n, sink=write)` calls
    `write(results, n)` before batch n is committed. What `process` returns comes after the commit, so a process that
    dies before it has written that loses it.
    """
    policy, late_output = late_policy(late)
    check_named(schemas)
    for alias, schema in schemas.items():
        if not isinstance(schema, pa.Schema):
            raise SpecError(f"side {alias!r}: a pyarrow schema is needed, not {type(schema).__name__}")
    spec = build_spec(
        schemas, on, how=how, event_time=event_time, watermark=watermark, window=window, select=select,
        late=policy, watermark_policy=watermark_policy, time_zone=time_zone,
    )  # fmt: skip
    asked = Asked(
        strategy=strategy, instances=instances, layout=layout, guards=guards, scaling=scaling,
        idle_timeout=idle_timeout, max_event_time_ahead=max_event_time_ahead, sub_window=sub_window,
        merge_budget=merge_budget, pair_limit=pair_limit, track=track, redact_keys=redact_keys, durability=durability,
        hooks=hooks,
    )  # fmt: skip
    return LocalJoin(spec, read_settings(spec, asked), checkpoint, late_output, output, partition_by)
