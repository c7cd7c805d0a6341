"""What the name of a folder means: a path of this machine, or a URI of a file system that pyarrow opens.

    out             this machine, below the working directory       s3a://bucket/out     S3, `s3://` to pyarrow
    file:/a/out     this machine                                    hdfs://nn:8020/out   HDFS
    hdfs:/out       refused: Hadoop would add a host, pyarrow would not, so both would mean different folders
    dbfs://x/out    refused: pyarrow has no such file system

Not here: what Spark makes of a path without a scheme (runtime/spark/sinks.py).
"""

from __future__ import annotations

import os
import re

import pyarrow as pa
import pyarrow.fs as pafs

from evenjoin.errors import SpecError

NEEDED = (
    "write it with a host, such as hdfs://name:8020/out or s3a://bucket/out; the path of a mounted folder of this "
    "machine is file:/out"
)
_HOSTLESS = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+:/(?!/)")


def lacks_host(text: str) -> bool:
    """Whether this is a URI without `//` and a host, of another file system than this machine's."""
    return _HOSTLESS.match(text) is not None


def path_here(text: str) -> str | None:
    """The absolute path on this machine's disks; None if the name is a URI of another file system. SpecError if it is
    one that lacks its host."""
    if text.startswith("file:"):
        return "/" + text[len("file:") :].lstrip("/")
    if "://" in text:
        return None
    if lacks_host(text):
        raise SpecError(f"{text!r} is no path of this machine: {NEEDED}")
    return os.path.abspath(text)


def open_uri(uri: str) -> tuple[pafs.FileSystem, str]:
    """The file system of a URI, and the path there. SpecError if pyarrow has none for it."""
    try:
        filesystem, path = pafs.FileSystem.from_uri(uri.replace("s3a://", "s3://", 1))
    except pa.ArrowInvalid as error:
        raise SpecError(f"{uri!r} cannot be opened ({error}): pyarrow reads file, s3, gs, abfs and hdfs") from error
    return filesystem, str(path)
