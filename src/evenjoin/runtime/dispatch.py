"""Dispatch: rows of one side -> tuples with code, time and position -> one piece per instance.

    event time -> filter -> ahead? -> windows -> late? -> key code -> id, u -> place -> a piece for each instance

Both runtimes use this class, with one object per dispatch task and batch.

Guarantee: what a task sends depends on its rows, not on their order or on how they are cut into batches. Each tuple
goes to the same instances with the same id, and the note at the end says the same. Only the order within a piece may
differ. Nothing that is sent holds a clock, a task's number or randomness. So a task that runs again sends what it sent
before, and the books of both runs agree (load/receipt.py).

A row that can match nothing is counted as unmatchable and dropped: its side's filter fails, its key is NULL under `=`,
or it has no time and its side has a time bound or a window. A late row is dropped, kept or set aside, as the join's
`late` says. A row without a time on a side that nothing bounds in time is never late and never too far ahead. It does
not move the watermark, and it stays in the state for ever, as all tuples of such a side do (Spark does the same). A row
too far ahead of the others (ahead.py) is dropped or set aside. The watermark sees neither unmatchable rows nor those
ahead: a row that the condition filters out must not make others late. Each row counts once, in however many windows.
Not here: what an instance does with its piece (instance/batch.py), and how pieces travel (the runtimes).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenjoin.errors import TableError
from evenjoin.instance.programs import program_of
from evenjoin.instance.work import Work
from evenjoin.kernels.content import Occurrences, content, scrambled
from evenjoin.kernels.hashing import I64, Codes, mix64
from evenjoin.load.intake import Intake, Note
from evenjoin.load.samples import Picked
from evenjoin.placement.check import check
from evenjoin.placement.links import links_of
from evenjoin.placement.place import LATE, At, Scattered, place
from evenjoin.placement.ranges import Reach
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import Cube
from evenjoin.spec import JoinSpec
from evenjoin.state.tuples import TupleSchema

Piece = tuple[int, pa.RecordBatch, int]
"""(instance, the rows for it, the sum of their lines)."""


@dataclass(frozen=True, slots=True)
class Dispatched:
    """What becomes of some rows of a side: tuples for instances, and late rows for instance 0 if anybody wants them."""

    pieces: list[Piece]
    late: Piece | None


@dataclass(slots=True)
class _Rows:
    """Rows of one side on their way through dispatch: columns by qualified name, and times. Arrays of one length.
    `timed` says which rows have a time at all; None: all of them have one."""

    columns: dict[str, pa.Array]
    times: I64 | None
    timed: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def take(self, rows: npt.NDArray[Any]) -> _Rows:
        picked = pa.array(rows)
        return _Rows(
            {name: pc.take(column, picked) for name, column in self.columns.items()},
            None if self.times is None else self.times[rows],
            None if self.timed is None else self.timed[rows],
        )

    def keep(self, mask: npt.NDArray[np.bool_]) -> _Rows:
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def as_batch(self, mask: npt.NDArray[np.bool_]) -> pa.RecordBatch:
        """The rows of the mask, under the side's own names."""
        names = [name.split(".", 1)[1] for name in self.columns]
        return pa.RecordBatch.from_arrays(list(self.columns.values()), names=names).filter(pa.array(mask))


class Dispatcher:
    """Dispatches the rows that one task reads of one batch.

    Ids depend on the batch. Otherwise equal rows of two batches would share a position, and a hot key that sends one
    row a batch would never be spread. Equal rows of one task differ by their number, where that matters.
    """

    def __init__(self, work: Work, watermark: int | None) -> None:
        if not suits(work.spec, work.table):
            raise TableError(f"{work.table.origin}: tuples with unequal keys can match, but not all regions meet")
        self._spec, self._table = work.spec, work.table
        self._schemas = [schema for schema in work.schemas if isinstance(schema, TupleSchema)]
        self._watermark, self._limit = watermark, work.time_limit
        self._seed, self._batch = work.seed, work.batch
        self._intake = [Intake() for _ in work.spec.sides]
        self._occurrences: dict[int, Occurrences] = defaultdict(Occurrences)
        self._picked: dict[int, Picked] = {}
        if work.sampling == "codes":
            self._picked = {side: Picked(work.grain, work.sub_windows[side]) for side in range(len(work.spec.sides))}
        self._sent = 0

    @property
    def note(self) -> Note:
        """What the task has to say when it has dispatched all its rows."""
        intake = list(self._intake)
        for side, picked in self._picked.items():
            intake[side] = replace(intake[side], sample=picked.slices())
        return Note(tuple(intake), self._sent)

    def dispatch(self, side: int, data: pa.RecordBatch) -> Dispatched:
        """Dispatch some rows of a side. `data` has the columns that the join reads, under the side's own names."""
        spec, alias = self._spec.sides[side], self._spec.sides[side].alias
        total = data.num_rows
        if total == 0:
            return Dispatched([], None)
        rows = _Rows({f"{alias}.{name}": data.column(name) for name in data.schema.names}, None)
        lost = self._read_times(side, rows)
        if spec.filter is not None:
            passed = pc.fill_null(spec.filter.evaluate(rows.columns, total), False)
            lost = lost | ~np.asarray(passed)
        matchable = rows.keep(~lost)
        ahead = self._ahead(side, matchable)
        here = matchable.keep(~ahead)
        rows, sources, late = self._split_late(side, here)
        codes, valid = self._codes(side, rows)
        keyless = np.zeros(len(here), np.bool_)
        if valid is not None:
            keyless[sources[~valid]] = True
            rows, codes = rows.keep(valid), [some[valid] for some in codes]
        self._intake[side] += Intake(
            total,
            late=int(late.sum()),
            unmatchable=int(lost.sum()) + int(keyless.sum()),
            latest=self._latest(side, here, keyless),
            ahead=int(ahead.sum()),
            ahead_from=int(matchable.times[ahead].min()) if matchable.times is not None and ahead.any() else None,
        )
        return Dispatched(self._send(side, rows, codes), self._set_aside(side, matchable, ahead, late))

    def _read_times(self, side: int, rows: _Rows) -> npt.NDArray[np.bool_]:
        """Fill in the times of the rows. Returns which of them cannot match because they have none."""
        spec = self._spec.sides[side]
        nowhere = np.zeros(len(rows), np.bool_)
        if spec.order is None:
            return nowhere
        times = spec.order.evaluate(rows.columns, len(rows))
        if not times.null_count:
            rows.times = np.asarray(times, dtype=np.int64)
            return nowhere
        rows.timed = np.asarray(times.is_valid())
        rows.times = np.asarray(pc.fill_null(times, 0), dtype=np.int64)
        return ~rows.timed if self._spec.bounded(side) else nowhere

    def _ahead(self, side: int, rows: _Rows) -> npt.NDArray[np.bool_]:
        """Which rows are too far ahead in event time."""
        if self._limit is None or self._spec.sides[side].event_time is None or rows.times is None:
            return np.zeros(len(rows), np.bool_)
        ahead = rows.times > self._limit
        return ahead if rows.timed is None else ahead & rows.timed

    def _latest(self, side: int, rows: _Rows, keyless: npt.NDArray[np.bool_]) -> int | None:
        """The latest event time of the rows that can match."""
        if self._spec.sides[side].event_time is None or rows.times is None:
            return None
        seen = ~keyless if rows.timed is None else rows.timed & ~keyless
        times = rows.times if seen.all() else rows.times[seen]
        return int(times.max()) if len(times) else None

    def _split_late(self, side: int, rows: _Rows) -> tuple[_Rows, npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """The rows that are in time, once for each window they belong to, with the number of the row that each is; and
        which rows are late, that is, late in all their windows."""
        count = len(rows)
        sources = np.arange(count)
        if self._spec.window is not None and rows.times is not None:
            sources, starts = windows_of(rows.times, *self._spec.window)
            windowed = (
                rows.take(sources) if len(sources) != count or self._spec.window[0] != self._spec.window[1] else rows
            )
            windowed = replace(windowed, times=starts)
        else:
            windowed = rows
        lateness, nothing = self._spec.sides[side].lateness, np.zeros(count, np.bool_)
        if self._watermark is None or lateness is None or windowed.times is None or self._spec.late == "keep":
            return windowed, sources, nothing
        late = windowed.times <= self._watermark - lateness
        if windowed.timed is not None:
            late &= windowed.timed
        if not late.any():
            return windowed, sources, nothing
        in_time = nothing
        in_time[sources[~late]] = True
        return windowed.keep(~late), sources[~late], ~in_time

    def _codes(self, side: int, rows: _Rows) -> tuple[list[Codes], npt.NDArray[np.bool_] | None]:
        """The codes of each row, by index, and which rows can match at all: none of their keys is NULL under `=`."""
        every: list[Codes] = []
        valid: npt.NDArray[np.bool_] | None = None
        for index, codec in zip(self._spec.sides[side].indexes, self._schemas[side].codecs, strict=True):
            if index.is_window and rows.times is not None:
                every.append(rows.times)
                continue
            keys = [_contiguous(key.evaluate(rows.columns, len(rows))) for key in index.exprs]
            codes, mask = codec.encode(keys, len(rows))
            every.append(codes)
            valid = mask if valid is None else valid if mask is None else valid & mask
        return every, valid

    def _send(self, side: int, rows: _Rows, every: list[Codes]) -> list[Piece]:
        codes, more = every[0], tuple(every[1:])
        count = len(codes)
        if count == 0:
            return []
        schema, times = self._schemas[side], rows.times
        payload = [_contiguous(rows.columns[f"{schema.alias}.{field.name}"]) for field in schema.stored]
        coded = [every[k] for k in schema.coded]
        held = [*coded, times, *payload] if schema.timed == "timed" else [*coded, *payload]
        seed = self._seed_of(side)
        ids = content(held, seed)
        if self._equal_rows_matter(side):
            ids = self._occurrences[side].ids(ids)
        if side in self._picked:
            self._picked[side].add(ids, codes, more, times)
        u = (ids >> np.uint64(32)).astype(np.uint32)
        out = place(self._table, side, At(codes, u, more)).by_instance(self._table.instances)
        picked = pa.array(out.rows)
        arrays: list[pa.Array] = [pa.array(some[out.rows]) for some in coded]
        if schema.timed == "timed":
            assert times is not None
            arrays.append(pa.array(times[out.rows]))
        arrays.append(pa.array(u[out.rows]))
        arrays += [pc.take(column, picked, boundscheck=False) for column in payload]
        batch = pa.RecordBatch.from_arrays([*arrays, pa.array(out.roles)], schema=schema.wire)
        spans = zip(
            out.instances.tolist(), out.bounds[:-1].tolist(), out.bounds[1:].tolist(), out.lines(ids), strict=True
        )
        pieces = [(instance, batch.slice(start, stop - start), lines) for instance, start, stop, lines in spans]
        self._sent = (self._sent + sum(lines for _, _, lines in pieces)) % 2**64
        return pieces

    def _set_aside(
        self, side: int, rows: _Rows, ahead: npt.NDArray[np.bool_], late: npt.NDArray[np.bool_]
    ) -> Piece | None:  # fmt: skip
        """Rows on their way to the side output: those ahead, and of the others the late ones. They are in the books
        too."""
        aside = ahead.copy()
        aside[~ahead] = late
        if self._spec.late != "side" or not aside.any():
            return None
        out = rows.as_batch(aside)
        ids = content([_contiguous(column) for column in out.columns], self._seed_of(side))
        numbers, roles = np.arange(len(ids)), np.full(len(ids), LATE, np.uint8)
        (lines,) = Scattered(numbers, roles, np.zeros(1, np.int64), np.array([0, len(ids)])).lines(ids)
        self._sent = (self._sent + lines) % 2**64
        return 0, out, lines

    def _equal_rows_matter(self, side: int) -> bool:
        """Whether equal rows of this task should have different positions. Not where the table splits nothing and rows
        have event times: rows that agree even in their times are too few to matter if it is split later."""
        timed = self._schemas[side].timed == "timed" and self._spec.window is None
        return not (self._table.compiled.unsplit and timed)

    def _seed_of(self, side: int) -> int:
        number = np.array([self._batch * 64 + side + 1], np.uint64)
        return scrambled(self._seed + int(mix64(number)[0]))


def stated(spec: JoinSpec, table: RoutingTable) -> RoutingTable:
    """A strategy's table with the reach of the condition, the meeting of its program and, where the table is or may
    become a cube, the links between codes: what may match and what must meet is not the strategy's to decide."""
    may_be_cube = len(spec.sides) > 2 or any(isinstance(region.topology, Cube) for region in table.regions)
    program = program_of(spec, table.program)
    return replace(
        table,
        reach=Reach(*spec.reach),
        meeting=program.meeting,
        meets=program.meets,
        links=links_of(spec.edges) if may_be_cube else (),
    )


def suits(spec: JoinSpec, table: RoutingTable) -> bool:
    """Whether the table brings together all codes that can match under this condition.

    It does if only equal codes can match, if one region takes everything (a cube brings together what its links allow,
    which `check` has seen to), or if the table was made (and checked) for the reach of this condition.
    """
    return spec.equal_codes or len(table.regions) == 1 or table.reach == Reach(*spec.reach)


def keeps_together(spec: JoinSpec, table: RoutingTable) -> bool:
    """Whether the table brings all tuples of a combination to one instance, if its program needs that."""
    needed = stated(spec, table)
    if needed.meeting != "together":
        return True
    try:
        check(needed)
    except TableError:
        return False
    return True


def windows_of(times: I64, size: int, slide: int) -> tuple[I64, I64]:
    """The windows [start, start + size) of each time, as row numbers and starts. Starts are multiples of `slide`."""
    last = np.floor_divide(times, slide) * slide
    rows, starts = [], []
    for back in range(-(-size // slide)):
        start = last - back * slide
        inside = times - start < size
        rows.append(np.flatnonzero(inside))
        starts.append(start[inside])
    return np.concatenate(rows).astype(np.int64), np.concatenate(starts)


def _contiguous(array: Any) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
