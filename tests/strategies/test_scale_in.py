"""Fewer tasks: Alg. 4 over all old tasks. A task that gets another number is renumbered in the manifest, not copied."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenjoin
from evenjoin.commit.identity import recorded_log
from evenjoin.errors import StateCorruptionError, TableError
from evenjoin.instance.migrate import Moving, migrate_instance
from evenjoin.placement import EVERYTHING, Buckets, Grid, Ranges, Reach, Region, RoutingTable, check
from evenjoin.placement.diff import heirs
from evenjoin.placement.pieces import moved_volume
from evenjoin.placement.ranges import Interval
from evenjoin.placement.table import Succession
from evenjoin.spec import build_spec
from evenjoin.state.files import MemoryFolder
from evenjoin.state.manifest import Manifest
from evenjoin.state.segment import Run, Segments
from evenjoin.strategies.adsp.cells import Scheme
from evenjoin.strategies.adsp.mapping import Area, fitted
from evenjoin.strategies.adsp.migration import migration_plan
from evenjoin.testing import Crash, Fixed, brute_force, multiset, run_stream
from thorough import examples

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64())])
SCHEMAS = {"l": SCHEMA, "r": SCHEMA}
SELECT = ["l.id AS a", "r.id AS b"]


def one_grid(rows, columns, version=0, reach=EVERYTHING):
    grid = Grid(rows, columns, tuple(range(rows * columns)))
    return RoutingTable(version, rows * columns, 2, 1, (Region(Buckets((0,)), grid),), reach=reach)


def points(*weights):
    """So many tuples of both sides with codes 5, 15, 25, ..."""
    return tuple((10 * np.arange(len(weights)) + 5, np.array(weights, float)) for _ in "rs")


def areas(*cuts):
    ends = [None, *cuts, None]
    return [Ranges(Interval(low, high), Interval(low, high)) for low, high in pairwise(ends)]


def areas_table(*cuts):
    regions = tuple(Region(area, Grid(1, 1, (n,))) for n, area in enumerate(areas(*cuts)))
    return RoutingTable(0, len(regions), 2, 0, regions, reach=Reach(0, 0))


@pytest.mark.parametrize(
    ("old", "new", "weights", "copied"),
    [
        (one_grid(4, 4), [Area(None, Scheme(4, 3))], [100], 100),
        (one_grid(2, 4), [Area(None, Scheme(2, 3))], [100], 50),
        (
            areas_table(10, 20, 30, 40),
            [Area(area, Scheme(1, 1)) for area in areas(20, 30, 40)],
            [20, 20, 20, 20, 100],
            40,
        ),
    ],
    ids=["4 x 4 to 4 x 3", "2 x 4 to 2 x 3", "two of five areas merge, the fifth is the largest"],
)
def test_only_what_the_dissolved_tasks_stored_is_copied(old, new, weights, copied):
    """225, 117 and 240 tuples would be copied if only the first tasks could be kept."""
    made = check(fitted(old, new, points(*weights)))
    assert made.instances < old.instances
    assert moved_volume(old, made, points(*weights)) == pytest.approx(copied)
    assert RoutingTable.from_json(made.to_json()) == made


def test_a_succession_counts_after_its_own_table_only():
    """After any other table instance i goes on with what instance i stored; so does the next version of the table."""
    old, other = one_grid(2, 2), one_grid(2, 2, version=7)
    new = replace(one_grid(1, 2, version=1), follows=Succession(old.name, (3, -1)))
    assert heirs(old, new).tolist() == [-1, -1, -1, 0]
    assert heirs(other, new).tolist() == [0, 1, -1, -1]
    assert new.with_regions((replace(new.regions[0], topology=Grid(2, 1, (0, 1))),)).follows is None
    for wrong in ((3, 3), (3,)):
        with pytest.raises(TableError, match="goes on with the state"):
            check(replace(new, follows=Succession(old.name, wrong)))


def test_a_mask_keeps_its_number_however_often_its_instance_is_renumbered():
    """Instance 3 becomes 1, then 0; a run without a mask, or whose number stays, is the same run."""
    plain, masked = Run("f", 0, 9, 9, 0, 0, 0, 1, 1, 1), Run("g", 0, 9, 8, 0, 0, 0, 1, 1, 1, mask="4-x")
    once = Manifest({(3, 0): (plain, masked), (0, 0): (masked,), (2, 1): (plain,)}).renumbered(
        {0: 0, 1: -1, 2: -1, 3: 1}
    )
    assert once.runs == {(0, 0): (masked,), (1, 0): (plain, replace(masked, masked_as=3))}
    twice = once.renumbered({0: -1, 1: 0})
    assert twice.runs == {(0, 0): (plain, replace(masked, masked_as=3))}
    assert Run.from_json(twice.of(0, 0)[1].to_json()) == twice.of(0, 0)[1]
    assert once.renumbered({0: 0, 1: 1}) is once


def test_files_of_a_renumbered_instance_stay_open(tmp_path):
    """Instance 1 has the files that instance 3 wrote: instance 3 does not close them, instance 1 does in the end."""
    segments, name, own = (
        Segments(MemoryFolder()),
        "segments/0/0-new-i3-s1t1-a.arrow",
        "segments/0/0-new-i3-s1t1-b.arrow",
    )
    segments._open["-i3-"] = {name: None, own: None}
    segments.retain({name}, "-i1-", 5)
    segments.retain({own}, "-i3-", 5)
    assert segments.files == {name, own}
    segments.retain(set(), "-i1-", 6)
    assert segments.files == {own}
    assert segments._adopted in ({}, {name: "-i1-"})


# ---- joins ----


def batches(count=6, rows=48):
    out = []
    for n in range(count):
        keys = np.random.default_rng(n).integers(0, 40, (2, rows))
        ids = np.arange(n * rows, (n + 1) * rows)
        out.append({a: pa.table([ids, keys[s]], schema=SCHEMA) for s, a in enumerate("lr")})
    return out


def whole(some):
    return {a: pa.concat_tables(batch[a] for batch in some) for a in "lr"}


def chain(start, *schemes):
    """Tables made one from the other, as a planner makes them; half of the instances are renumbered on the way."""
    tables = [start]
    for n, scheme in enumerate(schemes, 1):
        made = scheme if isinstance(scheme, list) else [Area(None, scheme)]
        tables.append(replace(check(fitted(tables[-1], made, points(*[1] * 5))), version=n))
    return tuple(tables)


GRIDS = chain(one_grid(3, 5), Scheme(3, 6), Scheme(3, 4), Scheme(3, 3), Scheme(2, 2), Scheme(1, 1))
AREAS = chain(
    areas_table(8, 16, 24, 32),
    [Area(area, Scheme(1, 1)) for area in areas(16, 24, 32)],
    [Area(area, Scheme(1, 1)) for area in areas(24, 32)],
    [Area(area, Scheme(1, 2)) for area in areas(24)],
    [Area(area, Scheme(1, 1)) for area in areas(24)],
    [Area(None, Scheme(1, 1))],
)
CASES = {"grids": ("l.k <> r.k", GRIDS), "areas": ("l.k = r.k", AREAS)}


@pytest.mark.parametrize("case", CASES)
def test_scale_ins_in_a_row_lose_and_repeat_nothing(case):
    """Renumbered twice and more in a row, with masks on renumbered runs: the brute-force join.
    No instance is named that the table has not."""
    condition, tables = CASES[case]
    spec, some = build_spec(SCHEMAS, condition, select=SELECT), batches()
    assert sum(new.follows is not None and max(heirs(old, new)) >= 0 for old, new in pairwise(tables)) >= 2
    with evenjoin.local(
        SCHEMAS, condition, select=SELECT, strategy=Fixed(tables), instances=tables[0].instances
    ) as join:
        found, renumbered = Counter(), 0
        for number, batch in enumerate(some):
            found += multiset(join.process(batch))
            last = join._driver.last
            assert {instance for instance, _, _ in last.manifest} <= set(range(tables[number].instances))
            renumbered += sum(run.masked_as is not None for _, _, run in last.manifest)
    assert found == brute_force(spec, whole(some))
    if case == "grids":
        assert renumbered


@pytest.mark.slow
@settings(max_examples=examples(12), deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=5, max_size=5), st.integers(1, 60))
def test_any_sequence_of_grids(shapes, budget):
    """Up, down and across, with runs merged on the way: the brute-force join."""
    tables, some = chain(one_grid(3, 4), *(Scheme(*shape) for shape in shapes)), batches(rows=16)
    with evenjoin.local(
        SCHEMAS, "l.k <> r.k", select=SELECT, strategy=Fixed(tables), instances=12, merge_budget=budget
    ) as join:
        found = multiset(pa.concat_tables([join.process(batch) for batch in some]))
    assert found == brute_force(build_spec(SCHEMAS, "l.k <> r.k", select=SELECT), whole(some))


def moving(tables, condition, count):
    """After so many batches: the work of the migration that comes next, its new table, and the folder."""
    folder = MemoryFolder()
    with evenjoin.local(
        SCHEMAS, condition, select=SELECT, strategy=Fixed(tables), instances=tables[0].instances, checkpoint=folder
    ) as join:
        for batch in batches(count):
            join.process(batch)
        driver, last = join._driver, join._driver.last
        new = driver.table_named(last.next_table)
        return driver._work(count, driver.table_named(last.table), last.manifest), new, folder


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("case", CASES)
def test_the_engine_makes_the_moves_of_alg_5(case, count):
    """For each pair of instances as many tuples are sent as the copies of the plan cover."""
    condition, tables = CASES[case]
    work, new, folder = moving(tables, condition, count)
    copies, said, sent = migration_plan(work.table, new, points(1)).copies, Counter(), Counter()
    number, segments = heirs(work.table, new), Segments(folder)
    for (donor, side), runs in work.runs.items():
        for run in runs:
            tuples = segments.read(work.schemas[side], run)
            alive = work.alive(donor, side, run, tuples)
            for code, u in zip(*(column if alive is None else column[alive] for column in tuples.at[:2]), strict=True):
                some = (c for c in copies if (c.side, c.source) == (side, donor) and int(code) in c.codes)
                said.update((side, donor, c.target) for c in some if c.begin <= u < c.end)
    for donor in range(work.table.instances):
        done = migrate_instance(Moving.to(new, work), donor, folder, segments, "x")
        for (recipient, side), runs in done.come.items():
            if recipient != number[donor]:
                sent[side, donor, recipient] += sum(run.alive for run in runs)
    assert sent == said
    assert sent


def test_a_source_that_did_not_store_what_it_holds_is_noticed():
    """The runs of two instances are exchanged: the migration refuses to go on from that."""
    work, new, folder = moving(GRIDS, "l.k <> r.k", 2)
    swapped = {(17 - instance, side): runs for (instance, side), runs in work.runs.items()}
    with pytest.raises(StateCorruptionError, match="instance 0 holds tuples"):
        migrate_instance(Moving.to(new, replace(work, runs=swapped)), 0, folder, Segments(folder), "x")


class Fickle(Fixed):
    """Plans another number of rows every time that it is asked, and remembers them."""

    made: ClassVar[list[str]] = []

    def plan(self, report, items, table):
        scheme = Scheme(2 + len(self.made), 1)
        self.made.append(fitted(table, [Area(None, scheme)], points(1)).name)
        return fitted(table, [Area(None, scheme)], points(1))


def test_a_plan_counts_from_the_commit_that_records_it():
    """Planning is part of making a commit. A plan whose commit was never made is forgotten: the next batch runs under
    the table of the plan that the commit names."""
    folder, some = MemoryFolder(), batches(3, 12)

    def make(hooks):
        return evenjoin.local(
            SCHEMAS, "l.k <> r.k", select=SELECT, strategy=Fickle((one_grid(1, 1),)), instances=1, checkpoint=folder,
            hooks=hooks,
        )  # fmt: skip

    sunk = run_stream(make, [some[0], Crash("commit"), some[1], some[2]])
    log = recorded_log(folder)
    commits = [*log.commits()][::-1]
    assert len(Fickle.made) == 4  # the second plan was made twice
    assert [commit.next_table for commit in commits] == [Fickle.made[0], Fickle.made[2], Fickle.made[3]]
    assert [commit.table for commit in commits][1:] == [Fickle.made[0], Fickle.made[2]]
    assert multiset(pa.concat_tables(sunk.values())) == brute_force(
        build_spec(SCHEMAS, "l.k <> r.k", select=SELECT), whole(some)
    )


@pytest.mark.parametrize("case", CASES)
def test_a_crash_at_any_step_of_a_renumbering_migration(case):
    """The migration is done again from the last commit, with the same numbers: the same output."""
    condition, tables = CASES[case]
    steps = ["begin", "migrated", "executed", "receipts", "commit", "committed"]
    crashes = [*map(Crash, steps), *(Crash(step, n) for step in ("moved", "sealed", "joined") for n in (0, 1))]
    some, folder, stream = batches(rows=12), MemoryFolder(), []
    for number, batch in enumerate(some):
        stream += [*(crashes[number::3] if number else ()), batch]

    def make(hooks):
        return evenjoin.local(
            SCHEMAS, condition, select=SELECT, strategy=Fixed(tables), instances=tables[0].instances,
            checkpoint=folder, hooks=hooks, merge_budget=8,
        )  # fmt: skip

    sunk = run_stream(make, stream)
    assert multiset(pa.concat_tables(sunk.values())) == brute_force(
        build_spec(SCHEMAS, condition, select=SELECT), whole(some)
    )
