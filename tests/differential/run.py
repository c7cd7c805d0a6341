"""Cases in groups of one mode and flavour, judged. A difference is looked at again with Spark's join asked alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from differential import embedded, oracle, ours
from differential.answers import Answer, Failed, Pairs
from differential.conditions import Case
from differential.tables import Tables
from differential.verdict import Verdict, judge

TOGETHER = 24
"""Cases that share their jobs."""


def verdicts(tables: Tables, cases: Sequence[Case]) -> Iterator[Verdict]:
    """The verdict on each case, in any order."""
    for group in groups(cases):
        both = zip(group, oracle.answers(tables, group), ours.answers(tables, group), strict=True)
        for case, spark, mine in both:
            verdict = judge(case, spark, mine.answer)
            yield verdict if verdict.outcome != "different" else second_look(tables, case, mine.answer)


def embedded_verdicts(tables: Tables, cases: Sequence[Case]) -> Iterator[Verdict]:
    """The same for the embedded engine."""
    for group in groups(cases):
        for case, spark in zip(group, oracle.answers(tables, group), strict=True):
            verdict = judge(case, spark, embedded.answer(tables, case))
            yield verdict if verdict.outcome != "different" else second_look(tables, case, verdict.ours)


def second_look(tables: Tables, case: Case, mine: Answer) -> Verdict:
    """The verdict on one case, with Spark's join asked alone; and if only we fail, in its plainest form."""
    verdict = judge(case, oracle.answer(tables, case), mine)
    if verdict.outcome == "different" and isinstance(mine, Failed) and oracle.fails_somehow(tables, case):
        return replace(verdict, outcome="spark fails")
    return verdict


def groups(cases: Sequence[Case]) -> Iterator[list[Case]]:
    """The cases, as many together as may share their jobs."""
    by: dict[object, list[Case]] = defaultdict(list)
    for case in cases:
        by[case.mode, case.flavour].append(case)
    for some in by.values():
        yield from (some[k : k + TOGETHER] for k in range(0, len(some), TOGETHER))


def summary(found: Sequence[Verdict]) -> str:
    """How many of each outcome, and the reasons of refusals by their beginning."""
    lines = [", ".join(f"{outcome} {count}" for outcome, count in Counter(v.outcome for v in found).most_common())]
    reasons = embedded.reasons(v.ours.why for v in found if v.outcome == "refused" and not isinstance(v.ours, Pairs))
    lines += [f"  {count:5} refused: {why}" for why, count in reasons.most_common(40)]
    return "\n".join(lines)
