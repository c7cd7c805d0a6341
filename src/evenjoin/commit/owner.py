"""One driver per checkpoint. The second query on a folder is refused while the first one lives.

On local disks and mounts the driver holds a lock (`flock`) on the file `owner.lock`. The system releases it when the
process dies, however it dies.
Not guaranteed: on object stores and in memory there is no lock. There the commit log is the fence, which refuses the
second commit of a batch (state/files.py says how far that goes).
"""

from __future__ import annotations

import fcntl
import os
from typing import IO

from evenjoin.errors import CheckpointInUseError
from evenjoin.state.files import Folder, LocalFolder

LOCK = "owner.lock"


class Owner:
    """Holds a checkpoint until `release`. CheckpointInUseError if another driver holds it."""

    def __init__(self, folder: Folder) -> None:
        self._handle: IO[str] | None = None
        if isinstance(folder, LocalFolder):
            os.makedirs(folder.root, exist_ok=True)
            self._handle = open(os.path.join(folder.root, LOCK), "a+")  # noqa: SIM115 - held until release
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._handle.seek(0)
                holder = self._handle.read().strip() or "another process"
                self._handle.close()
                raise CheckpointInUseError(
                    f"checkpoint {folder.root} is in use by {holder}; stop that query first, or use another folder"
                ) from None
            self._handle.truncate(0)
            self._handle.write(f"process {os.getpid()}")
            self._handle.flush()

    def release(self) -> None:
        if self._handle is not None:
            self._handle.close()
            self._handle = None
