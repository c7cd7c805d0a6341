"""The arguments of a join on Spark -> the spec of what the engine does, and what Spark does before and after it.

    condition ── split ──► columns that Spark computes ──► the sides that dispatch reads
                       ──► the engine's condition ───────► JoinSpec
                       ──► Spark's filter ─┐
    select ─── outputs ──► expressions ────┴─────────────► Finish, applied to the results

Guarantee: the join's results are those of Spark's own join of the same rows with the same condition and select list.
What Spark evaluates is part of the spec's fingerprint, with the session's time zone and ANSI mode, on which it depends.
Not here: the split itself (conditions/), and how a join runs.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from evenjoin.errors import SpecError
from evenjoin.runtime.spark.conditions.analyst import ANSI, ZONE, session_mode
from evenjoin.runtime.spark.conditions.outputs import Finish, Select, engine_schema, finished_schema, read_outputs
from evenjoin.runtime.spark.conditions.split import Split, split
from evenjoin.runtime.spark.conditions.travel import arrow_schema, check_travels
from evenjoin.runtime.spark.files import ParquetFiles
from evenjoin.runtime.spark.plain_folders import folder_advice
from evenjoin.spec import JoinSpec, Prepared, Scope, Window, build_spec
from evenjoin.spec.event_time import read_event_times
from evenjoin.spec.join_spec import check_arguments
from evenjoin.spec.window import Duration

log = logging.getLogger("evenjoin")
SparkSide = DataFrame | ParquetFiles


@dataclass(frozen=True, slots=True)
class Preparation:
    """A join, ready to run. `sides` have their computed columns, `spec` is the engine's part, `emitted` the schema of
    what the engine emits, `finish` what Spark does with that (None: nothing), `schema` that of the results."""

    sides: Mapping[str, SparkSide]
    spec: JoinSpec
    emitted: StructType
    finish: Finish | None
    schema: StructType
    split: Split


def prepare(
    sides: Mapping[str, SparkSide],
    on: str | Sequence[str] | Column | Sequence[Column],
    *,
    how: str = "inner",
    event_time: str | Mapping[str, str] | None = None,
    watermark: Duration | Mapping[str, Duration] | None = None,
    window: Window | None = None,
    select: Select = None,
    late: str = "drop",
    watermark_policy: str = "min",
) -> Preparation:
    """Check the arguments of a join and split its condition and output between Spark and the engine."""
    zone = str(next(iter(sides.values())).sparkSession.conf.get("spark.sql.session.timeZone", "UTC"))
    schemas = {alias: arrow_schema(side.schema, zone) for alias, side in sides.items()}
    check_arguments(schemas, how, late, watermark_policy)
    times = read_event_times(schemas, event_time, watermark, window)
    first = next(iter(sides))
    bounds = None if window is None else sides[first].schema[times.columns[first]].dataType
    made = split(on, sides, event_time=times.columns, window=bounds)
    outputs, finish = read_outputs(select, made, Scope(schemas, times.window_type))
    spec = build_spec(
        made.schemas, Prepared(made.text, made.condition, made.elsewhere, evaluated(made, finish)), how=how,
        event_time=event_time, watermark=watermark, window=window, select=outputs, late=late,
        watermark_policy=watermark_policy,
    )  # fmt: skip
    check_travels(spec, {alias: side.schema for alias, side in sides.items()})
    emitted = engine_schema(spec.schema, outputs, made.analyst)
    schema = emitted if finish is None else finished_schema(emitted, finish, made.analyst)
    ready = {alias: _computed(alias, side, made) for alias, side in sides.items()}
    _tell(made, finish)
    return Preparation(ready, spec, emitted, finish, schema, made)


def check_session(ready: Preparation) -> None:
    """Refuse to start a join in a session whose mode is another one than where it was defined: its constants are of
    then, and what Spark evaluates would be of now."""
    conf = next(iter(ready.sides.values())).sparkSession.conf
    zone, ansi = session_mode(conf)
    if not ready.split.computes and ready.finish is None:
        return
    for key, was, now in ((ZONE, ready.split.zone, zone), (ANSI, ready.split.ansi, ansi)):
        if was != now:
            raise SpecError(
                f"{key} was {_shown(was)} when the join was defined and is {_shown(now)} now. Spark evaluates a part "
                "of this join, and would do so in another way: change it back, or call evenjoin.join(...) again"
            )


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def evaluated(made: Split, finish: Finish | None) -> dict[str, object]:
    """What Spark evaluates, as a checkpoint remembers it. Empty if Spark evaluates nothing."""
    computed = {alias: dict(columns) for alias, columns in made.computed.items() if columns}
    if not made.computes and finish is None:
        return {}
    return {
        "computed": computed,
        **({"filtered": dict(made.filtered)} if made.filtered else {}),
        "filter": made.spark_filter,
        "output": None if finish is None else [list(pair) for pair in finish.columns],
        "time zone": made.zone,
        "ansi": made.ansi,
    }


def _computed(alias: str, side: SparkSide, made: Split) -> SparkSide:
    if not isinstance(side, ParquetFiles):
        advice = None if made.touches(alias) else folder_advice(alias, side)
        if advice is not None:
            log.warning(advice)
        return made.with_computed(alias, side)
    if not made.touches(alias):
        return side
    texts = [*made.computed[alias].values(), *([made.filtered[alias]] if alias in made.filtered else [])]
    log.info("side %r: Spark scans the files, because it computes %s", alias, ", ".join(texts))
    return made.with_computed(alias, side.rows())


def _tell(made: Split, finish: Finish | None) -> None:
    """Say in the log what makes results go through Spark's JVM."""
    for reason in made.reasons:
        log.info("Spark filters the rows that the join finds by %s", reason)
    if finish is not None and made.spark_filter is None:
        log.info("Spark computes the output: %s", ", ".join(text for text, _ in finish.columns))
