"""Another number of instances: buckets are handed over, keys keep their regions, and little moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.errors import TableError
from evenjoin.load.items import Items, items_of, loads, moved_tuples, work_by_instance
from evenjoin.load.refined import comparable, refined_items
from evenjoin.load.report import LoadReport
from evenjoin.placement import At, Biclique, Buckets, Cube, Grid, Keys, Reach, Region, RoutingTable, check, diff, place
from evenjoin.placement.cube import Dim
from evenjoin.placement.place import bucket_of
from evenjoin.placement.shares import holdings
from evenjoin.placement.topology import Role
from evenjoin.strategies import resolve
from evenjoin.strategies.bistream import hash_table
from evenjoin.strategies.edit import home_of_buckets, keys_of
from evenjoin.strategies.handover import FEW, FINE, can_resize, resized
from thorough import examples

KEYED = ["hash", "auto", "djb", "fastjoin", "lsstream", "readj"]
RNG = np.random.default_rng(20)
CODES, POSITIONS = RNG.integers(-(2**62), 2**62, 50_000), RNG.integers(0, 2**32, 50_000).astype(np.uint32)


def nothing_known(table):
    return items_of(LoadReport(1, (), (), (), ()), table)


def known(table, keys=(), seed=0, heavy=0.0):
    """Items of a table: its keys with regions and `keys` have `heavy` tuples each, buckets some hundreds."""
    rng = np.random.default_rng(seed)
    codes = np.array([*keys, *table.compiled.key_codes.tolist()], np.int64)
    n = len(codes) + table.buckets
    counts = np.concatenate([np.full(len(codes), heavy), rng.integers(1, 1000, table.buckets)])
    stored = np.tile(counts, (table.groups, 1)).astype(np.float64)
    return Items(
        np.concatenate([codes, np.zeros(table.buckets, np.int64)]),
        np.arange(n) < len(codes),
        np.concatenate([bucket_of(codes, table.buckets), np.arange(table.buckets)]),
        stored, stored / 10, stored / 20,
    )  # fmt: skip


def moved(old, new):
    """The share of all tuples that enters an instance, of all sides, by `diff`."""
    entered = [len(diff(old, new, side, At(CODES, POSITIONS)).enter_row) for side in range(old.groups)]
    return sum(entered) / len(CODES) / old.groups


@pytest.mark.parametrize("strategy", [*KEYED, "random"])
@pytest.mark.parametrize(("old", "new", "least"), [(8, 9, 1 / 9), (16, 17, 1 / 17), (9, 8, 1 / 9), (4, 8, 1 / 2)])
def test_no_more_moves_than_must(strategy, old, new, least):
    """What an even table needs: 11 % for 8 -> 9, 6 % for 16 -> 17, 11 % for 9 -> 8. A fresh table moves half of all."""
    table = resolve(strategy).initial(old, 2, "shared")
    made = check(resized(table, new, nothing_known(table)))
    assert made.instances == new
    assert 0.8 * least <= moved(table, made) <= 1.1 * least
    fresh = replace(resolve(strategy).initial(new, 2, "shared"), version=1)
    assert moved(table, made) <= moved(table, fresh)
    share = np.bincount(place(made, 0, At(CODES, POSITIONS)).only(Role.STORE).instance, minlength=new) / len(CODES)
    assert share.max() <= 1.2 / new


@pytest.mark.parametrize("strategy", ["hash", "djb", "random"])
@pytest.mark.parametrize(("old", "new"), [(8, 9), (9, 8), (16, 15), (12, 18), (18, 12)])
def test_split_sides_keep_their_parts(strategy, old, new):
    """The sides have as many instances as their parts say, and only one side's tuples move for one instance."""
    table = resolve(strategy).initial(old, 2, "split")
    made = check(resized(table, new, nothing_known(table)))
    hosts = [sorted({u for r in made.regions for u in r.topology.units[side]}) for side in (0, 1)]
    assert not set(hosts[0]) & set(hosts[1])
    assert sorted(hosts[0] + hosts[1]) == list(range(new))
    assert abs(len(hosts[0]) - len(hosts[1])) <= 1
    assert moved(table, made) <= 1.3 * abs(new - old) / min(new, old)


def test_sides_that_were_divided_unevenly_stay_so():
    """6 instances for one side and 2 for the other: 12 are divided 9 and 3, 4 are divided 3 and 1."""
    table = resolve("djb").initial(8, 2, "split")
    units = {b: (b * 6 // table.buckets, 6 + b * 2 // table.buckets) for b in range(table.buckets)}
    regions = tuple(Region(Buckets((b,)), Biclique(((r,), (s,)))) for b, (r, s) in units.items())
    table = check(table.with_regions(regions))
    for size, parts in ((12, (9, 3)), (4, (3, 1))):
        made = check(resized(table, size, nothing_known(table)))
        assert tuple(len({u for r in made.regions for u in r.topology.units[side]}) for side in (0, 1)) == parts


@settings(max_examples=examples(50), deadline=None)
@given(st.integers(1, 300), st.integers(1, 40), st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_a_multiple_of_buckets_refines_them(buckets, times, codes):
    """The fine bucket of a code is one of the parts of its coarse bucket: nothing moves when buckets are made finer."""
    codes = np.array(codes, np.int64)
    assert (bucket_of(codes, times * buckets) // times == bucket_of(codes, buckets)).all()


def test_finer_buckets_place_every_tuple_as_before():
    """Also tuples of keys with regions."""
    table = with_keys(hash_table("t", 8, 4, 2, "shared"))
    codes = np.concatenate([CODES, np.array([5, 6, 7])])
    at = At(codes, np.concatenate([POSITIONS, POSITIONS[:3]]))
    fine = check(table.refined(5))
    assert fine.buckets == 40
    for side in (0, 1):
        for mine, theirs in zip(place(table, side, at), place(fine, side, at), strict=True):
            assert mine.tolist() == theirs.tolist()


def with_keys(table):
    """Key 5 moved, key 6 divided as a grid, key 7 split by weight."""
    return check(
        table.with_regions(
            (
                *table.regions,
                Region(Keys((5,)), Biclique(((3,), (3,)))),
                Region(Keys((6,)), Grid(3, 1, (1, 2, 3), divisions=(((0, 2**31), (1, 2**30), (2, 2**30)), (), ()))),
                Region(Keys((7,)), Biclique(((0, 2), (1,)), ((0.75, 0.25), (1.0,)))),
            )
        )
    )


def test_keys_keep_their_regions_when_instances_are_added():
    """Moved, divided and split keys stay as they are; only buckets are handed over."""
    table = with_keys(hash_table("t", 64, 4, 2, "shared"))
    made = check(resized(table, 6, known(table, heavy=50.0)))
    assert keys_of(made) == keys_of(table)
    assert made.follows is None
    homes, before = home_of_buckets(made), home_of_buckets(table)
    assert {homes[b].units[0][0] for b in homes if homes[b] != before[b]} == {4, 5}


def test_new_instances_relieve_the_fullest():
    """Instance 2 stores ten times as much as others: nearly all that the new one takes is from there."""
    table = hash_table("t", 64, 4, 2, "shared")
    items = known(table)
    factor = np.where(items.bucket // 16 == 2, 10.0, 1.0)
    items = replace(items, stored=items.stored * factor, arrived=items.arrived * factor, results=items.results * factor)
    made = check(resized(table, 5, items))
    taken = [b for b, units in home_of_buckets(made).items() if units.units[0] == (4,)]
    assert {b // 16 for b in taken} == {2}
    work = work_by_instance(items, made)
    assert work[4] == pytest.approx(work.sum() / 5, rel=0.2)
    assert moved_tuples(items, table, made) <= 1.1 * items.stored.sum() / 5


def test_a_hot_key_does_not_leave_new_instances_idle():
    """Key 5 is most of the load, stays, and has an instance for itself. None of the others has more than an even share
    of all; still they give until the new instance has as much as they have."""
    table = replace(hash_table("t", 48, 3, 2, "shared"), instances=4)
    table = check(table.with_regions((*table.regions, Region(Keys((5,)), Biclique(((3,), (3,)))))))
    items = known(table, heavy=100_000.0)
    made = check(resized(table, 5, items))
    assert keys_of(made) == keys_of(table)
    work = work_by_instance(items, made)
    assert work[4] == pytest.approx(work[:3].mean(), rel=0.25)


def test_an_instance_does_not_give_its_only_bucket():
    """Instance 0 is the fullest and has one bucket, which would be no more than a new instance may take. It keeps it:
    the new one takes from others, and nobody is idle."""
    hosts = [0] + [1 + b // 13 for b in range(39)]
    regions = tuple(Region(Buckets((b,)), Biclique(((host,), (host,)))) for b, host in enumerate(hosts))
    table = check(replace(hash_table("t", 40, 4, 2, "shared"), regions=regions))
    counts = np.tile(np.array([1800.0] + [100.0] * 39), (2, 1))
    items = replace(known(table), stored=counts, arrived=counts / 10, results=counts / 20)
    made = check(resized(table, 5, items))
    homes = home_of_buckets(made)
    assert homes[0].units == ((0,), (0,))
    assert {biclique.units[0][0] for biclique in homes.values()} == set(range(5))


def of_law(table, law):
    """Items of a table: buckets that are all alike; or with 1 to 3 times as much; or such and 16 hot keys, that have as
    much as all of them together."""
    hot = range(16) if law == "hot" else ()
    items, rng = known(table, hot), np.random.default_rng(3)
    counts = 2000.0 * np.ones(table.buckets) if law == "even" else rng.uniform(1000, 3000, table.buckets)
    counts = np.tile(np.concatenate([np.full(len(hot), counts.sum() / 16), counts]), (2, 1))
    return replace(items, stored=counts, arrived=counts / 10, results=counts / 20)


@pytest.mark.parametrize("layout", ["shared", "split"])
@pytest.mark.parametrize(("law", "least", "most"), [("even", 0.8, 1.25), ("uneven", 0.8, 1.25), ("hot", 0.6, np.inf)])
def test_growth_leaves_no_instance_idle(layout, law, least, most):
    """30 % more instances, again and again: each hosts buckets of its side. None has much less than the median, and
    none much more, unless it has a hot key. No more moves than new instances must get."""
    table = hash_table("t", 320, 40, 2, layout)
    items = of_law(table, law)
    for size in (52, 68, 88, 114):
        made = check(resized(table, size, items))
        items, before, made = comparable(items, table, made)
        for side, units in enumerate(loads(items, made)):
            hosts = sorted({biclique.units[side][0] for biclique in home_of_buckets(made).values()})
            assert len(hosts) == size if layout == "shared" else abs(len(hosts) - size / 2) <= 1
            share = units.stored[hosts] / np.median(units.stored[hosts])
            assert least <= share.min() <= share.max() <= most
        assert moved_tuples(items, before, made) <= 1.1 * (1 - before.instances / size) * items.stored.sum()
        table = made


def test_dissolved_instances_leave_their_keys_to_others():
    """The emptiest instance goes. Its moved key moves on, and the cells of divided keys that it had go to others."""
    table = with_keys(hash_table("t", 64, 4, 2, "shared"))
    items = known(table, heavy=10.0)
    least = np.where(items.bucket // 16 == 3, 0.05, 1.0)
    items = replace(items, stored=items.stored * least, arrived=items.arrived * least, results=items.results * least)
    made = check(resized(table, 3, items))
    assert made.instances == 3
    assert made.follows is None
    keys = keys_of(made)
    assert keys[7] == keys_of(table)[7]
    assert isinstance(keys[6], Grid)
    assert sorted(keys[6].cells) == [0, 1, 2]
    assert keys[6].divisions == keys_of(table)[6].divisions


def test_instances_that_stay_keep_their_state_under_another_number():
    """Instance 1 is the emptiest of 4: instance 3 goes on as number 1, and no tuple moves for that."""
    table = hash_table("t", 64, 4, 2, "shared")
    items = known(table)
    items = replace(items, stored=np.where(items.bucket // 16 == 1, 1.0, 500.0) * np.ones((2, 1)))
    made = check(resized(table, 3, items))
    assert made.follows.of == (0, 3, 2)
    assert made.follows.table == table.name
    assert moved(table, made) == pytest.approx(1 / 4, abs=0.02)
    assert moved_tuples(items, table, made) == 2 * 16


def test_a_divided_key_gets_fewer_cells_where_there_are_fewer_instances():
    """A 2 x 2 grid on 4 instances is 1 x 2 on 3, and a whole key on one."""
    table = hash_table("t", 64, 4, 2, "shared")
    table = check(table.with_regions((*table.regions, Region(Keys((6,)), Grid(2, 2, (0, 1, 2, 3))))))
    three, one = (check(resized(table, size, nothing_known(table))) for size in (3, 1))
    assert sorted((keys_of(three)[6].rows, keys_of(three)[6].columns)) == [1, 2]
    assert keys_of(one) == {}  # it is where its bucket is


def test_few_buckets_are_made_finer_and_many_are_left():
    """4 buckets a unit become at least FINE, 16 stay; however often the size changes, their number is bounded."""
    table = hash_table("t", 0, 8, 2, "shared")
    assert resized(table, 9, nothing_known(table)).buckets % table.buckets == 0
    assert resized(table, 9, nothing_known(table)).buckets >= FINE * 9
    many = hash_table("t", 128, 8, 2, "shared")
    assert resized(many, 9, nothing_known(many)).buckets == 128
    for size in (20, 7, 50, 3, 64, 5, 64):
        table = resized(table, size, nothing_known(table))
        assert table.buckets <= (FEW + FINE) * 64


def test_what_is_not_for_it():
    """Grids, areas and cubes are sized by their strategies, subgroups by theirs."""
    assert not can_resize(resolve("square").initial(4, 2, "shared"))
    assert not can_resize(resolve("contrand(groups=2)").initial(4, 2, "shared"))
    assert not can_resize(resolve("random").initial(1, 2, "shared"))
    assert can_resize(resolve("random").initial(2, 2, "shared"))
    assert can_resize(resolve("hash").initial(1, 2, "shared"))


def test_ordered_buckets_are_handed_over_as_they_are_cut():
    """Their parts are no ranges of hashes, so they are not made finer, and no other table refines them. With fewer of
    them than instances there is nothing to hand over: the strategy cuts anew."""
    hashed = resolve("hash").initial(2, 2, "shared")
    table = replace(hashed, reach=Reach(-1, 1), cuts=tuple(range(hashed.buckets - 1)))
    items = replace(nothing_known(hashed), cuts=table.cuts)
    for wanted in (1, 3, 8):
        made = check(resized(table, wanted, items))
        assert (made.cuts, made.buckets, made.instances) == (table.cuts, table.buckets, wanted)
        assert len(set(holdings(made, 0, Role.STORE).instance.tolist())) == wanted
    assert can_resize(table, hashed.buckets)
    assert not can_resize(table, hashed.buckets + 1)
    with pytest.raises(TableError, match="cut anew"):
        table.refined(2)
    for pair in ((table, hashed.refined(2)), (hashed.refined(2), table)):
        assert comparable(items, *pair) == (items, *pair)


@st.composite
def keyed_tables(draw):
    """Two or three sides; layout shared or split; buckets anywhere; keys moved, split, or divided by a grid or cube."""
    sides = draw(st.sampled_from([2, 3]))
    meeting = draw(st.sampled_from(["pairs", "together"]))
    layout = "shared" if meeting == "together" else draw(st.sampled_from(["shared", "split"]))
    instances = draw(st.integers(sides if layout == "split" else 1, 9))
    own = [list(range(instances))] * sides
    if layout == "split":
        cuts = sorted(draw(st.permutations(range(1, instances)))[: sides - 1])
        own = [list(range(a, b)) for a, b in zip([0, *cuts], [*cuts, instances], strict=True)]

    def whole():
        if meeting == "together":
            return Biclique(((draw(st.sampled_from(own[0])),),) * sides)
        return Biclique(tuple((draw(st.sampled_from(some)),) for some in own))

    def several(some):
        return tuple(draw(st.lists(st.sampled_from(some), min_size=1, unique=True)))

    def divided():
        everyone = draw(st.permutations(range(instances)))
        kind = draw(st.sampled_from(["split", "grid", "cube"]))
        if kind == "split" and meeting == "pairs":
            units = tuple(several(some) for some in own)
            return Biclique(units, tuple(tuple(draw(st.integers(1, 9)) * 1.0 for _ in side) for side in units))
        if kind == "grid" and sides == 2:
            rows = draw(st.integers(1, instances))
            columns = draw(st.integers(1, instances // rows))
            return Grid(rows, columns, tuple(everyone[: rows * columns]))
        if sides == 2 or meeting == "together":
            first = draw(st.integers(1, instances))
            second = draw(st.integers(1, instances // first))
            return Cube((Dim("u", first, 0), Dim("u", second, 1)), tuple(everyone[: first * second]))
        return whole()

    buckets = draw(st.integers(2, 40))
    regions = [Region(Buckets((b,)), whole()) for b in range(buckets)]
    for code in draw(st.lists(st.integers(0, 60), unique=True, max_size=6)):
        regions.append(Region(Keys((code,)), draw(st.sampled_from([whole, divided]))()))
    return check(RoutingTable(3, instances, sides, buckets, tuple(regions), "drawn", layout=layout, meeting=meeting))


@settings(max_examples=examples(100), deadline=None)
@given(keyed_tables(), st.lists(st.integers(1, 12), min_size=1, max_size=4), st.booleans(), st.integers(0, 2**16))
def test_every_table_is_right(table, sizes, counted, seed):
    """From any keyed table, through any sizes: no result is lost or repeated, only keys that had regions have them, and
    tuples of buckets move only to new instances or from dissolved ones."""
    assert can_resize(table)
    for size in sizes:
        wanted = max(size, table.groups if table.layout == "split" else 1)
        items = known(table, (61, 62), seed, 700.0) if counted else nothing_known(table)
        made = check(resized(table, wanted, items))
        assert made.instances == wanted
        assert made.version == table.version + (wanted != table.instances)
        assert keys_of(made).keys() <= keys_of(table).keys()
        assert (made.layout, made.meeting, made.groups) == (table.layout, table.meeting, table.groups)
        _assert_moves(table, made)
        compared = comparable(items, table, made)
        expected = moved_tuples(*compared)
        assert 0 <= expected <= items.stored.sum() * made.instances + 1e-6
        table = made


def _assert_moves(old, new):
    """Tuples of keys without regions: what enters an instance that was there before was on one that is gone."""
    at = At(CODES[:500], POSITIONS[:500])
    of = new.follows.of if new.follows is not None else tuple(range(min(old.instances, new.instances)))
    fresh = {i for i in range(new.instances) if i >= len(of) or of[i] < 0}
    gone = set(range(old.instances)) - set(of)
    for side in range(old.groups):
        moves = diff(old, new, side, at)
        assert set(moves.leave_row.tolist()) == set(moves.enter_row.tolist())
        left = dict(zip(moves.leave_row.tolist(), moves.leave_instance.tolist(), strict=True))
        for row, to in zip(moves.enter_row.tolist(), moves.enter_instance.tolist(), strict=True):
            assert to in fresh or left[row] in gone


@settings(max_examples=examples(25), deadline=None)
@given(keyed_tables(), st.integers(1, 7), st.integers(0, 2**16))
def test_refined_items_are_the_same_load(table, times, seed):
    """Counts add up by coarse bucket and by key, and any table has the same work on them."""
    items = known(table, (61, 62), seed, 300.0)
    fine = refined_items(items, times)
    assert fine.fit(table.refined(times))
    for mine, theirs in ((items.stored, fine.stored), (items.arrived, fine.arrived), (items.results, fine.results)):
        for side in range(table.groups):
            coarse = np.bincount(fine.bucket // times, theirs[side], table.buckets)
            assert coarse == pytest.approx(np.bincount(items.bucket, mine[side], table.buckets))
    assert work_by_instance(fine, table.refined(times)) == pytest.approx(work_by_instance(items, table))


@settings(max_examples=examples(25), deadline=None)
@given(keyed_tables(), st.integers(1, 12), st.integers(0, 2**16))
def test_the_moves_that_are_told_are_those_of_diff(table, size, seed):
    """`moved_tuples` of a table that renumbers instances, against `diff` on tuples that are spread over all buckets."""
    wanted = max(size, table.groups if table.layout == "split" else 1)
    made = resized(table, wanted, known(table, seed=seed))
    codes = np.arange(1000, 3000)
    at = At(codes, np.zeros(len(codes), np.uint32))
    buckets = bucket_of(codes, made.buckets)
    plain = nothing_known(replace(table.refined(made.buckets // table.buckets)))
    rest = np.bincount(buckets, minlength=made.buckets).astype(np.float64)
    counts = np.concatenate([np.zeros(len(plain) - made.buckets), rest])
    items = replace(plain, stored=np.tile(counts, (table.groups, 1)))
    _, old, new = comparable(nothing_known(table), table, made)
    entered = sum(len(diff(table, made, side, at).enter_row) for side in range(table.groups))
    assert moved_tuples(items, old, new) == pytest.approx(entered)
