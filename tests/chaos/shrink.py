"""A failing case made smaller: events, starts, batches and rows are left out greedily while it still fails alike.

Invariant: the case returned fails with a finding of the same kind as the one given. It is not always the smallest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from chaos.case import Case, Start
from chaos.check import Finding

TRIES = 300
"""How many smaller cases are run at the most."""


def shrink(
    case: Case, finding: Finding, run: Callable[[Case], Finding | None], tries: int = TRIES
) -> tuple[Case, Finding]:
    """The smallest case found that fails alike, and its finding."""
    before = None
    while case != before and tries > 0:
        before = case
        for simpler in (_fewer_events, _fewer_starts, _fewer_batches, _fewer_rows, _plainer_starts):
            smaller: Case | None = case
            while smaller is not None:
                case, smaller = smaller, None
                for candidate in simpler(case):
                    if tries <= 0:
                        break
                    tries -= 1
                    found = run(candidate)
                    if found is not None and found.kind == finding.kind:
                        smaller, finding = candidate, found
                        break
    return case, finding


def _fewer_events(case: Case) -> Iterator[Case]:
    for n in range(len(case.events)):
        yield replace(case, events=case.events[:n] + case.events[n + 1 :])


def _fewer_starts(case: Case) -> Iterator[Case]:
    if len(case.starts) > 1:
        yield replace(case, starts=case.starts[:1])
        for n in range(len(case.starts)):
            yield replace(case, starts=case.starts[:n] + case.starts[n + 1 :])


def _fewer_batches(case: Case) -> Iterator[Case]:
    for n in range(len(case.batches) if len(case.batches) > 1 else 0):
        yield _without_batch(case, n)


def _without_batch(case: Case, number: int) -> Case:
    """The case without the rows of a batch; what happens in later batches moves with them."""
    events = [replace(e, batch=e.batch - (e.batch > number)) for e in case.events if e.batch != number]
    return replace(case, batches=case.batches[:number] + case.batches[number + 1 :], events=tuple(events))


def _fewer_rows(case: Case) -> Iterator[Case]:
    """Without one half, one quarter, ... of the rows of a side in a batch; the large parts of all batches first."""
    sizes = [len(rows) for batch in case.batches for rows in batch]
    size = max(sizes, default=0)
    while size:
        for n, batch in enumerate(case.batches):
            for side in range(len(batch)):
                for first in range(0, len(batch[side]), size):
                    kept = batch[side][:first] + batch[side][first + size :]
                    changed = (*batch[:side], kept, *batch[side + 1 :])
                    yield replace(case, batches=(*case.batches[:n], changed, *case.batches[n + 1 :]))
        size //= 2


def _plainer_starts(case: Case) -> Iterator[Case]:
    for n, start in enumerate(case.starts):
        least = "random" if len(case.spec.sides) == 2 else "hypercube"
        plain = [Start(start.strategy, start.instances), Start(least, start.instances), Start(least, 1)]
        if start.instances > 1:
            plain.append(replace(start, instances=start.instances - 1))
        for simple in plain:
            if simple != start and (start.strategy != least or simple.instances < start.instances):
                yield replace(case, starts=(*case.starts[:n], simple, *case.starts[n + 1 :]))
