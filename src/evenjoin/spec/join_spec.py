"""JoinSpec: everything the engine needs to know about what was asked, as one frozen value.

    build_spec({"o": schema, "t": schema}, on="o.cell = t.cell AND t.ts BETWEEN o.ts - INTERVAL 10 MINUTES AND o.ts",
               event_time="ts", watermark="30 seconds")

A join is a graph (graph.py). What concerns one side is in its `SideSpec`. What two sides must have in common is in the
`Edge` between them. Terms of a side, all times in time units (window.py):

* index:    what the state is sorted, placed and asked by. Without an equality the best range gives it (band.py).
* order:    the int64 by which the state is sorted within a key: the event time, else the side's part of the first range
            that can be used.
* horizon:  a stored tuple at t is dead once t + horizon <= watermark: only late tuples could still match it.
* lateness: a tuple at t is late once t + lateness <= watermark.

With a window, dispatch replaces the order by the start of the window, once for each window of the tuple. Then edges are
bounded by 0 .. 0, and horizons are the size of the window.

Invariant: a pair is a result <=> both pass their filters and satisfy their edge. A tuple with a NULL key (but under
<=>) matches nothing, and neither does one with a NULL order where an edge of its side is bounded in time.
Not here: the watermark itself, and everything that runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from evenjoin.errors import SpecError
from evenjoin.spec.band import DrivingRange, choose_band
from evenjoin.spec.condition import Condition, read_condition
from evenjoin.spec.event_time import EventTimes, read_event_times
from evenjoin.spec.expr import Column, Expr
from evenjoin.spec.graph import WINDOW_START, Closure, Drive, Edge, Index, closure, horizon
from evenjoin.spec.order import Order, choose_order
from evenjoin.spec.scope import Scope, check_aliases
from evenjoin.spec.select import Output, read_select
from evenjoin.spec.window import Duration, Window

HOW = ("inner", "left", "right", "full", "semi", "anti")


@dataclass(frozen=True, slots=True)
class SideSpec:
    """One side of the join; see the top of this file. `delay` is its watermark delay. `columns` are the columns that
    the join reads of it, `payload` those that are still needed after a match: for residuals and the output."""

    alias: str
    schema: pa.Schema
    event_time: str | None
    delay: int | None
    filter: Expr | None
    indexes: tuple[Index, ...]
    order: Expr | None
    columns: tuple[str, ...]
    payload: tuple[str, ...]
    horizon: int | None
    lateness: int | None

    @property
    def index(self) -> Index:
        """The index by which the side's runs are sorted and its tuples placed."""
        return self.indexes[0]


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """A whole join; see the top of this file. `schema` has the columns of its results, `text` is the condition as
    written, `canonical` its text without the user's spelling (render.py)."""

    sides: tuple[SideSpec, ...]
    edges: tuple[Edge, ...]
    window: tuple[int, int] | None
    select: tuple[Output, ...]
    schema: pa.Schema
    how: str
    text: str
    canonical: str
    late: str = "drop"
    watermark_policy: str = "min"

    @property
    def equal_codes(self) -> bool:
        """Whether only tuples with equal codes can match, because of an equality or of the start of their window."""
        return all(edge.drive == "equal" for edge in self.edges)

    @property
    def ordered_codes(self) -> bool:
        """Whether codes are compared by order, because a band drives an edge. Then a code is the key's own value."""
        return any(edge.drive == "band" for edge in self.edges)

    @property
    def reach(self) -> tuple[int | None, int | None]:
        """(least, greatest) difference of the codes of a match, code of side 1 - code of side 0; None is no bound."""
        return self.edges[0].reach

    def edges_of(self, side: int) -> tuple[Edge, ...]:
        """The edges that a side is one end of."""
        return tuple(edge for edge in self.edges if side in edge.sides)

    def bounded(self, side: int) -> bool:
        """Whether a tuple of the side without a time can match nothing."""
        return any(edge.bounded for edge in self.edges_of(side))

    def fingerprint(self) -> dict[str, object]:
        """What a checkpoint must agree on, as JSON. Delays and the late policy may change on a restart, so they are
        not in it."""
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
        """The columns to read of a side: those the join uses; all of them if late rows go to a side output."""
        return tuple(self.sides[side].schema.names) if self.late == "side" else self.sides[side].columns

    def unbounded_sides(self) -> tuple[str, ...]:
        """The aliases of the sides whose state never expires."""
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
    """Check the arguments of a join and put them together. A SpecError or ConditionError says what is wrong."""
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
    edges = (_edge(condition, times, order, drive),)
    bounds = closure(len(schemas), edges)
    sides = tuple(_side(i, condition, times, order, drive, scope, edges, bounds, outputs) for i in range(len(schemas)))
    return JoinSpec(
        sides=sides,
        edges=edges,
        window=times.window,
        select=outputs,
        schema=_output_schema(sides, edges, outputs),
        how=how,
        text=condition.text,
        canonical=condition.canonical,
        late=late,
        watermark_policy=watermark_policy,
    )


def _output_schema(sides: Sequence[SideSpec], edges: Sequence[Edge], outputs: Sequence[Output]) -> pa.Schema:
    """The columns of the results. A column that cannot be NULL is declared so, which saves its readers a test per
    value. That is known of a column whose schema says so, of a key under `=`, and of a time that an edge bounds."""
    known: set[str] = set()
    for number, side in enumerate(sides):
        known |= {f"{side.alias}.{field.name}" for field in side.schema if not field.nullable}
        tested = [key for key, null_safe in zip(side.index.exprs, side.index.null_safe, strict=False) if not null_safe]
        if side.order is not None and any(edge.bounded for edge in edges if number in edge.sides):
            tested.append(side.order)
        known |= {expr.name for expr in tested if isinstance(expr, Column)}
    return pa.schema(
        [pa.field(o.name, o.type, not (isinstance(o.expr, Column) and o.expr.name in known)) for o in outputs]
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


def _edge(condition: Condition, times: EventTimes, order: Order, drive: DrivingRange | None) -> Edge:
    """The edge between the two sides of the join."""
    residual = condition.residual_without((*order.enforced, *(drive.enforced if drive else ())))
    by: Drive = "band" if drive else "equal" if condition.keys or times.window else "none"
    return Edge((0, 1), by, (0, 0), drive.band if drive else None, order.low, order.high, residual)


def _index(number: int, alias: str, condition: Condition, times: EventTimes, drive: DrivingRange | None) -> Index:
    """What a side is sorted by: its part of the equalities, its part of the range that drives, or the start of its
    window."""
    if drive is not None:
        return Index((drive.keys[number],), (drive.type,), (False,))
    if not condition.keys and times.window is not None:
        return WINDOW_START
    return Index(
        tuple(key.left if key.sides[0] == alias else key.right for key in condition.keys),
        tuple(key.type for key in condition.keys),
        tuple(key.null_safe for key in condition.keys),
    )


def _side(
    number: int,
    condition: Condition,
    times: EventTimes,
    order: Order,
    drive: DrivingRange | None,
    scope: Scope,
    edges: Sequence[Edge],
    bounds: Closure,
    outputs: Sequence[Output],
) -> SideSpec:
    alias = scope.aliases[number]
    schema = scope.schemas[alias]
    index = _index(number, alias, condition, times, drive)
    residuals = [edge.residual for edge in edges if number in edge.sides and edge.residual is not None]
    after = [*residuals, *(output.expr for output in outputs)]
    filter_ = condition.filter_of(alias)
    before = [e for e in (filter_, *index.exprs, order.exprs[number]) if e is not None]
    payload = _used(after, alias)
    used = payload | _used(before, alias) | {c for c in (times.columns.get(alias),) if c is not None}
    wait, lateness = _expiry(number, times, scope.aliases, bounds)
    return SideSpec(
        alias=alias,
        schema=schema,
        event_time=times.columns.get(alias),
        delay=times.delays.get(alias),
        filter=filter_,
        indexes=(index,),
        order=order.exprs[number],
        columns=tuple(name for name in schema.names if name in used),
        payload=tuple(name for name in schema.names if name in payload),
        horizon=wait,
        lateness=lateness,
    )


def _expiry(number: int, times: EventTimes, aliases: Sequence[str], bounds: Closure) -> tuple[int | None, int | None]:
    """(horizon, lateness) of a side."""
    if times.window is not None:
        size = times.window[0] if times.delays else None
        return size, size
    lateness = 0 if aliases[number] in times.delays else None
    if any(alias not in times.columns for alias in aliases):
        return None, lateness
    return horizon(bounds, number, [alias in times.delays for alias in aliases]), lateness


def _used(exprs: Sequence[Expr], alias: str) -> set[str]:
    prefix = f"{alias}."
    return {name.removeprefix(prefix) for expr in exprs for name in expr.columns if name.startswith(prefix)}
