"""Schemes of exactly so many tasks, for a number that the user fixed or limited.

Alg. 1 (cells.py) asks how few tasks a capacity needs. Here the number is given, and the fullest task is to store as
little as possible. A regular grid of n tasks is n = alpha * beta; for 7 that is a single line. A varietal one has an
adjustive line as well, n = P_gamma * D_f + P_delta, so that every n has a good scheme. Its regular lines take the share
x of the secondary stream D at which regular tasks and those of the adjustive line store the same (eq. 12 with the left
side given):

    |P| / P_gamma + x |D| = |P| / P_delta + (1 - D_f x) |D|

100 x 100 tuples on 7 tasks: 1 x 7 stores 114 a task, 4 x 1 with 3 more 79, and 6 tasks as 3 x 2 would store 83.
The paper has no such case, because its tasks are as many as V asks for.
Pure; O(n log n). Not here: which capacity a number of tasks is for (../sized.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from evenjoin.placement.pieces import Points
from evenjoin.placement.ranges import Ranges
from evenjoin.strategies.adsp.cells import Along, Scheme
from evenjoin.strategies.adsp.mapping import Area


def filled(areas: Sequence[Area], tasks: int, points: Points) -> list[Area]:
    """The areas with at least so many tasks altogether. Whatever is missing goes, task by task, to the area whose tasks
    are fullest."""
    out, missing = list(areas), tasks - sum(area.scheme.tasks for area in areas)
    if missing <= 0:
        return out
    inside = [_volumes(area.takes or Ranges(), points) for area in areas]
    full = [fullest(area.scheme, *volumes) for area, volumes in zip(out, inside, strict=True)]
    for _ in range(missing):
        n = max(range(len(out)), key=full.__getitem__)
        scheme = varietal(out[n].scheme.tasks + 1, *inside[n])
        out[n], full[n] = replace(out[n], scheme=scheme), fullest(scheme, *inside[n])
    return out


def varietal(tasks: int, rows: float, columns: float) -> Scheme:
    """The regular or varietal scheme of so many tasks whose fullest task stores least; a regular one if that is as
    good."""
    return min((*_regular(tasks), *_irregular(tasks, rows, columns)), key=lambda some: fullest(some, rows, columns))


def regular(tasks: int, rows: float, columns: float) -> Scheme:
    """The regular grid of so many tasks whose tasks store least."""
    return min(_regular(tasks), key=lambda some: fullest(some, rows, columns))


def fullest(scheme: Scheme, rows: float, columns: float) -> float:
    """What the fullest task of a scheme stores of these volumes."""
    if not scheme.extra:
        return rows / scheme.rows + columns / scheme.columns
    if scheme.along == "column":
        primary, secondary, gamma, whole = rows, columns, scheme.rows, scheme.columns
    else:
        primary, secondary, gamma, whole = columns, rows, scheme.columns, scheme.rows
    line = primary / gamma + scheme.regular * secondary
    return max(line, primary / scheme.extra + (1 - whole * scheme.regular) * secondary)


def _regular(tasks: int) -> Iterator[Scheme]:
    return (Scheme(rows, tasks // rows) for rows in range(1, tasks + 1) if tasks % rows == 0)


def _irregular(tasks: int, rows: float, columns: float) -> Iterator[Scheme]:
    both: tuple[tuple[Along, float, float], ...] = (("column", rows, columns), ("row", columns, rows))
    for along, primary, secondary in both:
        for gamma in range(2, tasks if secondary > 0 else 0):
            whole, extra = divmod(tasks, gamma)
            if not extra:
                continue
            share = (secondary + primary / extra - primary / gamma) / ((1 + whole) * secondary)
            if 0 < share * whole < 1:
                yield Scheme(*((gamma, whole) if along == "column" else (whole, gamma)), extra, along, share)


def _volumes(takes: Ranges, points: Points) -> tuple[float, float]:
    """|ca^r| and |ca^s| of an area."""
    out = []
    for side, (codes, weights) in enumerate(points):
        own = takes.side(side)
        out.append(float(weights[(codes >= own.first) & (codes <= own.last)].sum()))
    return out[0], out[1]
