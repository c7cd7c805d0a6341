"""One driver per checkpoint folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from evenjoin.commit.owner import Owner
from evenjoin.errors import CheckpointInUseError, StorageError
from evenjoin.state.files import LocalFolder, MemoryFolder

HOLD = """
import sys
from evenjoin.commit.owner import Owner
from evenjoin.state.files import LocalFolder
owner = Owner(LocalFolder(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the checkpoint."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert process.stdout.readline().strip() == b"held"
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_a_second_process_is_refused_until_the_first_dies(holder, tmp_path):
    """The message names the folder and the process that holds it; SIGKILL of that process frees the folder."""
    folder = LocalFolder(str(tmp_path))
    with pytest.raises(CheckpointInUseError, match=f"{tmp_path} is in use by process {holder.pid}; stop that query"):
        Owner(folder)
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    Owner(folder).release()


def test_the_same_process_is_refused_too(tmp_path):
    """Two queries of one session; after release the next may have it. Releasing twice does no harm."""
    first = Owner(LocalFolder(str(tmp_path)))
    with pytest.raises(CheckpointInUseError, match=f"process {os.getpid()}"):
        Owner(LocalFolder(str(tmp_path)))
    first.release()
    first.release()
    Owner(LocalFolder(str(tmp_path))).release()


FORK = """
import os, sys
from evenjoin.commit.owner import Owner
from evenjoin.errors import CheckpointInUseError
from evenjoin.state.files import LocalFolder
owner = Owner(LocalFolder(sys.argv[1]))
if os.fork() == 0:
    try:
        owner.check()
    except CheckpointInUseError as error:
        os.write(1, f"{error}\\n".encode())
    owner.release()
os.write(1, b"held\\n")
sys.stdin.read()
"""


def test_a_forked_child_does_not_hold_the_lock(tmp_path):
    """The parent holds it while it lives, whatever the child does. When the parent dies the folder is free, although
    the child lives on; and the child knows that the checkpoint is not its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", FORK, str(tmp_path)], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    folder = LocalFolder(str(tmp_path))
    try:
        said = sorted(process.stdout.readline().strip() for _ in range(3))
        assert said[:2] == ["held", "held"]
        assert f"held by process {process.pid}, of which this one is a fork" in said[2]
        with pytest.raises(CheckpointInUseError, match=f"process {process.pid}"):
            Owner(folder)
        process.kill()
        process.wait()
        Owner(folder).release()
    finally:
        process.stdin.close()  # this ends the child too
        assert process.stdout.read() == ""
        process.stdout.close()
        process.wait()


def test_a_folder_that_cannot_be_written_is_refused_in_our_words(tmp_path):
    """A file stands where the checkpoint's folder should be: which file, which checkpoint, why."""
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"cannot write owner\.lock in the checkpoint .*/file/ck: Not a directory"):
        Owner(LocalFolder(str(tmp_path / "file" / "ck")))


def test_folders_in_memory_are_left_to_the_commit_log():
    """No lock in memory: the second commit of a batch is what is refused there."""
    folder = MemoryFolder()
    one, two = Owner(folder), Owner(folder)
    one.release()
    two.release()
    assert folder.files == {}
