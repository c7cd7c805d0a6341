"""Hashed codes that collide: keys that share a code are told apart by the keys themselves."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenjoin
from evenjoin.kernels import hashing
from evenjoin.spec import build_spec
from evenjoin.testing import brute_force, multiset, split

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("x", pa.float64()), ("t", pa.int64())])
SCHEMAS = {"l": SCHEMA, "r": SCHEMA}
SELECT = ["l.id AS a", "r.id AS b", "l.name", "r.x"]
CONDITIONS = [
    "l.name = r.name",
    "l.name <=> r.name",
    "l.name = r.name AND l.x = r.x",
    "l.name <=> r.name AND l.x <=> r.x AND r.t BETWEEN l.t - 2 AND l.t + 1",
    "upper(l.name) = upper(r.name)",
]


@st.composite
def tables(draw):
    names = st.sampled_from([None, "", "a", "A", "b", "ab", "a longer name than eight"])
    numbers = st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")])
    rows = draw(st.lists(st.tuples(names, numbers, st.integers(0, 5)), max_size=14))
    return pa.table(
        {"id": list(range(len(rows))), **{c: [r[i] for r in rows] for i, c in enumerate(("name", "x", "t"))}}, SCHEMA
    )


@pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")
@pytest.mark.parametrize("codes", [1, 2])
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(CONDITIONS), tables(), tables(), st.integers(1, 3), st.data())
def test_the_answer_does_not_depend_on_the_hash(codes, on, left, right, instances, data):
    """With only one or two codes for all keys: the brute-force result, over batches, merges and instances."""
    real = hashing.hash_column
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashing, "hash_column", lambda column: (real(column) % np.uint64(codes)) << np.uint64(40))
        patch.setattr(hashing, "mix64", lambda values: values.astype(np.uint64))
        cuts = data.draw(st.lists(st.integers(0, 14), max_size=5))
        parts = zip(split(left, cuts), split(right, cuts), strict=True)
        options = {"event_time": "t"} if ".t" in on else {}
        with evenjoin.local(SCHEMAS, on, select=SELECT, instances=instances, merge_budget=20, **options) as join:
            results = [join.process({"l": one, "r": two}) for one, two in parts]
    assert multiset(pa.concat_tables(results)) == brute_force(
        build_spec(SCHEMAS, on, select=SELECT, **options), {"l": left, "r": right}
    )


@pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")
def test_a_real_collision():
    """Two names whose 32-bit codes are equal, found by search, do not meet each other; each meets itself."""
    names = pa.array([f"name {n}" for n in range(200_000)])
    codes, _ = hashing.KeyCodec((pa.string(),), (False,)).encode([names], len(names))
    order = np.argsort(codes, kind="stable")
    twins = np.flatnonzero(np.diff(codes[order]) == 0)
    assert len(twins) > 0
    one, two = names[int(order[twins[0]])].as_py(), names[int(order[twins[0] + 1])].as_py()
    schema = pa.schema([("name", pa.string())])
    with evenjoin.local({"l": schema, "r": schema}, "l.name = r.name", select=["l.name AS a", "r.name AS b"]) as join:
        results = [join.process({a: pa.table({"name": [one, two]}) for a in "lr"}) for _ in range(2)]
    assert multiset(pa.concat_tables(results)) == {(one, one): 4, (two, two): 4}
