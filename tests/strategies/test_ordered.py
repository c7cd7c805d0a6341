"""Keyed strategies on bands: where buckets are cut, when they are cut anew, and that the answer stays the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenjoin
from evenjoin.errors import SpecError
from evenjoin.load.djb import costs, workloads
from evenjoin.load.items import planning_items
from evenjoin.placement import Keys, check
from evenjoin.placement.place import buckets_of
from evenjoin.spec import build_spec
from evenjoin.strategies.base import resolve
from evenjoin.strategies.bistream import hash_table
from evenjoin.strategies.djb.draft import Draft
from evenjoin.strategies.djb.planner import candidates
from evenjoin.strategies.ordered import Ordered, cuts_for
from evenjoin.testing import brute_force, multiset
from thorough import examples

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64())])
SIDES = {"l": SCHEMA, "r": SCHEMA}
SELECT = ["l.id AS a", "r.id AS b"]
NEAR = "abs(l.k - r.k) <= 2"


def points(left, right=()):
    """Points of two sides, given as {code: weight}."""
    return tuple(
        (np.array(sorted(side), np.int64), np.array([side[code] for code in sorted(side)], np.float64))
        for side in (dict(left), dict(right))
    )


def batches(codes, rows=200, seed=5):
    """One batch for each function that draws codes: `codes(rng, rows)`."""
    rng = np.random.default_rng(seed)
    for number, draw in enumerate(codes):
        ids = np.arange(number * rows, (number + 1) * rows)
        yield {alias: pa.table({"id": ids, "k": draw(rng, rows)}, schema=SCHEMA) for alias in SIDES}


def between(low, high):
    return lambda rng, rows: rng.integers(low, high, rows)


def hot(code, part, low=0, high=1000):
    """This part of the rows has one code, the others any."""
    return lambda rng, rows: np.where(rng.random(rows) < part, code, rng.integers(low, high, rows))


def joined(strategy, codes, **options):
    """The tables after each of these batches, and the last load; the results were those of brute force."""
    parts, out, tables = list(batches(codes)), [], []
    options = {"instances": 4, **options}
    with evenjoin.local(SIDES, NEAR, select=SELECT, strategy=strategy, **options) as join:
        for batch in parts:
            out.append(join.process(batch))
            tables.append(join.table())
        load = join.load()
    data = {alias: pa.concat_tables([part[alias] for part in parts]) for alias in SIDES}
    assert multiset(pa.concat_tables(out)) == brute_force(build_spec(SIDES, NEAR, select=SELECT), data)
    return tables, load


@pytest.mark.parametrize(
    ("left", "right", "buckets", "cuts"),
    [
        (dict.fromkeys(range(8), 1), {}, 4, (2, 4, 6)),
        (dict.fromkeys(range(4), 1), dict.fromkeys(range(4, 8), 1), 4, (2, 4, 6)),
        ({0: 1, 1: 9, 2: 1, 3: 1}, {}, 3, (1, 2)),
        ({5: 10}, {}, 3, (5, 5)),
        ({1: 1, 2: 1}, {}, 1, ()),
    ],
    ids=["as many codes each", "both sides count", "a hot code alone", "one code: the others are empty", "one bucket"],
)
def test_buckets_have_as_many_tuples_each(left, right, buckets, cuts):
    assert cuts_for(points(left, right), buckets) == cuts


@settings(max_examples=examples(50), deadline=None)
@given(st.dictionaries(st.integers(-50, 50), st.integers(1, 9), min_size=1), st.integers(1, 9))
def test_no_bucket_is_fuller_than_its_share_and_one_code(weights, buckets):
    """A cut is at the border of codes that is nearest in rank, so it is wrong by half a code at either end."""
    cuts = cuts_for(points(weights), buckets)
    assert list(cuts) == sorted(cuts)
    assert len(cuts) == buckets - 1
    table = replace(hash_table("hash", buckets, 1, 2, "shared"), cuts=cuts)
    codes = np.array(list(weights))
    full = np.bincount(buckets_of(table, codes), list(weights.values()), buckets)
    assert full.max() <= sum(weights.values()) / buckets + max(weights.values()) + 1e-9


@pytest.mark.parametrize("layout", ["shared", "split"])
@pytest.mark.parametrize("strategy", ["hash", "contrand(groups=2)"])
def test_a_keyed_strategy_orders_its_buckets_once_codes_are_known(strategy, layout):
    """Batch 0 runs under one region; from then on the strategy's own table has intervals for buckets."""
    own = resolve(strategy).initial(4, 2, layout)
    tables, _ = joined(strategy, [hot(77, 0.2)] * 5, layout=layout)
    assert {(table.buckets, len(table.regions), table.ordered) for table in tables} == {
        (own.buckets, len(own.regions), True)
    }
    assert len({table.name for table in tables}) == 1


def test_most_tuples_go_to_one_instance():
    """That is what intervals are for: under `random` each of them goes to all four."""
    sent = {}
    for strategy in ("hash", "random"):
        _, load = joined(strategy, [between(0, 10_000)] * 4)
        sent[strategy] = sum(sum(one.messages) for one in load.instances)
    assert sent["random"] == 4 * 400
    assert 400 <= sent["hash"] <= 1.1 * 400


def test_buckets_are_cut_anew_when_codes_have_drifted():
    """Codes of the first batches are few in the end: the last instance would store nearly everything."""
    tables, _ = joined("hash", [between(0, 100), *[between(5000, 9000)] * 5])
    cuts = [table.cuts for table in tables]
    new = [sum(cut >= 5000 for cut in some) for some in cuts]
    assert (new[0], len(cuts[0])) == (0, 15)
    assert new[-1] >= 8
    assert len(set(cuts)) <= 3


@pytest.mark.parametrize("strategy", ["hash", "contrand(groups=2)"])
def test_scaling_keeps_buckets_ordered(strategy):
    """Out and in, or subgroup by subgroup: whatever the number of instances, each table after the first is ordered."""
    scaling = evenjoin.Scaling(task_capacity=300, min_instances=2, max_instances=12)
    tables, _ = joined(strategy, [hot(77, 0.2)] * 6, instances="auto", scaling=scaling)
    assert tables[-1].instances > tables[0].instances
    assert [table.ordered for table in tables[2:]] == [True] * 4


@pytest.mark.parametrize("strategy", ["hash", "djb", "readj"])
def test_scaling_hands_ordered_buckets_over(strategy):
    """2 -> 5 and in steps between: the buckets stay as they were cut."""
    scaling = evenjoin.Scaling(task_capacity=300, min_instances=2, max_instances=5)
    tables, _ = joined(strategy, [between(0, 1000)] * 6, instances="auto", scaling=scaling)
    ordered = [table for table in tables if table.ordered]
    assert {ordered[0].instances, ordered[-1].instances} == {2, 5}
    assert len({table.cuts for table in ordered}) == 1


@pytest.mark.parametrize("strategy", ["hash", "djb"])
def test_a_restart_of_another_size_hands_ordered_buckets_over(strategy, tmp_path):
    """4 -> 5: the same intervals, and a fifth of the tuples moves."""
    sizes = []
    for instances, part in zip([4, 4, 4, 5], batches([between(0, 1000)] * 4, rows=1000), strict=True):
        with evenjoin.local(SIDES, NEAR, strategy=strategy, instances=instances, checkpoint=tmp_path) as join:
            join.process(part)
            sizes.append((join.table().cuts, sum(sum(load.stored) for load in join.load().instances)))
            moved = [event.tuples for event in join.migrations() if event.batch == 3]
    assert sizes[3][0] == sizes[2][0]
    assert 0.1 < sum(moved) / sizes[2][1] < 0.3


@pytest.mark.parametrize(
    ("strategy", "why"), [("fastjoin", "a key takes its probes along"), ("lsstream", "queues for several partitions")]
)
def test_a_strategy_whose_load_model_does_not_hold_is_refused_with_the_reason(strategy, why):
    """And with what can be used instead."""
    with pytest.raises(SpecError, match=rf"{why}[^\n]*\n.*use one of: .*adsp.*contrand.*djb.*hash.*readj"):
        evenjoin.local(SIDES, NEAR, strategy=strategy, instances=4)


@pytest.mark.parametrize("condition", ["l.k < r.k", "l.k <> r.k", "l.k = r.k"])
def test_only_a_band_with_two_ends_has_ordered_buckets(condition):
    """A comparison lets nearly all intervals match, and an equality needs none."""
    spec = build_spec(SIDES, condition)
    assert not isinstance(resolve("hash").for_join(spec), Ordered)


def test_redacted_keys_are_not_cut_between():
    """The cuts are keys, and a table is a file that people read."""
    with pytest.raises(SpecError, match="its tables name the keys"):
        evenjoin.local(SIDES, NEAR, strategy="hash", instances=4, redact_keys=True)


GUARDS = evenjoin.Guards(cooldown=0, min_gain=0, min_work=0)


@pytest.mark.parametrize("layout", ["shared", "split"])
@pytest.mark.parametrize("strategy", ["readj", "djb"])
def test_a_planner_rebalances_a_band(strategy, layout):
    """Half of the tuples have one key: after the cuts the planner still changes the table, and the answer stays."""
    tables, load = joined(strategy, [hot(500, 0.5)] * 7, layout=layout, guards=GUARDS)
    ordered = [table for table in tables if table.ordered]
    assert len(ordered) >= 6
    assert load.askers
    if strategy == "djb":
        keys = [region for table in ordered for region in table.regions if isinstance(region.takes, Keys)]
        assert 500 in {code for region in keys for code in region.takes.codes}


def test_djb_splits_the_hot_key_of_a_band():
    """Key 500 is on one instance at first, later on several."""
    tables, _ = joined("djb", [hot(500, 0.5)] * 8, guards=GUARDS)
    units = [
        max((len(set(side)) for r in table.regions for side in r.topology.units), default=1)
        for table in tables
        if table.ordered
    ]
    assert (units[0], units[-1] > 1) == (1, True)


@pytest.mark.parametrize("layout", ["shared", "split"])
def test_a_draft_on_ordered_buckets_says_what_its_table_does(layout):
    """D-JB's invariant: the running load is that of the table it ends in, and the costs are those of the change."""
    offers = 0
    with evenjoin.local(SIDES, NEAR, select=SELECT, strategy="djb", instances=4, layout=layout, track=8) as join:
        for batch in batches([hot(500, 0.4)] * 5):
            join.process(batch)
            table = join._driver.table_named(join._driver.last.table)
            if not table.ordered:
                continue
            items = planning_items(join.load(), table)
            for offer in candidates(Draft(items, table, 0.05)):
                made = check(offer.table())
                np.testing.assert_allclose(offer.load, np.nan_to_num(workloads(items, made)), rtol=1e-9, atol=1e-6)
                told, wanted = offer.costs, costs(items, table, made)
                assert told.duplication == pytest.approx(wanted.duplication)
                assert told.migration == pytest.approx(wanted.migration)
                offers += 1
    assert offers > 0


def test_new_cuts_have_no_forecast_and_say_why():
    """The load was counted by other buckets, or by none. What is not foreseen is None, in verdict and event; it is not
    told as a perfect 0."""
    with evenjoin.local(SIDES, NEAR, select=SELECT, strategy="djb", instances=4, guards=GUARDS) as join:
        for batch in batches([between(0, 1000)] * 2 + [between(50_000, 50_020)] * 10):
            join.process(batch)
        cuts = [event for event in join.migrations() if event.why == "imbalance"]
    assert len(cuts) >= 2, "the premise: cut at first, and again when codes have drifted"
    assert cuts[0].imbalance_forecast is None
    assert all(event.imbalance_forecast != 0 for event in cuts)


def test_the_verdict_on_new_cuts_tells_why_nothing_is_foreseen():
    with evenjoin.local(SIDES, NEAR, select=SELECT, strategy="readj", instances=4, guards=GUARDS) as join:
        for batch in batches([between(0, 1000)]):
            join.process(batch)
        verdict = join._driver.last.verdict
    assert (verdict.calls_for_rebalance, verdict.forecast) == (True, None)
    assert verdict.sentence.startswith("rebalance: buckets are cut anew")
