"""Random conditions of columns, literals and the skeleton on the embedded engine: the answer of Spark's own join, or a
refusal with one of the reasons in spec/refusals.py."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from differential import embedded, oracle
from differential.answers import Pairs, Refused
from differential.conditions import Case
from differential.plain import plain
from differential.run import embedded_verdicts, summary
from differential.tables import Tables
from evenjoin.spec.refusals import REASONS

pytestmark = pytest.mark.spark

PATTERNS = {name: re.compile(re.sub(r"\\{\w+\\}", ".*", re.escape(text)), re.S) for name, text in REASONS.items()}
NEW_YORK = "America/New_York"
REFUSED = {
    "upper(l.s) = r.s": "expression",
    "CAST(l.s AS DOUBLE) = r.d": "expression",
    "l.i = r.i AND l.s LIKE 'a%'": "expression",
    "l.i * 2 = r.i": "expression",
    "CASE WHEN l.b THEN l.i ELSE 0 END = r.i": "expression",
    "l.arr[0] = r.i": "expression",
    "l.f = 0.1F AND l.i = r.i": "literal",
    "l.v > INTERVAL '1 12' DAY TO HOUR AND l.i = r.i": "literal",
    "l.t >= r.t - INTERVAL 1 MONTH": "months",
    "l.i = r.s": "types",
    "l.s = r.y": "types",
    "l.arr = r.arr": "nested",
    "l.w + r.q > 1": "digits",
    "l.m = r.d": "rounding",
    "l.i + NULL > r.i": "sum",
    "l.t = r.z": "clock changes",
    "l.t - r.t < INTERVAL 1 HOUR": "clock changes",
    "l.t <= r.t + INTERVAL 24 HOURS": "clock changes",
}
"""What Spark answers, or fails for, and the embedded engine refuses: by condition the name of its reason."""


@pytest.fixture(scope="module")
def tables(_session, tmp_path_factory):
    return Tables(_session, tmp_path_factory.mktemp("differential"))


@pytest.mark.parametrize("on", REFUSED)
def test_what_is_refused(tables, on):
    """By name. Spark itself does not refuse it, and with an event time or without makes no difference."""
    case = Case(0, on, NEW_YORK, True, "wild", None)
    assert not isinstance(oracle.refusal(tables, case), Refused)
    for event_time in (None, "t"):
        answer = embedded.answer(tables, replace(case, event_time=event_time))
        assert isinstance(answer, Refused)
        assert _reasons(answer.why) == [REFUSED[on]]


def test_some_conditions(tables):
    """No difference, in a zone whose clocks change and in one whose offset is fixed."""
    cases = [replace(plain(seed), zone="+05:30" if seed % 2 else NEW_YORK, flavour="wild") for seed in range(80)]
    _check(tables, cases)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(1000, 5000, 1000))
def test_thousands_of_conditions(tables, first):
    """The same for every zone and both kinds of rows."""
    _check(tables, [plain(seed) for seed in range(first, first + 1000)])


def _check(tables, cases):
    found = list(embedded_verdicts(tables, cases))
    print(summary(found))
    different = [str(verdict) for verdict in found if verdict.outcome == "different"]
    assert not different, "\n".join(different)
    refused = [verdict for verdict in found if verdict.outcome == "refused"]
    assert all(_reasons(verdict.ours.why) for verdict in refused), "\n".join(map(str, refused))
    answered = [verdict for verdict in found if verdict.outcome == "same"]
    assert len(answered) > len(cases) * 2 / 3
    assert sum(bool(verdict.ours.ids) for verdict in answered if isinstance(verdict.ours, Pairs)) > len(cases) / 3


def _reasons(message):
    return [name for name, pattern in PATTERNS.items() if pattern.match(message)]
