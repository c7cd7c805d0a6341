"""Every case on the embedded engine, under each strategy, in one batch, row by row and side by side."""

from __future__ import annotations

import pyarrow as pa
import pytest
from harness import CASES, EAGER, SIZED, Run, Step, read_case, reason_to_wait, strategies

import evenjoin
from evenjoin.errors import ConditionError
from evenjoin.spec import Scope, read
from evenjoin.spec.select import read_output
from evenjoin.testing import multiset

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

UPSTREAM = "spark.inner.join_after_window_agg"
REFUSED = dict.fromkeys(
    (
        "pathway.session.keyed_maxdiff1.left",
        "pathway.session.keyed_maxdiff1.right",
        "pathway.session.keyed_maxdiff2.full",
        "pathway.session.keyed_maxdiff2.right",
        "spark.right.tumbling_basic",
    ),
    "COALESCE() is not evaluated by the embedded engine",
)
"""Cases that the embedded engine refuses, whatever joins there are, with its reason. They are Spark's to run."""


def skipped(case, reason):
    """Skipped by name, with what it waits for."""
    return [pytest.mark.skip(reason=f"{case['name']} waits for {reason}")] if reason else []


def params():
    for case in CASES:
        reason = reason_to_wait(case)
        if case["name"] == UPSTREAM:
            reason = "a streaming aggregation upstream, which the embedded engine has not; run on Spark"
        if reason is None and case["name"] in REFUSED:
            reason = f"Spark: {REFUSED[case['name']]}"
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


def test_what_the_embedded_engine_refuses():
    """Every condition and every output of the cases is read, but for those that are listed by name with the reason."""
    found = {}
    for case in CASES:
        if case["name"] == UPSTREAM:
            continue
        run = read_case(case | {"window": None})  # what kind of window does not matter here
        scope = Scope(run.schemas, pa.int64() if case["window"] else None)
        try:
            for on in [run.on] if isinstance(run.on, str) else run.on:
                read(on, scope)
            for output in run.select:
                read_output(output, scope)
        except ConditionError as error:
            found[case["name"]] = str(error).partition(":")[0]
    assert found == REFUSED


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
