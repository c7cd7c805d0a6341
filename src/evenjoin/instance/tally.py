"""What a receipt says about the load of an instance: exact counts per cell of the table, and its heaviest keys.

Guarantee: the counts of a cell are exact, and so is what is said of a heavy key; both also by the time at which the
tuples expire. Which keys are named is bounded by `most`; see `heavy_keys`.

Counting stored tuples means a look into every run. So it is done only when somebody wants the counts (`Work.tracked`;
otherwise `Tally.old` is None and the stored counts are 0). The counts of an old run are kept beside the opened run,
which never changes, and made anew only for another table. So are its largest groups of equal codes.
Not here: what the counts mean (load/).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenjoin.instance.follow import Here, Trail
from evenjoin.instance.verify import key_values, values_of
from evenjoin.kernels.band import float_of
from evenjoin.kernels.hashing import I64, Codes, from_ordered_int64, is_rebuildable
from evenjoin.kernels.runs import expand, group_starts
from evenjoin.load.receipt import Aging, CellAskers, CellCount, HeavyKey
from evenjoin.placement.order import asking_for
from evenjoin.placement.place import cells_of
from evenjoin.placement.ranges import ACROSS, Interval
from evenjoin.placement.table import RoutingTable
from evenjoin.spec import JoinSpec
from evenjoin.spec.expr import Call
from evenjoin.state.packs import Rows
from evenjoin.state.segment import Run
from evenjoin.state.tuples import Tuples, TupleSchema

Runs = Mapping[tuple[int, int], tuple[Run, ...]]
LABEL = 64
"""Characters of a key's name in receipts and commits, at most."""


class Kept(NamedTuple):
    """Tuples of a run as it is after the batch: which of them are alive (None: all), how many live ones each cell has,
    the first rows of the largest groups of equal codes, and the time by which the run expires (None: never)."""

    tuples: Tuples
    alive: npt.NDArray[np.bool_] | None
    cells: I64
    heads: I64
    until: int | None


@dataclass(frozen=True, slots=True)
class Tally:
    """What an instance saw in one batch: by side the tuples that probe and, as they are now kept, the new tuples that
    it stores and the old ones (None: stored tuples are not counted); by path what was found."""

    spec: JoinSpec
    table: RoutingTable
    probing: Sequence[Tuples]
    trails: Sequence[Trail]
    new: Sequence[Sequence[Kept]]
    old: Sequence[Sequence[Kept]] | None

    def kept(self, side: int) -> Sequence[Kept]:
        """All that is kept of a side; nothing, if stored tuples are not counted."""
        return () if self.old is None else (*self.new[side], *self.old[side])


def newly_kept(here: Here, pieces: Mapping[int, Sequence[tuple[Run, Rows]]], most: int) -> list[list[Kept]]:
    """The new tuples of each side, piece by piece, with the runs that they were sealed as."""
    out = []
    for store in range(len(here.work.spec.sides)):
        ages, runs = here.work.program.stores[store].horizon is not None, []
        for run, tuples in pieces.get(store, ()):
            assert isinstance(tuples, Tuples)
            cells = count_cells(here.work.table, tuples.codes)
            runs.append(Kept(tuples, None, cells, _heads(tuples, most), run.high if ages else None))
        out.append(runs)
    return out


def still_kept(here: Here, come: Runs, gone: Runs, most: int) -> list[list[Kept]]:
    """The old runs of each side on this instance, for counting what is stored. A side is counted at the hop at which
    it enters. A run that was merged expires with the run that it went into."""
    work, out = here.work, []
    for store in range(len(work.spec.sides)):
        runs: list[Kept] = []
        schema, place = work.schemas[store], (here.instance, store)
        assert isinstance(schema, TupleSchema)
        merged = set(gone.get(place, ()))
        for run in work.runs.get(place, ()) if work.program.stores[store].hop == here.hop else ():
            tuples = here.segments.read(schema, run)
            find = partial(work.alive, here.instance, store, run, tuples)
            living = here.segments.known(run, "alive", "", find)
            count = partial(_count_alive, work.table, tuples, living)
            cells = here.segments.known(run, "cells", work.table.digest, count)
            heads = here.segments.known(run, "heads", str(most), partial(_heads, tuples, most))
            final = come[place][-1] if run in merged and place in come else run
            ages = work.program.stores[store].horizon is not None
            runs.append(Kept(tuples, living, cells, heads, final.high if ages else None))
        out.append(runs)
    return out


def _count_alive(table: RoutingTable, tuples: Tuples, living: npt.NDArray[np.bool_] | None) -> I64:
    return count_cells(table, tuples.codes if living is None else tuples.codes[living])


def cell_counts(tally: Tally) -> tuple[CellCount, ...]:
    """(side, cell, arrived, stored, results) of every cell for which one of the counts is not 0."""
    cells = tally.table.cells
    out: list[CellCount] = []
    for side in range(len(tally.new)):
        arrived, stored = np.zeros((2, cells), np.int64)
        for run in tally.new[side]:
            arrived += run.cells
        for run in tally.kept(side):
            stored += run.cells
        results = np.zeros(cells, np.int64)
        for codes, pairs in _found_of(tally, side):
            results += np.bincount(cells_of(tally.table, codes), pairs.astype(np.float64), cells).astype(np.int64)
        for cell in np.flatnonzero(arrived + stored + results).tolist():
            out.append((side, cell, int(arrived[cell]), int(stored[cell]), int(results[cell])))
    return tuple(out)


def cell_askers(tally: Tally) -> tuple[CellAskers, ...]:
    """(side, cell, tuples) of every cell of ordered buckets that tuples of the other side asked for here. Nothing for
    other tables: there those ask for a cell that have a code of it."""
    asking = tally.table.compiled.probing
    if asking is None:
        return ()
    out: list[CellAskers] = []
    for side in range(len(tally.new)):
        count = _rows_within(tally.probing[ACROSS[side]].codes, asking.first_asking[side], asking.last_asking[side])
        out += [(side, cell, int(count[cell])) for cell in np.flatnonzero(count).tolist()]
    return tuple(out)


def aging(tally: Tally) -> tuple[Aging, ...]:
    """When the stored tuples of each cell expire; nothing of sides that keep theirs for ever."""
    out: list[Aging] = []
    for side in range(len(tally.new)):
        total: dict[int, I64] = {}
        for run in tally.kept(side):
            if run.until is not None:
                total[run.until] = total.get(run.until, np.zeros(tally.table.cells, np.int64)) + run.cells
        for until in sorted(total):
            cells = np.flatnonzero(total[until])
            out.append((side, until, tuple(cells.tolist()), tuple(total[until][cells].tolist())))
    return tuple(out)


def _found_in(tally: Tally, side: int) -> Iterator[tuple[Tuples, I64]]:
    """What was found in the store of a side, by whichever step of a path: the tuples that probed, and of each the pairs
    that began with it."""
    for trail in tally.trails:
        for probed, pairs in trail.found:
            if probed == side:
                yield trail.tuples, pairs


def _found_of(tally: Tally, side: int) -> Iterator[tuple[Codes, I64]]:
    """The same by code: of the stored tuples where buckets are ordered, else of the tuples that probed, which is the
    same code or at least the same cell. Codes ascend."""
    if tally.table.ordered:
        yield from (found for trail in tally.trails if trail.found_in == side for found in trail.by_code)
    else:
        yield from ((probing.codes, pairs) for probing, pairs in _found_in(tally, side))


def count_cells(table: RoutingTable, codes: Codes) -> I64:
    """[cells] How many of the codes belong to each cell of the table."""
    return np.bincount(cells_of(table, codes), minlength=table.cells).astype(np.int64)


def heavy_keys(
    tally: Tally, most: int, names: Literal["named", "redacted"] = "named", asked: Sequence[int] = ()
) -> tuple[tuple[HeavyKey, ...], tuple[HeavyKey, ...]]:
    """The heaviest codes on this instance, at most `most`; and those of the codes `asked` for that are here and not
    among them.

    Heavy is a code by its part of the batch's work (tuples stored, tuples probing and pairs) or by its part of all that
    is stored, whichever is larger. A code with more than 1/most of a run, of the tuples of a side that are to be
    stored, or of those that probe, is a candidate (unless it has one tuple only).

    A redacted key is named by its code, which is salted or a hash. Where codes are values, because they are compared by
    order, no redacted key is reported. Of three sides or more without a common key none is: a code of one side says
    nothing about those of another.
    """
    if (names == "redacted" and tally.spec.ordered_codes) or (len(tally.new) > 2 and not tally.spec.equal_codes):
        return (), ()
    found = _candidates(tally, most)
    codes = np.union1d(np.array(list(found), np.int64), np.array(asked, np.int64))
    counts = _counted(tally, codes)
    candidate = np.isin(codes, np.array(list(found), np.int64)) & counts.present  # a masked run may name dead ones
    weight = np.where(candidate, counts.weight(tally), -1.0)
    top = np.sort(np.lexsort((codes, -weight))[: min(most, int(candidate.sum()))])
    if names == "named":
        labels = _names(tally.spec, [found[code] for code in codes[top].tolist()])
    else:
        labels = [f"key-{code:016x}" for code in codes[top].view(np.uint64).tolist()]
    others = np.setdiff1d(np.flatnonzero(np.isin(codes, np.array(asked, np.int64)) & counts.present), top)
    return _keys(codes, counts, top, labels), _keys(codes, counts, others, [""] * len(others))


Head = tuple[int, Tuples, int]
"""(side, tuples, row): a tuple that has a certain code."""


def _candidates(tally: Tally, most: int) -> dict[int, Head]:
    """The codes that may be heavy, each with a tuple that has it. Of those that are only stored, the `most` with the
    most tuples in the runs where they are large."""
    named: dict[int, Head] = {}
    for side, runs in enumerate(tally.new):
        for run in runs:
            _name(named, side, run.tuples, run.heads)
    for side, tuples in enumerate(tally.probing):
        _name(named, side, tuples, _heads(tuples, most))
    for side, runs in enumerate(tally.old or ()):
        at = [(run, row) for run in runs for row in run.heads.tolist()]
        if not at:
            continue
        code = np.concatenate([run.tuples.codes[run.heads].astype(np.int64) for run in runs])
        size = np.concatenate([_sizes(run.tuples.codes, run.heads) for run in runs])
        _, first, owner = np.unique(code, return_index=True, return_inverse=True)
        total = np.bincount(owner.reshape(-1), size, len(first))
        for n in first[np.argsort(-total, kind="stable")[:most]].tolist():
            named.setdefault(int(code[n]), (side, at[n][0].tuples, at[n][1]))
    return named


def _name(named: dict[int, Head], side: int, tuples: Tuples, rows: I64) -> None:
    for code, row in zip(tuples.codes[rows].tolist(), rows.tolist(), strict=True):
        named.setdefault(int(code), (side, tuples, row))


class _Counts(NamedTuple):
    """Of n codes: arrays [sides, n]; and of the stored tuples that expire (side, until, [n]). `askers` is None unless
    buckets are ordered."""

    arrived: I64
    probed: I64
    stored: I64
    results: I64
    aging: list[tuple[int, int, I64]]
    askers: I64 | None = None

    def weight(self, tally: Tally) -> npt.NDArray[np.float64]:
        """[n] The larger of a code's part of all work and of all that is stored."""
        asking = self.probed if self.askers is None else self.askers
        work, stored = (self.arrived + asking + self.results).sum(axis=0), self.stored.sum(axis=0)
        tuples = sum(len(run.tuples) for runs in tally.new for run in runs) + sum(map(len, tally.probing))
        pairs = sum(int(of_each.sum()) for side in range(len(tally.new)) for _, of_each in _found_in(tally, side))
        held = sum(int(run.cells.sum()) for side in range(len(tally.new)) for run in tally.kept(side))
        out: npt.NDArray[np.float64] = np.maximum(work / max(tuples + pairs, 1), stored / max(held, 1))
        return out

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """[n] Whether anything of a code is here, or somebody asked for it."""
        here = self.arrived + self.probed + self.stored
        out: npt.NDArray[np.bool_] = (here if self.askers is None else here + self.askers).sum(axis=0) > 0
        return out


def _counted(tally: Tally, codes: I64) -> _Counts:
    """The exact counts of these codes on this instance; stored ones are zeros if nobody counts them."""
    sides = len(tally.new)
    arrived, probed, stored, results = np.zeros((4, sides, len(codes)), np.int64)
    aging: dict[tuple[int, int], I64] = {}
    for side in range(sides):
        for run in tally.new[side]:
            arrived[side] += _rows(run.tuples.codes, codes)
        probed[side] = _rows(tally.probing[side].codes, codes)
        for mine, pairs in _found_of(tally, side):
            results[side] += _between(mine, codes, np.concatenate([[0], np.cumsum(pairs)]))
        for run in tally.kept(side):
            mine = run.tuples.codes
            rows = _rows(mine, codes) if run.alive is None else _rows_alive(mine, codes, run.alive)
            stored[side] += rows
            if run.until is not None:
                aging[side, run.until] = aging.get((side, run.until), 0) + rows
    expiring = [(*key, aging[key]) for key in sorted(aging)]
    return _Counts(arrived, probed, stored, results, expiring, _askers(tally, codes))


def _askers(tally: Tally, codes: I64) -> I64 | None:
    """[sides, n] How many tuples of the other side asked for each code here; None unless buckets are ordered."""
    if not tally.table.ordered:
        return None
    out = np.zeros((len(tally.new), len(codes)), np.int64)
    for side in range(len(tally.new)):
        near = [asking_for(tally.table.reach, side, Interval.between(code, code)) for code in codes.tolist()]
        first, last = (np.array([getattr(one, end) for one in near], np.int64) for end in ("first", "last"))
        out[side] = _rows_within(tally.probing[ACROSS[side]].codes, first, last)
    return out


def _rows_within(mine: Codes, first: I64, last: I64) -> I64:
    """[n] How many rows have a code from first[n] to last[n]. The codes of the rows ascend."""
    wide = mine.astype(np.int64)
    out: I64 = np.maximum(np.searchsorted(wide, last, "right") - np.searchsorted(wide, first, "left"), 0)
    return out


def _keys(codes: I64, counts: _Counts, some: I64, names: Sequence[str]) -> tuple[HeavyKey, ...]:
    """Some of the codes as keys."""
    arrived, probed, stored, results = (
        list(map(tuple, of[:, some].T.tolist()))
        for of in (counts.arrived, counts.probed, counts.stored, counts.results)
    )
    aging: list[list[tuple[int, int, int]]] = [[] for _ in names]
    for side, until, of_each in counts.aging:
        for n, count in enumerate(of_each[some].tolist()):
            if count:
                aging[n].append((side, until, count))
    askers = [()] * len(names) if counts.askers is None else list(map(tuple, counts.askers[:, some].T.tolist()))
    return tuple(
        HeavyKey(int(code), name, arrived[n], probed[n], stored[n], results[n], tuple(aging[n]), askers[n])
        for n, (code, name) in enumerate(zip(codes[some].tolist(), names, strict=True))
    )


def _names(spec: JoinSpec, heads: Sequence[Head]) -> list[str]:
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

    An exact code is turned back into its key; hashed keys are read, and so is a float of which the code is a step
    (kernels/steps.py). Bytes that are no text become replacement characters: a label is never looked up.
    """
    values: list[list[Any]]
    types, codec, exprs = spec.sides[side].index.types, tuples.schema.codec, spec.sides[side].index.exprs
    if exprs and isinstance(exprs[0], Call) and exprs[0].name == "steps":
        values = [_texts(column) for column in values_of(exprs[0].args[:1], spec.sides[side].alias, tuples, rows)]
    elif not codec.exact:
        values = [_texts(column) for column in key_values(spec, side, 0, tuples, rows)]
    else:
        values = [_shown(codec.ordered(tuples.codes[rows]), types[0] if types else pa.int64())]
    labels = [", ".join(map(str, key)) for key in zip(*values, strict=True)]
    return [label if len(label) <= LABEL else f"{label[: LABEL - 1]}…" for label in labels]


def _shown(ordered: I64, type_: pa.DataType) -> list[Any]:
    """Keys of a fixed-width type from their ordered codes, as values to print."""
    if is_rebuildable(type_):
        return _values(from_ordered_int64(ordered, type_))
    if pa.types.is_floating(type_):
        return list(float_of(ordered).tolist())
    return [Decimal(code).scaleb(-type_.scale) for code in ordered.tolist()]


def _texts(column: pa.Array) -> list[Any]:
    """The values of a key's column; a text that is not valid UTF-8 is shown with replacement characters."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return _values(column)
    return [
        None if value is None else value.decode("utf-8", "replace") for value in column.cast(pa.binary()).to_pylist()
    ]


def _values(column: pa.Array) -> list[Any]:
    """The values of a column to print. Times beyond the year 9999, which Python does not have, are shown as numbers."""
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, ValueError):
        return column.cast(pa.int32() if column.type == pa.date32() else pa.int64()).to_pylist()  # type: ignore[no-any-return]


def _heads(tuples: Tuples, most: int) -> I64:
    """The first rows of the largest groups of equal codes, at most `most`. Small groups are passed over unless all are
    small: a group must have 1/(8 most) of the tuples, and two of them."""
    starts = group_starts(tuples.codes)
    sizes = np.diff(starts)
    large = np.flatnonzero(sizes >= min(max(2, len(tuples) // (8 * most)), sizes.max(initial=1)))
    if len(large) > most:
        large = large[np.argpartition(sizes[large], -most)[-most:]]
    return starts[large]


def _sizes(sorted_codes: Codes, first_rows: I64) -> I64:
    """How many rows each of these groups of equal codes has."""
    out: I64 = np.searchsorted(sorted_codes, sorted_codes[first_rows], "right") - first_rows
    return out


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
