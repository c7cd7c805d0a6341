"""How far ahead an event time may be: rows beyond the limit are set aside, so that one wrong time stops nobody.

A row of the year 9999 moves the watermark there. All that follows is late, and all state has expired: the stream is
dead, for good. With `max_event_time_ahead` such a row joins nothing, moves no watermark, and is counted as `ahead`. If
`late=` is an output, the row goes there.

    limit of a batch = max(latest event time committed so far, the clock) + max_event_time_ahead

* Both must be passed, because either alone is wrong. After a pause the next good row is far ahead of all earlier ones,
  but not of the clock. Simulated times may be far ahead of the clock, but not of each other. Old data that is replayed
  is behind the clock, so a wrong time between its own and the clock's is not noticed; one beyond the clock is.
* Integer event times have no clock: they are compared with the earlier ones only, and the first batch with nothing.
  Times without a zone are read as UTC everywhere, and a local clock may be 14 hours ahead of that. So much is added.
* If every row of a batch is ahead, it is time itself that jumped (integer times after a pause). That batch stays set
  aside, but the next one is compared with the least time of it. So a jump costs one batch, not the stream.

It is off unless asked for. How far ahead good data may be only the user knows (a booking is about next year), and by
default a join gives what the same condition gives in Spark or over the whole input.

Guarantee: the limit is a function of the last commit, the setting and a clock that the driver reads once per batch. It
is part of the batch's `Work`, so all tasks and their retries agree. A batch that is replayed after a crash may see a
later clock, and then take a row that the lost try did not. Pure: the clock comes in as an argument.
Not here: which rows the watermark sees (dispatch.py), and the watermark (advance.py), which this never turns back.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.types as pt

from evenjoin.commit.log import Watermark
from evenjoin.load.intake import Intake
from evenjoin.spec import JoinSpec

FARTHEST_ZONE = 14 * 3600
"""How many seconds the clocks of the farthest time zone are ahead of UTC."""


def time_limit(mark: Watermark, spec: JoinSpec, ahead: int, now: float) -> int | None:
    """The latest event time that the next batch may have; None if there is nothing to compare it with. `now` is the
    clock, in seconds."""
    known = [t for t in (*mark.latest, mark.jump, _clock(spec, now)) if t is not None]
    limit = max(known) + ahead if known else None
    return limit if limit is not None and limit < 2**63 - 1 else None


def jumped(before: int | None, intake: Sequence[Intake]) -> int | None:
    """The least event time of a batch whose rows were all ahead; None if some were not. `before` is what the batches
    before it say: it stays if the batch has no rows."""
    if any(side.seen for side in intake):
        return None
    least = [side.ahead_from for side in intake if side.ahead_from is not None]
    return min(least) if least else before


def _clock(spec: JoinSpec, now: float) -> int | None:
    """The clock as an event time, in microseconds; None for integer event times."""
    types = [side.schema.field(side.event_time).type for side in spec.sides if side.event_time is not None]
    if not types or any(map(pt.is_integer, types)):
        return None
    zoned = all(pt.is_timestamp(t) and t.tz is not None for t in types)
    return int((now if zoned else now + FARTHEST_ZONE) * 1_000_000)
