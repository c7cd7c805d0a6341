"""One driver per checkpoint folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from evenjoin.commit.owner import Owner
from evenjoin.errors import CheckpointInUseError
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


def test_folders_without_locks_are_left_to_the_commit_log():
    """No lock in memory: the second commit of a batch is what is refused there."""
    folder = MemoryFolder()
    one, two = Owner(folder), Owner(folder)
    one.release()
    two.release()
    assert folder.files == {}
