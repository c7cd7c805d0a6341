"""A two-way join instance for one batch.

    arrivals (with roles) -> sort -> seal what is to be stored -> probe -> results -> receipt

Order (invariant 2): within a batch side 0 counts as earlier than side 1. So new tuples of side 0 probe only old runs
of side 1; new tuples of side 1 probe old runs of side 0 and this batch's new run of side 0. Each pair is emitted once,
by the instance that stored the earlier tuple, when the later one probes it.

Nothing here is kept between batches but the cache of opened segments; run twice on the same input it gives the
same results and seals the same content under other names. Memory: the batch's arrivals plus `pair_limit` pairs,
however hot a key is.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenjoin.instance.emit import Emitter
from evenjoin.instance.late import write_late
from evenjoin.instance.pairs import matching, passing
from evenjoin.instance.probing import Probing
from evenjoin.instance.tally import Kept, Tally, cell_counts, count_cells, heavy_keys
from evenjoin.instance.verify import dirty_codes
from evenjoin.kernels.hashing import I64
from evenjoin.kernels.probe import gathered
from evenjoin.load.receipt import Intake, Receipt
from evenjoin.load.report import HEAVY_KEYS
from evenjoin.placement.place import stored_here
from evenjoin.placement.table import RoutingTable
from evenjoin.placement.topology import Role
from evenjoin.spec import JoinSpec
from evenjoin.state.compaction import choose, merged
from evenjoin.state.files import Folder
from evenjoin.state.layout import ROLE, Layout, Tuples
from evenjoin.state.segment import Run, Segments, cut, seal, sorted_tuples


def no_step(name: str, instance: int) -> None:
    """Called at each step of an instance; tests put crashes here."""


@dataclass(frozen=True, slots=True)
class Work:
    """Everything the instances of one batch need to know. Travels to the tasks; the same for all of them.
    `tracked`: how many heavy keys the planner wants of each instance, with what is stored of them; 0 is no planner."""

    spec: JoinSpec
    layouts: tuple[Layout, ...]
    batch: int
    table: RoutingTable
    masks: Mapping[str, RoutingTable]
    runs: Mapping[tuple[int, int], tuple[Run, ...]]
    sub_windows: tuple[int | None, ...]
    merge_budget: int
    pair_limit: int
    tracked: int = 0
    redact: bool = False
    step: Callable[[str, int], None] = no_step

    @property
    def sampling(self) -> Literal["none", "codes"]:
        """Whether dispatch samples codes for the planner."""
        return "codes" if self.tracked else "none"


@dataclass(slots=True)
class Arrivals:
    """What reached an instance in one batch: tuples per side, intake of the dispatch tasks, late rows per side."""

    tuples: tuple[list[pa.RecordBatch], ...]
    late: tuple[list[pa.RecordBatch], ...]
    intake: list[tuple[Intake, ...]]

    @classmethod
    def empty(cls, sides: int) -> Arrivals:
        return cls(tuple([] for _ in range(sides)), tuple([] for _ in range(sides)), [])


def join_batch(
    work: Work, instance: int, arrivals: Arrivals, folder: Folder, segments: Segments
) -> Iterator[pa.RecordBatch]:
    """Results of one instance for one batch; its receipt is written after the last one was taken."""
    clock = _Busy()
    names = _Names(work.batch, instance)
    sides = range(len(work.layouts))
    new = [_arrived(work, side, arrivals.tuples[side]) for side in sides]
    receive_ms = clock.ms()
    stored = [_with_role(tuples, roles, Role.STORE) for tuples, roles in new]
    probing = [Probing(work.spec, side, _with_role(*new[side], Role.PROBE)) for side in sides]
    sealed, merges = _store(work, instance, stored, folder, segments, names)
    work.step("sealed", instance)
    own = {run.file for side in sides for run in work.runs.get((instance, side), ())}
    segments.retain(own, f"-i{instance}-")
    late_files = write_late(folder, arrivals.late, names.batch, f"{instance}-{names.attempt}")
    emitter = Emitter(work.spec)
    for side, mine in enumerate(probing):
        for run, tuples in _opposite(work, instance, mine, stored, segments):
            matches = matching(work, instance, mine, run, tuples)
            for rows, positions in gathered(passing(emitter, mine, tuples, matches), work.pair_limit):
                batch = emitter.rows({side: (mine.tuples, rows), 1 - side: (tuples, positions)})
                mine.results += len(rows)
                clock.stop()
                yield batch
                clock.start()
    work.step("joined", instance)
    runs = [_kept(work, instance, side, segments) for side in sides] if work.tracked else None
    tally = Tally(work.spec, work.table, stored, probing, runs)
    receipt = Receipt(
        work.batch,
        instance,
        sealed,
        merges,
        stored=tuple(map(len, stored)),
        probes=tuple(len(mine.tuples) for mine in probing),
        results=tuple(probing[1 - side].results for side in sides),
        busy_ms=round(clock.ms(), 3),
        receive_ms=round(receive_ms, 3),
        cells=cell_counts(tally),
        heavy=heavy_keys(tally, work.tracked or HEAVY_KEYS, "redacted" if work.redact else "named"),
        intake=_total(arrivals.intake, len(work.layouts)),
        late_files=late_files,
    )
    folder.write(f"receipts/{work.batch}/{instance}-{names.attempt}.json", receipt.to_bytes())
    work.step("receipt", instance)


def _arrived(work: Work, side: int, batches: Sequence[pa.RecordBatch]) -> tuple[Tuples, npt.NDArray[np.uint8]]:
    """All arrivals of a side in run order, with their roles."""
    layout = work.layouts[side]
    table = pa.Table.from_batches(batches, layout.wire).combine_chunks()
    pieces = table.to_batches()
    batch = pieces[0] if pieces else pa.RecordBatch.from_pylist([], layout.wire)
    tuples = sorted_tuples(Tuples.of(layout, batch))
    roles = np.asarray(tuples.batch.column(ROLE))
    columns = tuples.batch.select(layout.schema.names)
    return Tuples.of(layout, columns), roles


def _with_role(tuples: Tuples, roles: npt.NDArray[np.uint8], role: Role) -> Tuples:
    has = (roles & int(role)) != 0
    return tuples if has.all() else tuples.take(np.flatnonzero(has))


def _store(
    work: Work, instance: int, stored: Sequence[Tuples], folder: Folder, segments: Segments, names: _Names
) -> tuple[tuple[tuple[Run, ...], ...], tuple[tuple[Run, ...], ...]]:
    """Seal the new tuples and merge old runs that are due. Returns (sealed, merged away) per side."""
    sealed, gone = [], []
    for side, tuples in enumerate(stored):
        runs = _seal_new(work, side, tuples, folder, names)
        due = choose(work.runs.get((instance, side), ()), work.merge_budget)
        if due:
            old = [
                (segments.read(side, run), alive(work, instance, side, run, segments.read(side, run))) for run in due
            ]
            big = merged(work.layouts[side], old)
            if len(big):
                piece = (due[0].sub_window, big, dirty_codes(work.spec, side, big))
                runs += seal(folder, names.segment(side, "merged"), [piece])
        sealed.append(runs)
        gone.append(due)
    return tuple(sealed), tuple(gone)


def _seal_new(work: Work, side: int, tuples: Tuples, folder: Folder, names: _Names) -> tuple[Run, ...]:
    if len(tuples) == 0:
        return ()
    pieces = cut(tuples, work.sub_windows[side])
    return seal(folder, names.segment(side, "new"), [(sub, t, dirty_codes(work.spec, side, t)) for sub, t in pieces])


def alive(work: Work, instance: int, side: int, run: Run, tuples: Tuples) -> npt.NDArray[np.bool_] | None:
    """Which tuples of a run are alive: None for all, else those its mask's table stores here."""
    if run.mask is None:
        return None
    return stored_here(work.masks[run.mask], side, tuples.codes, tuples.u, instance)


def _kept(work: Work, instance: int, side: int, segments: Segments) -> list[Kept]:
    """The old runs of a side, for counting what is stored."""
    out = []
    for run in work.runs.get((instance, side), ()):
        tuples = segments.read(side, run)
        living = segments.known(run, "alive", "", partial(alive, work, instance, side, run, tuples))
        cells = segments.known(run, "cells", work.table.digest, partial(_count_alive, work.table, tuples, living))
        out.append(Kept(tuples, living, cells))
    return out


def _count_alive(table: RoutingTable, tuples: Tuples, living: npt.NDArray[np.bool_] | None) -> I64:
    return count_cells(table, tuples.codes if living is None else tuples.codes[living])


def _opposite(
    work: Work, instance: int, mine: Probing, stored: Sequence[Tuples], segments: Segments
) -> Iterator[tuple[Run | None, Tuples]]:
    """What new tuples probe: old runs of the other side within their time; and for side 1 the new run of side 0."""
    other = 1 - mine.side
    for run in work.runs.get((instance, other), ()):
        if not mine.misses(run):
            yield run, segments.read(other, run)
    if mine.side > other and len(stored[other]) and len(mine.tuples):
        yield None, stored[other]


def _total(intakes: Sequence[tuple[Intake, ...]], sides: int) -> tuple[Intake, ...]:
    return tuple(sum((intake[side] for intake in intakes), Intake()) for side in range(sides))


@dataclass(frozen=True, slots=True)
class _Names:
    """File names of one attempt at one instance's batch."""

    batch: int
    instance: int
    attempt: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    def segment(self, side: int, kind: str) -> str:
        return f"segments/{self.batch}/{side}-{kind}-i{self.instance}-{self.attempt}.arrow"


class _Busy:
    """Processor time this instance takes, without that of its consumer; other processes' time does not count."""

    def __init__(self) -> None:
        self._total, self._since = 0.0, time.process_time()

    def stop(self) -> None:
        self._total += time.process_time() - self._since

    def start(self) -> None:
        self._since = time.process_time()

    def ms(self) -> float:
        return (self._total + time.process_time() - self._since) * 1000
