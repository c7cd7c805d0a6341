"""The division of files among tasks: everything once, evenly, whatever the order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evenjoin.runtime.spark.division import LEAST, MOST, OPEN, Piece, divided

MB = 1 << 20
GROUPS = st.lists(st.integers(1, 40 * MB), min_size=1, max_size=12)


@given(st.lists(st.dictionaries(st.text("abc", min_size=1, max_size=3), GROUPS, max_size=8), min_size=1, max_size=3),
       st.integers(1, 9))  # fmt: skip
def test_each_row_group_is_in_one_task(files, cores):
    """No task is empty, and the order of files does not matter."""
    named = [{f"{side}{name}": groups for name, groups in held.items()} for side, held in enumerate(files)]
    known = {name: groups for held in named for name, groups in held.items()}
    sizes = [{name: sum(groups) for name, groups in held.items()} for held in named]
    tasks = divided(sizes, cores, lambda paths: [known[path] for path in paths])
    read = sorted(
        (side, piece.path, group)
        for task in tasks
        for side, piece in task
        for group in range(len(known[piece.path]))[piece.first : piece.end]
    )
    assert read == sorted(
        (s, n, g) for s, held in enumerate(named) for n, groups in held.items() for g in range(len(groups))
    )
    assert all(tasks)
    backwards = [dict(reversed(held.items())) for held in sizes]
    assert tasks == divided(backwards, cores, lambda paths: [known[path] for path in paths])


def test_a_large_file_is_cut_between_row_groups():
    """The core that reads the other file gets less of the large one."""
    tasks = divided([{"a": 80 * MB}, {"b": 20 * MB}], 4, lambda paths: [[10 * MB] * 8 for _ in paths])
    loads = [sum(20 if piece == Piece("b") else 10 * (piece.end - piece.first) for _, piece in task) for task in tasks]
    assert sorted(loads) == [20, 20, 30, 30]


def test_small_files_share_tasks():
    """No more tasks than a mebibyte each asks for, and no footer is read."""
    tasks = divided([{f"{n:03}": 1000 for n in range(40)}], 64, lambda paths: 1 / 0)
    assert len(tasks) == -(-40 * (1000 + OPEN) // LEAST)
    many = divided([{f"{n:03}": MOST for n in range(40)}], 4, lambda paths: 1 / 0)
    assert len(many) == 40


def test_no_files():
    assert divided([{}, {}], 4, lambda paths: 1 / 0) == []
