"""What a commit says of its output, and the step that shows it: one rename of a folder.

    <staging>/ready/7.s3t1/          all files of batch 7, whole, named by the commit
             │ rename, after the commit
    <output>/batch_id=7/             what readers see

Guarantees, on local disks, mounts and HDFS:

* A reader of the output sees whole committed batches only, at every moment.
* Nothing that was shown is replaced or changed.
* `show` may be called again, by whoever starts after a crash and by two drivers at once: if the folder is gone from the
  staging, somebody has shown it.

On object stores a folder cannot be renamed. There the ready folder is a list of files (`ready/7.s3t1.json`), and `show`
copies them to their final names, writes `_SUCCESS` last and then deletes the list. While the list is there this is done
again, which does no harm: names and contents are fixed. A reader sees committed files only, each whole and none twice,
but a batch appears file by file; its `_SUCCESS` says that it is whole.
Not guaranteed: that what was shown survives a power cut. Not here: how files become ready (staging.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

from evenjoin.errors import StorageError
from evenjoin.state.files import Folder
from evenjoin.state.places import Place, open_place, place_of

READY, TASKS, HIDDEN = "ready", "tasks", "hidden"
"""The folders of a staging: batches that are whole, files that tasks write, and what is about to be deleted."""
SUCCESS = "_SUCCESS"
OWN = "output"
"""The checkpoint's own folder for staging."""

Step = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Shown:
    """The output of a batch.

    output    where the output is
    staging   where its files were staged; "" is the checkpoint's own folder for that, wherever the checkpoint lies
    ready     the name of the batch's folder there; "" if the batch has nothing to show
    batch     its number
    """

    output: str
    staging: str
    ready: str
    batch: int

    @property
    def target(self) -> Place:
        """The batch's folder in the output."""
        return batch_folder(open_place(self.output), self.batch)

    def staged(self, checkpoint: Folder) -> Place | None:
        """The folder for staging; None if it was the checkpoint's and that has none, because it is in memory."""
        if self.staging:
            return open_place(self.staging)
        own = place_of(checkpoint)
        return None if own is None else own.below(OWN)


def batch_folder(output: Place, batch: int) -> Place:
    return output.below(f"batch_id={batch}")


def show(shown: Shown, checkpoint: Folder, step: Step | None = None) -> None:
    """Let readers see a committed batch, unless that was done. `step` is called after each copy; tests crash there."""
    staging = shown.staged(checkpoint)
    if not shown.ready or staging is None:
        return
    if staging.renames:
        _rename(staging.below(READY).below(shown.ready), shown.target, open_place(shown.output))
    else:
        _copy(staging, shown, step or _no_step)


def _rename(ready: Place, target: Place, output: Place) -> None:
    if target.exists() and ready.exists():  # in this order: whoever shows it meanwhile takes the ready one away
        raise taken(target)
    try:
        ready.move_to(target)
    except (FileNotFoundError, StorageError):
        if ready.exists():  # else somebody has shown it; perhaps the output is gone
            output.make()
            ready.move_to(target)


def _copy(staging: Place, shown: Shown, step: Step) -> None:
    listed = f"{READY}/{shown.ready}.json"
    try:
        data = staging.read(listed)
    except FileNotFoundError:
        return
    for source, name, _, _ in json.loads(data)["files"]:
        shown.target.room_for(name)
        staging.copy_file(source, shown.target, name)
        step("copied")
    shown.target.room_for(SUCCESS)
    shown.target.write(SUCCESS, data)
    step("copied")
    staging.delete_file(listed)


def taken(target: Place) -> StorageError:
    return StorageError(
        f"{target.location} exists already, and what readers may have seen is not replaced. Either somebody else "
        "writes to this output, or an older copy of the checkpoint was restored: delete that folder to have it written "
        "again"
    )


def hide(output: Place, batch: int, staging: Place | None) -> None:
    """Take a batch out of the output in one step, as far as the store has it; the batch will be shown again."""
    target = batch_folder(output, batch)
    if staging is not None and staging.renames:
        sweep(target, staging)
    else:
        target.delete()


def sweep(folder: Place, staging: Place) -> None:
    """Delete a folder with all that is in it. Where that can be done it is moved away first: a task that still writes
    to it fails, and cannot add files while they are deleted."""
    if folder.renames:
        hidden = staging.below(HIDDEN)
        hidden.make()
        try:
            folder.move_to(hidden.below(name := uuid4().hex))
        except FileNotFoundError:
            return
        folder = hidden.below(name)
    with suppress(OSError):  # another driver deletes it at the same time; what stays goes at the next start
        folder.delete()


def clear(staging: Place) -> None:
    """Delete all that is staged. What the last commit names has to be shown before."""
    for name in (TASKS, READY):
        sweep(staging.below(name), staging)
    with suppress(OSError):
        staging.below(HIDDEN).delete()


def success(files: Iterable[tuple[str, str, int, int]]) -> bytes:
    """The list of a batch's files: (name in the staging, name in the batch's folder, rows, bytes); -1 rows: unknown."""
    return json.dumps({"files": [list(file) for file in files]}).encode()


def _no_step(name: str) -> None:
    """Does nothing."""
