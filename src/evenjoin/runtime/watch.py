"""A line that tells how a long query is doing: `evenjoin.progress(query)`, in place of `query.awaitTermination()`.

    batch 45   396k rows in   6.74M results   imbalance 1.11   400 ms a batch   even within 3% on 2 cores

On a terminal and in a notebook the line is written over the one before it, cut off where the terminal ends. Elsewhere
(a log file, a pipe) each batch that is new when somebody looks gets a whole line of its own.

Guarantee: it ends as `awaitTermination` does, with the same error if the query has failed; and it reads only what the
query says of its last batch. All that may be from the data is the name of a key in the verdict, which is made visible
(shown.py); where keys are redacted it is the key's salted code.
"""

from __future__ import annotations

import sys
from shutil import get_terminal_size
from typing import IO, Protocol

from evenjoin.events import Progress
from evenjoin.page.words import duration, short
from evenjoin.shown import visible


class Watched(Protocol):
    """What can be waited for: a JoinQuery."""

    def awaitTermination(self, timeout: int | None = None) -> bool | None: ...

    def progress(self) -> Progress | None: ...


def progress(query: Watched, timeout: float | None = None, out: IO[str] | None = None) -> bool:
    """Wait until a query ends, and show a line about its last batch meanwhile, once a second. Returns whether it has
    ended; False only after `timeout` seconds. An error of the query is raised."""
    stream = out if out is not None else sys.stderr
    over = stream.isatty() or "ipykernel" in sys.modules
    told, waited, ended = "waiting for the first batch" if over else "", 0.0, False
    if over:
        stream.write(told)
    try:
        while not ended and (timeout is None or waited < timeout):
            ended, waited = bool(query.awaitTermination(1)), waited + 1
            said = _fitting(line(query.progress())) if over else line(query.progress())
            if said and said != told:
                stream.write(f"\r{said.ljust(len(told))}" if over else f"{said}\n")
                stream.flush()
                told = said
    finally:
        if over:
            stream.write("\n")
    return ended


def line(last: Progress | None) -> str:
    """The last batch in a line; nothing before the first."""
    if last is None:
        return ""
    parts = (
        f"batch {last.batch}",
        f"{short(sum(last.total.rows))} rows in",
        f"{short(last.total.results)} results",
        f"imbalance {last.imbalance:.2f}",
        f"{duration(last.duration_ms / 1000)} a batch",
        visible(last.verdict),
    )
    return "   ".join(filter(None, parts))


def _fitting(text: str) -> str:
    """The text, or as much of it as one line of the terminal has room for."""
    room = get_terminal_size().columns - 1
    return text if len(text) <= room else f"{text[: room - 1]}…"
