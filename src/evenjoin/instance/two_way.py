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

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenjoin.instance.emit import results
from evenjoin.instance.late import write_late
from evenjoin.instance.verify import dirty_codes, key_names, key_values, same_keys
from evenjoin.kernels.hashing import I64, bucket_of
from evenjoin.kernels.probe import Probes, Ranges, code_ranges, narrow, pair_chunks
from evenjoin.kernels.sorting import group_starts
from evenjoin.load.receipt import HeavyKey, Intake, Receipt
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
    """Everything the instances of one batch need to know. Travels to the tasks; the same for all of them."""

    spec: JoinSpec
    layouts: tuple[Layout, ...]
    batch: int
    table: RoutingTable
    masks: Mapping[str, RoutingTable]
    runs: Mapping[tuple[int, int], tuple[Run, ...]]
    sub_windows: tuple[int | None, ...]
    merge_budget: int
    pair_limit: int
    step: Callable[[str, int], None] = no_step


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
    stored = [_with_role(tuples, roles, Role.STORE) for tuples, roles in new]
    probing = [_with_role(tuples, roles, Role.PROBE) for tuples, roles in new]
    sealed, merges = _store(work, instance, stored, folder, segments, names)
    work.step("sealed", instance)
    own = {run.file for side in sides for run in work.runs.get((instance, side), ())}
    segments.retain(own, f"-i{instance}-")
    late_files = write_late(folder, arrivals.late, names.batch, f"{instance}-{names.attempt}")
    tally = _Tally(work, stored)
    for side in sides:
        other = 1 - side
        for run, tuples in _opposite(work, instance, side, stored, segments):
            for rows, positions in _matches(work, instance, side, probing[side], run, tuples, tally):
                pairs = {side: (probing[side], rows), other: (tuples, positions)}
                batch, kept = results(work.spec, pairs)
                tally.count(side, kept)
                if batch.num_rows:
                    clock.stop()
                    yield batch
                    clock.start()
    work.step("joined", instance)
    receipt = Receipt(
        work.batch, instance, sealed, merges,
        tuple(map(len, stored)), tuple(map(len, probing)), tally.matches, round(clock.ms(), 3),
        tally.buckets(), tally.heavy(), _total(arrivals.intake, len(work.layouts)), late_files,
    )  # fmt: skip
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


def _opposite(
    work: Work, instance: int, side: int, stored: Sequence[Tuples], segments: Segments
) -> Iterator[tuple[Run | None, Tuples]]:
    """What the new tuples of `side` probe: old runs of the other side, and for side 1 the new run of side 0."""
    other = 1 - side
    for run in work.runs.get((instance, other), ()):
        yield run, segments.read(other, run)
    if side > other and len(stored[other]):
        yield None, stored[other]


def _matches(
    work: Work, instance: int, side: int, probing: Tuples, run: Run | None, stored: Tuples, tally: _Tally
) -> Iterator[tuple[I64, I64]]:
    """Pairs (probing row, stored position) with equal keys, within the time bounds, and alive."""
    if len(probing) == 0 or len(stored) == 0:
        return
    probes = tally.probes(side, probing)
    if run is not None and _out_of_time(run, stored, probes):
        return
    groups, start, stop = code_ranges(stored.codes, probes.codes[probes.starts[:-1]])
    doubtful = np.zeros(len(groups), np.bool_)
    if not stored.layout.codec.exact and len(groups):
        dirty = tally.dirty(1 - side, stored) if run is None else run.dirty
        suspects = np.array([*dirty, *tally.dirty(side, probing)], probes.codes.dtype)
        doubtful = np.isin(probes.codes[probes.starts[groups]], suspects)
        mine = key_values(work.spec, side, probing, probes.starts[groups])
        theirs = key_values(work.spec, 1 - side, stored, start)
        keep = doubtful | same_keys(work.spec, mine, theirs)
        groups, start, stop, doubtful = groups[keep], start[keep], stop[keep], doubtful[keep]
    span = (run.low, run.high) if run is not None else None
    for part, doubt in ((~doubtful, False), (doubtful, True)):
        if not part.any():
            continue
        found = narrow(stored.times, probes, groups[part], start[part], stop[part], span)
        yield from _pairs(work, instance, side, probing, run, stored, found, doubt)


def _pairs(
    work: Work, instance: int, side: int, probing: Tuples, run: Run | None, stored: Tuples, found: Ranges, doubt: bool
) -> Iterator[tuple[I64, I64]]:
    for rows, positions in pair_chunks(found, work.pair_limit):
        if run is not None and run.mask is not None:
            keep = stored_here(work.masks[run.mask], 1 - side, stored.codes[positions], stored.u[positions], instance)
            rows, positions = rows[keep], positions[keep]
        if doubt:
            keep = same_keys(
                work.spec,
                key_values(work.spec, side, probing, rows),
                key_values(work.spec, 1 - side, stored, positions),
            )
            rows, positions = rows[keep], positions[keep]
        if len(rows):
            yield rows, positions


def _out_of_time(run: Run, stored: Tuples, probes: Probes) -> bool:
    """No probe's time bounds reach this run."""
    if stored.times is None:
        return False
    too_old = probes.low is not None and run.high < int(probes.low.min())
    too_new = probes.high is not None and run.low > int(probes.high.max())
    return too_old or too_new


def _total(intakes: Sequence[tuple[Intake, ...]], sides: int) -> tuple[Intake, ...]:
    return tuple(sum((intake[side] for intake in intakes), Intake()) for side in range(sides))


class _Tally:
    """What the receipt says about keys: arrivals and results per code, and per bucket."""

    def __init__(self, work: Work, stored: Sequence[Tuples]) -> None:
        self._work, self._stored = work, stored
        self._probes: dict[int, Probes] = {}
        self._dirty: dict[int, tuple[int, ...]] = {}
        self._results: dict[int, npt.NDArray[np.int64]] = {}
        self.matches = 0

    def probes(self, side: int, probing: Tuples) -> Probes:
        """The probing tuples of a side, prepared once for all runs: groups by code and time bounds.

        low <= t1 - t0 <= high, so t0 asks for [t0 + low, t0 + high] and t1 for [t1 - high, t1 - low].
        """
        if side not in self._probes:
            low, high = self._work.spec.low, self._work.spec.high
            if side == 1:
                low, high = (None if high is None else -high), (None if low is None else -low)
            times = probing.times
            self._results[side] = np.zeros(len(probing), np.int64)
            self._probes[side] = Probes(
                probing.codes,
                group_starts(probing.codes),
                None if times is None or low is None else times + low,
                None if times is None or high is None else times + high,
            )
        return self._probes[side]

    def dirty(self, side: int, tuples: Tuples) -> tuple[int, ...]:
        if side not in self._dirty:
            self._dirty[side] = dirty_codes(self._work.spec, side, tuples)
        return self._dirty[side]

    def count(self, side: int, rows: npt.NDArray[np.int64]) -> None:
        """Results by probing row."""
        self.matches += len(rows)
        counts = self._results[side]
        counts += np.bincount(rows, minlength=len(counts))

    def buckets(self) -> tuple[tuple[int, int, int], ...]:
        """Arrivals stored here, per (side, bucket)."""
        out = []
        for side, tuples in enumerate(self._stored):
            counts = np.bincount(bucket_of(tuples.codes, self._work.table.buckets), minlength=1)
            used = np.flatnonzero(counts)
            out += [(side, int(b), int(counts[b])) for b in used]
        return tuple(out)

    def heavy(self) -> tuple[HeavyKey, ...]:
        """The heaviest codes of this batch here, by arrivals and results together."""
        weights: dict[int, list[int]] = {}
        named: dict[int, tuple[int, int]] = {}
        for side, tuples in enumerate(self._stored):
            starts = group_starts(tuples.codes)
            sizes = np.diff(starts)
            top = (
                np.argpartition(sizes, -HEAVY_KEYS)[-HEAVY_KEYS:] if len(sizes) > HEAVY_KEYS else np.arange(len(sizes))
            )
            for g in top:
                code = int(tuples.codes[starts[g]])
                weights.setdefault(code, [0] * len(self._stored))
                named.setdefault(code, (side, int(starts[g])))
        codes = np.array(sorted(weights), np.int64)
        for side, tuples in enumerate(self._stored):
            narrow_codes = codes.astype(tuples.codes.dtype)
            sizes = np.searchsorted(tuples.codes, narrow_codes, "right") - np.searchsorted(tuples.codes, narrow_codes)
            for code, size in zip(codes.tolist(), sizes.tolist(), strict=True):
                weights[code][side] = size
        found = self._results_of(codes)
        heaviest = sorted(weights, key=lambda c: (-sum(weights[c]) - found[c], c))[:HEAVY_KEYS]
        out = []
        for code in heaviest:
            side, row = named[code]
            name = key_names(self._work.spec, side, self._stored[side], np.array([row]))[0]
            out.append(HeavyKey(code, name, tuple(weights[code]), found[code]))
        return tuple(out)

    def _results_of(self, codes: npt.NDArray[np.int64]) -> dict[int, int]:
        found = dict.fromkeys(codes.tolist(), 0)
        for side, probes in self._probes.items():
            wanted = codes.astype(probes.codes.dtype)
            ends = np.concatenate([[0], np.cumsum(self._results[side])])
            counts = ends[np.searchsorted(probes.codes, wanted, "right")] - ends[np.searchsorted(probes.codes, wanted)]
            for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
                found[code] += count
        return found


@dataclass(frozen=True, slots=True)
class _Names:
    """File names of one attempt at one instance's batch."""

    batch: int
    instance: int
    attempt: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    def segment(self, side: int, kind: str) -> str:
        return f"segments/{self.batch}/{side}-{kind}-i{self.instance}-{self.attempt}.arrow"


class _Busy:
    """Time this instance works, without the time its consumer takes."""

    def __init__(self) -> None:
        self._total, self._since = 0.0, time.perf_counter()

    def stop(self) -> None:
        self._total += time.perf_counter() - self._since

    def start(self) -> None:
        self._since = time.perf_counter()

    def ms(self) -> float:
        return (self._total + time.perf_counter() - self._since) * 1000
