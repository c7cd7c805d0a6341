"""What a file system refuses, told in our own words: which file of which checkpoint, why, and what to do.

    @told("write")                     No space left on device  ->  StorageError("cannot write segments/3/x.arrow in
    def write(self, name, data): ...                                the checkpoint /ck: No space left on device; ...")

A StorageError is an OSError too, so whoever handles full disks as such goes on doing so.
Invariant: a missing file stays a FileNotFoundError where it is read, because to callers that is an answer.
Not here: files that can be read but are damaged (StateCorruptionError, where they are checked).
"""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable
from typing import Any, Literal, TypeVar, cast

from evenjoin.errors import CheckpointError, StorageError

Verb = Literal["read", "write", "list", "delete"]
F = TypeVar("F", bound=Callable[..., Any])

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
NOT_ALLOWED = {errno.EACCES, errno.EPERM, errno.EROFS}


def told(verb: Verb) -> Callable[[F], F]:
    """For a method of a folder whose first argument is a file's name: its OSErrors become StorageErrors."""

    def wrap(method: F) -> F:
        @functools.wraps(method)
        def _call(self: Any, name: str, *rest: Any) -> Any:
            try:
                return method(self, name, *rest)
            except OSError as error:
                if isinstance(error, CheckpointError) or (verb == "read" and isinstance(error, FileNotFoundError)):
                    raise
                raise trouble(verb, name, str(self.root), error) from error

        return cast(F, _call)

    return wrap


def trouble(verb: Verb, name: str, root: str, error: OSError) -> StorageError:
    """The error that tells what could not be done to a file of the checkpoint at `root`; "" is its folder."""
    what = f"{name} in the checkpoint {root}" if name else f"the checkpoint {root}"
    told = StorageError(f"cannot {verb} {what}: {error.strerror or error}{_advice(error)}")
    told.errno = error.errno
    return told


def _advice(error: OSError) -> str:
    if error.errno in NO_ROOM:
        return "; make room there and go on: what was committed is safe, and the batch is replayed"
    if error.errno in NOT_ALLOWED or isinstance(error, PermissionError):
        return "; the user who runs the join must be allowed to read and write there"
    return ""
