"""How the watermark advances, as literal tables."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.commit.log import Watermark
from evenjoin.runtime.advance import advanced
from thorough import examples

N = None


def run(steps, delays=(10, 10), policy="min", idle_timeout=None):
    """The watermark's value after each step (latest per side, now); a side without a latest time sent nothing."""
    mark, out = Watermark(), []
    for latest, now in steps:
        arrived = tuple(0 if t is None else 1 for t in latest)
        mark = advanced(mark, latest, arrived, delays, policy, float(now), idle_timeout)
        out.append(mark.value)
    return out


@pytest.mark.parametrize(
    ("steps", "options", "values"),
    [
        ([((100, 100), 0)], {}, [90]),
        ([((100, 50), 0)], {}, [40]),
        ([((100, 50), 0), ((100, 80), 1)], {}, [40, 70]),
        ([((100, N), 0), ((120, N), 1)], {}, [N, N]),
        ([((100, N), 0), ((N, 200), 1)], {}, [N, 90]),
        ([((N, N), 0)], {}, [N]),
        ([((100, 100), 0), ((N, N), 1)], {}, [90, 90]),
        ([((100, 100), 0), ((20, 30), 1)], {}, [90, 90]),
        ([((100, 100), 0), ((300, 99), 1)], {}, [90, 90]),
        ([((100, 100), 0)], {"delays": (10, 60)}, [40]),
        ([((100, 100), 0)], {"delays": (0, 0)}, [100]),
        ([((-5, -7), 0)], {}, [-17]),
        ([((100, 50), 0)], {"policy": "max"}, [90]),
        ([((100, N), 0), ((N, 300), 1)], {"policy": "max"}, [90, 290]),
        ([((100, 50), 0)], {"delays": (10, N)}, [90]),
        ([((100, 50), 0)], {"delays": (N, 10)}, [40]),
        ([((100, 50), 0)], {"delays": (N, N)}, [N]),
    ],
    ids=[
        "one delay behind", "the slower side decides", "and is waited for", "a side not seen yet holds it back",
        "until it is seen", "nothing seen", "nothing new", "it never goes back",
        "a side that goes on alone does not move it", "each side has its delay", "no delay", "before the epoch",
        "policy max: the faster side decides", "policy max needs one side only",
        "a side without a watermark does not count", "whichever it is", "no side has one",
    ],
)  # fmt: skip
def test_advanced(steps, options, values):
    """See the sentence of each case."""
    assert run(steps, **options) == values


@pytest.mark.parametrize(
    ("steps", "values"),
    [
        ([((100, 50), 0), ((200, N), 60), ((300, N), 61)], [40, 40, 290]),
        ([((100, 50), 0), ((300, N), 61), ((N, 60), 62)], [40, 290, 290]),
        ([((100, 50), 0), ((300, N), 61), ((N, 400), 62)], [40, 290, 290]),
        ([((100, 50), 0), ((300, N), 61), ((N, 400), 62), ((390, 400), 63)], [40, 290, 290, 380]),
        ([((100, N), 0), ((200, N), 61)], [N, 190]),
        ([((100, 50), 0), ((N, N), 1000)], [40, 40]),
        ([((100, 50), 0), ((N, N), 1000), ((300, N), 1001)], [40, 40, 290]),
        ([((100, 50), 0), ((200, 50), 59), ((300, N), 100)], [40, 40, 40]),
    ],
    ids=[
        "silent for longer than 60 seconds, not for just so long", "a side that comes back late does not turn it back",
        "and counts again", "with its own time", "a side never seen counts from the first batch",
        "when all are silent it stays", "and the first to speak decides", "any row resets the clock",
    ],
)  # fmt: skip
def test_idle_timeout(steps, values):
    """A side silent for more than idle_timeout seconds of wall time does not hold the others back."""
    assert run(steps, idle_timeout=60) == values


times = st.one_of(st.none(), st.integers(-50, 50))


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.tuples(st.tuples(times, times), st.integers(0, 9)), max_size=8),
    st.tuples(*[st.one_of(st.none(), st.integers(0, 20))] * 2),
    st.sampled_from(["min", "max"]),
    st.one_of(st.none(), st.integers(0, 12)),
)
def test_it_never_goes_back_and_never_passes_the_fastest_side(waits, delays, policy, idle_timeout):
    """Monotonic, whatever arrives; at most the greatest (latest - delay) seen so far."""
    now, steps = 0, []
    for latest, wait in waits:
        now += wait
        steps.append((latest, now))
    values = run(steps, delays, policy, idle_timeout)
    known = [v for v in values if v is not None]
    assert known == sorted(known)
    assert None not in values[len(values) - len(known) :]
    for i, value in enumerate(values):
        seen = [
            t - d for latest, _ in steps[: i + 1] for t, d in zip(latest, delays, strict=True) if None not in (t, d)
        ]
        assert value is None or value <= max(seen)
