"""Is the output right? The rows that the sink holds, against DuckDB's answer for the whole input.

Where rows may be late, DuckDB cannot know which ones the watermark drops. Then the answer is that of an undisturbed
run of the engine over the same batches:

    late="drop"    output = undisturbed run
    late="keep"    undisturbed run with "drop"  <=  output  <=  DuckDB, since late rows join with what state is left

Invariant: a run's output is compared as a multiset, so a result that is missing or comes twice is found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from chaos import engine
from chaos.case import Case, Start
from chaos.joins import answer
from evenjoin.testing import multiset

Rows = Counter[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a run. `kind` is short and the same for alike failures; `text` tells more."""

    kind: str
    text: str

    @classmethod
    def raised(cls, error: Exception) -> Finding:
        return cls(f"error {type(error).__name__}", str(error))


def check(case: Case, sunk: Mapping[int, pa.Table]) -> Finding | None:
    """Compare what the sink holds with the answer."""
    found: Rows = sum((multiset(table) for table in sunk.values()), Counter())
    return difference(found, *expected(case))


def expected(case: Case) -> tuple[Rows, Rows]:
    """The least and the greatest output that is right. They are the same unless late rows are kept."""
    batches = case.data()
    if case.late == "none":
        whole = answer(case.spec, joined(batches))
        return whole, whole
    dropped = undisturbed(replace(case, late="drop"), batches)
    return dropped, answer(case.spec, joined(batches)) if case.late == "keep" else dropped


def joined(batches: list[dict[str, pa.Table]]) -> dict[str, pa.Table]:
    """The whole input by alias."""
    return {alias: pa.concat_tables([batch[alias] for batch in batches]) for alias in batches[0]}


def undisturbed(case: Case, batches: list[dict[str, pa.Table]]) -> Rows:
    """What the engine gives when nothing happens: one start, in memory, on one instance."""
    with engine.make(case.spec, case.options, Start("random" if len(case.spec.sides) == 2 else "hypercube", 1)) as join:
        return sum((multiset(join.process(batch)) for batch in batches), Counter())


def difference(found: Rows, least: Rows, most: Rows) -> Finding | None:
    """How the rows found differ from what is right."""
    missing, extra = least - found, found - most
    if not missing and not extra:
        return None
    parts = [f"{sum(rows.values())} {name}, such as {next(iter(rows))}" for name, rows in
             (("missing", missing), ("extra", extra)) if rows]  # fmt: skip
    kind = " and ".join(name for name, rows in (("missing", missing), ("extra", extra)) if rows)
    return Finding(f"wrong answer: {kind}", f"of {sum(most.values())} rows {'; '.join(parts)}")
