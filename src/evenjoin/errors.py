"""The one tree of exceptions, and the one warning.

    EvenJoinError
    ├── SpecError                an argument of the join is wrong (alias, column, type, strategy, ...); a ValueError too
    │   └── ConditionError       the join condition cannot be parsed or run; points at the place in the text
    ├── TableError               a routing table breaks the meeting invariant (see placement/check.py)
    ├── CheckpointError
    │   ├── CheckpointMismatchError   the checkpoint belongs to another join or has another format, or the output
    │   │                             folder belongs to another checkpoint
    │   ├── CheckpointInUseError      another query holds the checkpoint
    │   ├── StateCorruptionError      a file of the checkpoint is damaged or missing; names the file
    │   └── StorageError              a file of the checkpoint cannot be read or written; an OSError too
    └── ReceiptError             a batch's tasks did not all report; the batch is replayed
        └── EvaluationError      a batch was read more than once, and not with the same rows each time

    UserWarning
    └── UnboundedStateWarning    nothing bounds the state of a side: the join runs, and grows

Guarantee: every message says what is wrong and what to do. Whatever the package raises on purpose is an EvenJoinError.
Errors inside the reader of SQL (`ExprError`, spec/expr.py) become ConditionErrors before they reach the user.
"""

from __future__ import annotations


class EvenJoinError(Exception):
    """Root of everything this package raises on purpose."""


class SpecError(EvenJoinError, ValueError):
    """An argument of the join is wrong."""


class ConditionError(SpecError):
    """The join condition cannot be parsed or cannot be run.

    ``text`` is the condition and ``position`` the 0-based offset of the place at fault,
    or ``None`` when the whole condition is at fault. The message draws a caret under the place. Of a long line it shows
    the part around the place.
    """

    def __init__(self, message: str, text: str = "", position: int | None = None) -> None:
        self.text, self.position = text, position
        if text and position is not None:
            start = text.rfind("\n", 0, position) + 1
            end = text.find("\n", position)
            line = text[start : end if end >= 0 else len(text)]
            line, column = _cut(line, position - start)
            message = f"{message}\n  {line}\n  {' ' * column}^"
        elif text:
            message = f"{message}\n  {_cut(text, 0)[0]}"
        super().__init__(message)


LONG = 400
"""How many characters of a condition a message shows; of a longer one it shows the part around the place at fault."""


def _cut(line: str, column: int) -> tuple[str, int]:
    """A line and a column in it; if the line is long, the part of it around the column, and the column in that part."""
    if len(line) <= LONG:
        return line, column
    start = max(0, min(column - LONG // 2, len(line) - LONG))
    before, after = "... " if start else "", " ..." if start + LONG < len(line) else ""
    return f"{before}{line[start : start + LONG]}{after}", column - start + len(before)


class TableError(EvenJoinError):
    """A routing table would lose or repeat a result."""


class CheckpointError(EvenJoinError):
    """The checkpoint folder cannot be used."""


class CheckpointMismatchError(CheckpointError):
    """The checkpoint was written by another join (its condition, schema or order of sides differs) or in another
    format; or the output folder holds the files of another checkpoint."""


class CheckpointInUseError(CheckpointError):
    """Another running query holds this checkpoint."""


class StateCorruptionError(CheckpointError):
    """A file of the checkpoint (a segment, a table, a commit) is damaged or missing. The message names it."""


class StorageError(CheckpointError, OSError):
    """The file system refuses to read or write a file of the checkpoint: a full disk, a folder without permission."""


class ReceiptError(EvenJoinError):
    """Not every join instance left a receipt for the batch that can be read."""


class EvaluationError(ReceiptError):
    """A batch was read more than once, and its tasks did not see the same rows each time. Nothing was committed."""


class UnboundedStateWarning(UserWarning):
    """Nothing bounds the state of a side: it grows for as long as the join runs."""
