"""What packing saves, measured small: by the formula where newcomers are hubs, by the size of batches elsewhere."""

from __future__ import annotations

import pytest

from evenjoin.bench.packing import PAPER, draw, expected, saving


def test_the_papers_71_percent_is_a_density():
    """3.3 pairs for each newcomer and unit; and 66 % are 2.8."""
    assert round(expected(3.3), 2) == PAPER["cycle"]
    assert round(expected(2.77), 2) == PAPER["chain"]


@pytest.mark.parametrize("density", [1.0, 3.0])
def test_a_cycle_saves_what_the_formula_says(density):
    found = saving("cycle", density, units=1, parts=10, window=300)
    assert found.density == pytest.approx(density, rel=0.15)
    assert found.generated == pytest.approx(expected(found.density), abs=0.03)


def test_a_chain_saves_more_in_larger_batches(tmp_path):
    """And the picture is drawn of any runs."""
    small, large = (saving("chain", 3.0, units=1, parts=parts, window=100) for parts in (10, 1))
    assert small.pairs > 0
    assert small.generated + 0.1 < large.generated
    draw([small, large], tmp_path / "packing.png")
    assert (tmp_path / "packing.png").stat().st_size > 5_000
