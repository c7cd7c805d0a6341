"""A batch in this process: its dispatch tasks and instances run here, one after the other or in a thread for each core.

    feeds ──dispatch──► messages ──hop 0──► instances ──► results, handed to `take`
                                                  └─ messages ──hop 1──► ...

`evenjoin.local` runs all its batches this way, and a join on Spark those that the driver takes for itself
(runtime/spark/where.py). Dispatch, instances, state and receipts are the same code and the same files as on executors.

Guarantee: after `join` every instance has left one receipt, and `take` was given each result once. If `take` raises,
the batch stops there, and its files are those of a try that nobody will count.
Threads share the open segments and nothing else. They help where batches are large, because numpy and Arrow let go of
the interpreter in their loops; a small batch runs in the calling thread.
Not here: where rows come from, and when the batch is final (driver.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

import pyarrow as pa

from evenjoin.instance.batch import Arrivals, join_batch, new_attempt
from evenjoin.instance.deliver import Sent
from evenjoin.instance.migrate import Migrated, Moving, migrate_instance
from evenjoin.instance.work import Work
from evenjoin.load.intake import Note
from evenjoin.placement.table import RoutingTable
from evenjoin.runtime.dispatch import Dispatcher
from evenjoin.state.files import Folder
from evenjoin.state.segment import Segments

THREADED_ROWS = 30_000
"""Rows of a batch from which on threads are used. Below, they hinder each other more than they help."""
Take = Callable[[pa.RecordBatch], None]
"""Given each record batch of results, by any of the threads."""
T = TypeVar("T")
R = TypeVar("R")


class Feed(NamedTuple):
    """The rows of one dispatch task: of which side, how many, and in batches with the columns that the join reads."""

    side: int
    total: int
    rows: Iterable[pa.RecordBatch]


class _Fed(NamedTuple):
    """What a dispatch task made of its rows: tuples for instances, late rows (also `Sent`, to a side), and its note."""

    tuples: list[Sent]
    late: list[Sent]
    note: Note


@dataclass(slots=True)
class Process:
    """Runs batches of one join on this checkpoint folder. `threads` is how many may work at once."""

    folder: Folder
    threads: int = 1
    segments: Segments = field(init=False)

    def __post_init__(self) -> None:
        self.segments = Segments(self.folder)

    def join(self, work: Work, watermark: int | None, feeds: Sequence[Feed], take: Take) -> None:
        """Dispatch the rows and run every instance at every hop."""
        threads = self.threads if sum(feed.total for feed in feeds) >= THREADED_ROWS else 1
        instances = [Arrivals() for _ in range(work.table.instances)]
        messages: list[Sent] = []
        for number, fed in enumerate(_each(partial(_dispatched, work, watermark), feeds, threads)):
            messages += fed.tuples
            for late in fed.late:
                instances[late.instance].take("late", late.store, [late.batch], late.lines)
            instances[number % len(instances)].take_note(fed.note)
        for hop in range(len(work.program.hops)):
            messages, instances = self._hop(work, hop, messages, instances, take, threads)

    def migrate(self, work: Work, new: RoutingTable) -> list[Migrated]:
        """A whole migration, one donor after the other."""
        moving = Moving.to(new, work)
        return moving.completed(
            migrate_instance(moving, donor, self.folder, self.segments, new_attempt()) for donor in moving.donors
        )

    def _hop(
        self, work: Work, hop: int, messages: Sequence[Sent], instances: Sequence[Arrivals], take: Take, threads: int
    ) -> tuple[list[Sent], list[Arrivals]]:  # fmt: skip
        """Deliver the messages and run every instance at one hop. Returns what is sent to the next hop."""
        following: list[Sent] = []
        after = [Arrivals() for _ in instances]
        entering = work.program.hops[hop].entering
        for message in messages:
            if message.store in entering:
                instances[message.instance].take("tuples", message.store, [message.batch], message.lines)
            else:
                instances[message.instance].pass_on(message.lines)
                following.append(message)

        def run(number: int) -> list[Sent]:
            sent = []
            for item in join_batch(work, number, instances[number], self.folder, self.segments, new_attempt(), hop):
                if isinstance(item, Sent):
                    sent.append(item)
                elif isinstance(item, Note):
                    after[number].take_note(item)
                else:
                    take(item)
            return sent

        order = work.instance_of if threads > 1 else range(len(instances))  # the longest first
        for sent in _each(run, order, threads):
            following += sent
        return following, after


def _dispatched(work: Work, watermark: int | None, feed: Feed) -> _Fed:
    dispatcher, tuples, late = Dispatcher(work, watermark), [], []
    for rows in feed.rows:
        sent = dispatcher.dispatch(feed.side, rows)
        tuples += [Sent(instance, feed.side, piece, lines) for instance, piece, lines in sent.pieces]
        if sent.late is not None:
            instance, piece, lines = sent.late
            late.append(Sent(instance, feed.side, piece, lines))
    return _Fed(tuples, late, dispatcher.note)


def _each(function: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """The function of each item, in their order. The first error is raised after those under way have ended."""
    if min(threads, len(items)) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(threads, len(items)), "evenjoin") as pool:
        futures = [pool.submit(function, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise
