"""A line that tells how a long query is doing: `evenjoin.progress(query)`, in place of `query.awaitTermination()`.

    batch 45   396k rows in   6.74M results   imbalance 1.11   400 ms a batch

On a terminal and in a notebook the line is written over the one before it. Elsewhere (a log file, a pipe) each batch
that is new when somebody looks gets a line of its own.

Guarantee: it ends as `awaitTermination` does, with the same error if the query has failed; and it reads only what the
query says of its last batch. There is nothing from the data in the line.
"""

from __future__ import annotations

import sys
from typing import IO, Protocol

from evenjoin.events import Progress
from evenjoin.page.words import duration, short


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
            said = line(query.progress())
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
    )
    return "   ".join(parts)
