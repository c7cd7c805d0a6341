"""Joins of three sides on real Spark: every program, with and without a hop, against the brute-force join."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

import evenjoin
from evenjoin.spec import build_spec
from evenjoin.testing import brute_force, multiset
from spark_streams import DISORDER, TRIPLES, Collected, triple_streams, triples

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")]

SELECT = ["r.id AS a", "s.id AS b", "t.id AS c", "s.name", "t.v"]
BOUNDS = "s.ts BETWEEN r.ts - 2 AND r.ts + 1 AND t.ts BETWEEN s.ts - 1 AND s.ts + 3"
COMMON = "r.i = s.i AND s.i = t.i"
TRIANGLE = "r.i = s.i AND s.n = t.n AND r.n = t.i"
CYCLE = "abs(r.i - s.i) <= 1 AND abs(s.n - t.n) < 2 AND abs(r.n - t.i) <= 1"
CHAIN = "abs(r.i - s.i) <= 1 AND abs(s.n - t.n) <= 1"
TIMED = {"event_time": "ts", "watermark": DISORDER}


@dataclass(frozen=True)
class Shape:
    """One join, and how it is run."""

    on: str
    strategy: str
    instances: int
    layout: str = "shared"
    options: dict[str, Any] = field(default_factory=dict)


SHAPES = {
    "common key, hash": Shape(COMMON, "hash", 3),
    "common key, bounds, hash": Shape(f"{COMMON} AND {BOUNDS} AND r.v <= t.v", "hash", 2, "shared", TIMED),
    "triangle, hypercube": Shape(TRIANGLE, "hypercube", 8),
    "triangle, bounds, hypercube": Shape(f"{TRIANGLE} AND {BOUNDS}", "hypercube", 4, "shared", TIMED),
    "cyclic bands, trijoin": Shape(CYCLE, "trijoin", 3, "split"),
    "cyclic bands, bounds, trijoin of pairs": Shape(
        f"{CYCLE} AND {BOUNDS}", "trijoin(packing=paired)", 2, "shared", TIMED
    ),
    "chain of bands, trijoin": Shape(CHAIN, "trijoin(units=1:2:1)", 4, "split"),
    "chain, bounds, trijoin from the other end": Shape(
        f"r.name = s.name AND s.i = t.i AND {BOUNDS} AND r.v + s.v > t.v", "trijoin(forward=t)", 3, "split", TIMED
    ),
    "chain whose middle comes last, windows, trijoin": Shape(
        "abs(r.i - t.i) <= 1 AND s.n = t.n", "trijoin", 2, "shared", {**TIMED, "window": evenjoin.sliding(4, 2)}
    ),
    "chain of bands, tree": Shape(CHAIN, "tree", 4, "split"),
    "chain, bounds, tree": Shape(f"{CHAIN} AND {BOUNDS}", "tree(last=r)", 2, "shared", TIMED),
    "a side that nothing drives, tree": Shape("r.i = s.i AND t.v <> r.v AND s.v > 2", "tree", 3),
}


@pytest.mark.parametrize(("seed", "name"), list(enumerate(SHAPES)), ids=list(SHAPES))
def test_the_answer_of_brute_force(seed, name, spark, tmp_path):
    """Three batches of each shape of join: every result once."""
    shape, seen = SHAPES[name], Collected()
    whole = triples(tmp_path, seed=seed)
    joined = evenjoin.join(
        triple_streams(spark, tmp_path), on=shape.on, select=SELECT, strategy=shape.strategy,
        instances=shape.instances, layout=shape.layout, **shape.options,
    )  # fmt: skip
    writer = joined.writeStream.foreachBatch(seen).option("checkpointLocation", str(tmp_path / "ck"))
    writer.trigger(availableNow=True).start().awaitTermination()
    expected = brute_force(build_spec(TRIPLES, shape.on, select=SELECT, **shape.options), whole)
    assert multiset(pa.concat_tables(seen.batches.values())) == expected
    assert len(expected) > 20
