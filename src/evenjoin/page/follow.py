"""Following a checkpoint: its commits become moments, a few at a time, and old ones are thinned out.

    age in entries     0 ........ 200 ...... 400 ............ 800 ........................ 1600
    moments kept       every one      every 2nd   every 4th        every 8th  ...

So n batches are 200 + 100 log2(n / 200) moments: 764 of 10,000. Which ones depends on the numbers of the entries alone
(`thinned`), so a page that was opened a moment ago and one that has been open for a year show the same.

`refresh` reads the newest commit first and then as much as its budget allows, the newest first. A page opens with what
the first call has found, and grows to the left with those that follow.

Guarantee: nothing is written and no lock is taken. A commit is read once. A commit that a running query deletes
meanwhile is not part of the history any more; one that is damaged raises a StateCorruptionError.
All migrations that the log still has are followed by their own chain, so thinning loses none of them, up to the newest
MOST_MIGRATIONS.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from evenjoin.commit.history import RecordedJoin, open_checkpoint
from evenjoin.commit.identity import recorded_identity, recorded_join, recorded_log
from evenjoin.commit.log import Commit
from evenjoin.errors import StateCorruptionError
from evenjoin.events import Migration
from evenjoin.page.moments import Moment, moment_of
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
    first. `whole` says that nothing older is left to read."""

    join: RecordedJoin
    seed: int
    table: RoutingTable | None = None
    moments: tuple[Moment, ...] = ()
    migrations: tuple[Migration, ...] = ()
    whole: bool = False

    @property
    def last(self) -> Moment | None:
        return self.moments[-1] if self.moments else None


def thinned(entries: Iterable[int]) -> list[int]:
    """The entries whose moments are kept, newest first: of those with an age of EVERY * 2^k and more every 2^(k+1)th,
    by their numbers."""
    newest_first = sorted(entries, reverse=True)
    newest = newest_first[0] if newest_first else 0
    return [entry for entry in newest_first if entry % (1 << ((newest - entry) // EVERY).bit_length()) == 0]


def read_whole(checkpoint: Checkpoint) -> Past:
    """All that a checkpoint still tells, for a report."""
    return Follower(checkpoint).refresh(LONGEST_S)


class Follower:
    """Reads one checkpoint, given as a path, a URI or a Folder. Safe to be asked by several threads."""

    def __init__(self, checkpoint: Checkpoint, clock: Callable[[], float] = time.monotonic) -> None:
        folder = open_checkpoint(checkpoint)
        self._log, self._clock, self._lock = recorded_log(folder), clock, threading.Lock()
        self._moments: dict[int, Moment | None] = {}
        self._moved: dict[int, tuple[Migration, int | None]] = {}
        join = RecordedJoin.from_json(recorded_join(folder))
        self.past = Past(join, recorded_identity(folder).seed)

    def refresh(self, budget_s: float = BUDGET_S) -> Past:
        """Read what is new, and older commits while the budget lasts. Returns the past; the same object if nothing
        changed."""
        with self._lock:
            until = self._clock() + budget_s
            kept = thinned(self._log.entries())
            wanted = set(kept)
            dropped = [entry for entry in self._moments if entry not in wanted]
            for entry in dropped:
                del self._moments[entry]
            missing = [entry for entry in kept if entry not in self._moments]
            read = 0
            for entry in missing:
                if read and self._found and self._clock() >= until:
                    break
                self._moments[entry] = self._read(entry)
                read += 1
            if read or dropped or not self.past.whole:
                migrations, all_of_them = self._follow_migrations(until)
                self.past = self._folded(migrations, whole=read == len(missing) and all_of_them)
            return self.past

    @property
    def _found(self) -> bool:
        return any(moment is not None for moment in self._moments.values())

    def _read(self, entry: int) -> Moment | None:
        """The moment of an entry; None for a start, and for a commit that is gone."""
        try:
            found = self._log.read(entry)
        except StateCorruptionError:
            if entry in self._log.entries():
                raise
            return None
        return moment_of(found, keys=not self.past.join.redact_keys) if isinstance(found, Commit) else None

    def _follow_migrations(self, until: float) -> tuple[list[Migration], bool]:
        """The migrations that are known, oldest first; and whether the budget lasted to the end of their chain."""
        known = [moment for moment in self._moments.values() if moment is not None]
        self._moved |= {m.entry: (m.migration, m.migrated) for m in known if m.migration is not None}
        last = max(known, key=lambda moment: moment.entry, default=None)
        entry = None if last is None else last.entry if last.migration is not None else last.migrated
        found: dict[int, tuple[Migration, int | None]] = {}
        while entry is not None and len(found) < MOST_MIGRATIONS:
            if entry not in self._moved:
                if self._clock() >= until:
                    return [migration for migration, _ in found.values()][::-1], False
                moment = self._read(entry)
                if moment is None or moment.migration is None:
                    break
                self._moved[entry] = moment.migration, moment.migrated
            found[entry] = self._moved[entry]
            entry = found[entry][1]
        self._moved = found
        return [migration for migration, _ in found.values()][::-1], True

    def _folded(self, migrations: list[Migration], whole: bool) -> Past:
        by_batch: dict[int, Moment] = {}
        for entry in sorted(self._moments):
            moment = self._moments[entry]
            if moment is not None:
                by_batch[moment.batch] = moment  # a batch that was taken back is committed again by a later entry
        moments = tuple(by_batch[batch] for batch in sorted(by_batch))
        table = self.past.table
        if moments and (table is None or table.name != moments[-1].next_table):
            table = self._log.read_table(moments[-1].next_table)
        return Past(self.past.join, self.past.seed, table, moments, tuple(migrations), whole)
