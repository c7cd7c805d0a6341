"""Every planner, however often it is let loose: tables pass check, results stay the brute-force join's, and a
migration moves what `diff` says and nothing else."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import CONDITIONS, SCHEMA, batches, sides

import evenjoin
from capricious import EAGER, Capricious
from evenjoin.placement import diff, stored_here
from evenjoin.spec import build_spec
from evenjoin.state.files import MemoryFolder
from evenjoin.state.segment import Segments
from evenjoin.testing import Crash, brute_force, multiset, run_stream
from thorough import examples

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

SCHEMAS = {"l": SCHEMA, "r": SCHEMA}
SELECT = ["l.id AS a", "r.id AS b", "l.k", "r.name", "r.t AS rt"]
UNGUARDED = evenjoin.Guards(cooldown=0, min_gain=0, min_work=0)
layout_of = st.sampled_from(["shared", "split"])
hundreds = settings(max_examples=examples(90), deadline=None)


@hundreds
@given(sides(max_rows=24), st.lists(st.sampled_from(EAGER), min_size=1, max_size=4), layout_of, st.data())
def test_any_planners_in_turn(data, names, layout, more):
    """The same answer whatever is proposed, by whichever planner, after each batch."""
    condition = more.draw(st.sampled_from(CONDITIONS))
    strategy = Capricious(tuple(names), more.draw(st.integers(0, 99)))
    with evenjoin.local(
        SCHEMAS, condition, select=SELECT, strategy=strategy, instances=more.draw(st.integers(2, 5)), layout=layout,
        merge_budget=6, track=8,
    ) as join:  # fmt: skip
        results = [join.process(batch) for batch in more.draw(batches(data, max_batches=6))]
    assert multiset(pa.concat_tables(results)) == brute_force(build_spec(SCHEMAS, condition, select=SELECT), data)


@hundreds
@given(sides(max_rows=24), st.sampled_from(EAGER), layout_of, st.data())
def test_a_migration_moves_what_diff_says(data, name, layout, more):
    """The tuples an event counts are those whose place differs between the two tables."""
    folder = MemoryFolder()
    with evenjoin.local(
        SCHEMAS, "l.k = r.k", select=SELECT, strategy=name, instances=more.draw(st.integers(2, 5)), layout=layout,
        checkpoint=folder, guards=UNGUARDED,
    ) as join:  # fmt: skip
        for batch in more.draw(batches(data, max_batches=6)):
            before = join._driver.last
            expected = 0 if before is None else _entering(join, folder, before)
            join.process(batch)
            event = join._driver.last.migration
            assert (0 if event is None else event.tuples) == expected
            if event is not None:
                assert event.why == "imbalance"
                assert event.pause_ms > 0


def _entering(join, folder, commit):
    """How many stored tuples the next table stores where the last one did not."""
    old, new = join._driver.table_named(commit.table), join._driver.table_named(commit.next_table)
    segments, total = Segments(folder), 0
    for instance, side, run in commit.manifest:
        tuples = segments.read(join._driver.schemas[side], run)
        living = tuples
        if run.mask is not None:
            mask = stored_here(join._driver.table_named(run.mask), side, tuples.at, instance)
            living = tuples.take(mask.nonzero()[0])
        total += len(diff(old, new, side, living.at).enter_row)
    return total


@settings(max_examples=examples(40), deadline=None)
@given(
    sides(max_rows=24), st.lists(st.sampled_from(EAGER), min_size=1, max_size=3), layout_of, st.data(),
)  # fmt: skip
def test_crashes_among_rebalances(data, names, layout, more):
    """Killed before, in and after migrations, at any steps: the output is the undisturbed run's."""
    stream: list = []
    for batch in more.draw(batches(data, max_batches=5)):
        crash = st.one_of(
            st.sampled_from(["begin", "migrated", "executed", "receipts", "commit", "committed"]).map(Crash),
            st.tuples(st.sampled_from(["moved", "sealed", "joined"]), st.integers(0, 2)).map(lambda c: Crash(*c)),
        )
        stream += [*more.draw(st.lists(crash, max_size=2)), batch]
    folder = MemoryFolder()

    def make(hooks):
        return evenjoin.local(
            SCHEMAS, "l.k = r.k", select=SELECT, strategy=Capricious(tuple(names)), instances=3, layout=layout,
            checkpoint=folder, track=8, hooks=hooks,
        )  # fmt: skip

    sunk = run_stream(make, stream)
    found = multiset(pa.concat_tables(sunk.values()))
    assert found == brute_force(build_spec(SCHEMAS, "l.k = r.k", select=SELECT), data)
