"""A checkpoint's folder: the few operations on files the engine needs, in memory, on local disks and on pyarrow.fs.

Contract of every folder:

* `write` makes the whole file appear, or none. A reader never sees half of it. It replaces an old file of that name.
* `create` does the same, but refuses (it returns False) when the name is taken.
* `load` returns a file's bytes as an Arrow buffer, memory-mapped where that is possible. A missing file raises
  FileNotFoundError.
* `names` lists what is directly in a folder, sorted; a missing folder is empty. Deleting what is missing does nothing.
* `sync` returns when the files, and their names in the folders above them, would survive a power cut.
* Names are relative and use `/`. Folders need not be made first.

Contract of every caller: a `.arrow` file is never replaced, because its name says which attempt wrote it. So a copy of
it may be cached.

Not guaranteed: on object stores `create` first looks and then writes. Two drivers that commit the same batch of one
checkpoint in the same instant may both believe that they did. On local disks commit/owner.py keeps the second one out.
`write` on a local disk is not forced to the disk before it returns, and neither is the name of what `create` makes:
that takes `sync`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
import uuid
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.fs as pafs

SYNCED_AT_ONCE = 8
"""Files that are forced to the disk at the same time."""
CACHE_SECONDS = 24 * 3600
"""A local copy of a remote segment is dropped this long after it was made. Whoever still needs it copies it again."""


@runtime_checkable
class Folder(Protocol):
    """What the engine asks of a folder. The contract is at the top of this file."""

    def load(self, name: str) -> pa.Buffer: ...
    def write(self, name: str, data: bytes | pa.Buffer) -> None: ...
    def create(self, name: str, data: bytes) -> bool: ...
    def names(self, folder: str) -> list[str]: ...
    def delete(self, name: str) -> None: ...
    def delete_folder(self, folder: str) -> None: ...
    def sync(self, names: Iterable[str]) -> None: ...


def open_folder(location: str | os.PathLike[str] | Folder) -> Folder:
    """The folder at a path or URI (`ck`, `file:/ck`, `s3://bucket/ck`, `hdfs://...`). A Folder is returned as it is."""
    if not isinstance(location, (str, os.PathLike)):
        return location
    text = os.fspath(location)
    if "://" not in text and not text.startswith("file:"):
        return LocalFolder(os.path.abspath(text))
    if text.startswith("file:"):
        return LocalFolder("/" + text[len("file:") :].lstrip("/"))
    filesystem, path = pafs.FileSystem.from_uri(text.replace("s3a://", "s3://", 1))
    return RemoteFolder(filesystem, path)


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A folder on a disk of this machine, or on a shared mount."""

    root: str

    def load(self, name: str) -> pa.Buffer:
        path = self._path(name)
        if os.path.getsize(path) == 0:
            return pa.py_buffer(b"")
        with pa.memory_map(path) as mapped:
            return mapped.read_buffer()

    def write(self, name: str, data: bytes | pa.Buffer) -> None:
        part = self._write_part(name, data)
        os.replace(part, self._path(name))

    def create(self, name: str, data: bytes) -> bool:
        part = self._write_part(name, data, sync="fsync")
        try:
            os.link(part, self._path(name))
            return True
        except FileExistsError:
            return False
        finally:
            os.unlink(part)

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(n for n in os.listdir(self._path(folder)) if not n.endswith(".part"))
        except FileNotFoundError:
            return []

    def delete(self, name: str) -> None:
        Path(self._path(name)).unlink(missing_ok=True)

    def delete_folder(self, folder: str) -> None:
        shutil.rmtree(self._path(folder), ignore_errors=True)

    def sync(self, names: Iterable[str]) -> None:
        """Several at a time: a disk syncs some files together in hardly more time than one."""
        files = [*names]
        folders = {self._path(parent) for name in files for parent in ("", *_parents(name))}
        with ThreadPoolExecutor(SYNCED_AT_ONCE) as pool:
            list(pool.map(_fsync, map(self._path, files)))
            list(pool.map(_fsync, folders))

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

    def delete(self, name: str) -> None:
        self.files.pop(name, None)

    def delete_folder(self, folder: str) -> None:
        for name in [n for n in self.files if n.startswith(folder.rstrip("/") + "/")]:
            del self.files[name]

    def sync(self, names: Iterable[str]) -> None:
        """Nothing here survives the process anyway."""


@dataclass(frozen=True, slots=True)
class RemoteFolder:
    """A folder on a pyarrow file system. A segment is copied to this machine's disk once, and mapped from there."""

    filesystem: pafs.FileSystem
    root: str

    def load(self, name: str) -> pa.Buffer:
        if not name.endswith(".arrow"):
            with self.filesystem.open_input_stream(self._path(name)) as stream:
                return pa.py_buffer(stream.read())
        cached = self._cache() / name.replace("/", "-")
        copies = LocalFolder(str(cached.parent))
        try:
            return copies.load(cached.name)
        except FileNotFoundError:
            self._copy(name, cached)
            return copies.load(cached.name)

    def _copy(self, name: str, cached: Path) -> None:
        part = cached.with_suffix(f".{uuid.uuid4().hex}.part")
        try:
            with self.filesystem.open_input_stream(self._path(name)) as stream, open(part, "xb") as out:
                shutil.copyfileobj(stream, out, 1 << 22)
            os.replace(part, cached)
        finally:
            part.unlink(missing_ok=True)
        if zlib.crc32(name.encode()) % 32 == 0:  # for one copy in 32: listing a folder costs time
            old = time.time() - CACHE_SECONDS
            for copy in cached.parent.iterdir():
                with suppress(FileNotFoundError):  # another process removes old copies too
                    if copy.stat().st_mtime < old:
                        copy.unlink()

    def write(self, name: str, data: bytes | pa.Buffer) -> None:
        path = self._path(name)
        self.filesystem.create_dir(os.path.dirname(path), recursive=True)
        part = f"{path}.{uuid.uuid4().hex}.part"
        with self.filesystem.open_output_stream(part) as out:
            out.write(data)
        self.filesystem.move(part, path)

    def create(self, name: str, data: bytes) -> bool:
        if self.filesystem.get_file_info(self._path(name)).type != pafs.FileType.NotFound:
            return False
        self.write(name, data)
        return True

    def names(self, folder: str) -> list[str]:
        selector = pafs.FileSelector(self._path(folder), allow_not_found=True)
        found = (info.base_name for info in self.filesystem.get_file_info(selector))
        return sorted(n for n in found if not n.endswith(".part"))

    def delete(self, name: str) -> None:
        (self._cache() / name.replace("/", "-")).unlink(missing_ok=True)
        if self.filesystem.get_file_info(self._path(name)).type != pafs.FileType.NotFound:
            self.filesystem.delete_file(self._path(name))

    def delete_folder(self, folder: str) -> None:
        if self.filesystem.get_file_info(self._path(folder)).type != pafs.FileType.NotFound:
            self.filesystem.delete_dir(self._path(folder))

    def sync(self, names: Iterable[str]) -> None:
        """An object store has a file for good when it says that it was written."""

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def _cache(self) -> Path:
        """The folder on this machine that holds copies of the checkpoint's segments."""
        mark = f"{self.filesystem.type_name}:{self.root}"
        cache = Path(tempfile.gettempdir()) / f"evenjoin-cache-{zlib.crc32(mark.encode()):08x}"
        cache.mkdir(exist_ok=True)
        return cache
