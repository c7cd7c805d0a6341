"""The oracle: what Spark's own batch join of the same rows gives.

Many conditions share one job: each is a column of the product of both sides. Spark's AND does not look at its second
part where the first is FALSE, as a join does not; but a join may look at less. So whatever fails there is asked again,
alone and as a join, and that answer counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import functions as sf

from differential.answers import SPARK_ERRORS, Answer, Failed, Refused, first_line, pairs
from differential.conditions import Case
from differential.tables import INTERPRETED, Tables, configured, in_mode
from evenjoin.runtime.spark.conditions.analyst import quiet


def answers(tables: Tables, cases: Sequence[Case]) -> list[Answer]:
    """What Spark gives for cases of one mode and one flavour."""
    with in_mode(tables.spark, *cases[0].mode), configured(tables.spark, INTERPRETED), quiet():
        found: dict[int, Answer] = {k: why for k, case in enumerate(cases) if (why := refusal(tables, case))}
        fine = [k for k in range(len(cases)) if k not in found]
        found |= dict(zip(fine, _shared(tables, [cases[k] for k in fine]), strict=True))
    return [found[k] for k in range(len(cases))]


def answer(tables: Tables, case: Case) -> Answer:
    """What Spark's join gives for one case, asked alone."""
    with in_mode(tables.spark, *case.mode), quiet():
        return refusal(tables, case) or _joined(tables, case)


def fails_somehow(tables: Tables, case: Case) -> bool:
    """Whether a row makes Spark fail with a plain plan. What its optimiser finds out may spare it the keys of some
    rows: that the other side has none, or a filter that follows from two equalities. A stream cannot know the first."""
    plain = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.constraintPropagation.enabled": "false",
    }
    with configured(tables.spark, plain):
        return isinstance(answer(tables, case), Failed)


def refusal(tables: Tables, case: Case) -> Refused | None:
    try:
        left, right = (tables.frame(case.flavour, side) for side in "lr")
        _ = left.join(right, sf.expr(case.on)).schema
    except SPARK_ERRORS as error:
        return Refused(first_line(error))
    return None


def _shared(tables: Tables, cases: Sequence[Case]) -> list[Answer]:
    """All at once; if a row makes it fail, the halves; and of those that fail alone, the join."""
    if not cases:
        return []
    try:
        return _columns(tables, cases)
    except SPARK_ERRORS:
        if len(cases) == 1:
            return [_joined(tables, cases[0])]
        half = len(cases) // 2
        return _shared(tables, cases[:half]) + _shared(tables, cases[half:])


def _columns(tables: Tables, cases: Sequence[Case]) -> list[Answer]:
    left, right = (tables.frame(cases[0].flavour, side) for side in "lr")
    conditions = [sf.expr(case.on).alias(f"c{k}") for k, case in enumerate(cases)]
    product: Any = left.crossJoin(right).select(sf.expr("l.id AS a"), sf.expr("r.id AS b"), *conditions).toArrow()
    out: list[Answer] = []
    for k in range(len(cases)):
        some = product.filter(product.column(f"c{k}"))
        out.append(pairs(some["a"].to_pylist(), some["b"].to_pylist()))
    return out


def _joined(tables: Tables, case: Case) -> Answer:
    left, right = (tables.frame(case.flavour, side) for side in "lr")
    try:
        rows = left.join(right, sf.expr(case.on)).select(sf.expr("l.id AS a"), sf.expr("r.id AS b")).toArrow()
    except SPARK_ERRORS as error:
        return Failed(first_line(error))
    return pairs(rows["a"].to_pylist(), rows["b"].to_pylist())
