"""Taking back the last commit: what to do when it is damaged, or names files that a power cut has damaged.

    commits/6   batch 4
    commits/7   batch 5        damaged
    commits/8   start, last: 6      <- appended; the next driver goes on from batch 4 and replays batch 5

Nothing is rewritten. A start that names an earlier commit takes the later one back, and fences off whoever still runs.
Spark's own checkpoint is made to match: its note that the batch is done goes, and plans for later batches go, so that
Spark replays the batch with the same offsets. If the batch was shown in an output of files, its folder there goes, and
readers miss the batch until it is shown again.

Guarantee: state and answers are those of the commit before. The driver keeps the files that the last commit but one
names; if any of them is gone or has another size, nothing is changed and StateCorruptionError says so.
Not guaranteed: more than one commit back, and a sink that cannot replace a batch gets it a second time.
"""

from __future__ import annotations

from dataclasses import dataclass

from evenjoin.commit.identity import check_ours, recorded_log
from evenjoin.commit.log import Commit, CommitLog, Start
from evenjoin.commit.owner import Owner
from evenjoin.commit.shown import Shown, hide
from evenjoin.errors import StateCorruptionError
from evenjoin.state.files import Folder
from evenjoin.state.places import open_place


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The batch that is to be replayed, and the last batch that now counts (None: the join begins anew)."""

    batch: int
    last: int | None


def take_back(folder: Folder) -> TakenBack:
    """Take the last commit of a checkpoint back. CheckpointInUseError while a query holds the checkpoint."""
    check_ours(folder)
    owner = Owner(folder)
    try:
        log = recorded_log(folder)
        entries = log.entries()
        before = _before_last(log, entries)
        if before is not None:
            _check_files(folder, before)
        batch = 0 if before is None else before.batch + 1
        output = _output(log, entries, before)
        log.append_start(Start(entries[-1] + 1, before.entry if before else None))
        if output is not None:
            hide(open_place(output.output), batch, output.staged(folder))
        _rewind_spark(folder, batch)
    finally:
        owner.release()
    return TakenBack(batch, before.batch if before else None)


def _before_last(log: CommitLog, entries: list[int]) -> Commit | None:
    """The commit before the last one, which need not be readable; None if the last one is the first."""
    seen = _readable(log, entries[-1]) if entries else None
    last = seen.last if isinstance(seen, Start) else entries[-1] if entries else None
    if last is None:
        raise StateCorruptionError("the checkpoint has no commit that could be taken back")
    commit = _readable(log, last)
    if isinstance(commit, Commit):
        number = commit.previous
    else:
        beside = log.read(last - 1) if last - 1 in entries else None
        number = beside.last if isinstance(beside, Start) else beside.entry if beside is not None else None
    found = log.read(number) if number is not None else None
    return found if isinstance(found, Commit) else None


def _output(log: CommitLog, entries: list[int], before: Commit | None) -> Shown | None:
    """Where the batch was shown: by its own commit, or if that cannot be read by the one before."""
    seen = _readable(log, entries[-1])
    last = _readable(log, seen.last) if isinstance(seen, Start) and seen.last is not None else seen
    commit = last if isinstance(last, Commit) else before
    return None if commit is None else commit.output


def _readable(log: CommitLog, entry: int) -> Commit | Start | None:
    try:
        return log.read(entry)
    except StateCorruptionError:
        return None


def _check_files(folder: Folder, commit: Commit) -> None:
    for _, _, run in commit.manifest:
        try:
            whole = folder.load(run.file).size == run.file_bytes
        except FileNotFoundError:
            whole = False
        if not whole:
            raise StateCorruptionError(
                f"batch {commit.batch} cannot be gone back to: its {run.file} is gone or damaged; nothing was changed"
            )


def _rewind_spark(folder: Folder, batch: int) -> None:
    """Make Spark replay the batch: it is not done, and no later one is planned."""
    for log, first in (("spark/commits", batch), ("spark/offsets", batch + 1)):
        for name in folder.names(log):
            number = name.removeprefix(".").removesuffix(".crc")
            if number.isdigit() and int(number) >= first:
                folder.delete(f"{log}/{name}")
