"""Places for output: folders outside of the checkpoint, on any file system of pyarrow.

    open_place("out")  open_place("hdfs://name:8020/out")  open_place("s3a://bucket/out")

A folder of the checkpoint (files.py) holds whole files by name. Output needs other things: a file that is written while
it grows, a folder that is moved as a whole, and the sizes of what is there.

* `renames` says whether a folder moves in one step that no reader sees half of: on local disks and mounts, and on HDFS.
  Object stores have no folders: there files are copied one by one.
* `stream` opens a file in a folder that must be there (object stores do not ask for one). So a task that outlives its
  batch cannot write any more once the folder was deleted.
* A path without a scheme is on this machine's disks. `s3a://`, as Spark calls it, is `s3://` to pyarrow.
* What the file system refuses is a StorageError that names the place.

Not here: what is staged and shown, and when (commit/staging.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from evenjoin.errors import StorageError
from evenjoin.state.files import Folder, LocalFolder
from evenjoin.state.locations import open_uri, path_here
from evenjoin.state.remote import RemoteFolder

RENAMING = ("local", "hdfs")
"""The kinds of file systems on which a folder is renamed in one step."""
FLAT = ("s3", "gcs", "abfs")
"""Those that have no folders: nothing has to be made before a file is written."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder: its file system, its path there, and its path or URI as Spark and people are told."""

    filesystem: pafs.FileSystem = field(repr=False, compare=False)
    path: str
    location: str

    @property
    def renames(self) -> bool:
        return self.filesystem.type_name in RENAMING

    def below(self, name: str) -> Place:
        """The folder of this name in here."""
        uri = urlsplit(self.location) if "://" in self.location else None
        location = f"{self.location}/{name}" if uri is None else uri._replace(path=f"{uri.path}/{name}").geturl()
        return Place(self.filesystem, f"{self.path}/{name}", location)

    def beside(self, name: str) -> Place:
        """The folder of this name next to this one."""
        uri = urlsplit(self.location) if "://" in self.location else None
        above = os.path.dirname(self.location if uri is None else uri.path)
        location = f"{above}/{name}" if uri is None else uri._replace(path=f"{above}/{name}").geturl()
        return Place(self.filesystem, f"{os.path.dirname(self.path)}/{name}", location)

    def holds(self, other: Place) -> bool:
        """Whether another place is this one or lies in it."""
        return self.filesystem.equals(other.filesystem) and f"{_real(other)}/".startswith(f"{_real(self)}/")

    def stream(self, name: str) -> pa.NativeFile:
        """Open a new file to write to. The folder must be there."""
        with self._told("write", name):
            return self.filesystem.open_output_stream(f"{self.path}/{name}")

    def write(self, name: str, data: bytes) -> None:
        with self.stream(name) as out:
            out.write(data)

    def read(self, name: str) -> bytes:
        """A file's bytes. FileNotFoundError if there is none."""
        with self.filesystem.open_input_stream(f"{self.path}/{name}") as stream:
            return bytes(stream.read())

    def make(self) -> None:
        with self._told("make"):
            self.filesystem.create_dir(self.path, recursive=True)

    def room_for(self, name: str) -> None:
        """Make the folder of a file in here, where the store has folders."""
        if self.filesystem.type_name not in FLAT:
            folder = name.rpartition("/")[0]
            (self.below(folder) if folder else self).make()

    def exists(self) -> bool:
        with self._told("read"):
            return bool(self.filesystem.get_file_info(self.path).type != pafs.FileType.NotFound)

    def sizes(self) -> dict[str, int]:
        """The files in here and in folders below, by their names from here, with their sizes."""
        with self._told("list"):
            selector = pafs.FileSelector(self.path, allow_not_found=True, recursive=True)
            infos = self.filesystem.get_file_info(selector)
        base = len(self.path.rstrip("/")) + 1
        return {info.path[base:]: info.size for info in infos if info.type == pafs.FileType.File}

    def names(self) -> list[str]:
        """What is directly in here, sorted."""
        with self._told("list"):
            infos = self.filesystem.get_file_info(pafs.FileSelector(self.path, allow_not_found=True))
        return sorted(info.base_name for info in infos)

    def move_to(self, target: Place) -> None:
        """Rename this folder or file. FileNotFoundError if it is gone; StorageError if that cannot be done."""
        with self._told("rename"):
            self.filesystem.move(self.path, target.path)

    def copy_file(self, name: str, target: Place, new: str) -> None:
        with target._told("write", new):
            self.filesystem.copy_file(f"{self.path}/{name}", f"{target.path}/{new}")

    def delete_file(self, name: str) -> None:
        with self._told("delete", name):
            self.filesystem.delete_file(f"{self.path}/{name}")

    def delete(self) -> None:
        """Delete the folder with all that is in it, if it is there."""
        with self._told("delete"):
            if self.exists():
                self.filesystem.delete_dir(self.path)

    @contextmanager
    def _told(self, verb: str, name: str = "") -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, StorageError) or (verb == "rename" and isinstance(error, FileNotFoundError)):
                raise
            where = f"{self.location}/{name}" if name else self.location
            told = StorageError(f"cannot {verb} the output's {where}: {error.strerror or error}")
            told.errno = error.errno
            raise told from error


def open_place(location: str | os.PathLike[str]) -> Place:
    """The place at a path or URI."""
    text = os.fspath(location).rstrip("/") or "/"
    here = path_here(text)
    if here is not None:
        return Place(pafs.LocalFileSystem(), here, f"file:{here}")
    filesystem, path = open_uri(text)
    return Place(filesystem, path.rstrip("/"), text)


def place_of(folder: Folder) -> Place | None:
    """The place where a checkpoint lies; None if that is in memory."""
    if isinstance(folder, LocalFolder):
        return open_place(folder.root)
    if isinstance(folder, RemoteFolder):
        return Place(folder.filesystem, folder.root.rstrip("/"), folder.location or folder.root)
    return None


def _real(place: Place) -> str:
    return os.path.realpath(place.path) if place.filesystem.type_name == "local" else place.path.rstrip("/")
