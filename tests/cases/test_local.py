"""Every case on the embedded engine, under each strategy, in one batch, row by row and side by side."""

from __future__ import annotations

import pyarrow as pa
import pytest
from harness import CASES, EAGER, SIZED, Run, Step, read_case, reason_to_wait, strategies

import evenjoin
from evenjoin.testing import multiset

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

UPSTREAM = "spark.inner.join_after_window_agg"


def skipped(case, reason):
    """Skipped by name, with what it waits for."""
    return [pytest.mark.skip(reason=f"{case['name']} waits for {reason}")] if reason else []


def params():
    for case in CASES:
        reason = reason_to_wait(case)
        if case["name"] == UPSTREAM:
            reason = "a streaming aggregation upstream, which the embedded engine has not; run on Spark"
        yield pytest.param(case, id=case["name"], marks=skipped(case, reason))


def with_strategies():
    for param in params():
        for strategy in strategies(param.values[0]):
            yield pytest.param(*param.values, strategy, id=f"{param.id}-{strategy}", marks=param.marks)


@pytest.mark.parametrize(("case", "strategy"), list(with_strategies()))
def test_case(case, strategy, tmp_path):
    """The rows the peer's own suite expects, step by step where it says so."""
    run = read_case(case)
    assert execute(run, run.steps, strategy, tmp_path) == run.expected


@pytest.mark.parametrize("order", ["row by row", "in order", "in reverse order"])
@pytest.mark.parametrize("case", [p for p in params() if not p.marks and not p.values[0].get("check")])
def test_arrival_order_does_not_matter(case, order, tmp_path):
    """Cases without a watermark give the same rows however their input is cut and interleaved."""
    run = read_case(case)
    if "watermark" in run.options:
        pytest.skip("its watermark makes the order of arrival part of the case")
    whole = {a: pa.concat_tables(step.rows[a] for step in run.steps) for a in run.schemas}
    steps = []
    if order == "row by row":
        most = max(t.num_rows for t in whole.values())
        size = 1 if most < 100 else most // 20  # generated rows: twenty steps will do
        steps = [Step({a: table.slice(i, size) for a, table in whole.items()}) for i in range(0, most, size)]
    else:
        steps = [Step({a: whole[a]}) for a in (whole if order == "in order" else reversed(whole))]
    assert execute(run, steps, None, tmp_path) == run.expected


def execute(run: Run, steps: list[Step], strategy: str | None, tmp_path):
    instances = 2

    def make():
        return evenjoin.local(
            run.schemas,
            run.on,
            select=run.select,
            strategy=strategy,
            instances=instances,
            checkpoint=tmp_path,
            guards=EAGER if strategy in SIZED else None,
            **run.options,
        )

    join, total = make(), multiset(pa.table({}))
    for step in steps:
        if step.restart:
            join.close()
            instances += 1 if step.rescale else 0
            join = make()
        new = multiset(join.process(step.rows))
        if step.new is not None:
            assert new == step.new
        if step.stored is not None:
            assert sum(join.progress().stored) == step.stored
        total += new
    join.close()
    return total
