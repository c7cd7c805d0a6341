"""Random joins of three and four sides, as SQL, with streams for them and the strategies that can run them.

    cyclic  m.a ~ e.a, m.b ~ f.b, e.b ~ f.a       m is the middle side, e and f the other two in alias order
    class   m.a = e.a, m.a = f.a                  a common key
    chain   m.a ~ e.a, m.b ~ f.b                  e and f have no conjunct that drives
    apart   m.a ~ e.a                             f is only in a conjunct over three sides
    star    m.a ~ e.a, m.b ~ f.b, m.a ~ g.a       four sides

where ~ is an equality of numbers or of strings, null-safe or not, a band, or a comparison. Beside these a condition may
have `<>` between two sides, bounds on event times, a residual over three sides, and filters.

A row is drawn as one number, which is written in a mixed radix: drawing column by column takes longer than the join.
Not here: what is claimed of these joins (test_three_way.py, test_three_way_tables.py, test_three_way_crashes.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import evenjoin
from evenjoin.spec import JoinSpec, build_spec
from evenjoin.testing import split

VALUES: dict[str, tuple[pa.DataType, tuple[Any, ...]]] = {
    "a": (pa.int64(), (1, 2, 0, 3, 1, 2, 0, 3, None)),
    "b": (pa.int64(), (1, 2, 0, 3, 1, 2, 0, None)),
    "n": (pa.string(), ("x", "y", "x", "y", "", "x", "longer than eight bytes", None)),
    "m": (pa.string(), ("x", "y", "x", "y", "", "x", "longer than eight bytes", None)),
    "v": (pa.int64(), (0, 1, 2)),
    "ts": (pa.int64(), (*range(16), None)),
}
SCHEMA = pa.schema([("id", pa.int64()), *((name, type_) for name, (type_, _) in VALUES.items())])
COMBINATIONS = math.prod(len(values) for _, values in VALUES.values())
SAME_STRING = {"a": "n", "b": "m"}
"""The string column that stands for a number column."""

EQUAL = ("{x}.{c} = {y}.{d}", "{x}.{c} = {y}.{d}", "{x}.{c} <=> {y}.{d}")
EQUAL_STRING = ("{x}.{s} = {y}.{z}", "{x}.{s} <=> {y}.{z}")
RANGE = (
    "abs({x}.{c} - {y}.{d}) <= 1",
    "{x}.{c} < {y}.{d}",
    "{x}.{c} <= {y}.{d}",
    "{y}.{d} BETWEEN {x}.{c} - 1 AND {x}.{c} + 2",
)
UNEQUAL = ("{x}.{c} <> {y}.{d}",)
FORMS = ("cyclic", "class", "chain", "apart", "star")


@dataclass(frozen=True, slots=True)
class Case:
    """A join: its sides' aliases, its condition, and the options of `evenjoin.local` that belong to it."""

    names: str
    on: str
    options: Mapping[str, Any]

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        return dict.fromkeys(self.names, SCHEMA)

    @property
    def spec(self) -> JoinSpec:
        options = {name: value for name, value in self.options.items() if name != "late"}
        return build_spec(self.schemas, self.on, **options)


def _conjuncts(form: str, m: str, ends: Sequence[str]) -> list[tuple[str, str, str, str]]:
    e, f, *more = ends
    pairs = [(m, "a", e, "a"), (m, "b", f, "b"), (e, "b", f, "a")]
    if form == "class":
        return [(m, "a", e, "a"), (m, "a", f, "a")]
    if form == "star":
        return [*pairs[:2], (m, "a", more[0], "a")]
    return pairs[: {"cyclic": 3, "chain": 2, "apart": 1}[form]]


@st.composite
def cases(
    draw: Any,
    forms: Sequence[str] = FORMS,
    times: Sequence[str] = ("none", "bounds", "window"),
    hashed_only: bool = False,
) -> Case:
    """A random join of one of these forms. `times` are the ways in which event times may matter; `hashed_only` leaves
    out what needs no hash."""
    form = draw(st.sampled_from(forms))
    names = "rstq" if form == "star" else "rst"
    m = draw(st.sampled_from(names))
    ends = [name for name in names if name != m]
    kinds = EQUAL + EQUAL_STRING if form == "class" else EQUAL + EQUAL_STRING + RANGE
    kinds = (EQUAL[-1], *EQUAL_STRING) if hashed_only else kinds
    conjuncts = []
    same = draw(st.sampled_from(kinds))
    for x, c, y, d in _conjuncts(form, m, ends):
        rare = not hashed_only and form != "class" and draw(st.integers(0, 15)) == 0
        kind = same if form == "class" else draw(st.sampled_from(UNEQUAL if rare else kinds))
        if draw(st.booleans()):
            x, c, y, d = y, d, x, c
        conjuncts.append(kind.format(x=x, c=c, y=y, d=d, s=SAME_STRING[c], z=SAME_STRING[d]))
    order = draw(st.permutations(names))
    if form == "apart":
        conjuncts.append(draw(st.sampled_from(["{0}.a + {1}.b = {2}.a", "{0}.v + {1}.v <> {2}.v"])).format(*ends, m))
    elif draw(st.integers(0, 2)) == 0:
        conjuncts.append("{0}.v + {1}.v <> {2}.v".format(*order))
    if draw(st.integers(0, 3)) == 0:
        conjuncts.append("{0}.v <> {1}.v".format(*order))
    if draw(st.integers(0, 4)) == 0:
        conjuncts.append(f"{order[0]}.a < 3")
    way = draw(st.sampled_from(times))
    options: dict[str, Any] = {} if way == "none" and draw(st.booleans()) else {"event_time": "ts"}
    if way == "bounds":
        conjuncts += draw(bounds(names, 1))
    if way == "window":
        options["window"] = draw(st.sampled_from([evenjoin.tumbling(4), evenjoin.sliding(6, 3), evenjoin.sliding(5, 3)]))
        conjuncts += draw(bounds(names, 0))
    select = [f"{name}.id AS {name}" for name in names] + ["window.start AS w" if way == "window" else f"{m}.ts AS w"]
    return Case(names, " AND ".join(draw(st.permutations(conjuncts))), {**options, "select": select})


@st.composite
def bounds(draw: Any, names: str, least: int) -> list[str]:
    """Bounds on the event times of some pairs of sides, some of them open on one side."""
    pairs = [(x, y) for n, x in enumerate(names) for y in names[n + 1 :]]
    chosen = draw(st.lists(st.sampled_from(pairs), min_size=least, max_size=3, unique=True))
    texts = ("{y}.ts BETWEEN {x}.ts - {low} AND {x}.ts + {high}", "{y}.ts <= {x}.ts + {high}", "{y}.ts > {x}.ts - {low}")
    far = st.integers(0, 5)
    return [draw(st.sampled_from(texts)).format(x=x, y=y, low=draw(far), high=draw(far)) for x, y in chosen]


@cache
def _numbers(count: int) -> Any:
    return st.lists(st.integers(0, COMBINATIONS - 1), min_size=count, max_size=count)


def rows_of(numbers: Sequence[int]) -> pa.Table:
    """The rows that these numbers stand for; their ids are their places."""
    columns: dict[str, list[Any]] = {"id": list(range(len(numbers)))}
    left = list(numbers)
    for name, (_, values) in VALUES.items():
        columns[name] = [values[number % len(values)] for number in left]
        left = [number // len(values) for number in left]
    return pa.table(columns, schema=SCHEMA)


@st.composite
def streams(draw: Any, names: str, most: int = 14, batches: int = 5, in_time: bool = False) -> list[dict[str, pa.Table]]:
    """Batches of rows of each side, cut at places of its own. A side may have nothing in a batch. `in_time`: rows come
    roughly by their event times."""
    count = draw(st.integers(1, batches))
    parts = {}
    for name in names:
        table = rows_of(draw(_numbers(draw(st.integers(most // 2, most)))))
        if in_time:
            table = by_time(table)
        parts[name] = split(table, draw(st.lists(st.integers(0, most), min_size=count - 1, max_size=count - 1)))
    return [{name: part[number] for name, part in parts.items()} for number in range(count)]


def by_time(table: pa.Table) -> pa.Table:
    """The rows roughly in the order of their times: off by up to 4, as their other values say."""
    rows = table.to_pylist()
    return pa.Table.from_pylist(sorted(rows, key=lambda row: (row["ts"] or 0) + 2 * row["v"]), SCHEMA)


def whole(stream: Sequence[Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
    """The batches of a stream put together."""
    return {name: pa.concat_tables([batch[name] for batch in stream]).combine_chunks() for name in stream[0]}


@dataclass(frozen=True, slots=True)
class Way:
    """How a join is run: options of `evenjoin.local`."""

    strategy: str
    layout: str = "shared"
    instances: int = 4


def ways(spec: JoinSpec) -> Iterator[Way]:
    """Every strategy that can run the join, in both layouts where there are two."""
    aliases = [side.alias for side in spec.sides]
    if spec.equal_codes:
        yield Way("hash", instances=3)
    yield Way("hypercube", instances=5)
    yield Way("hypercube", instances=8)
    if len(aliases) != 3:
        return
    driven = [edge.sides for edge in spec.edges if edge.drive != "none"]
    if len(driven) >= 2:
        for settings in ("", "(packing=paired)", "(units=1:2:2)"):
            yield Way(f"trijoin{settings}", "split", 5)
        yield Way("trijoin", instances=2)
    if len(driven) == 2:
        (middle,) = set(driven[0]) & set(driven[1])
        for end in sorted({0, 1, 2} - {middle}):
            yield Way(f"trijoin(forward={aliases[end]})", "split", 4)
            yield Way(f"trijoin(packing=paired, forward={aliases[end]})", instances=3)
    yield Way("tree", "split", 6)
    for third, alias in enumerate(aliases):
        a, b = (side for side in range(3) if side != third)
        if spec.between(a, b) is not None:
            yield Way(f"tree(last={alias})", instances=3)
            yield Way(f"tree(last={alias}, units=1:2:1:2)", "split", 6)


def started(case: Case, way: Way, **more: Any) -> Any:
    """The join of a case, run in a way."""
    options = {**case.options, "strategy": way.strategy, "layout": way.layout, "instances": way.instances, **more}
    return evenjoin.local(case.schemas, case.on, **options)


def not_late(
    stream: Sequence[Mapping[str, pa.Table]], late: Sequence[tuple[str, int, int]]
) -> dict[str, pa.Table]:  # fmt: skip
    """The rows of a stream without those named as (alias, batch, id). Ids are unique within a side."""
    out = {}
    for name in stream[0]:
        gone = {(batch, id_) for alias, batch, id_ in late if alias == name}
        rows = [row for n, batch in enumerate(stream) for row in batch[name].to_pylist() if (n, row["id"]) not in gone]
        out[name] = pa.Table.from_pylist(rows, SCHEMA)
    return out
