"""The one tree of exceptions.

    EvenJoinError
    ├── ConditionError           the join condition cannot be parsed or run; points at the place in the text
    ├── SpecError                another argument of the join is wrong (alias, column, type, strategy, ...)
    ├── TableError               a routing table breaks the meeting invariant (see placement/check.py)
    ├── CheckpointError
    │   ├── CheckpointMismatchError   the checkpoint belongs to another join
    │   ├── CheckpointInUseError      another query holds the checkpoint
    │   └── StateCorruptionError      a file of the checkpoint is damaged or missing; names the file
    └── ReceiptError             a batch's tasks did not all report; the batch is replayed

Every message says what is wrong and what to do.
"""

from __future__ import annotations


class EvenJoinError(Exception):
    """Root of everything this package raises on purpose."""


class SpecError(EvenJoinError, ValueError):
    """An argument of the join is wrong."""


class ConditionError(SpecError):
    """The join condition cannot be parsed or cannot be run.

    ``text`` is the condition and ``position`` the 0-based offset of the place at fault,
    or ``None`` when the whole condition is at fault. The message draws a caret under the place.
    """

    def __init__(self, message: str, text: str = "", position: int | None = None) -> None:
        self.text, self.position = text, position
        if text and position is not None:
            start = text.rfind("\n", 0, position) + 1
            end = text.find("\n", position)
            line = text[start : end if end >= 0 else len(text)]
            message = f"{message}\n  {line}\n  {' ' * (position - start)}^"
        elif text:
            message = f"{message}\n  {text}"
        super().__init__(message)


class TableError(EvenJoinError):
    """A routing table would lose or repeat a result."""


class CheckpointError(EvenJoinError):
    """Something about the checkpoint folder."""


class CheckpointMismatchError(CheckpointError):
    """The checkpoint was written by another join (condition, schema or side order differ)."""


class CheckpointInUseError(CheckpointError):
    """Another running query holds this checkpoint."""


class StateCorruptionError(CheckpointError):
    """A segment, table or commit is damaged or missing. The message names the file."""


class ReceiptError(EvenJoinError):
    """Not every join instance left a receipt for the batch."""
