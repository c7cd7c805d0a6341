"""A recorded workload as a source: the rows of a benchmark, encoded and dispatched as the engine does it.

    JoinWorkload  ->  Recorded  ->  counts per code and sub-window, batch by batch

The engine's own dispatcher makes the tuples, with a table of one instance: it evaluates keys, filters and times,
encodes keys by the seed of a checkpoint, and cuts windows. So codes, and with them buckets, regions and instances, are
those of a real run on the same rows. A batch is cut into the sub-windows into which the engine cuts it.

Guarantee: the counts are those of the tuples that a real run without late rows would have placed. What is not kept is
the position of each tuple and its exact time within a slice. Rows are read once, when the source is made.
Not here: running the benchmark (bench/).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from evenjoin.instance.program import store_schemas
from evenjoin.instance.programs import program_of
from evenjoin.instance.work import Work, sub_window_widths
from evenjoin.kernels.hashing import I64
from evenjoin.placement.check import check
from evenjoin.runtime.dispatch import Dispatcher, stated
from evenjoin.sim.stream import Arrivals, Slice
from evenjoin.spec import JoinSpec
from evenjoin.state.segment import cut
from evenjoin.state.tuples import CODE, TIME, tuple_schemas
from evenjoin.strategies.bistream import Random


class Workload(Protocol):
    """What is needed of a workload (bench/join_workload.py has such values)."""

    @property
    def batches(self) -> int: ...

    def spec(self) -> JoinSpec: ...


@dataclass(frozen=True, slots=True)
class Recorded:
    """A join and the arrivals of its batches."""

    spec: JoinSpec
    kept: tuple[Arrivals, ...]

    @property
    def batches(self) -> int:
        return len(self.kept)

    def codes(self) -> I64:
        return np.unique(np.concatenate([one.codes for batch in self.kept for side in batch for one in side]))

    def arrivals(self, batch: int) -> Arrivals:
        return self.kept[batch]


def recorded(spec: JoinSpec, batches: Iterable[Mapping[str, pa.Table]], seed: int = 0) -> Recorded:
    """The source of these batches, each given as rows by alias. `seed` is that of the checkpoint to be repeated; it
    matters where keys are hashed (text, composite keys)."""
    work = _work(spec, seed)
    return Recorded(spec, tuple(_arrivals(work, rows) for rows in batches))


def recorded_workload(workload: Workload, seed: int = 0, batches: int | None = None) -> Recorded:
    """The source of a benchmark's workload, or of its first batches."""
    spec, streams = workload.spec(), workload.streams  # type: ignore[attr-defined]
    sides = [streams.side(number) for number in range(len(spec.sides))]
    aliases = [side.alias for side in spec.sides]
    some = (dict(zip(aliases, tables, strict=True)) for tables in zip(*sides, strict=True))
    return recorded(spec, (rows for _, rows in zip(range(batches or workload.batches), some, strict=False)), seed)


def _work(spec: JoinSpec, seed: int) -> Work:
    """What dispatch must be told: one instance, nobody who samples."""
    table = check(stated(spec, Random().initial(1, len(spec.sides), "shared")))
    program = program_of(spec, table.program)
    schemas = store_schemas(spec, program, tuple_schemas(spec, seed))
    widths = sub_window_widths(spec, program, None)
    return Work(spec, program, schemas, 0, 0, 1, seed, table, {}, {}, widths, 1, 1)


def _arrivals(work: Work, rows: Mapping[str, pa.Table]) -> Arrivals:
    dispatcher, out = Dispatcher(work, None), []
    for side, spec in enumerate(work.spec.sides):
        columns = work.spec.read_columns(side)
        pieces = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for batch in rows[spec.alias].select(columns).combine_chunks().to_batches() if spec.alias in rows else ():
                pieces += [piece for _, piece, _ in dispatcher.dispatch(side, batch).pieces]
        out.append(_slices(pieces, work.sub_windows[side]))
    return tuple(out)


def _slices(pieces: list[pa.RecordBatch], width: int | None) -> tuple[Slice, ...]:
    """The tuples of one side as counts, one slice for each sub-window."""
    if not pieces:
        return ()
    whole = pa.Table.from_batches(pieces)
    codes = np.asarray(whole.column(CODE)).astype(np.int64)
    if TIME not in whole.schema.names:
        return (Slice(*np.unique(codes, return_counts=True)),)
    timed = _Timed(codes, np.asarray(whole.column(TIME)))
    parts: list[_Timed] = [part for _, part in cut(timed, width)]  # type: ignore[arg-type,misc]
    return tuple(
        Slice(*np.unique(part.codes, return_counts=True), int(part.ages.min()), int(part.ages.max())) for part in parts
    )


@dataclass(frozen=True, slots=True)
class _Timed:
    """Codes and times, as much of tuples as `cut` asks for."""

    codes: I64
    ages: I64

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: I64) -> _Timed:
        return _Timed(self.codes[rows], self.ages[rows])
