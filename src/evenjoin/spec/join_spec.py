"""JoinSpec: everything the engine needs to know about what was asked, as one frozen value.

    build_spec({"o": schema, "t": schema}, on="o.cell = t.cell AND t.ts BETWEEN o.ts - INTERVAL 10 MINUTES AND o.ts",
               event_time="ts", watermark="30 seconds")

Terms (all in time units, see window.py):
* keys:     what the state is sorted and placed by. Tuples must have equal ones, or, with a band, keys that are near.
* band:     low <= key of side 1 - key of side 0 <= high, for a join without an equality (see band.py). Such a join may
            also have neither keys nor a band (`l.a <> r.a`): then all pairs are looked at.
* order:    the int64 a side's state is sorted by within a key: the event time, else the first usable range's side.
* low/high: low <= order(side 1) - order(side 0) <= high. Enforced by the probe, so it is not in the residual.
* horizon:  a stored tuple at t is dead once t + horizon <= watermark: only late tuples could still match it.
* lateness: a tuple at t is late once t + lateness <= watermark.
With a window the engine replaces order by the window's start, once per window: low = high = 0, horizons are the size.

Invariant: a pair is a result <=> filters, equal keys or the band, low/high on order, residual. A tuple with a NULL key
(but under <=>) matches nothing. A tuple with a NULL order matches
nothing where low or high is set. Not here: the watermark itself, and everything that runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from evenjoin.errors import SpecError
from evenjoin.spec.band import Band, Drive, choose_band
from evenjoin.spec.condition import Condition, read_condition
from evenjoin.spec.event_time import EventTimes, read_event_times
from evenjoin.spec.expr import Column, Expr
from evenjoin.spec.order import Order, choose_order
from evenjoin.spec.scope import Scope, check_aliases
from evenjoin.spec.select import Output, read_select
from evenjoin.spec.window import Duration, Window

HOW = ("inner", "left", "right", "full", "semi", "anti")


@dataclass(frozen=True, slots=True)
class SideSpec:
    """One side of the join; see the top of this file."""

    alias: str
    schema: pa.Schema
    event_time: str | None
    delay: int | None
    filter: Expr | None
    keys: tuple[Expr, ...]
    order: Expr | None
    columns: tuple[str, ...]
    payload: tuple[str, ...]
    horizon: int | None
    lateness: int | None


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """A whole join; see the top of this file."""

    sides: tuple[SideSpec, ...]
    null_safe: tuple[bool, ...]
    key_types: tuple[pa.DataType, ...]
    low: int | None
    high: int | None
    residual: Expr | None
    window: tuple[int, int] | None
    select: tuple[Output, ...]
    how: str
    text: str
    canonical: str
    late: str = "drop"
    watermark_policy: str = "min"
    band: Band | None = None

    @property
    def equal_codes(self) -> bool:
        """Only tuples with equal codes can match: by an equality, or by the start of their window."""
        return self.window is not None or (self.band is None and bool(self.key_types))

    @property
    def reach(self) -> tuple[int | None, int | None]:
        """The least and the greatest that code of side 1 - code of side 0 of a match can be; None is no bound."""
        if self.equal_codes:
            return 0, 0
        return (None, None) if self.band is None else self.band.reach

    def fingerprint(self) -> dict[str, object]:
        """What a checkpoint must agree on, as JSON. Delays and the late policy may change on restart: not in it."""
        return {
            "sides": [side.alias for side in self.sides],
            "schema": {s.alias: {c: str(s.schema.field(c).type) for c in s.columns} for s in self.sides},
            "condition": self.canonical,
            "how": self.how,
            "window": None if self.window is None else list(self.window),
            "event_time": {side.alias: side.event_time for side in self.sides},
            "select": [[output.name, str(output.expr)] for output in self.select],
        }

    def read_columns(self, side: int) -> tuple[str, ...]:
        """Columns to read of a side: those the join uses; all of them when late rows go to a side output whole."""
        return tuple(self.sides[side].schema.names) if self.late == "side" else self.sides[side].columns

    def never_null(self) -> frozenset[str]:
        """Qualified columns that no result of an inner join has NULL in: declared so, a key under `=`, a bounded time.
        Saying so spares whoever reads the results a test per value."""
        if self.how != "inner":
            return frozenset()
        bounded = self.window is not None or self.low is not None or self.high is not None
        names = set()
        for side in self.sides:
            names |= {f"{side.alias}.{field.name}" for field in side.schema if not field.nullable}
            strict = [key for key, null_safe in zip(side.keys, self.null_safe, strict=True) if not null_safe]
            tested = [*strict, *([side.order] if bounded and side.order is not None else [])]
            names |= {expr.name for expr in tested if isinstance(expr, Column)}
        return frozenset(names)

    def unbounded_sides(self) -> tuple[str, ...]:
        """Aliases whose state never expires."""
        return tuple(side.alias for side in self.sides if side.horizon is None)


def build_spec(
    schemas: Mapping[str, pa.Schema],
    on: str | Sequence[str],
    *,
    how: str = "inner",
    event_time: str | Mapping[str, str] | None = None,
    watermark: Duration | Mapping[str, Duration] | None = None,
    window: Window | None = None,
    select: str | Sequence[str] | None = None,
    late: str = "drop",
    watermark_policy: str = "min",
) -> JoinSpec:
    """The arguments of a join, checked and put together; SpecError or ConditionError says what is wrong."""
    check_aliases(schemas)
    _check_choice("late", late, ("drop", "keep", "side"))
    _check_choice("watermark_policy", watermark_policy, ("min", "max"))
    _check_supported(schemas, how)
    times = read_event_times(schemas, event_time, watermark, window)
    scope = Scope(schemas, times.window_type)
    condition = read_condition(on, scope)
    order = choose_order(condition, times, scope)
    drive = None if condition.keys or times.window else choose_band(condition, order.exprs, scope)
    outputs = read_select(select, scope)
    residual = condition.residual_without((*order.enforced, *(drive.enforced if drive else ())))
    sides = tuple(_side(i, condition, times, order, drive, scope, residual, outputs) for i in range(len(schemas)))
    return JoinSpec(
        sides=sides,
        null_safe=(False,) if drive else tuple(key.null_safe for key in condition.keys),
        key_types=(drive.type,) if drive else tuple(key.type for key in condition.keys),
        low=order.low,
        high=order.high,
        residual=residual,
        window=times.window,
        select=outputs,
        how=how,
        text=condition.text,
        canonical=condition.canonical,
        late=late,
        watermark_policy=watermark_policy,
        band=drive.band if drive else None,
    )


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise SpecError(f"{name}={value!r} is not one of {', '.join(choices)}")


def _check_supported(schemas: Mapping[str, pa.Schema], how: str) -> None:
    """The one place that says which joins exist today."""
    _check_choice("how", how, HOW)
    if len(schemas) not in (2, 3):
        raise SpecError(f"a join has two or three sides, not {len(schemas)}")
    if len(schemas) == 3:
        raise SpecError("a join of three sides is not supported yet; join two, then the result with the third")
    if how != "inner":
        raise SpecError(f"how={how!r} is not supported yet; use 'inner'")


def _side(
    index: int,
    condition: Condition,
    times: EventTimes,
    order: Order,
    drive: Drive | None,
    scope: Scope,
    residual: Expr | None,
    outputs: Sequence[Output],
) -> SideSpec:
    alias = scope.aliases[index]
    schema = scope.schemas[alias]
    keys = tuple(key.left if key.sides[0] == alias else key.right for key in condition.keys)
    if drive is not None:
        keys = (drive.keys[index],)
    after = [e for e in (residual, *(o.expr for o in outputs)) if e is not None]
    filter_ = condition.filter_of(alias)
    before = [e for e in (filter_, *keys, order.exprs[index]) if e is not None]
    payload = _used(after, alias)
    used = payload | _used(before, alias) | {c for c in (times.columns.get(alias),) if c is not None}
    horizon, lateness = order.expiry(index, times, scope.aliases)
    return SideSpec(
        alias=alias,
        schema=schema,
        event_time=times.columns.get(alias),
        delay=times.delays.get(alias),
        filter=filter_,
        keys=keys,
        order=order.exprs[index],
        columns=tuple(name for name in schema.names if name in used),
        payload=tuple(name for name in schema.names if name in payload),
        horizon=horizon,
        lateness=lateness,
    )


def _used(exprs: Sequence[Expr], alias: str) -> set[str]:
    prefix = f"{alias}."
    return {name.removeprefix(prefix) for expr in exprs for name in expr.columns if name.startswith(prefix)}
