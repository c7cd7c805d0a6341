"""`instances="auto"`: as many instances as the state needs, without a restart, and the same answer."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import evenjoin
from evenjoin.errors import SpecError
from evenjoin.spec import build_spec
from evenjoin.testing import brute_force, multiset

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("t", pa.int64())])
SCHEMAS = {"l": SCHEMA, "r": SCHEMA}
SELECT = ["l.id AS a", "r.id AS b"]
BOUNDED = "l.k = r.k AND r.t BETWEEN l.t - 5 AND l.t + 5"
BAND = "r.k BETWEEN l.k - 1 AND l.k + 1 AND r.t BETWEEN l.t - 5 AND l.t + 5"
KEYED = ["hash", "random", "fastjoin", "djb", "lsstream", "square", "adsp"]
ANY = ["random", "square", "adsp"]


@pytest.mark.parametrize(
    ("stored", "now", "wanted"),
    [(50, 1, 1), (80, 1, 1), (81, 1, 2), (650, 1, 10), (10_000, 1, 16), (640, 8, 8), (399, 8, 7), (0, 8, 1)],
)
def test_how_many(stored, now, wanted):
    """V = 100: between 50 % and 80 % nothing changes; else as many as leave each 65 % full, within the limits."""
    scaling = evenjoin.Scaling(100, 1, 16)
    assert scaling.instances_for(stored, now) == wanted
    assert (scaling.pressure(stored, now) > 1) == (wanted != now)


def batches():
    """Few rows, then many, then few: ten time units apart, so that each batch expires the one before the last."""
    first = 0
    for number, rows in enumerate([20, 20, 200, 200, 200, 20, 20, 20, 20]):
        ids = range(first, first + rows)
        columns = [ids, [i * 7 % 40 for i in ids], [number * 10 + i % 10 for i in range(rows)]]
        yield {alias: pa.table(columns, schema=SCHEMA) for alias in "lr"}
        first += rows


@pytest.mark.parametrize(
    ("strategy", "condition"), [*((name, BOUNDED) for name in KEYED), *((name, BAND) for name in ANY)]
)
def test_scales_out_and_in(strategy, condition):
    """The number of instances follows the state up and down again; nothing is lost or repeated."""
    found, sizes = Counter(), []
    options = {"event_time": "t", "watermark": 0, "select": SELECT}
    with evenjoin.local(
        SCHEMAS, condition, strategy=strategy, instances="auto",
        scaling=evenjoin.Scaling(100, max_instances=8), guards=evenjoin.Guards(cooldown=0, min_work=0), **options,
    ) as join:  # fmt: skip
        for batch in batches():
            found += multiset(join.process(batch))
            sizes.append(join.table().instances)
        events = join.migrations()
    whole = {a: pa.concat_tables(batch[a] for batch in batches()) for a in "lr"}
    assert found == brute_force(build_spec(SCHEMAS, condition, **options), whole)
    assert max(sizes) > 2
    assert sizes[-1] < max(sizes)
    assert events


@pytest.mark.parametrize(
    ("instances", "scaling", "says"),
    [
        ("auto", None, "task_capacity="),
        (4, {"task_capacity": 10}, 'only with instances="auto"'),
        ("auto", {"task_capacity": 0}, "above 0"),
        ("auto", {"task_capacity": 9, "min_instances": 5, "max_instances": 4}, "min <= max"),
        ("auto", {"task_capacity": 9, "scale_in": 0.9}, "scale_in"),
        ("auto", {"task_capacity": 9, "scale_to": 0.9}, "scale_to"),
        ("many", None, "whole number"),
        ("auto", {"task_capacity": "much"}, "above 0"),
    ],
)
def test_wrong_settings(instances, scaling, says):
    """Refused at definition."""
    with pytest.raises(SpecError, match=says):
        evenjoin.local(
            SCHEMAS, BOUNDED, event_time="t", watermark=0, instances=instances,
            scaling=None if scaling is None else evenjoin.Scaling(**scaling),
        )  # fmt: skip
