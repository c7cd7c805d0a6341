"""Random cubes with the links that their dims stand for, random tuples for them, and what may match."""

from __future__ import annotations

from itertools import pairwise, product
from math import prod

import numpy as np
from hypothesis import strategies as st

from evenjoin.placement import At, Buckets, Cube, Dim, Link, Reach, Region, RoutingTable, place

SMALL = st.integers(-4, 8)
ENDS = st.one_of(st.none(), st.integers(-3, 3))
REACHES = st.tuples(ENDS, ENDS).map(lambda ends: Reach(*ends) if None in ends else Reach(min(ends), max(ends)))
INDEXES = 3
"""Each side of these tests has three indexes."""


@st.composite
def cube_tables(draw, kinds=("u", "hash", "range"), most=18):
    """A table of one cube that `check` accepts. A side has a new index for each dim, so dims are independent."""
    sides = draw(st.integers(2, 4))
    free = [list(range(INDEXES)) for _ in range(sides)]
    dims, links, divided = [], [], set()
    for _ in range(draw(st.integers(1, 3))):
        left = most // prod(dim.size for dim in dims)
        kind, size = draw(st.sampled_from(kinds)), draw(st.integers(1, max(1, min(4, left))))
        members = draw(st.lists(st.integers(0, sides - 1), min_size=1, max_size=sides, unique=True))
        if kind == "u":
            if members[0] not in divided:
                divided.add(members[0])
                dims.append(Dim("u", size, members[0]))
            continue
        index = [free[side].pop(0) if side in members else None for side in range(sides)]
        if kind == "hash":
            links += [Link((a, b), (index[a], index[b]), 0, 0) for a, b in pairwise(members)]
            dims.append(Dim("hash", size, None, tuple(index)))
            continue
        owner, *others = members
        reach = [draw(REACHES) if side in others else None for side in range(sides)]
        links += [Link((owner, b), (index[owner], index[b]), reach[b].low, reach[b].high) for b in others]
        cuts = tuple(sorted(draw(st.lists(SMALL, min_size=size - 1, max_size=size - 1, unique=True))))
        dims.append(Dim("range", size, owner, tuple(index), cuts, tuple(reach)))
    count = prod(dim.size for dim in dims)
    instances = count + draw(st.integers(0, 2))
    cells = tuple(draw(st.permutations(range(instances)))[:count])
    known = {node for link in links for node in link.nodes}
    for dim in dims:  # an index by which one side alone is divided is still one of the join's
        links += [
            Link((side, side), (index, index), 0, 0)
            for side, index in enumerate(dim.index)
            if index and (side, index) not in known
        ]
    return RoutingTable(
        draw(st.integers(0, 9)), instances, sides, 1, (Region(Buckets((0,)), Cube(tuple(dims), cells)),), "drawn",
        Reach(), meeting="together" if sides > 2 else draw(st.sampled_from(["pairs", "together"])), links=tuple(links),
    )  # fmt: skip


def drawn_at(seed, count, low=-4, high=9):
    """Some tuples of a side with codes by all its indexes."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(low, high, (INDEXES, count))
    return At(codes[0], rng.integers(0, 2**32, count, dtype=np.uint32), tuple(codes[1:]))


def instances_of(table, side, at):
    """By tuple, the instances it goes to. No instance gets a tuple twice."""
    where = place(table, side, at)
    assert (np.diff(where.row) >= 0).all()
    assert (where.role == 3).all()
    assert len(set(zip(where.row.tolist(), where.instance.tolist(), strict=True))) == len(where.row)
    return [set(where.instance[where.row == row].tolist()) for row in range(len(at.codes))]


def may_match(links, sides, rows):
    """Whether a combination satisfies all links: a tuple of row numbers, and per side its `At`."""

    def code(node, at):
        return int((at.codes, *at.more)[node[1]][rows[node[0]]])

    for link in links:
        one, two = link.nodes
        apart = code(two, sides[two[0]]) - code(one, sides[one[0]])
        if (link.low is not None and apart < link.low) or (link.high is not None and apart > link.high):
            return False
    return True


def meetings(table, sides):
    """Of every combination of one tuple a side: whether it can match, and on how many instances it is together."""
    where = [instances_of(table, side, at) for side, at in enumerate(sides)]
    for rows in product(*(range(len(at.codes)) for at in sides)):
        together = set.intersection(*(where[side][row] for side, row in enumerate(rows)))
        yield may_match(table.links, sides, rows), len(together)
