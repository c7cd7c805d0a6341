"""Three sides with a common key, under random tables, table changes, planners and crashes: each combination once.

A table must have all tuples of a combination on one instance (meeting `together`). The tables drawn here do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import SCHEMA, STEPS, batches, rows

import evenjoin
from capricious import EAGER, Capricious
from evenjoin.errors import TableError
from evenjoin.placement import At, Biclique, check, place
from evenjoin.placement.place import stored_here
from evenjoin.placement.topology import Role
from evenjoin.spec import build_spec
from evenjoin.state.files import MemoryFolder
from evenjoin.state.segment import Segments
from evenjoin.testing import Crash, Fixed, brute_force, multiset, routing_tables, run_stream
from thorough import examples

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

SCHEMAS = dict.fromkeys("abc", SCHEMA)
SELECT = ["a.id AS i", "b.id AS j", "c.id AS m", "a.k", "c.name"]
CONDITIONS = [
    "a.k = b.k AND b.k = c.k",
    "a.k = b.k AND a.k = c.k AND b.t BETWEEN a.t - 3 AND a.t + 2",
    "a.name = b.name AND c.name = b.name AND c.v <> a.v",
    "a.k <=> b.k AND b.k <=> c.k AND c.t <= a.t",
    "a.k = b.k AND b.k = c.k AND a.name = c.name",
    "a.k = b.k AND b.k = c.k AND a.v + b.v > c.v",
]
tables = st.lists(routing_tables(sides=3, meeting="together"), min_size=1, max_size=4)


@st.composite
def sides(draw, max_rows=9):
    return {alias: draw(rows(max_rows)) for alias in "abc"}


def versions(drawn):
    """Drawn tables as successive versions."""
    return tuple(replace(table, version=n) for n, table in enumerate(drawn))


def start(condition, strategy, instances, **more):
    return evenjoin.local(SCHEMAS, condition, select=SELECT, strategy=strategy, instances=instances, **more)


def expected(condition, data):
    return brute_force(build_spec(SCHEMAS, condition, select=SELECT), data)


@settings(max_examples=examples(60), deadline=None)
@given(routing_tables(sides=3, meeting="together"), st.data())
def test_every_combination_is_together_once(table, data):
    """Three tuples with equal codes are all stored and all probe on exactly one instance."""
    code = np.array([data.draw(st.integers(-3, 12))])
    both = []
    for side in range(3):
        where = place(table, side, At(code, np.array([data.draw(st.integers(0, 2**32 - 1))], np.uint32)))
        both.append(set(where.instance[where.role == Role.BOTH].tolist()))
    assert len(set.intersection(*both)) == 1


@given(routing_tables(sides=3, meeting="together"))
def test_units_that_do_not_coincide_are_refused(table):
    """Two of three sides together are not enough."""
    regions = (replace(table.regions[0], topology=Biclique(((0,), (0,), (1,)))), *table.regions[1:])
    with pytest.raises(TableError, match="together on 0 instances"):
        check(replace(table, instances=max(table.instances, 2), regions=regions))


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(CONDITIONS), sides(), tables, st.data())
def test_same_answer(condition, data, drawn, more):
    """Any tables, any batch split, any table changes between batches: the brute-force result, each combination once."""
    with start(condition, Fixed(versions(drawn)), drawn[0].instances, merge_budget=6) as join:
        results = [join.process(batch) for batch in more.draw(batches(data))]
    assert multiset(pa.concat_tables(results)) == expected(condition, data)


@settings(max_examples=examples(40), deadline=None)
@given(sides(), tables, st.data())
def test_where_it_says(data, drawn, more):
    """After each commit every stored tuple is where the committed table puts it."""
    folder = MemoryFolder()
    with start(CONDITIONS[0], Fixed(versions(drawn)), drawn[0].instances, checkpoint=folder) as join:
        for batch in more.draw(batches(data)):
            join.process(batch)
            commit = join._driver.last
            table, segments = join._driver.table_named(commit.table), Segments(folder)
            for instance, store, run in commit.manifest:
                tuples = segments.read(join._driver.schemas[store], run)
                masked = run.mask is not None
                living = join._driver.table_named(run.mask) if masked else table
                here = stored_here(living, store, tuples.at, instance)
                assert (here.sum() == run.alive) if masked else here.all()
                assert stored_here(table, store, tuples.at.take(np.flatnonzero(here)), instance).all()


@settings(max_examples=examples(40), deadline=None)
@given(sides(), tables, st.data())
def test_crashes(data, drawn, more):
    """Killed anywhere, also while tables change, and restarted: the undisturbed answer."""
    stream: list = []
    for batch in more.draw(batches(data)):
        stream += [*more.draw(st.lists(st.sampled_from(STEPS), max_size=2)), batch]
    folder = MemoryFolder()

    def make(hooks):
        return start(CONDITIONS[0], Fixed(versions(drawn)), drawn[0].instances, checkpoint=folder, hooks=hooks)

    sunk = run_stream(make, stream)
    assert multiset(pa.concat_tables(sunk.values())) == expected(CONDITIONS[0], data)


@settings(max_examples=examples(40), deadline=None)
@given(sides(), st.lists(st.sampled_from(EAGER), min_size=1, max_size=3), st.data())
def test_crashes_among_rebalances(data, names, more):
    """Planners let loose in turn, killed before, in and after migrations: the undisturbed answer."""
    crash = st.one_of(
        st.sampled_from(["begin", "migrated", "executed", "receipts", "commit", "committed"]).map(Crash),
        st.tuples(st.sampled_from(["moved", "sealed", "joined"]), st.integers(0, 2)).map(lambda c: Crash(*c)),
    )
    stream: list = []
    for batch in more.draw(batches(data, max_batches=5)):
        stream += [*more.draw(st.lists(crash, max_size=2)), batch]
    folder = MemoryFolder()

    def make(hooks):
        return start(CONDITIONS[0], Capricious(tuple(names)), 3, checkpoint=folder, track=8, hooks=hooks)

    sunk = run_stream(make, stream)
    assert multiset(pa.concat_tables(sunk.values())) == expected(CONDITIONS[0], data)
