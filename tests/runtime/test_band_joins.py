"""Joins without an equality on the embedded engine: against DuckDB, in bounded memory, expiring, and refused."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
import oracle
from evenjoin.errors import ConditionError, SpecError, TableError
from evenjoin.runtime.dispatch import Dispatcher
from evenjoin.spec import build_spec
from evenjoin.state.files import MemoryFolder
from evenjoin.strategies import resolve
from evenjoin.testing import brute_force, multiset
from stations import work_of

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

SCHEMA = pa.schema([
    ("id", pa.int64()), ("k", pa.int64()), ("e", pa.int64()), ("x", pa.float64()), ("d", pa.decimal128(12, 3)),
    ("ts", pa.timestamp("us")), ("day", pa.date32()),
])  # fmt: skip
SIDES = {"l": SCHEMA, "r": SCHEMA}


def rows(count: int, seed: int) -> pa.Table:
    """Rows with ties, NULLs and values that sit on the edges of the bands below."""
    random = np.random.default_rng(seed)
    k = random.integers(-2000, 2000, count)
    missing = random.random(count) < 0.05
    columns = [
        pa.array(np.arange(count)),
        pa.array(k, mask=missing),
        pa.array(k + random.integers(0, 9, count)),
        pa.array(k / 10 + random.integers(0, 3, count), mask=random.random(count) < 0.05),
        pa.array([Decimal(int(v)) / 8 for v in k], pa.decimal128(12, 3)),
        pa.array(k * 500_000, pa.timestamp("us"), mask=missing),
        pa.array((k // 4).astype(np.int32)).cast(pa.date32()),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


@pytest.mark.parametrize(
    "on",
    [
        "abs(l.k - r.k) <= 2",
        "r.k BETWEEN l.k - 3 AND l.k + 1",
        "r.k BETWEEN l.k + 1 AND l.k - 1",
        "r.k BETWEEN l.k + 2 AND l.k + 2",
        "abs(l.x - r.x) <= 0.1",
        "r.x BETWEEN l.x - 0.2 AND l.x + 0.1",
        "abs(l.d - r.d) < 0.25",
        "r.ts BETWEEN l.ts - INTERVAL 1 SECOND AND l.ts + INTERVAL 500 MILLISECONDS",
        "r.day = l.day AND r.k < l.k",
        "l.k <= r.e AND r.k <= l.e AND l.id < r.id",
        "l.k < r.k AND r.x < l.x",
        "l.k + l.k - l.e BETWEEN r.k AND r.k + 1",
        "l.id <> r.id AND abs(l.k - r.k) <= 1 AND l.x >= r.x",
    ],
)
def test_as_duckdb(on):
    """A few thousand rows a side in uneven batches give the rows that DuckDB's batch join gives."""
    data = {"l": rows(3000, 1), "r": rows(2500, 2)}
    with evenjoin.local(SIDES, on, select=["l.id AS a", "r.id AS b"], instances=3) as join:
        parts = [{a: t.slice(i * 700, 700) for a, t in data.items()} for i in range(5)]
        got = pa.concat_tables([join.process(part) for part in parts])
    assert pairs(got) == by_duckdb(data, on)


def by_duckdb(data, on):
    return pairs(oracle.joined(data, on, ["l.id AS a", "r.id AS b"]))


def pairs(*tables):
    """The (a, b) rows of some tables as a sorted list of numbers: a multiset that millions of rows fit into."""
    whole = pa.concat_tables([table.select(["a", "b"]) for table in tables])
    return np.sort(whole["a"].to_numpy().astype(np.int64) << 32 | whole["b"].to_numpy()).tolist()


def random_condition(random):
    """A band, a comparison or two, or an overlap, of random widths."""
    low, high = sorted(random.integers(-9, 9, 2).tolist())
    op, other = random.choice(["<", "<=", ">", ">=", "<>"], 2).tolist()
    narrow = f"r.k BETWEEN l.k + {low} AND l.k + {high}".replace("+ -", "- ")
    shapes = [
        narrow,
        f"{narrow} AND l.x {op} r.x",
        f"abs(l.d - r.d) <= {high + 10}.125 AND l.id {other} r.id",
        f"l.k {op} r.e AND r.k {other} l.e AND l.id < 400",
        f"r.ts BETWEEN l.ts - INTERVAL {high + 10} SECONDS AND l.ts + INTERVAL {low + 10} SECONDS",
        f"l.day {op} r.day AND abs(l.k - r.k) <= {high + 10}",
        f"l.k {op} r.k AND l.id < 300",
    ]
    return str(random.choice(shapes))


@pytest.mark.parametrize("strategy", ["random", "contrand(groups=1)", "square", "dynamic", "adsp"])
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
def test_random_joins_as_duckdb_while_schemes_change(seed, strategy):
    """Random conditions and batches; sizes and schemes change after nearly every batch, and at a restart besides."""
    random = np.random.default_rng([seed, len(strategy)])
    data = {"l": rows(1500, 10 + seed), "r": rows(1200, 20 + seed)}
    cuts = {a: np.sort(random.integers(0, t.num_rows, 6)).tolist() for a, t in data.items()}
    on, folder, found, tables = random_condition(random), MemoryFolder(), [], set()
    for half in (range(4), range(4, 7)):
        scaling = evenjoin.Scaling(float(random.integers(250, 600)), min_instances=len(half), max_instances=40)
        with evenjoin.local(
            SIDES, on, select=["l.id AS a", "r.id AS b"], strategy=strategy, instances="auto", checkpoint=folder,
            guards=evenjoin.Guards(cooldown=0, min_gain=0, min_work=0), scaling=scaling,
        ) as join:  # fmt: skip
            tables.add(join.table().regions)
            for n in half:
                ends = {a: (([0, *cut])[n], ([*cut, data[a].num_rows])[n]) for a, cut in cuts.items()}
                found.append(join.process({a: data[a].slice(i, j - i) for a, (i, j) in ends.items()}))
                tables.add(join.table().regions)
    assert pairs(*found) == by_duckdb(data, on), on
    assert len(tables) > 1


@pytest.mark.parametrize("on", ["l.k <> r.k", "l.k + r.k > 3", "TRUE"])
def test_a_product_stays_small(on):
    """3,000 x 3,000 pairs come out in many batches of at most `pair_limit` rows."""
    schema = pa.schema([("k", pa.int64())])
    table = pa.table({"k": np.arange(3000) % 7}, schema=schema)
    with evenjoin.local({"l": schema, "r": schema}, on, select=["l.k", "r.k AS b"], pair_limit=50_000) as join:
        found = join.process({"l": table, "r": table})
    pieces = [batch.num_rows for batch in found.to_batches()]
    assert len(pieces) >= found.num_rows / 50_000
    assert len(pieces) > 100
    assert max(pieces) <= 50_000
    k = np.arange(3000) % 7
    total = {"l.k <> r.k": (k[:, None] != k).sum(), "l.k + r.k > 3": (k[:, None] + k > 3).sum(), "TRUE": 9_000_000}
    assert found.num_rows == total[on]


@pytest.mark.parametrize("on", ["abs(l.k - r.k) <= 1 AND {}", "l.k <> r.k AND {}", "{}"])
def test_state_expires_by_event_time(on):
    """With a watermark old sub-windows are dropped, whichever range the runs are sorted by."""
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])
    on = on.format("r.t BETWEEN l.t - 2 AND l.t + 2")
    options = {"event_time": "t", "watermark": 3, "select": ["l.k", "l.t", "r.k AS b", "r.t AS c"]}
    table = pa.table({"k": np.arange(600) * 7 % 5, "t": np.arange(600) // 3}, schema=schema)
    parts = [table.slice(i * 30, 30) for i in range(20)]
    with evenjoin.local({"l": schema, "r": schema}, on, **options) as join:
        found = pa.concat_tables([join.process({"l": part, "r": part}) for part in parts])
        assert join.progress().total.expired > 800
        assert sum(join.progress().stored) < 200
    spec = build_spec({"l": schema, "r": schema}, on, **options)
    assert multiset(found) == brute_force(spec, {"l": table, "r": table})


def test_the_ends_of_int64():
    """A band never wraps around: nothing is beyond the greatest integer."""
    schema = pa.schema([("k", pa.int64())])
    values = [-(2**63), -(2**63) + 1, 0, 2**63 - 2, 2**63 - 1]
    table = pa.table({"k": values}, schema=schema)
    with evenjoin.local({"l": schema, "r": schema}, "r.k - l.k BETWEEN 1 AND 2", select=["l.k", "r.k AS b"]) as join:
        assert multiset(join.process({"l": table, "r": table})) == Counter(
            (a, b) for a in values for b in values if 1 <= b - a <= 2
        )


@pytest.mark.parametrize(
    ("column", "type_", "value", "name"),
    [
        ("l.v < r.v", pa.int64(), 7, "7"),
        ("l.v < r.v", pa.float64(), 2.5, "2.5"),
        ("abs(l.v - r.v) <= 1.5", pa.float32(), -2.5, "-2.5"),
        ("abs(l.v - r.v) <= 1.5", pa.decimal128(8, 2), Decimal("7.25"), "7.25"),
        ("l.v <= r.v", pa.timestamp("us"), dt.datetime(2024, 2, 29), "2024-02-29 00:00:00"),
        ("l.v <= r.v", pa.date32(), dt.date(2024, 2, 29), "2024-02-29 00:00:00"),
    ],
    ids=str,
)
def test_heavy_keys_have_the_names_of_their_values(column, type_, value, name):
    """The load report names a hot value of the join attribute as the user knows it."""
    schema = pa.schema([("v", type_)])
    table = pa.table({"v": pa.array([value] * 40, type_)}, schema=schema)
    with evenjoin.local({"l": schema, "r": schema}, column, select=["l.v"]) as join:
        join.process({"l": table, "r": table})
        assert name in {key.name for key in join.load().heavy}


def test_nan_and_null():
    """NULL matches nothing; NaN is greater than everything and equals itself, but is near nothing."""
    schema = pa.schema([("x", pa.float64())])
    table = pa.table({"x": [1.0, math.nan, None, math.inf]}, schema=schema)

    def pairs(on):
        with evenjoin.local({"l": schema, "r": schema}, on, select=["l.x", "r.x AS y"]) as join:
            return multiset(pa.concat_tables([join.process({"l": table}), join.process({"r": table})]))

    inf = math.inf
    assert pairs("l.x < r.x") == Counter([(1.0, inf), (1.0, "NaN"), (inf, "NaN")])
    assert pairs("abs(l.x - r.x) <= 5.0") == Counter([(1.0, 1.0)])
    assert pairs("l.x <> r.x") == Counter(
        [(1.0, inf), (1.0, "NaN"), (inf, "NaN"), (inf, 1.0), ("NaN", 1.0), ("NaN", inf)]
    )


@pytest.mark.parametrize("strategy", ["hash", "fastjoin", "contrand(groups=2)", "lsstream"])
def test_a_strategy_that_separates_keys_is_refused(strategy):
    """The message says why, and what can be used."""
    with pytest.raises(SpecError, match=r"brings only equal keys together.*\n.*use one of: .*random"):
        evenjoin.local(SIDES, "l.k < r.k", strategy=strategy, instances=4)


def test_a_table_that_separates_keys_never_runs():
    """Should a planner suggest one all the same, no batch is dispatched by it."""
    spec = build_spec(SIDES, "l.k < r.k")
    table = resolve("hash").initial(2, 2, "shared")
    with pytest.raises(TableError, match="unequal keys"):
        Dispatcher(work_of(spec, table), None)


@pytest.mark.parametrize(
    ("on", "says", "under"),
    [
        ("l.k < r.ts", "do not compare", "l.k"),
        ("abs(l.k - r.ts) <= 1", "int64 - timestamp[us] is not computed", "l.k - r.ts"),
        ("abs(l.ts - r.ts) <= 5", "do not compare", "l.ts"),
        ("l.k < r.k AND l.ts BETWEEN r.ts AND r.ts + 5", "timestamp[us] + int32 is not computed", "r.ts + 5"),
        ("l.k < r.nope", "no column 'nope'", "nope"),
    ],
)
def test_a_condition_that_cannot_run_is_refused(on, says, under):
    """At definition, with the part and the reason."""
    with pytest.raises(ConditionError) as caught:
        evenjoin.local(SIDES, on)
    assert says in str(caught.value)
    assert caught.value.position == on.index(under)


def test_the_default_strategy():
    """With an equality or a window keys are moved and divided; without either areas or a grid are made. In layout split
    keys stay where their hash puts them."""
    for on, options, made in [
        ("l.k = r.k AND l.x < r.x", {}, ("auto", "shared")),
        ("l.k < r.k", {"window": evenjoin.tumbling(5), "event_time": "k"}, ("auto", "shared")),
        ("l.k = r.k", {"layout": "split"}, ("hash", "split")),
        ("l.k < r.k", {}, ("adsp", "shared")),
        ("l.k < r.k", {"redact_keys": True}, ("square", "shared")),
        ("l.k <> r.k", {"layout": "split"}, ("adsp", "split")),
    ]:
        with evenjoin.local(SIDES, on, instances=4, **options) as join:
            assert (join.table().origin, join.table().layout) == made
