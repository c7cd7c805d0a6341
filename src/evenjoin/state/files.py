"""A checkpoint's folder: the few operations on files the engine needs, in memory, on local disks and on pyarrow.fs.

The folders of pyarrow.fs (object stores, HDFS) are in remote.py.

Contract of every folder:

* `write` makes the whole file appear, or none. A reader never sees half of it. It replaces an old file of that name.
* `create` does the same, but refuses (it returns False) when the name is taken.
* `load` returns a file's bytes as an Arrow buffer, memory-mapped where that is possible. A missing file raises
  FileNotFoundError. `reload` does the same, but reads the file itself where `load` may read a copy of it.
* `names` lists what is directly in a folder, sorted; a missing folder is empty. Deleting what is missing does nothing.
* `sync` returns when the files, and their names in the folders above them, would survive a power cut.
* `parts` lists unfinished files: those that are being written, and those that a crash left. `names` hides them.
* Names are relative and use `/`. Folders need not be made first.
* What the file system refuses is a StorageError that names the file (trouble.py).
* Deleting stays inside the folder. On a local disk it does not follow a symbolic link, wherever on the way that is; the
  folder itself may be one.

Contract of every caller: a `.arrow` file is never replaced, because its name says which attempt wrote it. So a copy of
it may be cached.

Not guaranteed: that `create` is exclusive for a driver which stood still for longer than its lease, on a store without
conditional requests (remote.py).
`write` on a local disk is not forced to the disk before it returns, and neither is the name of what `create` makes:
that takes `sync`.
"""

from __future__ import annotations

import os
import shutil
import threading
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import pyarrow as pa

from evenjoin.errors import StateCorruptionError
from evenjoin.state.exclusive import conditional
from evenjoin.state.locations import open_uri, path_here
from evenjoin.state.remote import PART, RemoteFolder
from evenjoin.state.trouble import told

SYNCED_AT_ONCE = 8
"""Files that are forced to the disk at the same time."""


@runtime_checkable
class Folder(Protocol):
    """What the engine asks of a folder. The contract is at the top of this file."""

    def load(self, name: str) -> pa.Buffer: ...
    def reload(self, name: str) -> pa.Buffer: ...
    def write(self, name: str, data: bytes | pa.Buffer) -> None: ...
    def create(self, name: str, data: bytes) -> bool: ...
    def names(self, folder: str) -> list[str]: ...
    def parts(self, folder: str, reach: Literal["here", "below"] = "below") -> list[str]: ...
    def delete(self, name: str) -> None: ...
    def delete_folder(self, folder: str) -> None: ...
    def sync(self, names: Iterable[str]) -> None: ...


def open_folder(location: str | os.PathLike[str] | Folder) -> Folder:
    """The folder at a path or URI (`ck`, `file:/ck`, `s3://bucket/ck`, `hdfs://...`). A Folder is returned as it is."""
    if not isinstance(location, (str, os.PathLike)):
        return location
    text = os.fspath(location)
    here = path_here(text)
    if here is not None:
        return LocalFolder(here)
    filesystem, path = open_uri(text)
    return RemoteFolder(filesystem, path, conditional(text.replace("s3a://", "s3://", 1)), text.rstrip("/"))


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A folder on a disk of this machine, or on a shared mount."""

    root: str

    @told("read")
    def load(self, name: str) -> pa.Buffer:
        path = self._path(name)
        if os.path.getsize(path) == 0:
            return pa.py_buffer(b"")
        with pa.memory_map(path) as mapped:
            return mapped.read_buffer()

    def reload(self, name: str) -> pa.Buffer:
        return self.load(name)

    @told("write")
    def write(self, name: str, data: bytes | pa.Buffer) -> None:
        part = self._write_part(name, data)
        os.replace(part, self._path(name))

    @told("write")
    def create(self, name: str, data: bytes) -> bool:
        part = self._write_part(name, data, sync="fsync")
        try:
            os.link(part, self._path(name))
            return True
        except FileExistsError:
            return False
        finally:
            os.unlink(part)

    @told("list")
    def names(self, folder: str) -> list[str]:
        try:
            return sorted(n for n in os.listdir(self._path(folder)) if not n.endswith(".part"))
        except FileNotFoundError:
            return []

    @told("list")
    def parts(self, folder: str, reach: Literal["here", "below"] = "below") -> list[str]:
        found = []
        for path, folders, names in os.walk(self._path(folder)):
            found += [os.path.relpath(os.path.join(path, name), self.root) for name in names if PART.search(name)]
            if reach == "here":
                folders.clear()
        return sorted(found)

    @told("delete")
    def delete(self, name: str) -> None:
        self._check_inside(os.path.dirname(name))
        Path(self._path(name)).unlink(missing_ok=True)

    def delete_folder(self, folder: str) -> None:
        self._check_inside(folder)
        shutil.rmtree(self._path(folder), ignore_errors=True)

    def sync(self, names: Iterable[str]) -> None:
        """Several at a time: a disk syncs some files together in hardly more time than one."""
        files = [*names]
        folders = {self._path(parent) for name in files for parent in ("", *_parents(name))}
        with ThreadPoolExecutor(SYNCED_AT_ONCE) as pool:
            list(pool.map(_fsync, map(self._path, files)))
            list(pool.map(_fsync, folders))

    def _check_inside(self, folder: str) -> None:
        """Refuse to delete in a folder that a symbolic link leads to: what is there is somebody else's."""
        path = self.root
        for part in folder.split("/"):
            path = os.path.join(path, part)
            if part == ".." or os.path.islink(path):
                raise StateCorruptionError(
                    f"{path} leads out of {self.root}, so nothing is deleted there: put the folder itself in that "
                    "place (a checkpoint may be linked as a whole only)"
                )

    def _path(self, name: str) -> str:
        return os.path.join(self.root, name)

    def _write_part(self, name: str, data: bytes | pa.Buffer, sync: str = "") -> str:
        path = self._path(name)
        part = f"{path}.{uuid.uuid4().hex}.part"
        try:
            handle = open(part, "xb")  # noqa: SIM115 - closed by the `with` below
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            handle = open(part, "xb")  # noqa: SIM115
        try:
            with handle:
                handle.write(memoryview(data))
                if sync:
                    handle.flush()
                    os.fsync(handle.fileno())
        except BaseException:
            os.unlink(part)
            raise
        return part


def _parents(name: str) -> list[str]:
    """The folders above a file, by their relative names."""
    parts = name.split("/")[:-1]
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]


def _fsync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(slots=True)
class MemoryFolder:
    """A folder in this process: where the embedded engine keeps its state when it has no checkpoint."""

    files: dict[str, pa.Buffer] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self, name: str) -> pa.Buffer:
        try:
            return self.files[name]
        except KeyError:
            raise FileNotFoundError(name) from None

    def reload(self, name: str) -> pa.Buffer:
        return self.load(name)

    def write(self, name: str, data: bytes | pa.Buffer) -> None:
        self.files[name] = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)

    def create(self, name: str, data: bytes) -> bool:
        with self._lock:
            if name in self.files:
                return False
            self.write(name, data)
            return True

    def names(self, folder: str) -> list[str]:
        start = f"{folder.rstrip('/')}/" if folder else ""
        return sorted({n[len(start) :].split("/")[0] for n in self.files if n.startswith(start)})

    def parts(self, folder: str, reach: Literal["here", "below"] = "below") -> list[str]:
        return []

    def delete(self, name: str) -> None:
        self.files.pop(name, None)

    def delete_folder(self, folder: str) -> None:
        for name in [n for n in self.files if n.startswith(folder.rstrip("/") + "/")]:
            del self.files[name]

    def sync(self, names: Iterable[str]) -> None:
        """Nothing here survives the process anyway."""
