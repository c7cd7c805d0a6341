"""What strategies that balance volumes say, and when `auto` on bands makes a plan of as many tasks."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.runtime.rebalance import CALLED
from evenjoin.strategies.bargain import Bargain
from evenjoin.strategies.volume_words import plans, stays

SCHEMA = pa.schema([("x", pa.int64()), ("t", pa.int64())])
BAND = "abs(l.x - r.x) <= 2 AND r.t BETWEEN l.t - 10 AND l.t + 10"


def test_the_sentences():
    """Who is fullest, what a plan would bring and move, why it waits."""
    load, made = np.array([100.0, 4200.0, 3476.0]), np.array([2700.0, 2600.0, 2500.0])
    full = "the fullest of 3 tasks stores 4,200 tuples, 1.62 times the mean"
    assert stays(load, "tuples", "even") == f"{full}: left as it is"
    assert stays(load, "tuples", "over budget: 9 tuples would move, 8 may").startswith(f"{full}: over budget: 9")
    assert plans(load, "tuples", made, 9100) == (
        f"{full}; a new plan on 3 tasks would store 2,700 there and move 9,100 tuples"
    )
    assert stays(load[:1], "bytes", "no better table") == "the only task stores 100 bytes: no better plan was found"
    assert stays(0 * load, "tuples", "even") == "nothing is stored yet: left as it is"


@pytest.mark.parametrize(
    ("saving", "price", "batches", "earned"),
    [(10.0, 80.0, 0, 1.0), (10.0, 160.0, 10, 1.0), (10.0, 160.0, 0, 0.5), (-5.0, 80.0, 99, 0.0)],
)
def test_a_change_of_areas_earns_its_price(saving, price, batches, earned):
    """Ten batches of hope and those that it has been called for, times what it saves, against 1.25 times its price.
    What saves nothing never earns anything."""
    assert Bargain(saving, 100.0, price).earned(batches) == pytest.approx(earned)


def rows(number, hot=0.3, count=600):
    out = {}
    for side, alias in enumerate("lr"):
        rng = np.random.default_rng([number, side])
        x = np.where(rng.random(count) < hot, 5000, rng.integers(0, 100_000, count))
        out[alias] = pa.table([x, 10 * number + rng.integers(0, 10, count)], schema=SCHEMA)
    return out


def sentences(strategy, on=BAND, sides="lr", batches=6, **options):
    """The verdicts of some batches."""
    out = []
    with evenjoin.local(
        dict.fromkeys(sides, SCHEMA), on, strategy=strategy, instances=8, event_time="t", watermark=0, **options
    ) as join:
        for number in range(batches):
            part = rows(number)
            join.process({alias: part["lr"[n % 2]] for n, alias in enumerate(sides)})
            out.append((join._driver.last.verdict, join._driver.last.memory))
    return out


@pytest.mark.parametrize("strategy", [None, "adsp", "square", "dynamic"])
def test_every_verdict_on_a_band_says_what_the_fullest_task_holds(strategy):
    for verdict, _ in sentences(strategy):
        assert re.match(r"the fullest of 8 tasks stores [\d,]+ tuples, \d\.\d\d times the mean[:;] ", verdict.sentence)


def test_every_verdict_of_a_cube_says_it_too():
    on = "a.x = b.x AND abs(b.x - c.x) <= 1 AND b.t BETWEEN a.t - 5 AND a.t + 5 AND c.t BETWEEN b.t - 5 AND b.t + 5"
    for verdict, _ in sentences("hypercube", on, "abc", 3):
        assert re.match(r"the fullest of 8 tasks stores [\d,]+ tuples, ", verdict.sentence)


@pytest.mark.parametrize(("pause", "calls"), [(1e9, False), (0.0, True)])
def test_auto_waits_until_areas_repay_themselves(pause, calls, monkeypatch):
    """The first plan, from one grid to areas, is made at once if the move is free, and waited for if it is dear. It is
    said which, and a restart would know since when it has been waited."""
    monkeypatch.setattr("evenjoin.strategies.bargain.Price.of", lambda self, tuples: pause)
    told = sentences(None)
    assert any(verdict.calls_for_rebalance for verdict, _ in told) is calls
    said = [verdict.sentence for verdict, _ in told]
    if calls:
        assert any(re.search(r", which saves .* a batch and costs 0 ms once: doing it$", one) for one in said)
    else:
        waiting = [
            n for n, one in enumerate(said) if re.search(r"saves .* and costs .* once: waiting, \d+% earned$", one)
        ]
        assert len(waiting) >= 3
        assert [told[n][1][CALLED][1] for n in waiting] == list(range(1, len(waiting) + 1))
