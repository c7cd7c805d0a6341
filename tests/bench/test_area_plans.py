"""The benchmark of A-DSP's plans makes real plans, and counts what they are worth by all tuples."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from evenjoin.bench.area_plans import BAND, codes_of, least_tasks, main, plans_of


def test_it_prints_and_keeps_both_plans_of_every_kind(tmp_path: Path) -> None:
    """One line for the first plan and one for the plan made again, each with as many plans as seeds."""
    arguments = ["--rows", "1000", "--tasks", "4", "--zipf", "0", "--zipf", "1", "--seeds", "2", "--out", str(tmp_path)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    lines = json.loads((tmp_path / "area_plans.json").read_text())["lines"]
    kinds = [(line["size"], line["zipf"], line["step"]) for line in lines]
    assert kinds == [(s, z, step) for s in ("limited", "fixed") for z in (0, 1) for step in ("first", "again")]
    assert all(len(line["plans"]) == 2 for line in lines)
    assert "uniform" in result.output


def test_a_fixed_number_of_tasks_is_kept_and_every_tuple_is_stored() -> None:
    """So many tasks, at least one copy of each tuple, and a fullest task that holds no less than the mean."""
    for plan in plans_of("fixed", 4, 0.0, 2000, seed=1):
        assert plan.tasks == 4
        assert plan.copies >= 1
        assert plan.fullest >= plan.copies * (1 - 1e-9)


def test_the_least_tasks_of_a_row_of_codes() -> None:
    """Codes 0 .. 9 once a side, |x - y| <= 2, V = 9: rows 0 to 3 reach columns 0 to 5, which are 10 tuples. So the
    first task has rows 0 to 2; the next ones start at 3, 5 and 7."""
    codes = np.arange(10), np.arange(10)
    assert least_tasks(codes, BAND, 9) == 4
    assert least_tasks(codes, BAND, 20) == 1


def test_heavy_codes_stay_heavy_when_other_tuples_come() -> None:
    """The heaviest code of a seed is the same for both plans and both sides."""
    heaviest = {int(np.bincount(side).argmax()) for n in (0, 1) for side in codes_of(500, 4000, 1.0, (3, n))}
    assert len(heaviest) == 1
