"""The contract of folders, on memory, local disk and pyarrow file systems."""

from __future__ import annotations

import errno
import os
import tempfile
import threading
import time

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from evenjoin.errors import StateCorruptionError
from evenjoin.state.copies import CACHE_SECONDS
from evenjoin.state.files import Folder, LocalFolder, MemoryFolder, open_folder
from evenjoin.state.remote import RemoteFolder


@pytest.fixture(params=["memory", "local", "remote on a disk", "remote below a prefix", "remote in memory"])
def folder(request, tmp_path, monkeypatch):
    """An empty folder of each kind; the cache of remote ones is thrown away."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    disk = pafs.LocalFileSystem()
    (tmp_path / "sub").mkdir()
    return {
        "memory": lambda: MemoryFolder(),
        "local": lambda: LocalFolder(str(tmp_path / "ck")),
        "remote on a disk": lambda: RemoteFolder(disk, str(tmp_path / "ck")),
        "remote below a prefix": lambda: RemoteFolder(pafs.SubTreeFileSystem(str(tmp_path / "sub"), disk), "ck"),
        "remote in memory": lambda: RemoteFolder(pafs._MockFileSystem(), "ck"),
    }[request.param]()


def test_it_is_a_folder(folder):
    """Every kind has the whole interface."""
    assert isinstance(folder, Folder)
    assert open_folder(folder) is folder


def test_what_is_written_is_loaded(folder):
    """Bytes and buffers, empty ones too, in folders nobody made."""
    for name, data in [("a", b"1"), ("x/y/z.arrow", b"segment"), ("x/empty", b""), ("x/empty.arrow", b"")]:
        folder.write(name, data)
        assert folder.load(name).to_pybytes() == data
    folder.write("buffer", pa.py_buffer(b"abc"))
    assert folder.load("buffer").to_pybytes() == b"abc"


def test_write_replaces(folder):
    """The new content, whole; a buffer loaded before keeps the old."""
    folder.write("x/receipt.json", b"old and long")
    before = folder.load("x/receipt.json")
    folder.write("x/receipt.json", b"new")
    assert folder.load("x/receipt.json").to_pybytes() == b"new"
    assert before.to_pybytes() == b"old and long"


def test_create_refuses_the_second(folder):
    """The first one wins and stays."""
    assert folder.create("commits/7", b"first") is True
    assert folder.create("commits/7", b"second") is False
    assert folder.load("commits/7").to_pybytes() == b"first"
    assert folder.names("commits") == ["7"]


def test_names_are_the_direct_children(folder):
    """Sorted, files and folders, without what is being written; none for a folder that is not there."""
    for name in ("s/b/1.arrow", "s/a", "s/b/2.arrow", "sb/c"):
        folder.write(name, b"x")
    assert folder.names("s") == ["a", "b"]
    assert folder.names("s/b") == ["1.arrow", "2.arrow"]
    assert folder.names("nowhere") == []


def test_a_missing_file_says_so(folder):
    """FileNotFoundError, for a file, a segment, and one that was deleted."""
    folder.write("s/1.arrow", b"x")
    folder.load("s/1.arrow")
    folder.delete("s/1.arrow")
    for name in ("commits/1", "s/2.arrow", "s/1.arrow"):
        with pytest.raises(FileNotFoundError):
            folder.load(name)


def test_deleting_what_is_not_there_is_fine(folder):
    """delete and delete_folder may be repeated, as a crash may repeat them."""
    folder.write("s/b/1.arrow", b"x")
    folder.write("s/c", b"x")
    for _ in range(2):
        folder.delete("s/c")
        folder.delete_folder("s/b")
        folder.delete("nowhere/at/all")
        folder.delete_folder("nowhere")
    assert folder.names("s/b") == []
    folder.write("s/b/2.arrow", b"again")
    assert folder.names("s/b") == ["2.arrow"]


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_create_is_won_by_one_of_many(kind, tmp_path):
    """Eight threads at once: exactly one creates the file, and its content is what is there."""
    folder = MemoryFolder() if kind == "memory" else LocalFolder(str(tmp_path))
    won, start = [], threading.Barrier(8)

    def run(number):
        start.wait()
        if folder.create("commits/1", b"%d" % number):
            won.append(number)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [b"%d" % n for n in won] == [folder.load("commits/1").to_pybytes()]
    assert folder.names("commits") == ["1"]


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    """A full disk: no half file, no temporary one, and the old content is still there."""
    folder = LocalFolder(str(tmp_path))
    folder.create("commits/1", b"old")

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        folder.create("commits/2", b"new")
    assert os.listdir(tmp_path / "commits") == ["1"]


def test_a_remote_copy_that_fails_leaves_nothing(tmp_path, monkeypatch):
    """The local copy of a segment is whole or not there."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = RemoteFolder(pafs._MockFileSystem(), "ck")
    folder.write("s/1.arrow", b"x" * 100)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("shutil.copyfileobj", full)
        with pytest.raises(OSError, match="No space"):
            folder.load("s/1.arrow")
    assert [name for _, _, names in os.walk(tmp_path) for name in names] == []
    assert folder.load("s/1.arrow").to_pybytes() == b"x" * 100


def test_remote_segments_are_copied_once_and_not_kept_for_ever(tmp_path, monkeypatch):
    """A second load reads this machine's copy; copies more than a day old make room."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    system = pafs._MockFileSystem()
    folder = RemoteFolder(system, "ck")
    names = [f"s/{n}.arrow" for n in range(200)]
    for name in names:
        folder.write(name, b"x")
        folder.load(name)
    system.delete_file("ck/s/0.arrow")
    assert folder.load("s/0.arrow").to_pybytes() == b"x"
    (cache,) = tmp_path.glob("evenjoin-*/*")
    assert len(list(cache.iterdir())) == 200
    long_ago = time.time() - CACHE_SECONDS - 1
    for copy in cache.iterdir():
        os.utime(copy, (long_ago, long_ago))
    for number in range(200):
        folder.write(f"t/{number}.arrow", b"y")
        folder.load(f"t/{number}.arrow")
    assert {copy.name[0] for copy in cache.iterdir()} == {"t"}


@pytest.mark.parametrize("location", ["ck", "file:{here}/ck", "file://{here}/ck", "{here}/ck"])
def test_local_locations(location, tmp_path, monkeypatch):
    """A path, a file: URI and a file:// URI are the same local folder."""
    monkeypatch.chdir(tmp_path)
    assert open_folder(location.format(here=tmp_path)) == LocalFolder(str(tmp_path / "ck"))
    assert open_folder(tmp_path / "ck") == LocalFolder(str(tmp_path / "ck"))


def test_other_locations_are_file_systems():
    """A URI of another scheme is a pyarrow file system."""
    folder = open_folder("mock:///ck/join")
    assert isinstance(folder, RemoteFolder)
    folder.write("a", b"1")
    assert folder.load("a").to_pybytes() == b"1"


@pytest.mark.parametrize("link", ["segments", "segments/7"])
def test_deleting_follows_no_link(link, tmp_path):
    """Neither to a file nor to a folder behind it: they are somebody else's. The link itself is not removed either."""
    (tmp_path / "theirs" / "7").mkdir(parents=True)
    for name in ("7/a.arrow", "a.arrow"):
        (tmp_path / "theirs" / name).touch()
    (tmp_path / "ck" / link).parent.mkdir(parents=True)
    (tmp_path / "ck" / link).symlink_to(tmp_path / "theirs", target_is_directory=True)
    ours = LocalFolder(str(tmp_path / "ck"))
    for delete, name in ((ours.delete, f"{link}/a.arrow"), (ours.delete, "segments/7/a.arrow"),
                         (ours.delete_folder, "segments/7"), (ours.delete_folder, link)):  # fmt: skip
        with pytest.raises(StateCorruptionError, match=f"ck/{link} leads out"):
            delete(name)
    assert sorted(path.name for path in (tmp_path / "theirs").rglob("*.arrow")) == ["a.arrow", "a.arrow"]
    assert (tmp_path / "ck" / link).is_symlink()


def test_deleting_does_not_climb(tmp_path):
    """A name with `..` in it leads out as well."""
    (tmp_path / "theirs").mkdir()
    for delete in (LocalFolder(str(tmp_path / "ck")).delete, LocalFolder(str(tmp_path / "ck")).delete_folder):
        with pytest.raises(StateCorruptionError, match="leads out"):
            delete("segments/../../theirs/x")
    assert (tmp_path / "theirs").exists()


def test_a_folder_may_be_a_link_as_a_whole(tmp_path):
    """Then what is in it is its own, links in it are removed, and what they lead to stays."""
    (tmp_path / "disk" / "segments" / "7").mkdir(parents=True)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "disk/segments/7/link").symlink_to(tmp_path / "theirs")
    (tmp_path / "ck").symlink_to(tmp_path / "disk")
    LocalFolder(str(tmp_path / "ck")).delete_folder("segments/7")
    assert not (tmp_path / "disk/segments/7").exists()
    assert (tmp_path / "theirs").exists()
