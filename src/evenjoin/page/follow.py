"""Following a checkpoint: its commits become moments, a few at a time, and old ones are thinned out.

    age in entries     0 ........ 200 ...... 400 ............ 800 ........................ 1600
    moments kept       every one      every 2nd   every 4th        every 8th  ...

So n batches are 200 + 100 log2(n / 200) moments: 764 of 10,000. Which ones depends on the numbers of the entries alone
(`thinned`), so a page that was opened a moment ago and one that has been open for a year show the same.

`refresh` reads the newest commit first and then as much as its budget allows, the newest first. A page opens with what
the first call has found, and grows to the left with those that follow.

Guarantee: nothing is written and no lock is taken. A commit is read once. A commit that a running query deletes
meanwhile is not part of the history any more; one that is damaged raises a StateCorruptionError. What is told is of one
checkpoint: if another one is at its place, or the newest entry has gone, the follower forgets what it knew and begins
anew. A commit that was taken back (commit/repair.py) does not count.
All migrations that the log still has are followed by their own chain, so thinning loses none of them, up to the newest
MOST_MIGRATIONS.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from evenjoin.commit.history import RecordedJoin, open_checkpoint
from evenjoin.commit.identity import Identity, recorded_identity, recorded_join, recorded_log
from evenjoin.commit.log import Commit, Start
from evenjoin.errors import StateCorruptionError
from evenjoin.events import Migration
from evenjoin.page.moments import Moment, moment_of
from evenjoin.page.recorded import unbounded_sides
from evenjoin.placement.table import RoutingTable
from evenjoin.state.files import Folder

Checkpoint = str | os.PathLike[str] | Folder
"""Where a checkpoint is."""
EVERY = 200
"""So many of the newest entries are all kept."""
MOST_MIGRATIONS = 200
"""So many of the newest migrations are kept."""
BUDGET_S = 0.25
"""How long one refresh goes on reading older commits."""
LONGEST_S = 600.0
"""So long a report reads commits at most."""


@dataclass(frozen=True, slots=True)
class Past:
    """What was read so far: the join, the seed of its hashes, the table to use next, moments and migrations, oldest
    first. `reasons` are by migration what the planner said when it called for it, or nothing; `unbounded` are the sides
    whose state never expires. `whole` says that nothing older is left to read; `uuid` tells the checkpoint from every
    other."""

    join: RecordedJoin
    seed: int
    table: RoutingTable | None = None
    moments: tuple[Moment, ...] = ()
    migrations: tuple[Migration, ...] = ()
    reasons: tuple[str, ...] = ()
    unbounded: tuple[str, ...] = ()
    whole: bool = False
    uuid: str = ""

    @property
    def last(self) -> Moment | None:
        return self.moments[-1] if self.moments else None


@dataclass(frozen=True, slots=True)
class Moved:
    """A migration, what the planner said when it called for it, and the entry of the commit with the one before."""

    migration: Migration
    reason: str
    before: int | None


def thinned(entries: Iterable[int]) -> list[int]:
    """The entries whose moments are kept, newest first: of those with an age of EVERY * 2^k and more every 2^(k+1)th,
    by their numbers."""
    newest_first = sorted(entries, reverse=True)
    newest = newest_first[0] if newest_first else 0
    return [entry for entry in newest_first if entry % (1 << ((newest - entry) // EVERY).bit_length()) == 0]


def read_whole(checkpoint: Checkpoint) -> Past:
    """All that a checkpoint still tells, for a report."""
    return Follower(checkpoint).refresh(LONGEST_S)


def read_newest(checkpoint: Checkpoint, moments: int) -> Past:
    """So many of the newest moments, and all migrations without their reasons: for those who come often."""
    return Follower(checkpoint, most=moments).refresh(LONGEST_S)


class Follower:
    """Reads one checkpoint, given as a path, a URI or a Folder. Safe to be asked by several threads. It keeps `most`
    moments; None: all that are not thinned out."""

    def __init__(
        self, checkpoint: Checkpoint, clock: Callable[[], float] = time.monotonic, most: int | None = None
    ) -> None:
        self._clock, self._most, self._lock = clock, most, threading.Lock()
        folder = open_checkpoint(checkpoint)
        self._begin(folder, recorded_identity(folder))

    def _begin(self, folder: Folder, identity: Identity) -> None:
        """Know nothing but whose checkpoint it is."""
        self._folder, self._identity, self._log = folder, identity, recorded_log(folder)
        self._read_so_far: dict[int, Moment | Start | None] = {}
        self._moved: dict[int, Moved] = {}
        join = RecordedJoin.from_json(recorded_join(folder))
        self.past = Past(join, identity.seed, unbounded=unbounded_sides(join), uuid=identity.uuid)

    def refresh(self, budget_s: float = BUDGET_S) -> Past:
        """Read what is new, and older commits while the budget lasts. Returns the past; the same object if nothing
        changed."""
        with self._lock:
            until, kept = self._clock() + budget_s, thinned(self._entries())
            dropped = set(self._read_so_far) - set(kept)
            for entry in dropped:
                del self._read_so_far[entry]
            missing = [entry for entry in kept if entry not in self._read_so_far]
            read = 0
            for entry in missing:
                if read and self._enough(until):
                    break
                self._read_so_far[entry] = self._read(entry)
                read += 1
            if read or dropped or not self.past.whole:
                all_moved = self._follow_migrations(until)
                self.past = self._folded(whole=read == len(missing) and all_moved)
            return self.past

    def _enough(self, until: float) -> bool:
        """Whether no more moments are to be read now: all that are kept are there; or one is, and time is over."""
        many = len(self._standing)
        return many >= self._most if self._most is not None else many > 0 and self._clock() >= until

    def _entries(self) -> list[int]:
        """The entries that are there. If they are not those of the checkpoint that was followed, everything begins
        anew."""
        identity, there = recorded_identity(self._folder), self._log.entries()
        if identity == self._identity and max(self._read_so_far, default=-1) in (-1, *there):
            return there
        self._begin(self._folder, identity)
        return self._log.entries()

    @property
    def _standing(self) -> list[Moment]:
        """The moments that count, oldest first: no start after them went on from before them."""
        found, last = list[Moment](), max(self._read_so_far, default=-1)
        for entry in sorted(self._read_so_far, reverse=True):
            one = self._read_so_far[entry]
            if isinstance(one, Start):
                last = min(last, -1 if one.last is None else one.last)
            elif one is not None and entry <= last:
                found.append(one)
        return found[::-1]

    def _read(self, entry: int) -> Moment | Start | None:
        """The moment of an entry, or the start that it is; None for one that is gone."""
        try:
            found = self._log.read(entry)
        except StateCorruptionError:
            if entry in self._log.entries():
                raise
            return None
        return moment_of(found, keys=not self.past.join.redact_keys) if isinstance(found, Commit) else found

    def _moment(self, entry: int | None) -> Moment | None:
        """The moment of an entry, read if it was not yet; None for anything else."""
        if entry is None:
            return None
        found = self._read_so_far[entry] if entry in self._read_so_far else self._read(entry)
        return found if isinstance(found, Moment) else None

    def _follow_migrations(self, until: float) -> bool:
        """Follow the chain of migrations from the newest moment. Returns whether the budget lasted to its end."""
        last = self._standing[-1] if self._standing else None
        entry = None if last is None else last.entry if last.migration is not None else last.migrated
        found: dict[int, Moved] = {}
        read = 0
        while entry is not None and len(found) < MOST_MIGRATIONS:
            if entry not in self._moved:
                if read and self._clock() >= until:
                    self._moved = found
                    return False
                read, moment = read + 1, self._moment(entry)
                if moment is None or moment.migration is None:
                    break  # a running query has deleted it
                self._moved[entry] = Moved(moment.migration, self._reason(moment), moment.migrated)
            found[entry] = self._moved[entry]
            entry = found[entry].before
        self._moved = found
        return True

    def _reason(self, moment: Moment) -> str:
        """What the planner said after the batch before, when it called for the migration of this one."""
        called = self._most is None and moment.migration is not None and moment.migration.why == "imbalance"
        before = self._moment(moment.previous) if called else None
        return before.sentence if before is not None else ""

    def _folded(self, whole: bool) -> Past:
        by_batch = {moment.batch: moment for moment in self._standing}  # committed again after it was taken back
        moments = tuple(by_batch[batch] for batch in sorted(by_batch))
        table = self.past.table
        if moments and (table is None or table.name != moments[-1].next_table):
            table = self._log.read_table(moments[-1].next_table)
        moved = [self._moved[entry] for entry in sorted(self._moved)]
        return replace(
            self.past,
            table=table if moments else None,
            moments=moments,
            migrations=tuple(one.migration for one in moved),
            reasons=tuple(one.reason for one in moved),
            whole=whole,
        )
