"""Following a path: from the new rows of a store to the combinations that they make, in bounded chunks.

    new rows of the source -- step: probe a store by an edge, check the others --> pairs -- step --> triples -- ...

At each step, for each run of the store that may be seen:

    codes that meet -> real keys, where codes are hashes -> ranges within the time bounds -> pairs
                    -> what can only be seen pair by pair -> the edge's residual predicate

A range (probing row, first stored position, end) stands for all its pairs. So up to the ranges the cost does not grow
with how hot a key is. From there on pairs are made `pair_limit` at a time, at every depth of the path, and memory stays
bounded however large the product is.

A pack (state/packs.py) is probed, or probes, by its hub. Only then are its members made combinations of, one by one,
and checked where they have a condition of their own.

The receipt counts the pairs of each step before its residual and its further edges are checked, because making those
pairs is what takes time. Of packs these are hubs; members that must be compared are counted beside them.

Guarantee: with the order rule of program.py each result comes out exactly once, at the instance where its tuples meet.
Not here: result rows (emit.py), and what an instance does before and after (batch.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenjoin.instance.combinations import checked, holding, put_together
from evenjoin.instance.emit import Found, passing
from evenjoin.instance.program import Path, Step
from evenjoin.instance.verify import dirty_codes, key_checks, key_values, same_keys
from evenjoin.instance.work import Work
from evenjoin.kernels.band import asked_codes
from evenjoin.kernels.hashing import I64, Codes
from evenjoin.kernels.regroup import Picked, regrouped
from evenjoin.kernels.runs import (
    I32,
    Hits,
    Lookup,
    Probes,
    band_ranges,
    expand,
    gathered,
    group_starts,
    in_time,
    narrow,
    pair_chunks,
    run_order,
    shifted,
)
from evenjoin.placement.place import stored_here
from evenjoin.spec import JoinSpec
from evenjoin.spec.graph import View
from evenjoin.state.packs import Packs, Rows
from evenjoin.state.segment import Run, Segments
from evenjoin.state.tuples import InOrder, Tuples

Pairs = tuple[I32, I32]
"""(probing rows, stored positions), arrays of one length."""
Begun = Mapping[int, tuple[Tuples, npt.NDArray[Any] | None]]
"""Combinations of the sides found so far, like `Found`. Rows of None stand for every tuple once, in order."""
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Here:
    """One instance at one hop of a batch: its work, and by store the rows that probe and the new rows to be stored. New
    packs may have been sealed already, because they are many."""

    work: Work
    instance: int
    segments: Segments
    probing: Mapping[int, Rows]
    new: dict[int, list[Rows]]
    sealed: dict[int, tuple[Run, ...]] = field(default_factory=dict)
    counts: Counts = field(default_factory=lambda: Counts())
    hop: int = 0


@dataclass(slots=True)
class Counts:
    """What an instance makes and sends of packs, by store: (packs, pairs) made, (messages, bytes) sent. `lines` is the
    sum of the lines of all that was sent."""

    packs: dict[int, tuple[int, int]] = field(default_factory=dict)
    messages: dict[int, tuple[int, int]] = field(default_factory=dict)
    lines: int = 0

    def made(self, store: int, packs: int, pairs: int) -> None:
        before = self.packs.get(store, (0, 0))
        self.packs[store] = before[0] + packs, before[1] + pairs

    def sent(self, store: int, rows: pa.RecordBatch, lines: int) -> None:
        before = self.messages.get(store, (0, 0))
        self.messages[store] = before[0] + rows.num_rows, before[1] + rows.nbytes
        self.lines = (self.lines + lines) % 2**64


@dataclass(slots=True)
class Trail:
    """What the new rows of a path's source have found so far.

    `results` counts the combinations that passed the whole path. `pairs[k]` counts the pairs of the last step that
    began with tuple (or hub) k, before that step's residual and further edges are checked. Both count as found in the
    store of side `found_in`, which the last step probes (of packs: their hub's). `partial` has for each earlier step
    the side whose store it probes, and the pairs that it found, counted in the same way. `members` counts the members
    of packs that were compared, because they have a condition of their own.

    Where buckets are ordered, the code of a stored tuple need not be that of the tuple that finds it. There `by_code`
    counts the same pairs by the code of the stored tuple, run by run: codes, which ascend, and the pairs of each.
    """

    side: int
    found_in: int
    tuples: Tuples
    pairs: I64
    results: int = 0
    members: int = 0
    partial: tuple[tuple[int, I64], ...] = ()
    by_code: list[tuple[I64, I64]] = field(default_factory=list)

    @property
    def found(self) -> tuple[tuple[int, I64], ...]:
        """The pairs of every step, with the side in whose store they were found. All of them are work: a key that is
        hot on two of three sides makes pairs even if the third side never has it."""
        return (*self.partial, (self.found_in, self.pairs))

    @classmethod
    def of(cls, here: Here, path: Path) -> Trail:
        """The beginning of a path: nothing found yet."""
        stores, mine = here.work.program.stores, here.probing[path.source].hubs
        side, last = stores[path.source].covers[0], stores[path.steps[-1].store].covers[0]
        earlier = [stores[step.store].covers[0] for step in path.steps[:-1]]
        partial = tuple((probed, np.zeros(len(mine), np.int64)) for probed in earlier)
        return cls(side, last, mine, np.zeros(len(mine), np.int64), partial=partial)


def follow(here: Here, path: Path, trail: Trail) -> Iterator[Found]:
    """The full combinations that begin with the new rows of the path's source, in chunks. `trail` counts them."""
    if len(trail.tuples):
        yield from _from_step(here, path, 0, {trail.side: (trail.tuples, None)}, trail)


def _from_step(here: Here, path: Path, depth: int, found: Begun, trail: Trail) -> Iterator[Found]:
    """The full combinations that partial ones become along the rest of the path, from step `depth` on."""
    asking = _Asking(here.work.spec, path.steps[depth].along, *found[path.steps[depth].along.side])
    longer = _one_step(here, path, depth, asking, found, trail)
    if depth + 1 < len(path.steps):
        for partial_ones in put_together(longer, here.work.pair_limit):
            yield from _from_step(here, path, depth + 1, partial_ones, trail)
    else:
        for whole in longer:
            emitted = _emitted(here, path, whole)
            trail.results += len(emitted[trail.side][1])
            yield emitted
    _count(trail.found[depth][1], found[trail.side][1], asking)
    trail.by_code.extend(asking.by_code)


def _one_step(
    here: Here, path: Path, depth: int, asking: _Asking, found: Begun, trail: Trail
) -> Iterator[Found]:  # fmt: skip
    """The combinations that partial ones become in one step, chunk by chunk and run by run."""
    step, source = path.steps[depth], here.probing[path.source] if depth == 0 else None
    for run, stored, lookup in _visible(here, path.source, step.store, asking):
        packs = source if isinstance(source, Packs) else stored
        pairs = _passing(here, step, asking, found, stored, _matching(here, asking, step, run, stored, lookup))
        for rows, positions in gathered(pairs, here.work.pair_limit):
            longer = _extended(found, asking, rows, stored.hubs, positions)
            if isinstance(packs, Tuples):
                yield longer
            else:
                yield from _unpacked(here, step, packs, longer, trail)


def _emitted(here: Here, path: Path, found: Found) -> Found:
    """Of combinations of all sides those that satisfy what the condition says of three sides or more."""
    residual = here.work.spec.residual
    if residual is None or path.into is not None or path.send is not None:
        return found
    keep = passing(here.work.spec, found, residual)
    return {side: (tuples, rows[keep]) for side, (tuples, rows) in found.items()}


def _unpacked(here: Here, step: Step, packs: Packs, found: Found, trail: Trail) -> Iterator[Found]:
    """Combinations with the hub of a pack become combinations with each of its members, if the step's checks hold."""
    hub, member = (here.work.side_of(schema.alias) for schema in (packs.schema.hub, packs.schema.member))
    of_hub = found[hub][1]
    counts = packs.counts[of_hub]
    if step.checks:
        trail.members += int(counts.sum())
    hits = Hits(np.arange(len(of_hub)), packs.offsets[of_hub], packs.offsets[of_hub] + counts)
    for rows, positions in pair_chunks(hits, here.work.pair_limit):
        whole: Found = {side: (tuples, at[rows]) for side, (tuples, at) in found.items()}
        whole[member] = (packs.members, positions)
        whole = checked(here.work.spec, step, whole)
        if len(next(iter(whole.values()))[1]):
            yield whole


def _visible(here: Here, source: int, store: int, asking: _Asking) -> Iterator[tuple[Run | None, Rows, Lookup]]:
    """What new rows of `source` see of a store, as (run, rows, look-up of codes), the last of which is kept with a run.

    They see the old runs that their times can reach. They see this batch's new rows (run None, if they are not sealed
    yet) only if the store comes earlier by the order rule.
    """
    stores, schema = here.work.program.stores, here.work.schemas[store]
    earlier = stores[store].latest < stores[source].latest
    for run in (*here.work.runs.get((here.instance, store), ()), *(here.sealed.get(store, ()) if earlier else ())):
        if not asking.misses(run):
            lookup = here.segments.known(run, f"lookup {asking.view.index[1]}", "", Lookup)
            yield run, here.segments.read(schema, run), lookup
    if earlier:
        yield from ((None, rows, Lookup()) for rows in here.new.get(store, ()) if len(rows))


class _Asking:
    """Tuples of one side that probe along an edge, prepared once for all the runs they meet.

    `rows[c]` is the tuple of partial combination c (None: each tuple once, in order). A *probing row* is a combination
    in the order of its tuple's code, since probes must be sorted. `order[p]` is the combination of probing row p; None:
    they have that order already.
    """

    def __init__(self, spec: JoinSpec, view: View, tuples: Tuples, rows: npt.NDArray[Any] | None) -> None:
        self.view, self.tuples = view, tuples
        self._spec, self._codes = spec, tuples.codes_by[view.index[0]]
        self.order = _in_code_order(self._codes, view.index[0], rows)
        self._rows = self.order if rows is None else rows[self.order]
        self.pairs: I64 = np.zeros(len(tuples) if rows is None else len(rows), np.int64)
        self.by_code: list[tuple[I64, I64]] = []

    def of(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Which tuple each of these probing rows has."""
        return rows if self._rows is None else self._rows[rows]

    @cached_property
    def probes(self) -> Probes:
        codes, times = self._codes, self.tuples.times
        if self._rows is not None:
            codes, times = codes[self._rows], None if times is None else times[self._rows]
        low, high = self.view.low, self.view.high
        return Probes(
            codes,
            group_starts(codes),
            None if times is None or low is None else shifted(times, low),
            None if times is None or high is None else shifted(times, high),
        )

    @cached_property
    def asked(self) -> tuple[I64, I64] | None:
        """The closed range of codes that each group of equal codes asks for. None: it asks for its own code only."""
        band, probes = self.view.band, self.probes
        if band is None:
            return None
        return asked_codes(probes.codes[probes.starts[:-1]], band.kind, band.low, band.high, band.slack)

    @cached_property
    def time_span(self) -> tuple[int | None, int | None]:
        """The least and the greatest time that any of the tuples asks for. None is unbounded."""
        low, high = self.probes.low, self.probes.high
        return None if low is None else int(low.min()), None if high is None else int(high.max())

    @cached_property
    def dirty(self) -> tuple[int, ...]:
        """Codes that more than one key of the probing rows share (verify.py)."""
        ordered = InOrder(self.probes.codes, None, self._rows)
        return dirty_codes(self._spec, self.view.side, self.view.index[0], self.tuples, ordered)

    def misses(self, run: Run) -> bool:
        """Whether the run lies outside the time bounds of all the tuples, so that it need not be read."""
        if self.tuples.times is None:
            return False
        low, high = self.time_span
        return (low is not None and run.high < low) or (high is not None and run.low > high)

    def same_keys(self, rows: npt.NDArray[Any], stored: Tuples, positions: npt.NDArray[Any]) -> Bools:
        """Whether the real keys of each pair are equal."""
        mine = key_values(self._spec, self.view.side, self.view.index[0], self.tuples, self.of(rows))
        theirs = key_values(self._spec, self.view.other, self.view.index[1], stored, positions)
        return same_keys(self._spec.sides[self.view.side].indexes[self.view.index[0]].null_safe, mine, theirs)


def _in_code_order(codes: Codes, index: int, rows: npt.NDArray[Any] | None) -> npt.NDArray[Any] | None:
    """The order in which combinations have ascending codes. New tuples are in the order of index 0 already."""
    if index == 0 and rows is None:
        return None
    return run_order(codes if rows is None else codes[rows], None)


def _matching(
    here: Here, asking: _Asking, step: Step, run: Run | None, stored: Rows, lookup: Lookup
) -> Iterator[Pairs]:  # fmt: skip
    """Pairs with equal keys (or keys within the band), within the time bounds, whose stored tuple is alive.

    A hashed code that is dirty on either side is doubtful: its tuples are matched anew (`_doubtful_pairs`).
    """
    probes, checks = asking.probes, _pair_checks(here, asking, step, run, stored)
    codes, times, at = _ordered(here, asking.view.index[1], run, stored)
    if asking.asked is not None:
        hits = narrow(None, probes, *band_ranges(codes, *asking.asked), None)
        found = _pairs(here, asking, hits, checks, at)
        yield from _counted_by_code(asking, codes, found) if here.work.table.ordered else found
        return
    groups, start, stop = lookup.ranges(codes, probes.codes[probes.starts[:-1]])
    doubtful = np.zeros(len(groups), np.bool_)
    if not stored.hubs.schema.codecs[asking.view.index[1]].exact and len(groups):
        dirty = _dirty_of(here, asking.view, run, stored)
        doubtful = np.isin(probes.codes[probes.starts[groups]], np.array([*dirty, *asking.dirty], probes.codes.dtype))
        keep = doubtful | asking.same_keys(probes.starts[groups], stored.hubs, start if at is None else at[start])
        groups, start, stop, doubtful = groups[keep], start[keep], stop[keep], doubtful[keep]
    span, clean = None if run is None or isinstance(stored, Packs) else (run.low, run.high), ~doubtful
    if clean.any():
        hits = narrow(times, probes, groups[clean], start[clean], stop[clean], span)
        yield from _pairs(here, asking, hits, checks, at)
    if doubtful.any():
        positions = expand(start[doubtful], stop[doubtful] - start[doubtful])
        yield from _doubtful_pairs(
            here, asking, stored.hubs, groups[doubtful], positions if at is None else at[positions], checks
        )


def _counted_by_code(asking: _Asking, codes: Codes, pairs: Iterator[Pairs]) -> Iterator[Pairs]:
    """The same pairs, counted by the code of their stored tuple, of which `codes` has those of all positions."""
    total = np.zeros(len(codes), np.int64)
    for rows, positions in pairs:
        first, last = int(positions.min()), int(positions.max())
        total[first : last + 1] += np.bincount(positions - first, minlength=last + 1 - first)
        yield rows, positions
    found = np.flatnonzero(total)
    if len(found):
        some = codes[found].astype(np.int64)
        start = group_starts(some)[:-1]
        asking.by_code.append((some[start], np.add.reduceat(total[found], start)))


def _ordered(here: Here, index: int, run: Run | None, stored: Rows) -> InOrder:
    """Stored rows in the order of an index. For a further index than the first it is kept with the run."""
    if index == 0 or isinstance(stored, Packs):
        return InOrder(stored.codes, stored.times, None)
    if run is None:
        return stored.by_index(index)
    return here.segments.known(run, f"index {index}", "", partial(stored.by_index, index))


def _dirty_of(here: Here, view: View, run: Run | None, stored: Rows) -> tuple[int, ...]:
    """The dirty codes of stored rows. They are looked for in new rows (run None), and once in each process in a run
    that does not list them: because there are too many, or because they are codes of a further index."""
    index = view.index[1]
    find = partial(dirty_codes, here.work.spec, view.other, index, stored.hubs, _ordered(here, index, run, stored))
    if run is None:
        return find()
    if run.dirty is not None and (index == 0 or isinstance(stored, Packs)):
        return run.dirty
    return here.segments.known(run, f"dirty {index}", "", find)


def _doubtful_pairs(
    here: Here, asking: _Asking, stored: Tuples, groups: I64, positions: npt.NDArray[Any], checks: Sequence[PairCheck]
) -> Iterator[Pairs]:
    """Pairs with equal keys among tuples that have equal codes, where a code is no sign of one key: the groups of equal
    codes that probe, and the stored positions with these codes.

    The tuples are matched by a second hash of their keys, so that keys which share a code cost no more than others. Of
    the pairs that are left the real keys are compared.
    """
    spec, starts, (one, two) = here.work.spec, asking.probes.starts, asking.view.index
    rows = expand(starts[groups], starts[groups + 1] - starts[groups])
    mine = Picked(rows, key_checks(spec, asking.view.side, one, asking.tuples, asking.of(rows)))
    theirs = Picked(positions.astype(np.int64), key_checks(spec, asking.view.other, two, stored, positions))
    hits, inside = regrouped(asking.probes, mine, stored.times, theirs)
    yield from _pairs(here, asking, hits, [*checks, lambda rows, at: asking.same_keys(rows, stored, at)], inside)


PairCheck = Callable[[I32, I32], Bools]
"""Takes pairs (probing rows, stored positions) and says which of them pass."""


def _pair_checks(here: Here, asking: _Asking, step: Step, run: Run | None, stored: Rows) -> list[PairCheck]:
    """The checks that need a pair: times where a probe is a range of codes, and a masked run's tuples that are dead."""
    out: list[PairCheck] = []
    if asking.view.times_are_checks and stored.times is not None:
        times = stored.times
        out.append(lambda rows, at: in_time(times, asking.probes, rows, at))
    if run is not None and run.mask is not None:
        table, group = here.work.masks[run.mask], here.work.program.stores[step.store].group
        where, number = stored.at, run.number_in_mask(here.instance)
        out.append(lambda _, at: stored_here(table, group, where.take(at), number))
    return out


def _pairs(
    here: Here, asking: _Asking, hits: Hits, checks: Sequence[PairCheck], inside: npt.NDArray[Any] | None = None
) -> Iterator[Pairs]:
    """The pairs of the ranges that pass the checks, counted in `asking.pairs`. Without a check a range is counted
    whole, before its pairs are made. The ranges are of stored positions, or of the array `inside` of such."""
    if not checks:
        asking.pairs[hits.rows] += hits.stop - hits.start
    for rows, positions in pair_chunks(hits, here.work.pair_limit):
        if inside is not None:
            positions = inside[positions].astype(np.int32, copy=False)
        for passes in checks:
            keep = passes(rows, positions)
            rows, positions = rows[keep], positions[keep]
        if checks and len(rows):  # rows ascend
            first, last = int(rows[0]), int(rows[-1])
            asking.pairs[first : last + 1] += np.bincount(rows - first, minlength=last + 1 - first)
        if len(rows):
            yield rows, positions


def _passing(
    here: Here, step: Step, asking: _Asking, found: Begun, stored: Rows, pairs: Iterator[Pairs]
) -> Iterator[Pairs]:
    """The pairs for which the edge's residual is true, and every further edge to the sides already found holds. Edges
    to the members of packs come later."""
    spec, residual = here.work.spec, step.along.residual
    checks = [view for view in step.checks if view.side in found and view.other == step.along.other]
    if residual is None and not checks:
        yield from pairs
        return
    for rows, positions in pairs:
        longer = _extended(found, asking, rows, stored.hubs, positions)
        keep = passing(spec, longer, residual) if residual is not None else np.arange(len(rows))
        for check in checks:
            rest = {side: (tuples, at[keep]) for side, (tuples, at) in longer.items()}
            keep = keep[holding(spec, check, rest)]
        if len(keep):
            yield rows[keep], positions[keep]


def _extended(found: Begun, asking: _Asking, rows: I32, stored: Tuples, positions: I32) -> Found:
    """Longer combinations: each pair adds its stored tuple to the combination of its probing row."""
    at = rows if asking.order is None else asking.order[rows]
    longer: Found = {side: (tuples, at if old is None else old[at]) for side, (tuples, old) in found.items()}
    longer[asking.view.other] = (stored, positions)
    return longer


def _count(pairs: I64, rows: npt.NDArray[Any] | None, asking: _Asking) -> None:
    """Add the pairs of a step to the counts of the tuples that their combinations began with."""
    if asking.order is None:
        pairs += asking.pairs
    elif rows is None:
        pairs[asking.order] += asking.pairs
    else:
        np.add.at(pairs, rows[asking.order], asking.pairs)
