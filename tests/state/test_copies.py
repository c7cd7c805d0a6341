"""Copies of remote segments lie in a folder that nobody else may enter, and a damaged one is fetched again."""

from __future__ import annotations

import os
import stat
import tempfile
import time

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from evenjoin.errors import CheckpointError, StateCorruptionError
from evenjoin.spec import build_spec
from evenjoin.state import copies
from evenjoin.state.remote import RemoteFolder
from evenjoin.state.segment import Segments, seal
from evenjoin.state.tuples import Tuples, tuple_schemas

SCHEMA = pa.schema([("k", pa.int64())])
SCHEMAS = tuple_schemas(build_spec({"l": SCHEMA, "r": SCHEMA}, "l.k = r.k"))


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The temporary folder of this machine, open to all."""
    path = tmp_path / "tmp"
    path.mkdir()
    path.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


@pytest.fixture
def folder(temporary):
    return RemoteFolder(pafs._MockFileSystem(), "ck")


def ours(temporary):
    return temporary / f"evenjoin-{os.geteuid()}"


def copy_of(temporary):
    (found,) = temporary.rglob("*.arrow")
    return found


def sealed(folder):
    run = pa.RecordBatch.from_arrays([pa.array([1, 2, 2]), pa.array([0, 1, 2], pa.uint32())], schema=SCHEMAS[0].run)
    return seal(folder, "segments/0/s.arrow", [(0, Tuples.of(SCHEMAS[0], run), ())])[0]


def test_copies_are_for_this_user_only(folder, temporary):
    """Whatever the umask: neither the folder nor what is in it can be entered by others."""
    before = os.umask(0)
    try:
        folder.write("s/1.arrow", b"x")
        folder.load("s/1.arrow")
    finally:
        os.umask(before)
    for path in (ours(temporary), copy_of(temporary).parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def make_link(path):
    path.with_name("elsewhere").mkdir(mode=0o700)
    path.symlink_to(path.with_name("elsewhere"))


def make_open(path):
    path.mkdir()
    path.chmod(0o755)


def make_file(path):
    path.touch(mode=0o600)


@pytest.mark.parametrize("make", [make_link, make_open, make_file])
def test_a_folder_that_may_not_be_ours_is_refused(make, folder, temporary):
    """A link, a folder that others may enter, a file: nothing is read from there or written to it."""
    make(ours(temporary))
    folder.write("s/1.arrow", b"x")
    with pytest.raises(CheckpointError, match=r"must be a folder, not a link.*or set TMPDIR"):
        folder.load("s/1.arrow")
    assert list(temporary.rglob("*.arrow")) == []


def test_a_folder_of_another_user_is_refused(folder, temporary, monkeypatch):
    """Somebody made it first and could put copies of their own there."""
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    ours(temporary).mkdir(mode=0o700)
    folder.write("s/1.arrow", b"x")
    with pytest.raises(CheckpointError, match="belongs to this user"):
        folder.load("s/1.arrow")


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"\1" + data[1:], lambda data: b""])
def test_a_damaged_copy_is_fetched_again(damage, folder, temporary):
    """The segment itself is whole, so it is read, and the copy is replaced."""
    run = sealed(folder)
    folder.load(run.file)
    copy = copy_of(temporary)
    whole = copy.read_bytes()
    copy.write_bytes(damage(whole))
    assert Segments(folder).read(SCHEMAS[0], run).codes.tolist() == [1, 2, 2]
    assert copy.read_bytes() == whole


def test_a_damaged_segment_stays_an_error(folder, temporary):
    """Fetching it again does not help, and the message names it."""
    run = sealed(folder)
    folder.write(run.file, b"something else")
    with pytest.raises(StateCorruptionError, match=r"segments/0/s\.arrow is damaged"):
        Segments(folder).read(SCHEMAS[0], run)


def test_a_damaged_copy_of_a_missing_segment_is_an_error(folder, temporary):
    """Nothing is made up of what is left."""
    run = sealed(folder)
    folder.load(run.file)
    copy_of(temporary).write_bytes(b"x")
    folder.filesystem.delete_file(f"ck/{run.file}")
    with pytest.raises(StateCorruptionError, match=r"segments/0/s\.arrow is missing"):
        Segments(folder).read(SCHEMAS[0], run)


def test_unfinished_copies_of_a_dead_process_are_dropped_at_the_start(folder, temporary, monkeypatch):
    """An hour old: gone when another process first uses the folder. A new one may belong to a process that lives."""
    folder.write("s/1.arrow", b"x")
    folder.load("s/1.arrow")
    place = copy_of(temporary).parent
    for name, age in (("old.part", copies.UNFINISHED_SECONDS + 1), ("new.part", 0)):
        (place / name).touch()
        os.utime(place / name, (time.time() - age, time.time() - age))
    monkeypatch.setattr(copies, "_TIDIED", set())  # as in another process
    folder.load("s/1.arrow")
    assert {path.name for path in place.iterdir()} == {"s-1.arrow", "new.part"}
