"""Joins of three and four sides on cubes, planned anew as they go: the results are those of a brute-force join."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.placement import Cube
from evenjoin.testing import brute_force, multiset

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")
SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.int64()), ("y", pa.int64())])


def stream(seed, rows, low, high):
    x, y = np.random.default_rng(seed).integers(low, high, (2, rows))
    return pa.table({"id": np.arange(rows) + seed * 10_000, "x": x, "y": y}, schema=SCHEMA)


def batches(aliases, rows, values, shift=0, growing=0):
    """Six batches. Values move up by `shift` a batch; the first side sends `growing` rows more in each."""
    lows = [shift * number for number in range(6)]
    return [
        {
            alias: stream(6 * number + side, rows + growing * number * (side == 0), low, low + values)
            for side, alias in enumerate(aliases)
        }
        for number, low in enumerate(lows)
    ]


def joined(on, aliases, data, instances, **more):
    """What a join finds, what it should find, and the table that it ends with."""
    with evenjoin.local(
        dict.fromkeys(aliases, SCHEMA), on=on, select=[f"{a}.id AS {a}" for a in aliases], strategy="hypercube",
        instances=instances, guards=evenjoin.Guards(cooldown=0), **more,
    ) as join:  # fmt: skip
        first = join.table()
        found = multiset(pa.concat_tables([join.process(batch) for batch in data]))
        whole = {alias: pa.concat_tables([batch[alias] for batch in data]) for alias in aliases}
        return found, brute_force(join._spec, whole), first, join.table(), join.migrations()


def kinds(table):
    cube = table.regions[0].topology
    assert isinstance(cube, Cube)
    return [dim.kind for dim in cube.dims if dim.size > 1]


@pytest.mark.parametrize(
    ("on", "begin", "end"),
    [
        ("r.x = s.x AND s.y = t.y AND t.x = r.y", ["hash"] * 3, ["hash"] * 3),
        ("r.x = s.x AND s.y = t.y", ["hash"] * 2, ["hash"] * 2),
        ("abs(r.x - s.x) <= 1 AND abs(s.y - t.y) <= 1 AND abs(t.x - r.y) <= 1", ["u"] * 3, ["range"] * 3),
        ("abs(r.x - s.x) <= 1 AND abs(s.y - t.y) <= 1", ["u"] * 3, ["range"] * 2),
        ("abs(r.x - s.x) <= 1 AND abs(s.x - t.x) <= 1", ["u"] * 3, ["range"]),
        ("r.x = s.x AND abs(s.x - t.y) <= 1", ["hash", "u"], ["hash", "range"]),
        ("r.x = s.x AND s.y < t.y", ["hash", "u"], None),
        ("r.x = s.x AND s.y <> t.y", ["hash", "u"], None),
    ],
)
def test_three_sides(on, begin, end):
    """Equalities are hashed from the start; bands get cuts once there are samples of all indexes."""
    found, expected, first, last, moved = joined(on, "rst", batches("rst", 25, 40), 8)
    assert found == expected
    assert len(found) > 10
    assert kinds(first) == begin
    if end is not None:
        assert kinds(last) == end
        assert bool(moved) == (begin != end)


@pytest.mark.parametrize("redact", [False, True])
def test_values_and_volumes_drift(redact):
    """Values leave the cuts and one side grows, so cubes change several times. Where keys are redacted nothing is
    sampled, so no table names one."""
    data = batches("rst", 20, 60, shift=60, growing=10)
    on = "abs(r.x - s.x) <= 3 AND abs(s.y - t.y) <= 3"
    found, expected, _, last, moved = joined(on, "rst", data, 9, redact_keys=redact)
    assert found == expected
    assert ("range" in kinds(last)) == (not redact)
    assert redact or len(moved) >= 1


def test_four_sides():
    """A chain of two equalities and a band."""
    on = "a.x = b.x AND b.y = c.y AND abs(c.x - d.x) <= 1"
    found, expected, first, _, _ = joined(on, "abcd", batches("abcd", 15, 12), 12)
    assert found == expected
    assert len(found) > 10
    assert kinds(first) == ["hash", "hash", "u"]
