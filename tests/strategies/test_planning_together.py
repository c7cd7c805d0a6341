"""Planners on three and four sides that must be together: what moves, moves with all its sides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.errors import TableError
from evenjoin.load.djb import Costs, costs, records, workloads
from evenjoin.load.items import items_of, loads, work_by_instance
from evenjoin.load.report import InstanceLoad, LoadReport
from evenjoin.placement import Biclique, RoutingTable, check
from evenjoin.placement.topology import Cube
from evenjoin.strategies import DJB, Readj, resolve
from evenjoin.strategies.djb.ism import Heuristics, ism
from evenjoin.strategies.djb.moves import move_in, move_out
from evenjoin.strategies.djb.together import Together, draft_of
from evenjoin.strategies.edit import Edit
from strategies.counted import counted, together
from thorough import examples

PLANNERS = ["fastjoin(theta=1.05, sure=0)", "fastjoin(theta=1.05, selector=safit, sure=0)", "djb(theta_max=0.05)",
            "lsstream(alpha=0.05)", "readj(theta=0.05, sigma=0.01)"]  # fmt: skip


def firsts(sides=3, **arrived):
    """Tuples of side 0 only, by name k<code>: each is stored once and probes the other sides. 3 4 5 7 are hashed to
    unit 0, 0 1 2 6 to unit 1."""
    more = (0,) * (sides - 1)
    return {int(name[1:]): (n, *more, n, *more, 0, *more) for name, n in arrived.items()}


def drafted(table, keys, heavy=None, theta=0.2):
    return draft_of(items_of(counted(table, keys, heavy), table), table, theta)


def agrees(draft):
    """The draft's running load is that of the table it ends in, which is valid."""
    np.testing.assert_allclose(draft.load, workloads(draft.items, check(draft.table())), rtol=1e-9, atol=1e-6)
    told, made = draft.costs, costs(draft.items, draft.old, draft.table())
    assert (told.routing, told.duplication) == (made.routing, pytest.approx(made.duplication))
    assert told.migration == pytest.approx(made.migration)
    return draft.load.tolist()


def test_the_work_of_a_tuple_is_one_for_each_store():
    """It is stored in its own, and probes those of the others: 20 tuples on four sides are 80, and 7 results 7 more."""
    table = together(DJB(buckets=2).initial(2, 4, "shared"))
    items = items_of(counted(table, {3: (2, 3, 5, 10, 1, 1, 1, 1, 0, 4, 3, 0)}), table)
    assert work_by_instance(items, table).tolist() == [87, 0]
    assert [unit.probes.tolist() for unit in loads(items, table)] == [[18, 0], [17, 0], [15, 0], [10, 0]]
    assert [unit.results.tolist() for unit in loads(items, table)] == [[0, 0], [4, 0], [3, 0], [0, 0]]


def test_h1_moves_a_key_with_all_its_sides():
    """180 against 60, bounds 96..144: key 3 (90) would overfill unit 1, key 4 (60) makes both 120."""
    draft = drafted(together(DJB(buckets=2).initial(2, 3, "shared")), firsts(k3=30, k4=20, k5=10, k0=20))
    assert isinstance(draft, Together)
    assert draft.load.tolist() == [[180, 60]]
    move_out(draft, 0, 0, None)
    assert agrees(draft) == [[120, 120]]
    assert draft.edit.topology(4) == Biclique(((1,), (1,), (1,)))
    assert records(draft.table()) == {4}


def test_h1_moves_a_bucket_with_all_its_sides():
    """No key is known, so a whole bucket moves."""
    table = together(DJB(buckets=4).initial(2, 3, "shared"))
    draft = drafted(table, firsts(k3=40, k1=20, k4=20), heavy=0)
    assert draft.load.tolist() == [[180, 60]]
    move_out(draft, 0, 0, None)
    assert agrees(draft) == [[120, 120]]
    assert (records(draft.table()), draft.edit.bucket(1).units) == (set(), ((1,), (1,), (1,)))


def test_h2_divides_the_heaviest_side_and_copies_the_others():
    """Key 3 is 3 * 72 of work on unit 0, and unit 1 has 30. Divided by a, each unit has 3 * 30 of a and 3 * 12 of b and
    c; the twelve tuples of b and c are sent once more."""
    table = together(DJB(buckets=2).initial(2, 3, "shared"))
    keys = {3: (60, 6, 6, 60, 6, 6, 0, 0, 0), **firsts(k0=10)}
    draft = drafted(table, keys)
    assert draft.load.tolist() == [[216, 30]]
    move_out(draft, 0, 0, "wide")
    assert agrees(draft) == [[126, 156]]
    assert draft.edit.topology(3) == Cube.divided(0, (0, 1))
    assert costs(draft.items, table, draft.table()) == Costs(routing=1, duplication=12, migration=42)


def test_h3_merges_a_divided_key_when_it_cools():
    """Divided, five tuples of key 3 are 10.5 of work on each unit; whole they are 15 on unit 0, and both have 30."""
    edit = Edit(together(DJB(buckets=2).initial(2, 3, "shared")))
    edit.place_key(3, Cube.divided(0, (0, 1)))
    draft = drafted(edit.table(), {3: (3, 1, 1, 3, 1, 1, 0, 0, 0), **firsts(k4=5, k0=10)})
    assert draft.load.tolist() == [[25.5, 40.5]]
    move_in(draft, 0, 0)
    assert agrees(draft) == [[30, 30]]
    assert records(draft.table()) == set()


def test_a_divided_key_stays_where_others_plan():
    """FastJoin, LS-Stream and Readj count it, and move what is whole."""
    edit = Edit(together(DJB(buckets=8).initial(2, 3, "shared")))
    edit.place_key(3, Cube.divided(0, (0, 1)))
    table = edit.table()
    many = dict.fromkeys((4, 5, 7, 10, 11, 14, 16), (5,) * 6 + (0,) * 3)
    report = measured(counted(table, {3: (60, 6, 6, 60, 6, 6, 0, 0, 0), **many}), table)
    for name in PLANNERS:
        plan = resolve(name).plan(report, items_of(report, table), table)
        if not name.startswith("djb"):
            assert Edit(plan).topology(3) == Cube.divided(0, (0, 1))
            assert 3 in records(check(plan))


def test_h3_brings_a_key_back_with_all_its_sides():
    """Key 4 was moved to unit 1; now unit 0 is light (60 of a mean of 120), and it fits."""
    edit = Edit(together(DJB(buckets=2).initial(2, 3, "shared")))
    edit.place_key(4, Biclique(((1,), (1,), (1,))))
    draft = drafted(edit.table(), firsts(k3=20, k4=15, k0=45))
    assert draft.load.tolist() == [[60, 180]]
    move_in(draft, 0, 0)
    assert agrees(draft) == [[105, 135]]
    assert records(draft.table()) == set()


def test_readj_swaps_keys_with_all_their_sides():
    """180 against 120, every key 60 or 90: no move helps, 90 for 60 makes both 150."""
    table = together(Readj().initial(2, 3, "shared"))
    items = items_of(counted(table, firsts(k3=30, k4=30, k0=20, k1=20)), table)
    assert workloads(items, table).tolist() == [[180, 120]]
    made = check(Readj(theta=0.1).plan(LoadReport(0, (), (), (), (), expired=1), items, table))
    assert workloads(items, made).tolist() == [[150, 150]]
    moved = {code: Edit(made).topology(code).units for code in records(made)}
    assert set(moved.values()) <= {((0,), (0,), (0,)), ((1,), (1,), (1,))}


def test_a_key_that_one_side_leaves_is_no_table():
    """What FastJoin does to two sides would lose results of three."""
    table = together(DJB(buckets=2).initial(2, 3, "shared"))
    edit = Edit(table)
    edit.move_key(4, 0, (1,))
    with pytest.raises(TableError, match="together on 0 instances"):
        check(edit.table())


def counts_of_keys(sides):
    few, many = [st.integers(0, 40)] * (2 * sides), [st.integers(0, 400)] * sides
    return st.dictionaries(st.integers(0, 60), st.tuples(*few, *many), min_size=1, max_size=25)


def measured(report, table):
    """The report with instances that are busy in proportion to their work, as LS-Stream wants to know."""
    none, work = (0,) * table.groups, work_by_instance(items_of(report, table), table)
    instances = tuple(InstanceLoad(i, none, none, none, 0, float(ms)) for i, ms in enumerate(work))
    return replace(report, instances=instances, recent=(tuple(map(int, work)),))


@settings(max_examples=examples(150), deadline=None)
@given(st.sampled_from(PLANNERS), st.integers(3, 4), st.integers(2, 6), st.data())
def test_whatever_is_proposed_is_valid_and_no_less_even(name, sides, instances, data):
    """Over changing loads, each planner going on from its own table: check passes, and its own imbalance sinks."""
    planner = resolve(name)
    table = together(planner.initial(instances, sides, "shared"))
    for _ in range(data.draw(st.integers(1, 4))):
        report = measured(
            counted(table, data.draw(counts_of_keys(sides)), data.draw(st.sampled_from([None, 3]))), table
        )
        items = items_of(report, table)
        plan = planner.plan(report, items, table)
        if not isinstance(plan, RoutingTable):
            continue
        check(plan)
        assert plan.meeting == "together"
        assert planner.imbalance(items, plan) <= planner.imbalance(items, table) + 1e-9
        assert costs(items, table, plan).migration >= 0
        table = plan


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(3, 4), st.integers(2, 6), st.data())
def test_a_draft_knows_the_load_of_its_table(sides, instances, data):
    """Fast against slow: the load kept up edit by edit is that of the finished table, whatever the heuristics."""
    table = together(DJB().initial(instances, sides, "shared"))
    for heavy in data.draw(st.lists(st.sampled_from([None, 5]), min_size=1, max_size=3)):
        draft = drafted(table, data.draw(counts_of_keys(sides)), heavy)
        ism(draft, 0, Heuristics(data.draw(st.booleans()), True, data.draw(st.sampled_from([None, "narrow", "wide"]))))
        agrees(draft)
        table = draft.table()
