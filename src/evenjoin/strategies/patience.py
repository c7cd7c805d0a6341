"""When the number of instances may change: evidence over batches, so that no single one decides.

How busy tasks are differs from batch to batch, and a change moves state. So each batch is only evidence. The part of
the interval that all tasks took is compared with the limits of scaling, by its logarithm, and no batch says more than
SAYS, however slow it was:

    more'  = max(0, more  + log(time / scale_out))                 of time, if all tasks ran together
    fewer' = max(0, fewer + log(scale_in / max(room, time)))       each summand between -SAYS and SAYS

    more instances for their time    more > ENOUGH: one slow batch is not enough, two that take all the time are
    more instances for their room    at once: memory does not wait
    fewer instances                  fewer > CALM * (1 + pause of the move / interval) * 2^undone

This is the cumulative sum test of Page (1954): noise around a load between both limits falls back to 0, and a load that
stays beyond one crosses the threshold soon, the further beyond the sooner.

    time, scale_out 80 %       0.65 0.65 2.5  0.65      0   0   0.5  0.29        one outlier: nothing
                               0.65 1.3  1.3  1.3       0   0.49 0.97             doubled: more after two batches
    time, scale_in 50 %        0.3  0.3  0.3            0.5 1.0                   fewer after two, if the move is free

`undone` counts the changes that were taken back within LASTING batches, by one the other way, less those that lasted
longer. Each doubles the patience of scaling in, so a load that swings between two levels is left with the higher number
for longer and longer, up to 2^MOST_UNDONE times as long.

How many instances there should be is taken from the median of the last three times, and from the room that is used now.

Pure values; they are part of the commit. Not here: the limits (scaling.py), what the move is (elastic.py).
Not for Square, Dynamic, A-DSP and subgroups of ContRand: their number follows what is stored alone, batch by batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log
from statistics import median
from typing import Any

from evenjoin.strategies.scaling import Scaling, Used

SAYS = 0.5
"""What one batch says at most: a factor of 1.65."""
ENOUGH = 0.6
"""More than one batch can say, and no more than that: a join that falls behind should not wait."""
CALM = 0.9
LASTING = 50
MOST_UNDONE = 6
KEPT = 3
"""Times of which the median is taken."""


@dataclass(frozen=True, slots=True)
class Patience:
    """What is known of the time that tasks took.

    instances     the number that the evidence is about; 0 at the start
    more, fewer   the evidence for more and for fewer
    times         how long all tasks took together in the last batches, in intervals
    since         batches since the number changed last
    way           how it changed: 1 to more, -1 to fewer, 0 not yet
    undone        changes that were soon taken back, less those that were not
    """

    instances: int = 0
    more: float = 0.0
    fewer: float = 0.0
    times: tuple[float, ...] = ()
    since: int = 0
    way: int = 0
    undone: int = 0

    def after(self, used: Used, instances: int, scaling: Scaling) -> Patience:
        """One batch later, in which so many instances used this."""
        told = self if instances == self.instances else self._resized(instances)
        time = used.time if used.together else 0.0
        return replace(
            told,
            more=_summed(told.more, time, scaling.scale_out),
            fewer=_summed(told.fewer, scaling.scale_in, max(used.room, used.time)),
            times=(*told.times, round(used.time * instances, 4))[-KEPT:],
            since=told.since + 1,
        )

    def _resized(self, instances: int) -> Patience:
        """The evidence begins anew. A change the other way, soon after the last one, undoes it; one that lasted makes
        up for one that did not."""
        way = 0 if not self.instances else 1 if instances > self.instances else -1
        undone = self.undone
        if way * self.way < 0:
            undone = min(undone + 1, MOST_UNDONE) if self.since <= LASTING else max(undone - 1, 0)
        return replace(self, instances=instances, more=0.0, fewer=0.0, since=0, way=way, undone=undone)

    def steady(self, used: Used, instances: int) -> Used:
        """What so many instances use, with the median of the last times in place of the time of one batch."""
        return replace(used, time=median(self.times) / instances) if self.times else used

    def waits(self, wanted: int, used: Used, scaling: Scaling, pauses: float = 0.0) -> bool:
        """Whether the evidence is not enough yet to go to so many instances, if the move takes `pauses` intervals."""
        if wanted > self.instances:
            return used.room <= scaling.scale_out and self.more <= ENOUGH
        return wanted < self.instances and self.fewer <= self.needed(pauses)

    def needed(self, pauses: float) -> float:
        """The evidence that it takes to have fewer instances."""
        return CALM * (1 + pauses) * 2.0**self.undone

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Patience:
        known = {name: value for name, value in data.items() if name in cls.__slots__}
        return cls(**{**known, "times": tuple(known.get("times", ()))})


def _summed(evidence: float, this: float, that: float) -> float:
    """The evidence, with one more batch that says this / that."""
    if this <= 0 or that <= 0:
        says = SAYS if that <= 0 < this else -SAYS
    else:
        says = min(max(log(this / that), -SAYS), SAYS)
    return round(max(0.0, evidence + says), 4)
