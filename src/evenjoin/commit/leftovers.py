"""Unfinished files that a crash left in a checkpoint, and how they are collected.

A file is written under the name `<name>.<32 hex digits>.part` and then moved or linked to its own (state/files.py). A
process that dies in between leaves the unfinished one, and no listing shows it. On an object store it may also be a
claim, which keeps its name taken (state/remote.py).

Invariant: only names of this form are deleted, only in the folders that the engine writes, and links are not followed.
To be called by whoever holds the checkpoint (owner.py), before it creates anything.
Not here: whole files that no commit names (runtime/driver.py), and copies on this machine (state/copies.py).
"""

from __future__ import annotations

from evenjoin.commit.lease import LEASES
from evenjoin.state.files import Folder

FOLDERS = ("segments", "receipts", "late", "commits", "tables", LEASES)


def collect_parts(folder: Folder) -> None:
    """Delete the unfinished files of a checkpoint."""
    below = [part for name in FOLDERS for part in folder.parts(name)]
    for part in [*folder.parts("", "here"), *below]:
        folder.delete(part)
