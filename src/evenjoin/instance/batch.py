"""One join instance, one batch, on one page.

    arrivals (with roles) -> sort -> follow the program's paths -> results -> seal what is to be kept -> receipt

A program with several hops runs an instance once at each of them. What it sends on (deliver.py) arrives at the next.

Guarantees:

* Each result is emitted once. Of its tuples the one that counts as the last to arrive probes, at the instance that
  stores the others. The order rule of program.py decides which one that is.
* A second run on the same input gives the same results. It seals the same content under other file names.
* The receipt is the last thing written. An instance without a receipt counts as not having run. Where results are
  written as files (results.py), these are closed before it.
* Memory holds the batch's arrivals, `pair_limit` pairs a step however hot a key is, and the runs that are merged (at
  most `merge_budget` tuples of a store).

Only the cache of opened segments outlives the batch.
Not here: how pairs are found (follow.py), what a result row looks like (emit.py), and the commit that makes the new
runs state (runtime/advance.py).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenjoin.instance.deliver import Sent, pack_up
from evenjoin.instance.emit import result_rows
from evenjoin.instance.follow import Here, Trail, follow
from evenjoin.instance.late import write_late
from evenjoin.instance.program import Path
from evenjoin.instance.results import ResultsWriter
from evenjoin.instance.tally import Tally, aging, cell_askers, cell_counts, heavy_keys, newly_kept, still_kept
from evenjoin.instance.verify import dirty_codes
from evenjoin.instance.work import Work
from evenjoin.load.intake import Intake, Note
from evenjoin.load.receipt import Receipt, receipt_name
from evenjoin.load.report import HEAVY_KEYS
from evenjoin.placement.place import place
from evenjoin.placement.topology import Role
from evenjoin.state.files import Folder
from evenjoin.state.manifest import Place
from evenjoin.state.packs import Packs, PackSchema, Rows
from evenjoin.state.segment import Run, Segments, choose, cut, merged, seal
from evenjoin.state.tuples import ROLE, InOrder, Tuples

Runs = dict[Place, tuple[Run, ...]]
Pieces = dict[int, list[tuple[Run, Rows]]]
ANY = (-(2**63), 2**63 - 1)
"""The least and the greatest time of a run that does not tell its times."""
PLACED = 4096
"""Tuples on which the time of placing is measured."""


@dataclass(slots=True)
class Arrivals:
    """What reached an instance in one batch: tuples and late rows by side, and the notes of dispatch tasks.

    `got` is the sum of the lines of all that came. `said` is the sum of what the notes say was sent. Over all instances
    the two must add up to the same (load/receipt.py). `passed` is the sum of the lines of rows that go on to the next
    hop as they are, because their side enters there.
    """

    tuples: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    late: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    got: int = 0
    said: int = 0
    passed: int = 0

    def take_note(self, note: Note) -> None:
        """Read the note of a dispatch task. It has a line of its own, which no sum of lines includes."""
        self.notes.append(note)
        self.got = (self.got + note.line) % 2**64
        self.said = (self.said + note.line + note.sent) % 2**64

    def take(self, kind: Literal["tuples", "late"], side: int, rows: Iterable[pa.RecordBatch], lines: int) -> None:
        """Take in rows of a side, and the sum of their lines."""
        (self.tuples if kind == "tuples" else self.late).setdefault(side, []).extend(rows)
        self.got = (self.got + lines) % 2**64

    def pass_on(self, lines: int) -> None:
        """Rows with this sum of lines came and go on to the next hop."""
        self.got = (self.got + lines) % 2**64
        self.passed = (self.passed + lines) % 2**64


def join_batch(
    work: Work, instance: int, arrivals: Arrivals, folder: Folder, segments: Segments, attempt: str, hop: int = 0
) -> Iterator[pa.RecordBatch | Sent | Note]:
    """The results of one instance for one batch, at one hop. If another hop follows, also what is sent there and, as
    the last item, the note that says how much it was. The receipt is written after the caller has taken the last item.
    If the work says where results are written, they go into files there and are not yielded; the receipt names them.

    `attempt` names this one execution of the instance. With the numbers of the start and the try it is part of the name
    of every file that is written, so that no execution ever overwrites the files of another.
    """
    busy, step, began, since = _Busy(), work.step or _no_step, time.time(), time.perf_counter()
    here = _arrived(work, instance, arrivals, segments, hop)
    receive_ms = busy.ms()
    place_us = _place_us(here) if work.tracked else 0.0
    paths = work.program.hops[hop].paths
    trails = [Trail.of(here, path) for path in paths]
    writer = _opened(work, instance, attempt)
    for path, trail in zip(paths, trails, strict=True):
        for item in _followed(here, path, trail, folder, attempt):
            if writer is not None and isinstance(item, pa.RecordBatch):
                writer.write(item)
                continue
            busy.stop()
            yield item
            busy.start()
    step("joined" if hop == 0 else f"joined at hop {hop}", instance)
    files = () if writer is None else writer.close()
    come, gone, pieces = _keep(here, folder, attempt)
    step("sealed" if hop == 0 else f"sealed at hop {hop}", instance)
    sent = (here.counts.lines + arrivals.passed) % 2**64
    if hop + 1 < len(work.program.hops):
        yield Note((), sent)
    sides = range(len(work.spec.sides))
    most = work.tracked or HEAVY_KEYS
    old = still_kept(here, come, gone, most) if work.tracked else None
    probing = [_tuples(here.probing[side]) for side in sides]
    tally = Tally(work.spec, work.table, probing, trails, newly_kept(here, pieces, most), old)
    heavy, asked = heavy_keys(tally, most, "redacted" if work.redact else "named", work.watched.get(instance, ()))
    receipt = Receipt(
        work.batch,
        instance,
        come,
        gone,
        stored=tuple(sum(len(run.tuples) for run in tally.new[side]) for side in sides),
        probes=tuple(map(len, probing)),
        results=_results(work, paths, trails),
        busy_ms=round(busy.ms(), 3),
        receive_ms=round(receive_ms, 3),
        cells=cell_counts(tally),
        askers=cell_askers(tally),
        heavy=heavy,
        asked=asked,
        aging=aging(tally),
        intake=tuple(sum((note.intake[side] for note in arrivals.notes if note.intake), Intake()) for side in sides),
        late_files=write_late(folder, arrivals.late, work.batch, f"{instance}-{work.mark}-{attempt}")
        if arrivals.late
        else (),
        place_us=place_us,
        hop=hop,
        began=began,
        messages=tuple(sum(rows.num_rows for rows in arrivals.tuples.get(side, ())) for side in sides),
        sent_bytes=tuple(sum(rows.nbytes for rows in arrivals.tuples.get(side, ())) for side in sides),
        packs=tuple((store, *here.counts.packs.get(store, (0, 0)), *here.counts.messages.get(store, (0, 0)))
                    for store in sorted({*here.counts.packs, *here.counts.messages})),
        hubs=sum(int(trail.pairs.sum()) for path, trail in zip(paths, trails, strict=True) if _by_hub(work, path)),
        members=sum(trail.members for trail in trails),
        elapsed_ms=round((time.perf_counter() - since) * 1000, 3),
        files=files,
    )  # fmt: skip
    name = receipt_name(work.start, work.trial, hop, instance, (arrivals.got, arrivals.said, sent), attempt)
    folder.write(f"receipts/{work.batch}/{name}", receipt.to_bytes())
    step("receipt" if hop == 0 else f"receipt at hop {hop}", instance)


def new_attempt() -> str:
    """A new name for one execution of an instance, unlike that of any other in whatever process. It is part of the
    names of the files that the execution writes."""
    return uuid.uuid4().hex[:12]


def _opened(work: Work, instance: int, attempt: str) -> ResultsWriter | None:
    """The writer of this execution's results; None if whoever runs it takes them."""
    if work.results is None:
        return None
    step = None if work.step is None else partial(_at_instance, work.step, instance)
    return work.results.open(f"part-{instance}-{work.mark}-{attempt}", step)


def _at_instance(step: Callable[[str, int], None], instance: int, name: str) -> None:
    step(name, instance)


def _followed(
    here: Here, path: Path, trail: Trail, folder: Folder, attempt: str
) -> Iterator[pa.RecordBatch | Sent]:  # fmt: skip
    """What a path gives: results, or packs to be sent."""
    if path.into is None and path.send is None:
        yield from (result_rows(here.work.spec, found) for found in follow(here, path, trail))
        return
    work = here.work

    def seal_early(store: int, packs: Packs) -> tuple[Run, ...]:
        part = len(here.sealed.get(store, ()))
        name = f"segments/{work.batch}/{store}-new{part}-i{here.instance}-{work.mark}-{attempt}.arrow"
        return sealed(work, store, cut(packs, work.sub_windows[store]), folder, name)

    yield from pack_up(here, path, trail, seal_early)


def _tuples(rows: Rows) -> Tuples:
    assert isinstance(rows, Tuples)
    return rows


def _results(work: Work, paths: Sequence[Path], trails: Sequence[Trail]) -> tuple[int, ...]:
    """Per side, the results that were found in its store. Pairs that became packs are none."""
    emitted = [trail for path, trail in zip(paths, trails, strict=True) if path.into is None and path.send is None]
    sides = range(len(work.spec.sides))
    return tuple(sum(trail.results for trail in emitted if trail.found_in == side) for side in sides)


def _by_hub(work: Work, path: Path) -> bool:
    """Whether the last step of a path compares the hubs of packs."""
    stores = work.program.stores
    return stores[path.source].packs or stores[path.steps[-1].store].packs


def _no_step(name: str, instance: int) -> None:
    """Does nothing. Tests pass a function of their own instead, which crashes at a chosen step."""


def _arrived(work: Work, instance: int, arrivals: Arrivals, segments: Segments, hop: int) -> Here:
    """The arrivals of each store in run order: those to store, and those that probe. At a hop where a side does not
    enter it has none."""
    new: dict[int, list[Rows]] = {}
    probing: dict[int, Rows] = {}
    entering = work.program.hops[hop].entering
    for store in sorted({*range(len(work.spec.sides)), *entering}):
        schema = work.schemas[store]
        rows = schema.joined(arrivals.tuples.get(store, ()) if store in entering else (), schema.wire)
        roles = np.asarray(rows.batch.column(ROLE))
        rows = rows.of(schema, rows.batch.select(schema.run.names))
        probing[store] = _with_role(rows, roles, Role.PROBE)
        if not work.program.stores[store].packs or work.program.stores[store].hop == hop:
            new[store] = [_with_role(rows, roles, Role.STORE)]
    return Here(work, instance, segments, probing, new, hop=hop)


def _place_us(here: Here) -> float:
    """Microseconds that it takes to place one tuple, measured on some of this batch's. Planners weigh it against the
    cost of moving tuples; dispatch cannot tell it, because what dispatch sends must not hold a clock."""
    sides = range(len(here.work.spec.sides))
    side = max(sides, key=lambda side: len(here.probing[side]))
    at = here.probing[side].at.take(slice(PLACED))
    began = time.perf_counter()
    place(here.work.table, side, at)
    return round((time.perf_counter() - began) * 1e6 / max(len(at.codes), 1), 4)


def _with_role(tuples: Rows, roles: npt.NDArray[np.uint8], role: Role) -> Rows:
    has = (roles & int(role)) != 0
    return tuples if has.all() else tuples.take(np.flatnonzero(has))


def _keep(here: Here, folder: Folder, attempt: str) -> tuple[Runs, Runs, Pieces]:
    """Seal the new rows, and merge the old runs that are due, of the stores that this hop writes. Returns by place the
    runs sealed (new ones, and the merged one as the last), and the old runs that went into a merged one; and by store
    the new runs with their rows."""
    work = here.work
    sealed_runs: Runs = {}
    gone: Runs = {}
    fresh: Pieces = {}
    stores = range(len(work.program.stores))
    named = {run.file for store in stores for run in work.runs.get((here.instance, store), ())}
    here.segments.retain(named, f"-i{here.instance}-", work.batch)
    for store in stores:
        if work.program.stores[store].hop != here.hop:
            continue
        place = here.instance, store
        name = f"segments/{work.batch}/{store}-{{}}-i{here.instance}-{work.mark}-{attempt}.arrow"
        due = choose(work.runs.get(place, ()), work.merge_budget)
        pieces = [piece for rows in here.new.get(store, ()) for piece in cut(rows, work.sub_windows[store])]
        runs = sealed(work, store, pieces, folder, name.format("new"))
        fresh[store] = list(zip(runs, [rows for _, rows in pieces if len(rows)], strict=True))
        new = (*here.sealed.get(store, ()), *runs)
        if due:
            read = [(run, here.segments.read(work.schemas[store], run)) for run in due]
            whole = merged(work.schemas[store], [(t, work.alive(here.instance, store, run, t)) for run, t in read])
            new += sealed(work, store, [(due[0].sub_window, whole)], folder, name.format("merged"))
            gone[place] = due
        if new:
            sealed_runs[place] = new
    return sealed_runs, gone, fresh


def sealed(
    work: Work, store: int, pieces: Sequence[tuple[int, Rows]], folder: Folder, name: str
) -> tuple[Run, ...]:  # fmt: skip
    """Write a new segment and return its runs, one per piece. A piece is (sub-window, sorted rows of the store).

    Empty pieces are left out; without any tuple no file is written. Where codes are hashes, a run records its dirty
    codes, the codes that more than one of its keys share (verify.py). Where keys are redacted, and runs are not sorted
    by event time but by a value of the condition, a run does not tell between which values it lies.
    """
    side, schema = work.program.stores[store].covers[0], work.schemas[store]
    index = schema.index if isinstance(schema, PackSchema) else 0
    some = [
        (
            sub,
            t,
            () if schema.codec.exact else dirty_codes(work.spec, side, index, t.hubs, InOrder(t.codes, t.times, None)),
        )
        for sub, t in pieces
        if len(t)
    ]
    runs = seal(folder, name, some) if some else ()
    hidden = work.redact and work.spec.sides[side].event_time is None
    return tuple(replace(run, low=ANY[0], high=ANY[1]) for run in runs) if hidden else runs


class _Busy:
    """The processor time of this thread while the instance works. The consumer's time between two results is left out,
    and so is the time in which other threads and processes have the processor."""

    def __init__(self) -> None:
        self._total, self._since = 0.0, time.thread_time()

    def stop(self) -> None:
        self._total += time.thread_time() - self._since

    def start(self) -> None:
        self._since = time.thread_time()

    def ms(self) -> float:
        return (self._total + time.thread_time() - self._since) * 1000
