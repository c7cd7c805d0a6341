"""diff(old, new) is the set difference of what the two tables store."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.placement import At, Biclique, Buckets, Keys, Region, Role, RoutingTable, diff, place
from evenjoin.testing import routing_tables
from thorough import examples

tuples = st.lists(st.tuples(st.integers(-3, 12), st.integers(0, 2**32 - 1)), max_size=8)


def entries(table, side, codes, u):
    """What a table stores, tuple by tuple."""
    out = set()
    for row in range(len(codes)):
        where = place(table, side, At(codes[row : row + 1], u[row : row + 1])).only(Role.STORE)
        out |= {(row, instance) for instance in where.instance.tolist()}
    return out


@settings(max_examples=examples(50), deadline=None)
@given(routing_tables(), routing_tables(), tuples, st.integers(0, 1))
def test_diff_is_the_set_difference(old, new, drawn, side):
    """leave and enter are old - new and new - old of the (tuple, instance) entries, each once."""
    codes, u = np.array([c for c, _ in drawn], np.int64), np.array([p for _, p in drawn], np.uint32)
    moves = diff(old, new, side, At(codes, u))
    before, after = entries(old, side, codes, u), entries(new, side, codes, u)
    leave = list(zip(moves.leave_row.tolist(), moves.leave_instance.tolist(), strict=True))
    enter = list(zip(moves.enter_row.tolist(), moves.enter_instance.tolist(), strict=True))
    assert (set(leave), set(enter)) == (before - after, after - before)
    assert (len(set(leave)), len(set(enter))) == (len(leave), len(enter))


@settings(max_examples=examples(15), deadline=None)
@given(routing_tables(), tuples)
def test_equal_tables_move_nothing(table, drawn):
    """diff(t, t) is empty."""
    codes, u = np.array([c for c, _ in drawn], np.int64), np.array([p for _, p in drawn], np.uint32)
    assert [len(a) for side in range(2) for a in diff(table, table, side, At(codes, u))] == [0] * 8


def test_moving_one_key_moves_nothing_else():
    """A key gets a region of its own: its tuples move, its bucket's other tuples do not."""
    home = Region(Buckets((0,)), Biclique(((0,), (0,))))
    old = RoutingTable(0, 2, 2, 1, (home,))
    new = old.with_regions((home, Region(Keys((42,)), Biclique(((1,), (0,))))))
    codes = np.array([41, 42, 43, 42])
    moves = diff(old, new, 0, At(codes, np.zeros(4, np.uint32)))
    assert (moves.leave_row.tolist(), moves.leave_instance.tolist()) == ([1, 3], [0, 0])
    assert (moves.enter_row.tolist(), moves.enter_instance.tolist()) == ([1, 3], [1, 1])
    assert [len(a) for a in diff(old, new, 1, At(codes, np.zeros(4, np.uint32)))] == [0] * 4
