"""A failing case made smaller: events, starts, batches and rows are left out greedily while it still fails alike.

Invariant: the case returned fails with a finding of the same kind as the one given. It is not always the smallest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from chaos.case import Case, Start
from chaos.check import Finding

SECONDS = 30.0
"""How long one case is made smaller at the most."""


def shrink(
    case: Case, finding: Finding, run: Callable[[Case], Finding | None], seconds: float = SECONDS
) -> tuple[Case, Finding]:
    """The smallest case found that fails alike, and its finding."""
    until, smaller = time.monotonic() + seconds, True
    while smaller and time.monotonic() < until:
        smaller = False
        for candidate in candidates(case):
            if time.monotonic() >= until:
                break
            found = run(candidate)
            if found is not None and found.kind == finding.kind:
                case, finding, smaller = candidate, found, True
                break
    return case, finding


def candidates(case: Case) -> Iterator[Case]:
    """Cases that are a little simpler than this one, the greatest steps first."""
    for n in range(len(case.events)):
        yield replace(case, events=case.events[:n] + case.events[n + 1 :])
    if len(case.starts) > 1:
        yield replace(case, starts=case.starts[:1])
        yield replace(case, starts=case.starts[:-1])
    for n in range(len(case.batches)):
        if len(case.batches) > 1:
            yield _without_batch(case, n)
    yield from _fewer_rows(case)
    yield from _plainer_starts(case)


def _without_batch(case: Case, number: int) -> Case:
    """The case without the rows of a batch; what happens in later batches moves with them."""
    events = [replace(e, batch=e.batch - (e.batch > number)) for e in case.events if e.batch != number]
    return replace(case, batches=case.batches[:number] + case.batches[number + 1 :], events=tuple(events))


def _fewer_rows(case: Case) -> Iterator[Case]:
    for n, batch in enumerate(case.batches):
        for side in (0, 1):
            rows = batch[side]
            size = len(rows)
            while size:
                for first in range(0, len(rows), size):
                    kept = rows[:first] + rows[first + size :]
                    changed = (kept, batch[1]) if side == 0 else (batch[0], kept)
                    yield replace(case, batches=(*case.batches[:n], changed, *case.batches[n + 1 :]))
                size //= 2


def _plainer_starts(case: Case) -> Iterator[Case]:
    for n, start in enumerate(case.starts):
        plain = [Start(start.strategy, start.instances), Start("random", start.instances), Start("random", 1)]
        if start.instances > 1:
            plain.append(replace(start, instances=start.instances - 1))
        for simple in plain:
            if simple != start and (start.strategy != "random" or simple.instances < start.instances):
                yield replace(case, starts=(*case.starts[:n], simple, *case.starts[n + 1 :]))
