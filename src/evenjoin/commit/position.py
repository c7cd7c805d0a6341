"""A batch number means the same data for ever: whether the source stands where the commits say.

The source numbers the batches (Spark does, in `spark/` of the checkpoint), and each commit keeps `offsets`: a digest of
everything the source had read up to and including that batch (runtime/spark/offsets.py makes it). Before a batch is
left out or joined, what the source says now is compared with what the commit says:

    batch n was committed     it may be left out iff the source has read up to n what commit n says
    batch n is the next one   it may be joined iff the source has read up to n - 1 what commit n - 1 says

If not, the source's part of the checkpoint was deleted, rolled back or replaced. Then its batches hold rows that were
never joined under numbers that were, or the other way round; to go on would lose or repeat results without a word.

Not for a runtime that gives no digest (""): the embedded engine's caller brings the rows and their numbers, and answers
for both.
"""

from __future__ import annotations

from collections.abc import Callable

from evenjoin.commit.log import KEEP_COMMITS, Commit, CommitLog
from evenjoin.errors import StateCorruptionError

ADVICE = (
    "spark/ of the checkpoint was deleted, rolled back or replaced; to go on would lose or repeat results. "
    "Restore spark/ as it was at the last commit, or start with a new checkpoint"
)


def check_position(log: CommitLog, last: Commit | None, batch: int, offsets: Callable[[int], str]) -> None:
    """StateCorruptionError if this batch does not hold what its number stands for. `last` is the last commit."""
    if last is None:
        if batch > 0:
            raise StateCorruptionError(
                f"commits/ of the checkpoint is empty, but Spark goes on with batch {batch}: restore the commits, or "
                "start with a new checkpoint"
            )
        return
    if batch > last.batch + 1:
        return  # a commit is missing: the driver says so
    at = min(batch, last.batch)
    commit = last if at == last.batch else next((c for c in log.commits() if c.batch == at), None)
    if commit is None:
        raise StateCorruptionError(
            f"Spark starts again with batch {at}, but batch {last.batch} is committed, and only the last "
            f"{KEEP_COMMITS} entries are kept to compare with: {ADVICE}"
        )
    if offsets(at) != commit.offsets:
        raise StateCorruptionError(
            f"batch {at} held other data when it was committed (the last commit is batch {last.batch}): {ADVICE}"
        )
