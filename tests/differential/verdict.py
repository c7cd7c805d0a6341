"""Both answers compared, and a difference as a test that can be pasted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from differential.answers import Answer, Failed, Pairs, Refused
from differential.conditions import Case

LOUD = "is so large that a sum of it may wrap"
"""Without ANSI mode sums wrap around. Those of event times do not here: a row that could wrap fails loudly instead."""
Outcome = Literal["same", "spark fails", "both refuse", "refused", "different"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A case, what both gave, and what that means."""

    case: Case
    spark: Answer
    ours: Answer
    outcome: Outcome

    def __str__(self) -> str:
        return f"{as_test(self)}\n    # {self.outcome}: {difference(self.spark, self.ours)}"


def judge(case: Case, spark: Answer, ours: Answer) -> Verdict:
    """Where Spark gives pairs, ours are the same or we refuse. Where it fails, anything goes. What it refuses, we
    refuse."""
    outcome: Outcome = "different"
    if isinstance(spark, Failed):
        outcome = "spark fails"
    elif isinstance(spark, Refused):
        outcome = "both refuse" if isinstance(ours, Refused) else "different"
    elif isinstance(ours, Refused) or (isinstance(ours, Failed) and LOUD in ours.why):
        outcome = "refused"
    elif spark == ours:
        outcome = "same"
    return Verdict(case, spark, ours, outcome)


def as_test(verdict: Verdict) -> str:
    """The case as a line of a test's parameters."""
    case = verdict.case
    return f"Case({case.seed}, {case.on!r}, {case.zone!r}, {case.ansi}, {case.flavour!r}, {case.event_time!r}),"


def difference(spark: Answer, ours: Answer) -> str:
    """What differs, in words."""
    if not isinstance(spark, Pairs) or not isinstance(ours, Pairs):
        return f"Spark {_told(spark)}, we {_told(ours)}"
    missing = sorted(set(spark.ids) - set(ours.ids))
    extra = sorted(set(ours.ids) - set(spark.ids))
    twice = len(ours.ids) - len(set(ours.ids))
    return f"Spark {_told(spark)}; missing {len(missing)} {missing[:3]}, extra {len(extra)} {extra[:3]}, twice {twice}"


def _told(answer: Answer) -> str:
    if isinstance(answer, Pairs):
        return f"gives {len(answer.ids)} pairs"
    return f"{'fails' if isinstance(answer, Failed) else 'refuses'}: {answer.why}"
