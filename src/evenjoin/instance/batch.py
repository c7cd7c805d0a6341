"""One join instance, one batch, on one page.

    arrivals (with roles) -> sort -> follow the program's paths -> results -> seal what is to be kept -> receipt

Guarantees:

* Each result is emitted once. Of its tuples the one that counts as the last to arrive probes, at the instance that
  stores the others. The order rule of program.py decides which one that is.
* A second run on the same input gives the same results. It seals the same content under other file names.
* The receipt is the last thing written. An instance without a receipt counts as not having run.
* Memory holds the batch's arrivals, `pair_limit` pairs a step however hot a key is, and the runs that are merged (at
  most `merge_budget` tuples of a store).

Only the cache of opened segments outlives the batch.
Not here: how pairs are found (follow.py), what a result row looks like (emit.py), and the commit that makes the new
runs state (runtime/advance.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenjoin.instance.emit import result_rows
from evenjoin.instance.follow import Here, Trail, follow
from evenjoin.instance.late import write_late
from evenjoin.instance.tally import Tally, cell_counts, heavy_keys, kept
from evenjoin.instance.verify import dirty_codes
from evenjoin.instance.work import Work
from evenjoin.load.intake import Intake, Note
from evenjoin.load.receipt import Receipt, receipt_name
from evenjoin.load.report import HEAVY_KEYS
from evenjoin.placement.place import place
from evenjoin.placement.topology import Role
from evenjoin.state.files import Folder
from evenjoin.state.manifest import Place
from evenjoin.state.segment import Run, Segments, choose, cut, merged, seal
from evenjoin.state.tuples import ROLE, Tuples

Runs = dict[Place, tuple[Run, ...]]
ANY = (-(2**63), 2**63 - 1)
"""The least and the greatest time of a run that does not tell its times."""
PLACED = 4096
"""Tuples on which the time of placing is measured."""


@dataclass(slots=True)
class Arrivals:
    """What reached an instance in one batch: tuples and late rows by side, and the notes of dispatch tasks.

    `got` is the sum of the lines of all that came. `said` is the sum of what the notes say was sent. Over all instances
    the two must add up to the same (load/receipt.py).
    """

    tuples: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    late: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    got: int = 0
    said: int = 0

    def take_note(self, note: Note) -> None:
        """Read the note of a dispatch task. It has a line of its own, which no sum of lines includes."""
        self.notes.append(note)
        self.got = (self.got + note.line) % 2**64
        self.said = (self.said + note.line + note.sent) % 2**64

    def take(self, kind: Literal["tuples", "late"], side: int, rows: Iterable[pa.RecordBatch], lines: int) -> None:
        """Take in rows of a side, and the sum of their lines."""
        (self.tuples if kind == "tuples" else self.late).setdefault(side, []).extend(rows)
        self.got = (self.got + lines) % 2**64


def join_batch(
    work: Work, instance: int, arrivals: Arrivals, folder: Folder, segments: Segments, attempt: str
) -> Iterator[pa.RecordBatch]:
    """The results of one instance for one batch. The receipt is written after the caller has taken the last result.

    `attempt` names this one execution of the instance. With the numbers of the start and the try it is part of the name
    of every file that is written, so that no execution ever overwrites the files of another.
    """
    busy, step = _Busy(), work.step or _no_step
    here = _arrived(work, instance, arrivals, segments)
    receive_ms = busy.ms()
    place_us = _place_us(here) if work.tracked else 0.0
    trails = [Trail.of(here, path) for path in work.program.paths]
    for path, trail in zip(work.program.paths, trails, strict=True):
        for found in follow(here, path, trail):
            batch = result_rows(work.spec, found)
            busy.stop()
            yield batch
            busy.start()
    step("joined", instance)
    come, gone = _keep(here, folder, attempt)
    step("sealed", instance)
    sides = range(len(work.spec.sides))
    tally = Tally(work.spec, work.table, here.stored, here.probing, trails, kept(here) if work.tracked else None)
    receipt = Receipt(
        work.batch,
        instance,
        come,
        gone,
        stored=tuple(len(here.stored[side]) for side in sides),
        probes=tuple(len(here.probing[side]) for side in sides),
        results=tuple(sum(trail.results for trail in trails if trail.found_in == side) for side in sides),
        busy_ms=round(busy.ms(), 3),
        receive_ms=round(receive_ms, 3),
        cells=cell_counts(tally),
        heavy=heavy_keys(tally, work.tracked or HEAVY_KEYS, "redacted" if work.redact else "named"),
        intake=tuple(sum((note.intake[side] for note in arrivals.notes), Intake()) for side in sides),
        late_files=write_late(folder, arrivals.late, work.batch, f"{instance}-{work.mark}-{attempt}")
        if arrivals.late
        else (),
        place_us=place_us,
    )
    name = receipt_name(work.start, work.trial, instance, arrivals.got, arrivals.said, attempt)
    folder.write(f"receipts/{work.batch}/{name}", receipt.to_bytes())
    step("receipt", instance)


def _no_step(name: str, instance: int) -> None:
    """Does nothing. Tests pass a function of their own instead, which crashes at a chosen step."""


def _arrived(work: Work, instance: int, arrivals: Arrivals, segments: Segments) -> Here:
    """The arrivals of each side in run order: those to store, and those that probe."""
    stored, probing = [], []
    for side, schema in enumerate(work.schemas):
        new = Tuples.joined(schema, arrivals.tuples.get(side, ()), schema.wire)
        roles = np.asarray(new.batch.column(ROLE))
        new = Tuples.of(schema, new.batch.select(schema.run.names))
        stored.append(_with_role(new, roles, Role.STORE))
        probing.append(_with_role(new, roles, Role.PROBE))
    return Here(work, instance, segments, stored, probing)


def _place_us(here: Here) -> float:
    """Microseconds that it takes to place one tuple, measured on some of this batch's. Planners weigh it against the
    cost of moving tuples; dispatch cannot tell it, because what dispatch sends must not hold a clock."""
    side, tuples = max(enumerate(here.probing), key=lambda one: len(one[1]))
    at = tuples.at.take(slice(PLACED))
    began = time.perf_counter()
    place(here.work.table, side, at)
    return round((time.perf_counter() - began) * 1e6 / max(len(at.codes), 1), 4)


def _with_role(tuples: Tuples, roles: npt.NDArray[np.uint8], role: Role) -> Tuples:
    has = (roles & int(role)) != 0
    return tuples if has.all() else tuples.take(np.flatnonzero(has))


def _keep(here: Here, folder: Folder, attempt: str) -> tuple[Runs, Runs]:
    """Seal the new tuples, and merge the old runs that are due. Returns by place the runs sealed (new and merged ones),
    and the old runs that went into a merged one."""
    work = here.work
    sealed_runs: Runs = {}
    gone: Runs = {}
    named = {run.file for store in range(len(here.stored)) for run in work.runs.get((here.instance, store), ())}
    here.segments.retain(named, f"-i{here.instance}-", work.batch)
    for store, tuples in enumerate(here.stored):
        place = here.instance, store
        name = f"segments/{work.batch}/{store}-{{}}-i{here.instance}-{work.mark}-{attempt}.arrow"
        due = choose(work.runs.get(place, ()), work.merge_budget)
        new = sealed(work, store, cut(tuples, work.sub_windows[store]), folder, name.format("new"))
        if due:
            read = [(run, here.segments.read(store, run)) for run in due]
            whole = merged(work.schemas[store], [(t, work.alive(here.instance, store, run, t)) for run, t in read])
            new += sealed(work, store, [(due[0].sub_window, whole)], folder, name.format("merged"))
            gone[place] = due
        if new:
            sealed_runs[place] = new
    return sealed_runs, gone


def sealed(
    work: Work, store: int, pieces: Sequence[tuple[int, Tuples]], folder: Folder, name: str
) -> tuple[Run, ...]:  # fmt: skip
    """Write a new segment and return its runs, one per piece. A piece is (sub-window, sorted tuples of the store).

    Empty pieces are left out; without any tuple no file is written. Where codes are hashes, a run records its dirty
    codes, the codes that more than one of its keys share (verify.py). Where keys are redacted, and runs are not sorted
    by event time but by a value of the condition, a run does not tell between which values it lies.
    """
    (side,) = work.program.stores[store].covers
    exact = work.schemas[store].codec.exact
    some = [(sub, t, () if exact else dirty_codes(work.spec, side, t)) for sub, t in pieces if len(t)]
    runs = seal(folder, name, some) if some else ()
    hidden = work.redact and work.spec.sides[side].event_time is None
    return tuple(replace(run, low=ANY[0], high=ANY[1]) for run in runs) if hidden else runs


class _Busy:
    """The processor time of this process while the instance works. The consumer's time between two results is left out,
    and so is the time in which other processes have the processor."""

    def __init__(self) -> None:
        self._total, self._since = 0.0, time.process_time()

    def stop(self) -> None:
        self._total += time.process_time() - self._since

    def start(self) -> None:
        self._since = time.process_time()

    def ms(self) -> float:
        return (self._total + time.process_time() - self._since) * 1000
