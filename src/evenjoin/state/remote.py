"""A folder on a file system of pyarrow.fs: an object store, HDFS, a mount.

`write` writes `<name>.<32 hex digits>.part` and moves it to its name, so a reader never sees half a file. Segments are
copied to this machine's disk once, and mapped from there (copies.py).

What `create` guarantees depends on the store. In each case a reader sees the whole file or none, and whoever gets False
has changed nothing.

1. With a conditional request (exclusive.py): exactly one of any number of creators gets True, whatever else happens.
   Before a process relies on it, it creates a file of its own twice. If the second request is not refused, the store
   ignores the condition, and 2 applies. If pyarrow does not see the file, it and the package that made the request are
   not configured for the same store, and a StorageError says so.
2. Otherwise the unfinished file is a creator's claim. It writes its claim, *then* looks for other claims and for the
   file, and moves its claim to the name only if it saw neither:

       A   claim ─── look ─── move          If both moved, B's look came before A's claim or after A's move. After it,
       B          claim ─── look ✗          B sees the file. Before it, A's look comes after B's claim, so A sees that.

   So at most one creator gets True, on every store whose listings are up to date at once: S3, GCS, Azure, HDFS and
   disks are. If two come in the same instant, both may get False. A claim that a crash left keeps the name taken until
   it is collected (commit/leftovers.py).
   Not guaranteed: if a driver stands still between look and move until its lease has run out (commit/lease.py) and the
   next driver has collected its claim, both may get True.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa
import pyarrow.fs as pafs

from evenjoin.errors import StorageError
from evenjoin.state import exclusive
from evenjoin.state.copies import Copies
from evenjoin.state.trouble import told

PART = re.compile(r"\.[0-9a-f]{32}\.part$")
"""How the name of an unfinished file ends."""
_HONOURED: dict[tuple[str, str], bool] = {}
"""Whether the store refuses a conditional request for a name that is taken, by (kind of store, checkpoint)."""


LISTINGS = 8
"""How often a folder is listed again in which files go at the same time."""


@dataclass(frozen=True, slots=True)
class RemoteFolder:
    """A folder on a pyarrow file system. `conditional` creates files where the store can (see above), and `location` is
    the URI under which Spark and people know it."""

    filesystem: pafs.FileSystem = field(repr=False)
    root: str
    conditional: exclusive.Conditional | None = None
    location: str = field(default="", repr=False)

    @told("read")
    def load(self, name: str) -> pa.Buffer:
        if not name.endswith(".arrow"):
            with self.filesystem.open_input_stream(self._path(name)) as stream:
                return pa.py_buffer(stream.read())
        copies = self._copies()
        try:
            return copies.load(name)
        except FileNotFoundError:
            with self.filesystem.open_input_stream(self._path(name)) as stream:
                copies.keep(name, stream)
            return copies.load(name)

    @told("read")
    def reload(self, name: str) -> pa.Buffer:
        self._copies().drop(name)
        return self.load(name)

    @told("write")
    def write(self, name: str, data: bytes | pa.Buffer) -> None:
        self.filesystem.move(self._path(self._write_part(name, data)), self._path(name))

    @told("write")
    def create(self, name: str, data: bytes) -> bool:
        if self._exists(self._path(name)):
            return False
        system = self._conditional_system()
        if system is None:
            return self._create_alone(name, data)
        return exclusive.create(system, self._path(name), data)

    @told("list")
    def names(self, folder: str) -> list[str]:
        return sorted(info.base_name for info in self._infos(folder) if not info.base_name.endswith(".part"))

    @told("list")
    def parts(self, folder: str, reach: Literal["here", "below"] = "below") -> list[str]:
        found = (info.path.strip("/") for info in self._infos(folder, recursive=reach == "below"))
        return sorted(path.removeprefix(f"{self.root.strip('/')}/") for path in found if PART.search(path))

    @told("delete")
    def delete(self, name: str) -> None:
        if name.endswith(".arrow"):
            self._copies().drop(name)
        if self._exists(self._path(name)):
            self.filesystem.delete_file(self._path(name))

    @told("delete")
    def delete_folder(self, folder: str) -> None:
        if self._exists(self._path(folder)):
            self.filesystem.delete_dir(self._path(folder))

    def sync(self, names: Iterable[str]) -> None:
        """A store has a file for good when it says that it was written."""

    def _create_alone(self, name: str, data: bytes) -> bool:
        """Create a file on a store without conditional requests, as the top of this file says."""
        mine = self._write_part(name, data)
        claims = {part for part in self.parts(os.path.dirname(name), "here") if PART.sub("", part) == name}
        if claims == {mine} and not self._exists(self._path(name)):
            with suppress(FileNotFoundError):  # the claim was collected: another driver holds the checkpoint by now
                self.filesystem.move(self._path(mine), self._path(name))
                return True
        with suppress(OSError):
            self.filesystem.delete_file(self._path(mine))
        return False

    def _conditional_system(self) -> object | None:
        """The fsspec file system that creates here; None if the store has no conditional requests."""
        wrapped = exclusive.wrapped(self.filesystem)
        if self.conditional is not None:
            system = self.conditional.system()
        else:
            system = None if wrapped is None else exclusive.exclusive(wrapped)
        store = self.filesystem.type_name, self.root
        if system is not None and store not in _HONOURED:
            _HONOURED[store] = self._honours(system)
        return system if system is not None and _HONOURED[store] else None

    def _honours(self, system: object) -> bool:
        """Whether the store refuses the second of two conditional requests for one name."""
        probe = f"probe.{uuid.uuid4().hex}.part"
        made = exclusive.create(system, self._path(probe), b"first")
        try:
            if not made or not self._exists(self._path(probe)):
                raise StorageError(
                    f"{type(system).__name__} of fsspec created {probe} in {self.root}, but pyarrow does not find it "
                    "there: give both the same endpoint, region and keys, in the environment or in the URI"
                )
            return not exclusive.create(system, self._path(probe), b"second")
        finally:
            self.delete(probe)

    def _write_part(self, name: str, data: bytes | pa.Buffer) -> str:
        """Write an unfinished file, and return its name."""
        part = f"{name}.{uuid.uuid4().hex}.part"
        self.filesystem.create_dir(os.path.dirname(self._path(name)), recursive=True)
        try:
            with self.filesystem.open_output_stream(self._path(part)) as out:
                out.write(data)
        except BaseException:
            with suppress(OSError):
                self.filesystem.delete_file(self._path(part))
            raise
        return part

    def _infos(self, folder: str, recursive: bool = False) -> list[pafs.FileInfo]:
        system = exclusive.wrapped(self.filesystem)
        if system is not None:
            system.invalidate_cache()  # fsspec remembers listings, and other processes write here
        selector = pafs.FileSelector(self._path(folder), allow_not_found=True, recursive=recursive)
        infos: list[pafs.FileInfo] = []
        for left in reversed(range(LISTINGS)):
            try:
                infos = self.filesystem.get_file_info(selector)
                break
            except FileNotFoundError:  # a file went while the folder was being listed
                if not left:
                    raise
        return infos

    def _exists(self, path: str) -> bool:
        return bool(self.filesystem.get_file_info(path).type != pafs.FileType.NotFound)

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def _copies(self) -> Copies:
        return Copies(f"{self.filesystem.type_name}:{self.root}")
