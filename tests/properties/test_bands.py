"""Joins without an equality, over random conditions, streams, batch splits, table changes and crashes."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import STEPS, batches, without_late

import evenjoin
from evenjoin.placement import Reach
from evenjoin.spec import build_spec
from evenjoin.state.files import MemoryFolder
from evenjoin.testing import (
    Fixed,
    brute_force,
    multiset,
    ordered_tables,
    ranged_tables,
    routing_tables,
    run_stream,
)
from thorough import examples

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

START = dt.datetime(2024, 2, 28, 23, 59, 58)
MOMENTS = [START + dt.timedelta(seconds=s, microseconds=m) for s in (0, 1, 2, 3, 90_000) for m in (0, 1)]
FLOATS = [0.0, -0.0, 0.1, 0.2, 0.3, 0.1 + 0.2, 1.0, -1.0, 1.1, 2.5, 1e17, 3e38, -3e38, 1e-45]
ODD = [float("nan"), float("inf"), float("-inf")]
VALUES = {
    "k": (pa.int64(), [-3, -1, 0, 1, 2, 3, 4, 7]),
    "i": (pa.int32(), [-2, 0, 1, 2, 5]),
    "x": (pa.float64(), [*FLOATS, 1e308, -1e308, 5e-324, *ODD]),
    "f": (pa.float32(), [*FLOATS, *ODD]),
    "d": (pa.decimal128(6, 2), [Decimal(x) for x in ("-1.50", "0.00", "0.30", "0.31", "1.00", "2.50")]),
    "big": (pa.int64(), [-(2**63), -(2**63) + 1, -(2**62), 0, 2**62, 2**63 - 1]),
    "day": (pa.date32(), [START.date() + dt.timedelta(days=n) for n in range(3)]),
    "ts": (pa.timestamp("us", "UTC"), MOMENTS),
    "ns": (pa.timestamp("ns"), MOMENTS),
    "t": (pa.int64(), list(range(-4, 9))),
}
SCHEMA = pa.schema([("id", pa.int64()), *((name, t) for name, (t, _) in VALUES.items())])
SCHEMAS = {"l": SCHEMA, "r": SCHEMA}
SELECT = ["l.id AS a", "r.id AS b", "l.k", "r.x", "l.ts", "r.t AS rt"]

moment = st.sampled_from(["ts", "ns", "day"])
compared = st.sampled_from(["<", "<=", ">", ">="])
gap = st.sampled_from(["INTERVAL 0 SECONDS", "INTERVAL 1 SECOND", "INTERVAL 1 DAY", "INTERVAL -2 SECONDS"])


def of_numbers(number: Any, size: Any) -> Any:
    """Comparisons of these columns and constants."""
    return st.one_of(
        st.builds("abs(l.{} - r.{}) {} {}".format, number, number, st.sampled_from(["<=", "<"]), size),
        st.builds("r.{0} BETWEEN l.{1} - {2} AND l.{1} + {3}".format, number, number, size, size),
        st.builds("l.{} {} r.{}".format, number, compared, number),
        st.builds("l.{} - r.{} {} {}".format, number, number, compared, size),
        st.builds("l.{} + {} {} r.{} + {}".format, number, size, compared, number, size),
        st.builds("l.{} + l.{} {} r.{}".format, number, number, compared, number),
        st.builds("l.{0} + l.{0} {1} r.{2} + r.{2}".format, number, compared, number),
        st.builds("l.{} <> r.{}".format, number, number),
    )


floating = of_numbers(
    st.sampled_from(["x", "f"]), st.sampled_from(["0", "1", "2", "-1", "0.1", "0.3", "2.5", "0.3D", "1e16"])
)
mixed = of_numbers(
    st.sampled_from(["k", "k", "i", "x", "x", "f"]), st.sampled_from(["0", "1", "2", "-1", "0.3D", "1e16"])
)
exact = of_numbers(st.sampled_from(["k", "i", "d", "d"]), st.sampled_from(["0", "1", "-1", "0.1", "0.3", "2.5"]))
comparison = st.one_of(
    floating,
    mixed,
    exact,
    st.builds("l.big {} r.{}".format, compared, st.sampled_from(["big", "k"])),
    st.builds("l.{} {} r.{} + {}".format, moment, compared, moment, gap),
    st.builds("abs(l.{} - r.{}) <= {}".format, moment, moment, gap),
    st.builds("r.{0} BETWEEN l.{1} - {2} AND l.{1} + {3}".format, moment, moment, gap, gap),
    st.just("l.k <= r.i AND r.k <= l.i"),
    st.just("r.t BETWEEN l.t - 3 AND l.t + 2"),
    st.just("r.t >= l.t"),
    st.just("l.i > 0"),
    st.just("l.k + r.i > 3 OR l.x > r.x"),
)
conditions = st.lists(comparison, min_size=1, max_size=3).map(" AND ".join)
sized = st.sampled_from(["adsp", "square", "dynamic"])
tables = st.lists(routing_tables(regions="one"), min_size=1, max_size=4)
many = settings(max_examples=examples(110), deadline=None)


@st.composite
def sides(draw: Any, max_rows: int = 12) -> dict[str, pa.Table]:
    """Small streams full of duplicates, ties, NULLs, NaNs and values at the edge of a band."""
    out = {}
    for alias in ("l", "r"):
        drawn = draw(so_many(draw(st.integers(0, max_rows))))
        columns = {"id": pa.array(range(len(drawn)), pa.int64())}
        for number, (name, (type_, _)) in enumerate(VALUES.items()):
            columns[name] = pa.array([row[number] for row in drawn], type_)
        out[alias] = pa.table(columns, schema=SCHEMA)
    return out


@cache
def so_many(count: int) -> Any:
    """Lists of exactly so many rows; one value in five is NULL."""
    value = [st.sampled_from([*[None] * len(values), *list(values) * 4]) for _, values in VALUES.values()]
    return st.lists(st.tuples(*value), min_size=count, max_size=count)


def start(condition, drawn, **more):
    versions = tuple(replace(table, version=n) for n, table in enumerate(drawn))
    strategy = {"strategy": Fixed(versions), "instances": versions[0].instances}
    return evenjoin.local(SCHEMAS, condition, time_zone="UTC", select=SELECT, **strategy, **more)


@many
@given(conditions, sides(), tables, st.sampled_from([None, "t", {"l": "t"}, "ts"]), st.data())
def test_same_answer(condition, data, drawn, event_time, more):
    """Any tables of one region, any batch split, any table changes: what the condition gives on every pair."""
    limits = {"pair_limit": more.draw(st.sampled_from([1, 7, 1 << 17])), "merge_budget": 20}
    with start(condition, drawn, event_time=event_time, **limits) as join:
        results = [join.process(batch) for batch in more.draw(batches(data))]
    spec = build_spec(SCHEMAS, condition, time_zone="UTC", select=SELECT)
    assert multiset(pa.concat_tables(results)) == brute_force(spec, data)


@settings(max_examples=examples(60), deadline=None)
@given(conditions, sides(), tables, st.data())
def test_exactly_once(condition, data, drawn, more):
    """Killed at any steps and restarted from the checkpoint, the output is the undisturbed run's."""
    folder = MemoryFolder()
    stream = []
    for batch in more.draw(batches(data)):
        stream += more.draw(st.lists(st.sampled_from(STEPS), max_size=3))
        stream.append(batch)
    sunk = run_stream(lambda hooks: start(condition, drawn, checkpoint=folder, hooks=hooks), stream)
    assert multiset(pa.concat_tables(sunk.values())) == brute_force(
        build_spec(SCHEMAS, condition, time_zone="UTC", select=SELECT), data
    )


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from(["abs(l.k - r.k) <= 1", "l.x < r.x", "l.d <> r.d", "l.i + l.k > r.k", "TRUE"]),
    sides(max_rows=20),
    st.integers(0, 4),
    st.data(),
)
def test_same_answer_minus_late_tuples(other, data, delay, more):
    """With a watermark, whether the event time drives or another range: late tuples are missing, nothing else."""
    condition = f"{other} AND r.t BETWEEN l.t - 3 AND l.t + 2"
    options = {"event_time": "t", "watermark": delay}
    parts = more.draw(batches(data, max_batches=6))
    with start(condition, more.draw(tables), **options) as join:
        results = [join.process(batch) for batch in parts]
    spec = build_spec(SCHEMAS, condition, time_zone="UTC", select=SELECT, **options)
    in_time, _ = without_late(parts, delay, spec)
    assert multiset(pa.concat_tables(results)) == brute_force(spec, in_time)


@settings(max_examples=examples(40), deadline=None)
@given(conditions, sides(), st.sampled_from(["shared", "split"]), st.integers(2, 5), st.data())
def test_same_answer_by_name(condition, data, layout, instances, more):
    """The default strategy of such a join, in both layouts."""
    with evenjoin.local(SCHEMAS, condition, time_zone="UTC", select=SELECT, instances=instances, layout=layout) as join:
        assert (join.table().origin, join.table().layout) == ("adsp", layout)
        results = [join.process(batch) for batch in more.draw(batches(data))]
    assert multiset(pa.concat_tables(results)) == brute_force(
        build_spec(SCHEMAS, condition, time_zone="UTC", select=SELECT), data
    )


AREAS = {
    "abs(l.k - r.k) <= 1": Reach(-1, 1),
    "r.k BETWEEN l.k + 1 AND l.k + 3 AND l.x <> r.x": Reach(1, 3),
    "l.k <= r.k": Reach(0, None),
    "r.k BETWEEN l.k + 2 AND l.k": Reach(2, 2),
    "r.k BETWEEN l.t - 2 AND l.t AND r.t >= l.t": Reach(-2, 0),
}


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from(list(AREAS)), sides(), st.booleans(), st.data())
def test_same_answer_over_areas(condition, data, timed, more):
    """Tables of areas for the condition's reach, changing to others and to one region: the brute-force result."""
    reach = AREAS[condition]
    spec = build_spec(SCHEMAS, condition, time_zone="UTC", select=SELECT)
    assert spec.reach == (reach.low, reach.high)
    ranged = ranged_tables(reach=reach)
    drawn = more.draw(st.lists(st.one_of(ranged, ranged, routing_tables(regions="one")), min_size=1, max_size=4))
    with start(condition, drawn, event_time="t" if timed else None) as join:
        results = [join.process(batch) for batch in more.draw(batches(data))]
    assert multiset(pa.concat_tables(results)) == brute_force(spec, data)


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from(list(AREAS)), sides(), st.booleans(), st.data())
def test_same_answer_over_ordered_buckets(condition, data, timed, more):
    """Tables of ordered buckets for the condition's reach, with split keys, changing to others, to areas and to one
    region: the brute-force result."""
    ordered = ordered_tables(reach=AREAS[condition])
    others = st.one_of(ranged_tables(reach=AREAS[condition]), routing_tables(regions="one"))
    drawn = more.draw(st.lists(st.one_of(ordered, ordered, others), min_size=1, max_size=4))
    with start(condition, drawn, event_time="t" if timed else None) as join:
        results = [join.process(batch) for batch in more.draw(batches(data))]
    assert multiset(pa.concat_tables(results)) == brute_force(
        build_spec(SCHEMAS, condition, time_zone="UTC", select=SELECT), data
    )


@settings(max_examples=examples(30), deadline=None)
@given(st.sampled_from(list(AREAS)), sides(), st.data())
def test_exactly_once_over_ordered_buckets(condition, data, more):
    """Killed at any steps, also while state moves from one table of ordered buckets to the next."""
    drawn = more.draw(st.lists(ordered_tables(reach=AREAS[condition]), min_size=1, max_size=4))
    folder, stream = MemoryFolder(), []
    for batch in more.draw(batches(data)):
        stream += more.draw(st.lists(st.sampled_from(STEPS), max_size=3))
        stream.append(batch)
    sunk = run_stream(lambda hooks: start(condition, drawn, checkpoint=folder, hooks=hooks), stream)
    assert multiset(pa.concat_tables(sunk.values())) == brute_force(
        build_spec(SCHEMAS, condition, time_zone="UTC", select=SELECT), data
    )


@settings(max_examples=examples(40), deadline=None)
@given(
    st.sampled_from([condition for condition, reach in AREAS.items() if reach.high is not None]),
    sides(max_rows=20),
    st.sampled_from(["hash", "contrand(groups=2)", "readj", "djb(theta_max=0.01)"]),
    st.sampled_from(["shared", "split"]),
    st.data(),
)
def test_same_answer_of_keyed_strategies(condition, data, strategy, layout, more):
    """They cut their buckets after the first batch that had codes, and plan as often as they may."""
    guards = evenjoin.Guards(cooldown=0, min_gain=0, min_work=0)
    with evenjoin.local(
        SCHEMAS, condition, time_zone="UTC", select=SELECT, instances=4, strategy=strategy, layout=layout, guards=guards
    ) as join:
        results = [join.process(batch) for batch in more.draw(batches(data, max_batches=6))]
    assert multiset(pa.concat_tables(results)) == brute_force(
        build_spec(SCHEMAS, condition, time_zone="UTC", select=SELECT), data
    )


@settings(max_examples=examples(40), deadline=None)
@given(conditions, sides(max_rows=16), sized, st.data())
def test_same_answer_while_planning(condition, data, name, more):
    """Strategies that resize by volume, with a task so small that they always want to."""
    guards = evenjoin.Guards(cooldown=0, min_gain=0, min_work=0)
    strategy = f"{name}(task_capacity={more.draw(st.sampled_from([3, 8]))})"
    with evenjoin.local(
        SCHEMAS, condition, time_zone="UTC", select=SELECT, instances=1, strategy=strategy, guards=guards
    ) as join:
        results = [join.process(batch) for batch in more.draw(batches(data, max_batches=6))]
    assert multiset(pa.concat_tables(results)) == brute_force(
        build_spec(SCHEMAS, condition, time_zone="UTC", select=SELECT), data
    )


@pytest.mark.parametrize("name", ["adsp", "square", "dynamic"])
def test_a_band_that_nothing_is_in(name):
    side = pa.table({"id": range(9), "k": [0, 0, 1, 2, 3, 5, 9, 12, 2]}).cast(
        pa.schema([SCHEMA.field(0), SCHEMA.field(1)])
    )
    guards = evenjoin.Guards(cooldown=0, min_gain=0, min_work=0)
    schemas = {"l": side.schema, "r": side.schema}
    condition, strategy = "r.k BETWEEN l.k + 2 AND l.k", f"{name}(task_capacity=3, most=64)"
    with evenjoin.local(
        schemas, condition, time_zone="UTC", select=["l.id"], instances=1, strategy=strategy, guards=guards
    ) as join:
        assert [join.process({"l": side, "r": side}).num_rows for _ in range(3)] == [0, 0, 0]
        assert join.table().instances > 4
