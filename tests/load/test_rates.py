"""Rates: noise is smoothed, a change of the stream is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evenjoin.load.items import Items
from evenjoin.load.rates import rates_after, smoothed


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
