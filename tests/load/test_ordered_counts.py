"""What a planner is told of ordered buckets is so: per cell and key what is stored, who asks, and what is found."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenjoin
from evenjoin.load.items import items_of, loads, planning_items, regions_of_items
from evenjoin.load.rates import Rates, rates_after, smoothed
from evenjoin.load.report import LoadReport
from evenjoin.placement import Biclique, Buckets, Keys, Reach, Region, RoutingTable, check
from evenjoin.placement.place import cells_of
from evenjoin.testing import Fixed, ordered_tables
from thorough import examples

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64())])
SIDES = {"l": SCHEMA, "r": SCHEMA}
BANDS = {"abs(l.k - r.k) <= 1": Reach(-1, 1), "r.k BETWEEN l.k + 1 AND l.k + 3": Reach(1, 3)}
codes = st.lists(st.integers(-7, 7), max_size=20)


def rows(keys):
    return pa.table([list(range(len(keys))), keys], schema=SCHEMA)


def counted(before, new, reach):
    """By side and code of the stored tuple: tuples alive, pairs found and tuples that may match, after a batch `new`
    upon `before`. Within a batch side 0 counts as earlier."""
    alive = [Counter(before[side]) + Counter(new[side]) for side in (0, 1)]
    stored = [alive[0], Counter(before[1])]  # what the new tuples of the other side see
    found, askers = [Counter(), Counter()], [Counter(), Counter()]
    for side in (0, 1):
        for code in range(-12, 13):
            gaps = [other - code if side == 0 else code - other for other in new[1 if side == 0 else 0]]
            askers[side][code] = sum(reach.low <= gap <= reach.high for gap in gaps)
            found[side][code] = stored[side][code] * askers[side][code]
    return alive, found, askers


def asking_for_cell(table, side, cell, new, reach):
    """How many of the new tuples reach some code of a cell, by trying all codes there are in it."""
    inside = range(-14, 15)
    if cell < table.buckets:
        ends = (-(10**6), *table.cuts, 10**6)
        inside = [code for code in inside if ends[cell] <= code < ends[cell + 1]]
    else:
        inside = [int(table.compiled.key_codes[cell - table.buckets])]
    other = new[1 if side == 0 else 0]
    return sum(any(reach.low <= (y - code if side == 0 else code - y) <= reach.high for code in inside) for y in other)


@settings(max_examples=examples(50), deadline=None)
@given(st.sampled_from(list(BANDS)), st.lists(st.tuples(codes, codes), min_size=1, max_size=5), st.data())
def test_cells_and_keys_are_counted_exactly(condition, batches, data):
    """By the code of the stored tuple, on any tables that change between batches, with masked runs and split keys."""
    reach = BANDS[condition]
    drawn = data.draw(st.lists(ordered_tables(reach=reach), min_size=1, max_size=len(batches)))
    drawn += [drawn[-1]] * (len(batches) - len(drawn))
    before = ([], [])
    with evenjoin.local(
        SIDES, condition, select=["l.id"], strategy=Fixed(tuple(drawn)), instances=drawn[0].instances, track=4
    ) as join:
        for left, right in batches:
            join.process({"l": rows(left), "r": rows(right)})
            report, table = join.load(), join._driver.table_named(join._driver.last.table)
            assert LoadReport.from_json(report.to_json()) == report
            new = (left, right)
            alive, found, askers = counted(before, new, reach)
            expected = {}
            for side in (0, 1):
                for code in {*alive[side], *new[side]}:
                    cell = int(cells_of(table, np.array([code]))[0])
                    counts = new[side].count(code), alive[side][code], found[side][code]
                    expected[side, cell] = np.add(expected.get((side, cell), 0), counts).tolist()
            assert {cell[:2]: list(cell[2:]) for cell in report.cells} == expected
            of_cells = {(side, cell): count for side, cell, count in report.askers}
            for side, cell in np.ndindex(2, table.cells):
                assert of_cells.get((side, cell), 0) == asking_for_cell(table, side, cell, new, reach)
            for key in report.heavy:
                if key.code not in report.partial:
                    of_key = [tuple(side[key.code] for side in some) for some in (alive, found, askers)]
                    assert [key.stored, key.results, key.askers] == of_key
            before = (before[0] + left, before[1] + right)


def one_band(*more):
    """Two buckets, .. 9 on instance 0 and 10 .. on instance 1, for |x - y| <= 2."""
    regions = (Region(Buckets((0,)), Biclique(((0,), (0,)))), Region(Buckets((1,)), Biclique(((1,), (1,)))), *more)
    return check(RoutingTable(0, 2, 2, 2, regions, "drawn", Reach(-2, 2), cuts=(10,)))


def loaded(table, left, right, batches=1, **more):
    """The report of a few equal batches under a table."""
    with evenjoin.local(
        SIDES, "abs(l.k - r.k) <= 2", select=["l.id"], strategy=Fixed((table,) * batches), instances=2, track=4, **more
    ) as join:
        for _ in range(batches):
            join.process({"l": rows(left), "r": rows(right)})
        return join.load()


def test_probes_are_those_within_reach_and_not_the_arrivals_of_the_same_item():
    """r at 8 and 9 reach both buckets of l, r at 20 one; l at 9 reaches both of r."""
    table = one_band()
    items = items_of(loaded(table, [9, 30, 30], [8, 9, 20, 20]), table)
    rest = ~items.is_key
    assert items.asking[:, rest].tolist() == [[2, 4], [1, 3]]


def test_a_split_key_is_probed_on_each_of_its_units_by_all_within_reach():
    """Key 5 of l is on both instances: the three r from 3 to 7 probe both, the one at 20 only its bucket."""
    table = one_band(Region(Keys((5,)), Biclique(((0, 1), (0,)))))
    items = items_of(loaded(table, [5] * 8, [3, 4, 7, 20]), table)
    assert items.asking[0, items.code == 5][0] == 3
    regions = regions_of_items(items, table)
    others = [items.asking[0, regions == bucket].sum() for bucket in (0, 1)]
    assert loads(items, table)[0].probes.tolist() == [others[0] + 3, others[1] + 3]


def test_those_who_ask_are_smoothed_too_and_results_follow():
    """Equal batches have their own counts as rates: nothing changes by smoothing."""
    table = one_band()
    report = loaded(table, [5, 5, 12] * 8, [4, 6, 12] * 8, batches=4)
    plain, smooth = items_of(report, table), planning_items(report, table)
    np.testing.assert_allclose(smooth.asking, plain.asking)
    assert report.rates.cuts == (10,)
    assert (smooth.results >= 0).all()


def test_other_cuts_start_rates_anew():
    """As many buckets, but other ones."""
    first = one_band()
    second = check(RoutingTable(1, 2, 2, 2, first.regions, "drawn", Reach(-2, 2), cuts=(5,)))
    with evenjoin.local(
        SIDES, "abs(l.k - r.k) <= 2", select=["l.id"], strategy=Fixed((first, first, second, second)), instances=2,
        track=4,
    ) as join:  # fmt: skip
        seen = []
        for _ in range(4):
            join.process({"l": rows([3, 7, 12]), "r": rows([3, 7, 12])})
            seen.append(join.load().rates.batches)
    assert seen == [1, 2, 1, 2]


def test_where_tuples_expire_results_lean_to_a_side_by_those_who_ask():
    """Equal batches in which all is found in the store of side 0: so it is with rates too, and they survive a file."""
    table = one_band()
    plain = items_of(loaded(table, [5, 5, 12], [4, 6, 12]), table)
    plain = replace(plain, results=np.stack([plain.results[0], np.zeros(len(plain))]))
    assert plain.results[0].sum() > 0
    rates = None
    for _ in range(3):
        rates = rates_after(rates, plain, expired=1)
    again = smoothed(plain, Rates.from_json(json.loads(json.dumps(asdict(rates)))))
    assert (rates.lean[1], rates.cuts) == (0.0, table.cuts)
    np.testing.assert_allclose(again.results.sum(axis=1), plain.results.sum(axis=1), rtol=1e-3)
