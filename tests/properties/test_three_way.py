"""Joins of three and four sides: every strategy gives the brute-force answer, over random conditions and streams.

The joins and streams are those of three_sides.py. A slow campaign repeats the same claims over far more examples.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from three_sides import FORMS, Case, cases, not_late, started, streams, ways, whole

from evenjoin.kernels import hashing
from evenjoin.testing import brute_force, multiset

pytestmark = pytest.mark.filterwarnings("ignore::evenjoin.api.UnboundedStateWarning")

LIMITS = [{}, {"pair_limit": 1}, {"pair_limit": 3, "merge_budget": 20}, {"merge_budget": 6, "sub_window": 2}]
TIMED = ("bounds", "window")


def profile(examples: int) -> Any:
    return settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))


def answer(case: Case, way: Any, stream: Any, **more: Any) -> Counter:
    """All results of a join, run in a way."""
    if case.options.get("event_time") is None:
        more.pop("sub_window", None)
    with started(case, way, **more) as join:
        return sum((multiset(join.process(batch)) for batch in stream), Counter())


def some_ways(more: Any, case: Case, most: int) -> list[Any]:
    """Different ways to run a join."""
    return more.draw(st.lists(st.sampled_from(list(ways(case.spec))), min_size=1, max_size=most, unique=True))


def agrees(case: Case, more: Any) -> None:
    """Any form of join, any drive of its edges, any batches: the ways of running it agree with brute force."""
    stream = more.draw(streams(case.names, most=8 if len(case.names) == 4 else 16))
    expected = brute_force(case.spec, whole(stream))
    for way in some_ways(more, case, 3):
        note(f"{way} {case.on}")
        assert answer(case, way, stream, **more.draw(st.sampled_from(LIMITS))) == expected


@pytest.mark.parametrize("form", FORMS)
def test_the_brute_force_answer(form):
    """Whatever drives the edges, however the rows are cut into batches: each result once."""
    profile(16)(given(cases((form,)), st.data())(agrees))()


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_the_brute_force_answer_many_times(form):
    profile(1000)(given(cases((form,)), st.data())(agrees))()


def agrees_if_codes_collide(case: Case, codes: int, spoilt: str, more: Any) -> None:
    """Hashed codes that all keys share, and second hashes that are good or just as bad."""
    real = hashing.KeyCodec._hashed

    def hashed(codec: Any, columns: Any, purpose: Any) -> Any:
        good = real(codec, columns, purpose)
        return good if spoilt == "codes" and purpose == hashing.CHECK else (good % np.uint64(codes)) << np.uint64(40)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashing.KeyCodec, "_hashed", hashed)
        agrees(case, more)


HASHED = st.integers(1, 2), st.sampled_from(["codes", "codes and checks"])


def test_keys_that_share_a_code():
    """Keys of packs, of further indexes and of edges that are only checked are told apart by the keys themselves."""
    profile(30)(given(cases(hashed_only=True), *HASHED, st.data())(agrees_if_codes_collide))()


@pytest.mark.slow
def test_keys_that_share_a_code_many_times():
    profile(1500)(given(cases(hashed_only=True), *HASHED, st.data())(agrees_if_codes_collide))()


def agrees_without_late_rows(case: Case, delay: int, more: Any) -> None:
    """With a watermark the late rows are missing, and nothing else. All ways agree on which rows are late."""
    stream = more.draw(streams(case.names, most=16, batches=7, in_time=True))
    told = set()
    case = Case(case.names, case.on, {**case.options, "watermark": delay})
    for way in some_ways(more, case, 3):
        note(f"{way} {case.on}")
        late: list[tuple[str, int, int]] = []

        def collect(rows: Any, alias: str, batch: int, late: Any = late) -> None:
            late += [(alias, batch, id_) for id_ in rows["id"].to_pylist()]

        found = answer(case, way, stream, late=collect, **more.draw(st.sampled_from(LIMITS)))
        assert len(set(late)) == len(late)
        if case.options.get("window") is None or case.options["window"].size == case.options["window"].slide:
            assert found == brute_force(case.spec, not_late(stream, late))
        told.add((tuple(sorted(late)), frozenset(found.items())))
    assert len(told) == 1


def test_late_rows_are_missing_and_nothing_else():
    """Time bounds and windows: every strategy calls the same rows late, and joins all others."""
    profile(40)(given(cases(FORMS[:4], TIMED), st.integers(0, 5), st.data())(agrees_without_late_rows))()


@pytest.mark.slow
def test_late_rows_are_missing_and_nothing_else_many_times():
    profile(1500)(given(cases(FORMS[:4], TIMED), st.integers(0, 5), st.data())(agrees_without_late_rows))()
