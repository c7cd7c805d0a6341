"""Unfinished files of a crash are collected at the start, and only those."""

from __future__ import annotations

import tempfile

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

import evenjoin
from evenjoin.commit.leftovers import FOLDERS, collect_parts
from evenjoin.state.files import LocalFolder, MemoryFolder
from evenjoin.state.remote import RemoteFolder

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")

SCHEMAS = {alias: pa.schema([("k", pa.int64())]) for alias in "lr"}
ROWS = {alias: pa.table({"k": [1, 2, 2]}) for alias in "lr"}


@pytest.fixture(params=["local", "remote on a disk", "remote in memory"])
def folder(request, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return {
        "local": lambda: LocalFolder(str(tmp_path / "ck")),
        "remote on a disk": lambda: RemoteFolder(pafs.LocalFileSystem(), str(tmp_path / "ck")),
        "remote in memory": lambda: RemoteFolder(pafs._MockFileSystem(), "ck"),
    }[request.param]()


def leave(folder, name):
    """What a process leaves that dies while it writes."""
    part = f"{name}.{'0a' * 16}.part"
    folder.write(part, b"half")
    return part


def test_a_start_collects_what_a_crash_left_unfinished(folder):
    """In every folder of the checkpoint, also beside files that are in use; the join goes on."""
    with evenjoin.local(SCHEMAS, "l.k = r.k", checkpoint=folder) as join:
        first = join.process(ROWS)
    left = [leave(folder, name) for name in ("segments/0/x.arrow", "commits/1", "tables/9-x", "join.json")]
    left += [leave(folder, name) for name in ("receipts/1/0-x.json", "late/1/0-x.arrow", "owner/7")]
    assert sorted(folder.parts("")) == sorted(left)
    with evenjoin.local(SCHEMAS, "l.k = r.k", checkpoint=folder) as join:
        assert folder.parts("") == []
        assert join.process(ROWS).num_rows == 3 * first.num_rows


def test_only_our_own_unfinished_files_are_collected(folder):
    """Not those of Spark, nor a file that somebody else named so."""
    for name in ("spark/offsets/1", "elsewhere/x"):
        leave(folder, name)
    folder.write("commits/notes.part", b"mine")
    folder.write("join.json", b"{}")
    collect_parts(folder)
    assert len(folder.parts("")) == 2
    assert folder.load("commits/notes.part").to_pybytes() == b"mine"


def test_a_link_is_not_followed(tmp_path):
    """What lies behind a link in the checkpoint is not the checkpoint's."""
    folder, other = LocalFolder(str(tmp_path / "ck")), LocalFolder(str(tmp_path / "other"))
    part = leave(other, "x")
    folder.write("segments/0/a.arrow", b"x")
    (tmp_path / "ck/segments/1").symlink_to(tmp_path / "other")
    collect_parts(folder)
    assert other.parts("") == [part]


def test_memory_has_no_unfinished_files():
    """Nothing to collect, nothing fails."""
    folder = MemoryFolder()
    folder.write("commits/1", b"x")
    collect_parts(folder)
    assert [folder.parts(name) for name in FOLDERS] == [[]] * len(FOLDERS)
