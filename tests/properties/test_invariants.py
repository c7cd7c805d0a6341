"""The six invariants of the design, over random tables, streams, batch splits, table changes and crashes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import CONDITIONS, SCHEMA, STEPS, batches, sides, without_late

import evenjoin
from evenjoin.errors import TableError
from evenjoin.placement import At, Biclique, Grid, Role, check, place
from evenjoin.placement.place import stored_here
from evenjoin.spec import build_spec
from evenjoin.state.files import MemoryFolder
from evenjoin.state.segment import Segments
from evenjoin.testing import Fixed, brute_force, multiset, routing_tables, run_stream
from thorough import examples

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

SCHEMAS = {"l": SCHEMA, "r": SCHEMA}
SELECT = ["l.id AS a", "r.id AS b", "l.k", "r.name", "r.t AS rt"]
many = settings(max_examples=examples(90), deadline=None)


def versions(drawn):
    """Drawn tables as successive versions."""
    return tuple(replace(table, version=n) for n, table in enumerate(drawn))


def start(condition, tables, **more):
    return evenjoin.local(
        SCHEMAS, condition, select=SELECT, strategy=Fixed(tables), instances=tables[0].instances, **more
    )


@many
@given(routing_tables(), st.data())
def test_1_meeting(table, data):
    """Every pair with equal keys meets exactly once, whichever tuple is earlier."""
    codes = np.array(data.draw(st.lists(st.integers(-3, 12), min_size=1, max_size=6)))
    u = [
        np.array(data.draw(st.lists(st.integers(0, 2**32 - 1), min_size=len(codes), max_size=len(codes))), np.uint32)
        for _ in range(2)
    ]
    where = [place(table, side, At(codes, u[side])) for side in range(2)]
    for row in range(len(codes)):
        for earlier, later in ((0, 1), (1, 0)):
            stores = where[earlier].instance[(where[earlier].row == row) & ((where[earlier].role & Role.STORE) != 0)]
            probes = where[later].instance[(where[later].row == row) & ((where[later].role & Role.PROBE) != 0)]
            assert len(set(stores.tolist()) & set(probes.tolist())) == 1
            assert len(set(probes.tolist())) == len(probes)


@many
@given(routing_tables(), st.data())
def test_1_check_refuses_a_broken_table(table, data):
    """Take a region away, take one twice, name an instance that does not exist, or tear a grid: check says no."""
    regions = list(table.regions)
    number = data.draw(st.integers(0, table.buckets - 1))
    harm = data.draw(st.sampled_from(["lost", "twice", "torn", "nowhere"]))
    if harm == "lost":
        del regions[number]
    elif harm == "twice":
        regions.append(regions[number])
    elif harm == "torn":  # a row and a column share both cells: their pairs would come out twice
        regions[number] = replace(regions[number], topology=Grid(2, 2, (0, 1, 1, 0)))
        table = replace(table, instances=max(table.instances, 2))
    else:
        regions[number] = replace(regions[number], topology=Biclique(((0,), (table.instances,))))
    with pytest.raises(TableError):
        check(replace(table, regions=tuple(regions)))


@many
@given(st.sampled_from(CONDITIONS), sides(), st.lists(routing_tables(), min_size=1, max_size=4), st.data())
def test_2_and_3_same_answer(condition, data, drawn, more):
    """Any tables, any batch split, any table changes between batches: the brute-force result, each pair once."""
    with start(condition, versions(drawn)) as join:
        results = [join.process(batch) for batch in more.draw(batches(data))]
    spec = build_spec(SCHEMAS, condition, select=SELECT)
    assert multiset(pa.concat_tables(results)) == brute_force(spec, data)


@many
@given(
    sides(),
    st.integers(1, 4),
    st.sampled_from(["hash", "random", "contrand(groups=1)"]),
    st.sampled_from(["shared", "split"]),
    st.data(),
)
def test_3_same_answer_for_every_strategy(data, instances, strategy, layout, more):
    """The named strategies in both layouts."""
    condition = more.draw(st.sampled_from(CONDITIONS))
    instances = max(instances, 2) if layout == "split" else instances
    with evenjoin.local(
        SCHEMAS, condition, select=SELECT, strategy=strategy, instances=instances, layout=layout
    ) as join:
        results = [join.process(batch) for batch in more.draw(batches(data))]
    assert multiset(pa.concat_tables(results)) == brute_force(build_spec(SCHEMAS, condition, select=SELECT), data)


@many
@given(sides(), st.sampled_from([(4, 4), (3, 3), (4, 2), (5, 2)]), st.integers(1, 3), st.data())
def test_3_same_answer_in_windows(data, window, instances, more):
    """Tumbling and sliding windows: a pair appears once per window it shares, with or without a key."""
    condition = more.draw(st.sampled_from(["l.k = r.k", "TRUE", "l.name = r.name AND l.v <> r.v"]))
    select = [*SELECT, "window.start", "window.end"]
    options = {"event_time": "t", "window": evenjoin.sliding(*window), "select": select}
    with evenjoin.local(SCHEMAS, condition, instances=instances, **options) as join:
        results = [join.process(batch) for batch in more.draw(batches(data))]
    assert multiset(pa.concat_tables(results)) == brute_force(build_spec(SCHEMAS, condition, **options), data)


@many
@given(sides(max_rows=20), st.integers(0, 4), st.integers(1, 3), st.data())
def test_3_same_answer_minus_late_tuples(data, delay, instances, more):
    """With a watermark: the brute-force result of the tuples that were not late, and the late ones counted."""
    condition = "l.k = r.k AND r.t BETWEEN l.t - 3 AND l.t + 2"
    options = {"event_time": "t", "watermark": delay, "select": SELECT}
    parts = more.draw(batches(data, max_batches=6))
    with evenjoin.local(SCHEMAS, condition, instances=instances, **options) as join:
        results = [join.process(batch) for batch in parts]
        late = join.progress().total.late
    spec = build_spec(SCHEMAS, condition, **options)
    in_time, dropped = without_late(parts, delay, spec)
    assert multiset(pa.concat_tables(results)) == brute_force(spec, in_time)
    assert late == dropped


@many
@given(st.sampled_from(CONDITIONS[:6]), sides(), st.lists(routing_tables(), min_size=2, max_size=4), st.data())
def test_4_where_it_says(condition, data, drawn, more):
    """After each commit every stored tuple is on exactly the instances the committed table stores it on."""
    folder = MemoryFolder()
    tables = versions(drawn)
    seen: Counter = Counter()
    with start(condition, tables, checkpoint=folder, merge_budget=6) as join:
        for number, batch in enumerate(more.draw(batches(data))):
            join.process(batch)
            table = tables[min(number, len(tables) - 1)]
            seen = _stored(join, folder, table)
            assert all(count == 1 for count in seen.values())
            expected = {(s, i, b) for (s, i, b, _, _) in seen}
            for side in range(2):
                rows = {(i, code, u) for (s, i, _, code, u) in seen if s == side}
                for ident, code, u in rows:
                    targets = (
                        place(table, side, At(np.array([code]), np.array([u], np.uint32))).only(Role.STORE).instance
                    )
                    assert {b for (s, i, b) in expected if (s, i) == (side, ident)} == set(targets.tolist())
    storable = sum(1 for alias in "lr" for row in data[alias].to_pylist() if _can_match(condition, alias, row))
    assert len({(s, i) for (s, i, *_) in seen}) == storable


def _stored(join, folder, table):
    """(side, id, instance, code, u) of every live stored tuple, with multiplicity."""
    segments = Segments(folder)
    out: Counter = Counter()
    commit = join._driver.last
    for instance, side, run in commit.manifest:
        tuples = segments.read(join._driver.schemas[side], run)
        live = np.ones(len(tuples), bool)
        if run.mask is not None:
            live = stored_here(join._driver.table_named(run.mask), side, tuples.at, instance)
        assert live.sum() == run.alive
        for row in np.flatnonzero(live):
            ident = tuples.column("id", np.array([row]))[0].as_py()
            out[side, ident, instance, int(tuples.codes[row]), int(tuples.u[row])] += 1
    return out


def _can_match(condition, alias, row):
    if ("name = r.name" in condition and row["name"] is None) or ("l.k = r.k" in condition and row["k"] is None):
        return False
    return not ("t" in condition.replace("TRUE", "").split() or ".t" in condition) or row["t"] is not None


@many
@given(st.sampled_from(CONDITIONS[:4]), sides(), st.lists(routing_tables(), min_size=1, max_size=3), st.data())
def test_5_exactly_once(condition, data, drawn, more):
    """Killed at any steps and restarted from the checkpoint, the output is the undisturbed run's."""
    folder = MemoryFolder()
    stream = []
    for batch in more.draw(batches(data)):
        stream += more.draw(st.lists(st.sampled_from(STEPS), max_size=3))
        stream.append(batch)
    tables = versions(drawn)
    sunk = run_stream(lambda hooks: start(condition, tables, checkpoint=folder, hooks=hooks), stream)
    spec = build_spec(SCHEMAS, condition, select=SELECT)
    assert multiset(pa.concat_tables(sunk.values())) == brute_force(spec, data)
    assert not [name for name in folder.files if name.startswith(("receipts/", "late/"))]


class Recording(MemoryFolder):
    """A folder that objects when a file's content changes under its name."""

    def write(self, name, data):
        content = bytes(memoryview(data))
        assert self.files.get(name) is None or self.files[name].to_pybytes() == content, f"{name} changed"
        super().write(name, pa.py_buffer(content))


@settings(max_examples=examples(90), deadline=None)
@given(st.sampled_from(CONDITIONS[:4]), sides(), st.lists(routing_tables(), min_size=2, max_size=4), st.data())
def test_6_immutable(condition, data, drawn, more):
    """No segment, table, commit or receipt is ever written twice with different content."""
    folder = Recording()
    stream = []
    for batch in more.draw(batches(data)):
        stream += more.draw(st.lists(st.sampled_from(STEPS), max_size=2))
        stream.append(batch)
    tables = versions(drawn)
    run_stream(lambda hooks: start(condition, tables, checkpoint=folder, merge_budget=8, hooks=hooks), stream)
