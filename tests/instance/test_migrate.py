"""A migration reads what moves: it sends, masks, copies and drops what reading everything would, from fewer files.

The joins start on one instance and go through tables that follow each other; each migration is also made by the slow
reference (slow_migration.py). Tables need not be right for the join here: a migration does not ask for that.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from alone import Alone, one_region
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_migration import migrate_slowly

from evenjoin.errors import StateCorruptionError
from evenjoin.instance.migrate import Migrated, Moving, migrate_here, migrate_instance
from evenjoin.placement import Biclique, Buckets, Keys, Region, RoutingTable
from evenjoin.runtime.advance import NOTHING_YET, migrated
from evenjoin.spec import build_spec
from evenjoin.state.segment import Segments
from evenjoin.testing import ranged_tables, routing_tables
from neighbours import successions
from thorough import examples

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")

TWO = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("name", pa.string()), ("ts", pa.int64())])
THREE = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])
CONDITIONS = ["l.k = r.k", "l.name = r.name", "l.k = r.k AND r.ts BETWEEN l.ts - 8 AND l.ts + 8"]
keys = st.lists(st.integers(0, 12), min_size=1, max_size=60)


def started(condition, *batches):
    """One instance that has stored these batches of keys, on both sides."""
    timed = "ts" in condition
    spec = build_spec(
        dict.fromkeys("lr", TWO), condition, select=["l.id AS a", "r.id AS b"], event_time="ts" if timed else None,
        watermark=20 if timed else None,
    )  # fmt: skip
    alone = Alone(spec)
    for batch in batches:
        rows = [{"id": n, "k": key, "name": f"key {key}", "ts": 5 * n} for n, key in enumerate(batch)]
        alone.batch({"l": rows, "r": rows[::2]})
    return alone


def packed(*batches):
    """The same for three sides that keep intermediate results, anchored at either tuple of a pair."""
    spec = build_spec(dict.fromkeys("rst", THREE), "r.a = s.a AND s.b = t.b AND r.b = t.a", select=["r.id AS a"])
    alone = Alone(spec, replace(one_region(3), program="trijoin packed"))
    for batch in batches:
        rows = [{"id": n, "a": key, "b": key % 3} for n, key in enumerate(batch)]
        alone.batch({"r": rows, "s": rows[::2], "t": rows[::3]})
    return alone


def through(alone, tables):
    """Migrate from table to table, quickly and slowly; goes on from what the quick way has made."""
    work, masks = alone.work(), {}
    for new in tables:
        table = replace(new, program=new.program if new.program != "direct" else work.table.program)
        quick = migrate_here(work, table, alone.folder, Segments(alone.folder), lambda: "quick")
        slow = migrate_slowly(work, table, alone.folder, "slow")
        assert [told(work, alone.folder, one) for one in quick] == [told(work, alone.folder, one) for one in slow]
        masks[table.name] = table
        manifest, _ = migrated(NOTHING_YET, work, table, quick, 0.0, "")
        work = replace(work, table=table, runs=manifest.runs, masks=dict(masks), batch=work.batch + 1)
    return work


def told(work, folder, done: Migrated):
    """What an instance did: its runs by place, in order, each with its facts and its rows."""
    segments = Segments(folder)

    def seen(store, run):
        facts = {**run.to_json(), "file": run.file.replace("slow", "quick"), "crc": 0, "file_bytes": 0, "bytes": 0}
        return facts, segments.read(work.schemas[store], run).batch.to_pylist()

    runs = [{place: [seen(place[1], run) for run in some] for place, some in side.items() if some}
            for side in (done.gone, done.come)]  # fmt: skip
    return done.instance, done.heir, runs, done.tuples, done.bytes


def with_codes(tables, codes):
    """The tables with these codes in place of the keys 0, 1, 2 and so on."""

    def renamed(region):
        if isinstance(region.takes, Keys):
            return replace(region, takes=Keys(tuple(codes[c] if c < len(codes) else c for c in region.takes.codes)))
        return region

    return [replace(table, regions=tuple(map(renamed, table.regions)), follows=None) for table in tables]


def codes_of(alone):
    """The codes that are stored, ascending."""
    work, segments = alone.work(), Segments(alone.folder)
    runs = [(store, run) for (_, store), some in work.runs.items() for run in some]
    return sorted({int(c) for store, run in runs for c in segments.read(work.schemas[store], run).codes})


@settings(max_examples=examples(25), deadline=None)
@given(successions(most=5), st.lists(keys, min_size=1, max_size=3), st.sampled_from(CONDITIONS))
def test_a_migration_gives_what_reading_everything_gives(tables, batches, condition):
    """Exact and hashed codes, sub-windows, masks on masks, instances that are renumbered, come and go."""
    alone = started(condition, *batches)
    through(alone, tables if "name" not in condition else with_codes(tables, codes_of(alone)))


@settings(max_examples=examples(15), deadline=None)
@given(successions(most=4, sides=3), st.lists(keys.map(lambda some: some[:24]), min_size=1, max_size=2))
def test_packs_move_by_their_anchors(tables, batches):
    """The same for intermediate results, which are not sorted by what they are placed by; then a program without
    them."""
    work = through(packed(*batches), tables)
    last = replace(tables[-1], version=9, program="tree 0", follows=None)
    assert {store for _, store in through_last(work, last)} <= {0, 1, 2}


def through_last(work, new):
    """The places after a migration that opens nothing: only packs go."""
    untouched = Moving.to(new, work)
    assert untouched.donors == []
    return migrated(NOTHING_YET, work, new, untouched.completed([]), 0.0, "")[0].runs


@settings(max_examples=examples(15), deadline=None)
@given(routing_tables(), ranged_tables(), keys)
def test_between_buckets_and_areas_every_row_is_compared(keyed, ranged, batch):
    """Nothing is known of the codes then, and the answer is the same."""
    through(started(CONDITIONS[0], batch), [replace(keyed, version=1), replace(ranged, version=2)])


HOME = tuple(Region(Buckets((b,)), Biclique(((b,), (b,)))) for b in range(4))


def spread(*more, version=1):
    """Four buckets on four instances, and regions of keys."""
    return RoutingTable(version, 4, 2, 4, (*HOME, *more))


class Opened(Segments):
    """Segments that say which runs were opened."""

    def __init__(self, folder):
        super().__init__(folder)
        self.runs = []

    def read(self, schema, run):
        self.runs.append(run)
        return super().read(schema, run)


def opened(work, new, folder):
    segments = Opened(folder)
    done = migrate_here(work, new, folder, segments, lambda: "x")
    return segments.runs, done


def holder_of(work, code, folder):
    segments = Segments(folder)
    (found,) = {
        instance
        for (instance, store), runs in work.runs.items()
        for run in runs
        if code in segments.read(work.schemas[store], run).codes
    }
    return found


def test_a_key_that_moves_opens_the_runs_of_its_holder_alone():
    """And of these only the side that moves. Every other instance is told as one that did nothing."""
    alone = started(CONDITIONS[0], [*range(13)] * 4)
    work = through(alone, [spread()])
    holder = holder_of(work, 7, alone.folder)
    other = (holder + 1) % 4
    runs, done = opened(work, spread(Region(Keys((7,)), Biclique(((other,), (holder,)))), version=2), alone.folder)
    assert runs == list(work.runs[holder, 0])
    assert sum(one.tuples for one in done) == done[holder].tuples == 4
    assert [(one.instance, one.heir) for one in done] == [(n, n) for n in range(4)]


@pytest.mark.parametrize(
    "regions",
    [(), (Region(Keys((99,)), Biclique(((3,), (3,)))),)],
    ids=["the same places under another version", "a key that nobody has stored"],
)
def test_what_moves_nothing_writes_nothing(regions):
    """A table that says the same in another version opens no run; one that moves a code which is not stored opens
    those of the one instance that could have it."""
    alone = started(CONDITIONS[0], [*range(13)])
    work = through(alone, [spread()])
    files = set(alone.folder.names("segments"))
    runs, done = opened(work, spread(*regions, version=2), alone.folder)
    assert len({run.file for run in runs}) <= (2 if regions else 0)
    assert [(one.gone, one.come, one.tuples) for one in done] == [({}, {}, 0)] * 4
    assert set(alone.folder.names("segments")) == files


def test_a_tuple_of_a_moving_code_in_the_wrong_place_is_noticed():
    """The runs of two instances are exchanged, and a code of each moves: neither stores by the old table what it finds
    there of the other's code."""
    alone = started(CONDITIONS[0], [*range(13)] * 4)
    work = through(alone, [spread()])
    one = holder_of(work, 7, alone.folder)
    code, two = next((c, at) for c in range(13) if (at := holder_of(work, c, alone.folder)) != one)
    turned = {one: two, two: one}
    swapped = {(turned.get(instance, instance), side): runs for (instance, side), runs in work.runs.items()}
    (free, *_) = {0, 1, 2, 3} - {one, two}
    moving = Moving.to(spread(Region(Keys((7, code)), Biclique(((free,), (free,)))), version=2), work)
    assert moving.donors == sorted([one, two])
    for instance in moving.donors:
        segments = Segments(alone.folder)
        migrate_instance(moving, instance, alone.folder, segments, "x")
        with pytest.raises(StateCorruptionError, match=f"instance {instance} holds tuples"):
            migrate_instance(
                replace(moving, work=replace(work, runs=swapped)), instance, alone.folder, segments, "y"
            )  # fmt: skip


def test_an_instance_that_is_dissolved_is_read_whatever_the_old_table_says():
    """By the old table it stores nothing. What it holds all the same must not vanish with it unseen."""
    alone = started(CONDITIONS[0], [*range(13)])
    work = through(alone, [spread()])
    there = (Region(Buckets((0, 1, 2, 3)), Biclique(((0,), (0,)))),)
    emptied = replace(work.table, version=2, regions=there)
    moving = Moving.to(replace(emptied, version=3, instances=1), replace(work, table=emptied))
    assert moving.donors == [1, 2, 3]
    with pytest.raises(StateCorruptionError, match="instance 1 holds tuples"):
        migrate_instance(moving, 1, alone.folder, Segments(alone.folder), "x")
