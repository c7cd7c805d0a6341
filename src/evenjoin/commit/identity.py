"""`join.json`: which join a checkpoint belongs to, and which version of EvenJoin wrote it.

    {"format": 3, "version": "0.1.0", "uuid": "6f1e...", "seed": 8841..., "join": {"sides": [...], "condition": ...}}

It is created by the first start on a folder and never changed. Every later start must agree with it:

* on `format`, the number of the checkpoint's file formats. Another number, or none, is refused, because the other files
  would be misread; the message says which version wrote the checkpoint.
* on `join`, the fingerprint of the join. Another one is refused with every difference named.

The version is for people: two versions with the same format read each other's checkpoints.

`uuid` and `seed` are drawn at random when the checkpoint is made, and stay with it. The uuid tells it from every other
checkpoint, also from one made later at the same path: commits and outputs carry it. The seed goes into hashes, so that
nobody who writes the data can know which keys will collide.

A folder that holds anything else, and no `join.json`, is refused before anything is written (`check_ours`): the engine
deletes files that no commit names, so it must be sure that they are its own. Hidden files do not count.
Not here: settings that may change on a restart (runtime/settings.py), and who holds the checkpoint (owner.py).
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evenjoin.commit.log import CommitLog, checked, read_checked
from evenjoin.commit.owner import LOCK
from evenjoin.errors import CheckpointMismatchError, StateCorruptionError
from evenjoin.state.files import Folder
from evenjoin.version import FORMAT, VERSION

NAME = "join.json"


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells a checkpoint from every other: its uuid, and the seed of its hashes (64 bits)."""

    uuid: str
    seed: int

    @classmethod
    def drawn(cls) -> Identity:
        return cls(uuid.uuid4().hex, secrets.randbits(64))


def claim(folder: Folder, fingerprint: Mapping[str, object], drawn: Identity | None = None) -> Identity:
    """Claim a new checkpoint for this join. CheckpointMismatchError if it belongs to another join already.

    `drawn` is the identity of a new checkpoint; absent, a random one. An old checkpoint keeps its own.
    """
    mine = drawn or Identity.drawn()
    data = {"format": FORMAT, "version": VERSION, "uuid": mine.uuid, "seed": mine.seed, "join": dict(fingerprint)}
    if folder.create(NAME, checked(data)):
        return mine
    theirs, identity = recorded_join(folder), recorded_identity(folder)
    different = [name for name in sorted({*fingerprint, *theirs}) if fingerprint.get(name) != theirs.get(name)]
    if different:
        lines = [f"  {n}: checkpoint has {theirs.get(n)!r}, this join has {fingerprint.get(n)!r}" for n in different]
        raise CheckpointMismatchError(
            "the checkpoint belongs to another join; use a new checkpoint folder or the original join\n"
            + "\n".join(lines)
        )
    return identity


def check_ours(folder: Folder) -> None:
    """Refuse a folder that is neither a checkpoint nor empty. To be asked before anything is written into it."""
    there = [name for name in folder.names("") if not name.startswith(".") and name != LOCK]
    if not there or NAME in there:
        return
    if folder.names("commits") and folder.names("tables"):
        raise StateCorruptionError(
            f"{NAME} is missing from the checkpoint, but its commits are there: restore it, or start a new checkpoint"
        )
    raise CheckpointMismatchError(
        f"the folder is not a checkpoint of EvenJoin: it has no {NAME}, but holds {there[0]!r}"
        f"{f' and {len(there) - 1} more' if len(there) > 1 else ''}; give the join a folder of its own"
    )


def recorded_join(folder: Folder) -> dict[str, Any]:
    """The fingerprint of the join that a checkpoint belongs to. CheckpointMismatchError if it has another format."""
    join: dict[str, Any] = _recorded(folder)["join"]
    return join


def recorded_identity(folder: Folder) -> Identity:
    """The identity of a checkpoint. CheckpointMismatchError if it has another format."""
    data = _recorded(folder)
    return Identity(data["uuid"], data["seed"])


def recorded_log(folder: Folder) -> CommitLog:
    """The commit log of a checkpoint, for whoever only looks at it."""
    return CommitLog(folder, recorded_identity(folder).uuid)


def _recorded(folder: Folder) -> dict[str, Any]:
    data = read_checked(folder, NAME)
    if data.get("format") != FORMAT:
        raise CheckpointMismatchError(
            f"the checkpoint was written by {_writer(data)}; this is EvenJoin {VERSION}, which reads format {FORMAT}. "
            "Go on with the version that wrote it, or start with a new checkpoint folder"
        )
    return data


def _writer(data: Mapping[str, Any]) -> str:
    if "format" not in data:
        return "an EvenJoin of before formats had numbers"
    return f"EvenJoin {data.get('version', 'of unknown version')} in format {data['format']}"
