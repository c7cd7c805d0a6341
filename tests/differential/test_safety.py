"""What is said not to fail does not fail: every term on all rows at the edges of the types, in both modes."""

from __future__ import annotations

import pytest

from differential.answers import SPARK_ERRORS
from differential.tables import INTERPRETED, Tables, configured, in_mode
from differential.terms import TERMS
from evenjoin.runtime.spark.conditions.analyst import quiet
from evenjoin.runtime.spark.conditions.safety import may_fail
from evenjoin.spec.skeleton import skeleton, sql

pytestmark = pytest.mark.spark

FAILING = [
    "year(l.s)", "hour(l.s)", "date(l.s)", "timestamp(l.s)", "datediff(l.s, l.a)", "date_trunc('DAY', l.s)",
    "date_add(l.a, l.s)", "floor(l.s)", "sqrt(l.s)", "coalesce(l.s, 0)", "nvl(l.i, l.s)", "if(l.s = 5, 1, 0)",
    "CASE WHEN l.s > 5 THEN 1 END", "CASE l.s WHEN 5 THEN 1 END", "CASE WHEN l.b THEN l.s ELSE 0 END",
    "year(concat(l.s, 'x'))", "sqrt(md5(l.s))", "year(l.st.q)", "left(l.s, l.s)", "array(l.i, l.s)",
    "array_contains(array(l.s), 5)", "l.s || l.s IN (5, 7)", "nvl2(l.i, l.s, 5)", "isnan(l.s)", "try_add(l.i, l.s)",
    "floor(l.d)", "ceil(l.f)",
]  # fmt: skip
"""What fails under ANSI only: Spark casts text by itself, and 'abc' is neither a date nor a number; and no bigint is as
large as 1e308."""
CALM = [
    "upper(l.s)", "concat(l.s, l.i)", "l.s || l.i", "substring(l.s, 1, l.i)", "year(l.t)", "date_trunc('DAY', l.t)",
    "coalesce(l.i, l.n, 0)", "coalesce(l.s, 'x')", "if(l.s = '5', 1, 0)", "CASE WHEN l.s > '5' THEN l.i ELSE l.n END",
    "CAST(l.i AS STRING)", "CAST(l.t AS DATE)", "CAST(l.i AS DOUBLE)", "CAST(l.i8 AS DECIMAL(5,2))", "date(l.t)",
    "bigint(l.i)", "datediff(l.t, l.a)", "l.mp['a']", "l.st.q", "l.s LIKE 'a%'", "length(l.y)", "l.m > 0", "l.d = l.i",
    "sqrt(l.d)", "floor(l.m)", "date_add(l.a, 5)", "date_add(l.a, length(l.s))", "md5(l.s)", "isnan(l.d)",
    "named_struct('p', l.i).p", "replace(l.s, 'a', 'b')", "nvl2(l.s, l.i, 5)", "array_contains(l.arr, l.i)",
]  # fmt: skip
"""What cannot fail, and so may be compared by the engine wherever it stands."""
NEVER_SAFE = ["map(l.s, 1)['a']", "map(l.i, 1, 5, 2)", "try_element_at(l.arr, l.i)", "l.s LIKE l.vc", "l.v + l.v"]


@pytest.fixture(scope="module")
def tables(_session, tmp_path_factory):
    return Tables(_session, tmp_path_factory.mktemp("differential"))


@pytest.mark.parametrize("ansi", [True, False], ids=["ansi", "no ansi"])
def test_what_is_called_safe_does_not_fail(tables, ansi):
    """Spark computes all safe terms for every row of the wild table."""
    terms = {t.replace("@", "l") for some in TERMS.values() for t in some} | {*FAILING, *CALM, *NEVER_SAFE}
    with in_mode(tables.spark, "Asia/Kolkata", ansi), configured(tables.spark, INTERPRETED), quiet():
        analyst = tables.analyst()
        known = [t for t in sorted(terms) if analyst.type(t) is not None]
        calm = [t for t in known if not may_fail(skeleton(t), ansi, analyst.type)]
        assert not _failing(tables, calm)
        assert len(calm) > len(known) / 3


@pytest.mark.parametrize("ansi", [True, False], ids=["ansi", "no ansi"])
def test_what_is_called_safe(tables, ansi):
    """Casts of text that nobody wrote may fail under ANSI only; a map's keys, the index 0 and a column of patterns
    always may; and what cannot fail is known."""
    with in_mode(tables.spark, "UTC", ansi), quiet():
        analyst = tables.analyst()
        unsafe = {t for t in [*FAILING, *CALM, *NEVER_SAFE] if may_fail(skeleton(t), ansi, analyst.type)}
        known = {t for t in FAILING if analyst.type(t) is not None}
    assert unsafe & known == (known if ansi else set())
    assert not unsafe & set(CALM)
    assert unsafe >= set(NEVER_SAFE)


def _failing(tables, terms):
    """Those that fail for a row of the wild left side."""
    if not terms:
        return []
    try:
        tables.frame("wild", "l").selectExpr(*(f"{sql(skeleton(t))} AS c{k}" for k, t in enumerate(terms))).toArrow()
    except SPARK_ERRORS:
        half = len(terms) // 2
        return terms if len(terms) == 1 else _failing(tables, terms[:half]) + _failing(tables, terms[half:])
    return []
