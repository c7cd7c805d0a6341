"""Our answer on batch frames: split -> columns by Spark -> our engine -> Spark's filter on what the engine found.

Many conditions share their jobs: the computed columns of a side are one projection, and Spark's filters are columns of
one frame of candidate pairs. A job that fails is made again for each condition alone.
Not here: streams. What the streaming job does with the parts of a split is tested by test_streams.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as sf

from differential.answers import SPARK_ERRORS, Answer, Failed, Pairs, Refused, first_line, pairs
from differential.conditions import Case
from differential.tables import INTERPRETED, SIDES, Tables, configured, in_mode
from evenjoin.errors import EvenJoinError, SpecError, UnboundedStateWarning
from evenjoin.runtime.local import LocalJoin
from evenjoin.runtime.settings import Asked, read_settings
from evenjoin.runtime.spark.conditions.analyst import Analyst, quiet
from evenjoin.runtime.spark.conditions.split import Split, split
from evenjoin.spec import build_spec
from evenjoin.spec.condition import Prepared


@dataclass(frozen=True, slots=True)
class Ours:
    """Our answer, and how it came about."""

    answer: Answer
    split: Split | None = None
    candidates: Pairs | None = None


def answers(tables: Tables, cases: Sequence[Case]) -> list[Ours]:
    """Our answers for cases of one mode and one flavour."""
    with in_mode(tables.spark, *cases[0].mode), configured(tables.spark, INTERPRETED), quiet():
        found = [_split(tables.analyst(), case) for case in cases]
        found = _each(lambda some: _joined(tables, *some), cases, found)
        return _each(lambda some: _filtered(tables, *some), cases, found)


def answer(tables: Tables, case: Case) -> Ours:
    """Our answer for one case."""
    return answers(tables, [case])[0]


def _split(analyst: Analyst, case: Case) -> Ours:
    times = {} if case.event_time is None else dict.fromkeys(SIDES, case.event_time)
    try:
        return Ours(Pairs(()), split(case.on, analyst.schemas, analyst.spark, event_time=times, analyst=analyst))
    except SpecError as error:
        return Ours(Refused(first_line(error)))


def _each(step: Any, cases: Sequence[Case], found: list[Ours]) -> list[Ours]:
    """A step for all cases that are still under way: together, or one by one where together it fails."""
    going = [k for k, one in enumerate(found) if isinstance(one.answer, Pairs)]
    done = list(found)
    for k, one in zip(going, _together(step, [(cases[k], found[k]) for k in going]), strict=True):
        done[k] = one
    return done


def _together(step: Any, some: list[tuple[Case, Ours]]) -> list[Ours]:
    if not some:
        return []
    try:
        return step(tuple(map(list, zip(*some, strict=True))))
    except SPARK_ERRORS as error:
        if len(some) == 1:
            return [replace(some[0][1], answer=Failed(first_line(error)))]
        half = len(some) // 2
        return _together(step, some[:half]) + _together(step, some[half:])


def _joined(tables: Tables, cases: list[Case], found: list[Ours]) -> list[Ours]:
    """The computed columns of all, then the engine for each."""
    columns = {side: _computed(tables, side, cases, found) for side in SIDES}
    out = []
    for k, (case, one) in enumerate(zip(cases, found, strict=True)):
        assert one.split is not None
        rows = {side: _rows(tables, side, case, one.split, columns[side], k) for side in SIDES}
        result = _engine(case, one.split, rows)
        out.append(replace(one, answer=result, candidates=result if isinstance(result, Pairs) else None))
    return out


def _computed(tables: Tables, side: str, cases: list[Case], found: list[Ours]) -> pa.Table | None:
    texts = [
        sf.expr(text).alias(f"{k}{name}")
        for k, one in enumerate(found)
        for name, text in (one.split.computed[side] if one.split else {}).items()
    ]
    if not texts:
        return None
    return tables.frame(cases[0].flavour, side).select(sf.expr(f"{side}.id AS id"), *texts).toArrow().sort_by("id")


def _rows(tables: Tables, side: str, case: Case, made: Split, computed: pa.Table | None, k: int) -> pa.Table:
    rows = tables.arrow(case.flavour, side).sort_by("id")
    for name in made.computed[side]:
        assert computed is not None
        rows = rows.append_column(name, computed.column(f"{k}{name}"))
    return rows


def _engine(case: Case, made: Split, rows: dict[str, pa.Table]) -> Answer:
    """The engine on all rows in two batches, the right side's first half before the left side."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnboundedStateWarning)
            prepared = Prepared(made.text, made.condition, made.elsewhere)
            spec = build_spec(made.schemas, prepared, event_time=case.event_time, select=["l.id AS a", "r.id AS b"])
            settings = read_settings(spec, Asked(instances=2))
    except SpecError as error:
        return Refused(first_line(error))
    half = rows["r"].num_rows // 2
    with LocalJoin(spec, settings, None, None) as join:
        try:
            some = [join.process({"r": rows["r"].slice(0, half)}),
                    join.process({"l": rows["l"], "r": rows["r"].slice(half)})]  # fmt: skip
        except EvenJoinError as error:
            return Failed(first_line(error))
    got = pa.concat_tables(some)
    return pairs(got["a"].to_pylist(), got["b"].to_pylist())


def _filtered(tables: Tables, cases: list[Case], found: list[Ours]) -> list[Ours]:
    """Spark's filters on the candidates of all, as tests of IF, which Spark's optimiser treats as those of a filter."""
    out = list(found)
    some = [k for k, one in enumerate(found) if one.split and one.split.spark_filter and _ids(one)]
    if not some:
        return out
    numbers, left, right = zip(*((k, a, b) for k in some for a, b in _ids(found[k])), strict=True)
    table = pa.table(
        {"k": pa.array(numbers, pa.int32()), "a": pa.array(left, pa.int32()), "b": pa.array(right, pa.int32())}
    )
    candidates = tables.spark.createDataFrame(table).alias("pairs")
    for side, column in zip(SIDES, "ab", strict=True):
        candidates = candidates.join(tables.frame(cases[0].flavour, side), sf.expr(f"pairs.{column} = {side}.id"))
    passed = [
        sf.expr(f"IF(pairs.k = {k} AND ({one.split.spark_filter}), TRUE, NULL)").alias(f"f{k}")
        for k in some
        if (one := found[k]).split
    ]
    got = candidates.select(*(sf.expr(f"pairs.{c} AS {c}") for c in "kab"), *passed).toArrow()
    for k in some:
        kept = got.filter(got.column(f"f{k}"))
        out[k] = replace(found[k], answer=pairs(kept["a"].to_pylist(), kept["b"].to_pylist()))
    return out


def _ids(one: Ours) -> tuple[tuple[int, int], ...]:
    return one.candidates.ids if one.candidates else ()
