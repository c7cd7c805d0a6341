"""The files of a batch, divided among tasks: several small files a task, several tasks a large file.

    l  a.parquet 80 MB, 8 row groups     task 0   b, and one row group of a      task 2   two row groups of a
    r  b.parquet 20 MB                   task 1   three row groups of a          task 3   two row groups of a

A file is cut only if it is more than a core's share of the batch, and only between row groups, because a row group is
read as a whole. Its pieces are about half a share, so that they fill up what other files leave of tasks. At most as
many files are cut as there are cores, and only their footers have to be known.

Guarantee: each row group of each file is in exactly one task. The division is a function of the files and the number of
cores, and of nothing else: neither of time nor of the order in which files are listed.
Not here: which files a batch has, which Spark's log says (offsets.py), and how they are read (files.py). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import groupby
from typing import NamedTuple

OPEN = 256 << 10
"""What it costs to open a file, in bytes that could be read meanwhile."""
LEAST = 1 << 20
"""A task gets no less than so many bytes, as long as there are files."""
MOST = 128 << 20
"""A task gets no more than so many bytes, as long as there are files to divide."""


class Piece(NamedTuple):
    """Row groups `first` up to, not including, `end` of a file; without an end all that follow."""

    path: str
    first: int = 0
    end: int | None = None


Task = list[tuple[int, Piece]]
"""What one task reads: pieces and the numbers of their sides."""


def divided(
    files: Sequence[Mapping[str, int]], cores: int, groups: Callable[[Sequence[str]], Sequence[Sequence[int]]]
) -> list[Task]:
    """The tasks of a batch. `files` has the bytes of each file, by side. `groups` tells the bytes of the row groups of
    some files; it is asked once, for those that are large. Cost: n log n of the files."""
    total = sum(size + OPEN for side in files for size in side.values())
    share = max(LEAST, -(-total // cores))
    large = sorted({path for side in files for path, size in side.items() if size > share})
    known = dict(zip(large, groups(large), strict=True)) if large else {}
    pieces = sorted(
        (-weight, side, piece)
        for side, sizes in enumerate(files)
        for path, size in sizes.items()
        for piece, weight in (_cut(path, known[path], share // 2) if path in known else [(Piece(path), size + OPEN)])
    )
    count = min(len(pieces), max(-(-total // MOST), min(cores, -(-total // LEAST))))
    tasks: list[Task] = [[] for _ in range(count)]
    loads = [(0, number) for number in range(count)]
    for weight, side, piece in pieces:  # the heaviest first, each to the task with the least so far
        load, number = heappop(loads)
        tasks[number].append((side, piece))
        heappush(loads, (load - weight, number))
    return [sorted(task, key=lambda one: (one[0], one[1].path, one[1].first)) for task in tasks]


def _cut(path: str, groups: Sequence[int], size: int) -> Iterator[tuple[Piece, int]]:
    """A large file in pieces of about `size` bytes, and their weights."""
    if not groups:
        yield Piece(path), OPEN
        return
    total = max(sum(groups), 1)
    parts, before = -(-total // size), 0
    placed = []
    for number, held in enumerate(groups):
        placed.append(((2 * before + held) * parts // (2 * total), number))  # the part in which its middle lies
        before += held
    for _, run in groupby(placed, key=lambda one: one[0]):
        numbers = [number for _, number in run]
        weight = OPEN + sum(groups[number] for number in numbers)
        yield Piece(path, numbers[0], numbers[-1] + 1), weight
