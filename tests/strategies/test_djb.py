"""D-JB: its heuristics and algorithms as before/after literals, the choice among plans, joins that live through it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenjoin
from evenjoin.errors import SpecError
from evenjoin.load.djb import costs, records, workloads
from evenjoin.load.items import items_of, work_by_instance
from evenjoin.placement import Biclique, RoutingTable, check
from evenjoin.strategies import DJB, Hash, resolve
from evenjoin.strategies.djb.draft import Draft
from evenjoin.strategies.djb.ism import Heuristics, ism
from evenjoin.strategies.djb.moves import fill, move_in, move_out, take
from evenjoin.strategies.djb.planner import candidates
from evenjoin.strategies.djb.s2sm import s2sm
from evenjoin.strategies.edit import Edit
from evenjoin.testing import brute_force, multiset
from strategies.counted import counted, joined, zipf
from thorough import examples


def two_buckets(layout, instances=2):
    """Bucket 0 on unit 0, bucket 1 on unit 1 (split: of the first side)."""
    return DJB(buckets=2).initial(instances, 2, layout)


def lefts(**arrived):
    """Tuples of side 0 only, by name k<code>: in layout shared each is stored once and probes once."""
    return {int(name[1:]): (count, 0, count, 0, 0, 0) for name, count in arrived.items()}


def draft_of(table, keys, heavy=None, theta=0.2):
    return Draft(items_of(counted(table, keys, heavy), table), table, theta)


def agrees(draft):
    """The draft's running load is that of the table it ends in, and its costs are those of the change."""
    now = np.nan_to_num(workloads(draft.items, draft.table()))
    np.testing.assert_allclose(draft.load, now, rtol=1e-9, atol=1e-6)
    told, made = draft.costs, costs(draft.items, draft.old, draft.table())
    assert (told.routing, told.duplication) == (made.routing, pytest.approx(made.duplication))
    assert told.migration == pytest.approx(made.migration)
    return draft.load.tolist()


def test_h1_moves_the_largest_key_that_fits():
    """120 against 40, bounds 64..96: key 3 (60) would overfill unit 1, key 4 (40) makes both 80."""
    draft = draft_of(two_buckets("shared"), lefts(k3=30, k4=20, k5=10, k0=20))
    assert draft.load.tolist() == [[120, 40]]
    move_out(draft, 0, 0, None)
    assert agrees(draft) == [[80, 80]]
    assert records(draft.table()) == {4}
    assert draft.edit.units(4) == Biclique(((1,), (1,)))


def test_h1_moves_buckets_after_keys():
    """No key is known, so a whole bucket moves; with a known key that suffices, the bucket stays."""
    table = DJB(buckets=4).initial(2, 2, "shared")
    keys = lefts(k3=40, k1=20, k4=20)
    assert [bucket.units[0] for bucket in map(Edit(table).bucket, range(4))] == [(0,), (0,), (1,), (1,)]
    draft = draft_of(table, keys, heavy=0)
    assert draft.load.tolist() == [[120, 40]]
    move_out(draft, 0, 0, None)
    assert agrees(draft) == [[80, 80]]
    assert (records(draft.table()), draft.edit.bucket(1).units) == (set(), ((1,), (1,)))
    known = draft_of(table, keys)
    move_out(known, 0, 0, None)
    assert (agrees(known), records(known.table())) == ([[80, 80]], {4})


def test_h2_splits_a_key_that_fits_nowhere():
    """80 stored and 10 probes on unit 0, 10 on unit 1. Split, both are probed by all 10: 100 + 10 of work, 55 each,
    so unit 0 keeps (55 - 10) / 80 of the key and unit 1 takes (55 - 10 - 10) / 80."""
    table = two_buckets("split", 4)
    draft = draft_of(table, {3: (80, 10, 80, 10, 0, 0), 0: (10, 0, 10, 0, 0, 0)})
    assert draft.load[0].tolist() == [90, 10, 0, 0]
    move_out(draft, 0, 0, "narrow")
    assert agrees(draft)[0] == pytest.approx([55, 55, 0, 0])
    assert draft.edit.units(3) == Biclique(((0, 1), (2,)), ((0.5625, 0.4375), (1.0,)))


def test_h2_prefers_whole_keys_where_they_suffice():
    """A unit that H1 can relieve splits nothing."""
    draft = draft_of(two_buckets("shared"), lefts(k3=30, k4=20, k5=10, k0=20))
    move_out(draft, 0, 0, "wide")
    assert draft.edit.units(4) == Biclique(((1,), (1,)))


@pytest.mark.parametrize(
    ("base", "divisible", "fixed", "reach", "expected"),
    [
        ([0, 0, 0, 0], 100, 0, "wide", [0.25, 0.25, 0.25, 0.25]),
        ([40, 0, 20, 100], 60, 0, "wide", [0.0, 2 / 3, 1 / 3, 0.0]),
        ([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 110, 0, "narrow", [0.1] * 10 + [0.0]),
        ([0, 50, 50, 50], 40, 0, "narrow", [1.0, 0.0, 0.0, 0.0]),
        ([0, 10], 80, 10, "wide", [0.5625, 0.4375]),
        ([0, 10], 10, 80, "wide", [1.0, 0.0]),
    ],
    ids=[
        "evenly over even units",
        "up to one level, from the lightest",
        "narrow stops half way within theta_max",
        "narrow takes one unit if it suffices",
        "every unit is probed by all",
        "a key that is mostly probed is not split",
    ],
)
def test_weights_fill_the_gaps(base, divisible, fixed, reach, expected):
    """Shares of a piece over units that have `base` already."""
    assert fill(np.array(base, float), divisible, fixed, 0.2, reach).tolist() == pytest.approx(expected)


def test_h3_merges_back_and_clears_the_record():
    """Key 4 was moved to unit 1; now unit 0 is light (40 of a mean of 80) and it fits: home it goes."""
    edit = Edit(two_buckets("shared"))
    for side in (0, 1):
        edit.move_key(4, side, (1,))
    draft = draft_of(edit.table(), lefts(k3=20, k4=15, k0=45))
    assert draft.load.tolist() == [[40, 120]]
    move_in(draft, 0, 0)
    assert (agrees(draft), records(draft.table())) == ([[70, 90]], set())


def test_h3_leaves_a_key_that_would_overfill_its_home():
    """Key 4 has 70: with it unit 0 would have 110, further from the mean than it is now."""
    edit = Edit(two_buckets("shared"))
    for side in (0, 1):
        edit.move_key(4, side, (1,))
    draft = draft_of(edit.table(), lefts(k3=25, k4=50, k0=5))
    assert draft.load.tolist() == [[50, 110]]
    move_in(draft, 0, 0)
    assert draft.load.tolist() == [[50, 110]]


def test_a_light_unit_without_records_takes_from_the_heaviest():
    """Nobody is above 1.2 times the mean, unit 2 is below 0.8: MoveIn finds no record, so it is given a key."""
    table = DJB(buckets=3).initial(3, 2, "shared")
    homes = {code: Edit(table).home(code).units[0][0] for code in range(90)}
    at = [[code for code, home in homes.items() if home == unit] for unit in range(3)]
    keys = dict.fromkeys([*at[0][:11], *at[1][:11], *at[2][:7]], (5, 0, 5, 0, 0, 0))
    draft = draft_of(table, keys)
    assert draft.load.tolist() == [[110, 110, 70]]
    take(draft, 0, 2, set())
    assert agrees(draft) == [[100, 110, 80]]


def hot_key(times):
    """Key 3 with so many tuples and results, beside 40 even keys."""
    even = dict.fromkeys(range(10, 50), (5, 5, 5, 5, 10, 10))
    return {**even, 3: (100 * times, 100 * times, 400, 400, 1000 * times, 1000 * times)}


def test_a_hot_key_is_split_and_merged_back_when_it_cools():
    """Bigger than any unit may be it is spread by weight; cooled, it fits its home, which has little else, and its
    record is cleared."""
    djb = DJB()
    table = djb.initial(4, 2, "shared")
    report = counted(table, hot_key(5))
    split = djb.plan(report, items_of(report, table), table)
    assert djb.imbalance(items_of(report, table), table) > 1
    assert djb.imbalance(items_of(report, table), split) <= 0.2
    assert max(len(units) for units in Edit(split).units(3).units) > 1
    home = Edit(table).home(3)
    cool = {code: count for code, count in hot_key(0).items() if Edit(table).home(code) != home}
    draft = draft_of(split, {**cool, 3: (9, 9, 9, 9, 9, 9)})
    ism(draft, 0, Heuristics(merge=True, move=False))
    assert 3 not in records(draft.table())
    agrees(draft)


def test_the_plan_merges_when_that_is_the_cheapest():
    """Key 3, split over both units, has cooled to 20 tuples; unit 0 is light. Coming home costs half of them."""
    edit = Edit(two_buckets("shared"))
    for side in (0, 1):
        edit.move_key(3, side, (0, 1))
    table, keys = edit.table(), lefts(k3=20, k0=28)
    report = counted(table, keys)
    items = items_of(report, table)
    assert workloads(items, table).tolist() == [[30, 86]]
    merged = DJB(aim=1).plan(report, items, table)
    assert (records(merged), workloads(items, merged).tolist()) == (set(), [[40, 56]])


def test_units_change_sides_when_rates_diverge():
    """R has 1170 of work on each of two units, S 390: unit 2 changes sides, and all four have 780."""
    djb = DJB(buckets=12)
    table = djb.initial(4, 2, "split")
    one_each = (10, 3, 20, 11, 5, 4, 1, 2, 6, 13, 0, 32)
    report = counted(table, dict.fromkeys(one_each, (10, 10, 50, 50, 175, 45)), expired=1)
    items = items_of(report, table)
    none = np.nan
    np.testing.assert_array_equal(workloads(items, table), [[1170, 1170, none, none], [none, none, 390, 390]])
    changed = check(djb.plan(report, items, table))
    np.testing.assert_array_equal(workloads(items, changed), [[780, 780, 780, none], [none, none, none, 780]])
    assert djb.imbalance(items, changed) == 0


def test_a_side_keeps_its_last_unit():
    """However far the rates are apart, one unit each is as good as it gets with two instances."""
    djb = DJB()
    table = djb.initial(2, 2, "split")
    report = counted(table, dict.fromkeys(range(20), (10, 10, 50, 50, 900, 1)))
    assert djb.imbalance(items_of(report, table), table) == 0
    assert djb.plan(report, items_of(report, table), table) is None


def test_a_unit_that_changes_sides_leaves_its_split_keys():
    """Key 3 of side 1 is split over units 2 and 3; when 2, the lighter, changes sides, 3 has all of it."""
    edit = Edit(DJB(buckets=12).initial(4, 2, "split"))
    edit.move_key(3, 1, (2, 3), (0.4, 0.6))
    draft = draft_of(edit.table(), dict.fromkeys(range(40), (10, 10, 50, 50, 400, 4)))
    assert s2sm(draft)
    assert draft.edit.units(3).units[1] == (3,)
    assert not (draft.shares[1][:, [0, 1, 2]] > 0).any()
    assert draft.hosts.tolist() == [[True, True, True, False], [False, False, False, True]]


@pytest.mark.parametrize("layout", ["shared", "split"])
@pytest.mark.parametrize("exponent", [0.8, 1.2, 2.0])
def test_the_plan_is_the_cheapest_that_meets_theta_max(layout, exponent):
    """Eq. 4, by the measured times; and no plan that meets theta_max costs less in all three costs."""
    djb = DJB(aim=1)
    table = djb.initial(8, 2, layout)
    counts = zipf(exponent, 20_000, 2_000)
    report = counted(table, joined(counts, counts, 3), heavy=500, hash_us=0.3, transfer_us=1.1, expired=1)
    items = items_of(report, table)
    plan = djb.plan(report, items, table)
    offers = [draft.table() for draft in candidates(Draft(items, table, 0.2))]
    meeting = [offer for offer in offers if djb.imbalance(items, offer) <= 0.2]
    assert meeting
    every = [costs(items, table, offer) for offer in meeting]
    price = [cost.total_us(0.3, 1.1) for cost in every]
    assert plan.regions == meeting[price.index(min(price))].regions
    chosen = costs(items, table, plan)
    assert not any(
        other.routing < chosen.routing and other.duplication < chosen.duplication and other.migration < chosen.migration
        for other in every
    )


def test_without_a_plan_that_meets_theta_max_the_most_even_one_is_taken():
    """A key that only probes cannot be split, so nothing is within bounds; the rest is still spread."""
    djb = DJB()
    table = djb.initial(4, 2, "split")
    report = counted(table, {**dict.fromkeys(range(100, 160), (4, 4, 4, 4, 0, 0)), 3: (0, 900, 0, 900, 0, 0)})
    items = items_of(report, table)
    plan = djb.plan(report, items, table)
    offers = [djb.imbalance(items, draft.table()) for draft in candidates(Draft(items, table, 0.2))]
    assert min(offers) > 0.2
    assert djb.imbalance(items, plan) < djb.imbalance(items, table)


@pytest.mark.parametrize("stored", [1, 5, 20])
@pytest.mark.parametrize("layout", ["shared", "split"])
def test_zipf_2_on_both_sides(layout, stored):
    """One key is 60 % of each stream. With hash the busiest of 8 instances does at least 3 times the mean; split by
    weight, no more than 1.3 times."""
    djb = DJB()
    counts = zipf(2.0, 20_000, 20_000)
    assert counts[0] / counts.sum() == pytest.approx(0.6, abs=0.02)
    hashed = Hash().initial(8, 2, layout)
    keys = joined(counts, counts, stored)
    work = work_by_instance(items_of(counted(hashed, keys), hashed), hashed)
    assert work.max() / work.mean() >= 3
    table = djb.initial(8, 2, layout)
    report = counted(table, keys, heavy=128)
    items = items_of(report, table)
    plan = check(djb.plan(report, items, table))
    after = work_by_instance(items, plan)
    assert after.max() / after.mean() <= 1.3
    assert after.max() <= 0.3 * work.max()
    assert len(Edit(plan).units(0).units[0]) >= 4


def test_nothing_is_planned_within_bounds():
    """Below theta_max the table is left alone."""
    djb = DJB(buckets=2)
    table = djb.initial(2, 2, "shared")
    report = counted(table, lefts(k3=11, k0=10))
    assert djb.imbalance(items_of(report, table), table) == pytest.approx(1 / 21)
    assert djb.plan(report, items_of(report, table), table) is None


@pytest.mark.parametrize("instances", [1, 2, 3, 5, 8, 15])
def test_initial_table(instances):
    """Four buckets or more per unit, as evenly as the sides' units allow, in both layouts."""
    for layout in ("shared", "split") if instances > 1 else ("shared",):
        table = check(DJB().initial(instances, 2, layout))
        assert (table.origin, table.layout) == ("djb", layout)
        held = [[b.units[side][0] for b in map(Edit(table).bucket, range(table.buckets))] for side in (0, 1)]
        for side in held:
            _, counts = np.unique(side, return_counts=True)
            assert counts.min() == counts.max() >= 4
        assert (set(held[0]) & set(held[1]) == set()) == (layout == "split")


@pytest.mark.parametrize(
    "text",
    [
        "djb(theta_max=0)",
        "djb(theta_max=1.5)",
        "djb(aim=0)",
        "djb(tracked=0)",
        "djb(buckets=-1)",
        "djb(buckets=2.5)",
        "djb(x=1)",
    ],
)
def test_settings_that_make_no_sense(text):
    """Refused when the strategy is named, not when the join runs."""
    with pytest.raises(SpecError):
        resolve(text)


def test_too_few_buckets():
    """A unit without a bucket would have no work: there are as many as units then."""
    assert DJB(buckets=4).initial(8, 2, "shared").buckets == 8


counts_of_keys = st.dictionaries(
    st.integers(0, 60), st.tuples(*[st.integers(0, 40)] * 4, *[st.integers(0, 400)] * 2), min_size=1, max_size=25
)


@settings(max_examples=examples(80), deadline=None)
@given(
    st.sampled_from(["shared", "split"]), st.integers(2, 6), st.lists(counts_of_keys, min_size=1, max_size=4), st.data()
)
def test_whatever_is_proposed_is_valid_and_no_less_even(layout, instances, rounds, data):
    """Over changing loads: the table passes check, imbalance and the heaviest load do not rise; in layout split each
    instance has units of one side and each side has a unit."""
    djb = DJB(theta_max=data.draw(st.sampled_from([0.05, 0.2, 0.5])))
    table = djb.initial(instances, 2, layout)
    for keys in rounds:
        report = counted(table, keys, data.draw(st.sampled_from([None, 3])))
        items = items_of(report, table)
        plan = djb.plan(report, items, table)
        if not isinstance(plan, RoutingTable):
            continue
        check(plan)
        before, after = djb.load(items, table), djb.load(items, plan)
        assert djb.imbalance(items, plan) <= djb.imbalance(items, table)
        assert np.nanmax(after) <= np.nanmax(before) + 1e-6
        if layout == "split":
            assert (np.isnan(after).sum(axis=0) == 1).all()
            assert (~np.isnan(after)).any(axis=1).all()
        table = plan


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(["shared", "split"]), st.integers(2, 6), st.lists(counts_of_keys, min_size=2, max_size=3))
def test_a_draft_knows_the_load_of_its_table(layout, instances, rounds):
    """Fast against slow: the load kept up edit by edit is that of the finished table, whatever the heuristics."""
    table = DJB().initial(instances, 2, layout)
    for number, keys in enumerate(rounds):
        draft = draft_of(table, keys, 5 if number else None)
        if layout == "split":
            s2sm(draft)
        for row in range(len(draft.sides)):
            ism(draft, row, Heuristics(merge=not number, move=True, split="wide"))
        agrees(draft)
        table = draft.table()


SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64())])


def stream(seed, rows, exponent, first=0):
    rng = np.random.default_rng(seed)
    weight = np.arange(1, 41, dtype=float) ** -exponent
    keys = rng.choice(40, rows, p=weight / weight.sum()) + first
    return pa.table({"id": np.arange(rows) + seed * 10_000, "k": keys}, schema=SCHEMA)


@pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")
@pytest.mark.parametrize("layout", ["shared", "split"])
def test_a_join_through_splits_and_merges(layout):
    """Hot keys that change from batch to batch are split and moved; the results are those of a brute-force join."""
    join = evenjoin.local(
        {"l": SCHEMA, "r": SCHEMA}, on="l.k = r.k", select=["l.id AS a", "r.id AS b"], strategy="djb", instances=4,
        layout=layout, guards=evenjoin.Guards(cooldown=0, min_work=0),
    )  # fmt: skip
    batches = [
        {"l": stream(2 * i, 90, 2.0, first), "r": stream(2 * i + 1, 60 + 20 * i, 2.0, first)}
        for i, first in enumerate((0, 0, 0, 20, 20, 20))
    ]
    found, split = [], False
    for batch in batches:
        found.append(join.process(batch))
        split |= any(len(units) > 1 for region in join.table().regions for units in region.topology.units)
    whole = {alias: pa.concat_tables(batch[alias] for batch in batches) for alias in ("l", "r")}
    assert multiset(pa.concat_tables(found)) == brute_force(join._spec, whole)
    assert join.migrations()
    assert split
    assert all(event.why == "imbalance" for event in join.migrations())
