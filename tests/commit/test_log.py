"""The commit log: a commit comes back as it was, is made once, and is refused when damaged."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from evenjoin.commit.log import Commit, CommitLog, Start, Watermark, checked, read_checked
from evenjoin.errors import CheckpointInUseError, StateCorruptionError
from evenjoin.events import Migration, Totals, Verdict
from evenjoin.load.intake import Intake
from evenjoin.load.receipt import HeavyKey
from evenjoin.load.report import InstanceLoad, LoadReport
from evenjoin.placement import Biclique, Buckets, Region, RoutingTable
from evenjoin.state.files import LocalFolder, MemoryFolder
from evenjoin.state.manifest import Manifest
from evenjoin.state.segment import Run

ID = "uuid-of-this-one"
RUN = Run("segments/3/s.arrow", 0, 5, 4, -1, -10, -6, 80, 900, 12345, mask="1-ab", dirty=(3,))
REPORT = LoadReport(
    3,
    (InstanceLoad(0, (5, 0), (2, 3), (7, 0), 80, 1.5),),
    (HeavyKey(-9, "Zürich", (2, 0), (0, 1), (5, 0), (7, 0)),),
    ((0, 1, 5, 9, 2),),
    (Intake(5, 1, 0, -6), Intake()),
    2,
)


def commit(entry=3, batch=2):
    return Commit(
        batch, "1-ab", "2-cd", Manifest({(0, 1): (RUN,)}), Watermark(-16, (-6, None), (10.5, 11.0)), REPORT,
        "hash on 2, shared", 12.5, Migration(batch, "hash on 1", "hash on 2", 4, 128, 0.5),
        Totals(7, (5, 0), (1, 0), (0, 0), 2), Verdict(batch, 1.5, "cooling down", 2), entry, entry - 1,
    )  # fmt: skip


@pytest.mark.parametrize("given", [commit(), Commit(0, "a", "a", Manifest(), Watermark(), None)], ids=["full", "bare"])
def test_round_trip(given):
    """Everything a commit holds comes back equal, from another process' view."""
    folder = MemoryFolder()
    CommitLog(folder, ID).append(given)
    assert CommitLog(folder, ID).read(given.entry) == given
    assert CommitLog(folder, ID).latest() == given


def test_the_latest_is_the_greatest_number():
    """Entry 10 is later than entry 9, whatever their names' order; an empty log has none."""
    folder = MemoryFolder()
    log = CommitLog(folder, ID)
    assert (log.latest(), log.entries()) == (None, [])
    for entry in (9, 10, 2):
        log.append(commit(entry))
    folder.write("commits/.tmp", b"not a commit")
    assert log.entries() == [2, 9, 10]
    assert log.latest().entry == 10


def test_an_entry_is_made_once():
    """The second commit of a number is refused, and the first stays."""
    folder = MemoryFolder()
    CommitLog(folder, ID).append(commit())
    with pytest.raises(CheckpointInUseError, match=r"batch 3 was not committed: another query has started.*of its own"):
        CommitLog(folder, ID).append(Commit(3, "x", "x", Manifest(), Watermark(), None, entry=3))
    assert CommitLog(folder, ID).read(3) == commit()


def test_a_start_is_an_entry_that_names_the_last_commit():
    """Starts and commits share one sequence of numbers; a start is read through to the commit before it."""
    log = CommitLog(MemoryFolder(), ID)
    assert log.begin() == (Start(0, None), None)
    first = replace(commit(1, 0), previous=None)
    log.append(first)
    assert log.begin() == (Start(2, 1), first)
    assert log.begin() == (Start(3, 1), first)
    second = replace(commit(4, 1), previous=1)
    log.append(second)
    assert (log.latest(), [*log.commits()]) == (second, [second, first])
    assert log.entries() == [0, 1, 2, 3, 4]


def test_an_older_driver_cannot_commit():
    """A start takes the number of the next commit of whoever runs."""
    log = CommitLog(MemoryFolder(), ID)
    log.begin()
    log.append(commit(1, 0))
    log.begin()
    with pytest.raises(CheckpointInUseError, match="batch 1 was not committed"):
        log.append(commit(2, 1))
    assert log.latest().batch == 0


def test_two_that_start_at_once_get_different_numbers():
    """Whoever comes second takes the next number, and goes on from the same commit."""

    class Racing(MemoryFolder):
        def create(self, name, data):
            if name == "commits/1" and "commits/1" not in self.files:
                super().create(name, self.files["commits/0"].to_pybytes().replace(b'"entry":0', b'"entry":1'))
                self.files[name] = pa.py_buffer(checked({"uuid": ID, "kind": "start", "entry": 1, "last": None}))
            return super().create(name, data)

    folder = Racing()
    assert CommitLog(folder, ID).begin()[0].entry == 0
    assert CommitLog(folder, ID).begin() == (Start(2, None), None)


def test_an_entry_of_another_checkpoint_is_refused():
    """Whole and with the right number, but not of this one."""
    folder = MemoryFolder()
    CommitLog(folder, "other").append(commit())
    with pytest.raises(StateCorruptionError, match="commits/3 is of another checkpoint"):
        CommitLog(folder, ID).latest()


def test_any_damaged_byte_is_noticed(tmp_path):
    """Flip any byte of a commit: StateCorruptionError with its name."""
    log = CommitLog(LocalFolder(str(tmp_path)), ID)
    log.append(commit())
    path = tmp_path / "commits/3"
    good = path.read_bytes()
    for place in range(0, len(good), 11):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(StateCorruptionError, match="commits/3 of the checkpoint is damaged"):
            log.latest()
    for short in (b"", good[:4], good[:9], good[:-1]):
        path.write_bytes(short)
        with pytest.raises(StateCorruptionError, match="commits/3 of the checkpoint is damaged"):
            log.latest()


def test_missing_files_are_named():
    """A commit or a table that should be there."""
    log = CommitLog(MemoryFolder(), ID)
    with pytest.raises(StateCorruptionError, match="commits/4 is missing"):
        log.read(4)
    with pytest.raises(StateCorruptionError, match="tables/1-ab is missing"):
        log.read_table("1-ab")


def test_tables_are_kept_by_content():
    """Saved twice it is one file; it comes back equal; a damaged one is refused by name."""
    folder = MemoryFolder()
    log = CommitLog(folder, ID)
    table = RoutingTable(4, 2, 2, 1, (Region(Buckets((0,)), Biclique(((0,), (1,)))),), "hash", layout="split")
    name = log.save_table(table)
    assert log.save_table(table) == name == f"4-{table.digest}"
    assert folder.names("tables") == [name]
    assert log.read_table(name) == table
    folder.write(f"tables/{name}", folder.load(f"tables/{name}").to_pybytes().replace(b"[1]", b"[0]"))
    with pytest.raises(StateCorruptionError, match=f"tables/{name} of the checkpoint is damaged"):
        log.read_table(name)


def test_old_commits_are_trimmed():
    """Only the last `keep` entries stay, and are all that is told."""
    log = CommitLog(MemoryFolder(), ID, keep=3)
    for entry in range(6):
        log.append(commit(entry, entry))
        log.collect()
    assert log.entries() == [3, 4, 5]
    assert [commit.batch for commit in log.commits()] == [5, 4, 3]


def test_checked_text_is_json_behind_its_crc():
    """Readable with any editor: a line with the CRC-32, then JSON."""
    assert checked({"a": [1]}) == b'bb9c465a\n{"a":[1]}'
    folder = MemoryFolder()
    folder.write("x", checked({"a": [1]}))
    assert read_checked(folder, "x") == {"a": [1]}


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "segments/../../x.arrow", "segments/3/../x.arrow", "segments/3/x.parquet", "late/3/x.arrow"]
)
def test_a_commit_that_names_a_file_that_is_not_a_segment_is_refused(name):
    """Its checksum may be right: what it names would be read, and deleted once it is no longer named."""
    folder = MemoryFolder()
    CommitLog(folder, ID).append(replace(commit(), manifest=Manifest({(0, 1): (replace(RUN, file=name),)})))
    with pytest.raises(StateCorruptionError, match="commits/3 names the segment"):
        CommitLog(folder, ID).read(3)


def test_files_that_were_swapped_are_noticed():
    """A commit under another number, a table under another name: whole, but not what their names say."""
    folder = MemoryFolder()
    log = CommitLog(folder, ID)
    log.append(commit(3))
    folder.write("commits/4", folder.load("commits/3"))
    with pytest.raises(StateCorruptionError, match="commits/4 names entry 3"):
        log.read(4)
    one = RoutingTable(4, 2, 2, 1, (Region(Buckets((0,)), Biclique(((0,), (1,)))),), "hash")
    two = replace(one, version=5)
    folder.write(f"tables/{log.save_table(two)}", folder.load(f"tables/{log.save_table(one)}"))
    with pytest.raises(StateCorruptionError, match=f"tables/{two.name} holds table {one.name}"):
        log.read_table(two.name)
