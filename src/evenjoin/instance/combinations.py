"""Combinations of three sides and more, on their way along a path: put together from small chunks, and checked.

    chunks from many runs  ->  put_together  ->  fewer chunks, of at most `limit` combinations
    combinations           ->  checked       ->  those that satisfy the edges which no probe has enforced

A combination is one tuple of each side found so far; many of them are a `Found` (emit.py). An edge that a path did not
probe along is checked here: equal keys or a band by the codes (by the real keys, where codes are hashes), the bounds of
the times, and the edge's residual.

Invariant: no combination is added, and only those that fail an edge are lost. Pure arrays.
Not here: how combinations are found (follow.py). Joins of two sides never come here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenjoin.instance.emit import Found, passing
from evenjoin.instance.program import Step
from evenjoin.instance.verify import key_values, same_keys
from evenjoin.kernels.band import asked_codes
from evenjoin.kernels.runs import shifted
from evenjoin.spec import JoinSpec
from evenjoin.spec.graph import View
from evenjoin.state.tuples import Tuples


def put_together(chunks: Iterator[Found], limit: int) -> Iterator[Found]:
    """The same combinations in fewer chunks, of at most `limit` where several become one. Each chunk probes all runs of
    the next store, so chunks from many small runs would cost more than the tuples in them."""
    held: list[Found] = []
    count = 0
    for chunk in chunks:
        size = len(next(iter(chunk.values()))[1])
        if held and count + size > limit:
            yield _stacked(held)
            held, count = [], 0
        held.append(chunk)
        count += size
    if held:
        yield _stacked(held)


def _stacked(chunks: Sequence[Found]) -> Found:
    """Chunks one after the other. Tuples of different runs are copied; only those that were found are."""
    if len(chunks) == 1:
        return chunks[0]
    out: Found = {}
    for side, (tuples, _) in chunks[0].items():
        parts = [chunk[side] for chunk in chunks]
        if all(some is tuples for some, _ in parts):
            out[side] = tuples, np.concatenate([rows for _, rows in parts])
            continue
        taken = pa.Table.from_batches([some.batch.take(pa.array(rows)) for some, rows in parts])
        (batch,) = taken.combine_chunks().to_batches()
        out[side] = Tuples.of(tuples.schema, batch), np.arange(batch.num_rows)
    return out


def checked(spec: JoinSpec, step: Step, found: Found) -> Found:
    """The combinations that satisfy every further edge of the step."""
    for check in step.checks:
        keep = holding(spec, check, found)
        found = {side: (tuples, rows[keep]) for side, (tuples, rows) in found.items()}
    return found


def holding(spec: JoinSpec, view: View, found: Found) -> npt.NDArray[Any]:
    """The numbers of the combinations that satisfy an edge between two sides which are both found already."""
    (one, mine), (two, theirs) = found[view.side], found[view.other]
    keep = np.ones(len(mine), np.bool_)
    first_index, second_index = view.index
    left, right = one.codes_by[first_index][mine], two.codes_by[second_index][theirs]
    if view.band is not None:
        band = view.band
        first, last = asked_codes(left, band.kind, band.low, band.high, band.slack)
        keep &= (right >= first) & (right <= last)
    elif view.drive == "equal" and one.schema.codecs[first_index].exact:
        keep &= left == right
    elif view.drive == "equal":
        my_keys = key_values(spec, view.side, first_index, one, mine)
        their_keys = key_values(spec, view.other, second_index, two, theirs)
        keep &= same_keys(spec.sides[view.side].indexes[first_index].null_safe, my_keys, their_keys)
    if view.low is not None and one.times is not None and two.times is not None:
        keep &= two.times[theirs] >= shifted(one.times[mine], view.low)
    if view.high is not None and one.times is not None and two.times is not None:
        keep &= two.times[theirs] <= shifted(one.times[mine], view.high)
    if view.residual is not None:
        true = np.zeros(len(mine), np.bool_)
        true[passing(spec, found, view.residual)] = True
        keep &= true
    return np.flatnonzero(keep)
