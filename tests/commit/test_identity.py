"""join.json: whose checkpoint it is, and which version wrote it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import evenjoin
from evenjoin.commit.identity import Identity, check_ours, claim, recorded_identity, recorded_join
from evenjoin.commit.log import checked, read_checked
from evenjoin.errors import CheckpointMismatchError, StateCorruptionError
from evenjoin.state.files import LocalFolder, MemoryFolder
from evenjoin.version import FORMAT, VERSION

MINE = {"sides": ["l", "r"], "condition": "l.k = r.k"}


def test_the_first_claim_is_written_and_the_same_one_passes():
    """With the format and the version that wrote it; a later start changes nothing."""
    folder = MemoryFolder()
    first = claim(folder, MINE)
    written = folder.load("join.json")
    known = {"format": FORMAT, "version": VERSION, "uuid": first.uuid, "seed": first.seed, "join": MINE}
    assert read_checked(folder, "join.json") == known
    assert claim(folder, MINE) == claim(folder, MINE, Identity("another", 7)) == recorded_identity(folder) == first
    assert (folder.load("join.json"), recorded_join(folder)) == (written, MINE)


def test_no_two_checkpoints_are_alike(monkeypatch):
    """Not even one made again at the same place: its uuid and its seed are drawn."""
    monkeypatch.undo()  # the seed of tests
    one, two = claim(MemoryFolder(), MINE), claim(MemoryFolder(), MINE)
    assert one.uuid != two.uuid
    assert one.seed != two.seed


def test_another_join_is_refused_with_what_differs():
    """Each difference on a line, and only those."""
    folder = MemoryFolder()
    claim(folder, MINE)
    with pytest.raises(CheckpointMismatchError, match=r"(?s)another join.*condition: checkpoint has 'l.k = ") as said:
        claim(folder, {**MINE, "condition": "l.k < r.k"})
    assert "sides" not in str(said.value)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"format": FORMAT + 1, "version": "9.9", "join": MINE}, rf"EvenJoin 9\.9 in format {FORMAT + 1}"),
        ({"format": 1, "version": "0.0.1", "join": MINE}, r"EvenJoin 0\.0\.1 in format 1"),
        (MINE, "before formats had numbers"),
    ],
    ids=["newer", "older", "without a number"],
)
def test_another_format_is_refused_in_words(written, says, tmp_path):
    """Which version wrote it, which this is, and what to do; also for whoever only looks at it."""
    folder = MemoryFolder()
    folder.write("join.json", checked(written))
    for look in (lambda: claim(folder, MINE), lambda: recorded_join(folder)):
        with pytest.raises(CheckpointMismatchError, match=f"by .*{says}.*is EvenJoin {VERSION}.*format {FORMAT}"):
            look()


@pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")
def test_a_join_does_not_start_on_a_checkpoint_of_another_format(tmp_path):
    """And leaves it as it was."""
    schema = pa.schema([("k", pa.int64())])
    evenjoin.local({"l": schema, "r": schema}, "l.k = r.k", checkpoint=tmp_path).close()
    path = tmp_path / "join.json"
    before = path.read_bytes()
    body = before.split(b"\n", 1)[1].replace(b'"format":%d' % FORMAT, b'"format":%d' % (FORMAT - 1))
    path.write_bytes(checked(json.loads(body)))
    kept = path.read_bytes()
    with pytest.raises(evenjoin.CheckpointMismatchError, match=f"format {FORMAT - 1}"):
        evenjoin.local({"l": schema, "r": schema}, "l.k = r.k", checkpoint=tmp_path)
    assert path.read_bytes() == kept
    path.write_bytes(before)
    evenjoin.local({"l": schema, "r": schema}, "l.k = r.k", checkpoint=tmp_path).close()


@pytest.mark.parametrize("held", ["notes.txt", "segments/0/mine.parquet", "commits/7", "late/x.csv"], ids=str)
@pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")
def test_a_folder_of_somebody_else_is_refused_and_left_as_it_is(held, tmp_path):
    """Not a file of it is touched, whatever its folders are called; not even a lock is left behind."""
    schema = pa.schema([("k", pa.int64())])
    path = tmp_path / held
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("not ours")
    before = sorted(str(p) for p in tmp_path.rglob("*"))
    with pytest.raises(evenjoin.CheckpointMismatchError, match=f"not a checkpoint of EvenJoin.*{held.split('/')[0]}"):
        evenjoin.local({"l": schema, "r": schema}, "l.k = r.k", checkpoint=tmp_path)
    assert (path.read_text(), sorted(str(p) for p in tmp_path.rglob("*"))) == ("not ours", before)


@pytest.mark.parametrize("folder", [MemoryFolder, None], ids=["in memory", "on disk"])
def test_a_lost_join_json_is_noticed(folder, tmp_path):
    """Beside commits it is damage, not a new checkpoint."""
    held = MemoryFolder() if folder else LocalFolder(str(tmp_path))
    claim(held, MINE)
    held.write("commits/0", b"x")
    held.write("tables/0-ab", b"x")
    check_ours(held)
    held.delete("join.json")
    with pytest.raises(StateCorruptionError, match=r"join\.json is missing"):
        check_ours(held)


def test_an_empty_folder_and_hidden_files_are_nobodys(tmp_path):
    """A new folder, one that is not there yet, one with a lock of a start that died, one with a hidden file."""
    check_ours(MemoryFolder())
    check_ours(LocalFolder(str(tmp_path / "new")))
    (tmp_path / ".DS_Store").touch()
    (tmp_path / "owner.lock").touch()
    check_ours(LocalFolder(str(tmp_path)))
