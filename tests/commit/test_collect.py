"""What the log deletes and what it reads: tables go with the last entry that names them; only what is told is read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

import evenjoin
from evenjoin.commit.log import Commit, CommitLog
from evenjoin.placement.check import check
from evenjoin.placement.table import Buckets, Region, RoutingTable
from evenjoin.placement.topology import Biclique
from evenjoin.state.files import LocalFolder, MemoryFolder
from evenjoin.testing import Fixed

SCHEMA = pa.schema([("k", pa.int64())])
BUCKETS = 16
pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")


def table(number: int) -> RoutingTable:
    """A table of two instances that differs from the one before it in one bucket."""
    round_, place = divmod(number, BUCKETS)
    homes = [(bucket + round_ + (bucket < place)) % 2 for bucket in range(BUCKETS)]
    regions = tuple(Region(Buckets((bucket,)), Biclique(((home,), (home,)))) for bucket, home in enumerate(homes))
    return check(RoutingTable(number, 2, 2, BUCKETS, regions, "drawn"))


def start(folder, batches, keep=5, **options):
    options = {"strategy": Fixed(tuple(map(table, range(batches)))), "guards": evenjoin.Guards(cooldown=0), **options}
    join = evenjoin.local({"l": SCHEMA, "r": SCHEMA}, "l.k = r.k", select=["l.k"], checkpoint=folder, **options)
    join._driver.log.keep = keep
    return join


def needed(join) -> set[str]:
    """The tables that the kept commits name."""
    return set().union(*(commit.tables for commit in join._driver.log.commits()))


@pytest.mark.parametrize("restarts", [(), (40, 41, 90)])
def test_tables_go_with_the_commits_that_name_them(restarts):
    """The table changes with every batch, and runs are masked by tables of long ago: those that a kept commit names
    stay, on the disk and in the driver, and no others. The answer is right to the end."""
    folder, batches, found = MemoryFolder(), 120, 0
    masked = 0
    join = start(folder, batches)
    for batch in range(batches):
        if batch in restarts:
            join.close()
            join = start(folder, batches)
        rows = pa.table({"k": list(range(batch % 7, 60, 7))}, SCHEMA)
        found += join.process({"l": rows, "r": rows} if batch < 20 else {"r": rows}).num_rows
        last = join._driver.last
        masked = max(masked, len(last.tables - {last.table, last.next_table}))
        assert set(join._driver._tables) <= last.tables
        assert set(folder.names("tables")) == needed(join)
    join.close()
    left, right = (Counter(k for b in range(n) for k in range(b % 7, 60, 7)) for n in (20, batches))
    assert found == sum(left[k] * right[k] for k in left)
    assert masked > 2
    assert len(folder.names("commits")) == 5


def test_a_table_that_comes_back_is_written_again():
    """A strategy that goes back to a table of long ago finds it, although it was deleted meanwhile."""
    folder, there_and_back = MemoryFolder(), (0, 1, 2, 3, 4, 5, 6, 0, 1)
    strategy = Fixed(tuple(map(table, there_and_back)))
    rows = pa.table({"k": list(range(30))}, SCHEMA)
    with start(folder, 0, keep=2, strategy=strategy) as join:
        found = [join.process({"l": rows, "r": rows}).num_rows for _ in there_and_back]
        assert set(folder.names("tables")) == needed(join)
    assert found == [30 * (2 * n + 1) for n in range(len(there_and_back))]


def test_a_driver_that_was_overtaken_deletes_no_table():
    """The younger one may be about to name it."""
    folder = MemoryFolder()
    one = start(folder, 9, keep=1)
    for _ in range(3):
        one.process({})
    one._driver.log.keep = 100
    one.process({})
    before = set(folder.names("tables"))
    start(folder, 9, keep=1)
    one._driver.log.keep = 1
    one._driver.log.collect()
    assert set(folder.names("tables")) == before


def test_a_damaged_old_commit_keeps_tables_but_not_entries(tmp_path):
    """What it names is not known, so no table goes; the log is trimmed all the same."""
    with start(LocalFolder(str(tmp_path)), 20, keep=100) as join:
        for _ in range(10):
            join.process({})
    (tmp_path / "commits/2").write_bytes(b"damaged")
    before = {path.name for path in (tmp_path / "tables").iterdir()}
    with start(LocalFolder(str(tmp_path)), 20, keep=3) as join:
        join.process({})
        assert join._driver.log.entries() == [10, 11, 12]
    assert before <= {path.name for path in (tmp_path / "tables").iterdir()}


@dataclass(slots=True)
class Counting(MemoryFolder):
    """A folder that notes which files are read."""

    read: list = field(default_factory=list)

    def load(self, name):
        self.read.append(name)
        return MemoryFolder.load(self, name)


def test_only_commits_with_a_migration_are_read_for_migrations():
    """After 300 batches and four migrations: four files, and none when they are asked for again."""
    folder = Counting()
    for instances in (2, 3, 2, 4, 3):
        with evenjoin.local({"l": SCHEMA, "r": SCHEMA}, "l.k = r.k", instances=instances, checkpoint=folder) as join:
            for _ in range(60):
                join.process({"l": pa.table({"k": [1, 2, 3]}, SCHEMA)})
            told = join.migrations()
    assert [(event.batch, event.target) for event in told] == [
        (60, "auto/shared on 3"), (120, "auto/shared on 2"), (180, "auto/shared on 4"), (240, "auto/shared on 3")
    ]  # fmt: skip
    with evenjoin.local({"l": SCHEMA, "r": SCHEMA}, "l.k = r.k", instances=3, checkpoint=folder) as join:
        folder.read.clear()
        assert join.migrations() == told
        assert len(folder.read) == 4
        assert join.migrations() == told
        assert len(folder.read) == 4


def test_migrations_end_where_the_log_does():
    """Those of commits that are no longer kept are not told; in this start or the next."""
    folder = MemoryFolder()
    with start(folder, 30, keep=6) as join:
        for _ in range(20):
            join.process({})
        assert [event.batch for event in join.migrations()] == [14, 15, 16, 17, 18, 19]
    with start(folder, 30, keep=6) as join:
        assert [event.batch for event in join.migrations()] == [14, 15, 16, 17, 18, 19]
        join.process({})
        assert [event.batch for event in join.migrations()] == [16, 17, 18, 19, 20]


def test_a_commit_says_which_one_before_it_migrated():
    """As a chain of entries: a commit without a migration hands on what it was told."""
    folder = MemoryFolder()
    for instances in (2, 3):
        with evenjoin.local({"l": SCHEMA, "r": SCHEMA}, "l.k = r.k", instances=instances, checkpoint=folder) as join:
            for _ in range(3):
                join.process({})
            log: CommitLog = join._driver.log
    commits: list[Commit] = list(log.commits())[::-1]
    assert [commit.entry for commit in commits] == [1, 2, 3, 5, 6, 7]
    assert [commit.migrated for commit in commits] == [None, None, None, None, 5, 5]
