"""Matching anew by other codes, where the codes by which tuples are sorted do not tell their keys apart.

    20,000 keys a side share one code           400,000,000 pairs have equal codes
    sorted by a second code of each key          20,000 pairs have equal second codes

The tuples in question are picked out of the run and of the probing tuples, sorted by the second codes, and matched by
these as any other tuples are (runs.py). So n tuples a side cost O(n log n + pairs found), whatever codes they share.

Guarantee: the pairs found are those with equal second codes whose stored time lies within the probing row's bounds.
Not here: what the second codes are, and whether equal ones mean equal keys (instance/verify.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenjoin.kernels.hashing import I64
from evenjoin.kernels.runs import Hits, Probes, group_starts, ranges, run_order


class Picked(NamedTuple):
    """Some tuples: their row numbers, ascending, and a second code for each."""

    rows: I64
    codes: I64


def regrouped(probes: Probes, asking: Picked, times: I64 | None, stored: Picked) -> tuple[Hits, I64]:
    """Match the picked probing rows with the picked rows of a run by their second codes.

    Returns ranges of probing rows that ascend, and the array of rows of the run in which they are ranges. `times` are
    those of the whole run (None: it has none). O(n log n) for n picked rows.
    """
    by_code = np.argsort(asking.codes, kind="stable")
    codes, rows = asking.codes[by_code], asking.rows[by_code]
    again = Probes(
        codes,
        group_starts(codes),
        None if probes.low is None else probes.low[rows],
        None if probes.high is None else probes.high[rows],
    )
    order = run_order(stored.codes, None if times is None else times[stored.rows])
    inside = stored.rows[order]
    found = ranges(stored.codes[order], None if times is None else times[inside], again)
    ascending = np.argsort(rows[found.rows], kind="stable")
    return Hits(rows[found.rows][ascending], found.start[ascending], found.stop[ascending]), inside
