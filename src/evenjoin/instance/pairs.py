"""Which pairs match: of the tuples that probe in a batch with one run of the other side, in bounded chunks.

    codes that meet -> real keys, where codes are hashes -> ranges within the time bounds -> pairs
                    -> what can only be seen pair by pair -> the residual predicate

A range (probing row, first and last stored position) stands for all its pairs, so up to there the cost does not grow
with how hot a key is. Pairs are made `pair_limit` at a time. What is counted for the receipt are the pairs that match
but for the residual predicate: it is they that take time.
Not here: which runs are probed and in what order (two_way.py), result rows (emit.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evenjoin.instance.emit import Emitter
from evenjoin.instance.probing import Probing
from evenjoin.instance.verify import dirty_codes, key_values, same_keys
from evenjoin.kernels.probe import I32, Ranges, band_ranges, code_ranges, in_time, narrow, pair_chunks
from evenjoin.placement.place import stored_here
from evenjoin.state.layout import Tuples
from evenjoin.state.segment import Run

if TYPE_CHECKING:
    from evenjoin.instance.two_way import Work


class Doubt(Enum):
    """Whether candidate pairs must still have their real keys compared, one by one."""

    NONE = 0
    KEYS = 1


def matching(work: Work, instance: int, mine: Probing, run: Run | None, stored: Tuples) -> Iterator[tuple[I32, I32]]:
    """Pairs (probing row, stored position) with equal keys (or keys within the band), within the time bounds, alive."""
    probes, spec = mine.probes, work.spec
    if mine.asked is not None:
        found = narrow(None, probes, *band_ranges(stored.codes, *mine.asked), None)
        yield from _pairs(work, instance, mine, run, stored, found, Doubt.NONE)
        return
    groups, start, stop = code_ranges(stored.codes, probes.codes[probes.starts[:-1]])
    doubtful = np.zeros(len(groups), np.bool_)
    if not stored.layout.codec.exact and len(groups):
        dirty = dirty_codes(spec, 1 - mine.side, stored) if run is None else run.dirty
        suspects = np.array([*dirty, *mine.dirty], probes.codes.dtype)
        doubtful = np.isin(probes.codes[probes.starts[groups]], suspects)
        keys = key_values(spec, mine.side, mine.tuples, probes.starts[groups])
        keep = doubtful | same_keys(spec, keys, key_values(spec, 1 - mine.side, stored, start))
        groups, start, stop, doubtful = groups[keep], start[keep], stop[keep], doubtful[keep]
    span = (run.low, run.high) if run is not None else None
    for part, doubt in ((~doubtful, Doubt.NONE), (doubtful, Doubt.KEYS)):
        if part.any():
            found = narrow(stored.times, probes, groups[part], start[part], stop[part], span)
            yield from _pairs(work, instance, mine, run, stored, found, doubt)


def _pairs(
    work: Work, instance: int, mine: Probing, run: Run | None, stored: Tuples, found: Ranges, doubt: Doubt
) -> Iterator[tuple[I32, I32]]:
    """The pairs of the ranges that pass what can only be seen pair by pair."""
    filters = _filters(work, instance, mine, run, stored, doubt)
    if not filters:
        mine.count_ranges(found)
    for rows, positions in pair_chunks(found, work.pair_limit):
        for passes in filters:
            keep = passes(rows, positions)
            rows, positions = rows[keep], positions[keep]
        if filters:
            mine.count(rows)
        if len(rows):
            yield rows, positions


def _filters(
    work: Work, instance: int, mine: Probing, run: Run | None, stored: Tuples, doubt: Doubt
) -> list[Callable[[I32, I32], npt.NDArray[np.bool_]]]:
    """Which of some pairs have times within the bounds, a stored tuple that is alive here, and the same real keys."""
    other = 1 - mine.side
    out: list[Callable[[I32, I32], npt.NDArray[np.bool_]]] = []
    if mine.checks_time and stored.times is not None:
        out.append(partial(in_time, stored.times, mine.probes))
    if run is not None and run.mask is not None:
        table = work.masks[run.mask]
        out.append(lambda _, at: stored_here(table, other, stored.codes[at], stored.u[at], instance))
    if doubt is Doubt.KEYS:
        out.append(
            lambda rows, at: same_keys(
                work.spec,
                key_values(work.spec, mine.side, mine.tuples, rows),
                key_values(work.spec, other, stored, at),
            )
        )
    return out


def passing(
    emitter: Emitter, mine: Probing, stored: Tuples, chunks: Iterator[tuple[I32, I32]]
) -> Iterator[tuple[I32, I32]]:
    """The pairs for which the residual predicate is true."""
    for rows, positions in chunks:
        keep = emitter.passing({mine.side: (mine.tuples, rows), 1 - mine.side: (stored, positions)})
        if keep is None:
            yield rows, positions
        elif len(keep):
            yield rows[keep], positions[keep]
