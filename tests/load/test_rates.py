"""Rates: noise is smoothed, a change of the stream is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.load.items import Items, items_of, planning_items
from evenjoin.load.rates import rates_after, smoothed
from evenjoin.load.refined import refined_items
from evenjoin.placement.place import bucket_of
from evenjoin.strategies import DJB


def items(keys, rest):
    """Keys 0, 1, ... of bucket 0 with so many arrivals on side 0, and the rest of two buckets. Side 1 is silent."""
    arrived = np.array([*keys, *rest], np.float64)
    number = np.arange(len(arrived))
    counts = np.stack([arrived, np.zeros_like(arrived)])
    return Items(
        np.where(number < len(keys), number, 0),
        number < len(keys),
        np.array([0] * len(keys) + [0, 1]),
        counts,
        counts,
        np.zeros_like(counts),
    )


def seen(*batches):
    """The arrivals of side 0 as a planner sees them after these batches."""
    rates = None
    for batch in batches:
        rates = rates_after(rates, items(*batch))
    return smoothed(items(*batches[-1]), rates).arrived[0].tolist()


STEADY = [((100, 50), (500, 9350))] * 4


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (((130, 50), (500, 9320)), [107.5, 50, 500, 9342.5]),
        (((300, 50), (500, 9150)), [300, 50, 500, 9300]),
        (((100, 2), (548, 9350)), [100, 2, 512, 9350]),
        (((130, 50), (470, 9350)), [107.5, 50, 492.5, 9350]),
        (((100, 50), (5500, 4350)), [100, 50, 5500, 4350]),
        (((100, 50), (650, 9200)), [100, 50, 537.5, 9312.5]),
        (((400, 200), (2000, 37_400)), [175, 87.5, 875, 16362.5]),
        (((0, 0), (0, 0)), [75, 37.5, 375, 7012.5]),
    ],
    ids=[
        "a change that may be chance is smoothed",
        "a key that cannot be three times as frequent by chance is believed, and its bucket grows by as much",
        "a key that stays away is believed, and its bucket sinks by as much",
        "a bucket follows its key by a quarter as well",
        "a bucket that is far larger is believed",
        "a change by less than half is smoothed however sure it is",
        "a batch four times as large is no change of any key",
        "nor is an empty one",
    ],
)
def test_what_is_believed(last, expected):
    """Four batches with 100 and 50 tuples of the keys, then this one."""
    assert seen(*STEADY, last) == pytest.approx(expected, abs=0.6)


def test_a_stationary_stream_has_hardly_any_jumps(monkeypatch):
    """Poisson counts of 2,000 keys from 1 to 1,000 tuples a batch, batches of very different sizes: 40 batches give at
    least 1,995 keys the rates that smoothing alone gives."""
    rng = np.random.default_rng(1)
    means = np.geomspace(1, 1000, 2000)
    batches = [
        (rng.poisson(means * size).tolist(), rng.poisson([3000 * size, 9000 * size]).tolist())
        for size in rng.uniform(0.5, 2, 40)
    ]
    ours = np.array(seen(*batches))
    monkeypatch.setattr("evenjoin.load.rates.JUMP", np.inf)
    assert (ours != seen(*batches))[:2000].sum() <= 5


def test_a_window_shorter_than_a_batch_leans_to_the_first_side():
    """There nearly all pairs are of tuples that came in the same batch, and side 0 counts as the first to come: the
    pairs are found in its store, for ever. Planners that took both stores to be alike divided the wrong one."""
    rng = np.random.default_rng(3)
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])
    join = evenjoin.local(
        {"r": schema, "s": schema}, on="r.k = s.k AND s.t BETWEEN r.t - 20 AND r.t + 20", event_time="t", watermark=0,
        strategy="djb", instances=4,
    )  # fmt: skip
    for batch in range(6):
        rows = {
            side: pa.table(
                {
                    "k": np.where(rng.random(3000) < 0.6, 7, rng.integers(0, 500, 3000)),
                    "t": batch * 1000 + rng.integers(0, 1000, 3000),
                }
            )
            for side in "rs"
        }
        join.process(rows)
    report, table = join.load(), join.table()
    met = items_of(report, table)
    assert met.results[0].sum() > 5 * met.results[1].sum(), "the premise"
    seen = planning_items(report, table)
    share = met.results[0].sum() / met.results.sum()
    assert seen.results[0].sum() / seen.results.sum() == pytest.approx(share, abs=0.05)
    assert DJB().imbalance(met, table) < 0.5, "the hot key is divided where its pairs are found"


def in_their_buckets(keys, rest):
    """The same items with keys whose codes hash to bucket 0 of 2, where `items` says that they are."""
    some = items(keys, rest)
    codes = np.arange(1000)
    codes = codes[bucket_of(codes, 2) == 0][: len(keys)]
    return replace(some, code=np.concatenate([codes, np.zeros(2, np.int64)]))


def test_rates_follow_finer_buckets():
    """A key's rate goes to its own fine bucket, the rest of a bucket to all of its parts; the smoothing goes on."""
    rates = None
    for batch in STEADY:
        rates = rates_after(rates, in_their_buckets(*batch))
    fine = rates_after(rates, refined_items(in_their_buckets(*STEADY[-1]), 4))
    assert fine.batches == len(STEADY) + 1
    assert [sum(fine.in_buckets[0][k : k + 4]) for k in (0, 4)] == pytest.approx([650, 9350])
    assert fine.of_keys == rates.of_keys
    again = rates_after(fine, in_their_buckets(*STEADY[-1]))
    assert again.batches == 1  # 8 buckets are not divided by 2: that is no refinement


def test_a_jump_in_a_fine_bucket_is_one():
    """After the refinement counts are compared with the parts of the old rates, so a steady stream has no jump and a
    bucket that trebles is believed."""
    rates = None
    for batch in STEADY:
        rates = rates_after(rates, in_their_buckets(*batch))
    now = refined_items(in_their_buckets(*STEADY[-1]), 4)
    arrived = now.arrived.copy()
    arrived[0, -1] *= 3
    steady = np.array(rates_after(rates, now).in_buckets[0])
    grown = np.array(rates_after(rates, replace(now, arrived=arrived)).in_buckets[0])
    assert steady[-1] == pytest.approx(9350 / 4)
    assert grown[-1] > 2 * steady[-1]
    assert grown[:-1] == pytest.approx(steady[:-1], rel=0.15)


@pytest.mark.parametrize("left", [0, 1, 30])
def test_what_has_expired_makes_no_flood_of_results(left):
    """6,000 tuples found 30 of the other side each, and of those `left` are still stored: in the next batch, when 30
    are stored again, no more can be found than there are pairs."""
    one = items((6000,), (0, 0))
    usual = replace(
        one, stored=np.array([[6000, 0, 0], [30, 0, 0]], float), results=np.array([[0.0] * 3, [180_000, 0, 0]])
    )
    rates = rates_after(None, usual)
    rates = rates_after(rates, replace(usual, stored=np.array([[6000, 0, 0], [left, 0, 0]], float)))
    rates = rates_after(rates, usual)
    assert smoothed(usual, rates).results.sum() == pytest.approx(180_000)
