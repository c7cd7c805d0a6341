"""An instance's batch, alone: who finds whom, what is kept, what the receipt says."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from alone import Alone, one_region
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.placement import Biclique, Buckets, Region, RoutingTable
from evenjoin.spec import build_spec
from evenjoin.state.segment import FAN
from thorough import examples

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("v", pa.int64())])
NAMED = pa.schema([("k", pa.string()), ("t", pa.int64()), ("v", pa.int64())])
NEAR = "l.k = r.k AND r.t BETWEEN l.t - 2 AND l.t + 3"


def spec(on=NEAR, schema=SCHEMA, **more):
    return build_spec({"l": schema, "r": schema}, on, select=["l.v AS l", "r.v AS r"],
                      **{"event_time": "t", "watermark": 100, **more})  # fmt: skip


def row(v, k=1, t=0):
    return {"k": k, "t": t, "v": v}


def test_old_and_new_tuples_meet_once():
    """New r meets old and new l; new l meets old r only: each pair in the batch in which its later tuple came."""
    alone = Alone(spec())
    assert alone.batch({"l": [row(1)], "r": [row(2)]})[0] == [(1, 2)]
    assert Counter(alone.batch({"l": [row(3)], "r": [row(4)]})[0]) == Counter([(1, 4), (3, 4), (3, 2)])
    assert alone.batch({})[0] == []


def test_time_bounds_are_seen_from_both_sides():
    """-2 <= r.t - l.t <= 3, whichever came first."""
    for first, second in (("l", "r"), ("r", "l")):
        for gap, found in ((-3, 0), (-2, 1), (3, 1), (4, 0)):
            alone = Alone(spec())
            times = {"l": 10, "r": 10 + gap}
            alone.batch({first: [row(1, t=times[first])]})
            assert len(alone.batch({second: [row(2, t=times[second])]})[0]) == found, (first, gap)


def test_the_receipt_as_a_literal():
    """Two l, three r, one key in common: what came, probed and was found, by side; runs by place."""
    alone = Alone(spec())
    _, receipt = alone.batch({"l": [row(1), row(2, k=7)], "r": [row(3), row(4), row(5, k=9)]})
    assert (receipt.batch, receipt.instance) == (0, 0)
    assert (receipt.stored, receipt.probes, receipt.results) == ((2, 3), (2, 3), (2, 0))
    assert {place: [run.rows for run in runs] for place, runs in receipt.sealed.items()} == {(0, 0): [2], (0, 1): [3]}
    assert (receipt.merged, receipt.late_files) == ({}, ())
    assert receipt.cells == ((0, 0, 2, 0, 2), (1, 0, 3, 0, 0))
    assert [(intake.rows, intake.latest) for intake in receipt.intake] == [(2, 0), (3, 0)]
    key = next(key for key in receipt.heavy if key.name == "1")
    assert (key.arrived, key.probed, key.results) == ((1, 2), (1, 2), (2, 0))
    assert receipt.busy_ms >= receipt.receive_ms >= 0


def test_roles_decide_who_is_kept_and_who_asks():
    """Layout split: l is stored on instance 0 and asks on 1, r the other way round."""
    table = RoutingTable(0, 2, 2, 1, (Region(Buckets((0,)), Biclique(((0,), (1,)))),))
    data = {"l": [row(1)], "r": [row(2), row(3)]}
    on_l, on_r = Alone(spec(), table, 0), Alone(spec(), table, 1)
    results, receipt = on_l.batch(data)
    assert (sorted(results), receipt.stored, receipt.probes) == ([(1, 2), (1, 3)], (1, 0), (0, 2))
    results, receipt = on_r.batch(data)
    assert (results, receipt.stored, receipt.probes) == ([], (0, 2), (1, 0))
    assert on_r.batch({"l": [row(9)]})[0] == [(9, 2), (9, 3)]
    assert on_l.batch({"l": [row(9)]})[0] == []


def test_no_result_taken_no_receipt():
    """A receipt says that the whole batch was taken: half of it leaves none, and nothing that a manifest names."""
    alone = Alone(spec())
    stream = alone.stream({"l": [row(1)], "r": [row(2)]}, pair_limit=1)
    next(stream)
    assert (alone.receipts(), alone.folder.names("receipts")) == ([], [])
    stream.close()
    assert alone.receipts() == []


def test_run_again_it_says_the_same_under_other_names():
    """A retried task: equal results, equal content, files of its own."""
    alone = Alone(spec())
    data = {"l": [row(v, k=v % 3) for v in range(20)], "r": [row(v, k=v % 3) for v in range(20)]}
    one, two = (list(alone.stream(data, attempt=name)) for name in ("a", "b"))
    assert one == two
    first, second = alone.receipts()
    files = [{run.file for runs in receipt.sealed.values() for run in runs} for receipt in (first, second)]
    assert not files[0] & files[1]
    crcs = [{p: [run.crc for run in runs] for p, runs in receipt.sealed.items()} for receipt in (first, second)]
    assert crcs[0] == crcs[1]


@pytest.mark.parametrize("limit", [1, 7, 64])
def test_results_come_in_bounded_batches(limit):
    """A hot key on both sides is quadratic; no chunk has more rows than the limit."""
    alone = Alone(spec())
    data = {"l": [row(v) for v in range(20)], "r": [row(v) for v in range(20)]}
    chunks = [batch.num_rows for batch in alone.stream(data, pair_limit=limit)]
    assert (max(chunks) <= limit, sum(chunks)) == (True, 400)


def test_runs_are_merged_when_a_tier_is_full():
    """After FAN batches of a size one run takes their place, and nothing is lost."""
    alone = Alone(spec(event_time=None, watermark=None, on="l.k = r.k"))
    for v in range(FAN):
        _, receipt = alone.batch({"l": [row(v)]})
        assert receipt.merged == {}
    _, receipt = alone.batch({"l": [row(FAN)]})
    assert len(receipt.merged[0, 0]) == FAN
    assert sorted(run.rows for run in alone.manifest.of(0, 0)) == [1, FAN]
    assert sorted(alone.batch({"r": [row(99)]})[0]) == [(v, 99) for v in range(FAN + 1)]


def test_the_steps_come_in_this_order():
    """Results first, then what is kept, then the receipt."""
    seen = []
    alone = Alone(spec())
    alone.batch({"l": [row(1)], "r": [row(2)]}, step=lambda name, instance: seen.append((name, instance)))
    assert seen == [("joined", 0), ("sealed", 0), ("receipt", 0)]


keys = st.integers(0, 3)
rows = st.lists(st.tuples(keys, st.integers(0, 12)), max_size=8)


@settings(max_examples=examples(120), deadline=None)
@given(
    st.sampled_from([
        (NEAR, SCHEMA), (NEAR, NAMED), ("l.k = r.k AND l.v <> r.v + 2", SCHEMA), ("abs(l.k - r.k) <= 1", SCHEMA),
        ("l.k <> r.k AND r.t >= l.t", SCHEMA), ("l.k <= r.k AND r.t BETWEEN l.t AND l.t + 4", SCHEMA),
    ]),
    st.lists(st.tuples(rows, rows), min_size=1, max_size=4), st.integers(1, 9),
)  # fmt: skip
def test_any_batches_give_the_pairs_of_the_whole(case, batches, limit):
    """Against two loops over all rows: every pair once, whatever the batches and the limit."""
    on, schema = case
    alone, number, every, found = Alone(spec(on, schema)), 0, {"l": [], "r": []}, Counter()
    for batch in batches:
        data = {"l": [], "r": []}
        for alias, drawn in zip("lr", batch, strict=True):
            for k, t in drawn:
                number += 1
                data[alias].append(row(number, str(k) if schema is NAMED else k, t))
        found.update(alone.batch(data, pair_limit=limit)[0])
        for alias in "lr":
            every[alias] += data[alias]
    matches = {
        NEAR: lambda a, b: a["k"] == b["k"] and -2 <= b["t"] - a["t"] <= 3,
        "l.k = r.k AND l.v <> r.v + 2": lambda a, b: a["k"] == b["k"] and a["v"] != b["v"] + 2,
        "abs(l.k - r.k) <= 1": lambda a, b: abs(a["k"] - b["k"]) <= 1,
        "l.k <> r.k AND r.t >= l.t": lambda a, b: a["k"] != b["k"] and b["t"] >= a["t"],
        "l.k <= r.k AND r.t BETWEEN l.t AND l.t + 4": lambda a, b: a["k"] <= b["k"] and 0 <= b["t"] - a["t"] <= 4,
    }[on]
    assert found == Counter((a["v"], b["v"]) for a in every["l"] for b in every["r"] if matches(a, b))


def test_a_masked_run_shows_only_what_its_table_stores_here():
    """After a migration some tuples of an old run belong elsewhere: they are not found, and a merge drops them."""
    alone = Alone(spec(event_time=None, watermark=None, on="l.k = r.k"), one_region(instances=2), 0)
    alone.batch({"l": [row(v) for v in range(40)]})
    (run,) = alone.manifest.of(0, 0)
    every = {v for v, _ in replace(alone).batch({"r": [row(99)]})[0]}
    later = RoutingTable(1, 2, 2, 1, (Region(Buckets((0,)), Biclique(((0, 1), (0, 1)), ((1, 4), (1, 1)))),))
    masked = replace(run, alive=run.rows // 3, mask="later")
    alone.manifest = alone.manifest.changed({(0, 0): [run]}, {(0, 0): [masked]})
    results, receipt = alone.batch({"r": [row(99)]}, masks={"later": later})
    found = {v for v, _ in results}
    assert found < every
    assert (len(every), len(found) > 0) == (run.rows, True)
    assert receipt.merged == {(0, 0): (masked,)}
    assert {v for v, _ in alone.batch({"r": [row(98)]})[0]} == found
