"""What a file system refuses is told in our words: the file, the checkpoint, the reason, what to do."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import evenjoin
from evenjoin.errors import CheckpointError, EvenJoinError, StorageError
from evenjoin.state.files import LocalFolder
from evenjoin.state.trouble import trouble

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")

SCHEMAS = {alias: pa.schema([("k", pa.int64())]) for alias in "lr"}
ROWS = {alias: pa.table({"k": [1, 2, 2]}) for alias in "lr"}


@contextmanager
def somebody():
    """As a user to whom permissions apply. Whoever is not root is one already."""
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(me)


@pytest.fixture
def place():
    """A folder that any user may reach and write."""
    path = Path(tempfile.mkdtemp(prefix="evenjoin-test-"))
    path.chmod(0o777)
    yield path
    for folder, _, _ in os.walk(path):
        os.chmod(folder, 0o777)
    shutil.rmtree(path)


@contextmanager
def read_only(path):
    mode = stat.S_IMODE(path.stat().st_mode)
    path.chmod(0o555)
    try:
        yield
    finally:
        path.chmod(mode)


NOT_ALLOWED = "Permission denied; the user who runs the join must be allowed to read and write there"


def test_a_start_on_a_read_only_folder(place):
    """The first file that cannot be written is named, with the checkpoint and what to do."""
    with read_only(place), somebody(), pytest.raises(StorageError, match=rf"owner\.lock in .*{place}: {NOT_ALLOWED}"):
        evenjoin.local(SCHEMAS, "l.k = r.k", checkpoint=place)


@pytest.mark.parametrize("folder", ["segments", "receipts", "commits"])
def test_a_folder_that_becomes_read_only_while_the_join_runs(folder, place):
    """The batch fails with the name of the file, and is replayed when the folder can be written again."""
    with somebody(), evenjoin.local(SCHEMAS, "l.k = r.k", checkpoint=place) as join:
        results = [join.process(ROWS).num_rows]
        (place / folder).mkdir(exist_ok=True)
        with (
            read_only(place / folder),
            pytest.raises(StorageError, match=rf"cannot write {folder}/[12].*{NOT_ALLOWED}"),
        ):
            join.process(ROWS)
        results.append(join.process(ROWS).num_rows)
    assert results == [5, 15]


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda folder: folder.load("a"), "cannot read a in the checkpoint"),
        (lambda folder: folder.write("b", b"x"), "cannot write b in the checkpoint"),
        (lambda folder: folder.create("b", b"x"), "cannot write b in the checkpoint"),
        (lambda folder: folder.names(""), "cannot list the checkpoint"),
        (lambda folder: folder.delete("a"), "cannot delete a in the checkpoint"),
    ],
)
def test_every_operation_names_its_file(act, said, place):
    """In a folder that may not be entered at all."""
    ck = place / "ck"
    ck.mkdir()
    (ck / "a").write_bytes(b"x")
    folder = LocalFolder(str(ck))
    ck.chmod(0o000)
    with somebody(), pytest.raises(StorageError, match=f"{said} {ck}: {NOT_ALLOWED}"):
        act(folder)


def test_a_file_in_the_place_of_a_folder(tmp_path):
    """It cannot be a checkpoint, and the message says which path is meant."""
    (tmp_path / "ck").touch()
    with pytest.raises(StorageError, match=f"cannot list the checkpoint {tmp_path}/ck: Not a directory"):
        evenjoin.local(SCHEMAS, "l.k = r.k", checkpoint=tmp_path / "ck")


def test_a_missing_file_stays_a_missing_file(tmp_path):
    """To whoever reads it that is an answer."""
    with pytest.raises(FileNotFoundError) as missing:
        LocalFolder(str(tmp_path)).load("commits/1")
    assert not isinstance(missing.value, EvenJoinError)


def test_it_is_an_error_of_both_families_and_travels(tmp_path):
    """Whoever handles full disks by OSError and errno goes on doing so; a worker's error reaches the driver."""
    error = trouble("write", "commits/1", "/ck", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert isinstance(error, OSError)
    assert isinstance(error, CheckpointError)
    assert error.errno == errno.ENOSPC
    assert "No space left on device; make room there and go on" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
