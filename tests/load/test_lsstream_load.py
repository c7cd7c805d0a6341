"""LS-Stream's models: the paper's worked example, and each closed form against what it was derived from."""

from __future__ import annotations

from dataclasses import replace
from math import exp, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenjoin.load.items import Items, loads
from evenjoin.load.lsstream import (
    acceptance,
    computing,
    imbalance_degree,
    least_imbalance,
    least_to_move,
    memory,
    migration_impact,
    most_to_move,
    normalised_weights,
    partitions_of,
    raw_weights,
    resource,
    resource_benefit,
    terms_by_instance,
    units_of,
)
from evenjoin.load.report import InstanceLoad, LoadReport, speeds_of
from evenjoin.load.sojourn import (
    Queue,
    input_rate,
    latency_benefit,
    latency_benefits,
    queue_length,
    queues_of,
    sojourn_time,
    sojourn_time_by_memory,
    trimmed_rate,
    waiting,
)
from evenjoin.placement import Biclique, Buckets, Keys, Region, RoutingTable

STORED = np.array([4.0, 4.0, 2.0, 1.0])
QUEUED = np.array([3.0, 4.0, 2.0, 3.0])
"""Fig. 4: tuples of S and of R in partitions p0 to p3; j0 manages p0 and p1, j1 manages p2 and p3."""
ON = np.array([0, 0, 1, 1])


def by_instance(values):
    return np.bincount(ON, values)


def test_fig_4_memory():
    """Eq. 7-8: 15 and 8."""
    assert by_instance(memory(STORED, QUEUED)).tolist() == [15, 8]


def test_fig_4_computing():
    """Eq. 9-10: 28 and 7."""
    assert by_instance(computing(STORED, QUEUED)).tolist() == [28, 7]


def test_fig_4_resources_and_imbalance():
    """Eq. 11-14: 43 and 15, which is twice eq. 12 with gamma 0.5; LI is 0.48 either way."""
    both = by_instance(resource(STORED, QUEUED, raw_weights(0.5)))
    assert (2 * both).tolist() == [43, 15]
    assert both.tolist() == [21.5, 7.5]
    assert round(imbalance_degree(both), 2) == round(imbalance_degree(2 * both), 2) == 0.48


def test_fig_4_from_a_table():
    """The same from the counts of a batch: S is stored, R asks, and nothing of R is stored."""
    regions = tuple(Region(Buckets((b,)), Biclique(((int(i),), (int(i),)))) for b, i in enumerate(ON))
    none = np.zeros(4)
    items = Items(
        np.zeros(4, np.int64), np.zeros(4, bool), np.arange(4), np.stack([none, STORED]), np.stack([QUEUED, none]),
        np.zeros((2, 4)),
    )  # fmt: skip
    table = RoutingTable(0, 2, 2, 4, regions)
    used, compared = terms_by_instance(partitions_of(items, table), table)
    assert (used.tolist(), compared.tolist()) == ([[15, 8]], [[28, 7]])


def test_normalised_weights():
    """Fig. 4 with each term over its mean, 11.5 and 17.5: R adds up to one for each instance, whatever gamma is."""
    used, compared = by_instance(memory(STORED, QUEUED)), by_instance(computing(STORED, QUEUED))
    for gamma in (0.1, 0.9):
        weights = normalised_weights(gamma, used, compared)
        assert (weights.memory, weights.computing) == (gamma / 11.5, (1 - gamma) / 17.5)
        assert by_instance(resource(STORED, QUEUED, weights)).sum() == pytest.approx(2)
    assert normalised_weights(0.5, np.array([np.nan, 4.0]), np.zeros(2)).memory == 0.125
    assert normalised_weights(0.5, np.array([4.0]), np.zeros(1)).computing == 0


def test_least_imbalance():
    """n max R_p / sum R - 1: a partition with 60 of 100 on 4 instances keeps LI at 1.4; a key that is split does not
    count. On an instance of twice the speed the partition takes half as long."""
    each, whole = np.array([60.0, 30.0, 10.0]), np.array([True, True, True])
    assert least_imbalance(each, whole, np.ones(4)) == pytest.approx(4 * 60 / 100 - 1)
    assert least_imbalance(each, np.array([False, True, True]), np.ones(4)) == pytest.approx(4 * 30 / 100 - 1)
    assert least_imbalance(each, whole, np.array([1.0, 1.0, 2.0])) == pytest.approx(60 / 2 / 25 - 1)
    assert least_imbalance(np.zeros(3), whole, np.ones(4)) == 0


def test_speeds():
    """One of four is half as fast. One pause counts for a quarter. An instance without work
    keeps its speed."""
    first = speeds_of([100, 100, 100, 100], [10, 10, 10, 20])
    assert first == pytest.approx((1.25, 1.25, 1.25, 0.625))
    assert speeds_of([100] * 4, [10] * 4, first) == pytest.approx((1.1875, 1.1875, 1.1875, 0.7188))
    assert speeds_of([100, 100, 100, 1], [10, 10, 10, 20], first)[3] == 0.625
    assert speeds_of([0, 0], [0, 0]) == ()
    assert speeds_of([100, 100], [10, 10], first) == (1, 1)


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([5.0, 5.0, 5.0], 0.0),
        ([9.0, 3.0, 3.0], 0.8),
        ([4.0, 4.0, 1.0], 2 / 3),
        ([0.0, 0.0], 0.0),
        ([np.nan, 6.0, 2.0, np.nan], 0.5),
    ],
    ids=["even", "one is too heavy", "one is too light", "no load is even", "instances of the other side do not count"],
)
def test_imbalance_degree(resources, expected):
    """Eq. 13: the greater of the two relative differences from the mean."""
    assert imbalance_degree(np.array(resources)) == pytest.approx(expected)


def test_units_have_their_shares():
    """A split key's units store its tuples by weight, and each is asked by all of the other side's."""
    split = Region(Keys((7,)), Biclique(((0, 1), (2,)), ((3.0, 1.0), (1.0,))))
    table = RoutingTable(0, 3, 2, 1, (Region(Buckets((0,)), Biclique(((0,), (0,)))), split))
    cell, instance, share = units_of(table, 0)
    assert (cell.tolist(), instance.tolist(), share.tolist()) == ([0, 1, 1], [0, 0, 1], [1.0, 0.75, 0.25])
    assert [part.tolist() for part in units_of(table, 1)] == [[0, 1], [0, 2], [1.0, 1.0]]
    items = Items(
        np.array([7, 0]), np.array([True, False]), np.zeros(2, np.int64), np.array([[8.0, 10.0], [4.0, 2.0]]),
        np.array([[3.0, 1.0], [5.0, 1.0]]), np.zeros((2, 2)),
    )  # fmt: skip
    used, compared = terms_by_instance(partitions_of(items, table), table)
    both = loads(items, table)  # memory is what the items' own forecast says
    assert used.tolist() == [sum(unit.stored + unit.probes for unit in both).tolist()]
    assert used.tolist() == [[(10 + 6 + 1 + 5) + (2 + 1), 2 + 5, 4 + 3]]
    assert compared.tolist() == [[10 * 1 + 6 * 5 + 2 * 1, 2 * 5, 4 * 3]]


@pytest.mark.parametrize(
    ("recent", "expected"),
    [
        ([[10, 4]], [5, 2]),
        ([[10, 4], [20, 4]], [7.5, 2]),
        ([[10, 4], [90, 0], [20, 6]], [10, 2]),
        ([[10, 4], [90, 0], [20, 6], [30, 2]], [12.5, 1.5]),
    ],
    ids=["one batch", "two batches are not trimmed", "of three the middle one", "of four the two in between"],
)
def test_trimmed_rate(recent, expected):
    """Eq. 3-4: tuples per second without each instance's highest and lowest batch."""
    assert trimmed_rate(recent, 2.0).tolist() == expected
    assert input_rate(recent[0], 2.0).tolist() == [5, 2]


rates = st.floats(0.5, 1e4)


@given(rates, st.floats(0.01, 0.95))
def test_eq_19_is_the_sum_of_eq_16(mu, load):
    """L = sum of n (E/mu)^n (1 - E/mu), eq. 16-18."""
    n = np.arange(4000)
    assert queue_length(mu, mu * load) == pytest.approx(float((n * load**n * (1 - load)).sum()), rel=1e-6)


@given(rates, st.floats(0.01, 0.95), st.floats(0.1, 60))
def test_eq_20_is_little_s_law_and_eq_21(mu, load, window):
    """AST = L / E (eq. 15), and W / (W mu - R^m) when R^m = E W (eq. 8)."""
    rate = mu * load
    assert sojourn_time(mu, rate) == pytest.approx(queue_length(mu, rate) / rate)
    assert sojourn_time_by_memory(mu, rate * window, window) == pytest.approx(sojourn_time(mu, rate))


@pytest.mark.parametrize("mu", [3.0, 2.0])
def test_an_unstable_queue(mu):
    """mu <= E: infinite by the model; in a micro-batch a tuple waits for the batch at most. No tuple, no wait."""
    assert queue_length(mu, 3.0) == sojourn_time(mu, 3.0) == sojourn_time_by_memory(mu, 30.0, 10.0) == inf
    assert waiting(mu, 3.0, 10.0) == 10.0
    assert waiting(0.0, 0.0, 10.0) == queue_length(0.0, 0.0) == 0.0


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9))
def test_eq_23_is_eq_22_when_loads_only_move(heavy, light, moved):
    """What j_h loses j_l gains: (R_h - R_l) - (R'_h - R'_l) = 2 (R_h - R'_h)."""
    eq_22 = (heavy - light) - ((heavy - moved) - (light + moved))
    assert resource_benefit(heavy, heavy - moved) == eq_22


def test_eq_24_from_its_rates():
    """The paper's second line, with mu' by Theorem 1: the work of a tuple grows with R / E."""
    window, heavy, light = 100.0, Queue(60.0, 6.0, 1.0, 100.0), Queue(20.0, 4.0, 1.0, 100.0)
    assert (heavy.mu(), light.mu()) == (10.0, 20.0)
    after_h, after_l = heavy.plus(-20.0, -1.0), light.plus(20.0, 1.0)
    assert (after_h.mu(), after_l.mu()) == (5.0 * window / 40, 5.0 * window / 40)
    expected = sum(
        (new.mu() - old.mu() + old.rate - new.rate) / ((old.mu() - old.rate) * (new.mu() - new.rate))
        for old, new in ((heavy, after_h), (light, after_l))
    )
    assert latency_benefit(heavy, light, 20.0, 1.0) == pytest.approx(expected)


@given(st.floats(0, 1e6), st.floats(0, 1e4), st.floats(0, 10), st.floats(0, 1), st.floats(0, 1))
def test_the_latency_benefit_is_finite(load, rate, cost, part, share):
    """Stable or not, with tuples or without: it is between -2W and 2W."""
    heavy, light = Queue(load, rate, cost, 2.0), Queue(0.0, 0.0, cost, 2.0)
    assert -4.0 <= latency_benefit(heavy, light, load * part, rate * share) <= 4.0


@given(st.floats(0, 1e6), st.floats(0, 1e4), st.floats(0, 1e-2), st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_many_latency_benefits_are_each_one(load, rate, cost, parts):
    """The arrays say what the scalars say."""
    heavy, light, part = Queue(load, rate, cost, 2.0), Queue(load / 3, rate / 2, cost, 2.0), np.array(parts)
    each = [latency_benefit(heavy, light, load * one, rate * one) for one in parts]
    assert latency_benefits(heavy, light, load * part, rate * part) == pytest.approx(each)


@given(st.floats(1, 1e6), st.floats(1, 1e6), st.floats(1, 1e4))
def test_theorem_1(small, more, rate):
    """At the same input rate mu falls, and the sojourn time grows, with R."""
    one, two = Queue(small, rate, 1e-6, 10.0), Queue(small + more, rate, 1e-6, 10.0)
    assert one.mu() > two.mu()
    assert one.wait() <= two.wait()


def test_queues_are_measured():
    """E from recent batches, mu the tuples per second of busy time; an idle instance costs what others do."""
    busy = (500.0, 250.0, 0.0)
    instances = tuple(InstanceLoad(i, (0, 0), (0, 0), (0, 0), 0, ms) for i, ms in enumerate(busy))
    report = LoadReport(4, instances, (), (), (), recent=((100, 100, 0), (100, 100, 0)))
    queues = queues_of(report, np.array([40.0, 20.0, 0.0]), 2.0)
    assert [q.rate for q in queues] == [50, 50, 0]
    assert [q.mu() for q in queues[:2]] == [200, 400]
    assert queues[2].cost == 0.75 / 60
    assert queues[2].plus(20.0, 50.0).mu() == pytest.approx(50 * 2 / (20 * 0.75 / 60))
    assert queues_of(report, np.array([40.0, 20.0, 0.0]), 0.0)[0].window == 0.5
    triggered = replace(report, interval_ms=3000.0)
    assert [queues_of(triggered, np.array([40.0, 20.0, 0.0]), given)[0].window for given in (0.0, 2.0)] == [3.0, 2.0]
    unknown = LoadReport(4, instances[2:], (), (), ())
    assert queues_of(unknown, np.array([3.0]), 0.0) == [Queue(3.0, 0.0, 0.0, 1.0)]


def test_migration_impact():
    """Eq. 25: benefit per stored tuple that moves; nothing stored counts as one."""
    assert migration_impact(30.0, 2.0, 8.0) == 4.0
    assert migration_impact(30.0, 2.0, 0.0) == 32.0


def test_constraints():
    """Eq. 30-31 as bounds of the moved R: 43 and 15 of Fig. 4, alpha 0.25."""
    assert least_to_move(43.0, 29.0, 0.25) == 6.75
    assert most_to_move(43.0, 15.0) == 14.0
    assert most_to_move(43.0, 15.0, (1.0, 3.0)) == (3 * 43 - 15) / 4  # 43 - 28.5 = 14.5 = (15 + 28.5) / 3


def test_acceptance():
    """Eq. 32: a better solution always, a worse one with a probability below 1 that falls as it gets colder."""
    assert acceptance(5.0, 4.0, 1.0) == acceptance(4.0, 4.0, 1.0) == 1.0
    assert acceptance(3.0, 4.0, 2.0) == exp(-0.5)
    assert 0 < acceptance(3.0, 4.0, 0.1) < acceptance(3.0, 4.0, 1.0) < 1
