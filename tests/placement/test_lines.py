"""The books: sums over messages that tell who got what in which role."""

from __future__ import annotations

import numpy as np

from evenjoin.kernels.content import Occurrences, content
from evenjoin.placement.place import Scattered


def sums(ids, instance, roles):
    """The book of one instance that gets these tuples in these roles."""
    rows = np.arange(len(ids))
    sent = Scattered(rows, np.array(roles, np.uint8), np.array([instance]), np.array([0, len(ids)]))
    return sent.lines(np.array(ids, np.uint64))[0]


def test_a_book_tells_who_got_what_in_which_role():
    """Another tuple, role or instance, a tuple less or twice: another sum. Another order: the same one."""
    ids = Occurrences().ids(content([np.arange(3)], 1)).tolist()
    book = sums(ids, 4, [1, 2, 3])
    assert sums([ids[2], ids[0], ids[1]], 4, [3, 1, 2]) == book
    others = [
        sums(ids, 5, [1, 2, 3]),
        sums(ids, 4, [1, 3, 2]),
        sums(ids[:2], 4, [1, 2]),
        sums([*ids, ids[0]], 4, [1, 2, 3, 1]),
    ]
    assert len({book, *others}) == 5


def test_copies_at_the_wrong_instances_do_not_cancel():
    """A tuple that two instances store, and then one of them and a third: the totals differ."""
    ids = Occurrences().ids(content([np.arange(2)], 1)).tolist()
    right = sums(ids[:1], 0, [3]) + sums(ids[:1], 1, [3])
    wrong = sums(ids[:1], 0, [3]) + sums(ids[:1], 2, [3])
    assert right != wrong


def test_instances_are_summed_apart():
    """Messages for two instances, in one go: each has the sum of its own."""
    ids = Occurrences().ids(content([np.arange(4)], 1))
    sent = Scattered(np.array([0, 2, 1, 3]), np.array([1, 2, 3, 3], np.uint8), np.array([0, 7]), np.array([0, 2, 4]))
    assert sent.lines(ids) == [sums(ids[[0, 2]], 0, [1, 2]), sums(ids[[1, 3]], 7, [3, 3])]
    assert Scattered(np.zeros(0, int), np.zeros(0, np.uint8), np.zeros(0, int), np.zeros(1, int)).lines(ids) == []
