"""Copies of remote segments on this machine's disk, which are mapped instead of being read again and again.

    <temporary folder>/evenjoin-<user>/<store and checkpoint>/segments-3-0-new-i1-abc.arrow

The folder of the user has mode 0700. One that somebody else made, that others may enter or that is a link is refused:
in a temporary folder that all users share, anybody could have put copies there.

* A copy appears whole or not at all.
* A copy is dropped a day after it was made; whoever still needs it copies it again. What a crash left unfinished is
  dropped an hour after it was begun, when a process first uses the folder.

Not guaranteed: that a copy is still what was copied. Whoever knows the checksum compares it and calls `drop`
(state/segment.py).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import time
import uuid
import zlib
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from evenjoin.errors import CheckpointError

CACHE_SECONDS = 24 * 3600
"""A copy is dropped this long after it was made."""
UNFINISHED_SECONDS = 3600
"""No copy takes so long: a `.part` file of that age belongs to a process that has died."""

_TIDIED: set[Path] = set()
"""The folders that this process has tidied once."""


class Copies:
    """The copies of one checkpoint's files. `mark` says which checkpoint, on which store."""

    def __init__(self, mark: str) -> None:
        self._folder = private_folder() / hashlib.sha256(mark.encode()).hexdigest()[:16]
        self._folder.mkdir(mode=0o700, exist_ok=True)
        if self._folder not in _TIDIED:
            _TIDIED.add(self._folder)
            self._tidy()

    def load(self, name: str) -> pa.Buffer:
        """A copy, mapped. FileNotFoundError if there is none."""
        path = str(self._path(name))
        if os.path.getsize(path) == 0:
            return pa.py_buffer(b"")
        with pa.memory_map(path) as mapped:
            return mapped.read_buffer()

    def keep(self, name: str, stream: IO[bytes] | Any) -> None:
        """Copy what the stream gives."""
        path = self._path(name)
        part = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
        try:
            with open(part, "xb") as out:
                shutil.copyfileobj(stream, out, 1 << 22)
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
        if zlib.crc32(name.encode()) % 32 == 0:  # for one copy in 32: listing a folder costs time
            self._tidy()

    def drop(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / name.replace("/", "-")

    def _tidy(self) -> None:
        now = time.time()
        for copy in self._folder.iterdir():
            with suppress(FileNotFoundError):  # another process removes old copies too
                if copy.stat().st_mtime < now - (UNFINISHED_SECONDS if copy.suffix == ".part" else CACHE_SECONDS):
                    copy.unlink()


def private_folder() -> Path:
    """This user's folder for copies. CheckpointError if it is not private."""
    folder = Path(tempfile.gettempdir()) / f"evenjoin-{os.geteuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
    if not private:
        raise CheckpointError(
            f"copies of the checkpoint's files cannot be kept in {folder}: it must be a folder, not a link, that "
            "belongs to this user and that nobody else may enter; remove it, or set TMPDIR to another folder"
        )
    return folder
