"""What a receipt says about the load of an instance: exact counts per cell of the table, and its heaviest keys.

Guarantee: the counts of a cell are exact, and so is what is said of a heavy key. Which keys are named is bounded by
`most`; see `heavy_keys`.

Counting stored tuples means a look into every run. So it is done only when somebody wants the counts (`Work.tracked`;
otherwise `Tally.runs` is None and the stored counts are 0). The counts of an old run are kept beside the opened run,
which never changes, and made anew only for another table.
Not here: what the counts mean (load/).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenjoin.instance.follow import Here, Trail
from evenjoin.instance.verify import key_values
from evenjoin.kernels.band import float_of
from evenjoin.kernels.hashing import I64, Codes, from_ordered_int64, is_rebuildable
from evenjoin.kernels.runs import expand, group_starts
from evenjoin.load.receipt import CellCount, HeavyKey
from evenjoin.placement.place import cells_of
from evenjoin.placement.table import RoutingTable
from evenjoin.spec import JoinSpec
from evenjoin.state.tuples import Tuples, TupleSchema

LABEL = 64
"""Characters of a key's name in receipts and commits, at most."""


class Kept(NamedTuple):
    """An old run: its tuples, which of them are alive (None: all), and how many live ones each cell has."""

    tuples: Tuples
    alive: npt.NDArray[np.bool_] | None
    cells: I64


@dataclass(frozen=True, slots=True)
class Tally:
    """What an instance saw in one batch: by side the new tuples that it stores and those that probe; by path what they
    found; and by side the old runs (None: stored tuples are not counted)."""

    spec: JoinSpec
    table: RoutingTable
    stored: Sequence[Tuples]
    probing: Sequence[Tuples]
    trails: Sequence[Trail]
    runs: Sequence[Sequence[Kept]] | None


def kept(here: Here) -> list[list[Kept]]:
    """The old runs of each side on this instance, for counting what is stored. A side is counted at the hop at which
    it enters."""
    work, out = here.work, []
    for store in range(len(work.spec.sides)):
        runs: list[Kept] = []
        schema = work.schemas[store]
        assert isinstance(schema, TupleSchema)
        entered = work.program.stores[store].hop == here.hop
        for run in work.runs.get((here.instance, store), ()) if entered else ():
            tuples = here.segments.read(schema, run)
            find = partial(work.alive, here.instance, store, run, tuples)
            living = here.segments.known(run, "alive", "", find)
            count = partial(_count_alive, work.table, tuples, living)
            runs.append(Kept(tuples, living, here.segments.known(run, "cells", work.table.digest, count)))
        out.append(runs)
    return out


def _count_alive(table: RoutingTable, tuples: Tuples, living: npt.NDArray[np.bool_] | None) -> I64:
    return count_cells(table, tuples.codes if living is None else tuples.codes[living])


def cell_counts(tally: Tally) -> tuple[CellCount, ...]:
    """(side, cell, arrived, stored, results) of every cell for which one of the counts is not 0."""
    cells = tally.table.cells
    out: list[CellCount] = []
    for side, tuples in enumerate(tally.stored):
        arrived = count_cells(tally.table, tuples.codes)
        stored = np.zeros(cells, np.int64)
        if tally.runs is not None:
            stored += arrived + sum(run.cells for run in tally.runs[side])
        results = np.zeros(cells, np.int64)
        for probing, pairs in _found_in(tally, side):
            weights = pairs.astype(np.float64)
            results += np.bincount(cells_of(tally.table, probing.codes), weights, cells).astype(np.int64)
        for cell in np.flatnonzero(arrived + stored + results).tolist():
            out.append((side, cell, int(arrived[cell]), int(stored[cell]), int(results[cell])))
    return tuple(out)


def _found_in(tally: Tally, side: int) -> Iterator[tuple[Tuples, I64]]:
    """What was found in the store of a side, by whichever step of a path: the tuples that probed, and of each the pairs
    that began with it."""
    for trail in tally.trails:
        for probed, pairs in trail.found:
            if probed == side:
                yield trail.tuples, pairs


def count_cells(table: RoutingTable, codes: Codes) -> I64:
    """[cells] How many of the codes belong to each cell of the table."""
    return np.bincount(cells_of(table, codes), minlength=table.cells).astype(np.int64)


def heavy_keys(tally: Tally, most: int, names: Literal["named", "redacted"] = "named") -> tuple[HeavyKey, ...]:
    """The heaviest codes of this batch on this instance, at most `most`, by tuples stored, tuples probing and pairs.

    A code with more than 1/most of the tuples of a side that are to be stored, or that probe, is a candidate (unless it
    has one tuple only). Of the candidates of all sides the heaviest are taken.

    A redacted key is named by its code, which is salted or a hash. Where codes are values, because they are compared by
    order, no redacted key is reported. Of three sides or more without a common key none is: a code of one side says
    nothing about those of another.
    """
    if (names == "redacted" and tally.spec.ordered_codes) or (len(tally.stored) > 2 and not tally.spec.equal_codes):
        return ()
    named: dict[int, tuple[int, Tuples, int]] = {}
    for side, tuples in [*enumerate(tally.stored), *enumerate(tally.probing)]:
        for row in _heads(tuples, most):
            named.setdefault(int(tuples.codes[row]), (side, tuples, int(row)))
    codes = np.array(sorted(named), np.int64)
    arrived = [_rows(t.codes, codes) for t in tally.stored]
    probed = [_rows(t.codes, codes) for t in tally.probing]
    results = [np.zeros(len(codes), np.int64) for _ in tally.stored]
    for side, counts in enumerate(results):
        for probing, pairs in _found_in(tally, side):
            counts += _between(probing.codes, codes, np.concatenate([[0], np.cumsum(pairs)]))
    weight = np.sum(arrived, axis=0) + np.sum(probed, axis=0) + np.sum(results, axis=0)
    top = np.sort(np.lexsort((codes, -weight))[:most])
    kept = _stored(tally, codes[top])
    if names == "named":
        labels = _names(tally.spec, [named[code] for code in codes[top].tolist()])
    else:
        labels = [f"key-{code:016x}" for code in codes[top].view(np.uint64).tolist()]
    columns = [[list(map(int, side[top])) for side in counts] for counts in (arrived, probed, results)]
    return tuple(
        HeavyKey(
            int(codes[k]),
            labels[n],
            tuple(side[n] for side in columns[0]),
            tuple(side[n] for side in columns[1]),
            tuple(int(side[n]) for side in kept),
            tuple(side[n] for side in columns[2]),
        )
        for n, k in enumerate(top)
    )


def _names(spec: JoinSpec, heads: Sequence[tuple[int, Tuples, int]]) -> list[str]:
    """The names of keys, each given as (side, tuples, row) of a tuple that has it. One read for each set of tuples."""
    names = [""] * len(heads)
    groups: dict[tuple[int, int], list[int]] = {}
    for n, (side, tuples, _) in enumerate(heads):
        groups.setdefault((side, id(tuples)), []).append(n)
    for members in groups.values():
        side, tuples, _ = heads[members[0]]
        rows = np.array([heads[n][2] for n in members], np.int64)
        for n, name in zip(members, key_names(spec, side, tuples, rows), strict=True):
            names[n] = name
    return names


def key_names(spec: JoinSpec, side: int, tuples: Tuples, rows: npt.NDArray[np.int64]) -> list[str]:
    """The keys of some tuples as labels for people, at most LABEL characters each.

    An exact code is turned back into its key; hashed keys are read. Bytes that are no text become replacement
    characters: a label is never looked up.
    """
    values: list[list[Any]]
    types, codec = spec.sides[side].index.types, tuples.schema.codec
    if not codec.exact:
        values = [_texts(column) for column in key_values(spec, side, 0, tuples, rows)]
    else:
        values = [_shown(codec.ordered(tuples.codes[rows]), types[0] if types else pa.int64())]
    labels = [", ".join(map(str, key)) for key in zip(*values, strict=True)]
    return [label if len(label) <= LABEL else f"{label[: LABEL - 1]}…" for label in labels]


def _shown(ordered: I64, type_: pa.DataType) -> list[Any]:
    """Keys of a fixed-width type from their ordered codes, as values to print."""
    if is_rebuildable(type_):
        return from_ordered_int64(ordered, type_).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_floating(type_):
        return list(float_of(ordered).tolist())
    return [Decimal(code).scaleb(-type_.scale) for code in ordered.tolist()]


def _texts(column: pa.Array) -> list[Any]:
    """The values of a key's column; a text that is not valid UTF-8 is shown with replacement characters."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column.to_pylist()  # type: ignore[no-any-return]
    return [
        None if value is None else value.decode("utf-8", "replace") for value in column.cast(pa.binary()).to_pylist()
    ]


def _stored(tally: Tally, codes: I64) -> list[I64]:
    """For each side, [codes] tuples with that code that are alive here after the batch; zeros if nobody counts them."""
    if tally.runs is None:
        return [np.zeros(len(codes), np.int64) for _ in tally.stored]
    out = []
    for side, tuples in enumerate(tally.stored):
        total = _rows(tuples.codes, codes)
        for run in tally.runs[side]:
            mine = run.tuples.codes
            total += _rows(mine, codes) if run.alive is None else _rows_alive(mine, codes, run.alive)
        out.append(total)
    return out


def _heads(tuples: Tuples, most: int) -> I64:
    """The first rows of the largest groups of equal codes, at most `most`. Small groups are passed over unless all are
    small: a group must have 1/(8 most) of the tuples, and two of them."""
    starts = group_starts(tuples.codes)
    sizes = np.diff(starts)
    large = np.flatnonzero(sizes >= min(max(2, len(tuples) // (8 * most)), sizes.max(initial=1)))
    if len(large) > most:
        large = large[np.argpartition(sizes[large], -most)[-most:]]
    return starts[large]


def _rows(sorted_codes: Codes, codes: I64) -> I64:
    wanted = codes.astype(sorted_codes.dtype)
    out: I64 = np.searchsorted(sorted_codes, wanted, "right") - np.searchsorted(sorted_codes, wanted)
    return out


def _rows_alive(sorted_codes: Codes, codes: I64, alive: npt.NDArray[np.bool_]) -> I64:
    wanted = codes.astype(sorted_codes.dtype)
    start, count = np.searchsorted(sorted_codes, wanted), _rows(sorted_codes, codes)
    owner = np.repeat(np.arange(len(codes)), count)
    return np.bincount(owner[alive[expand(start, count)]], minlength=len(codes)).astype(np.int64)


def _between(sorted_codes: Codes, codes: I64, prefix_sums: I64) -> I64:
    """Per code, the sum over its rows, taken from prefix sums."""
    wanted = codes.astype(sorted_codes.dtype)
    first, last = np.searchsorted(sorted_codes, wanted), np.searchsorted(sorted_codes, wanted, "right")
    out: I64 = prefix_sums[last] - prefix_sums[first]
    return out
