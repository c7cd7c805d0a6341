"""Which runs are merged, as literals, and that their number stays logarithmic."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenjoin.spec import build_spec
from evenjoin.state.segment import FAN, Run, choose, merged
from evenjoin.state.tuples import Tuples, tuple_schemas
from thorough import examples

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
(TUPLES, _) = tuple_schemas(build_spec({"l": SCHEMA, "r": SCHEMA}, "l.k = r.k"))


def runs(*sizes, sub_window=0):
    return tuple(Run(f"{sub_window}-{i}", 0, n, n, sub_window, 0, 0, n, n, 0) for i, n in enumerate(sizes))


def masked(rows, alive):
    return Run("m", 0, rows, alive, 0, 0, 0, rows, rows, 0, mask="3-abc")


CHOICES = [
    ("nothing stored", (), 100, ()),
    ("three small runs wait for a fourth", (5, 5, 5), 100, ()),
    ("four of a size become one", (5, 5, 5, 5), 100, (5, 5, 5, 5)),
    ("all of a full tier at once", (5, 5, 5, 5, 5, 5), 100, (5, 5, 5, 5, 5, 5)),
    ("sizes within a factor of four are one tier", (2, 3, 5, 7), 100, (2, 3, 5, 7)),
    ("sizes far apart are not", (1, 5, 20, 80), 1000, ()),
    ("a large run is left alone", (900, 5, 5, 5, 5), 1000, (5, 5, 5, 5)),
    ("the cheaper of two full tiers", (20, 20, 20, 20, 5, 5, 5, 5), 1000, (5, 5, 5, 5)),
    ("no more than the budget: the smallest that fit", (5, 6, 7, 4), 16, (4, 5, 6)),
    ("of a tier that has outgrown the budget too", (30, 31, 30, 31, 30, 31), 65, (30, 30)),
    ("a single run that fits is no merge", (30, 31, 30, 31), 59, ()),
]


@pytest.mark.parametrize(("stored", "budget", "expected"), [c[1:] for c in CHOICES], ids=[c[0] for c in CHOICES])
def test_choose(stored, budget, expected):
    """See the sentence of each case."""
    assert sorted(run.rows for run in choose(runs(*stored), budget)) == sorted(expected)


def test_sub_windows_are_not_mixed():
    """Two runs in each of two sub-windows are not four of one."""
    assert choose((*runs(5, 5), *runs(5, 5, sub_window=1)), 100) == ()
    four = runs(5, 5, 5, 5, sub_window=1)
    assert choose((*runs(5, 5), *four), 100) == four


def test_a_mostly_dead_run_is_rewritten():
    """A masked run with less than half of its tuples alive, if the budget allows."""
    assert choose((masked(10, 4),), 100) == (masked(10, 4),)
    assert choose((masked(10, 5),), 100) == ()
    assert choose((masked(10, 4),), 9) == ()
    assert choose((masked(10, 0),), 100) == (masked(10, 0),)


@pytest.mark.parametrize("size", [1, 3, 100, 5000])
@pytest.mark.parametrize("batches", [60, 500])
def test_the_number_of_runs_is_logarithmic(size, batches):
    """After n equal batches a place has O(log n) runs, and each tuple was rewritten O(log n) times."""
    stored, rewritten, most = (), 0, 0
    for batch in range(batches):
        due = choose(stored, 10**9)
        rewritten += sum(r.rows for r in due)
        kept = tuple(r for r in stored if r not in due)
        new = Run(f"new{batch}", 0, size, size, 0, 0, 0, size, size, 0)
        total = sum(r.rows for r in due)
        big = (Run(f"big{batch}", 0, total, total, 0, 0, 0, total, total, 0),) if due else ()
        stored = (*kept, *big, new)
        most = max(most, len(stored))
    assert sum(r.rows for r in stored) == size * batches
    levels = math.ceil(math.log(batches, FAN)) + 1
    assert most <= FAN * levels
    assert rewritten <= size * batches * levels


def test_with_a_budget_runs_are_at_most_a_few_per_budget():
    """Batches larger than a quarter of the budget are still merged, up to the budget."""
    stored = ()
    for batch in range(200):
        due = choose(stored, 1000)
        assert sum(r.rows for r in due) <= 1000
        kept = tuple(r for r in stored if r not in due)
        total = sum(r.rows for r in due)
        big = (Run(f"big{batch}", 0, total, total, 0, 0, 0, total, total, 0),) if due else ()
        stored = (*kept, *big, Run(f"new{batch}", 0, 300, 300, 0, 0, 0, 300, 300, 0))
    assert len(stored) <= 200 * 300 / 1000 * 2 + FAN


some_tuples = st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2**32 - 1), st.integers()), max_size=8)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(some_tuples, min_size=1, max_size=4), st.data())
def test_merged_is_the_sorted_union_of_the_live(parts, data):
    """All live tuples of all runs, sorted, with their positions and payloads; the dead are gone."""
    pieces, expected = [], []
    for rows in parts:
        rows = [(code, u, v % 2**31) for code, u, v in rows]
        arrays = [pa.array([r[i] for r in rows], t) for i, t in enumerate((pa.int64(), pa.uint32(), pa.int64()))]
        batch = pa.RecordBatch.from_arrays(arrays, schema=TUPLES.run)
        live = data.draw(st.one_of(st.none(), st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
        pieces.append((Tuples.of(TUPLES, batch), None if live is None else np.array(live, bool)))
        expected += [row for i, row in enumerate(rows) if live is None or live[i]]
    out = merged(TUPLES, pieces)
    got = list(zip(out.codes.tolist(), out.u.tolist(), out.batch["v"].to_pylist(), strict=True))
    assert sorted(got) == sorted(expected)
    assert out.codes.tolist() == sorted(out.codes.tolist())
