"""`_evenjoin.json` in an output folder: which checkpoint its files belong to.

    {"checkpoint": "6f1e...", "note": "written by EvenJoin ..."}

A join shows a batch under the batch's number (shown.py), and late rows are replaced under that number. Two checkpoints
that write into one folder would be in each other's way. So:

* a folder whose marker names another checkpoint is refused, also if that checkpoint was deleted and made anew at the
  same path: its uuid is another one (identity.py);
* a folder that holds anything without a marker is refused: nobody knows whose it is;
* the marker is created before the first write, and asked for before each write.

The marker's name begins with `_`, so Spark, pyarrow and others that read the folder skip it. Other names that begin
with `_` or `.` do not make a folder somebody's, except for `_spark_metadata`: where it is, Spark reads only what it
names. The checkpoint itself may lie in the output folder.
Not guaranteed: on object stores two joins that start on an empty folder in the same instant may both believe that it is
theirs (state/files.py). Nor is a folder kept from programs that are not EvenJoin.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from evenjoin.errors import CheckpointMismatchError
from evenjoin.state.files import Folder, LocalFolder, open_folder
from evenjoin.state.places import Place, open_place
from evenjoin.state.remote import RemoteFolder

MARKER = "_evenjoin.json"
NOTE = "the files of this folder belong to this checkpoint of EvenJoin; others are refused"


@dataclass(frozen=True, slots=True)
class Output:
    """A folder that a join writes to: a path or URI, and the checkpoint (its uuid and folder) that it has to be of."""

    location: str
    uuid: str
    checkpoint: Folder

    @property
    def folder(self) -> Folder:
        return open_folder(self.location)

    @property
    def place(self) -> Place:
        return open_place(self.location)

    def check(self) -> bool:
        """Whether the marker is there. CheckpointMismatchError if the folder is another's. Nothing is written."""
        owner = self._owner()
        if owner is not None and owner != self.uuid:
            raise CheckpointMismatchError(
                f"{self.location} holds the output of another checkpoint: its {MARKER} names {owner or 'none'}, this "
                f"one is {self.uuid}. Its files would be overwritten: give this join another folder, or go on with the "
                "checkpoint that they belong to, or delete the folder if nobody needs it"
            )
        there = [] if owner is not None else self._strangers()
        if there:
            raise CheckpointMismatchError(
                f"{self.location} is not empty and has no {MARKER}: it holds {there[0]!r}"
                f"{f' and {len(there) - 1} more' if len(there) > 1 else ''}, which might be overwritten. "
                "Give this join a folder of its own"
            )
        return owner is not None

    def claim(self) -> None:
        """Make the folder this checkpoint's, unless it is already. To be asked before each write."""
        data = json.dumps({"checkpoint": self.uuid, "note": NOTE}).encode()
        if not self.check() and not self.folder.create(MARKER, data):
            self.check()  # another join was faster

    def _owner(self) -> str | None:
        """The checkpoint that the marker names; None without a marker, "" if it is damaged."""
        try:
            data = json.loads(self.folder.load(MARKER).to_pybytes())
        except FileNotFoundError:
            return None
        except ValueError:
            return ""
        return str(data.get("checkpoint", "")) if isinstance(data, dict) else ""

    def _strangers(self) -> list[str]:
        """What is in the folder, apart from hidden names and the checkpoint."""
        names = [name for name in self.folder.names("") if name != self._way_to_checkpoint()]
        return [name for name in names if not name.startswith(("_", ".")) or name == "_spark_metadata"]

    def _way_to_checkpoint(self) -> str:
        """The name in this folder that leads to the checkpoint; "" if it lies elsewhere."""
        here, there = _root(self.folder), _root(self.checkpoint)
        return there[len(here) + 1 :].split("/")[0] if here and there.startswith(f"{here}/") else ""


def _root(folder: Folder) -> str:
    if isinstance(folder, LocalFolder):
        return os.path.realpath(folder.root)
    return f"{folder.filesystem.type_name}:{folder.root}" if isinstance(folder, RemoteFolder) else ""
