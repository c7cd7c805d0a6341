"""Programs: of any combination exactly one member sees all the others, however the members are spread over batches."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from evenjoin.errors import SpecError
from evenjoin.instance.program import Path, Program, Step, Store
from evenjoin.instance.programs import direct, program_of
from evenjoin.instance.spreads import prove, results, spreads
from evenjoin.spec import build_spec
from evenjoin.spec.graph import Edge

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64())])


def edge(a, b, drive="equal", index=(0, 0), low=None):
    return Edge((a, b), drive, index, None, low, None, None)


def joined(sides, *edges):
    """A direct program over so many sides, with these edges."""
    spec = build_spec({"l": SCHEMA, "r": SCHEMA}, "l.k = r.k")
    side = spec.sides[0]
    return direct(replace(spec, sides=tuple(replace(side, alias=f"s{n}") for n in range(sides)), edges=edges))


TRIANGLE = (edge(0, 1), edge(1, 2), edge(0, 2, index=(1, 1)))
CHAIN = (edge(0, 1), edge(1, 2))
STAR = (edge(0, 3), edge(1, 3), edge(2, 3))
PROGRAMS = [(2, (edge(0, 1),)), (3, TRIANGLE), (3, CHAIN), (4, STAR), (4, (*TRIANGLE, edge(2, 3)))]


@pytest.mark.parametrize(("sides", "edges"), PROGRAMS, ids=["two", "triangle", "chain", "star of four", "kite"])
def test_each_combination_is_found_once_in_every_spread(sides, edges):
    """All in one batch, one by one, in any order and anything between."""
    program = joined(sides, *edges)
    assert len(spreads(sides)) == {2: 3, 3: 13, 4: 75}[sides]
    assert [results(program, when) for when in spreads(sides)] == [1] * len(spreads(sides))


def test_the_check_tells_a_wrong_order_from_a_right_one():
    """Two stores that count as equally late do not see each other: a pair of one batch is lost."""
    program = joined(2, edge(0, 1))
    same = tuple(Store(store.covers, store.group, 0, None) for store in program.stores)
    wrong = Program(program.order, same, program.paths, "pairs")
    assert [results(wrong, when) for when in spreads(2)] == [0, 1, 1]
    with pytest.raises(SpecError, match="side 0 in batch 0, side 1 in batch 0 give 0 results, not one"):
        prove(wrong)


@pytest.mark.parametrize(("sides", "edges"), PROGRAMS, ids=["two", "triangle", "chain", "star of four", "kite"])
def test_a_path_probes_every_other_side_once_and_checks_every_edge(sides, edges):
    """Each edge is probed along or checked exactly once on each path, from a side that is already found."""
    for path in joined(sides, *edges).paths:
        found = {path.source}
        used = []
        for step in path.steps:
            assert step.store not in found
            for view in (step.along, *step.checks):
                assert (view.side in found, view.other) == (True, step.store)
                used.append(tuple(sorted((view.side, view.other))))
            found.add(step.store)
        assert sorted(used) == sorted(e.sides for e in edges)


def test_with_a_common_key_only_the_rest_of_an_edge_is_checked():
    """That the keys of the last two are equal follows from the edges that were taken; their times do not."""
    path = joined(3, edge(0, 1, low=5), edge(0, 2, low=5), edge(1, 2, low=5)).paths[0]
    assert [step.checks for step in path.steps] == [(), (replace(edge(1, 2, low=5).seen_from(1), drive="none"),)]
    path = joined(3, edge(0, 1, low=5), edge(0, 2, low=5), edge(1, 2)).paths[0]
    assert [step.checks for step in path.steps] == [(), ()]


def test_of_two_edges_the_one_that_bounds_times_is_followed():
    """It leaves less to look at."""
    path = joined(3, edge(0, 1), edge(0, 2, low=5), edge(1, 2)).paths[0]
    assert [step.store for step in path.steps] == [2, 1]


def test_an_equality_is_followed_before_a_range_and_a_range_before_neither():
    """The next side is the one that the best edge leads to."""
    program = joined(3, edge(0, 1, "none"), edge(0, 2, "equal"), edge(1, 2, "band"))
    assert [[step.store for step in path.steps] for path in program.paths] == [[2, 1], [2, 0], [0, 1]]
    assert [step.along.drive for step in program.paths[0].steps] == ["equal", "band"]


def test_two_sides_as_literals():
    """The program of today's joins."""
    spec = build_spec({"l": SCHEMA, "r": SCHEMA}, "l.k = r.k AND r.t BETWEEN l.t - 2 AND l.t + 3",
                      event_time="t", watermark=0)  # fmt: skip
    program = program_of(spec, "direct")
    assert (program.order, program.meeting) == ((0, 1), "pairs")
    assert program.stores == (Store((0,), 0, 0, 3), Store((1,), 1, 1, 2))
    (one,) = spec.edges
    assert program.paths == (Path(0, (Step(1, one.seen_from(0)),)), Path(1, (Step(0, one.seen_from(1)),)))


def test_a_program_that_does_not_exist_is_refused():
    """With the names that do."""
    with pytest.raises(SpecError, match=r"no program 'bush'.*direct"):
        program_of(build_spec({"l": SCHEMA, "r": SCHEMA}, "l.k = r.k"), "bush")
