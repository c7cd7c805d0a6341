"""The verdicts of `auto` in words that a user understands.

    key 212 is 41 % of instance 3's time; dividing it over 4 instances saves 0.9 s of 2.1 s a batch and costs 0.2 s
    once: doing it

Pure text. Not here: the decision (planner.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from evenjoin.load.report import LoadReport
from evenjoin.placement.topology import Biclique
from evenjoin.strategies.auto.draft import GOAL, Draft, Step


@dataclass(frozen=True, slots=True)
class Words:
    """What a plan does, what it saves of a batch, how long a batch takes, and what the change costs, in ms."""

    about: str
    saving: float
    usual: float
    cost: float

    @property
    def _worth(self) -> str:
        return (
            f"{self.about} saves {_time(self.saving)} of {_time(self.usual)} a batch and costs {_time(self.cost)} once"
        )

    def doing(self) -> str:
        return f"{self._worth}: doing it"

    def waiting(self, earned: float, why: str = "") -> str:
        return f"{self._worth}: {why or f'waiting, {min(earned, 0.99):.0%} earned'}"

    def over_budget(self, moves: int, budget: int) -> str:
        return f"{self._worth}: over budget, {moves:,} tuples would move, {budget:,} may"


def told_even(uneven: float, cores: int) -> str:
    """That there is nothing to do."""
    on = f"on {cores} core{'s' if cores != 1 else ''}"
    if uneven <= 1 + GOAL:
        return f"even within {GOAL:.0%} {on}"
    return f"tasks take {uneven - 1:.0%} longer than even ones {on}, and no change would repay itself"


def told_of(draft: Draft, report: LoadReport) -> tuple[str, str]:
    """What a draft does: its weightiest step, and how many others there are; and the key that this names."""
    steps = draft.steps[: draft.best]
    first = max(steps, key=lambda step: step.share)
    more = f" (and {len(steps) - 1} more change{'s' if len(steps) > 2 else ''})" if len(steps) > 1 else ""
    name = _name(first, report)
    return f"{_step(first, name)}{more}", name


def _name(step: Step, report: LoadReport) -> str:
    """What the step's key is called; "" for a bucket. Where keys are redacted names are salted codes, and so is what
    stands for a key that is not reported any more."""
    if step.code is None:
        return ""
    return next((key.name for key in report.heavy if key.code == step.code), "") or f"with code {step.code}"


def _step(step: Step, name: str) -> str:
    if step.code is None:
        return f"bucket {step.bucket} is {step.share:.0%} of instance {step.instance}'s time; moving it to {step.to}"
    if step.topology is None:
        return f"key {name} need no longer be divided; merging it back"
    of = f"key {name} is {step.share:.0%} of instance {step.instance}'s time"
    if isinstance(step.topology, Biclique):
        return f"{of}; moving it to instance {step.to}"
    return f"{of}; dividing it over {len(set(step.topology.cells))} instances"


def _time(ms: float) -> str:
    return f"{ms / 1000:.1f} s" if ms >= 950 else f"{ms:.0f} ms"
