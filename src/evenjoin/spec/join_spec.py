"""JoinSpec: everything the engine needs to know about what was asked, as one frozen value.

    build_spec({"o": schema, "t": schema}, on="o.cell = t.cell AND t.ts BETWEEN o.ts - INTERVAL 10 MINUTES AND o.ts",
               event_time="ts", watermark="30 seconds")

A join is a graph of two or more sides (graph.py). What concerns one side is in its `SideSpec`. What two sides must have
in common is in the `Edge` between them, and what reads more of them at once is in `JoinSpec.residual`. Terms of a side,
all times in time units (window.py):

* indexes:  what the state is asked by; it is sorted and placed by the first. Without an equality the best range gives
            it (band.py). With three and more sides a side may need several (many_sides.py).
* order:    the int64 by which the state is sorted within a key: the event time, else, with two sides, the side's part
            of the first range that can be used.
* horizon:  a stored tuple at t is dead once t + horizon <= watermark: only late tuples could still match it. It is the
            longest `wait` for another side.
* lateness: a tuple at t is late once t + lateness <= watermark.

With a window, dispatch replaces the order by the start of the window, once for each window of the tuple. Then edges are
bounded by 0 .. 0, and horizons are the size of the window.

Invariant: a combination of one tuple a side is a result <=> all pass their filters, every two with an edge satisfy it,
and the residual is TRUE. A tuple with a NULL key in any of its indexes (but under <=>) matches nothing, and neither
does one with a NULL order where an edge of its side is bounded in time. A side with a horizon has such an edge, so a
tuple without a time is only ever stored where nothing expires; it is never late either, as in Spark.
Not here: the watermark itself, and everything that runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from evenjoin.errors import SpecError
from evenjoin.spec.condition import Condition, Prepared, read_condition
from evenjoin.spec.event_time import EventTimes, read_event_times
from evenjoin.spec.expr import Column, Expr
from evenjoin.spec.graph import Edge, Graph, Index, closure
from evenjoin.spec.many_sides import many_sided
from evenjoin.spec.scope import Scope, check_aliases
from evenjoin.spec.select import Output, Outputs, read_select
from evenjoin.spec.two_sides import two_sided
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
    written, to be read in `time_zone`, and `canonical` its text without the user's spelling (render.py). `residual` is
    what reads three sides or more, or a side and its window; with two sides it is None, because their edge has
    everything. `evaluated` is what is computed outside the engine: columns of the sides, a filter and the output, as
    JSON for the checkpoint."""

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
    residual: Expr | None = None
    time_zone: str | None = None
    evaluated: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def equal_codes(self) -> bool:
        """Whether only tuples with equal codes can match, because of an equality that all sides share or of the start
        of their window. A code is that of index 0."""
        pairs = len(self.sides) * (len(self.sides) - 1) // 2
        return len(self.edges) == pairs and all(e.drive == "equal" and e.index == (0, 0) for e in self.edges)

    @property
    def ordered_codes(self) -> bool:
        """Whether codes are compared by order, because a band drives an edge. Then a code is the key's own value."""
        return any(edge.drive == "band" for edge in self.edges)

    @property
    def reach(self) -> tuple[int | None, int | None]:
        """(least, greatest) difference of the codes of a match, code of side 1 - code of side 0; None is no bound. With
        three and more sides it is 0 .. 0 if all codes are equal, and otherwise not known."""
        if len(self.sides) == 2:
            return self.edges[0].reach
        return (0, 0) if self.equal_codes else (None, None)

    def between(self, a: int, b: int) -> Edge | None:
        """The edge of two sides, if they have one."""
        return next((edge for edge in self.edges if set(edge.sides) == {a, b}), None)

    def wait(self, x: int, y: int) -> int | None:
        """How long after its own time a tuple of side x can still be needed by one of side y that is not late, in time
        units; None: for ever. Without a watermark of y nobody knows that its tuples have all come."""
        if self.window is not None:
            return None if all(side.delay is None for side in self.sides) else self.window[0]
        if self.sides[x].event_time is None or self.sides[y].delay is None:
            return None
        return closure(len(self.sides), self.edges)[x][y]

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
            **({"evaluated": dict(self.evaluated)} if self.evaluated else {}),
        }

    def read_columns(self, side: int) -> tuple[str, ...]:
        """The columns to read of a side: those the join uses; all of them if late rows go to a side output."""
        return tuple(self.sides[side].schema.names) if self.late == "side" else self.sides[side].columns

    def unbounded_sides(self) -> tuple[str, ...]:
        """The aliases of the sides whose state never expires."""
        return tuple(side.alias for side in self.sides if side.horizon is None)


def build_spec(
    schemas: Mapping[str, pa.Schema],
    on: str | Sequence[str] | Prepared,
    *,
    how: str = "inner",
    event_time: str | Mapping[str, str] | None = None,
    watermark: Duration | Mapping[str, Duration] | None = None,
    window: Window | None = None,
    select: str | Sequence[str] | Outputs | None = None,
    late: str = "drop",
    watermark_policy: str = "min",
    time_zone: str | None = None,
) -> JoinSpec:
    """Check the arguments of a join and put them together. A SpecError or ConditionError says what is wrong.

    `time_zone` is that in which dates and text are compared with timestamps; a condition without such needs none.
    A condition and a select list may have been read before (`Prepared`, `Outputs`), where somebody else evaluates parts
    of them. The schemas have the columns that are computed for it then."""
    check_arguments(schemas, how, late, watermark_policy)
    times = read_event_times(schemas, event_time, watermark, window)
    scope = Scope(schemas, times.window_type)
    condition = read_condition(on, scope, time_zone)
    graph = (two_sided if len(schemas) == 2 else many_sided)(condition, times, scope)
    outputs = read_select(select, scope)
    sides = tuple(_side(i, condition, times, graph, scope, outputs) for i in range(len(schemas)))
    spec = JoinSpec(
        sides=sides,
        edges=graph.edges,
        window=times.window,
        select=outputs,
        schema=_output_schema(sides, graph.edges, outputs),
        how=how,
        text=condition.text,
        canonical=condition.canonical,
        late=late,
        watermark_policy=watermark_policy,
        residual=graph.residual,
        time_zone=time_zone,
        evaluated=dict(on.evaluated) if isinstance(on, Prepared) else {},
    )
    return replace(spec, sides=tuple(replace(side, horizon=_longest_wait(spec, i)) for i, side in enumerate(sides)))


def check_arguments(schemas: Mapping[str, pa.Schema], how: str, late: str, watermark_policy: str) -> None:
    """Check what does not depend on the condition: aliases, and the arguments that are one of some words."""
    check_aliases(schemas)
    _check_choice("late", late, ("drop", "keep", "side"))
    _check_choice("watermark_policy", watermark_policy, ("min", "max"))
    _check_supported(schemas, how)


def _output_schema(sides: Sequence[SideSpec], edges: Sequence[Edge], outputs: Sequence[Output]) -> pa.Schema:
    """The columns of the results. A column that cannot be NULL is declared so, which saves its readers a test per
    value. That is known of a column whose schema says so, of a key under `=`, and of a time that an edge bounds."""
    known: set[str] = set()
    for number, side in enumerate(sides):
        known |= {f"{side.alias}.{field.name}" for field in side.schema if not field.nullable}
        tested = [
            key
            for index in side.indexes
            for key, null_safe in zip(index.exprs, index.null_safe, strict=False)
            if not null_safe
        ]
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
    if len(schemas) < 2:
        raise SpecError(f"a join has at least two sides, not {len(schemas)}")
    if how != "inner":
        raise SpecError(f"how={how!r} is not supported yet; use 'inner'")


def _side(
    number: int, condition: Condition, times: EventTimes, graph: Graph, scope: Scope, outputs: Sequence[Output]
) -> SideSpec:
    """A side, all but its horizon: that follows from the whole join."""
    alias = scope.aliases[number]
    schema = scope.schemas[alias]
    residuals = [graph.residual, *(edge.residual for edge in graph.edges if number in edge.sides)]
    after = [e for e in (*residuals, *(output.expr for output in outputs)) if e is not None]
    filter_ = condition.filter_of(alias)
    keys = [key for index in graph.indexes[number] for key in index.exprs]
    before = [e for e in (filter_, *keys, graph.orders[number]) if e is not None]
    payload = _used(after, alias)
    used = payload | _used(before, alias) | {c for c in (times.columns.get(alias),) if c is not None}
    for name in sorted(used):
        _check_type(alias, schema.field(name))
    return SideSpec(
        alias=alias,
        schema=schema,
        event_time=times.columns.get(alias),
        delay=times.delays.get(alias),
        filter=filter_,
        indexes=graph.indexes[number],
        order=graph.orders[number],
        columns=tuple(name for name in schema.names if name in used),
        payload=tuple(name for name in schema.names if name in payload),
        horizon=None,
        lateness=_lateness(alias, times),
    )


def _check_type(alias: str, column: pa.Field) -> None:
    """Refuse a type of which Arrow cannot pick rows: views of texts and bytes, also within another type."""
    inside = [column.type]
    while inside:
        type_ = inside.pop()
        if pa.types.is_string_view(type_) or pa.types.is_binary_view(type_):
            plain = str(type_).removesuffix("_view")
            raise SpecError(f"side {alias!r}: declare {column.name!r} with {plain} in place of {type_}; data is cast")
        if pa.types.is_nested(type_):
            inside += [type_.field(number).type for number in range(type_.num_fields)]


def _lateness(alias: str, times: EventTimes) -> int | None:
    if times.window is not None:
        return times.window[0] if times.delays else None
    return 0 if alias in times.delays else None


def _longest_wait(spec: JoinSpec, side: int) -> int | None:
    """The horizon of a side."""
    waits = [spec.wait(side, other) for other in range(len(spec.sides)) if other != side]
    known = [wait for wait in waits if wait is not None]
    return max(known) if len(known) == len(waits) else None


def _used(exprs: Sequence[Expr], alias: str) -> set[str]:
    prefix = f"{alias}."
    return {name.removeprefix(prefix) for expr in exprs for name in expr.columns if name.startswith(prefix)}
