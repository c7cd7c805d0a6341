"""The driver alone: the order of its steps, files and locks, with a runtime that only leaves receipts."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

import pyarrow as pa
import pytest

from evenjoin.errors import (
    CheckpointInUseError,
    EvaluationError,
    EvenJoinError,
    ReceiptError,
    StateCorruptionError,
)
from evenjoin.instance.migrate import Migrated
from evenjoin.load.intake import Intake
from evenjoin.load.receipt import Receipt, receipt_name
from evenjoin.runtime.driver import Driver
from evenjoin.runtime.settings import Hooks, Settings
from evenjoin.spec import build_spec
from evenjoin.state.files import LocalFolder, MemoryFolder
from evenjoin.state.segment import Run
from evenjoin.strategies import Hash

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64())])
SPEC = build_spec({"l": SCHEMA, "r": SCHEMA}, "l.k = r.k", select=["l.k"])


@dataclass
class Receipts:
    """A runtime whose instances do nothing but seal a file of their own and leave a receipt; some may be silent at
    first (`unread`) or for good (`dead`). `books` has for each try, and each instance, the sums that its receipts
    name."""

    folder: object
    unread: tuple[int, ...] = ()
    dead: tuple[int, ...] = ()
    books: list = field(default_factory=list)
    replaceable: bool = False
    calls: list = field(default_factory=list)
    read: dict = field(default_factory=dict)

    def execute(self, work, watermark):
        self.calls.append(("execute", work.batch, work.table.instances))
        self._leave(work, [i for i in range(work.table.instances) if i not in self.unread + self.dead])

    def complete(self, work, watermark, missing):
        self.calls.append(("complete", work.batch, tuple(missing)))
        self._leave(work, [i for i in missing if i not in self.dead])

    def migrate(self, work, new):
        self.calls.append(("migrate", work.table.title, new.title))
        return [Migrated(i, i, {}, {}, 0, 0, 0.0) for i in range(work.table.instances)]

    def late(self, files, batch):
        self.calls.append(("late", tuple(files)))

    def tries(self):
        return sum(call[0] == "execute" for call in self.calls)

    def offsets(self, batch):
        return self.read.get(batch, "")

    def _leave(self, work, instances):
        for i in instances:
            name = f"segments/{work.batch}/0-new-i{i}-{len(self.calls)}.arrow"
            self.folder.write(name, b"x")
            sealed = {(i, 0): (Run(name, 0, 1, 1, 0, 0, 0, 1, 1, 1),)}
            late = (f"late/{work.batch}/0-{i}.arrow",) if i == 0 and work.batch == 7 else ()
            made = Receipt(work.batch, i, sealed, {}, (1, 0), (0, 0), (0, 0), 1.0, intake=(Intake(1), Intake()),
                           late_files=late)  # fmt: skip
            tries = self.books[min(self.tries(), len(self.books)) - 1] if self.books else {}
            for number, (got, said) in enumerate(tries.get(i, [(0, 0)])):
                name = receipt_name(work.start, work.trial, 0, i, (got, said, 0), f"{len(self.calls)}x{number}")
                self.folder.write(f"receipts/{work.batch}/{name}", made.to_bytes())


def driver(folder, instances=2, **hooks):
    return Driver(SPEC, Settings(Hash(), instances, hooks=Hooks(**hooks)), folder)


def test_the_steps_of_a_batch_in_order():
    """As numbered at the top of the file; a migration only when the table changes."""
    seen, folder = [], MemoryFolder()
    first = driver(folder, step=lambda name, batch: seen.append(name))
    first.run(0, Receipts(folder))
    plain = ["begin", "executed", "receipts", "commit", "committed", "collected"]
    assert seen == plain
    seen.clear()
    driver(folder, 3, step=lambda name, batch: seen.append(name)).run(1, Receipts(folder))
    assert seen == [plain[0], "migrated", *plain[1:]]


def test_a_committed_batch_is_not_run_again():
    """The runtime is not even asked."""
    folder = MemoryFolder()
    one = driver(folder)
    commit = one.run(0, Receipts(folder))
    again = Receipts(folder)
    assert one.run(0, again) is commit
    assert driver(folder).run(0, again) == commit
    assert again.calls == []


READ = {0: "a", 1: "ab", 2: "abc", 3: "abcd"}
"""What a source has read up to each batch."""


def committed(folder, upto):
    """A driver that has committed the batches up to this one, as READ has them."""
    one = driver(folder)
    for batch in range(upto + 1):
        one.run(batch, Receipts(folder, read=READ))
    return one


def test_a_commit_says_what_was_read():
    """Also after a restart."""
    folder = MemoryFolder()
    committed(folder, 1)
    again = driver(folder)
    assert [commit.offsets for commit in again.log.commits()] == ["ab", "a"]


@pytest.mark.parametrize(
    ("read", "batch", "says"),
    [
        ({0: "x"}, 0, "batch 0 held other data"),
        ({**READ, 2: "x"}, 2, "batch 2 held other data"),
        ({**READ, 2: "x"}, 3, "batch 2 held other data"),
        (READ, 4, "batch 3 was never committed"),
    ],
    ids=["from the start", "the last batch", "the last batch, when the next one comes", "too far ahead"],
)
def test_a_number_that_stands_for_other_data_is_refused(read, batch, says):
    """Before anything is done; and the same numbers with the same data are left out or go on."""
    folder = MemoryFolder()
    committed(folder, 2)
    runtime, one = Receipts(folder, read=read), driver(folder)
    with pytest.raises(StateCorruptionError, match=says):
        one.run(batch, runtime)
    assert runtime.calls == []
    assert [one.run(number, Receipts(folder, read=READ)).batch for number in (0, 1, 2, 3)] == [2, 2, 2, 3]


def test_a_batch_of_long_ago_cannot_be_compared():
    """Its commit is no longer kept: refused, although the data may be the same. The last batch is always kept."""
    folder = MemoryFolder()
    one = driver(folder)
    one.log.keep = 2
    for batch in range(3):
        one.run(batch, Receipts(folder, read=READ))
    with pytest.raises(StateCorruptionError, match="starts again with batch 0, but batch 2 is committed"):
        driver(folder).run(0, Receipts(folder, read=READ))
    assert [driver(folder).run(batch, Receipts(folder, read=READ)).batch for batch in (1, 2)] == [2, 2]
    assert driver(folder).run(0, Receipts(folder)).batch == 2  # the embedded engine's caller answers for the number


def test_commits_that_are_gone_while_the_source_goes_on():
    """A source that has read up to batch 2 does not start a checkpoint: the state of the batches before is lost."""
    folder = MemoryFolder()
    with pytest.raises(StateCorruptionError, match=r"commits/ .* is empty, but Spark goes on with batch 3"):
        driver(folder).run(3, Receipts(folder, read=READ))
    assert driver(folder).run(3, Receipts(folder)).batch == 3  # numbers of the embedded engine may start anywhere


def test_instances_nobody_read_are_run():
    """Once, and only those; then the batch is committed with everything."""
    folder = MemoryFolder()
    runtime = Receipts(folder, unread=(1, 2))
    commit = driver(folder, 4).run(0, runtime)
    assert runtime.calls == [("execute", 0, 4), ("complete", 0, (1, 2))]
    assert sorted(commit.manifest.runs) == [(i, 0) for i in range(4)]


def test_an_instance_without_a_receipt_stops_the_batch():
    """Nothing is committed, and the next try starts from the last commit with none of the old files."""
    folder = MemoryFolder()
    one = driver(folder)
    with pytest.raises(ReceiptError, match=r"instances \[1\] left no receipt"):
        one.run(0, Receipts(folder, dead=(1,)))
    assert (one.last, folder.names("commits")) == (None, ["0"])  # the start
    stale = set(folder.files)
    commit = one.run(0, Receipts(folder))
    assert commit.manifest.files <= set(folder.files)
    assert not {name for name in stale if name.startswith("receipts")} & set(folder.files)


def test_a_gap_in_the_batches_is_refused():
    """A commit that is missing in between would be state that is missing."""
    folder = MemoryFolder()
    one = driver(folder)
    one.run(0, Receipts(folder))
    with pytest.raises(
        StateCorruptionError, match="batch 1 was never committed: the last commit is batch 0, and now batch 2"
    ):
        one.run(2, Receipts(folder))


def test_one_driver_a_folder(tmp_path):
    """The second is refused while the first lives; a closed one runs nothing more."""
    folder = LocalFolder(str(tmp_path))
    one = driver(folder)
    with pytest.raises(CheckpointInUseError):
        driver(folder)
    one.close()
    driver(folder).close()
    with pytest.raises(EvenJoinError, match="closed"):
        one.run(0, Receipts(folder))


def test_where_there_is_no_lock_the_older_driver_cannot_commit():
    """Two drivers on one folder, at whatever point of its batch the second starts: only the younger one commits."""
    for step in ("begin", "executed", "receipts", "commit"):
        folder, younger = MemoryFolder(), []

        def start_another(name, batch, at=step, folder=folder, younger=younger):
            if name == at:
                younger.append(driver(folder))

        one = driver(folder, step=start_another)
        with pytest.raises(CheckpointInUseError, match="not committed: another query has started"):
            one.run(0, Receipts(folder))
        younger[0].run(0, Receipts(folder))
        assert [commit.batch for commit in younger[0].log.commits()] == [0]


def test_garbage_goes_and_what_a_commit_names_stays():
    """Files of other attempts after a commit, files of a crash at the next start. What the commit before the last one
    names stays too, so that one commit can be taken back."""
    folder = MemoryFolder()
    one = driver(folder)
    runtime = Receipts(folder)
    folder.write("segments/0/stray.arrow", b"of another attempt")
    commit = one.run(0, runtime)
    assert {f"segments/0/{name}" for name in folder.names("segments/0")} == commit.manifest.files
    assert (folder.names("receipts"), folder.names("late")) == ([], [])
    folder.write("segments/1/crashed.arrow", b"never committed")
    folder.write("receipts/1/0-x.json", b"never read")
    driver(folder)
    assert (folder.names("segments"), folder.names("receipts")) == (["0"], [])
    again = driver(folder)
    for batch in (1, 2, 3):
        again.run(batch, Receipts(folder))
        before = next(islice(again.log.commits(), 1, None)).manifest.files
        assert before <= set(folder.files)


def test_a_change_of_size_migrates_once_and_says_why():
    """Under the old table's name for the donors, and the new one's for the batch."""
    folder = MemoryFolder()
    driver(folder, 2).run(0, Receipts(folder))
    runtime = Receipts(folder)
    more = driver(folder, 3)
    commit = more.run(1, runtime)
    assert runtime.calls == [("migrate", "hash/shared on 2", "hash/shared on 3"), ("execute", 1, 3)]
    assert commit.migration is not None
    assert (commit.migration.why, commit.migration.batch) == ("asked for", 1)
    assert more.run(2, Receipts(folder)).migration is None


def test_late_files_are_delivered_before_the_commit():
    """With all receipts in, and once."""
    seen, folder = [], MemoryFolder()
    one = driver(folder, step=lambda name, batch: seen.append(name))
    for batch in range(7):
        one.run(batch, Receipts(folder))
    seen.clear()
    runtime = Receipts(folder)
    runtime.calls = seen
    one.run(7, runtime)
    assert seen[seen.index("receipts") + 1 :][:2] == [("late", ("late/7/0-0.arrow",)), "commit"]


def test_state_without_a_commit_is_of_the_batch_that_comes_next():
    """All commits are gone, and a start in between did nothing: the state of batch 0 still says that something was."""
    folder = MemoryFolder()
    driver(folder).run(0, Receipts(folder))
    folder.delete_folder("commits")
    driver(folder)
    with pytest.raises(StateCorruptionError, match="there is state of batch 0, and now batch 1 was to be the first"):
        driver(folder).run(1, Receipts(folder))
    assert driver(folder).run(0, Receipts(folder)).batch == 0


SAME = {0: [(5, 3)], 1: [(1, 3)]}
TORN = {0: [(5, 3), (6, 3)], 1: [(1, 3)]}
LOST = {0: [(5, 3)], 1: [(2, 3)]}


@pytest.mark.parametrize("books", [SAME, {0: [(5, 3)] * 3, 1: [(1, 3), (1, 3)]}, {0: [(2**64 - 1, 0)], 1: [(1, 0)]}],
                         ids=["one each", "several that agree", "sums wrap"])  # fmt: skip
def test_receipts_that_agree_are_committed(books):
    """Any number of runs of an instance, if all read the same and all that was sent was got."""
    folder = MemoryFolder()
    runtime = Receipts(folder, books=[books])
    assert driver(folder).run(0, runtime).batch == 0
    assert runtime.calls == [("execute", 0, 2)]


@pytest.mark.parametrize(
    ("books", "says"), [(TORN, "instance 0 was run 2 times on different rows"), (LOST, "did not get")]
)
def test_receipts_that_disagree_are_not_committed(books, says):
    """A sink that cannot take anything back: an error at once, that says what to do, and nothing is committed."""
    folder = MemoryFolder()
    one = driver(folder)
    with pytest.raises(EvaluationError, match=rf"batch 0 was not committed: .*{says}.*df\.persist\(\)"):
        one.run(0, Receipts(folder, books=[books]))
    assert one.last is None
    assert one.run(0, Receipts(folder)).batch == 0


@pytest.mark.parametrize("books", [TORN, LOST], ids=["torn", "lost"])
def test_a_sink_that_replaces_gets_one_more_try(books):
    """Under another number, so that receipts of the first try are not read; a second failure is an error."""
    folder = MemoryFolder()
    runtime = Receipts(folder, books=[books, SAME], replaceable=True)
    commit = driver(folder).run(0, runtime)
    assert runtime.calls == [("execute", 0, 2)] * 2
    assert all("-2.arrow" in name for name in commit.manifest.files)
    folder = MemoryFolder()
    with pytest.raises(EvaluationError):
        driver(folder).run(0, Receipts(folder, books=[books, books], replaceable=True))


@pytest.mark.parametrize("stale", ["s0t1", "s1t2", "s1t0"])
def test_receipts_of_another_start_or_try_are_not_read(stale):
    """A task that outlived its driver, or its try, reports into a folder of its own: here a receipt that lies."""
    folder = MemoryFolder()
    driver(folder)
    one = driver(folder)
    lie = Receipt(
        0, 1, {(1, 0): (Run("segments/0/lie.arrow", 0, 9, 9, 0, 0, 0, 1, 1, 1),)}, {}, (9, 0), (0, 0), (0, 0), 1.0
    )
    folder.write(f"receipts/0/{stale}/1-{0:016x}-{0:016x}-old.json", lie.to_bytes())
    commit = one.run(0, Receipts(folder))
    assert not any("lie" in name for name in commit.manifest.files)


def test_a_receipt_that_is_none_is_named():
    """A file that somebody put there, or an instance that the table does not have."""
    for name in ("readme.txt", f"7-{0:016x}-{0:016x}-x.json"):
        folder = MemoryFolder()
        one = driver(folder)
        folder.write(f"receipts/0/s0t1/{name}", b"?")
        with pytest.raises(ReceiptError, match=name):
            one.run(0, Receipts(folder))


def test_a_segment_that_is_gone_stops_the_commit():
    """Sealed, reported, and deleted by somebody before the commit."""
    folder = MemoryFolder()
    gone = []

    def lose(name, batch):
        if name == "commit":
            gone.append(f"segments/0/{folder.names('segments/0')[0]}")
            folder.delete(gone[0])

    one = driver(folder, step=lose)
    with pytest.raises(ReceiptError, match=r"segment segments/0/.* was sealed and is gone"):
        one.run(0, Receipts(folder))
    assert one.last is None


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_what_a_commit_names_is_on_the_disk_before_it(durability):
    """Segments first, then the commit and its tables; with "os" nothing is asked for."""
    seen = []

    class Disk(MemoryFolder):
        def sync(self, names):
            seen.append(("sync", sorted(name.split("/")[0] for name in names)))

        def create(self, name, data):
            seen.append(name.split("/")[0])
            return super().create(name, data)

    folder = Disk()
    one = Driver(SPEC, Settings(Hash(), 2, durability=durability), folder)
    seen.clear()
    one.run(0, Receipts(folder))
    synced = [item for item in seen if item[0] == "sync"]
    expected = ["tables", ("sync", ["segments", "segments"]), "commits", ("sync", ["commits", "tables", "tables"])]
    assert seen == expected if durability == "fsync" else not synced


@dataclass(slots=True)
class Stuck(MemoryFolder):
    """A folder in which nothing can be deleted: each attempt is this error."""

    error: Exception = field(default_factory=PermissionError)

    def delete(self, name):
        raise self.error

    delete_folder = delete


@pytest.mark.parametrize(
    "error", [PermissionError("no"), RuntimeError("the store's own"), pa.ArrowInvalid("slow down")]
)
def test_what_cannot_be_deleted_does_not_undo_a_batch(error):
    """It is committed before garbage is collected, old entries of the log among it: the caller gets it, and the next
    one follows."""
    folder = Stuck(error=error)
    one = driver(MemoryFolder())
    one.folder = one.log._folder = folder
    one.log.keep = 1
    assert [one.run(batch, Receipts(folder)).batch for batch in range(4)] == [0, 1, 2, 3]
    assert len(folder.names("commits")) == 4
