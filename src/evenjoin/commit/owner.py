"""One driver per checkpoint. The second query on a folder is refused while the first one lives.

    local disks, mounts    a lock (`flock`) on the file `owner.lock`. The system releases it when the process dies,
                           however it dies. A forked child lets it go at once, so one that outlives its parent does not
                           hold it
    object stores, HDFS    a lease with a fencing number, `owner/<number>`, which a thread renews (lease.py)
    memory                 nothing: no other process sees the folder

The driver takes the checkpoint before it deletes anything there, and asks `check` before it deletes or commits.
Not guaranteed: that a lease is exclusive when clocks differ or processes stand still; that a lock is, after somebody
deletes `owner.lock` under a running query, because the next one locks a new file. Then the commit log is the fence.
Between two queries of one process nobody holds the checkpoint, and another process may take it.
"""

from __future__ import annotations

import fcntl
import os
import time
import weakref
from collections.abc import Callable
from io import FileIO

from evenjoin.commit.lease import Lease
from evenjoin.errors import CheckpointInUseError
from evenjoin.state.files import Folder, LocalFolder
from evenjoin.state.remote import RemoteFolder
from evenjoin.state.trouble import trouble

LOCK = "owner.lock"


class Owner:
    """Holds a checkpoint until `release`. CheckpointInUseError if another driver holds it. `now` is the clock of
    leases."""

    def __init__(self, folder: Folder, now: Callable[[], float] = time.time) -> None:
        self._process = os.getpid()
        self._lock = Lock(folder.root) if isinstance(folder, LocalFolder) else None
        self._lease = Lease(folder, now) if isinstance(folder, RemoteFolder) else None

    @property
    def sure(self) -> bool:
        """Whether only this process can end the hold, so that there is nothing to check. A lock is sure, except in a
        forked child; a lease is not."""
        return self._lease is None and os.getpid() == self._process

    def check(self) -> None:
        """CheckpointInUseError if this process does not hold the checkpoint any more."""
        if os.getpid() != self._process:
            raise CheckpointInUseError(
                f"the checkpoint is held by process {self._process}, of which this one is a fork: use the join there, "
                "or start another one here on a checkpoint of its own"
            )
        if self._lease is not None:
            self._lease.check()

    def release(self) -> None:
        if os.getpid() != self._process:
            return
        if self._lock is not None:
            self._lock.close()
        if self._lease is not None:
            self._lease.release()


class Lock:
    """A lock on a local folder, held until `close`. CheckpointInUseError if somebody else holds it."""

    def __init__(self, root: str) -> None:
        try:
            os.makedirs(root, exist_ok=True)
            self._file = FileIO(os.open(os.path.join(root, LOCK), os.O_RDWR | os.O_CREAT, 0o666), "r+")
        except OSError as error:
            raise trouble("write", LOCK, root, error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = self._file.read(200).decode(errors="replace").strip() or "another process"
            self._file.close()
            raise CheckpointInUseError(
                f"checkpoint {root} is in use by {holder}; stop that query first, or use another folder"
            ) from None
        _LOCKS.add(self)
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()}".encode())

    def close(self) -> None:
        self._file.close()


_LOCKS: weakref.WeakSet[Lock] = weakref.WeakSet()


def _let_go() -> None:
    """In a forked child: close its copies of the locks. The parent's stay, until they are closed too."""
    for lock in list(_LOCKS):
        lock.close()


os.register_at_fork(after_in_child=_let_go)
