"""The arguments a user writes, checked once for both runtimes, and the embedded engine's front door."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa

from evenjoin.errors import SpecError
from evenjoin.runtime.dispatch import suits
from evenjoin.runtime.driver import Settings
from evenjoin.runtime.local import LateOutput, LocalJoin
from evenjoin.runtime.rebalance import Guards
from evenjoin.spec import JoinSpec, Window, build_spec, parse_duration
from evenjoin.spec.window import Duration
from evenjoin.state.files import Folder
from evenjoin.strategies.base import Layout, Strategy, resolve, strategies
from evenjoin.strategies.elastic import Scale, elastic

DEFAULT_INSTANCES = 2


class UnboundedStateWarning(UserWarning):
    """Nothing bounds the state of a side: it grows for as long as the join runs."""


def local(
    schemas: Mapping[str, pa.Schema],
    on: str | Sequence[str],
    *,
    how: str = "inner",
    event_time: str | Mapping[str, str] | None = None,
    watermark: Duration | Mapping[str, Duration] | None = None,
    window: Window | None = None,
    select: str | Sequence[str] | None = None,
    strategy: str | Strategy | None = None,
    instances: int | Literal["auto"] = DEFAULT_INSTANCES,
    late: str | os.PathLike[str] | LateOutput = "drop",
    checkpoint: str | os.PathLike[str] | Folder | None = None,
    **settings: Any,
) -> LocalJoin:
    """Join two streams in this process: `process({"o": table, "t": table})` joins one micro-batch.

    Arguments are those of `evenjoin.join`, with pyarrow schemas in place of DataFrames. `late` may be a function
    of (rows, alias, batch). State is kept in memory, or in the folder `checkpoint`, from which it is resumed.
    """
    policy, output = late_policy(late)
    for alias, schema in schemas.items():
        if not isinstance(schema, pa.Schema):
            raise SpecError(f"side {alias!r}: a pyarrow schema is needed, not {type(schema).__name__}")
    spec = build_spec(
        schemas, on, how=how, event_time=event_time, watermark=watermark, window=window, select=select,
        late=policy, watermark_policy=settings.pop("watermark_policy", "min"),
    )  # fmt: skip
    return LocalJoin(spec, read_settings(spec, strategy, instances, settings), checkpoint, output)


def late_policy(late: Any) -> tuple[str, Any]:
    """`late=` as a policy and an output: "drop", "keep", or "side" with a callable or a path."""
    if late in ("drop", "keep"):
        return late, None
    if callable(late) or isinstance(late, (str, os.PathLike)):
        return "side", late
    raise SpecError(f"late={late!r}: use 'drop', 'keep', a function or a path for the late rows")


def read_settings(
    spec: JoinSpec, strategy: str | Strategy | None, instances: int | Literal["auto"], more: Mapping[str, Any]
) -> Settings:
    """Settings from keyword arguments, with a warning for each side whose state nothing bounds.

    Without a strategy it is "hash" where only equal keys match, and "random" for a join without an equality.
    """
    scale, more = _scale(instances, more)
    count: Any = scale.least if scale is not None else instances
    for name, value in {"instances": count, **more}.items():
        if name in ("instances", "merge_budget", "pair_limit") and (type(value) is not int or value < 1):
            raise SpecError(f"{name}={value!r}: a whole number of at least 1 is needed")
    known = {
        "layout", "idle_timeout", "sub_window", "merge_budget", "pair_limit", "track", "redact_keys",
        "cooldown", "min_gain", "min_work", "budget", "now", "step", "worker_step",
    }  # fmt: skip
    strange = sorted(set(more) - known)
    if strange:
        raise SpecError(f"unknown argument {strange[0]!r}; known: {', '.join(sorted(known))}")
    values = dict(more)
    layout: Layout = values.get("layout", "shared")
    if layout not in ("shared", "split"):
        raise SpecError(f"layout={layout!r}: use 'shared' or 'split'")
    if values.get("idle_timeout") is not None:
        values["idle_timeout"] = parse_duration(values["idle_timeout"], "timestamp") / 1e6
    if values.get("sub_window") is not None:
        values["sub_window"] = parse_duration(values["sub_window"], _unit(spec))
    limits = {name: values.pop(name) for name in ("cooldown", "min_gain", "min_work", "budget") if name in values}
    for name, value in limits.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0):
            raise SpecError(f"{name}={value!r}: a number of at least 0 is needed")
    values["guards"] = Guards(**limits)
    chosen = resolve(strategy if strategy is not None else "hash" if spec.equal_codes else "random")
    if scale is not None:
        chosen, values["elastic"] = elastic(chosen, scale, layout), True
    table = chosen.initial(count, len(spec.sides), layout)  # refuses now what could not run later
    if not suits(spec, table):
        raise SpecError(
            f"strategy {chosen.origin!r} brings only equal keys together, but the condition has no equality between "
            f"the sides: {spec.text}\n  use one of: {', '.join(_suiting(spec, count, layout))}"
        )
    for alias in spec.unbounded_sides():
        warnings.warn(
            f"nothing bounds the state of side {alias!r}: it will grow without end. "
            "Give event_time= and watermark= for both sides and a time bound in the condition, or a window",
            UnboundedStateWarning,
            stacklevel=3,
        )
    return Settings(strategy=chosen, instances=count, **values)


SCALE = {
    "task_capacity": "task_capacity",
    "min_instances": "least",
    "max_instances": "most",
    "scale_in": "low",
    "scale_out": "high",
    "scale_to": "to",
}


def _scale(instances: Any, more: Mapping[str, Any]) -> tuple[Scale | None, Mapping[str, Any]]:
    """The limits of `instances="auto"`, and the arguments without them."""
    given = {SCALE[name]: value for name, value in more.items() if name in SCALE}
    rest = {name: value for name, value in more.items() if name not in SCALE}
    if instances != "auto":
        if given:
            raise SpecError(f'{", ".join(n for n in more if n in SCALE)}: only with instances="auto"')
        return None, rest
    if "task_capacity" not in given:
        raise SpecError('instances="auto" needs task_capacity=: how many stored tuples an instance has room for')
    return Scale(**given), rest


def _suiting(spec: JoinSpec, instances: int, layout: Layout) -> list[str]:
    """The strategies that can run this join, with their default settings."""
    names = []
    for name in strategies():
        try:
            table = resolve(name).initial(instances, len(spec.sides), layout)
        except SpecError:
            continue
        names += [name] if suits(spec, table) else []
    return names


def _unit(spec: JoinSpec) -> Any:
    side = spec.sides[0]
    integer = side.event_time is not None and pa.types.is_integer(side.schema.field(side.event_time).type)
    return "integer" if integer else "timestamp"
