"""The same checkpoint restarted with another strategy or size: the state follows by diff, the answer is the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import evenjoin
from evenjoin.placement import At, Role, diff, place
from evenjoin.placement.place import stored_here
from evenjoin.spec import build_spec
from evenjoin.state.segment import Segments
from evenjoin.strategies import resolve
from evenjoin.testing import Crash, brute_force, multiset, run_stream

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("name", pa.string()), ("t", pa.int64())])
SCHEMAS = {"l": SCHEMA, "r": SCHEMA}
SELECT = ["l.id AS a", "r.id AS b", "l.name"]

WALK = [("hash", 2), ("random", 5), ("contrand(groups=2)", 3), ("hash", 1)]
"""A life of a checkpoint: strategy and instances of each start."""

CONDITIONS = {
    "full history, exact keys": ("l.k = r.k", {}),
    "full history, hashed keys": ("l.name = r.name AND l.k = r.k", {}),
    "windowed": ("l.k = r.k AND r.t BETWEEN l.t - 4 AND l.t + 3", {"event_time": "t", "watermark": 2}),
}


def batches(count, rows=60, seed=1):
    """Both sides, skewed: half of the tuples have key 0. Times go on from batch to batch, so nothing is late."""
    rng = np.random.default_rng(seed)
    out = []
    for batch in range(count):
        part = {}
        for alias in "lr":
            keys = np.where(rng.random(rows) < 0.5, 0, rng.integers(0, 30, rows))
            ids = np.arange(batch * rows, (batch + 1) * rows)
            times = batch * 3 + rng.integers(0, 3, rows)
            part[alias] = pa.table({"id": ids, "k": keys, "name": [f"name {k % 7}" for k in keys], "t": times}, SCHEMA)
        out.append(part)
    return out


def expected(parts, on, options):
    whole = {a: pa.concat_tables(part[a] for part in parts) for a in "lr"}
    return brute_force(build_spec(SCHEMAS, on, select=SELECT, **options), whole)


def live(join):
    """(side, instance, code, u, id) of every live stored tuple of the last commit."""
    driver = join._driver
    segments = Segments(driver.folder)
    found = []
    for instance, side, run in driver.last.manifest:
        tuples = segments.read(driver.schemas[side], run)
        keep = np.ones(len(tuples), bool)
        if run.mask is not None:
            keep = stored_here(driver.table_named(run.mask), side, tuples.at, instance)
        kept = np.flatnonzero(keep)
        columns = tuples.codes[kept].tolist(), tuples.u[kept].tolist(), tuples.column("id", kept).to_pylist()
        found += [(side, instance, *row) for row in zip(*columns, strict=True)]
    return sorted(found)


def stored_tuples(found, side):
    """The distinct stored tuples of a side as arrays of codes, positions and ids."""
    tuples = sorted({entry[2:] for entry in found if entry[0] == side})
    return tuple(np.array([t[i] for t in tuples], d) for i, d in enumerate((np.int64, np.uint32, np.int64)))


@pytest.mark.parametrize("layout", ["shared", "split"])
@pytest.mark.parametrize("kind", CONDITIONS)
def test_a_walk_through_strategies_and_sizes(kind, layout, tmp_path):
    """After each restart: the state is where the new table puts it, exactly what diff predicts has moved, and the
    results of the whole walk are those of the whole input."""
    on, options = CONDITIONS[kind]
    walk = WALK if layout == "shared" else [("hash", 2), ("random", 5), ("contrand(groups=2)", 4), ("hash", 3)]
    parts = batches(2 * len(walk))
    results, predicted, before = [], [], None
    for number, (strategy, instances) in enumerate(walk):
        with evenjoin.local(
            SCHEMAS, on, select=SELECT, strategy=strategy, instances=instances, layout=layout, checkpoint=tmp_path,
            merge_budget=200, **options,
        ) as join:  # fmt: skip
            if before is not None:
                old, found = before
                moved = 0
                for side in range(2):
                    codes, u, _ = stored_tuples(found, side)
                    moved += len(diff(old, join.table(), side, At(codes, u)).enter_row)
                predicted.append((2 * number, moved))
            for part in parts[2 * number : 2 * number + 2]:
                results.append(join.process(part))
                table = join._driver.table_named(join._driver.last.table)
                check_places(live(join), table)
            before = table, live(join)
            made = join.migrations()
    assert multiset(pa.concat_tables(results)) == expected(parts, on, options)
    assert [(m.batch, m.tuples) for m in made] == predicted
    assert [(m.source, m.target) for m in made] == [
        (f"{walk[i][0]}/{layout} on {walk[i][1]}", f"{walk[i + 1][0]}/{layout} on {walk[i + 1][1]}") for i in range(3)
    ]
    assert all(m.tuples > 0 and m.bytes > 0 for m in made)


def check_places(found, table):
    """Every stored tuple is on exactly the instances the table stores it on, once."""
    assert len(set(found)) == len(found)
    for side in range(2):
        codes, u, ids = stored_tuples(found, side)
        where = place(table, side, At(codes, u)).only(Role.STORE)
        messages = zip(where.row.tolist(), where.instance.tolist(), strict=True)
        wanted = {(side, i, int(codes[r]), int(u[r]), int(ids[r])) for r, i in messages}
        assert wanted == {entry for entry in found if entry[0] == side}


def test_the_same_start_migrates_nothing(tmp_path):
    """Asked for what it has, a restart goes on with the table as it is."""
    parts = batches(3)
    for part in parts:
        with evenjoin.local(SCHEMAS, "l.k = r.k", select=SELECT, instances=3, checkpoint=tmp_path) as join:
            join.process(part)
            assert join.migrations() == []
            assert join.table().version == 0


def test_a_restart_that_asks_for_the_same_placement_moves_nothing(tmp_path):
    """random on one instance is hash on one instance: a migration, of no tuple."""
    parts = batches(2)
    for strategy, part in zip(["hash", "random"], parts, strict=True):
        options = {"select": SELECT, "strategy": strategy, "instances": 1, "checkpoint": tmp_path}
        with evenjoin.local(SCHEMAS, "l.k = r.k", **options) as join:
            join.process(part)
            made = join.migrations()
    assert [(m.tuples, m.bytes) for m in made] == [(0, 0)]


@pytest.mark.parametrize(
    "strategy", ["random", "hash", "fastjoin", "readj", "lsstream", "contrand(groups=2)", "square"]
)
def test_growing_moves_no_more_than_it_must(strategy, tmp_path):
    """4 -> 5: about a fifth goes to the new instance, where tuples have units that can be handed over. A grid, and
    subgroups of several units, begin anew: more moves."""
    first, second = batches(2, rows=2000)
    for instances, part in zip([4, 5], [first, second], strict=True):
        options = {"select": SELECT, "strategy": strategy, "instances": instances, "checkpoint": tmp_path}
        with evenjoin.local(SCHEMAS, "l.k = r.k AND l.id = r.id", **options) as join:
            join.process(part)
            (moved,) = [m.tuples for m in join.migrations() if m.batch] or [0]
    if strategy in ("contrand(groups=2)", "square"):
        assert join.table().regions == resolve(strategy).initial(5, 2, "shared").regions
        assert moved / 4000 > 0.24
    else:
        assert moved / 4000 == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize("step", ["begin", "migrated", "executed", "receipts", "commit", "committed"])
def test_a_crash_in_the_migrating_batch(step, tmp_path):
    """Killed on its way to the new table, the restart migrates again: same answer, one migration on record."""
    on, options = CONDITIONS["full history, exact keys"]
    parts = batches(4)
    with evenjoin.local(SCHEMAS, on, select=SELECT, instances=2, checkpoint=tmp_path) as join:
        results = [join.process(part) for part in parts[:2]]

    def make(hooks=None):
        settings = {"select": SELECT, "strategy": "random", "instances": 4, "checkpoint": tmp_path}
        return evenjoin.local(SCHEMAS, on, **settings, hooks=hooks)

    sunk = run_stream(make, [*parts[:2], Crash(step), *parts[2:]])
    assert sorted(sunk) == [2, 3]
    assert multiset(pa.concat_tables([*results, *sunk.values()])) == expected(parts, on, options)
    with make() as join:
        assert [m.batch for m in join.migrations()] == [2]
        segments = {f"segments/{p.parent.name}/{p.name}" for p in (tmp_path / "segments").rglob("*.arrow")}
        assert segments == join._driver.last.manifest.files
